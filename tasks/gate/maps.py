"""Tensor maps (TMA descriptors) with numbers: what the driver and the memory take, decided in the parent.

No tool sees where TMA reads and writes, and a wrong map fails late and without a reason. So each rule of the driver is
asked here, in words, and a map whose view leaves its tensor never reaches a device. Pure; needs no CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Literal, NoReturn

from experts.case import ITEM_BYTES
from experts.expressions import Expression, ExpressionError, Scalar
from experts.kernel import Dtype, TensorMap
from experts.verdict import Status
from tasks.gate.workers import Rejected

_MAX_RANK = 5
_MIN_RANK_SLICED = 3
"""Of an im2col or interleaved map."""
_MAX_DIMENSION = 1 << 31
"""Elements. Older drivers say 2^32, but coordinates are signed 32-bit numbers."""
_MAX_STRIDE_BYTES = 1 << 40
_MAX_BOX = 256
_MAX_PIXELS = 1024
_MAX_ESTRIDE = 8
_ALIGNMENT = 16
_CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""Least and largest offset of a corner of an im2col box, by the rank of the tensor."""
_NO_TYPE = ("i8", "i16")


@dataclass(frozen=True)
class MapPlan:
    """A tensor map with its numbers. Lists are in tensor order (outermost first), which is not the driver's order.

    `offset` and `strides` count elements of `dtype`; the last stride is 1. `box` is None in im2col mode; `lower`
    and `upper` (one entry for each dimension between the first and the last), `channels` and `pixels` in tiled mode.
    """

    name: str
    tensor: str
    dtype: Dtype
    mode: Literal["tiled", "im2col"]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...] | None
    lower: tuple[int, ...] | None
    upper: tuple[int, ...] | None
    channels: int | None
    pixels: int | None
    estrides: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128]
    interleave: Literal[0, 16, 32]
    l2: Literal[0, 64, 128, 256]
    oob: Literal["zero", "nan"]

    def wire(self) -> dict[str, object]:
        """All fields by name, for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def resolve(
    name: str, declared: TensorMap, base_dtype: Dtype, base_shape: tuple[int, ...], known: Mapping[str, Scalar]
) -> MapPlan:
    """The map `name` over a contiguous tensor of this type and shape, its expressions evaluated with `known`.

    The tensor itself starts at a multiple of 32 bytes or more. Raises Rejected (invalid_kernel) for what the driver
    refuses, and for a view with an element outside the tensor.
    """
    values = _Values(name, known)
    shape = base_shape if declared.shape is None else values.all("shape", declared.shape)
    strides = _contiguous(shape) if declared.strides is None else values.all("strides", declared.strides)
    found = MapPlan(
        name=name,
        tensor=declared.tensor,
        dtype=base_dtype,
        mode=declared.mode,
        offset=values.one("offset", declared.offset),
        shape=shape,
        strides=strides,
        box=values.maybe("box", declared.box),
        lower=values.maybe("lower", declared.lower),
        upper=values.maybe("upper", declared.upper),
        channels=None if declared.channels is None else values.one("channels", declared.channels),
        pixels=None if declared.pixels is None else values.one("pixels", declared.pixels),
        estrides=(1,) * len(shape) if declared.estrides is None else values.all("estrides", declared.estrides),
        swizzle=declared.swizzle,
        interleave=declared.interleave,
        l2=declared.l2,
        oob=declared.oob,
    )
    _check_type(found)
    _check_view(found)
    if found.mode == "tiled":
        _check_box(found)
    else:
        _check_im2col(found)
    _check_layout(found)
    _check_reach(found, base_shape)
    return found


class _Values:
    """The expressions of one map."""

    def __init__(self, name: str, known: Mapping[str, Scalar]) -> None:
        self._name, self._known = name, known

    def one(self, field: str, expression: Expression) -> int:
        try:
            return expression.integer(self._known)
        except ExpressionError as error:
            _invalid(self._name, f"{field}: {error}")

    def all(self, field: str, expressions: Sequence[Expression]) -> tuple[int, ...]:
        return tuple(self.one(field, each) for each in expressions)

    def maybe(self, field: str, expressions: Sequence[Expression] | None) -> tuple[int, ...] | None:
        return None if expressions is None else self.all(field, expressions)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _check_type(found: MapPlan) -> None:
    if found.dtype in _NO_TYPE:
        _invalid(found.name, f"TMA has no type for {found.dtype}; a map over u8 or u16 moves the same bits")
    if found.oob == "nan" and found.dtype[0] in "iu":
        _invalid(found.name, f'oob "nan" over {found.dtype}; only floating-point types have a NaN')


def _check_view(found: MapPlan) -> None:
    """Rank, sizes, strides and their alignment."""
    rank = len(found.shape)
    sliced = "im2col" if found.mode == "im2col" else f"interleave {found.interleave}" if found.interleave else None
    least = _MIN_RANK_SLICED if sliced else 1
    if not least <= rank <= _MAX_RANK:
        _invalid(found.name, f"a view of {rank} dimensions; {sliced or 'a map'} takes {least} to {_MAX_RANK}")
    _same_length(found, "strides", found.strides, rank)
    _same_length(found, "estrides", found.estrides, rank)
    _each_within(found, "shape", found.shape, 1, _MAX_DIMENSION)
    _each_within(found, "estrides", found.estrides, 1, _MAX_ESTRIDE)
    size = ITEM_BYTES[found.dtype]
    alignment = max(_ALIGNMENT, found.interleave)
    if found.offset * size % alignment:
        _invalid(found.name, f"offset {found.offset} is {found.offset * size} bytes, not a multiple of {alignment}")
    if found.strides[-1] != 1:
        _invalid(found.name, f"strides {list(found.strides)}; the last must be 1")
    for stride in found.strides[:-1]:
        # Rows may overlap, but each is a step on: what `_check_reach` relies on.
        if stride < 1:
            _invalid(found.name, f"strides {list(found.strides)}; each must be 1 or more")
        if stride * size % alignment:
            _invalid(found.name, f"stride {stride} is {stride * size} bytes, not a multiple of {alignment}")
        if stride * size >= _MAX_STRIDE_BYTES:
            _invalid(found.name, f"stride {stride} is {stride * size} bytes; fewer than {_MAX_STRIDE_BYTES} are taken")


def _check_box(found: MapPlan) -> None:
    assert found.box is not None
    _same_length(found, "box", found.box, len(found.shape))
    _each_within(found, "box", found.box, 1, _MAX_BOX)


def _check_im2col(found: MapPlan) -> None:
    assert found.lower is not None and found.upper is not None
    assert found.channels is not None and found.pixels is not None
    rank = len(found.shape)
    least, most = _CORNERS[rank]
    for field, corner in (("lower", found.lower), ("upper", found.upper)):
        _same_length(found, field, corner, rank - 2)
        _each_within(found, field, corner, least, most, f" for {rank} dimensions")
    for size, low, high in zip(found.shape[1:-1], found.lower, found.upper, strict=True):
        # The box's first pixel is at `low`, its last at `size - 1 + high`.
        if size + high - low < 1:
            _invalid(found.name, f"lower {low} and upper {high} leave no pixel of {size}")
    _each_within(found, "channels", (found.channels,), 1, _MAX_BOX)
    _each_within(found, "pixels", (found.pixels,), 1, _MAX_PIXELS)


def _check_layout(found: MapPlan) -> None:
    """What a row of the box is in shared memory."""
    inner = found.channels if found.box is None else found.box[-1]
    assert inner is not None
    size = ITEM_BYTES[found.dtype]
    what = f"{'channels' if found.box is None else 'inner box dimension'} {inner} is {inner * size} bytes"
    if inner * size % _ALIGNMENT:
        _invalid(found.name, f"{what}, not a multiple of {_ALIGNMENT}")
    if not found.interleave:
        if found.swizzle and inner * size > found.swizzle:
            _invalid(found.name, f"{what}, more than swizzle {found.swizzle} takes")
        return
    if found.interleave == 32 and found.swizzle != 32:
        _invalid(found.name, f"interleave 32 with swizzle {found.swizzle}; it takes swizzle 32 only")
    if found.shape[-1] * size != found.interleave:
        # Where further slices of channels lie follows from no field, so that no bound could be asked.
        reason = f"interleave {found.interleave} over an innermost dimension of {found.shape[-1] * size} bytes"
        _invalid(found.name, f"{reason}; it must be one slice of {found.interleave}, or the view cannot be checked")


def _check_reach(found: MapPlan, base_shape: tuple[int, ...]) -> None:
    """Strides are positive, so that the first element and the last bound all of them."""
    last = found.offset + sum((size - 1) * stride for size, stride in zip(found.shape, found.strides, strict=True))
    held = prod(base_shape)
    if found.offset < 0 or last >= held:
        reach = f"elements {found.offset} to {last}"
        _invalid(found.name, f"the view reaches {reach} of {found.tensor}, which has 0 to {held - 1}")


def _same_length(found: MapPlan, field: str, values: tuple[int, ...], wanted: int) -> None:
    if len(values) != wanted:
        _invalid(
            found.name, f"{field} has {len(values)} entries; a view of {len(found.shape)} dimensions takes {wanted}"
        )


def _each_within(
    found: MapPlan, field: str, values: tuple[int, ...], least: int, most: int, condition: str = ""
) -> None:
    if any(not least <= value <= most for value in values):
        shown = values[0] if field in ("channels", "pixels") else list(values)
        _invalid(found.name, f"{field} {shown}; from {least} to {most} is taken{condition}")


def _invalid(name: str, reason: str) -> NoReturn:
    raise Rejected(Status.INVALID_KERNEL, f"maps.{name}: {reason}")
