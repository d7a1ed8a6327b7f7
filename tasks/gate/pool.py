"""The secret inputs of one gate run, with their references.

Drawn from a seed that never leaves this process. For each shape and distribution one member is computed once and
shared by the kernels of the run; timed calls get fresh ones.
"""

from __future__ import annotations

import functools
import secrets
import threading
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from experts.case import Arrays, Case
from experts.judge import Expected


@dataclass(frozen=True)
class Member:
    """Inputs and what should come out."""

    inputs: Arrays
    expected: dict[str, Expected]


class Pool:
    """Lazily drawn members; safe to use from several threads.

    `quiet` keeps references on one core, where a kernel's time is taken on the others.
    """

    def __init__(self, *, quiet: bool = True) -> None:
        if quiet:
            _one_blas_thread()
        self._rng = np.random.default_rng(secrets.randbits(128))
        self._lock = threading.Lock()
        self._members: dict[tuple[str, str], Member] = {}

    def member(self, case: Case, distribution: str) -> Member:
        """The member for this shape and distribution."""
        key = (case.name, distribution)
        with self._lock:
            if key not in self._members:
                self._members[key] = self._draw(case, distribution)
            return self._members[key]

    def fresh(self, case: Case) -> Member:
        """New timed inputs, drawn anew: what a kernel could have kept of earlier ones must not help it.

        From a generator of its own, so that threads can draw at once.
        """
        with self._lock:
            rng = self._rng.spawn(1)[0]
        inputs = case.draw(rng, case.timed_distribution)
        return Member(inputs, case.expect(inputs))

    def choice(self, names: list[str]) -> str:
        """One of the names, at random."""
        with self._lock:
            return names[int(self._rng.integers(len(names)))]

    def coin(self) -> bool:
        """Heads or tails."""
        with self._lock:
            return bool(self._rng.integers(2))

    def seed(self) -> int:
        """A seed for something else of this run."""
        with self._lock:
            return int(self._rng.integers(1 << 62))

    def _draw(self, case: Case, distribution: str) -> Member:
        inputs = case.draw(self._rng, distribution)
        return Member(inputs, case.expect(inputs))


@functools.cache
def _one_blas_thread() -> threadpool_limits:
    """For the life of this process: BLAS threads go on spinning after a product and would disturb a kernel."""
    return threadpool_limits(1)
