"""The facts of a place as symbolic values, each with the values that it takes in the launches of its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from experts.case import ITEM_BYTES, Case
from experts.source import Loop, StepKind, Variable
from experts.symbolic import (
    Element,
    Frame,
    Operation,
    Symbol,
    Unclear,
    Value,
    address_of,
    element,
    not_negative,
    number,
    number_at,
    operation,
    symbol,
    value_of,
)
from experts.symbolic.types import FLOATING, counts
from skill_library.facts.blocks import Block, blocks, elements, strides
from skill_library.facts.site import Place, Site, file_label, frames, sites, source_of, updates

_LEAVES = frozenset({"break", "return", "goto"})


@dataclass
class Measures:
    """Symbolic facts. What is not there is unknown."""

    values: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    """All values of a number; one or more."""
    blocks: tuple[Block, ...] = ()
    """Of `access.align`."""


def measures(place: Place, case: Case) -> Measures:
    """The numeric facts of a place that follow from the kernel, as values over symbols and counters.

    Kept for the places seen last; not to be changed.
    """
    tensors = tuple((t.name, t.dtype, t.shape) for t in case.tensors)
    scalars = tuple((s.name, s.dtype, s.value) for s in case.workload.scalars)
    given = (
        tuple(sorted((name, repr(value)) for name, value in place.params.items())),
        tuple(case.dims.items()),
        case.dtype,
        tensors,
        scalars,
    )
    return _kept(_Key((place.kernel.text, place.kernel.surface, place.anchor, *given), place, case))


@dataclass(frozen=True)
class _Key:
    """Everything that decides the measures, and what they are read from."""

    decides: tuple[object, ...]
    place: Place = field(compare=False)
    case: Case = field(compare=False)


@lru_cache(maxsize=256)
def _kept(key: _Key) -> Measures:
    return _read(key.place, key.case)


def _read(place: Place, case: Case) -> Measures:
    name = file_label(place, StepKind.CONST)
    if name is not None:
        return _of_constant(place, case, name)
    found = Measures()
    known = [_of_site(site, case) for site in sites(place, case)]
    for fact in known[0].values if known else ():
        # unknown in one launch is unknown
        if all(fact in other.values for other in known):
            found.values[fact] = tuple(dict.fromkeys(v for other in known for v in other.values[fact]))
    if known and all(other.blocks for other in known):
        found.blocks = tuple(dict.fromkeys(block for other in known for block in other.blocks))
    return found


def _of_site(site: Site, case: Case) -> Measures:
    found = Measures()

    def put(name: str, measure: Callable[[], Iterable[Value]]) -> None:
        try:
            values = tuple(dict.fromkeys(measure()))
        except (Unclear, RecursionError):
            return
        if values:
            found.values[name] = values

    width = _told(lambda: _width(site))
    put("group.size", lambda: [_group_size(site.frame)])
    put("loop.extent", lambda: _extent(site))
    put("loop.step", lambda: [site.frame.loop(site.loop).step] if site.loop is not None else [])
    put("reduction.extent", lambda: _extent(site) if _reduces(site) else [])
    put("vector.width", lambda: [number(width)] if width is not None else [])
    size = _told(lambda: _scalar_bytes(site, case))
    put("vector.bytes", lambda: [number(width * size)] if width is not None and size is not None else [])
    put("access.stride", lambda: strides(site))
    put("tile.elements", lambda: _tile(site)[:1])
    put("tile.bytes", lambda: _tile(site)[1:])
    try:
        found.blocks = tuple(blocks(site, width))
    except (Unclear, RecursionError):
        found.blocks = ()
    return found


def _told(measure: Callable[[], int | None]) -> int | None:
    try:
        return measure()
    except (Unclear, RecursionError):
        return None


def _group_size(frame: Frame) -> Value:
    return frame.group_size(0) * frame.group_size(1) * frame.group_size(2)


def _extent(site: Site) -> list[Value]:
    """How far the loop of the place runs."""
    if site.loop is None:
        return []
    return [extent(site.frame, site.loop)]


def extent(frame: Frame, loop: Loop) -> Value:
    """How far a loop runs, 0 or more. Raises Unclear, too, where something may end it before its bound."""
    if not _LEAVES.isdisjoint(loop.exits):
        raise Unclear("a loop that may end early")
    found = frame.loop(loop).extent
    return found if not_negative(found, frame.positive) else operation("max", found, number(0))


def _reduces(site: Site) -> bool:
    """Whether the loop of the place carries a sum, a maximum or the like."""
    loop, frame = site.loop, site.frame
    if loop is None:
        return False
    if frame.view.is_opaque(loop.span):
        raise Unclear("code that is not understood")
    for update in updates(frame, loop.body):
        if update.variable.is_pointer and update.access is None:
            continue
        kind = element(frame.type_name(update.variable.base_type))
        moves = update.access is None and counts(frame.type_name(update.variable.base_type))
        if kind is None or moves:
            continue  # whole numbers count and point, they are not what a kernel sums up
        if (kind.scalar in FLOATING or update.access is not None) and update.carried_by(frame, loop):
            return True
    return False


def _width(site: Site) -> int | None:
    """Elements of a vector or block; None where the text has none or several."""
    if site.width is not None:
        return site.width
    widths = _own_widths(site) or {kind.lanes for kind in elements(site)} - {1}
    if not widths:
        loops = [loop for loop in site.frame.function.walk_loops() if any(r.contains(loop.span) for r in site.regions)]
        lanes = [lane for loop in loops if (lane := site.lane(loop)) is not None]
        widths = {number_at(lane.trips, site.frame.symbols) for lane in lanes}
    return widths.pop() if len(widths) == 1 else None


def _own_widths(site: Site) -> set[int]:
    """Of the variable at the anchor: its type's lanes, else those that it is accessed with."""
    frame, variable = site.frame, site.variable
    kind = element(frame.type_name(variable.base_type)) if variable is not None else None
    if variable is None or kind is None or kind.lanes > 1:
        return {kind.lanes} if kind is not None else set()
    own = [a for a in site.accesses if frame.scopes.visible(a.base, a.base_span.start) is variable]
    found: set[int] = set()
    for access in own:
        try:
            found.add(address_of(frame, access).element.lanes)
        except Unclear:
            continue
    return found - {1}


