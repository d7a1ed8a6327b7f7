"""Audits of a case: what must fail it, and by how much.

A case that a trivial kernel passes, or a kernel with one precision less than legal, would admit anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experts.case import Arrays, Case
from experts.judge import Array

HONEST_SHARE = 1 / 8
"""Honest kernels stay below this share of the bound."""
LOWER_SHARE = 4.0
"""One precision below the legal one lands at this multiple of the bound or more."""


@dataclass(frozen=True)
class Finding:
    """One thing tried on one distribution: the share of the bound it reached, and what was wanted."""

    what: str
    distribution: str
    share: float
    wanted: str
    holds: bool


def audit(case: Case, seed: int) -> tuple[Finding, ...]:
    """Trivial kernels and one precision below must fail, the honest one must pass with room, on every distribution.

    The lower precision must fail on the timed distribution; others may be exact in it (small integers).
    """
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
        "zeros": {out.name: np.zeros(out.shape, np.float32) for out in case.outputs},
        "ones": {out.name: np.ones(out.shape, np.float32) for out in case.outputs},
    }
    for name, array in inputs.items():
        panel[f"copy of {name}"] = {out.name: _fitted(array, out.shape) for out in case.outputs}
        mean = np.float32(array.mean())
        panel[f"mean of {name}"] = {out.name: np.full(out.shape, mean) for out in case.outputs}
    return panel


def _fitted(array: Array, shape: tuple[int, ...]) -> Array:
    return np.resize(array, shape).astype(np.float32)
