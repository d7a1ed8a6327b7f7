"""The lane-th element of vector expressions."""

from __future__ import annotations

from dataclasses import replace

from experts.source.syntax import Syntax, strip

from .memory import Element, Memory
from .names import Cast, Name, Scope
from .scalars import ScalarWriter, index_node
from .shape import is_primary, is_term, patched, unparenthesized
from .types import SCALAR_ARGUMENTS, Type, Unclear

_PLACES = ("identifier", "subscript_expression", "pointer_expression")
_ARGUMENT_OF = ("assignment_expression", "init_declarator", "argument_list")


class VectorWriter(ScalarWriter):
    """Writes vector expressions lane by lane: `a * bk` as `a * bk[lane]`."""

    def __init__(self, scope: Scope, memory: Memory, width: int, lane: str) -> None:
        super().__init__(scope, memory, width)
        self.lane = lane
        self.forms: list[str] = []
        """How memory was accessed, in source order: `c`ast, `i`ndexed cast, `v`load; not by pointers to vectors."""
        self.splats: list[bool] = []
        """For each scalar that stood for a whole vector: whether `(float4)(x)` said so."""
        self.whole: set[str] = set()
        """Variables that were used as whole vectors."""
        self.loads = self.stores = 0
        self.computes = False

    def value(self, node: Syntax) -> str:
        """The right side of an assignment to a vector."""
        kind = self.scope.type_of(node)
        if kind.vector:
            return self.vector(node)
        if not kind.scalar:
            raise Unclear("a part of a vector expression whose type is not known")
        self.splats.append(False)
        return self.scalar(node)

    def vector(self, node: Syntax) -> str:
        """The lane of a vector expression, and a scalar as it is. Raises Unclear."""
        scope = self.scope
        kind = scope.type_of(node)
        if kind.element == "half":
            raise Unclear("half vectors")
        if kind.width != self.width:
            raise Unclear(f"vectors of several widths: {self.width}, {kind.width}")
        if node.type == "parenthesized_expression":
            inner = strip(node)
            # `(*p)`: an index needs none, and C++ might read `(p[0]) - x` as a cast
            bare = inner.type in _PLACES or scope.memory_call(inner) is not None
            return self.vector(inner) if bare else patched(scope, node, self.vector)
        if node.type == "unary_expression":
            self.computes = True
            return patched(scope, node, self.vector)
        if node.type == "binary_expression":
            self.computes = True
            shift = scope.operator(node) in ("<<", ">>")
            return patched(scope, node, lambda part: self._operand(part, kind, shift))
        cast = scope.cast(node)
        if cast is not None:
            return self._cast(node, cast, kind)
        if node.type in _PLACES:
            return self._read(node, kind)
        if node.type == "call_expression":
            return self._call(node, kind)
        raise Unclear("an effect or a choice inside a vector expression")

    def _operand(self, node: Syntax, kind: Type, shift: bool) -> str:
        if self.scope.type_of(node).vector:
            return self.vector(node)
        if shift:
            return self.scalar(node)
        return self.coerced(node, kind.element)

    def _cast(self, node: Syntax, cast: Cast, kind: Type) -> str:
        if len(cast.arguments) != 1:
            raise Unclear("a vector literal of several values")
        inner, above = cast.arguments[0], node.parent
        given = self.scope.type_of(inner)
        if given.vector:
            if given != kind:
                raise Unclear("a cast between vectors")
            text = self.vector(inner)
        elif given.scalar:
            # an assignment converts it as the cast did
            plain = above is not None and (above.type == "init_declarator" or self.scope.operator(above) == "=")
            text = self.scalar(inner) if plain else self.coerced(inner, kind.element, exact=True)
            self.splats.append(True)
        else:
            raise Unclear("a part of a vector expression whose type is not known")
        bare = is_primary(inner) or text.startswith(f"({kind.element})(")
        bare = bare or (above is not None and above.type in _ARGUMENT_OF)
        return text if bare else f"({text})"

    def _read(self, node: Syntax, kind: Type) -> str:
        element = self.element(node)
        if isinstance(element, str):
            return f"{element}[{self.lane}]"
        self.loads += 1
        if self.traffic is not None:
            self.traffic.read_vector(element)
        return element.text(self.lane, self.width)

    def _call(self, node: Syntax, kind: Type) -> str:
        scope = self.scope
        self.pure(node)
        arguments = scope.arguments(node)
        conversion = scope.conversion(node)
        if conversion is not None:
            if len(arguments) != 1 or not scope.type_of(arguments[0]).vector:
                raise Unclear("a conversion of what is no vector")
            return self._convert(conversion[0], arguments[0], kind)
        if scope.memory_call(node) is not None:
            return self._read(node, kind)
        self.computes = True
        listed = node.get("arguments")
        assert listed is not None
        name = scope.callee(node)

        def argument(part: Syntax) -> str:
            if scope.type_of(part).vector:
                return self.vector(part)
            self.splats += [False] if name in SCALAR_ARGUMENTS else []
            return self.coerced(part, kind.element, exact=True)

        return name + scope.text[node.span.start + len(name) : listed.span.start] + patched(scope, listed, argument)

    def _convert(self, how: str, node: Syntax, kind: Type) -> str:
        inner = self.scope.type_of(node).element
        text = self.vector(node)
        if how == "as":
            return f"as_{kind.element}({text})"
        if kind.element not in ("int", "uint", "long", "ulong", "float", "double") or inner == "half":
            raise Unclear(f"a conversion from {inner} to {kind.element}")
        return f"({kind.element})({text})" if not is_primary(node) else f"({kind.element}){text}"

    # places

    def element(self, node: Syntax) -> Element | str:
        """The place of a vector: an array of lanes, or memory. Raises Unclear."""
        scope, node = self.scope, strip(node)
        call = scope.memory_call(node)
        if call is not None:
            arguments = scope.arguments(node)
            if len(arguments) != (3 if call[0] else 2):
                raise Unclear("a vload or vstore that is no call of the builtin")
            self.forms.append("v")
            index, pointer = arguments[-2], arguments[-1]
            constant = self._elements_of(pointer)
            zero = strip(index).type == "number_literal" and scope.spelled(strip(index)) == "0"
            found = self._from(pointer) if zero else self._indexed(pointer, self.scaled(index))
            return replace(found, constant=constant)
        inner = node.get("argument")
        if node.type == "pointer_expression" and inner is not None and scope.operator(node) == "*":
            return self._pointed(strip(inner))
        if node.type == "subscript_expression" and inner is not None:
            name = self._pointer(inner)
            if name is not None:
                return Element(name.text, self._index(index_node(node)), True, self._roots(inner))
            if scope.cast(strip(inner)) is not None:
                return self._cast_place(strip(inner), index_node(node))
        name = self.memory.base(node)
        if name is None or name.type.width == 1 or name.variable.is_pointer:
            raise Unclear("a vector that is no variable")
        self.whole.add(name.text)
        return self.place(node)

    def _pointed(self, pointer: Syntax) -> Element:
        scope = self.scope
        name = self._pointer(pointer)
        if name is not None:
            return Element(name.text, "", True, self._roots(pointer))
        if scope.cast(pointer) is not None:
            return self._cast_place(pointer, None)
        left, right = pointer.get("left"), pointer.get("right")
        if pointer.type == "binary_expression" and scope.operator(pointer) == "+" and left and right:
            name = self._pointer(left)
            if name is not None:
                return Element(name.text, self._index(right), True, self._roots(left))
            if scope.cast(strip(left)) is not None:
                return self._cast_place(strip(left), right)
        raise Unclear("a pointer to vectors that is no variable and no cast")

    def _index(self, node: Syntax) -> str:
        return self.scaled(node).removesuffix(f" * {self.width}")

    def _roots(self, pointer: Syntax) -> frozenset[Name] | None:
        return self.memory.roots(pointer)

    def _cast_place(self, node: Syntax, index: Syntax | None) -> Element:
        cast = self.scope.cast(node)
        assert cast is not None
        if cast.type.depth != 1 or self.scope.type_of(cast.operand).element != cast.type.element:
            raise Unclear("a cast between pointers to other elements")
        constant = self._elements_of(cast.operand)
        self.forms.append("c" if index is None else "i")
        found = self._from(cast.operand) if index is None else self._indexed(cast.operand, self.scaled(index))
        return replace(found, constant=constant)

    def _elements_of(self, pointer: Syntax) -> bool:
        """Whether the single elements that a pointer leads to are const. Raises Unclear where it leads elsewhere."""
        kind, base = self.scope.type_of(pointer), self.memory.base(pointer)
        if kind.depth != 1 or kind.width != 1 or base is None or base.type.width != 1:
            raise Unclear("vectors behind a pointer whose base is not certain")
        if any(q.kind == "volatile" for q in base.variable.qualifiers):
            raise Unclear(f"{base.text} is volatile")
        return base.variable.const

    def _indexed(self, pointer: Syntax, scaled: str) -> Element:
        base = self.scalar(pointer)
        plain = strip(pointer)
        inner = unparenthesized(self.scope, pointer, base)
        text = inner if is_primary(plain) else f"({inner})"
        return Element(text, scaled.removesuffix(f" * {self.width}"), True, self.memory.roots(pointer))

    def _from(self, pointer: Syntax) -> Element:
        """The vector that starts at a pointer: `c + r * N` gives `c[r * N + lane]`."""
        scope, plain, roots = self.scope, strip(pointer), self.memory.roots(pointer)
        if is_primary(plain):
            return Element(unparenthesized(scope, pointer, self.scalar(pointer)), "", False, roots)
        if plain.type == "pointer_expression" and scope.operator(plain) == "&":
            target = strip(plain.get("argument") or plain)
            inner = target.get("argument")
            if target.type == "subscript_expression" and inner is not None and strip(inner).type in _PLACES[:2]:
                index = index_node(target)
                text = self.scalar(index)
                return Element(self.scalar(inner), text if is_term(scope, index) else f"({text})", False, roots)
        parts = self._sum(plain)
        if parts is None:
            return Element(f"({unparenthesized(scope, pointer, self.scalar(pointer))})", "", False, roots)
        base, terms = parts
        text, at = "", terms[0].span.start
        for term in terms:
            text += scope.text[at : term.span.start] + self.scalar(term)
            at = term.span.end
        return Element(self.scalar(base), text, False, roots)

    def _sum(self, node: Syntax) -> tuple[Syntax, list[Syntax]] | None:
        """The pointer and the terms of `p + a - b`; None where the sum of the terms alone could wrap around."""
        scope = self.scope
        terms: list[Syntax] = []
        first = ""
        while node.type == "binary_expression" and scope.operator(node) in ("+", "-"):
            left, right = node.get("left"), node.get("right")
            if left is None or right is None or scope.type_of(right).depth or not scope.type_of(left).depth:
                return None
            terms.insert(0, right)
            first = scope.operator(node)
            node = left
        if first != "+" or not is_primary(node) or scope.type_of(node).depth != 1:
            return None
        kinds = [scope.type_of(t) for t in terms]
        wraps = len(terms) > 1 and any(not k.scalar or k.element == "uint" for k in kinds)
        if len(terms) == 1 and not is_term(scope, terms[0]):
            return None
        return None if wraps else (node, terms)
