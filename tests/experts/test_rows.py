"""The cases with a result for each row: their audits hold, honest sums in any order pass, the usual faults do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from experts import catalog, platform
from experts.audit import HONEST_SHARE, audit
from experts.case import Case, Workload, bind
from experts.gemv.case import WORKLOAD as GEMV
from experts.kde.case import WORKLOAD as KDE
from experts.kernel import Kernel, load, parse
from experts.layernorm.case import EPS
from experts.layernorm.case import WORKLOAD as LAYERNORM
from experts.softmax.case import WORKLOAD as SOFTMAX
from tasks.gate.runner import Settings, gate
from tasks.rewrite.rules import apply, rule_named

Floats = NDArray[np.float32]
Sum = Callable[[Floats], Floats]
Inputs = Mapping[str, Any]

ROOT = Path(catalog.__file__).parent
WORKLOADS = {workload.name: workload for workload in (GEMV, KDE, LAYERNORM, SOFTMAX)}
# the reference of larger ones takes its time
AUDITED = [
    (name, shape)
    for name, workload in WORKLOADS.items()
    for shape, dims in workload.shapes.items()
    if prod(dims.values()) <= 2**18
]
SUMMED = [("gemv", "512"), ("gemv", "256x2048"), ("kde", "512"), ("kde", "64x4096")]
SUMMED += [(name, shape) for name in ("layernorm", "softmax") for shape in ("64x128", "256x512", "64x4096")]
SEEDS = (0, 2**63)


def _case(workload: Workload, shape: str) -> Case:
    return bind(workload, f"{shape}-f32", "opencl", "")


def _drawn(case: Case, distribution: str, seed: int) -> dict[str, Any]:
    return dict(case.draw(np.random.default_rng(seed), distribution))


def _share(case: Case, inputs: Inputs, output: Floats) -> float:
    (name,) = (tensor.name for tensor in case.outputs)
    return case.workload.judge({name: output}, case.expect(inputs)).error


def _in_pairs(terms: Floats) -> Floats:
    return np.asarray(terms.sum(1, keepdims=True))


def _in_sequence(terms: Floats) -> Floats:
    return np.asarray(np.add.accumulate(terms, axis=1)[:, -1:])


def _in_lanes(terms: Floats) -> Floats:
    """Sixteen sums in sequence, then those."""
    lanes = np.add.accumulate(terms.reshape(terms.shape[0], -1, 16), axis=1)[:, -1]
    return np.asarray(lanes.sum(1, keepdims=True))


ORDERS = {"pairs": _in_pairs, "sequence": _in_sequence, "lanes": _in_lanes}


def _weights(x: Floats) -> Floats:
    return np.asarray(np.exp(x - x.max(1, keepdims=True)))


def _softmax(inputs: Inputs, total: Sum) -> Floats:
    e = _weights(inputs["X"])
    return np.asarray(e / total(e))


def _online(x: Floats) -> Floats:
    """One pass: what came before shrinks where there is a new maximum."""
    largest, total = x[:, :1], np.ones_like(x[:, :1])
    for column in np.moveaxis(x[:, 1:, None], 1, 0):
        now = np.maximum(largest, column)
        total, largest = total * np.exp(largest - now) + np.exp(column - now), now
    return np.asarray(np.exp(x - largest) / total)


def _scaled(inputs: Inputs, centred: Floats, variance: Floats) -> Floats:
    return np.asarray(centred / np.sqrt(variance + np.float32(EPS)) * inputs["G"] + inputs["B"])


def _layernorm(inputs: Inputs, total: Sum) -> Floats:
    x, n = inputs["X"], np.float32(inputs["X"].shape[1])
    centred = x - total(x) / n
    return _scaled(inputs, centred, total(centred * centred) / n)


def _one_pass(inputs: Inputs, total: Sum) -> Floats:
    x, n = inputs["X"], np.float32(inputs["X"].shape[1])
    mean = total(x) / n
    with np.errstate(invalid="ignore"):
        return _scaled(inputs, x - mean, total(x * x) / n - mean * mean)


def _gemv(inputs: Inputs, total: Sum) -> Floats:
    return total(inputs["A"] * inputs["x"])[:, 0]


def _terms(q: Floats, x: Floats) -> Floats:
    d = np.subtract.outer(q, x)
    return np.asarray(np.exp(np.float32(-0.5) * d * d))


def _kde(inputs: Inputs, total: Sum) -> Floats:
    return total(_terms(inputs["q"], inputs["x"]))[:, 0]


HONEST = {"gemv": _gemv, "kde": _kde, "layernorm": _layernorm, "softmax": _softmax}


@pytest.mark.parametrize(("name", "shape"), AUDITED)
def test_the_audit_holds(name: str, shape: str) -> None:
    workload = WORKLOADS[name]
    findings = audit(_case(workload, shape), SEEDS[0])
    assert not [finding for finding in findings if not finding.holds]
    tried = {(finding.what, finding.distribution) for finding in findings}
    assert tried >= {("honest", name) for name in workload.distributions} | {("one precision below", "normal")}


@pytest.mark.parametrize("name", WORKLOADS)
def test_honest_arithmetic_holds_on_the_family(name: str) -> None:
    workload = WORKLOADS[name]
    for dims in workload.family:
        case = bind(workload, None, "opencl", "").at(dims)
        for seed in SEEDS:
            assert all(finding.holds for finding in audit(case, seed) if finding.what == "honest")


@pytest.mark.parametrize(("name", "shape"), SUMMED)
def test_honest_sums_in_any_order_pass(name: str, shape: str) -> None:
    """Within half of the bound: sums in sequence of few distinct values err to one side."""
    case = _case(WORKLOADS[name], shape)
    (output,) = (tensor.name for tensor in case.outputs)
    for distribution in case.workload.distributions:
        inputs = _drawn(case, distribution, SEEDS[1])
        expected = case.expect(inputs)
        for order, total in ORDERS.items():
            share = case.workload.judge({output: HONEST[name](inputs, total)}, expected).error
            assert share <= 1 / 2, f"{distribution}, {order}"


@pytest.mark.parametrize("distribution", SOFTMAX.distributions)
def test_other_softmaxes_pass(distribution: str) -> None:
    """In one pass; and with exp2, where the factor comes behind the difference."""
    case = _case(SOFTMAX, "256x256")
    inputs = _drawn(case, distribution, 3)
    x = inputs["X"]
    e = np.exp2((x - x.max(1, keepdims=True)) * np.float32(np.log2(np.e)))
    assert _share(case, inputs, e / _in_pairs(e)) <= HONEST_SHARE
    assert _share(case, inputs, _online(x)) <= 1 / 4


def _half(array: Floats) -> Floats:
    return array.astype(np.float16).astype(np.float32)


def _quiet(call: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return call()


def _base_two_too_early(x: Floats) -> Floats:
    scaled = x * np.float32(np.log2(np.e))
    e = np.exp2(scaled - scaled.max(1, keepdims=True))
    return np.asarray(e / _in_pairs(e))


def _maximum_from_zero(x: Floats) -> Floats:
    e = np.exp(x - np.maximum(x.max(1, keepdims=True), 0))
    return np.asarray(e / _in_pairs(e))


SOFTMAX_FAULTS: dict[str, tuple[str, Callable[[Floats], Floats]]] = {
    "no maximum": ("ramp", lambda x: _quiet(lambda: np.exp(x) / _in_pairs(np.exp(x)))),
    "maximum from zero": ("ramp", lambda x: _quiet(lambda: _maximum_from_zero(x))),
    "maximum of the first half": ("ramp", lambda x: _quiet(lambda: _shifted(x, x[:, : x.shape[1] // 2]))),
    "not divided": ("ties", _weights),
    "last element left out": ("normal", lambda x: _weights(x) / _in_pairs(_weights(x)[:, :-1])),
    "another row's sum": ("normal", lambda x: _weights(x) / np.roll(_in_pairs(_weights(x)), 1, axis=0)),
    "weights in fp16": ("normal", lambda x: _half(_weights(x)) / _in_pairs(_half(_weights(x)))),
    "result in fp16": ("ties", lambda x: _half(_softmax({"X": x}, _in_pairs))),
    "sum in fp16": ("normal", lambda x: _softmax({"X": x}, lambda e: _half(_in_pairs(e)))),
    "log2(e) before the difference": ("offset", _base_two_too_early),
}


def _shifted(x: Floats, part: Floats) -> Floats:
    e = np.exp(x - part.max(1, keepdims=True))
    return np.asarray(e / _in_pairs(e))


@pytest.mark.parametrize("fault", SOFTMAX_FAULTS)
@pytest.mark.parametrize("shape", ["64x128", "256x512"])
def test_a_fault_of_a_softmax_is_seen(fault: str, shape: str) -> None:
    distribution, faulty = SOFTMAX_FAULTS[fault]
    case = _case(SOFTMAX, shape)
    for seed in SEEDS:
        inputs = _drawn(case, distribution, seed)
        assert _share(case, inputs, faulty(inputs["X"])) > 1


def _without_eps(inputs: Inputs) -> Floats:
    x = inputs["X"]
    centred = x - x.mean(1, keepdims=True)
    return np.asarray(centred / np.sqrt(np.square(centred).mean(1, keepdims=True)) * inputs["G"] + inputs["B"])


def _unbiased(inputs: Inputs) -> Floats:
    centred = inputs["X"] - inputs["X"].mean(1, keepdims=True)
    return _scaled(inputs, centred, np.square(centred).sum(1, keepdims=True) / np.float32(centred.shape[1] - 1))


def _not_centred(inputs: Inputs) -> Floats:
    return _scaled(inputs, inputs["X"], inputs["X"].var(1, keepdims=True))


LAYERNORM_FAULTS: dict[str, tuple[str, Callable[[Inputs], Floats]]] = {
    "one pass, in pairs": ("offset", lambda inputs: _one_pass(inputs, _in_pairs)),
    "one pass, in sequence": ("offset", lambda inputs: _one_pass(inputs, _in_sequence)),
    "one pass, in lanes": ("offset", lambda inputs: _one_pass(inputs, _in_lanes)),
    "no eps": ("log-uniform", _without_eps),
    "no eps, constant rows": ("ties", lambda inputs: _quiet(lambda: _without_eps(inputs))),
    "unbiased variance": ("normal", _unbiased),
    "not centred": ("normal", _not_centred),
    "no gain": ("normal", lambda inputs: _layernorm({**inputs, "G": np.ones_like(inputs["G"])}, _in_pairs)),
    "no bias": ("normal", lambda inputs: _layernorm({**inputs, "B": np.zeros_like(inputs["B"])}, _in_pairs)),
    "gain in fp16": ("normal", lambda inputs: _layernorm({**inputs, "G": _half(inputs["G"])}, _in_pairs)),
    "result in fp16": ("normal", lambda inputs: _half(_layernorm(inputs, _in_pairs))),
}


@pytest.mark.parametrize("fault", LAYERNORM_FAULTS)
@pytest.mark.parametrize("shape", ["64x128", "256x512"])
def test_a_fault_of_a_layernorm_is_seen(fault: str, shape: str) -> None:
    distribution, faulty = LAYERNORM_FAULTS[fault]
    case = _case(LAYERNORM, shape)
    for seed in SEEDS:
        inputs = _drawn(case, distribution, seed)
        assert _share(case, inputs, faulty(inputs)) > 1


def test_one_pass_is_right_where_the_mean_is_small() -> None:
    """So that it is the offset that tells."""
    case = _case(LAYERNORM, "256x512")
    inputs = _drawn(case, "normal", 0)
    assert _share(case, inputs, _one_pass(inputs, _in_sequence)) <= HONEST_SHARE


GEMV_FAULTS: dict[str, tuple[str, Callable[[Floats, Floats], Floats]]] = {
    "last column left out": ("normal", lambda a, x: a[:, :-1] @ x[:-1]),
    "vector reversed": ("normal", lambda a, x: a @ x[::-1]),
    "rows exchanged": ("normal", lambda a, x: np.roll(a @ x, 1)),
    "vector in fp16": ("cancelling", lambda a, x: a @ _half(x)),
    "result in fp16": ("log-uniform", lambda a, x: _half(a @ x)),
    "matrix in fp16": ("normal", lambda a, x: _half(a) @ x),
}


@pytest.mark.parametrize("fault", GEMV_FAULTS)
@pytest.mark.parametrize("shape", ["256", "1024"])
def test_a_fault_of_a_gemv_is_seen(fault: str, shape: str) -> None:
    distribution, faulty = GEMV_FAULTS[fault]
    case = _case(GEMV, shape)
    for seed in SEEDS:
        inputs = _drawn(case, distribution, seed)
        with np.errstate(over="ignore"):
            output = faulty(inputs["A"], inputs["x"])
        assert _share(case, inputs, output) > 1


@pytest.mark.parametrize("distribution", KDE.distributions)
def test_other_density_sums_pass(distribution: str) -> None:
    """With exp2 and one factor for everything; with terms below the normal range flushed to zero."""
    case = _case(KDE, "512")
    inputs = _drawn(case, distribution, 3)
    d = np.subtract.outer(inputs["q"], inputs["x"])
    e = np.exp2(d * d * np.float32(-0.5 * np.log2(np.e)))
    assert _share(case, inputs, _in_pairs(e)[:, 0]) <= HONEST_SHARE
    flushed = np.where(e < np.finfo(np.float32).tiny, np.float32(0), e)
    assert _share(case, inputs, _in_pairs(flushed)[:, 0]) <= HONEST_SHARE


def _expanded(q: Floats, x: Floats) -> Floats:
    """The square multiplied out."""
    halves = np.float32(0.5) * q[:, None] * q[:, None] + np.float32(0.5) * x * x
    return np.asarray(np.exp(np.multiply.outer(q, x) - halves).sum(1))


KDE_FAULTS: dict[str, tuple[str, Callable[[Floats, Floats], Floats]]] = {
    "last term left out": ("normal", lambda q, x: _density(q, x[:-1])),
    "queries exchanged": ("normal", lambda q, x: np.roll(_density(q, x), 1)),
    "square not halved": ("normal", lambda q, x: _density(q * np.float32(2**0.5), x * np.float32(2**0.5))),
    "mean in place of the sum": ("ties", lambda q, x: _density(q, x) / np.float32(x.size)),
    "queries in fp16": ("normal", lambda q, x: _density(_half(q), x)),
    "terms in fp16": ("normal", lambda q, x: _half(_terms(q, x)).sum(1)),
    "result in fp16": ("normal", lambda q, x: _half(_density(q, x))),
    "square multiplied out": ("offset", _expanded),
    "square multiplied out, one term": ("alone", _expanded),
    "far terms cut off": ("log-uniform", lambda q, x: np.where(_terms(q, x) > 1e-3, _terms(q, x), 0).sum(1)),
}


def _density(q: Floats, x: Floats) -> Floats:
    return np.asarray(_terms(q, x).sum(1))


@pytest.mark.parametrize("fault", KDE_FAULTS)
@pytest.mark.parametrize("shape", ["128", "512"])
def test_a_fault_of_a_density_is_seen(fault: str, shape: str) -> None:
    distribution, faulty = KDE_FAULTS[fault]
    case = _case(KDE, shape)
    for seed in SEEDS:
        inputs = _drawn(case, distribution, seed)
        assert _share(case, inputs, faulty(inputs["q"], inputs["x"])) > 1


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(platform=platform.select("opencl", None), profile=False, cache=tmp_path_factory.mktemp("cache"))


GATED = ["gemv/naive.cl", "gemv/expert.cl", "kde/naive.cl", "kde/expert.cl", "layernorm/naive.cl", "softmax/naive.cl"]


@pytest.mark.parametrize("kernel", GATED)
def test_the_kernels_pass(kernel: str, settings: Settings) -> None:
    case = catalog.find(kernel.partition("/")[0], "opencl", catalog.roots())
    verdict = gate(load(ROOT / kernel), case, settings).verdict
    assert verdict.status == "ok", verdict.reason


ONE_PASS = """
    float sum = 0.0f;
    float squares = 0.0f;
    for (int j = 0; j < N; j++) {
        sum += x[j];
        squares += x[j] * x[j];
    }
    float mean = sum / N;
    float scale = 1.0f / sqrt(squares / N - mean * mean + eps);
