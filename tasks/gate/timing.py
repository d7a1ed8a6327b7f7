"""Paired timing of one or two verified kernels, every timed output checked.

Each kernel has a fresh sandboxed worker with pinned threads, or both share one where they are device code; both use
the same pages. A sample is one request for a few calls, each on inputs and an output of its own; a pair is a sample of
each in random order on the same new inputs. While one worker runs, the other is stopped. The times are the runtime's
events (first command's start to last one's end), held against the parent's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

import numpy as np

from experts.case import Case
from experts.platform import Platform, cpus
from experts.verdict import Effect, Profile, Status
from tasks.gate import statistics
from tasks.gate.clock import check_claim, check_clock, whole_requests_agree
from tasks.gate.examine import POISONS, judge, poisoned, typed
from tasks.gate.lanes import Lane, LaneFault, blame
from tasks.gate.launches import Plan
from tasks.gate.pages import Bytes, Layout, Pages, layout
from tasks.gate.pool import Member, Pool
from tasks.gate.strays import strays
from tasks.gate.workers import Rejected, check_seconds

SAMPLE_SECONDS = 5e-4
"""How long the calls of one sample of the faster kernel should take together."""
MAX_CALLS = 6
GUARD_BYTES = 4096
"""Between buffers in timing; correctness has looked at wider ones."""
MAX_SLOT_BYTES = 64 << 20
LONG_CALL_SECONDS = 0.02
"""Above this a sample is one call with no call before it to wake caches and threads."""
WARM_SECONDS = 0.025
SOLO_SAMPLES = 20
MAX_SECONDS = 120.0
"""Of pairs; then undecided."""


@dataclass(frozen=True)
class Taken:
    """The parent's copy of what a sample left in the pages, and the worker's times; judged once the pair is over."""

    data: Bytes
    answer: dict[str, Any]


class Bench:
    """The shared pages of one timing: scratch, then slots, each with all tensors of the case.

    The parent keeps an image of what the pages should hold before a sample: fresh inputs, poison, guard zones. It is
    written whole before each sample, so that both kernels of a pair find the same pages in the same state.
    """

    def __init__(self, case: Case, plans: Sequence[Plan], pool: Pool) -> None:
        self.case, self._pool = case, pool
        # NumPy lets go of the interpreter for most of it. Idle threads sleep: nothing disturbs a sample.
        self._threads = ThreadPoolExecutor(2)
        tensors = {tensor.name: tensor.nbytes for tensor in case.tensors}
        self.slots = max(2, min(MAX_CALLS + 1, MAX_SLOT_BYTES // max(1, sum(tensors.values()))))
        # Both kernels' scratch lies on the same pages too: where a buffer lies changes its speed.
        spaces = [list(plan.workspace.values()) for plan in plans]
        sizes = {
            f"workspace:{number}": max(space[number] for space in spaces if number < len(space))
            for number in range(max(map(len, spaces)))
        }
        sizes |= {f"{slot}:{name}": nbytes for slot in range(self.slots) for name, nbytes in tensors.items()}
        self.layout = layout(sizes, guard=GUARD_BYTES)
        self._image = np.random.default_rng(pool.seed()).integers(0, 256, self.layout.nbytes, np.uint8)
        self._members: list[Member | None] = [None] * self.slots
        self._pattern = POISONS[0]

    def close(self) -> None:
        """End its threads."""
        self._threads.shutdown()

    def spans(self, plan: Plan, slot: int) -> Layout:
        """Where this plan's buffers lie when it works on that slot."""
        spans = {tensor.name: self.layout.spans[f"{slot}:{tensor.name}"] for tensor in self.case.tensors}
        for number, (name, nbytes) in enumerate(plan.workspace.items()):
            spans[name] = (self.layout.spans[f"workspace:{number}"][0], nbytes)
        return Layout(spans, self.layout.nbytes)

    def renew(self, slots: range) -> None:
        """New inputs in these slots, and another poison for all."""
        self._pattern = POISONS[(POISONS.index(self._pattern) + 1) % len(POISONS)]
        list(self._threads.map(self._renew, slots))
        for name, (_, nbytes) in self.layout.spans.items():
            if name.startswith("workspace:") or name.partition(":")[2] in self._pure_outputs:
                self._view(name)[:] = poisoned(nbytes, self._pattern)

    def _renew(self, slot: int) -> None:
        member = self._pool.fresh(self.case)
        self._members[slot] = member
        for name, array in member.inputs.items():
            self._view(f"{slot}:{name}")[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def sample(self, pages: Pages, lane: Lane, calls: int, timeout: float) -> Taken:
        """Run the first `calls` slots once each. Raises Rejected where the worker does not answer as it must."""
        used = self._end(calls)
        pages.write(0, self._image[:used])
        lane.resume()
        begun = time.perf_counter()
        answer = lane.process.run([lane.name(slot) for slot in range(calls)], timeout, used)
        lane.elapsed.append(time.perf_counter() - begun)
        lane.pause()
        return Taken(pages.read(0, used), answer)

    def seconds(self, pages: Pages, lane: Lane, calls: int, timeout: float) -> float:
        """Of one request that runs the first slot so often, by the parent's clock. Raises LaneFault."""
        used = self._end(1)
        with blame(lane):
            pages.write(0, self._image[:used])
            begun = time.perf_counter()
            answer = lane.process.run([lane.name(0)] * calls, timeout + calls * median(lane.samples), used)
            elapsed = time.perf_counter() - begun
            check_seconds(answer, calls)
            self._judge_slot(pages.read(0, used), 0)
        return elapsed

    def judge_all(self, lanes: Sequence[Lane], taken: Sequence[Taken], calls: int, skip: int) -> None:
        """Judge a sample of each lane. Raises LaneFault for the first lane at fault."""

        def one(lane: Lane, found: Taken) -> None:
            with blame(lane):
                self.judge(lane, found, calls, skip)

        list(self._threads.map(one, lanes, taken))

    def judge(self, lane: Lane, taken: Taken, calls: int, skip: int) -> None:
        """Check every output, input and guard zone of a sample, and note its times. Raises Rejected."""
        seconds = check_seconds(taken.answer, calls)
        for number, (offset, nbytes) in enumerate(self.layout.guards):
            zone = slice(offset, min(offset + nbytes, taken.data.size))
            if not np.array_equal(taken.data[zone], self._image[zone]):
                raise Rejected(Status.OUT_OF_BOUNDS, f"wrote outside its buffers in a timed call: guard zone {number}")
        for slot in range(calls):
            self._judge_slot(taken.data, slot)
        counted = sorted(seconds[skip:])
        lane.samples.append(counted[(len(counted) - 1) // 4])
        lane.reported.append(sum(seconds))

    def _judge_slot(self, data: Bytes, slot: int) -> None:
        member = self._members[slot]
        assert member is not None
        outputs = {}
        for tensor in self.case.tensors:
            offset, nbytes = self.layout.spans[f"{slot}:{tensor.name}"]
            found = data[offset : offset + nbytes]
            if tensor.role != "in":
                outputs[tensor.name] = typed(found, tensor)
            elif not np.array_equal(found, self._view(f"{slot}:{tensor.name}")):
                raise Rejected(Status.INPUT_MUTATED, f"the input {tensor.name} was changed in a timed call")
        judge(self.case, outputs, member, self._pattern, f"{self.case.name}, a timed call")

    def _view(self, name: str) -> Bytes:
        offset, nbytes = self.layout.spans[name]
        return self._image[offset : offset + nbytes]

    def _end(self, calls: int) -> int:
        """Where the guard zone behind the last used slot ends."""
        offset, nbytes = self.layout.spans[f"{calls - 1}:{self.case.tensors[-1].name}"]
        return offset + nbytes + GUARD_BYTES

    @property
    def _pure_outputs(self) -> set[str]:
        return {tensor.name for tensor in self.case.tensors if tensor.role == "out"}


def prime(bench: Bench, lane: Lane, timeout: float) -> None:
    """Bind a lane's buffers and call its kernel once: the runtime compiles it for its group's size then.

    Lanes may do this at once: nothing is timed or judged, and every sample writes the pages anew. Raises LaneFault.
    """
    with blame(lane):
        for slot in range(bench.slots):
            lane.process.bind(lane.name(slot), lane.kernel, lane.plan, bench.spans(lane.plan, slot))
        lane.process.run([lane.name(0)], timeout)
        lane.pause()


def profile(
    bench: Bench,
    pages: Pages,
    lanes: Sequence[Lane],
    platform: Platform,
    pool: Pool,
    timeout: float,
    progress: Callable[[int, int], None],
    *,
    pairs: int,
) -> Profile:
    """Time the candidate (first lane) alone, or against the baseline (second lane); both are primed. Raises LaneFault.

    Ends undecided at the last checkpoint within `pairs`.
    """
    bench.renew(range(bench.slots))
    fastest = min(_warm(bench, pages, lane, timeout) for lane in lanes)
    count = max(1, min(bench.slots - 1, ceil(SAMPLE_SECONDS / fastest)))
    skip = 0 if max(lane.samples[-1] for lane in lanes) > LONG_CALL_SECONDS else 1
    for lane in lanes:
        for series in (lane.samples, lane.reported, lane.elapsed):
            series.clear()
    deadline = time.monotonic() + MAX_SECONDS
    answer = Effect.UNDECIDED
    paired = tuple(number for number in statistics.CHECKPOINTS if number <= pairs)
    checkpoints = paired if len(lanes) == 2 else (SOLO_SAMPLES,)
    for checkpoint in checkpoints:
        while len(lanes[0].samples) < checkpoint and time.monotonic() < deadline:
            progress(len(lanes[0].samples), checkpoint)
            bench.renew(range(skip, count + skip))
            _pair(bench, pages, lanes if pool.coin() else lanes[::-1], count + skip, skip, timeout)
        _check_lanes(lanes, count + skip)
        if len(lanes) == 2 and lanes[0].samples:
            answer = statistics.effect(statistics.estimate(_ratios(lanes)))
            if answer is not Effect.UNDECIDED or len(lanes[0].samples) < checkpoint:
                break
    if answer in (Effect.FASTER, Effect.SLOWER) and not whole_requests_agree(lanes, count):
        for lane in lanes:
            lane.samples = [reported / (count + skip) for reported in lane.reported]
        answer = statistics.effect(statistics.estimate(_ratios(lanes)))
    if answer in (Effect.FASTER, Effect.SLOWER) and lanes[0].process.joint:
        check_claim(lanes, lambda lane, calls: bench.seconds(pages, lane, calls, timeout))
    return _profile(bench, lanes, platform, count, answer)


def _pair(bench: Bench, pages: Pages, lanes: Sequence[Lane], calls: int, skip: int, timeout: float) -> None:
    """A sample of each lane in this order, close together; judged afterwards, in the same order."""
    taken = []
    for lane in lanes:
        with blame(lane):
            taken.append(bench.sample(pages, lane, calls, timeout))
    bench.judge_all(lanes, taken, calls, skip)


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
    calls = 1
    while len(lane.samples) < 3 or sum(lane.reported) < WARM_SECONDS:
        _pair(bench, pages, [lane], calls, 0, timeout)
        if sum(lane.elapsed) > lane.process.warm_seconds:
            break
        calls = max(1, min(bench.slots, int(WARM_SECONDS / 3 / lane.samples[-1])))
    return min(lane.samples)


def _ratios(lanes: Sequence[Lane]) -> list[float]:
    candidate, baseline = lanes
    return [slow / fast for fast, slow in zip(candidate.samples, baseline.samples, strict=True)]


def _check_lanes(lanes: Sequence[Lane], calls: int) -> None:
    for lane in lanes:
        with blame(lane):
            if strays(lane.process.worker.pid):
                # It would slow its rival.
                raise Rejected(Status.TAMPERING, "left a process of its own running")
    check_clock(lanes, calls)