def _scalar_bytes(site: Site, case: Case) -> int | None:
    """Of the elements at a place; None where they differ."""
    kinds: Iterable[Element] = elements(site)
    sizes = {kind.scalar_bytes for kind in kinds}
    if not sizes:
        sizes = {size for name, size in ITEM_BYTES.items() if name == case.dtype}
    return sizes.pop() if len(sizes) == 1 else None


def _tile(site: Site) -> Sequence[Value]:
    """Elements and bytes of the array at the anchor, or of the largest that the place indexes; empty without one."""
    frame, variable = site.frame, site.variable
    if variable is not None:
        return _size(frame, variable) if variable.is_array else ()
    arrays = [v for v in frame.function.arrays if v.address_space in ("local", "private")]
    if site.loop is None:
        sized = [_size(frame, array) for array in arrays]
        return max(sized, key=lambda size: number_at(size[1], frame.symbols), default=())
    found = []
    for array in arrays:
        indexed = _indexed(site, site.loop, array)
        if indexed is None:
            continue
        total, nbytes = _size(frame, array)
        found.append((indexed if indexed.number != 0 else total, nbytes))
    return max(found, key=lambda size: number_at(size[1], frame.symbols), default=())


def _size(frame: Frame, array: Variable) -> tuple[Value, Value]:
    kind = element(frame.type_name(array.base_type))
    if kind is None or array.pointer_depth:
        raise Unclear(f"an array of {array.type}")
    total = number(1)
    for size in _dims(frame, array):
        total *= size
    # lane by lane, so that vectors and loops over lanes have as many
    return total * number(kind.lanes), total * number(kind.size)


def _dims(frame: Frame, array: Variable) -> list[Value]:
    dims = []
    for size in array.dims:
        if size is None:
            raise Unclear("an array of unknown size")
        dims.append(frame.value(size))
    return dims


def _indexed(site: Site, loop: Loop, array: Variable) -> Value | None:
    """The dimension of an array that a loop indexes; 0 for several, or where it is not told; None for none."""
    frame = site.frame
    own = frame.loop(loop).counter.counters
    dims = _dims(frame, array)
    used: set[int] = set()
    elsewhere = False
    for access in frame.function.accesses:
        if not loop.body.contains(access.span):
            continue
        try:
            address = address_of(frame, access)
        except Unclear:
            continue
        if address.base != str(array.anchor) or not address.offset.counters & own:
            continue
        if frame.scopes.visible(access.base, access.base_span.start) is not array:
            elsewhere = True  # through a pointer into it
            continue
        first = max(len(access.origin) - 1, 0)
        parts = [*enumerate(access.origin), *enumerate(access.indices, first)]
        used |= {level for level, index in parts if frame.value(index).counters & own and level < len(dims)}
    if elsewhere or len(used) > 1:
        return number(0) if len(dims) > 1 or not elsewhere else dims[0]
    return dims[used.pop()] if used else None


def _of_constant(place: Place, case: Case, name: str) -> Measures:
    """The facts of a [const]."""
    found = Measures()
    kernel = place.kernel
    given = place.params.get("value", kernel.manifest.const.get(name))
    if type(given) is int:
        found.values["const.value"] = (number(given),)
    try:
        divided = _divided(place, case, name)
    except (Unclear, RecursionError):
        return found
    if divided:
        found.values["tile.extent"] = divided
    return found


def _divided(place: Place, case: Case, name: str) -> tuple[Value, ...]:
    """What a constant divides: extents of loops that step by it, and D of `cdiv(D, X)`, `D / X`, `(D + X - 1) / X`."""
    kernel, source = place.kernel, source_of(place.kernel)
    by = symbol(name)
    found: dict[Value, None] = {}
    read: list[Value] = []
    for function in source.view.functions if source is not None else ():
        for frame in frames(kernel, source, function, case) if source is not None else ():
            for loop in function.walk_loops():
                header = loop.induction
                mentioned = header is not None and name in header.step
                try:
                    counted = frame.loop(loop)
                except Unclear:
                    if mentioned:
                        raise
                    continue
                if counted.step in (by, -by):
                    found[extent(frame, loop)] = None
            for variable in function.variables:
                first = variable.initializer
                if first is None or name not in first.text or variable.pointer_depth or "/" not in first.text:
                    continue
                read.append(frame.value(first))
    symbols = {*case.dims, *kernel.manifest.const, *(s.name for s in case.workload.scalars), "SMS", "WARP"}
    for launch in kernel.manifest.launch:
        read += [value_of(size, symbols) for size in (*launch.grid, *launch.block) if name in size.names]
    for value in read:
        for operated in value.operations():
            if operated.name in ("div", "fdiv") and operated.arguments[1] == by:
                found[_numerator(operated, by)] = None
    return tuple(found)


def _numerator(operated: Operation, by: Value) -> Value:
    """D of a division, also where it is rounded up."""
    value = operated.arguments[0]
    rounded = value - by + number(1)
    (single,) = by.atoms()
    assert isinstance(single, Symbol)
    return rounded if dict(value.terms).get((single,)) == 1 and dict(value.terms).get((), 0) < 0 else value
