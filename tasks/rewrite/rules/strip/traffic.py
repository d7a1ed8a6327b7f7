"""What one iteration of a loop reads and writes, and whether iterations get into each other's way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experts.source.lexer import tokenize
from experts.source.syntax import Syntax, strip, unwrap
from tasks.rewrite.rules.lanes.memory import Roots
from tasks.rewrite.rules.lanes.names import Name, walk
from tasks.rewrite.rules.lanes.scalars import index_node
from tasks.rewrite.rules.lanes.types import ELEMENTWISE, GEOMETRY, Unclear

from .site import Site

_PASSED = frozenset(
    {
        "parenthesized_expression",
        "unary_expression",
        "binary_expression",
        "conditional_expression",
        "argument_list",
        "subscript_argument_list",
    }
)
_LEAVES = frozenset({"identifier", "number_literal", "char_literal", "true", "false"})


@dataclass(frozen=True, eq=False)
class Place:
    """An element of memory: `base[i]`, `base[i][j]`."""

    node: Syntax
    base: Name
    indices: tuple[Syntax, ...]
    roots: Roots


def place(site: Site, node: Syntax) -> Place:
    """A subscript taken apart. Raises Unclear where it is more than a name and its indices."""
    inner = node
    indices: list[Syntax] = []
    while inner.type == "subscript_expression":
        indices.insert(0, index_node(inner))
        argument = inner.get("argument")
        if argument is None:
            raise Unclear("an index that is not understood")
        inner = strip(argument)
    base = site.scope.resolve(inner)
    if base is None:
        raise Unclear("memory is accessed through an expression")
    if base.type.width > 1:
        raise Unclear("it computes with vectors already")
    if base.type.depth != len(indices) or not base.type.element:
        raise Unclear(f"{base.text} is not indexed down to a number")
    if any(q.kind == "volatile" for q in base.variable.qualifiers):
        raise Unclear(f"{base.text} is volatile")
    return Place(node, base, tuple(indices), site.memory.roots(inner))


def reads(site: Site, node: Syntax) -> Iterator[Place]:
    """The elements that an expression reads. Raises Unclear for what has an effect, or may have one."""
    todo = [node]
    while todo:
        inner = todo.pop()
        if not inner.is_named:
            continue
        if inner.type == "subscript_expression":
            found = place(site, inner)
            yield found
            todo.extend(found.indices)
        elif inner.type == "identifier":
            name = site.scope.resolve(inner)
            if name is not None and name.type.width > 1:
                raise Unclear("it computes with vectors already")
            if name is not None and (name.type.depth or not name.type.element):
                raise Unclear(f"{name.text} is used as a whole")
        elif inner.type in ("call_expression", "cast_expression"):
            todo.extend(_arguments(site, inner))
        elif inner.type in _PASSED:
            todo.extend(inner.children)
        elif inner.type not in _LEAVES:
            raise Unclear(_fault(inner))


def _arguments(site: Site, node: Syntax) -> list[Syntax]:
    scope = site.scope
    cast = scope.cast(node)
    if cast is not None:
        if cast.type.width > 1:
            raise Unclear("it computes with vectors already")
        if not cast.type.scalar or len(cast.arguments) != 1:
            raise Unclear("a cast to something else than a number")
        return list(cast.arguments)
    callee = scope.callee(node)
    conversion = scope.conversion(node)
    mine = any(f.name == callee for f in site.view.functions) or any(m.name == callee for m in site.view.macros)
    known = callee in ELEMENTWISE or callee in GEOMETRY or (conversion is not None and conversion[1].width == 1)
    if mine or not known:
        vectors = scope.memory_call(node) is not None or conversion is not None
        raise Unclear("it computes with vectors already" if vectors else f"a call of {callee or 'something'}()")
    return scope.arguments(node)


def _fault(node: Syntax) -> str:
    if node.type in ("assignment_expression", "update_expression", "comma_expression"):
        return "an effect inside an expression"
    if node.type == "pointer_expression":
        return "memory is accessed through an expression"
    if node.type == "field_expression":
        return "parts of something are used"
    return "an expression that is not understood"


class Independence:
    """Whether the iterations over `counter` could run in any order.

    `moving` are the variables that every iteration has for itself.
    """

    def __init__(self, site: Site, counter: Name, moving: frozenset[Name]) -> None:
        self.site = site
        self.counter = counter
        self.moving = moving
        self.stores: list[Place] = []
        self.loads: list[Place] = []

    def check(self) -> None:
        """Raises Unclear where an iteration may read or write what another one writes."""
        distinct = self.site.memory.distinct
        for store in self.stores:
            if store.roots is None:
                raise Unclear("what it writes into is not certain")
            if store.base.variable.const:
                raise Unclear("it writes through a pointer to const")
            self._moves(store)
            for other in (*self.stores, *self.loads):
                same = other.base is store.base and self._spelled(other) == self._spelled(store)
                if not same and not distinct(store.roots, other.roots):
                    raise Unclear("an iteration may touch what another one writes")

    def _spelled(self, at: Place) -> list[list[str]]:
        texts = (self.site.scope.spelled(strip(index)) for index in at.indices)
        return [[t.text for t in tokenize(text) if t.kind != "comment"] for text in texts]

    def _moves(self, store: Place) -> None:
        """Whether every iteration writes another element."""
        varying = [index for index in store.indices if self._varies(index)]
        if len(varying) != 1 or self._coefficient(varying[0]) == 0:
            raise Unclear("iterations may write one element")

    def _varies(self, node: Syntax) -> bool:
        resolve = self.site.scope.resolve
        names = {resolve(n) for n in walk(node) if n.type == "identifier"}
        return self.counter in names or bool(self.moving & names) or self._reads_written(node)

    def _reads_written(self, node: Syntax) -> bool:
        inner = [n for n in walk(node) if n.type == "subscript_expression"]
        roots = [place(self.site, n).roots for n in inner if _outermost(n)]
        return any(not self.site.memory.distinct(s.roots, r) for s in self.stores for r in roots)

    def _coefficient(self, node: Syntax) -> int:
        """What an index is of the counter, with a part that stays the same: `2 * j + c` is 2. Raises Unclear."""
        node = strip(node)
        if not self._varies(node):
            return 0
        if node.type == "identifier" and self.site.scope.resolve(node) is self.counter:
            return 1
        left, right = node.get("left"), node.get("right")
        sign = self.site.scope.operator(node)
        if node.type == "binary_expression" and left is not None and right is not None:
            if sign in ("+", "-"):
                other = self._coefficient(right)
                return self._coefficient(left) + (other if sign == "+" else -other)
            if sign == "*" and not (self._varies(left) and self._varies(right)):
                moving, factor = (left, right) if self._varies(left) else (right, left)
                number = self.site.value(self.site.scope.spelled(strip(factor)))
                if number:
                    return number * self._coefficient(moving)
        raise Unclear("it is not certain that iterations write different elements")


def _outermost(node: Syntax) -> bool:
    node = unwrap(node)
    above = node.parent
    return above is None or above.type != "subscript_expression" or above.get("argument") is not node
