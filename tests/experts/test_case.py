"""Cases: names, sizes, ids, domain, and what a case.py must not declare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experts.case import Arrays, Case, CaseError, Parameter, Tensor, Workload, bind, check, known
from experts.gemm.case import WORKLOAD
from experts.judge import Array, Expected


def _draw(rng: np.random.Generator, case: Case) -> Arrays:
    return {tensor.name: rng.standard_normal(tensor.shape).astype(np.float32) for tensor in case.inputs}


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    value = inputs["X"].astype(np.float64) * 2
    return {"Y": Expected(value, np.abs(value) * 2.0**-23)}


def _double(inputs: Mapping[str, Array], case: Case) -> Arrays:
    return {"Y": inputs["X"].astype(np.float32) * np.float32(2)}


TOY = Workload(
    name="toy",
    dimensions=("R", "S"),
    tensors={"f32": (Tensor("X", "f32", ("R", "2 * S")), Tensor("Y", "f32", ("R", "2 * S"), "out"))},
    shapes={"small": {"R": 4, "S": 8}, "tall-one": {"R": 64, "S": 1}},
    default={"opencl": "small-f32"},
    domain=("R % 4 == 0",),
    family=({"R": 1, "S": 1}, {"R": 4, "S": 8}),
    sanitize={"R": 4, "S": 1},
    distributions={"normal": _draw, "again": _draw},
    reference=_reference,
    one_below=_double,
    honest=_double,
    operations="R * S * 2",
)


def _one_line(error: pytest.ExceptionInfo[CaseError]) -> str:
    message = str(error.value)
    assert message and len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize(
    ("name", "full", "dims"),
    [
        (None, "toy/small-f32", {"R": 4, "S": 8}),
        ("small-f32", "toy/small-f32", {"R": 4, "S": 8}),
        ("tall-one-f32", "toy/tall-one-f32", {"R": 64, "S": 1}),
        ("R=7,S=3-f32", "toy/R=7,S=3-f32", {"R": 7, "S": 3}),
        ("S=3,R=7-f32", "toy/R=7,S=3-f32", {"R": 7, "S": 3}),
        ("R=4,S=8-f32", "toy/small-f32", {"R": 4, "S": 8}),
        ("R=999999999,S=1-f32", "toy/R=999999999,S=1-f32", {"R": 999999999, "S": 1}),
    ],
)
def test_names(name: str | None, full: str, dims: dict[str, int]) -> None:
    case = bind(TOY, name, "opencl", "source")
    assert case.name == full
    assert case.dims == dims
    assert bind(TOY, case.name.partition("/")[2], "opencl", "source").case_id == case.case_id


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("small", "expected <size>-<dtype> with a dtype of f32; there are toy/small-f32, toy/tall-one-f32"),
        ("small-f16", "expected <size>-<dtype>"),
        ("", "expected <size>-<dtype>"),
        ("-f32", "unknown case toy/-f32; there are toy/small-f32, toy/tall-one-f32, or sizes like toy/R=64,S=64-f32"),
        ("large-f32", "unknown case toy/large-f32"),
        ("R=4-f32", "case toy/R=4-f32: give each of R, S once"),
        ("R=4,S=8,T=1-f32", "give each of R, S once"),
        ("R=4,S=8,S=8-f32", "give each of R, S once"),
        ("R=4,R=4-f32", "give each of R, S once"),
        ("R=0,S=8-f32", "unknown case"),
        ("R=-4,S=8-f32", "unknown case"),
        ("R=04,S=8-f32", "unknown case"),
        ("R=4.0,S=8-f32", "unknown case"),
        ("R=1e3,S=8-f32", "unknown case"),
        ("R=4, S=8-f32", "unknown case"),
        ("R=4;S=8-f32", "unknown case"),
        ("R=1000000000,S=8-f32", "unknown case"),
        ("r=4,s=8-f32", "give each of R, S once"),
        ("../gemm-f32", "unknown case"),
    ],
)
def test_unknown_names_are_refused_with_what_there_is(name: str, message: str) -> None:
    with pytest.raises(CaseError) as caught:
        bind(TOY, name, "opencl", "")
    assert message in _one_line(caught)


def test_a_surface_without_a_default_says_what_there_is() -> None:
    with pytest.raises(CaseError) as caught:
        bind(TOY, None, "cuda", "")
    assert "no default case for cuda; it has toy/small-f32" in _one_line(caught)
    assert bind(TOY, "small-f32", "cuda", "").name == "toy/small-f32"


@given(st.text(max_size=30))
def test_any_name_is_a_case_or_a_case_error(name: str) -> None:
    try:
        assert bind(TOY, name, "opencl", "").case_id
    except CaseError:
        return


def test_a_tensor_has_numbers_for_its_shape() -> None:
    case = bind(TOY, "R=3,S=5-f32", "opencl", "")
    x, y = case.tensors
    assert (x.shape, x.nbytes, x.role) == ((3, 10), 120, "in")
    assert case.inputs == (x,) and case.outputs == (y,)
    assert case.mandatory_bytes == 240 and case.mandatory_operations == 30
    assert case.timed_distribution == "normal"


def test_a_tensor_in_and_out_crosses_memory_twice() -> None:
    both = replace(TOY, tensors={"f32": (Tensor("X", "f32", ("R", "S"), "inout"),)})
    case = bind(both, "R=3,S=5-f32", "opencl", "")
    assert case.mandatory_bytes == 120
    assert case.inputs == case.outputs == case.tensors


@pytest.mark.parametrize(("name", "inside"), [("R=4,S=1-f32", True), ("R=5,S=4-f32", False)])
def test_domain(name: str, inside: bool) -> None:
    assert bind(TOY, name, "opencl", "").in_domain is inside


def test_at_other_dimensions() -> None:
    case = bind(TOY, None, "opencl", "source")
    other = case.at({"R": 64, "S": 1})
    assert other.name == "toy/tall-one-f32" and other.source == "source"
    assert case.at(case.dims).case_id == case.case_id
    assert case.at({"R": 2, "S": 2}).name == "toy/R=2,S=2-f32"


def _id(workload: Workload = TOY, name: str = "small-f32", source: str = "source") -> str:
    return bind(workload, name, "opencl", source).case_id


def test_ids_are_equal_for_equal_cases() -> None:
    assert _id() == _id()
    assert _id(name="R=4,S=8-f32") == _id(name="small-f32")
    assert len(_id()) == 16


@pytest.mark.parametrize(
    "other",
    [
        _id(name="tall-one-f32"),
        _id(name="R=8,S=4-f32"),
        _id(source="source "),
        _id(replace(TOY, name="toys")),
        _id(replace(TOY, domain=("R % 8 == 0",))),
        _id(replace(TOY, scalars=(Parameter("alpha", "f32", 1.0),))),
        _id(replace(TOY, tensors={"f32": (*TOY.tensors["f32"][:1], Tensor("Y", "f32", ("R", "2 * S"), "inout"))})),
        _id(replace(TOY, tensors={"f64": TOY.tensors["f32"]}), "small-f64"),
        _id(replace(TOY, tensors={"f32": tuple(replace(t, dtype="f16") for t in TOY.tensors["f32"])})),
    ],
)
def test_ids_differ_for_different_cases(other: str) -> None:
    assert other != _id()


def test_good_declarations_pass() -> None:
    assert check(TOY, "x") is TOY
    assert check(WORKLOAD, "x") is WORKLOAD


CONTRADICTIONS: dict[str, tuple[object, str]] = {
    "nothing": (None, "case.py: WORKLOAD is not a Workload"),
    "a dict": ({}, "case.py: WORKLOAD is not a Workload"),
    "shape lacks": (replace(TOY, shapes={"small": {"R": 4}}), "does not give each of R, S once"),
    "shape has more": (replace(TOY, shapes={"small": {"R": 4, "S": 1, "T": 1}}), "does not give each of R, S once"),
    "shape of 0": (replace(TOY, shapes={"small": {"R": 4, "S": 0}}), "does not give each of R, S once"),
    "family": (replace(TOY, family=({"R": 4, "S": -1},)), "does not give each of R, S once"),
    "sanitize lacks": (replace(TOY, sanitize={"S": 4}), "does not give each of R, S once"),
    "sanitize outside": (replace(TOY, sanitize={"R": 5, "S": 1}), "the sanitize shape is outside the minimal domain"),
    "no output": (replace(TOY, tensors={"f32": TOY.tensors["f32"][:1]}), "dtype f32 has no output"),
    "name twice": (replace(TOY, tensors={"f32": TOY.tensors["f32"] * 2}), "stands twice"),
    "tensor is a dimension": (
        replace(TOY, tensors={"f32": (Tensor("R", "f32", ("R",), "out"),)}),
        "a tensor, scalar or dimension name stands twice",
    ),
    "scalar is a tensor": (replace(TOY, scalars=(Parameter("X", "f32", 1.0),)), "stands twice"),
    "default unknown": (replace(TOY, default={"opencl": "large-f32"}), "unknown case toy/large-f32"),
    "default outside": (replace(TOY, default={"opencl": "R=5,S=1-f32"}), "is outside the minimal domain"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_refused(name: str) -> None:
    workload, message = CONTRADICTIONS[name]
    with pytest.raises(CaseError) as caught:
        check(workload, "case.py")
    assert message in _one_line(caught)


UNSEEN: dict[str, Workload] = {
    "domain is no expression": replace(TOY, domain=("R %",)),
    "domain of an unknown name": replace(TOY, domain=("Q % 4 == 0",)),
    "size is a text": replace(TOY, sanitize={"R": "4", "S": 1}),  # type: ignore[dict-item]
    "size is a fraction": replace(TOY, sanitize={"R": 4.5, "S": 1}, domain=()),  # type: ignore[dict-item]
    "tensor of an unknown name": replace(TOY, tensors={"f32": (Tensor("Y", "f32", ("Q",), "out"),)}),
    "tensor is empty": replace(TOY, tensors={"f32": (Tensor("Y", "f32", ("R - R",), "out"),)}),
    "tensor without NumPy type": replace(TOY, tensors={"f32": (Tensor("Y", "f8", ("R",), "out"),)}),  # type: ignore[arg-type]
    "operations of an unknown name": replace(TOY, operations="Q"),
    "no distribution": replace(TOY, distributions={}),
    "no dtype": replace(TOY, tensors={}, default={}),
    "dimension called SMS": replace(
        TOY,
        dimensions=("SMS",),
        tensors={"f32": (Tensor("Y", "f32", ("SMS",), "out"),)},
        shapes={"small": {"SMS": 4}},
        domain=(),
        family=(),
        sanitize={"SMS": 4},
        operations="SMS",
    ),
    "scalar that JSON has not": replace(TOY, scalars=(Parameter("alpha", "f32", float("inf")),)),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_more_contradictions_are_refused(name: str) -> None:
    with pytest.raises(CaseError) as caught:
        check(UNSEEN[name], "case.py")
    assert _one_line(caught).startswith("case.py: ")


@pytest.mark.parametrize(
    ("dtype", "value", "good"),
    [
        ("f32", 1.5, True),
        ("f32", 3, True),
        ("f32", 1e39, False),
        ("f64", 1e39, True),
        ("f64", float("nan"), False),
        ("f64", 10**400, False),
        ("f32", True, False),
        ("f32", "1", False),
        ("f16", 65504.0, True),
        ("f16", 65505.0, False),
        ("bf16", 1.0, False),
        ("i32", -(1 << 31), True),
        ("i32", 1 << 31, False),
        ("i32", 1.0, False),
        ("u8", -1, False),
    ],
)
def test_scalars_are_finite_numbers_of_their_type(dtype: Any, value: Any, good: bool) -> None:
    workload = replace(TOY, scalars=(Parameter("alpha", dtype, value),))
    if good:
        assert check(workload, "case.py") is workload
        assert bind(workload, None, "opencl", "").case_id
        return
    with pytest.raises(CaseError, match="the scalar alpha cannot be"):
        check(workload, "case.py")


WEIRD: dict[str, Workload] = {
    "shapes are a list": replace(TOY, shapes=[1]),  # type: ignore[arg-type]
    "domain is None": replace(TOY, domain=None),  # type: ignore[arg-type]
    "tensors are texts": replace(TOY, tensors={"f32": ("X",)}),  # type: ignore[dict-item]
    "size is true": replace(TOY, sanitize={"R": True, "S": 1}, domain=()),
    "size of NumPy": replace(TOY, sanitize={"R": np.int64(4), "S": 1}),  # type: ignore[dict-item]
    "operations is a number": replace(TOY, operations=1.5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WEIRD)
def test_fields_of_other_types_are_one_line(name: str) -> None:
    with pytest.raises(CaseError) as caught:
        check(WEIRD[name], "case.py")
    assert _one_line(caught).startswith("case.py: ")


@pytest.mark.parametrize(
    ("workload", "name", "message"),
    [
        (WORKLOAD, "M=999999999,N=999999999,K=999999999-f32", "a value beyond 64 bits"),
        (replace(TOY, operations="R ** 2"), "R=4,S=4-f32", "BinOp is not allowed"),
        (replace(TOY, domain=("R % (S - 1) == 0",)), "R=4,S=1-f32", "division by zero"),
        (
            replace(TOY, tensors={"f32": (*TOY.tensors["f32"], Tensor("Z", "f32", ("S - 2",)))}),
            "R=4,S=2-f32",
            "the tensor Z has no elements",
        ),
    ],
)
def test_a_size_at_which_something_has_no_value_is_refused(workload: Workload, name: str, message: str) -> None:
    with pytest.raises(CaseError) as caught:
        bind(workload, name, "opencl", "")
    assert message in _one_line(caught)
    assert _one_line(caught).startswith(f"case {workload.name}/{name}: ")


def test_draw_gives_what_the_distribution_gives() -> None:
    case = bind(TOY, "R=3,S=5-f32", "opencl", "")
    one, same = (case.draw(np.random.default_rng(3), "normal")["X"] for _ in range(2))
    other = case.draw(np.random.default_rng(4), "normal")["X"]
    assert one.shape == (3, 10) and one.dtype == np.float32
    assert np.array_equal(one, same) and not np.array_equal(one, other)


BAD_DRAWS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "gives [], the case wants ['X']"),
    "an output too": ({"X": np.ones((4, 16), np.float32), "Y": np.ones((4, 16), np.float32)}, "gives ['X', 'Y']"),
    "other shape": ({"X": np.ones((16, 4), np.float32)}, "gives X as float32[16, 4]"),
    "other rank": ({"X": np.ones(64, np.float32)}, "gives X as float32[64]"),
    "other dtype": ({"X": np.ones((4, 16))}, "gives X as float64[4, 16]"),
    "NaN": ({"X": np.full((4, 16), np.nan, np.float32)}, "gives X a value that is not finite"),
    "infinity": ({"X": np.full((4, 16), -np.inf, np.float32)}, "gives X a value that is not finite"),
}


def _bf16(value: float) -> Any:
    return np.full(4, value, np.float32).astype(ml_dtypes.bfloat16)


def test_draw_knows_bf16() -> None:
    tensors = (Tensor("X", "bf16", ("R",)), Tensor("Y", "bf16", ("R",), "out"))
    drawn = {"good": _bf16(1.5), "f32": np.ones(4, np.float32), "NaN": _bf16(np.nan), "infinity": _bf16(np.inf)}
    distributions = {name: lambda rng, case, array=array: {"X": array} for name, array in drawn.items()}
    case = bind(replace(TOY, tensors={"bf16": tensors}, distributions=distributions), "small-bf16", "cuda", "")
    rng = np.random.default_rng(0)
    assert case.draw(rng, "good")["X"] is drawn["good"]
    assert (case.inputs[0].nbytes, case.mandatory_bytes) == (8, 16)
    for name, message in (("f32", "X as float32[4]"), ("NaN", "not finite"), ("infinity", "not finite")):
        with pytest.raises(CaseError, match=re.escape(message)):
            case.draw(rng, name)


@pytest.mark.parametrize("name", BAD_DRAWS)
def test_draw_refuses(name: str) -> None:
    arrays, message = BAD_DRAWS[name]
    case = bind(replace(TOY, distributions={"bad": lambda rng, case: arrays}), None, "opencl", "")
    with pytest.raises(CaseError) as caught:
        case.draw(np.random.default_rng(0), "bad")
    assert message in _one_line(caught)


def test_known_lists_every_named_case() -> None:
    assert known(TOY) == "toy/small-f32, toy/tall-one-f32"
