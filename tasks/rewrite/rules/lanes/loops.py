"""Loops over lanes: which there are, and what must become vectors together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from experts.source import Anchor, Loop
from experts.source.syntax import Syntax, strip

from .memory import Memory
from .names import Name, Scope, walk
from .regions import Groups, Region, check_name, place_key, unit_of
from .scalars import index_node
from .types import WIDTHS, Type, Unclear

_COUNTERS = tuple(Type(element) for element in ("int", "uint", "long", "ulong"))


@dataclass(frozen=True, eq=False)
class LaneLoop:
    """`for (int lane = 0; lane < W; lane++) statement`."""

    loop: Loop
    node: Syntax
    statement: Syntax
    lane: Name
    width: int

    @property
    def expression(self) -> Syntax:
        """What is computed for each lane."""
        return strip(self.statement.named[0])


@dataclass(frozen=True, eq=False)
class LaneRegion:
    """A region with its loops."""

    region: Region
    loops: tuple[LaneLoop, ...]
    pointers: frozenset[Name]
    """The names that are to point to vectors."""


def lane_loops(scope: Scope) -> list[LaneLoop]:
    """All loops of the form, in source order."""
    nodes = {n.span.start: n for n in scope.nodes if n.type == "for_statement"}
    found = []
    for loop in scope.function.walk_loops():
        at, node = loop.induction, nodes.get(loop.span.start)
        if at is None or node is None or loop.exits or at.type is None or scope.read(at.type) not in _COUNTERS:
            continue
        if at.start.text != "0" or at.comparison != "<" or at.step != "1" or at.bound.text not in map(str, WIDTHS):
            continue
        body = node.get("body")
        if body is not None and body.type == "compound_statement" and len(body.named) == 1:
            body = body.named[0]
        initial = node.get("initializer")
        lane = next((n for n in scope.names if initial is not None and n.declaration is initial), None)
        if body is not None and body.type == "expression_statement" and body.named and lane is not None:
            found.append(LaneLoop(loop, node, body, lane, int(at.bound.text)))
    return found


def varies(scope: Scope, node: Syntax, lane: Name) -> bool:
    """Whether an expression mentions the lane."""
    return any(n.type == "identifier" and scope.resolve(n) is lane for n in walk(node))


def places(scope: Scope, loop: LaneLoop) -> Iterator[Syntax]:
    """The outermost subscripts whose index varies with the lane, in source order."""
    todo = [loop.expression]
    while todo:
        node = todo.pop()
        if node.type == "subscript_expression" and varies(scope, node, loop.lane):
            yield node
        else:
            todo.extend(reversed(node.children))


def lane_regions(
    scope: Scope, memory: Memory, pointers: frozenset[str] = frozenset(), vectors: frozenset[str] = frozenset()
) -> list[LaneRegion]:
    """The regions that are loops over lanes, in source order.

    `pointers` are to become pointers to vectors; `vectors` are arrays to become vectors though no loop is about them.
    """
    loops = [x for x in lane_loops(scope) if any(True for _ in places(scope, x))]
    inside = {id(n): x for x in loops for n in walk(x.statement)}
    retyped = frozenset(n for n in scope.names if n.text in pointers and n.variable.is_pointer)
    arrays = _arrays(scope, memory, loops, inside, vectors)
    changed = retyped | arrays
    groups = Groups()
    units: dict[int, Syntax] = {}
    first: dict[int, str] = {}
    for loop in loops:
        key = id(loop.node)
        units[key] = loop.node
        for place in places(scope, loop):
            base = memory.base(place)
            first.setdefault(key, base.text if base is not None else "")
            if base in changed:
                groups.join(key, id(base))
            else:
                groups.join(key, place_key(memory, loop.node, place, loop.width))
    for name in changed:
        if name.declaration is not None:
            units[id(name.declaration)] = name.declaration
            groups.join(id(name), id(name.declaration))
    for node in scope.nodes:
        used = scope.resolve(node) if node.type == "identifier" else None
        if used is not None and used in changed:
            unit = inside[id(node)].node if id(node) in inside else unit_of(node)
            units[id(unit)] = unit
            groups.join(id(used), id(unit))
    members: dict[Hashable, list[Syntax]] = {}
    for key, unit in units.items():
        members.setdefault(groups.find(key), []).append(unit)
    found = []
    for group, inner in members.items():
        names = tuple(n for n in scope.names if n in changed and groups.find(id(n)) == group)
        own = tuple(x for x in loops if groups.find(id(x.node)) == group)
        if own:
            found.append(_region(scope, names, inner, own, retyped, first))
    return sorted(found, key=lambda r: r.region.start)


def _region(
    scope: Scope,
    names: tuple[Name, ...],
    inner: list[Syntax],
    loops: tuple[LaneLoop, ...],
    retyped: frozenset[Name],
    first: dict[int, str],
) -> LaneRegion:
    units = tuple(sorted(inner, key=lambda n: n.span))
    width = loops[0].width
    fault = None
    try:
        if any(x.width != width for x in loops):
            raise Unclear("loops over several numbers of lanes")
        for unit in units:
            if (why := scope.view.why_opaque(unit.span)) is not None:
                raise Unclear(f"not understood: {why}")
        for name in names:
            check_name(scope, name)
    except Unclear as reason:
        fault = str(reason)
    anchor: Anchor = loops[0].loop.anchor
    start, label = loops[0].loop.span.start, first[id(loops[0].node)]
    if names:
        earliest = min(names, key=lambda n: n.variable.declarator.start)
        anchor, start, label = earliest.variable.anchor, earliest.variable.declarator.start, earliest.text
    return LaneRegion(Region(names, units, anchor, start, label, width, fault), loops, retyped.intersection(names))


def _arrays(
    scope: Scope, memory: Memory, loops: list[LaneLoop], inside: dict[int, LaneLoop], vectors: frozenset[str]
) -> frozenset[Name]:
    """The arrays whose last dimension is always a lane: those become vectors."""
    candidates = {n for n in scope.names if n.text in vectors}
    candidates |= {base for x in loops for p in places(scope, x) if (base := memory.base(p)) is not None}
    found = set()
    for name in candidates:
        variable = name.variable
        plain = variable.is_array and not name.parameter and name.declaration is not None and not variable.pointer_depth
        last = variable.dims[-1] if variable.dims else None
        if not plain or name.type.width != 1 or last is None or not last.text.isdigit():
            continue
        if int(last.text) in WIDTHS and variable.address_space in ("private", "local"):
            uses = [n for n in scope.nodes if n.type == "identifier" and scope.resolve(n) is name]
            width = int(last.text)
            if all(scope.declares(n) or _lane_use(scope, n, len(variable.dims), width, inside) for n in uses):
                found.add(name)
    return frozenset(found)


def _lane_use(scope: Scope, node: Syntax, dims: int, width: int, inside: dict[int, LaneLoop]) -> bool:
    """Whether an array is indexed down to one lane here."""
    for _ in range(dims):
        above = node.parent
        if above is None or above.type != "subscript_expression" or above.get("argument") is not node:
            return False
        node = above
    try:
        last = strip(index_node(node))
    except Unclear:
        return False
    if last.type == "number_literal":
        text = scope.spelled(last)
        return text.isdigit() and int(text) < width
    loop = inside.get(id(node))
    return loop is not None and loop.width == width and last.type == "identifier" and scope.resolve(last) is loop.lane