"""


def test_the_gate_refuses_a_variance_in_one_pass(settings: Settings) -> None:
    kernel = load(ROOT / "layernorm/naive.cl")
    start, end = kernel.text.index("    float sum"), kernel.text.index("    for (int j = 0; j < N; j++)\n        y[j]")
    changed = parse(kernel.text[:start] + ONE_PASS + kernel.text[end:], surface="opencl")
    verdict = gate(changed, catalog.find("layernorm/64x128-f32", "opencl", catalog.roots()), settings).verdict
    assert verdict.status == "wrong_value" and "offset" in (verdict.reason or "")


def test_kernels_name_what_they_need() -> None:
    for name in WORKLOADS:
        naive = load(ROOT / name / "naive.cl").manifest
        assert naive.require == {} and naive.intents == ()
    for name in ("gemv", "kde"):
        expert = load(ROOT / name / "expert.cl").manifest
        assert len(set(expert.intents)) == len(expert.intents) >= 6


def _without(kernel: Kernel, rule: str) -> Kernel:
    """With one place of a rule taken out, and what comes of that taken back to the same text."""
    less, inverse = apply(kernel, rule_named(rule).removable(kernel).edits[0])
    again, _ = apply(less, inverse)
    assert again.text == kernel.text
    return less


@pytest.mark.parametrize("name", ["gemv", "kde"])
def test_rules_take_all_out_of_an_expert(name: str, settings: Settings) -> None:
    """Lanes as vectors keep the blocks in place; what is left is the plain loop, and it passes."""
    kernel = load(ROOT / name / "expert.cl")
    blocks = rule_named("strip-mine").removable(kernel)
    assert [d.reason for d in blocks.declined] == ["its lanes are vectors"] and not blocks.edits
    rules = ("vector-lanes", "strip-mine", "unroll-hint", "shrink-constant")
    for rule in (*rules, "restrict-pointer", "work-group-size", "build-option"):
        kernel = _without(kernel, rule)
        assert not rule_named(rule).removable(kernel).edits
    code = kernel.text.partition("*/")[2]
    assert not [word for word in ("float16", "part", "#pragma", "restrict", "reqd") if word in code]
    verdict = gate(kernel, catalog.find(name, "opencl", catalog.roots()), settings).verdict
    assert verdict.status == "ok", verdict.reason
