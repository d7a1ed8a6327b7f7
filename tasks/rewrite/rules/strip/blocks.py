"""Loops over blocks of lanes: which there are, and what of them belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experts.source import Loop, Span
from experts.source.syntax import Syntax, strip
from tasks.rewrite.rules.lanes.names import Name
from tasks.rewrite.rules.lanes.regions import vector_regions
from tasks.rewrite.rules.lanes.types import WIDTHS, Unclear

from .plain import body_of, check_hints, hinted
from .reductions import EXTREMES, SUM, Reduction, folded, is_neutral
from .site import Site


@dataclass(frozen=True, eq=False)
class Lanes:
    """`for (int lane = 0; lane < W; lane++)` and what it does."""

    loop: Loop
    node: Syntax
    lane: Name
    statements: tuple[Syntax, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """The lanes of a sum or an extreme, from their declaration to where they come together."""

    name: Name
    before: tuple[Syntax, ...]
    """The declaration, and the loop that sets the lanes."""
    folds: tuple[Syntax, ...]
    total: Name
    kind: str


@dataclass(frozen=True, eq=False)
class BlockedLoop:
    """`for (int j = A; j < N; j += W)` over nothing but loops over W lanes."""

    loop: Loop
    node: Syntax
    counter: Name
    width: int
    step: str
    lanes: tuple[Lanes, ...]
    declared: tuple[Name, ...]
    """Arrays of lanes that the body declares."""
    parts: tuple[Part, ...]

    @property
    def region(self) -> Span:
        """The loop, with all that goes with it."""
        around = [self.node, *(n for p in self.parts for n in (*p.before, *p.folds))]
        return Span(min(hinted(self.loop), *(n.span.start for n in around)), max(n.span.end for n in around))


def blocked_loops(site: Site) -> Iterator[tuple[Loop, int, bool]]:
    """Loops that may be of the form, with their width, and whether their lanes are vectors still."""
    regions = None
    for loop, width in site.counted():
        if width not in WIDTHS or any(site.lanes(child) != width for child in loop.children):
            continue
        if regions is None:
            regions = [r for r in vector_regions(site.scope, site.memory) if r.width in WIDTHS]
        units = [u for r in regions if r.width == width for u in r.units]
        vectors = any(loop.body.contains(unit.span) for unit in units)
        if vectors or loop.children:
            yield loop, width, vectors


def carries_vectors(site: Site, loop: Loop) -> bool:
    """Whether a loop updates a vector that was declared before it."""
    outside = {n for n in site.scope.names if n.type.vector and not loop.span.contains(n.variable.span)}
    for node in site.scope.nodes:
        if node.type == "assignment_expression" and loop.body.contains(node.span):
            left = node.get("left")
            if left is not None and site.scope.resolve(strip(left)) in outside:
                return True
    return False


def blocked_loop(site: Site, loop: Loop, width: int) -> BlockedLoop:
    """What the rule has to know about a loop over blocks. Raises Unclear."""
    node = site.node(loop)
    counter = site.counter(node) if node is not None else None
    if node is None or counter is None or loop.induction is None:
        raise Unclear("its header is not understood")
    if (why := site.view.why_opaque(loop.span)) is not None:
        raise Unclear(f"code that is not understood ({why})")
    if loop.exits:
        raise Unclear(f"it is left by {loop.exits[0]}")
    check_hints(site, loop)
    if any(child.hints for child in loop.children):
        raise Unclear("a hint stands in the loop")
    children = {child.span.start: child for child in loop.children}
    lanes: list[Lanes] = []
    declared: list[Name] = []
    for statement in body_of(node):
        child = children.get(statement.span.start)
        if child is not None and statement.type == "for_statement":
            lanes.append(_lanes(site, child, statement))
        elif statement.type == "declaration":
            declared.append(_array(site, statement, width))
        else:
            raise Unclear("its body is more than loops over lanes")
    step = loop.induction.step
    parts = tuple(_part(site, node, name, width) for name in _updated(site, lanes, declared, width))
    return BlockedLoop(loop, node, counter, width, step, tuple(lanes), tuple(declared), parts)


def _lanes(site: Site, loop: Loop, node: Syntax) -> Lanes:
    lane = site.counter(node)
    statements = tuple(body_of(node))
    if lane is None or not statements:
        raise Unclear("a loop over lanes that is not understood")
    return Lanes(loop, node, lane, statements)


def _array(site: Site, node: Syntax, width: int) -> Name:
    """The array of lanes that a declaration introduces. Raises Unclear."""
    names = [n for n in site.scope.names if n.declaration is node]
    if len(names) != 1 or len(node.all("declarator")) != 1:
        raise Unclear("a declaration of several names")
    name = names[0]
    variable = name.variable
    dims = [site.value(d.text) if d is not None else None for d in variable.dims]
    plain = variable.address_space == "private" and not variable.storage and not variable.attributes
    if dims != [width] or name.type.depth != 1 or name.type.width != 1 or not plain or variable.const:
        raise Unclear(f"{name.text} is no array of {width} lanes")
    return name


def lane_of(site: Site, node: Syntax, lane: Name) -> tuple[Syntax, Name] | None:
    """The element `t[lane]` that a use of the lane is the index of, and t; None for other uses."""
    above = node.parent
    while above is not None and above.type == "parenthesized_expression":
        above = above.parent
    element = above.parent if above is not None and above.type == "subscript_argument_list" else None
    inner = element.get("argument") if element is not None else None
    base = site.scope.resolve(strip(inner)) if inner is not None else None
    return (element, base) if element is not None and base is not None else None


def _updated(site: Site, lanes: list[Lanes], declared: list[Name], width: int) -> list[Name]:
    """The arrays of lanes that are updated and declared elsewhere, in their order."""
    found: list[Name] = []
    for each in lanes:
        for statement in each.statements:
            node = strip(statement.named[0]) if statement.type == "expression_statement" and statement.named else None
            left = node.get("left") if node is not None and node.type == "assignment_expression" else None
            target = strip(left) if left is not None else None
            if target is None or target.type != "subscript_expression":
                continue
            uses = [lane_of(site, n, each.lane) for n in site.uses(each.lane, target)]
            name = next((u[1] for u in uses if u is not None and u[0] is target), None)
            if name is not None and name not in declared and name not in found and name.declaration is not None:
                found.append(name)
    return found


def _part(site: Site, loop: Syntax, name: Name, width: int) -> Part:
    """The life of the lanes of a sum. Raises Unclear."""
    block = loop.parent
    declaration = name.declaration
    assert declaration is not None
    _array(site, declaration, width)
    siblings = block.named if block is not None and block.type == "compound_statement" else []
    if declaration not in siblings or siblings.index(declaration) > siblings.index(loop):
        raise Unclear(f"{name.text} is declared in another block")
    at, first = siblings.index(loop), siblings.index(declaration)
    uses = [id(u) for u in site.uses(name)]
    seen = {id(u) for u in site.uses(name, loop)}
    before, value, setting = [declaration], name.value, None
    for sibling in siblings[first + 1 : at]:
        inside = [id(u) for u in site.uses(name, sibling)]
        if inside:
            value = _set_by(site, sibling, name, width) if value is None else None
            if value is None:
                raise Unclear(f"{name.text} is used between its declaration and the loop")
            before.append(sibling)
            setting = sibling
            seen.update(inside)
    folds, total, kind, lanes = [], None, "", list[int]()
    for sibling in siblings[at + 1 :]:
        inside = [id(u) for u in site.uses(name, sibling)]
        if not inside:
            if total is not None and len(lanes) < width and site.uses(total, sibling):
                raise Unclear(f"{total.text} is used before all lanes are in it")
            continue
        found = folded(site, name, sibling) or _folding_loop(site, name, sibling, width)
        if found is None or (total is not None and (found[0] is not total or found[1] != kind)):
            raise Unclear(f"{name.text} is used otherwise than to put its lanes together")
        total, kind = found[0], found[1]
        lanes += found[2]
        folds.append(sibling)
        seen.update(inside)
    if total is None or sorted(lanes) != list(range(width)) or not set(uses) <= seen:
        raise Unclear(f"{name.text} is used otherwise than to put its lanes together")
    _check_total(site, loop, siblings, folds, total)
    item = Reduction(total, kind, folds[0])
    if total.type.element != name.type.element or value is None or not _starts(site, item, value):
        raise Unclear(f"the lanes of {name.text} do not start from nothing")
    if kind in EXTREMES and site.scope.resolve(strip(value)) is total:
        between = siblings[(siblings.index(setting) if setting is not None else first) + 1 : at]
        if any(site.uses(total, sibling) for sibling in between if not _sets_lanes(site, sibling, total, width)):
            raise Unclear(f"{total.text} is used between its lanes and the loop")
    return Part(name, tuple(before), tuple(folds), total, kind)


def _check_total(site: Site, loop: Syntax, siblings: list[Syntax], folds: list[Syntax], total: Name) -> None:
    """Whether the scalar is free from the loop until all lanes are in it."""
    at, last = siblings.index(loop), siblings.index(folds[-1])
    between = [s for s in siblings[at:last] if s not in folds]
    if any(site.uses(total, sibling) for sibling in between):
        raise Unclear(f"{total.text} is used before all lanes are in it")
    start = loop.span.start
    seen = [n for n in site.scope.names if n.text == total.text and n.visible.start <= start < n.visible.end]
    if max(seen, key=lambda n: n.visible.start, default=None) is not total:
        raise Unclear(f"{total.text} is declared behind the loop")


def _starts(site: Site, item: Reduction, value: Syntax) -> bool:
    if value.type == "initializer_list":
        listed = value.named
        return item.kind == SUM and len(listed) == 1 and is_neutral(site, item, listed[0])
    return is_neutral(site, item, value)


def _set_by(site: Site, node: Syntax, name: Name, width: int) -> Syntax | None:
    """What a loop sets every lane to; None where it does anything else."""
    found = _one_statement(site, node, width)
    if found is None:
        return None
    lane, expression = found
    left, right = expression.get("left"), expression.get("right")
    if left is None or right is None or site.scope.operator(expression) != "=" or site.uses(lane, right):
        return None
    target = strip(left)
    uses = [lane_of(site, n, lane) for n in site.uses(lane, target)]
    return right if len(uses) == 1 and uses[0] is not None and uses[0] == (target, name) else None


def _sets_lanes(site: Site, node: Syntax, total: Name, width: int) -> bool:
    """Whether a statement only sets lanes of something, so that it changes no scalar."""
    found = _one_statement(site, node, width)
    left = found[1].get("left") if found is not None else None
    return left is not None and strip(left).type == "subscript_expression" and not site.uses(total, left)


def _folding_loop(site: Site, part: Name, node: Syntax, width: int) -> tuple[Name, str, list[int]] | None:
    """The same as `folded` of a loop that puts the lanes together one by one."""
    found = _one_statement(site, node, width)
    if found is None:
        return None
    lane, expression = found
    left, right, sign = expression.get("left"), expression.get("right"), site.scope.operator(expression)
    total = site.scope.resolve(strip(left)) if left is not None else None
    if total is None or right is None:
        return None
    right = strip(right)
    if sign == "+=":
        kind, leaves = SUM, [right]
    elif sign == "=" and right.type == "binary_expression" and site.scope.operator(right) == "+":
        kind, leaves = SUM, [strip(n) for n in right.named]
    elif sign == "=" and site.scope.callee(right) in EXTREMES:
        kind, leaves = site.scope.callee(right), [strip(n) for n in site.scope.arguments(right)]
    else:
        return None
    others = [n for n in leaves if site.scope.resolve(n) is not total]
    if len(others) != 1 or len(leaves) - len(others) != (sign == "="):
        return None
    uses = [lane_of(site, n, lane) for n in site.uses(lane, others[0])]
    single = len(uses) == 1 and uses[0] is not None and uses[0] == (others[0], part)
    return (total, kind, list(range(width))) if single else None


def _one_statement(site: Site, node: Syntax, width: int) -> tuple[Name, Syntax] | None:
    """The lane and the assignment of a loop over lanes that does nothing else."""
    loop = next((x for x in site.function.walk_loops() if x.span.start == node.span.start), None)
    lane = site.counter(node) if node.type == "for_statement" else None
    if loop is None or lane is None or loop.exits or site.lanes(loop) != width:
        return None
    body = body_of(node)
    if len(body) != 1 or body[0].type != "expression_statement" or not body[0].named:
        return None
    expression = strip(body[0].named[0])
    return (lane, expression) if expression.type == "assignment_expression" else None
