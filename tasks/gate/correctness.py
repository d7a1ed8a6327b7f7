"""Correctness of one lowered kernel: fresh secret inputs at the timed shape and over the shape family, with repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from experts.case import Arrays, Case
from experts.kernel import Kernel
from experts.verdict import Correctness, Status
from tasks.gate.device import DeviceProcess
from tasks.gate.examine import (
    POISONS,
    Slot,
    check_guards,
    check_inputs,
    fill,
    judge,
    poison,
    poison_span,
    read_outputs,
)
from tasks.gate.launches import Limits, plan
from tasks.gate.pages import Layout, Pages, PagesCut, layout
from tasks.gate.pool import Pool
from tasks.gate.workers import Rejected

REPEATS = 3


@dataclass(frozen=True)
class Tried:
    """One shape on one distribution, and how often."""

    case: Case
    distribution: str
    repeats: int = 1
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Bytes by tensor: how far it starts behind its aligned place."""


def agenda(case: Case, family: Sequence[Case], pool: Pool) -> list[Tried]:
    """The timed shape on every distribution, the first with repeats; each family shape on the first and one other."""
    first, *others = case.workload.distributions
    tried = [Tried(case, first, REPEATS), *(Tried(case, other) for other in others)]
    for shape in family:
        tried.append(Tried(shape, first))
        if others:
            tried.append(Tried(shape, pool.choice(others)))
    return tried


def pages_needed(kernel: Kernel, cases: Sequence[Case], limits: Limits, warp: int) -> int:
    """Bytes of shared pages for the largest of these shapes, every tensor at its place. Raises Rejected."""
    return max(item_bytes(kernel, Tried(case, case.timed_distribution), limits, warp) for case in cases)


def item_bytes(kernel: Kernel, item: Tried, limits: Limits, warp: int) -> int:
    """Bytes of shared pages for one item. Raises Rejected where the kernel cannot be launched at this shape."""
    return _layout(kernel, item.case, limits, warp, item.offsets).nbytes


class Checker:
    """Runs the agenda on one runner. Raises Rejected at the first fault."""

    def __init__(
        self, kernel: Kernel, process: DeviceProcess, pages: Pages, pool: Pool, limits: Limits, warp: int
    ) -> None:
        self._kernel, self._process, self._pages, self._pool = kernel, process, pages, pool
        self._limits, self._warp = limits, warp
        self._items = 0
        self._bound: tuple[str, dict[str, int]] | None = None

    def first_launch(self, case: Case, timeout: float) -> None:
        """One launch at the timed shape, judged by its end alone."""
        item = Tried(case, case.timed_distribution)
        found = self._bind(item)
        self._prepare(found, item, POISONS[0])
        self._process.run(["it"], timeout, found.nbytes)

    def run(self, tried: Sequence[Tried], timeout: float, progress: Callable[[int, int], None]) -> Correctness:
        """Every item of the agenda; `timeout` in seconds for one call."""
        error, calls = 0.0, 0
        for number, item in enumerate(tried):
            progress(number, len(tried))
            error = max(error, self.judged(item, timeout))
            calls += item.repeats
        names = tuple(dict.fromkeys(item.distribution for item in tried))
        return Correctness(error=error, launches=calls, distributions=names, repeats=REPEATS)

    def judged(self, item: Tried, timeout: float) -> float:
        """The calls of one item: their largest error, as a share of its bound; `timeout` in seconds for one."""
        found = self._bind(item)
        # One pattern for all repeats: what the output held before must not pass for nondeterminism.
        pattern = POISONS[self._items % len(POISONS)]
        self._items += 1
        results: list[Arrays] = []
        faults: list[Rejected] = []
        error = 0.0
        member = self._pool.member(item.case, item.distribution)
        where = f"{item.case.name}, {item.distribution}"
        for _ in range(item.repeats):
            outputs = self._call(found, item, pattern, timeout)
            try:
                error = max(error, judge(item.case, outputs, member, pattern, where).error)
            except Rejected as fault:
                faults.append(fault)
            results.append(outputs)
        if faults and len(faults) < item.repeats:
            reason = f"{where}: {len(faults)} of {item.repeats} repeats on the same input fail ({faults[0].reason})"
            raise Rejected(Status.NONDETERMINISTIC, reason)
        if faults:
            raise faults[0]
        if item.case.workload.bitwise and not all(_same(results[0], other) for other in results[1:]):
            raise Rejected(Status.NONDETERMINISTIC, f"{where}: repeats on the same input differ bit for bit")
        return error

    def _bind(self, item: Tried) -> Layout:
        found = _layout(self._kernel, item.case, self._limits, self._warp, item.offsets)
        wanted = (item.case.name, dict(item.offsets))
        if self._bound != wanted:
            self._process.drop()
            self._process.bind("it", self._kernel, plan(self._kernel, item.case, self._limits, self._warp), found)
            self._pages.arm(found.guards)
            self._bound = wanted
        return found

    def _prepare(self, found: Layout, item: Tried, pattern: int) -> Slot:
        slot = Slot.of(item.case, found)
        fill(self._pages, slot, self._pool.member(item.case, item.distribution))
        poison(self._pages, item.case, slot, pattern)
        for name in found.spans.keys() - slot.spans.keys():
            poison_span(self._pages, found.spans[name], pattern)
        return slot

    def _call(self, found: Layout, item: Tried, pattern: int, timeout: float) -> Arrays:
        try:
            slot = self._prepare(found, item, pattern)
            self._process.run(["it"], timeout, found.nbytes)
            check_guards(self._pages, found)
            check_inputs(self._pages, item.case, slot, self._pool.member(item.case, item.distribution))
            return read_outputs(self._pages, item.case, slot)
        except PagesCut as cut:
            raise Rejected(Status.TAMPERING, str(cut)) from None


def _layout(kernel: Kernel, case: Case, limits: Limits, warp: int, offsets: Mapping[str, int]) -> Layout:
    sizes = {tensor.name: tensor.nbytes for tensor in case.tensors}
    return layout({**sizes, **plan(kernel, case, limits, warp).workspace}, offsets=offsets)


def _same(one: Arrays, other: Arrays) -> bool:
    return all(np.array_equal(one[name].view(np.uint8), other[name].view(np.uint8)) for name in one)
