"""Vector variables and pointers inside scalar expressions: components, and pointers that move."""

from __future__ import annotations

from experts.source.syntax import Syntax, strip, unwrap

from .memory import Memory, Traffic
from .names import Name, Scope
from .shape import is_factor, is_term, patched, unparenthesized
from .types import Unclear, common, component, lane_index

_IMPURE = frozenset({"assignment_expression", "update_expression", "lambda_expression", "gnu_asm_expression"})


class ScalarWriter:
    """Writes scalar expressions for arrays of lanes: `v.x` as `v[0]`."""

    def __init__(self, scope: Scope, memory: Memory, width: int) -> None:
        self.scope = scope
        self.memory = memory
        self.width = width
        self.traffic: Traffic | None = None
        """Set while a statement is written that runs once a lane: then nothing may have an effect."""
        self.components: set[str] = set()
        """How components were written."""

    def scalar(self, node: Syntax) -> str:
        """The text of an expression that is no vector. Raises Unclear where a vector is used as a whole."""
        scope = self.scope
        if node.type == "identifier":
            name = scope.resolve(node)
            if name is not None and name.type.width > 1 and not scope.declares(node):
                raise Unclear(f"{name.text} is {_use(scope, node)}")
            return scope.spelled(node)
        if self.traffic is not None:
            self.pure(node)
        inner = node.get("argument") if node.type == "field_expression" else None
        if inner is not None and scope.type_of(inner).vector:
            return self._component(node, strip(inner))
        moved = self._moved(node)
        if moved is not None:
            return moved
        cast = scope.cast(node)
        call = scope.memory_call(node)
        if (cast is not None and cast.type.width > 1) or call is not None or self._converts(node):
            raise Unclear("a vector inside a scalar expression")
        if cast is not None and not cast.type.element and cast.type.depth == 0 and self.traffic is not None:
            raise Unclear("a cast to a type that is not known")
        self.note(node)
        return patched(scope, node, self.scalar)

    def note(self, node: Syntax) -> None:
        """Note a number that is read from memory."""
        above = unwrap(node).parent
        addressed = above is not None and above.type == "pointer_expression" and self.scope.operator(above) == "&"
        if self.traffic is None or addressed:
            return
        if node.type in ("subscript_expression", "pointer_expression"):
            pointer = node.get("argument")
            if pointer is not None and self.scope.operator(node) != "&" and self.scope.type_of(node).depth == 0:
                self.traffic.read_scalar(self.memory.roots(pointer))
        elif node.type == "field_expression" and self.scope.operator(node) == "->":
            self.traffic.read_scalar(None)

    def _converts(self, node: Syntax) -> bool:
        conversion = self.scope.conversion(node)
        return conversion is not None and conversion[1].width > 1

    def pure(self, node: Syntax) -> None:
        """Raises Unclear for what has an effect, or may have one."""
        if node.type in _IMPURE:
            raise Unclear("an effect that would happen once a lane")
        if node.type == "call_expression" and self.scope.cast(node) is None:
            callee = self.scope.callee(node)
            macros = [m for m in self.scope.view.macros if m.name == callee]
            value = bool(macros) and all(m.shape == "value" for m in macros)
            own = any(f.name == callee for f in self.scope.view.functions)
            if own or not (value or self.scope.type_of(node).element):
                raise Unclear(f"a call of {callee or 'something'}() that would happen once a lane")

    def _component(self, node: Syntax, vector: Syntax) -> str:
        part = node.get("field")
        label = self.scope.spelled(part) if part is not None else ""
        lane = lane_index(label, self.width)
        if lane is None:
            raise Unclear(f"a swizzle of several components: .{label}")
        self.components.add("letter" if component(lane, self.width, True) == label else "digit")
        name = self.memory.base(vector)
        if vector.type not in ("identifier", "subscript_expression") or name is None or name.type.width != self.width:
            raise Unclear("a component of what is no variable")
        if not name.variable.is_pointer:
            if self.traffic is not None:
                self.traffic.read_lane(name)
            return f"{self.place(vector)}[{lane}]"
        if self.traffic is not None:
            self.traffic.read_scalar(self.memory.roots(vector))
        index = self._indices(vector)[0]
        return f"{name.text}[{self.scaled(index)}{f' + {lane}' if lane else ''}]"

    def place(self, vector: Syntax) -> str:
        """A vector variable, or an element of an array of them, as an array of lanes: `acc[r]`."""
        name = self.memory.base(vector)
        indices = self._indices(vector)
        if name is None or name.type.width != self.width or name.type.depth != len(indices):
            raise Unclear("an array of vectors that is not indexed down to one")
        return self._part(vector)

    def _part(self, node: Syntax) -> str:
        if node.type == "identifier":
            return self.scope.spelled(node)
        inner = node.get("argument")
        if node.type != "subscript_expression" or inner is None:
            raise Unclear("an array of vectors that is not indexed down to one")
        return self._part(inner) + self._tail(node, inner)

    def _tail(self, node: Syntax, inner: Syntax) -> str:
        text, index = self.scope.text, index_node(node)
        return text[inner.span.end : index.span.start] + self.scalar(index) + text[index.span.end : node.span.end]

    def _indices(self, node: Syntax) -> list[Syntax]:
        indices: list[Syntax] = []
        while node.type == "subscript_expression":
            indices.insert(0, index_node(node))
            inner = node.get("argument")
            if inner is None:
                break
            node = strip(inner)
        return indices

    def scaled(self, index: Syntax) -> str:
        """An index of vectors as one of their elements."""
        text = self.scalar(index)
        return f"{text if is_factor(self.scope, index) else f'({text})'} * {self.width}"

    def coerced(self, node: Syntax, element: str, exact: bool = False) -> str:
        """A scalar beside a vector: of another type it becomes the vector's, as OpenCL has it.

        `exact`: where C would not convert it, or not to this type.
        """
        kind = self.scope.type_of(node)
        if not kind.scalar:
            raise Unclear("a part of a vector expression whose type is not known")
        text = self.scalar(node)
        if kind.element == element or (not exact and common(kind.element, element) == element):
            return text
        inner = strip(node)
        if inner.type == "number_literal" and kind.element == "double" and element == "float":
            return text.replace(self.scope.spelled(inner), self.scope.spelled(inner) + "f")
        if not common(kind.element, element):
            raise Unclear(f"a {kind.element} beside a vector")
        return f"({element})({unparenthesized(self.scope, node, text)})"

    # pointers

    def _pointer(self, node: Syntax | None) -> Name | None:
        """The pointer to vectors that an expression names."""
        name = self.scope.resolve(strip(node)) if node is not None else None
        return name if name is not None and name.type.width > 1 and name.variable.is_pointer else None

    def _moved(self, node: Syntax) -> str | None:
        """A pointer to vectors that is set or moved: `p++` as `p += 4`."""
        scope = self.scope
        if node.type == "update_expression" and (name := self._pointer(node.get("argument"))) is not None:
            self._alone(node)
            return f"{name.text} {scope.operator(node)[0]}= {self.width}"
        left, right = node.get("left"), node.get("right")
        if node.type != "assignment_expression" or right is None or (name := self._pointer(left)) is None:
            return None
        self._alone(node)
        sign = scope.operator(node)
        if sign == "=":
            return f"{name.text} = {self.pointer(right, name)}"
        if sign not in ("+=", "-="):
            raise Unclear(f"{name.text} is used as a whole")
        return f"{name.text} {sign} {self.scaled(right)}"

    def _alone(self, node: Syntax) -> None:
        """Whether the value of an assignment is not used. Raises Unclear."""
        whole = unwrap(node)
        above = whole.parent
        while above is not None and above.type == "comma_expression":
            whole, above = above, above.parent
        head = above is not None and above.type == "for_statement" and whole.field in ("initializer", "update")
        if above is None or not (above.type == "expression_statement" or head):
            raise Unclear("a pointer that moves inside an expression")

    def pointer(self, node: Syntax, owner: Name) -> str:
        """What a pointer to vectors is set to, as a pointer to their elements. Raises Unclear."""
        scope, inner = self.scope, strip(node)
        cast = scope.cast(inner)
        if cast is not None:
            return self._recast(inner, owner)
        own = self._pointer(inner)
        if own is not None and own.type == owner.type:
            return own.text
        if inner.type == "binary_expression" and scope.operator(inner) in ("+", "-"):
            left, right = inner.get("left"), inner.get("right")
            if left is not None and right is not None and scope.type_of(left).depth == 1:
                return f"{self.pointer(left, owner)} {scope.operator(inner)} {self.scaled(right)}"
        if inner.type == "pointer_expression" and scope.operator(inner) == "&":
            target = strip(inner.get("argument") or inner)
            name = self._pointer(target.get("argument")) if target.type == "subscript_expression" else None
            if name is not None and name.type == owner.type:
                return f"&{name.text}[{self.scaled(index_node(target))}]"
        raise Unclear(f"{owner.text} is set to something else than a cast or a pointer to vectors")

    def _recast(self, node: Syntax, owner: Name) -> str:
        """A cast to a pointer to vectors: dropped where its operand has the type already."""
        scope, cast = self.scope, self.scope.cast(node)
        assert cast is not None
        operand = cast.operand
        inner, base = scope.type_of(operand), self.memory.base(operand)
        if cast.type != owner.type or inner.depth != 1 or inner.width != 1 or inner.element != owner.type.element:
            raise Unclear("a cast between pointers to other elements")
        if base is None or base.type.width != 1:
            raise Unclear("a cast of what has no certain base")
        if any(q.kind == "volatile" for q in base.variable.qualifiers):
            raise Unclear(f"{base.text} is volatile")
        text = self.scalar(operand)
        if base.variable.const and not owner.variable.const:
            before = scope.text[node.span.start : cast.type_span.start]
            inside = cast.type_span.of(scope.text)
            word = next(w for w in inside.split() if scope.read(w.rstrip("*")).width > 1).rstrip("*")
            behind = scope.text[cast.type_span.end : operand.span.start]
            return before + inside.replace(word, cast.type.element, 1) + behind + text
        return unparenthesized(scope, operand, text) if is_term(scope, strip(operand)) else text


def index_node(subscript: Syntax) -> Syntax:
    """The index of `a[i]`. Raises Unclear for `a[i, j]`."""
    listed = subscript.get("indices")
    if listed is None or len(listed.named) != 1 or listed.named[0].type == "comma_expression":
        raise Unclear("an index of several parts")
    return listed.named[0]


def _use(scope: Scope, node: Syntax) -> str:
    """How a variable is used that is no part of what the rule knows."""
    around = unwrap(node).parent
    while around is not None:
        if around.type == "call_expression":
            return f"an argument of {scope.callee(around)}()"
        if around.type == "return_statement":
            return "returned"
        if around.type == "pointer_expression" and scope.operator(around) == "&":
            return "used through its address"
        if around.type == "sizeof_expression":
            return "in a sizeof"
        if around.type.endswith(("_statement", "declaration", "clause")):
            break
        around = around.parent
    return "used as a whole"
