"""The audit of cases: ours hold, and bad ones are caught. And GEMM's exact symmetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from experts.audit import Finding, audit, trivial
from experts.case import Arrays, Case, Workload, bind
from experts.gemm.case import WORKLOAD
from experts.judge import Array, Expected, Judgement


def _case(name: str, workload: Workload = WORKLOAD) -> Case:
    return bind(workload, name, "opencl", "")


def _failed(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.what for finding in findings if not finding.holds}


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("name", ["64-f32", "256-f32", "M=257,N=129,K=127-f32", "M=96,N=48,K=80-f32"])
def test_gemm_holds(name: str, seed: int) -> None:
    findings = audit(_case(name), seed)
    assert not [finding for finding in findings if not finding.holds]
    tried = {(finding.what, finding.distribution) for finding in findings}
    assert tried >= {("honest", name) for name in WORKLOAD.distributions}
    assert ("one precision below", "normal") in tried
    assert tried >= {(what, "ties") for what in ("zeros", "ones", "copy of A", "copy of B", "mean of A", "mean of B")}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dims", WORKLOAD.family, ids=str)
def test_honest_gemm_holds_on_its_family(dims: dict[str, int], seed: int) -> None:
    findings = audit(_case("512-f32").at(dims), seed)
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
