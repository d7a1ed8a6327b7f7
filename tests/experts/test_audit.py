"""The audit of cases: ours hold, and bad ones are caught. And GEMM's exact symmetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from experts.audit import LOWER_SHARE, Finding, affordable, audit, trivial
from experts.case import Arrays, Case, Workload, bind
from experts.gemm.case import WORKLOAD
from experts.judge import Array, Expected, Judgement

SHAPES = [
    f"{shape}-{dtype}" for dtype in WORKLOAD.tensors for shape in ("64", "256", "M=257,N=129,K=127", "M=96,N=48,K=80")
]


def _case(name: str, workload: Workload = WORKLOAD) -> Case:
    return bind(workload, name, "opencl", "")


def _failed(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.what for finding in findings if not finding.holds}


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("name", SHAPES)
def test_gemm_holds(name: str, seed: int) -> None:
    findings = audit(_case(name), seed)
    assert not [finding for finding in findings if not finding.holds]
    tried = {(finding.what, finding.distribution) for finding in findings}
    assert tried >= {("honest", name) for name in WORKLOAD.distributions}
    assert ("one precision below", "normal") in tried
    assert tried >= {(what, "ties") for what in ("zeros", "ones", "copy of A", "copy of B", "mean of A", "mean of B")}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", WORKLOAD.tensors)
@pytest.mark.parametrize("dims", WORKLOAD.family, ids=str)
def test_honest_gemm_holds_on_its_family(dims: dict[str, int], dtype: str, seed: int) -> None:
    findings = audit(_case(f"512-{dtype}").at(dims), seed)
    assert all(finding.holds for finding in findings if finding.what == "honest")


def _zero_weights(rng: np.random.Generator, case: Case) -> Arrays:
    arrays = WORKLOAD.distributions["normal"](rng, case)
    return {"A": arrays["A"], "B": np.zeros_like(arrays["B"])}


def _with_tolerance(factor: float, workload: Workload = WORKLOAD) -> Workload:
    def reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
        found = WORKLOAD.reference(inputs, case)["C"]
        return {"C": Expected(found.value, found.tolerance * factor)}

    return replace(workload, reference=reference)


def _blind(outputs: Mapping[str, Array], expected: Mapping[str, Expected]) -> Judgement:
    return Judgement(True, 0.0, None)


@pytest.mark.parametrize(
    ("workload", "caught"),
    [
        (replace(WORKLOAD, distributions={"zero": _zero_weights}), {"zeros", "one precision below"}),
        (_with_tolerance(1e6), {"zeros", "ones", "one precision below"}),
        (_with_tolerance(16), {"one precision below"}),
        (_with_tolerance(1e-3), {"honest"}),
        (_with_tolerance(-1.0), {"zeros", "ones"}),
        (_with_tolerance(np.inf), {"zeros", "ones", "one precision below"}),
        (replace(WORKLOAD, judge=_blind), {"zeros", "ones", "copy of A", "one precision below"}),
        (replace(WORKLOAD, one_below=WORKLOAD.honest), {"one precision below"}),
        (replace(WORKLOAD, honest=WORKLOAD.one_below), {"honest"}),
    ],
    ids=["zero weights", "huge", "too wide", "too tight", "negative", "infinite", "blind judge", "one below", "honest"],
)
def test_a_bad_case_is_caught(workload: Workload, caught: set[str]) -> None:
    assert _failed(audit(_case("64-f32", workload), 7)) >= caught


def test_trivial_kernels_give_the_outputs_shapes() -> None:
    case = _case("M=3,N=5,K=2-f32")
    panel = trivial(case, case.draw(np.random.default_rng(0), "normal"))
    assert panel.keys() == {"zeros", "ones", "copy of A", "copy of B", "mean of A", "mean of B"}
    assert all(outputs["C"].shape == (3, 5) and outputs["C"].dtype == np.float32 for outputs in panel.values())
    other = _case("M=3,N=5,K=2-bf16")
    panel = trivial(other, other.draw(np.random.default_rng(0), "normal"))
    assert {str(outputs["C"].dtype) for outputs in panel.values()} == {"bfloat16"}


def _rounded(array: Array, dtype: type) -> NDArray[np.float32]:
    return np.asarray(array.astype(dtype), np.float32)


def _bf16_share(product: Callable[[Array, Array], Array], distribution: str = "normal") -> float:
    case = _case("256-bf16")
    inputs = case.draw(np.random.default_rng(5), distribution)
    output = product(inputs["A"], inputs["B"]).astype(ml_dtypes.bfloat16)
    return case.workload.judge({"C": output}, case.expect(inputs)).error


def test_bf16_inputs_of_eight_bits_and_fp16_sums_are_seen() -> None:
    """Other ways to lose precision than the audit's own."""

    def short(a: Array, b: Array) -> Array:
        eight = ml_dtypes.float8_e4m3fn
        return np.asarray(_rounded(a, eight) @ _rounded(b, eight))

    def half_sums(a: Array, b: Array) -> Array:
        one, other, c = a.astype(np.float32), b.astype(np.float32), np.zeros((256, 256), np.float16)
        for k in range(0, 256, 16):
            c = (c + one[:, k : k + 16] @ other[k : k + 16]).astype(np.float16)
        return c

    def truncated(a: Array, b: Array) -> Array:
        """An output that is cut, not rounded, is twice as far off: legal, if careless."""
        bits = np.ascontiguousarray(a.astype(np.float32) @ b.astype(np.float32)).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)

    assert _bf16_share(short) >= LOWER_SHARE
    assert _bf16_share(half_sums) >= LOWER_SHARE
    assert 1 / 8 < _bf16_share(truncated) <= 1 / 4
    assert _bf16_share(lambda a, b: a.astype(np.float32)[:, :-1] @ b.astype(np.float32)[:-1]) > 1


def test_a_case_that_is_too_large_is_audited_at_a_smaller_size() -> None:
    assert affordable(_case("1024-f32")).shape_name == "1024"
    large = {"M": 4096, "N": 4096, "K": 64}
    for name in ("2048-f32", "4096-bf16", "8192-f32", "M=4096,N=4096,K=8192-f32"):
        assert affordable(_case(name)).shape_name == "1024"
    few = replace(WORKLOAD, shapes={"64": WORKLOAD.shapes["64"], "wide": large | {"N": 65536}})
    findings = audit(_case("wide-bf16", few), 0)
    assert {finding.what for finding in findings} >= {"honest at 64", "one precision below at 64", "zeros at 64"}
    assert all(finding.holds for finding in findings)
    alone = replace(few, shapes={"wide": few.shapes["wide"]})
    assert affordable(_case("wide-bf16", alone)).shape_name == "wide"
