"""The transpose: exact in every type, and an element in another's place is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from experts import catalog, platform
from experts.audit import audit
from experts.case import NUMPY_TYPES, Case, bind
from experts.kernel import load, parse
from experts.transpose.case import WORKLOAD
from tasks.gate.runner import Settings, gate

KERNEL = Path(catalog.__file__).parent / "transpose/naive.cl"


def _case(shape: str, dtype: str = "f32") -> Case:
    return bind(WORKLOAD, f"{shape}-{dtype}", "opencl", "")


@pytest.mark.parametrize("dtype", WORKLOAD.tensors)
@pytest.mark.parametrize("shape", ["64", "256", "2048x512", "M=31,N=67"])
def test_the_audit_holds(shape: str, dtype: str) -> None:
    findings = audit(_case(shape, dtype), 0)
    assert not [finding for finding in findings if not finding.holds]
    assert {finding.share for finding in findings if finding.what == "honest"} == {0.0}


@pytest.mark.parametrize("dtype", WORKLOAD.tensors)
def test_honest_holds_on_the_family(dtype: str) -> None:
    for dims in WORKLOAD.family:
        case = _case("64", dtype).at(dims)
        assert case.inputs[0].shape == case.outputs[0].shape[::-1]
        findings = audit(case, 1)
        assert all(finding.holds for finding in findings if finding.what == "honest")


def _next(b: NDArray[Any]) -> NDArray[Any]:
    bits = np.ascontiguousarray(b).view({2: np.uint16, 4: np.uint32}[b.dtype.itemsize]).copy()
    bits[3, 5] += 1
    return bits.view(b.dtype)


def _tile_not_turned(b: NDArray[Any]) -> NDArray[Any]:
    b = b.copy()
    b[32:64, 0:32] = b[32:64, 0:32].T
    return b


FAULTS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "the last bit of one element": _next,
    "a tile in place, not turned": _tile_not_turned,
    "two rows exchanged": lambda b: b[[1, 0, *range(2, b.shape[0])]],
    "two columns exchanged": lambda b: b[:, [*range(b.shape[1] - 2), b.shape[1] - 1, b.shape[1] - 2]],
    "the last row zero": lambda b: np.concatenate([b[:-1], np.zeros_like(b[:1])]),
}


@pytest.mark.parametrize("dtype", WORKLOAD.tensors)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, dtype: str) -> None:
    case = _case("256", dtype)
    inputs = case.draw(np.random.default_rng(2), "normal")
    expected = case.expect(inputs)
    right = np.ascontiguousarray(inputs["A"].T)
    assert right.dtype == NUMPY_TYPES[case.outputs[0].dtype]
    assert case.workload.judge({"B": right}, expected).correct
    assert not case.workload.judge({"B": FAULTS[fault](right)}, expected).correct


def test_the_naive_kernel_passes_and_a_copy_does_not(tmp_path: Path) -> None:
    settings = Settings(platform=platform.select("opencl", None), profile=False, cache=tmp_path)
    case = catalog.find("transpose/256-f32", "opencl", catalog.roots())
    kernel = load(KERNEL)
    verdict = gate(kernel, case, settings).verdict
    assert verdict.status == "ok" and verdict.correctness is not None, verdict.reason
    assert verdict.correctness.error == 0
    copy = parse(kernel.text.replace("(long)col * M + row", "(long)row * N + col"), surface="opencl")
    assert gate(copy, case, settings).verdict.status == "wrong_value"
