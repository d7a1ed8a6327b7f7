"""Paired timing of one or two verified kernels, every timed output checked.

Each kernel has a fresh sandboxed worker with pinned threads; both use the same shared pages. A sample is one request
for a few calls, each on inputs and an output of its own; a pair is a sample of each in random order on the same new
inputs. While one worker runs, the other is stopped. The times are the runtime's profiling events (first command's
start to last one's end), held against the parent's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from statistics import median

from experts.case import Case
from experts.platform import Platform, cpus
from experts.verdict import Effect, Profile, Status
from tasks.gate import statistics
from tasks.gate.examine import (
    POISONS,
    Slot,
    check_guards,
    check_inputs,
    fill,
    judge,
    poison,
    read_outputs,
)
from tasks.gate.launches import Plan
from tasks.gate.opencl import DeviceProcess
from tasks.gate.pages import Layout, Pages, PagesCut, layout
from tasks.gate.pool import Member, Pool
from tasks.gate.workers import Rejected, check_seconds

SAMPLE_SECONDS = 5e-4
"""How long the calls of one sample of the faster kernel should take together."""
MAX_CALLS = 24
MAX_SLOT_BYTES = 64 << 20
LONG_CALL_SECONDS = 0.02
"""Above this a sample is one call with no call before it to wake caches and threads."""
WARM_SECONDS = 0.025
SOLO_SAMPLES = 20
MAX_SECONDS = 120.0
"""Of pairs; then undecided."""

_CLOCK_SHARE = 0.25
_CLOCK_SECONDS = 3e-4
_CLOCK_LAUNCH_SECONDS = 3e-5
_CLOCK_DEVIATIONS = 4.0


@dataclass
class Lane:
    """One verified kernel on its way through timing."""

    label: str
    process: DeviceProcess
    plan: Plan
    samples: list[float] = field(default_factory=list)
    """Seconds of one call: each sample's median."""
    reported: list[float] = field(default_factory=list)
    """Seconds of all calls of a sample, by the worker's word."""
    elapsed: list[float] = field(default_factory=list)
    """Seconds of the request, by the parent's clock."""


