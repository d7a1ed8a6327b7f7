"""Vector expressions from expressions of one lane."""

from __future__ import annotations

import re
from dataclasses import dataclass

from experts.source.syntax import Syntax, strip

from .loops import LaneLoop, varies
from .memory import Element, Memory
from .names import Name, Scope
from .scalars import ScalarWriter, index_node
from .shape import is_primary, patched, unparenthesized
from .types import ELEMENTWISE, NARROW, SCALAR_ARGUMENTS, Unclear, common, component

_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"})
_BITS = frozenset({"%", "&", "|", "^", "<<", ">>"})
_FULL = frozenset({"int", "uint", "long", "ulong", "float", "double"})


ANY_NUMBER = ("v", "C")
"""Forms that hold for every access, however many there are."""


@dataclass(frozen=True)
class Style:
    """How vectors are to be written, where there is a choice."""

    forms: str = "v"
    """A letter for each access of memory, in source order: `c` is `*(float4 *)p`, `i` is `((float4 *)p)[i]`, and `v` is
    `vload4(i, p)`. Casts need alignment, so that their number must be right; a lone `v` is for any number. A lone `C`
    is casts for any number, where the caller knows that everything is aligned."""
    splat: bool = False
    digits: bool = False
    spelling: str = ""


class VectorGatherer(ScalarWriter):
    """Writes the vector form: `a * bk[lane]` as `a * bk`."""

    def __init__(
        self, scope: Scope, memory: Memory, width: int, arrays: frozenset[Name], pointers: frozenset[Name], style: Style
    ) -> None:
        super().__init__(scope, memory, width)
        self.arrays = arrays
        self.pointers = pointers
        self.style = style
        self.loop: LaneLoop | None = None
        self.used = 0
        """Accesses of memory so far."""
        self.loads = self.stores = 0
        self.computes = False

    def type_name(self, element: str) -> str:
        """The vector type."""
        return self.style.spelling or f"{element}{self.width}"

    # scalars

    def scalar(self, node: Syntax) -> str:
        """A scalar expression: lanes with a number become components. Raises Unclear."""
        scope = self.scope
        if node.type == "identifier" and not scope.declares(node):
            name = scope.resolve(node)
            if self.loop is not None and name is self.loop.lane:
                raise Unclear("the number of the lane is used")
            if name in self.arrays or name in self.pointers:
                raise Unclear(f"{scope.spelled(node)} is used as a whole")
        if self.traffic is not None:
            self.pure(node)
        if node.type == "subscript_expression":
            part = self._component_of(node)
            if part is not None:
                return part
        moved = self._bumped(node)
        if moved is not None:
            return moved
        self.note(node)
        return patched(scope, node, self.scalar)

    def _component_of(self, node: Syntax) -> str | None:
        name, inner = self.memory.base(node), node.get("argument")
        if inner is None or (name not in self.arrays and name not in self.pointers) or name is None:
            return None
        index = strip(index_node(node))
        if name in self.arrays:
            if name.type.depth != len(self._indices(node)) or index.type != "number_literal":
                raise Unclear(f"{name.text} is indexed by what is no lane")
            if self.traffic is not None:
                self.traffic.read_lane(name)
            return f"{self._part(strip(inner))}.{component(int(self.scope.spelled(index)), self.width, self._letters)}"
        if self.traffic is not None:
            self.traffic.read_scalar(self.memory.roots(inner))
        lane, first = 0, index
        if index.type == "binary_expression" and self.scope.operator(index) == "+":
            right, left = index.get("right"), index.get("left")
            digits = self.scope.spelled(right) if right is not None else ""
            if digits.isdigit() and int(digits) < self.width and left is not None:
                lane, first = int(digits), left
        return f"{name.text}[{self.vectors(first)}].{component(lane, self.width, self._letters)}"

    @property
    def _letters(self) -> bool:
        return not self.style.digits

    def vectors(self, node: Syntax) -> str:
        """What `x * W` counts, in vectors. Raises Unclear."""
        node = strip(node)
        left, right = node.get("left"), node.get("right")
        product = node.type == "binary_expression" and self.scope.operator(node) == "*"
        if product and left and right and self.scope.spelled(right) == str(self.width):
            return unparenthesized(self.scope, left, self.scalar(left))
        raise Unclear(f"an index that counts no vectors of {self.width}")

    def _bumped(self, node: Syntax) -> str | None:
        left, right = node.get("left"), node.get("right")
        name = self.scope.resolve(strip(left)) if left is not None else None
        if node.type != "assignment_expression" or right is None or name is None or name not in self.pointers:
            return None
        self._alone(node)
        sign = self.scope.operator(node)
        if sign == "=":
            return f"{name.text} = {self.pointer(right, name)}"
        if sign not in ("+=", "-="):
            raise Unclear(f"{name.text} is used as a whole")
        if self.scope.spelled(right) == str(self.width):
            return f"{name.text}{sign[0] * 2}"
        return f"{name.text} {sign} {self.vectors(right)}"

    def pointer(self, node: Syntax, owner: Name) -> str:
        """What a pointer to elements is set to, as a pointer to vectors. Raises Unclear."""
        scope, inner = self.scope, strip(node)
        name = scope.resolve(inner)
        if name is not None and name in self.pointers:
            return name.text
        left, right = inner.get("left"), inner.get("right")
        base = self.memory.base(inner)
        if base is not None and base in self.pointers:
            if inner.type == "pointer_expression" and scope.operator(inner) == "&":
                target = strip(inner.get("argument") or inner)
                return f"&{base.text}[{self.vectors(index_node(target))}]"
            if inner.type != "binary_expression" or left is None or right is None:
                raise Unclear(f"{owner.text} is set to what is not understood")
            return f"{self.pointer(left, owner)} {scope.operator(inner)} {self.vectors(right)}"
        if scope.type_of(inner).depth != 1 or scope.type_of(inner).element != owner.type.element:
            raise Unclear(f"{owner.text} is set to what is not understood")
        cast = scope.cast(inner)
        operand = cast.operand if cast is not None and cast.type == owner.type else node
        text = self.scalar(operand)
        if not is_primary(operand) and operand.type not in ("cast_expression", "pointer_expression"):
            text = f"({text})"
        return f"({self._pointer_type(owner, owner.type.element)}){text}"

    # vectors

    def varies(self, node: Syntax) -> bool:
        """Whether an expression has another value for each lane."""
        return self.loop is not None and varies(self.scope, node, self.loop.lane)

    def vector(self, node: Syntax) -> str:
        """A vector expression for an expression that varies. Raises Unclear."""
        scope = self.scope
        if node.type == "parenthesized_expression":
            return patched(scope, node, self.vector)
        if node.type == "subscript_expression":
            return self._place(node, reads=True)
        element = scope.type_of(node).element
        if node.type in ("unary_expression", "binary_expression"):
            sign = scope.operator(node)
            parts = [n for n in node.named if self.varies(n)]
            kinds = {scope.type_of(p).element for p in parts}
            bits = node.type == "binary_expression" and sign in _BITS
            if sign not in _ARITHMETIC | {"~"} or kinds != {element} or element not in _FULL:
                raise Unclear(f"{sign} on lanes")
            if element in ("float", "double") and (bits or sign == "~"):
                raise Unclear(f"{sign} on lanes of {element}")
            self.computes = True
            shift = sign in ("<<", ">>")
            left = node.get("left")
            if shift and left is not None and not self.varies(left):
                raise Unclear("a scalar shifted by lanes")
            return patched(scope, node, lambda part: self._operand(part, element, shift))
        if node.type == "call_expression" and scope.cast(node) is None:
            return self._called(node, element)
        cast = scope.cast(node)
        if cast is not None and cast.type.scalar and len(cast.arguments) == 1:
            return self._converted("convert", cast.operand, cast.type.element)
        raise Unclear("a choice, a comparison or an effect on lanes")

    def _operand(self, node: Syntax, element: str, shift: bool) -> str:
        if self.varies(node):
            return self.vector(node)
        return self.scalar(node) if shift else self.beside(node, element)

    def beside(self, node: Syntax, element: str) -> str:
        """A scalar that becomes a vector beside one. Raises Unclear where C would convert the vector instead."""
        kind = self.scope.type_of(node)
        if not kind.scalar or common(kind.element, element) != element:
            raise Unclear("a scalar of another type beside lanes")
        return self.scalar(node)

    def splatted(self, node: Syntax, element: str) -> str:
        """A scalar as a vector of its own."""
        if not self.scope.type_of(node).scalar:
            raise Unclear("a part whose type is not known")
        return f"({self.type_name(element)})({unparenthesized(self.scope, node, self.scalar(node))})"

    def _called(self, node: Syntax, element: str) -> str:
        scope, name = self.scope, self.scope.callee(node)
        arguments = scope.arguments(node)
        conversion = scope.conversion(node)
        if conversion is not None and len(arguments) == 1:
            return self._converted(conversion[0], arguments[0], conversion[1].element)
        self.pure(node)
        lanes = {scope.type_of(a).element for a in arguments if self.varies(a)}
        if element not in ELEMENTWISE.get(name, frozenset()) or lanes != {element}:
            raise Unclear(f"{name}() on lanes")
        self.computes = True
        listed = node.get("arguments")
        assert listed is not None
        rest = arguments[1:]
        scalars = [a for a in rest if not self.varies(a)]
        narrow = name in SCALAR_ARGUMENTS and len(scalars) == len(rest) and not self.style.splat
        narrow = narrow and all(scope.type_of(a).element == element for a in scalars)

        def argument(part: Syntax) -> str:
            if self.varies(part):
                return self.vector(part)
            self.beside(part, element)
            return self.scalar(part) if narrow and part is not arguments[0] else self.splatted(part, element)

        return name + scope.text[node.span.start + len(name) : listed.span.start] + patched(scope, listed, argument)

    def _converted(self, how: str, node: Syntax, element: str) -> str:
        inner = strip(node)
        source = self.scope.type_of(inner).element
        if source not in _FULL | NARROW or element not in _FULL or not self.varies(inner):
            raise Unclear(f"a conversion of lanes to {element}")
        if how == "convert" and source == element:
            return f"({self.vector(inner)})" if not is_primary(inner) else self.vector(inner)
        return f"{how}_{element}{self.width}({self.vector(inner)})"

    # places

    def _next_form(self) -> str:
        forms = self.style.forms or "v"
        self.used += 1
        if forms in ANY_NUMBER:
            return forms.lower()
        if self.used > len(forms):
            raise Unclear("it accesses memory more often than it did")
        return forms[self.used - 1]

    def _place(self, node: Syntax, reads: bool) -> str:
        """A vector that is read or written. Raises Unclear."""
        name = self.memory.base(node)
        inner, index = node.get("argument"), strip(index_node(node))
        assert inner is not None
        if self.varies(inner):
            raise Unclear("an index in which the lane does not come last")
        if name is not None and name in self.arrays:
            if index.type != "identifier" or name.type.depth != len(self._indices(node)):
                raise Unclear(f"{name.text} is indexed by more than the lane")
            return self._part(strip(inner))
        element = self._element(inner, index)
        if reads:
            self.loads += 1
            if self.traffic is not None:
                self.traffic.read_vector(element)
        elif self.traffic is not None:
            self.stores += 1
            self.traffic.target = element
        if name is not None and name in self.pointers:
            if not element.whole or inner.type != "identifier":
                raise Unclear(f"an index of {name.text} that counts no vectors")
            return f"{name.text}[{self._stripped(element.index)}]" if element.index else f"*{name.text}"
        return self._written(node, element, self._next_form())

    @staticmethod
    def _stripped(text: str) -> str:
        """An index without the parentheses around all of it."""
        match = re.fullmatch(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text)
        return match[1] if match is not None else text

    def _element(self, pointer: Syntax, index: Syntax) -> Element:
        scope = self.scope
        name = self.memory.base(pointer)
        kind = scope.type_of(pointer)
        if kind.depth != 1 or kind.width != 1 or kind.element not in _FULL | NARROW - {"bool"} or name is None:
            raise Unclear("lanes behind a pointer that is not certain")
        if any(q.kind == "volatile" for q in name.variable.qualifiers):
            raise Unclear(f"{name.text} is volatile")
        if name.variable.is_array and name.variable.address_space == "private":
            raise Unclear(f"{name.text} is an array that is indexed otherwise, too")
        roots = self.memory.roots(pointer)
        base = scope.spelled(pointer) if name in self.pointers else self.scalar(pointer)
        if index.type == "identifier":
            return Element(base, "", False, roots)
        left, right = index.get("left"), index.get("right")
        if index.type != "binary_expression" or scope.operator(index) != "+" or left is None or right is None:
            raise Unclear("an index that is no sum with the lane")
        if strip(left).type == "identifier" and self.varies(left):
            left, right = right, left
        if not (strip(right).type == "identifier" and self.varies(right)) or self.varies(left):
            raise Unclear("an index that is no sum with the lane")
        inner_left, inner_right = left.get("left"), left.get("right")
        product = left.type == "binary_expression" and scope.operator(left) == "*"
        if product and inner_left and inner_right and scope.spelled(inner_right) == str(self.width):
            return Element(base, self.scalar(inner_left), True, roots)
        return Element(base, self.scalar(left), False, roots)

    def _written(self, node: Syntax, element: Element, form: str) -> str:
        """An access that is no variable, in the form."""
        owner = self.memory.base(node)
        kind = self.scope.type_of(node).element
        assert owner is not None
        base, index = element.base, element.index
        if form == "v":
            where = self._stripped(index) if element.scaled else "0"
            offset = index if not element.scaled else ""
            self._followed(strip(node.get("argument") or node), bool(offset))
            pointer = self._stripped(base)
            if offset:
                pointer = f"&{base}[{offset}]" if self._kept_whole(node) else f"{base} + {offset}"
            return f"vload{self.width}({where}, {pointer})"
        cast = f"({self._pointer_type(owner, kind)})"
        if form == "i":
            if not element.scaled:
                raise Unclear("an index that counts no vectors")
            return f"({cast}{base})[{self._stripped(index)}]"
        offset = f"{index} * {self.width}" if element.scaled else index
        if index and self._kept_whole(node):
            return f"*{cast}&{base}[{offset}]"
        return f"*{cast}({base} + {offset})" if index else f"*{cast}{base}"

    def _pointer_type(self, owner: Name, element: str) -> str:
        kept = [q for q in owner.variable.qualifiers if not q.on_pointer and q.kind in ("address_space", "const")]
        return " ".join((*(q.text for q in sorted(kept, key=lambda q: q.span)), self.type_name(element), "*"))

    def _kept_whole(self, node: Syntax) -> bool:
        """Whether the index without the lane is written `&p[i]`, not `p + i`.

        So it is in a row of an array, and where its terms one by one may not give what their sum gives, as it wraps.
        """
        scope = self.scope
        if strip(node.get("argument") or node).type == "subscript_expression":
            return True
        index = strip(index_node(node))
        left, right = index.get("left"), index.get("right")
        part = right if left is not None and left.type == "identifier" and self.varies(left) else left
        terms: list[Syntax] = []
        while part is not None and part.type == "binary_expression" and scope.operator(part) in ("+", "-"):
            terms += part.all("right")
            part = part.get("left")
        kinds = [scope.type_of(t) for t in (*terms, *([part] if part is not None else []))]
        return bool(terms) and any(not k.scalar or k.element == "uint" for k in kinds)

    @staticmethod
    def _followed(pointer: Syntax, moves: bool) -> None:
        """Whether the view follows a vload from a pointer, to which something may be added. Raises Unclear."""
        row = pointer.type == "subscript_expression"
        while pointer.type == "subscript_expression":
            pointer = strip(pointer.get("argument") or pointer)
        if (row or moves) and pointer.type != "identifier":
            raise Unclear("a sum, a cast or an address that is indexed further")

    def target(self, node: Syntax) -> str:
        """What an assignment of lanes writes, as it would be read: `vload4(i, p)` too. Raises Unclear."""
        if node.type != "subscript_expression" or not self.varies(node):
            raise Unclear("what is assigned to is no lane")
        name = self.memory.base(node)
        text = self._place(node, reads=False)
        if self.traffic is not None and name in self.arrays:
            self.traffic.written = name
        return text
