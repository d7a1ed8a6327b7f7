"""Tensor maps: each rule with a map just inside and one just outside, and that no accepted view leaves its tensor."""

from __future__ import annotations

import itertools
import json
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experts.case import ITEM_BYTES
from experts.kernel import Dtype, TensorMap
from experts.verdict import Status
from tasks.gate.maps import MapPlan, resolve
from tasks.gate.workers import Rejected

KNOWN = {"M": 96, "K": 64, "S": 2, "half": 0.5}
IM2COL = {"mode": "im2col", "lower": [-1, -1], "upper": [-1, -1], "channels": 64, "pixels": 128}
IMAGE = (8, 56, 56, 64)
TYPES: tuple[Dtype, ...] = ("f64", "f32", "f16", "bf16", "i64", "i32", "u64", "u32", "u16", "u8")


def _resolve(fields: dict[str, Any], dtype: Dtype = "f16", shape: tuple[int, ...] = (96, 64)) -> MapPlan:
    return resolve("m", TensorMap.model_validate({"tensor": "A", **fields}), dtype, shape, KNOWN)


def _reason(fields: dict[str, Any], dtype: Dtype = "f16", shape: tuple[int, ...] = (96, 64)) -> str:
    with pytest.raises(Rejected) as caught:
        _resolve(fields, dtype, shape)
    assert caught.value.status is Status.INVALID_KERNEL
    assert caught.value.reason.startswith("maps.m: ")
    assert len(caught.value.reason.splitlines()) == 1
    return caught.value.reason


def test_a_map_of_the_whole_tensor_is_contiguous() -> None:
    found = _resolve({"box": [1, "M // 2", "K"], "swizzle": 128, "l2": 256, "oob": "nan"}, "bf16", (4, 96, 64))
    assert (found.shape, found.strides, found.box) == ((4, 96, 64), (6144, 64, 1), (1, 48, 64))
    assert (found.offset, found.estrides, found.lower, found.pixels) == (0, (1, 1, 1), None, None)
    wire = json.loads(json.dumps(found.wire()))
    assert wire["box"] == [1, 48, 64] and wire["oob"] == "nan" and wire["dtype"] == "bf16"


VIEW = {"shape": [95, 64], "strides": [64, 1], "box": [8, 64]}
RULES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "rank": ({"box": [1, 1, 1, 1, 16]}, {"box": [1, 1, 1, 1, 1, 16]}, "a view of 6 dimensions"),
    "box, length": ({"box": [8, 64]}, {"box": [64]}, "box has 1 entries"),
    "box, most": ({"box": [256, 8]}, {"box": [257, 8]}, "box"),
    "box, least": ({"box": [1, 8]}, {"box": [0, 8]}, "box"),
    "row of the box": ({"box": [8, 8]}, {"box": [8, 4]}, "8 bytes, not a multiple of 16"),
    "swizzle": ({"box": [8, 64], "swizzle": 128}, {"box": [8, 64], "swizzle": 64}, "more than swizzle 64 takes"),
    "estrides": ({"box": [8, 8], "estrides": [8, 1]}, {"box": [8, 8], "estrides": [9, 1]}, "estrides"),
    "offset": ({**VIEW, "offset": 64}, {**VIEW, "offset": 4}, "not a multiple of 16"),
    "end of the view": ({**VIEW, "offset": 64}, {**VIEW, "offset": 128}, "the view reaches elements 128 to 6207"),
    "start of the view": ({**VIEW, "offset": 0}, {**VIEW, "offset": -64}, "the view reaches elements -64"),
    "last stride": ({**VIEW}, {**VIEW, "strides": [64, 2]}, "the last must be 1"),
    "stride": ({**VIEW, "shape": [9, 64], "strides": [72, 1]}, {**VIEW, "strides": [68, 1]}, "not a multiple of 16"),
    "no way back": ({**VIEW}, {**VIEW, "strides": [-64, 1]}, "each must be 1 or more"),
    "whole number": ({"box": ["K // 8", 8]}, {"box": ["K // (K - 64)", 8]}, "box"),
}


@pytest.mark.parametrize("rule", RULES)
def test_one_step_beyond_each_rule_is_refused(rule: str) -> None:
    inside, outside, reason = RULES[rule]
    shape = (1, 1, 1, 96, 64) if rule == "rank" else (96, 64)
    _resolve(inside, "f16", shape)
    assert reason in _reason(outside, "f16", (1, *shape) if rule == "rank" else shape)


# A stride or a dimension that large needs a tensor that large: no memory is touched.
LONG = {"shape": [2, 16], "strides": [(1 << 39) - 8, 1], "box": [1, 16]}
WIDE = {"shape": [(1 << 31), 16], "strides": [8, 1], "box": [1, 16]}


@pytest.mark.parametrize(
    ("inside", "outside", "reason"),
    [
        (LONG, {**LONG, "strides": [1 << 39, 1]}, f"fewer than {1 << 40} are taken"),
        (WIDE, {**WIDE, "shape": [(1 << 31) + 1, 16]}, f"from 1 to {1 << 31} is taken"),
    ],
)
def test_the_largest_strides_and_dimensions(inside: dict[str, Any], outside: dict[str, Any], reason: str) -> None:
    _resolve(inside, "f16", (1 << 41,))
    assert reason in _reason(outside, "f16", (1 << 41,))


