"""The sum of a vector: its audit holds, sums in any reasonable order pass, the usual faults do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from experts import catalog, platform
from experts.audit import HONEST_SHARE, audit
from experts.case import Case, bind
from experts.kernel import load
from experts.reduction.case import WORKLOAD
from tasks.gate.runner import Settings, gate

Floats = NDArray[np.float32]
SEEDS = (0, 2**63)


def _case(shape: str) -> Case:
    return bind(WORKLOAD, f"{shape}-f32", "opencl", "")


def _share(case: Case, distribution: str, seed: int, total: Callable[[Floats], float]) -> float:
    inputs = case.draw(np.random.default_rng(seed), distribution)
    output = np.array([total(np.asarray(inputs["x"], np.float32))], np.float32)
    return case.workload.judge({"y": output}, case.expect(inputs)).error


@pytest.mark.parametrize("shape", ["1m", "2m", "64m", "N=4096", "N=99991"])
def test_the_audit_holds(shape: str) -> None:
    for seed in SEEDS:
        findings = audit(_case(shape), seed)
        assert not [finding for finding in findings if not finding.holds]


def test_honest_arithmetic_holds_on_the_family() -> None:
    for dims in WORKLOAD.family:
        for seed in SEEDS:
            findings = audit(_case("1m").at(dims), seed)
            assert all(finding.holds for finding in findings if finding.what == "honest")


def _in_lanes(length: int) -> Callable[[Floats], float]:
    """Lanes of so many terms in sequence, then those."""

    def total(x: Floats) -> float:
        rest = x.size % length
        lanes = np.add.accumulate(x[: x.size - rest].reshape(length, -1), axis=0)[-1]
        return float(lanes.sum(dtype=np.float32) + x[x.size - rest :].sum(dtype=np.float32))

    return total


@pytest.mark.parametrize("distribution", WORKLOAD.distributions)
def test_sums_in_lanes_pass(distribution: str) -> None:
    for shape in ("1m", "N=99991"):
        for seed in SEEDS:
            assert _share(_case(shape), distribution, seed, _in_lanes(1024)) <= HONEST_SHARE
            assert _share(_case(shape), distribution, seed, _in_lanes(4096)) <= 1 / 2


def _half_lanes(x: Floats) -> NDArray[np.float16]:
    return np.asarray(np.add.accumulate(x.astype(np.float16).reshape(1024, -1), axis=0))


FAULTS: dict[str, tuple[str, Callable[[Floats], float]]] = {
    "one sum in sequence": ("ties", lambda x: float(np.add.accumulate(x)[-1])),
    "last element left out": ("uniform", lambda x: float(x[:-1].sum())),
    "a tail left out": ("normal", lambda x: float(x[: x.size // 1000 * 1000].sum())),
    "half of it": ("cancelling", lambda x: float(x[: x.size // 2].sum())),
    "signs lost": ("normal", lambda x: float(np.abs(x).sum())),
    "the largest lost": ("alone", lambda x: float(x.sum() - x.max())),
    "mean in place of the sum": ("ties", lambda x: float(x.mean())),
    "lanes in fp16": ("ties", lambda x: float(_half_lanes(x)[-1].sum(dtype=np.float32))),
    "result in bf16": ("uniform", lambda x: float((x.sum().view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str) -> None:
    distribution, total = FAULTS[fault]
    shape = "N=2051" if "left out" in fault else "1m"
    for seed in SEEDS:
        assert _share(_case(shape), distribution, seed, total) > 1


@pytest.mark.parametrize("distribution", WORKLOAD.distributions)
def test_no_sum_is_near_zero(distribution: str) -> None:
    """Or zeros would pass now and then."""
    for seed in range(20):
        assert _share(_case("1m"), distribution, seed, lambda x: 0.0) > 100


def test_the_naive_kernel_passes(tmp_path: Path) -> None:
    settings = Settings(platform=platform.select("opencl", None), profile=False, cache=tmp_path)
    case = catalog.find("reduction", "opencl", catalog.roots())
    verdict = gate(load(Path(catalog.__file__).parent / "reduction/naive.cl"), case, settings).verdict
    assert verdict.status == "ok", verdict.reason
