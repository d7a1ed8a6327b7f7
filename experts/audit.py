"""Audits of a case: what must fail it, and by how much.

A case that a trivial kernel passes, or a kernel with one precision less than legal, would admit anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experts.case import NUMPY_TYPES, Arrays, BoundTensor, Case
from experts.judge import Array

HONEST_SHARE = 1 / 8
"""Honest kernels stay below this share of the bound."""
LOWER_SHARE = 4.0
"""One precision below the legal one lands at this multiple of the bound or more."""
MOST_BYTES = 1 << 25
MOST_OPERATIONS = 1 << 33
"""Of a shape that is audited: a larger case is audited at the largest of its named sizes below both."""


@dataclass(frozen=True)
class Finding:
    """One thing tried on one distribution: the share of the bound it reached, and what was wanted.

    `what` names the size where it is not the case's own: `honest at 1024`.
    """

    what: str
    distribution: str
    share: float
    wanted: str
    holds: bool


def audit(case: Case, seed: int) -> tuple[Finding, ...]:
    """Trivial kernels and one precision below must fail, the honest one must pass with room, on every distribution.

    The lower precision must fail on the timed distribution; others may be exact in it (small integers). Bounds are
    scaled by the problem, so that a smaller size stands for a large one that would take minutes here.
    """
    size = affordable(case)
    where = "" if size is case else f" at {size.shape_name}"
    return tuple(replace(finding, what=finding.what + where) for finding in _audit(size, seed))


def affordable(case: Case) -> Case:
    """The case, or the largest of its workload's named sizes that a processor is quick with, where it is larger."""

    def cheap(other: Case) -> bool:
        return other.mandatory_bytes <= MOST_BYTES and other.mandatory_operations <= MOST_OPERATIONS

    if cheap(case):
        return case
    smaller = [size for size in map(case.at, case.workload.shapes.values()) if cheap(size)]
    return max(smaller, key=lambda size: size.mandatory_bytes, default=case)


def _audit(case: Case, seed: int) -> tuple[Finding, ...]:
    findings = []
    for distribution in case.workload.distributions:
        rng = np.random.default_rng(seed)
        inputs = case.draw(rng, distribution)
        expected = case.expect(inputs)

        def share(outputs: Arrays) -> float:
            return case.workload.judge(outputs, expected).error  # noqa: B023

        honest = share(case.workload.honest(inputs, case))
        findings.append(Finding("honest", distribution, honest, "<= 1/8", honest <= HONEST_SHARE))
        if distribution == case.timed_distribution:
            lower = share(case.workload.one_below(inputs, case))
            findings.append(Finding("one precision below", distribution, lower, ">= 4", lower >= LOWER_SHARE))
        for name, outputs in trivial(case, inputs).items():
            error = share(outputs)
            findings.append(Finding(name, distribution, error, "> 1", error > 1))
    return tuple(findings)


def trivial(case: Case, inputs: Arrays) -> dict[str, Arrays]:
    """Outputs of kernels that do no work, where they type-check: zeros, ones, each input copied, each input's mean."""
    panel: dict[str, Arrays] = {
        "zeros": {out.name: _fitted(np.zeros(1), out) for out in case.outputs},
        "ones": {out.name: _fitted(np.ones(1), out) for out in case.outputs},
    }
    for name, array in inputs.items():
        panel[f"copy of {name}"] = {out.name: _fitted(array, out) for out in case.outputs}
        mean = np.asarray(array.mean(dtype=np.float64))
        panel[f"mean of {name}"] = {out.name: _fitted(mean, out) for out in case.outputs}
    return panel


def _fitted(array: Array, out: BoundTensor) -> Array:
    """Repeated or cut to the output's shape, in its type."""
    return np.resize(array, out.shape).astype(NUMPY_TYPES[out.dtype])