SLICES = {"shape": [6, 4, 16], "strides": [64, 16, 1], "box": [2, 4, 16], "interleave": 32, "swizzle": 32}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"swizzle": 0}, "it takes swizzle 32 only"),
        ({"swizzle": 64}, "it takes swizzle 32 only"),
        ({"offset": 16}, None),
        ({"offset": 8}, "16 bytes, not a multiple of 32"),
        ({"strides": [64, 24, 1]}, "48 bytes, not a multiple of 32"),
        ({"shape": [6, 4, 8]}, "16 bytes; it must be one slice of 32"),
        ({"shape": [6, 4, 8], "interleave": 16, "swizzle": 0, "box": [2, 4, 8]}, None),
        ({"shape": [6, 4, 8], "interleave": 16, "swizzle": 128, "box": [2, 4, 8], "offset": 8}, None),
        ({"shape": [6, 4, 16], "interleave": 16, "swizzle": 0}, "32 bytes; it must be one slice of 16"),
        ({"shape": [24, 16], "strides": [16, 1], "box": [2, 16]}, "interleave 32 takes 3 to 5"),
    ],
)
def test_interleave(fields: dict[str, Any], reason: str | None) -> None:
    if reason is None:
        assert _resolve({**SLICES, **fields}, "f16", (512,)).interleave
    else:
        assert reason in _reason({**SLICES, **fields}, "f16", (512,))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"lower": [-128, 0], "upper": [-128, 0]}, None),
        ({"lower": [-129, 0], "upper": [-129, 0]}, "lower"),
        ({"lower": [0, 0], "upper": [-56, 0]}, "leave no pixel of 56"),
        ({"lower": [0, 0], "upper": [-55, 0]}, None),
        ({"lower": [127, 0], "upper": [127, 0]}, None),
        ({"lower": [128, 0], "upper": [127, 0]}, "lower"),
        ({"upper": [0, 128]}, "upper"),
        ({"lower": [0]}, "lower has 1 entries"),
        ({"channels": 64, "swizzle": 128}, None),
        ({"channels": 72, "swizzle": 128}, "channels 72 is 144 bytes, more than swizzle 128 takes"),
        ({"channels": 4}, "8 bytes, not a multiple of 16"),
        ({"channels": 256}, None),
        ({"channels": 257}, "channels 257"),
        ({"pixels": 1024}, None),
        ({"pixels": 1025}, "pixels 1025"),
    ],
)
def test_im2col(fields: dict[str, Any], reason: str | None) -> None:
    if reason is None:
        assert _resolve({**IM2COL, **fields}, "f16", IMAGE).mode == "im2col"
    else:
        assert reason in _reason({**IM2COL, **fields}, "f16", IMAGE)


@pytest.mark.parametrize(("shape", "least", "most"), [((4, 99, 64), -32768, 32767), ((2, 9, 9, 9, 64), -16, 15)])
def test_corners_of_lines_and_volumes(shape: tuple[int, ...], least: int, most: int) -> None:
    between = len(shape) - 2
    for corner in (least, most):
        _resolve({**IM2COL, "lower": [corner] * between, "upper": [corner] * between}, "f16", shape)
    for corner in (least - 1, most + 1):
        reason = _reason({**IM2COL, "lower": [corner] * between, "upper": [0] * between}, "f16", shape)
        assert f"from {least} to {most} is taken" in reason


def test_im2col_needs_three_dimensions() -> None:
    assert "im2col takes 3 to 5" in _reason({**IM2COL, "lower": [], "upper": []})


def test_types() -> None:
    for dtype in TYPES:
        _resolve({"box": [8, 16]}, dtype)
    assert "i8" in _reason({"box": [8, 16]}, "i8")
    assert "only floating-point types have a NaN" in _reason({"box": [8, 16], "oob": "nan"}, "i32")


@given(
    dtype=st.sampled_from(TYPES),
    base=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    strides=st.lists(st.integers(-4, 12), min_size=0, max_size=3),
    offset=st.integers(-8, 80),
)
def test_no_accepted_view_leaves_its_tensor(
    dtype: Dtype, base: list[int], shape: list[int], strides: list[int], offset: int
) -> None:
    base = [*base, 16]
    steps = [8 * step for step in strides[: len(shape) - 1]]
    fields = {"shape": shape, "strides": [*steps, 1], "offset": offset, "box": [1] * (len(shape) - 1) + [16]}
    try:
        found = _resolve(fields, dtype, tuple(base))
    except Rejected:
        return
    places = itertools.product(*map(range, found.shape))
    reached = {found.offset + sum(i * step for i, step in zip(at, found.strides, strict=True)) for at in places}
    assert min(reached) >= 0 and max(reached) < prod(base)
    assert found.offset * ITEM_BYTES[dtype] % 16 == 0
