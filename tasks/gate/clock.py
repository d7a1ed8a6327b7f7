"""A worker's times against the parent's clock: the worker has had a candidate in it, and its word is not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, sqrt
from statistics import median

from experts.verdict import Status
from tasks.gate.lanes import Lane, LaneFault
from tasks.gate.workers import Rejected

_CLOCK_SHARE = 0.25
_CLOCK_SECONDS = 3e-4
_CLOCK_CALL_SECONDS = 3e-5
_CLOCK_LAUNCH_SECONDS = 8e-6
_CLOCK_DEVIATIONS = 4.0
_SEEN_SHARE = 0.5
"""Of a claimed difference, what another look has to see."""
_LONG_SECONDS = 5e-3
_LONG_SHARE = 0.25
_LONG_ROUNDS = 3
_MOST_CALLS = 20_000
_MOST_SECONDS = 1.0


def check_clock(lanes: Sequence[Lane], calls: int) -> None:
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
    if len(lanes) < 2 or not overheads[0]:
        return
    # Pair by pair: what slows the machine for a while slows both.
    for lane, own, others in zip(lanes, overheads, reversed(overheads), strict=True):
        more = [mine - other for mine, other in zip(own, others, strict=True)]
        allowed = _CLOCK_SECONDS + calls * (_CLOCK_CALL_SECONDS + len(lane.plan.launches) * _CLOCK_LAUNCH_SECONDS)
        allowed += _CLOCK_SHARE * median(lane.reported) + _CLOCK_DEVIATIONS * _deviation_of_median(more)
        hidden = median(more)
        if hidden > allowed:
            reason = f"the parent's clock saw {hidden * 1e6:.0f} us a sample that the worker does not report"
            raise LaneFault(lane, Rejected(Status.TAMPERING, reason))


def _deviation_of_median(values: Sequence[float]) -> float:
    """The standard deviation of their median, from their median absolute deviation."""
    middle = median(values)
    return 1.4826 * 1.2533 * median(abs(value - middle) for value in values) / sqrt(len(values))


def whole_requests_agree(lanes: Sequence[Lane], calls: int) -> bool:
    """Whether a difference of `calls` counted calls a sample shows in the time of all its calls, the first included.

    A kernel that does in one call what the others are for has its single calls fast and its requests as slow as ever.
    """
    candidate, baseline = lanes
    claimed = calls * (median(baseline.samples) - median(candidate.samples))
    seen = median(slow - fast for fast, slow in zip(candidate.reported, baseline.reported, strict=True))
    return seen * claimed > 0 and abs(seen) >= _SEEN_SHARE * abs(claimed)


def check_claim(lanes: Sequence[Lane], run: Callable[[Lane, int], float]) -> None:
    """Whether the parent's clock sees the difference between two kernels that share a worker. Raises LaneFault.

    A request as long as the reported difference needs to stand out is run for both in turn: what a request costs
    beside its calls is the same for both, so that the rest of the difference is theirs. `run(lane, calls)` gives the
    seconds of such a request. Twice too little is no accident, four times as long.
    """
    candidate, baseline = (median(lane.samples) for lane in lanes)
    claimed = abs(baseline - candidate)
    faster = lanes[0] if candidate < baseline else lanes[1]
    overhead = max(median(lane.elapsed) for lane in lanes)
    for wanted in (1.0, 4.0):
        long = wanted * max(_LONG_SECONDS, _LONG_SHARE * overhead)
        calls = max(1, min(ceil(long / claimed), _MOST_CALLS, int(_MOST_SECONDS / max(candidate, baseline))))
        seen = []
        for _ in range(_LONG_ROUNDS):
            seconds = [run(lane, calls) for lane in lanes]
            seen.append(abs(seconds[1] - seconds[0]) if (seconds[1] > seconds[0]) == (baseline > candidate) else 0.0)
        if median(seen) >= _SEEN_SHARE * calls * claimed:
            return
    reason = f"reports {claimed * 1e6:.3g} us a call less than the other; over {calls} calls the parent's clock saw "
    raise LaneFault(faster, Rejected(Status.TAMPERING, f"{reason}{median(seen) / calls * 1e6:.3g} us a call"))