class Bench:
    """The shared pages and slots for one timing. Slots are alike; a sample uses the first few."""

    def __init__(self, case: Case, plans: Sequence[Plan], pool: Pool) -> None:
        self.case, self._pool = case, pool
        tensors = {tensor.name: tensor.nbytes for tensor in case.tensors}
        self.slots = max(2, min(MAX_CALLS + 1, MAX_SLOT_BYTES // max(1, sum(tensors.values()))))
        sizes = {f"{slot}:{name}": nbytes for slot in range(self.slots) for name, nbytes in tensors.items()}
        # Both kernels' scratch lies on the same pages too: where a buffer lies changes its speed.
        spaces = [list(plan.workspace.values()) for plan in plans]
        for number in range(max(map(len, spaces))):
            sizes[f"workspace:{number}"] = max(space[number] for space in spaces if number < len(space))
        self.layout = layout(sizes)
        self._members: list[Member | None] = [None] * self.slots
        self._samples = 0

    def spans(self, plan: Plan, slot: int) -> Layout:
        """Where this plan's buffers lie when it works on that slot."""
        spans = {tensor.name: self.layout.spans[f"{slot}:{tensor.name}"] for tensor in self.case.tensors}
        for number, (name, nbytes) in enumerate(plan.workspace.items()):
            spans[name] = (self.layout.spans[f"workspace:{number}"][0], nbytes)
        return Layout(spans, self.layout.nbytes)

    def refresh(self, pages: Pages, count: int) -> None:
        """New inputs in the first `count` slots."""
        for slot in range(count):
            self._members[slot] = self._pool.fresh(self.case, self._members[slot])
            fill(pages, self._slot(slot), self._member(slot))

    def sample(self, pages: Pages, lane: Lane, count: int, skip: int, timeout: float) -> None:
        """Time `count` calls after `skip` uncounted ones, and check every output. Raises Rejected."""
        used = range(count + skip)
        pattern = POISONS[self._samples % len(POISONS)]
        self._samples += 1
        for slot in used:
            poison(pages, self.case, self._slot(slot), pattern)
        lane.process.worker.resume()
        begun = time.perf_counter()
        answer = lane.process.run([str(slot) for slot in used], timeout)
        elapsed = time.perf_counter() - begun
        lane.process.worker.pause()
        seconds = check_seconds(answer, len(used))
        for slot in used:
            check_inputs(pages, self.case, self._slot(slot), self._member(slot))
            outputs = read_outputs(pages, self.case, self._slot(slot))
            judge(self.case, outputs, self._member(slot), pattern, f"{self.case.name}, a timed call")
        lane.samples.append(median(seconds[skip:]))
        lane.reported.append(sum(seconds))
        lane.elapsed.append(elapsed)

    def _slot(self, slot: int) -> Slot:
        return Slot.of(self.case, self.layout, f"{slot}:")

    def _member(self, slot: int) -> Member:
        member = self._members[slot]
        assert member is not None
        return member


class LaneFault(Exception):
    """Which of the kernels a rejection during timing belongs to."""

    def __init__(self, lane: Lane, cause: Rejected) -> None:
        super().__init__(cause.reason)
        self.lane, self.cause = lane, cause


def profile(
    bench: Bench,
    pages: Pages,
    lanes: Sequence[Lane],
    platform: Platform,
    pool: Pool,
    timeout: float,
    progress: Callable[[int, int], None],
) -> Profile:
    """Time the candidate (first lane) alone, or against the baseline (second lane). Raises LaneFault."""
    pages.arm(bench.layout.guards)
    for lane in lanes:
        with blame(lane):
            for slot in range(bench.slots):
                lane.process.bind(str(slot), lane.plan, bench.spans(lane.plan, slot))
    fastest = min(_warm(bench, pages, lane, timeout) for lane in lanes)
    count = max(1, min(bench.slots - 1, ceil(SAMPLE_SECONDS / fastest)))
    skip = 0 if max(lane.samples[-1] for lane in lanes) > LONG_CALL_SECONDS else 1
    for lane in lanes:
        for series in (lane.samples, lane.reported, lane.elapsed):
            series.clear()
    deadline = time.monotonic() + MAX_SECONDS
    answer = Effect.UNDECIDED
    checkpoints = statistics.CHECKPOINTS if len(lanes) == 2 else (SOLO_SAMPLES,)
    for checkpoint in checkpoints:
        while len(lanes[0].samples) < checkpoint and time.monotonic() < deadline:
            progress(len(lanes[0].samples), checkpoint)
            bench.refresh(pages, count + skip)
            for lane in lanes if pool.coin() else tuple(reversed(lanes)):
                with blame(lane):
                    bench.sample(pages, lane, count, skip, timeout)
        _check_lanes(bench, pages, lanes, count + skip)
        if len(lanes) == 2:
            found = statistics.estimate(_ratios(lanes))
            answer = statistics.effect(found)
            if answer is not Effect.UNDECIDED or len(lanes[0].samples) < checkpoint:
                break
    return _profile(bench, lanes, platform, count, answer)


def _profile(bench: Bench, lanes: Sequence[Lane], platform: Platform, count: int, answer: Effect) -> Profile:
    case = bench.case
    floor = platform.floor_seconds(case.mandatory_bytes, case.mandatory_operations, len(cpus()))
    for lane in lanes:
        if median(lane.samples) < floor:
            reason = f"{median(lane.samples) * 1e6:.3g} us a call; {case.mandatory_operations} operations and "
            reason += f"{case.mandatory_bytes} bytes take {floor * 1e6:.3g} us at the least here"
            raise LaneFault(lane, Rejected(Status.IMPOSSIBLE_TIME, reason))
    candidate = [seconds * 1e6 for seconds in lanes[0].samples]
    alone = Profile(
        candidate_us=median(candidate),
        candidate_samples_us=tuple(candidate),
        calls_per_sample=count,
        floor_us=floor * 1e6,
    )
    if len(lanes) == 1:
        return alone
    baseline = [seconds * 1e6 for seconds in lanes[1].samples]
    found = statistics.estimate(_ratios(lanes))
    compared = {
        "baseline_us": median(baseline),
        "baseline_samples_us": tuple(baseline),
        "effect": answer,
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "pairs": found.pairs,
    }
    return Profile(**{**dict(alone), **compared})


def _warm(bench: Bench, pages: Pages, lane: Lane, timeout: float) -> float:
    """Calls at the exact configuration until it is warm; the seconds of one."""
    with blame(lane):
        lane.process.worker.resume()
        begun = time.monotonic()
        for _ in range(3):
            count = 1 if not lane.samples or lane.samples[-1] > LONG_CALL_SECONDS / bench.slots else bench.slots
            bench.refresh(pages, count)
            bench.sample(pages, lane, count, 0, timeout)
            if time.monotonic() - begun > 1.0:
                break
        while sum(lane.reported) < WARM_SECONDS:
            bench.sample(pages, lane, count, 0, timeout)
        return min(lane.samples)


def _ratios(lanes: Sequence[Lane]) -> list[float]:
    candidate, baseline = lanes
    return [slow / fast for fast, slow in zip(candidate.samples, baseline.samples, strict=True)]


def _check_lanes(bench: Bench, pages: Pages, lanes: Sequence[Lane], calls: int) -> None:
    for lane in lanes:
        with blame(lane):
            _check_strays(lane)
    try:
        check_guards(pages, bench.layout)
    except Rejected as fault:
        # Both write to the same pages; each was alone on them in its own correctness run and was clean there.
        raise LaneFault(lanes[0], fault) from None
    _check_clock(lanes, calls)


def _check_clock(lanes: Sequence[Lane], calls: int) -> None:
    """The workers' times against the parent's clock.

    A request takes the reported time and some of ours. Ours is about the same for two workers on one machine, so a
    worker whose request takes much longer than the other's beyond what both report hides time. A single worker has no
    such rival; it can report no more than the parent saw.
    """
    overheads = []
    for lane in lanes:
        if any(reported > elapsed for reported, elapsed in zip(lane.reported, lane.elapsed, strict=True)):
            raise LaneFault(lane, Rejected(Status.TAMPERING, "reports more time than the parent's clock saw"))
        overheads.append([e - r for e, r in zip(lane.elapsed, lane.reported, strict=True)])
    if len(lanes) < 2:
        return
    noise = sum(_deviation(overhead) for overhead in overheads)
    least = min(median(overhead) for overhead in overheads)
    for lane, overhead in zip(lanes, overheads, strict=True):
        allowed = _CLOCK_SECONDS + calls * len(lane.plan.launches) * _CLOCK_LAUNCH_SECONDS
        allowed += _CLOCK_SHARE * median(lane.reported) + _CLOCK_DEVIATIONS * noise
        hidden = median(overhead) - least
        if hidden > allowed:
            reason = f"the parent's clock saw {hidden * 1e6:.0f} us a sample that the worker does not report"
            raise LaneFault(lane, Rejected(Status.TAMPERING, reason))


def _deviation(values: Sequence[float]) -> float:
    """Median absolute deviation."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def _check_strays(lane: Lane) -> None:
    """Raises Rejected (tampering) where the candidate left a process running: it would slow its rival."""
    folder = str(lane.process.scratch)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            there = (process / "cwd").readlink()
            if str(there) == folder and int(process.name) != lane.process.worker.pid:
                raise Rejected(Status.TAMPERING, "left a process of its own running")
        except OSError:
            continue


@contextmanager
def blame(lane: Lane) -> Iterator[None]:
    """Turns a Rejected inside the block into a LaneFault of this lane."""
    try:
        yield
    except Rejected as fault:
        raise LaneFault(lane, fault) from None
    except PagesCut as cut:
        raise LaneFault(lane, Rejected(Status.TAMPERING, str(cut))) from None
