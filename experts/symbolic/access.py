"""Where an access reads or writes, and what it reads or writes it as."""

from __future__ import annotations

from dataclasses import replace

from experts.source import Access

from .frame import Frame
from .parts import Address
from .types import Element, element
from .values import Unclear, Value, number


def address_of(frame: Frame, access: Access) -> Address:
    """The first byte that an access reads or writes, and the type of what is there. Raises Unclear."""
    known = frame.addresses.get(access.span)
    if known is None:
        try:
            known = _read(frame, access)
        except Unclear as reason:
            known = reason
        frame.addresses[access.span] = known
    if isinstance(known, Unclear):
        raise Unclear(*known.args)
    return known


def _read(frame: Frame, access: Access) -> Address:
    if frame.view.is_opaque(access.span) or access.members:
        raise Unclear("an access that is not understood")
    at = frame.name(access.base, access.base_span.start, 0)
    if not isinstance(at, Address):
        raise Unclear(f"{access.base} is not understood")
    levels = len(at.dims) + 1
    origin = [frame.value(o) for o in access.origin]
    indices = [frame.value(i) for i in access.indices]
    for level, count in enumerate(origin):
        at = (at.row() if level else at).moved(count)
    if access.width is not None or access.cast is not None:
        return _wide(frame, access, at, indices)
    # The first index adds to the last part of the origin: they are of one dimension.
    for level, count in enumerate(indices):
        at = (at.row() if level else at).moved(count)
    if max(len(origin), 1) + max(len(indices), 1) - 1 != levels:
        raise Unclear("an access to a whole row")
    return at


def _wide(frame: Frame, access: Access, at: Address, indices: list[Value]) -> Address:
    """An access through a cast, or as a vector."""
    at = at.seen_as(at.element)
    if access.cast is not None:
        kind = element(frame.type_name(access.cast.removesuffix("*").strip()))
        if kind is None or access.cast.count("*") != 1:
            raise Unclear(f"a cast to {access.cast}")
        at = at.seen_as(kind)
    if len(indices) > 1:
        raise Unclear("an index of what is no array")
    if access.width is None:
        return at.moved(indices[0]) if indices else at
    vector = Element(at.element.scalar, access.width, at.element.scalar_bytes)
    # vload3 steps over three elements, though the vector takes the room of four
    step = number(access.width * at.element.scalar_bytes)
    first = at.offset + step * indices[0] if indices else at.offset
    return replace(at, offset=first, element=vector)
