"""What must change together: vector variables, pointers to vectors, and the statements that use them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from experts.source import Anchor
from experts.source.syntax import Syntax, operator

from .memory import Memory
from .names import Name, Scope
from .types import Unclear

_LOOPS = ("for_statement", "while_statement", "do_statement")


class Groups:
    """Sets that grow together."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def find(self, item: Hashable) -> Hashable:
        """What stands for the set of an item."""
        while (above := self._above.setdefault(item, item)) != item:
            self._above[item] = self._above.setdefault(above, above)
            item = above
        return item

    def join(self, *items: Hashable) -> None:
        """Put the sets of the items together."""
        first, *rest = (self.find(item) for item in items)
        for other in rest:
            self._above[self.find(other)] = self.find(first)


@dataclass(frozen=True, eq=False)
class Region:
    """One region of a function, as vectors or as lanes."""

    names: tuple[Name, ...]
    """Its variables and pointers."""
    units: tuple[Syntax, ...]
    """Its statements, declarations and conditions, in source order."""
    anchor: Anchor
    start: int
    """Where its first variable or access stands."""
    label: str
    """Its name, or that of the memory it starts with."""
    width: int
    fault: str | None
    """Why it is not understood."""


def loop_around(node: Syntax) -> Syntax | None:
    """The loop that a node stands in."""
    return node.inside(lambda n: n.type in _LOOPS)


def unit_of(node: Syntax) -> Syntax:
    """The statement, declaration or condition that a node is part of."""
    while node.type not in ("expression_statement", "declaration") and node.parent is not None:
        above = node.parent
        if above.type in ("condition_clause", "compound_statement", "function_definition", "switch_statement"):
            return node
        if above.type.endswith("_statement") and above.type != "expression_statement":
            return node
        node = above
    return node


def vector_regions(scope: Scope, memory: Memory) -> list[Region]:
    """The regions that are written with vectors, in source order."""
    groups = Groups()
    members: dict[Hashable, list[Name | Syntax]] = {}
    sites: list[tuple[Syntax, Syntax]] = []  # with its unit
    widths: dict[Hashable, set[int]] = {}
    names = [n for n in scope.names if n.type.width > 1]
    for name in names:
        if name.declaration is not None:
            groups.join(id(name), id(name.declaration))
    for node in scope.nodes:
        width, keys = _site(scope, memory, node)
        if width == 0:
            continue
        unit = unit_of(node)
        sites.append((node, unit))
        groups.join(id(unit), *keys)
        widths.setdefault(id(unit), set()).add(width)
    units = {id(u): u for _, u in sites}
    units.update((id(n.declaration), n.declaration) for n in names if n.declaration is not None)
    used = {groups.find(key) for key in units}
    for name in names:
        # what stands outside functions counts where it is used
        if name.declaration is not None or name.parameter or groups.find(id(name)) in used:
            members.setdefault(groups.find(id(name)), []).append(name)
    for key, unit in units.items():
        members.setdefault(groups.find(key), []).append(unit)
    found = []
    for items in members.values():
        own = tuple(i for i in items if isinstance(i, Name))
        if len(own) == len(items):
            continue  # a parameter that is not used
        inner = tuple(sorted((i for i in items if isinstance(i, Syntax)), key=lambda n: n.span))
        all_widths = {n.type.width for n in own}.union(*(widths.get(id(u), set()) for u in inner))
        kept = {id(u) for u in inner}
        found.append(_region(scope, own, inner, all_widths, [n for n, u in sites if id(u) in kept]))
    return sorted(found, key=lambda r: r.start)


def _site(scope: Scope, memory: Memory, node: Syntax) -> tuple[int, list[Hashable]]:
    """The width of the vectors that a node brings in (0 for none), and what it shares them with."""
    if node.type == "identifier":
        name = scope.resolve(node)
        return (name.type.width, [id(name)]) if name is not None and name.type.width > 1 else (0, [])
    cast, call, conversion = scope.cast(node), scope.memory_call(node), scope.conversion(node)
    if cast is not None and cast.type.width > 1:
        accesses = cast.type.depth and access_of(node) is not node
        keys = [place_key(memory, node, cast.operand, cast.type.width)] if accesses else []
        return cast.type.width, keys
    if call is not None:
        arguments = scope.arguments(node)
        return call[1], [place_key(memory, node, arguments[-1], call[1])] if arguments else []
    if conversion is not None and conversion[1].width > 1:
        return conversion[1].width, []
    return 0, []


