"""The attention case: its audit holds, honest arithmetic in any order passes, and the usual faults do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from experts import catalog
from experts.audit import HONEST_SHARE, audit
from experts.case import Case, bind
from experts.fmha.case import WORKLOAD, _tf32
from experts.kernel import load

Floats = NDArray[np.float32]

FOLDER = Path(catalog.__file__).parent / "fmha"
SEEDS = (0, 2**63)


def _case(name: str) -> Case:
    return bind(WORKLOAD, name, "opencl", "")


def _drawn(case: Case, distribution: str, seed: int) -> dict[str, Any]:
    return dict(case.draw(np.random.default_rng(seed), distribution))


def _share(case: Case, inputs: Mapping[str, Any], output: Floats) -> float:
    return WORKLOAD.judge({"O": output}, case.expect(inputs)).error


def _scores(q: Floats, k: Floats) -> Floats:
    return np.matmul(q, k.swapaxes(-1, -2)) * np.float32(q.shape[-1] ** -0.5)


def _mixed(weights: Floats, v: Floats) -> Floats:
    return np.matmul(weights, v) / weights.sum(-1, keepdims=True)


def _weighted(q: Floats, k: Floats) -> Floats:
    scores = _scores(q, k)
    return np.exp(scores - scores.max(-1, keepdims=True))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["64-f32", "256-f32", "B=2,H=1,S=65,D=63-f32", "B=1,H=1,S=192,D=128-f32"])
def test_the_audit_holds(name: str, seed: int) -> None:
    findings = audit(_case(name), seed)
    assert not [finding for finding in findings if not finding.holds]
    tried = {(finding.what, finding.distribution) for finding in findings}
    assert tried >= {("honest", name) for name in WORKLOAD.distributions} | {("one precision below", "normal")}


@pytest.mark.parametrize("dims", WORKLOAD.family, ids=str)
def test_honest_attention_holds_on_the_family(dims: dict[str, int]) -> None:
    for seed in SEEDS:
        findings = audit(_case("512-f32").at(dims), seed)
        assert all(finding.holds for finding in findings if finding.what == "honest")


def _one_by_one(q: Floats, k: Floats, v: Floats) -> Floats:
    """Every sum in sequence, as a plain kernel has it; exp2 with the factor folded into Q."""
    q = q * np.float32(np.log2(np.e) * q.shape[-1] ** -0.5)
    scores = np.zeros((*q.shape[:3], k.shape[2]), np.float32)
    for d in range(q.shape[3]):
        scores += q[..., d, None] * k[..., None, :, d]
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    out, total = np.zeros_like(q), np.zeros((*q.shape[:3], 1), np.float32)
    for j in range(k.shape[2]):
        out += weights[..., j, None] * v[:, :, j, None, :]
        total += weights[..., j, None]
    return out / total


def _online(q: Floats, k: Floats, v: Floats, rescaled: bool = True) -> Floats:
    """Key by key, with the largest score so far; without `rescaled` what came before keeps its scale."""
    out, total = np.zeros_like(q), np.zeros((*q.shape[:3], 1), np.float32)
    largest = np.full((*q.shape[:3], 1), -np.inf, np.float32)
    for score, value in zip(np.moveaxis(_scores(q, k), -1, 0), np.moveaxis(v, 2, 0), strict=True):
        now = np.maximum(largest, score[..., None])
        shrink = np.exp(largest - now) if rescaled else np.float32(1)
        weight = np.exp(score[..., None] - now)
        out, total, largest = out * shrink + weight * value[:, :, None, :], total * shrink + weight, now
    return out / total


@pytest.mark.parametrize("order", [_one_by_one, _online])
@pytest.mark.parametrize("distribution", WORKLOAD.distributions)
@pytest.mark.parametrize("name", ["64-f32", "B=1,H=1,S=256,D=64-f32", "B=1,H=1,S=128,D=128-f32"])
def test_honest_sums_in_sequence_pass(
    name: str, distribution: str, order: Callable[[Floats, Floats, Floats], Floats]
) -> None:
    case = _case(name)
    for seed in SEEDS:
        inputs = _drawn(case, distribution, seed)
        assert _share(case, inputs, order(inputs["Q"], inputs["K"], inputs["V"])) <= HONEST_SHARE


def _half(array: Floats) -> Floats:
    return array.astype(np.float16).astype(np.float32)


def _no_maximum(q: Floats, k: Floats, v: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        return _mixed(np.exp(_scores(q, k)), v)


def _maximum_from_zero(q: Floats, k: Floats, v: Floats) -> Floats:
    scores = _scores(q, k)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _mixed(np.exp(scores - np.maximum(scores.max(-1, keepdims=True), 0)), v)


def _shifted_by_a_key(q: Floats, k: Floats, v: Floats) -> Floats:
    return _mixed(_weighted(q, k), np.roll(v, 1, axis=2))


def _causal(q: Floats, k: Floats, v: Floats) -> Floats:
    return _mixed(np.tril(_weighted(q, k)), v)


FAULTS: dict[str, tuple[str, Callable[[Floats, Floats, Floats], Floats]]] = {
    "no maximum": ("ramp", _no_maximum),
    "maximum from zero": ("ramp", _maximum_from_zero),
    "no rescaling": ("normal", lambda q, k, v: _online(q, k, v, rescaled=False)),
    "no scale": ("normal", lambda q, k, v: _mixed(_weighted(q * np.float32(8), k), v)),
    "not divided": ("normal", lambda q, k, v: np.matmul(_weighted(q, k), v)),
    "causal": ("normal", _causal),
    "another key's value": ("normal", _shifted_by_a_key),
    "last key left out": ("normal", lambda q, k, v: _mixed(_weighted(q, k[:, :, :-1]), v[:, :, :-1])),
    "heads exchanged": ("normal", lambda q, k, v: _mixed(_weighted(q, k), v[:, ::-1])),
    "scores in tf32": ("normal", lambda q, k, v: _mixed(_weighted(_tf32(q), _tf32(k)), v)),
    "weights in tf32": ("normal", lambda q, k, v: _mixed(_tf32(_weighted(q, k)), v)),
    "weights in fp16": ("normal", lambda q, k, v: _mixed(_half(_weighted(q, k)), v)),
    "values in tf32": ("cancelling", lambda q, k, v: _mixed(_weighted(q, k), _tf32(v))),
    "weights in fp16, large scores": ("log-uniform", lambda q, k, v: _mixed(_half(_weighted(q, k)), v)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("size", [64, 256])
def test_a_fault_is_seen(fault: str, size: int) -> None:
    distribution, faulty = FAULTS[fault]
    case = _case(f"{size}-f32")
    for seed in SEEDS:
        inputs = _drawn(case, distribution, seed)
        assert _share(case, inputs, faulty(inputs["Q"], inputs["K"], inputs["V"])) > 1


@pytest.mark.parametrize("distribution", WORKLOAD.distributions)
def test_the_reference_is_a_mean_of_values_whatever_the_order_of_keys(distribution: str) -> None:
    case = _case("B=2,H=2,S=65,D=16-f32")
    inputs = _drawn(case, distribution, 5)
    value = case.expect(inputs)["O"].value
    order = np.random.default_rng(0).permutation(65)
    moved = case.expect(inputs | {"K": inputs["K"][:, :, order], "V": inputs["V"][:, :, order]})["O"].value
    assert np.allclose(value, moved, rtol=1e-9, atol=1e-12 * np.abs(inputs["V"]).max())
    low, high = inputs["V"].min(2, keepdims=True), inputs["V"].max(2, keepdims=True)
    room = 1e-12 * np.abs(inputs["V"]).max()
    assert (value >= low - room).all() and (value <= high + room).all()


def test_kernels_name_what_they_need() -> None:
    naive, expert = load(FOLDER / "naive.cl").manifest, load(FOLDER / "expert.cl").manifest
    assert naive.require == {} and naive.intents == ()
    assert len(set(expert.intents)) == len(expert.intents) >= 6
