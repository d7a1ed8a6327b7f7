"""The blocks of global memory that a place reads and writes: where they start, how wide they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experts.source import Access, Span, Variable
from experts.symbolic import (
    Address,
    Counter,
    Element,
    Unclear,
    Value,
    address_of,
    counter,
    element,
    number,
    operation,
    substituted,
)
from skill_library.facts.site import Site

_MEMORY = frozenset({"vload", "vstore"})


@dataclass(frozen=True)
class Block:
    """What one access reads or writes at once, or would as part of a vector."""

    base: str
    """The tensor or workspace."""
    start: Value
    """In bytes from the start of that; over every counter that moves it from block to block."""


def global_accesses(site: Site) -> list[tuple[Access, Address]]:
    """The accesses to global memory at a place. Raises Unclear where they may not be all, or are not understood."""
    frame = site.frame
    for region in site.regions:
        if frame.view.is_opaque(region):
            raise Unclear("code that is not understood")
    found = []
    for access in site.accesses:
        variable = frame.scopes.visible(access.base, access.base_span.start)
        if variable is not None and variable.address_space in ("local", "private"):
            continue
        address = address_of(frame, access)
        if address.space not in ("global", "constant"):
            continue
        if access.mode == "address":
            raise Unclear(f"the address of an element of {access.base} is taken")
        found.append((access, address))
    _check_escapes(site)
    return found


def _check_escapes(site: Site) -> None:
    """Refuse a pointer to global memory that is passed to a function. Raises Unclear."""
    frame = site.frame
    known = {a.base_span for a in frame.function.accesses}
    for call in frame.function.calls:
        if call.callee.startswith(tuple(_MEMORY)) or not any(r.contains(call.span) for r in site.regions):
            continue
        for variable in _pointers(site):
            for argument in call.arguments:
                spans = frame.view.occurrences(variable.name or "", argument.span)
                if any(span not in known and _means(site, variable, span) for span in spans):
                    raise Unclear(f"{variable.name} is passed to {call.callee}")


def _pointers(site: Site) -> Iterator[Variable]:
    function = site.frame.function
    for variable in (*function.parameters, *function.variables):
        if variable.is_pointer and variable.address_space not in ("local", "private") and variable.name is not None:
            yield variable


def _means(site: Site, variable: Variable, span: Span) -> bool:
    return site.frame.scopes.visible(variable.name or "", span.start) is variable


def blocks(site: Site, width: int | None) -> list[Block]:
    """Where every block of a place starts. Raises Unclear.

    Of a vector access, where the vector is. Of an element in a loop over lanes, where lane 0 is. Of an element that
    moves on by one with each iteration of the loop of the place, where every `width`-th iteration is, from the first
    on, as far as whole blocks go. An element that stays where it is, or moves on by more, is in no block.
    """
    found: list[Block] = []
    for access, address in global_accesses(site):
        start = address.offset if address.element.lanes > 1 else _first(site, access, address, width)
        if start is not None:
            found.append(Block(address.base, start))
    return list(dict.fromkeys(found))


def _first(site: Site, access: Access, address: Address, width: int | None) -> Value | None:
    frame, size = site.frame, address.element.size
    for loop in reversed(frame.scopes.loops_around(access.span)):
        lane = site.lane(loop)
        own = _only(lane.counter) if lane is not None else None
        if own is not None and _by_one(address.offset, own, size):
            return substituted(address.offset, {own: number(0)})
    if site.loop is None or width is None or not site.loop.body.contains(access.span):
        return None
    counted = frame.loop(site.loop)
    own = _only(counted.counter)
    if own is None or not _by_one(address.offset, own, size):
        return None
    whole = operation("max", operation("fdiv", counted.trips, number(width)), number(1))
    return substituted(address.offset, {own: number(width) * counter(f"{own.key} by {width}", whole)})


def _only(value: Value) -> Counter | None:
    """The counter that a value is."""
    return next(iter(value.counters), None)


def _by_one(offset: Value, own: Counter, size: int) -> bool:
    """Whether an address moves on by one element with each step of a counter. Raises Unclear where that varies."""
    if own not in offset.counters:
        return False
    if any(own in other.trip.counters for other in offset.counters):
        raise Unclear("an access in a loop of another length each time")
    step = step_of(offset, own)
    if own in step.counters:
        raise Unclear("an access that moves on by more or less each time")
    return step.number == size


def step_of(offset: Value, own: Counter) -> Value:
    """What one step of a counter adds."""
    return substituted(offset, {own: Value({(own,): 1}) + number(1)}) - offset


def strides(site: Site) -> list[Value]:
    """Elements between neighbouring iterations of the innermost loop around each global access. Raises Unclear.

    An access outside loops has none, nor one in a loop of one iteration.
    """
    found: list[Value] = []
    for access, address in global_accesses(site):
        around = site.frame.scopes.loops_around(access.span)
        own = _only(site.frame.loop(around[-1]).counter) if around else None
        if own is None:
            continue
        step = step_of(address.offset, own)
        if own in step.counters:
            # it has as many steps as iterations but one
            step = substituted(step, {own: counter(f"{own.key} steps", own.trip - number(1))})
        found.append(operation("div", step, number(address.element.scalar_bytes)))
    return list(dict.fromkeys(found))


def _stands_in(site: Site, variable: Variable) -> bool:
    """Whether a variable is declared or used in the code of a place."""
    if any(region.contains(variable.span) for region in site.regions):
        return True
    uses = (span for region in site.regions for span in site.frame.view.occurrences(variable.name or "", region))
    return any(_means(site, variable, span) for span in uses)


def elements(site: Site) -> list[Element]:
    """The types that are accessed at a place, and of vector variables in its code."""
    frame = site.frame
    found: dict[Element, None] = {}
    for access in site.accesses:
        try:
            found[address_of(frame, access).element] = None
        except Unclear:
            continue
    for variable in frame.function.variables:
        try:
            kind = element(frame.type_name(variable.base_type)) if not variable.pointer_depth else None
        except Unclear:
            continue
        if kind is not None and (variable is site.variable or (kind.lanes > 1 and _stands_in(site, variable))):
            found[kind] = None
    return list(found)