def place_key(memory: Memory, node: Syntax, pointer: Syntax, width: int) -> Hashable:
    """What vectors in memory share: the same base in the same loop."""
    base = memory.base(pointer)
    return id(base) if base is not None else id(node), id(loop_around(node)), width


def _region(
    scope: Scope, names: tuple[Name, ...], units: tuple[Syntax, ...], widths: Iterable[int], sites: list[Syntax]
) -> Region:
    fault = None
    try:
        _check(scope, names, units, set(widths))
    except Unclear as reason:
        fault = str(reason)
    anchor, start, label = place_of(scope, names, [access_of(s) for s in sites])
    return Region(names, units, anchor, start, label, max(widths), fault)


def access_of(node: Syntax) -> Syntax:
    """The read or write that a pointer cast is for; the node itself where it is none."""
    above = node.parent
    while above is not None and above.type in ("parenthesized_expression", "binary_expression"):
        above = above.parent
    reads = above is not None and (
        above.type == "subscript_expression" or (above.type == "pointer_expression" and operator(above) == "*")
    )
    return above if reads and above is not None and node.type == "cast_expression" else node


def place_of(scope: Scope, names: tuple[Name, ...], accesses: list[Syntax]) -> tuple[Anchor, int, str]:
    """The anchor, the offset and the name of the first variable or access."""
    function = scope.function
    inside = [n for n in names if n.parameter or n.declaration is not None]
    if inside:
        name = min(inside, key=lambda n: n.variable.declarator.start)
        return name.variable.anchor, name.variable.declarator.start, name.text
    spans = {n.span for n in accesses}
    for access in function.accesses:
        if access.span in spans:
            return access.anchor, access.span.start, access.base
    start = min((s.start for s in spans), default=function.span.start)
    others = [(n.span, n.anchor) for n in function.literals] + [(n.span, n.anchor) for n in function.calls]
    return next((anchor for span, anchor in others if span in spans), function.anchor), start, ""


def _check(scope: Scope, names: tuple[Name, ...], units: tuple[Syntax, ...], widths: set[int]) -> None:
    """Raises Unclear for what is wrong with a region as a whole."""
    if 3 in widths:
        raise Unclear("a vector of three has the size of four")
    if len(widths) > 1:
        raise Unclear(f"vectors of several widths: {', '.join(map(str, sorted(widths)))}")
    for unit in units:
        opaque = scope.view.why_opaque(unit.span)
        if opaque is not None:
            raise Unclear(f"not understood: {opaque}")
        if any(q.kind == "volatile" and unit.span.contains(q.span) for q in scope.view.qualifiers):
            raise Unclear("volatile memory")
    for name in names:
        check_name(scope, name)


def check_name(scope: Scope, name: Name) -> None:
    """Whether all uses of a variable are seen, and its declaration can change. Raises Unclear."""
    variable, function = name.variable, scope.function
    if variable.name is None:
        raise Unclear("a parameter without a name")
    if name.declaration is None and not name.parameter:
        raise Unclear(f"{name.text} stands outside the function")
    if name.parameter:
        pointer = variable.is_pointer and variable.pointer_depth == 1
        called = len(scope.view.occurrences(function.name)) != 1
        if not function.is_entry or not pointer or called:
            raise Unclear(f"{name.text} is a vector parameter that callers pass")
    if variable.storage or any(q.kind == "volatile" for q in variable.qualifiers):
        raise Unclear(f"{name.text} is {' '.join(variable.storage) or 'volatile'}")
    if variable.pointer_depth > 1 or (variable.pointer_depth and variable.dims) or None in variable.dims:
        raise Unclear(f"{name.text} is more than a vector, an array or a pointer")
    if scope.view.macros_that_mention(name.text):
        raise Unclear(f"a macro uses {name.text}")
    if variable.is_pointer and sum(n.text == name.text for n in scope.names) > 1:
        raise Unclear(f"{name.text} is declared twice")
    for span in scope.view.occurrences(name.text, function.span):
        at_home = any(n.variable.name_span == span for n in scope.names)
        if not at_home and scope.identifier(span.start) is None:
            raise Unclear(f"a use of {name.text} is not understood")
        if scope.view.is_opaque(span):
            raise Unclear(f"a use of {name.text} is not understood")
    declaration = name.declaration
    if declaration is not None and (declaration.parent is None or declaration.parent.type != "compound_statement"):
        raise Unclear(f"{name.text} is declared in a header")
