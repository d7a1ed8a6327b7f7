"""The parent's clock against a worker's word."""

from __future__ import annotations

from typing import Any, cast

import pytest

from experts.verdict import Status
from tasks.gate.clock import check_claim, check_clock, whole_requests_agree
from tasks.gate.lanes import Lane, LaneFault
from tasks.gate.launches import Launch, Plan

LAUNCH = Launch("entry", (1, 1, 1), (1, 1, 1), ())
PLAN = Plan({}, (), (LAUNCH,))


def _lane(label: str, call: float, overhead: float = 1e-3, calls: int = 7, samples: int = 20) -> Lane:
    lane = Lane(label, cast(Any, None), cast(Any, None), PLAN)
    lane.samples = [call] * samples
    lane.reported = [call * calls] * samples
    lane.elapsed = [call * calls + overhead] * samples
    return lane


def _clock(costs: dict[str, float], overhead: float, noise: list[float]) -> Any:
    """Requests that cost what they cost, whatever the worker reports; noise in turn."""
    turns = iter(noise * 100)
    return lambda lane, calls: overhead + calls * costs[lane.label] + next(turns)


@pytest.mark.parametrize("claimed", [(5e-6, 6e-6), (5e-6, 50e-6), (3e-3, 2e-3), (0.3, 0.5)])
def test_a_true_difference_is_seen(claimed: tuple[float, float]) -> None:
    lanes = [_lane("candidate", claimed[0]), _lane("baseline", claimed[1])]
    costs = {"candidate": claimed[0] + 40e-6, "baseline": claimed[1] + 40e-6}
    check_claim(lanes, _clock(costs, 1e-3, [0.0, 4e-4, -3e-4]))


@pytest.mark.parametrize(
    ("claimed", "true"),
    [((5e-6, 50e-6), (50e-6, 50e-6)), ((5e-6, 6e-6), (6e-6, 6e-6)), ((1e-3, 3e-3), (4e-3, 3e-3))],
)
def test_a_claimed_one_is_not(claimed: tuple[float, float], true: tuple[float, float]) -> None:
    lanes = [_lane("candidate", claimed[0]), _lane("baseline", claimed[1])]
    costs = {"candidate": true[0] + 40e-6, "baseline": true[1] + 40e-6}
    with pytest.raises(LaneFault) as caught:
        check_claim(lanes, _clock(costs, 1e-3, [0.0, 4e-4, -3e-4]))
    assert caught.value.lane is lanes[0]
    assert caught.value.cause.status is Status.TAMPERING
    assert "the parent's clock saw" in caught.value.cause.reason


def test_one_disturbed_look_is_no_accusation() -> None:
    lanes = [_lane("candidate", 5e-6), _lane("baseline", 50e-6)]
    disturbed = [0.05, 0.0, 0.06, 0.0, 0.0, 0.0, *[0.0] * 6]
    check_claim(lanes, _clock({"candidate": 5e-6, "baseline": 50e-6}, 1e-3, disturbed))


def test_the_slower_claim_is_judged_too() -> None:
    lanes = [_lane("candidate", 50e-6), _lane("baseline", 5e-6)]
    with pytest.raises(LaneFault) as caught:
        check_claim(lanes, _clock({"candidate": 50e-6, "baseline": 50e-6}, 1e-3, [0.0]))
    assert caught.value.lane is lanes[1]


def test_more_time_than_there_was_is_no_time() -> None:
    lanes = [_lane("candidate", 1e-3, overhead=-1e-4)]
    with pytest.raises(LaneFault, match="more time than the parent's clock saw"):
        check_clock(lanes, 7)


def test_a_request_that_takes_much_longer_than_its_rival_hides_time() -> None:
    honest, hiding = _lane("candidate", 1e-3), _lane("baseline", 1e-3, overhead=12e-3)
    check_clock([honest, _lane("baseline", 1e-3, overhead=1.1e-3)], 7)
    with pytest.raises(LaneFault) as caught:
        check_clock([honest, hiding], 7)
    assert caught.value.lane is hiding


def test_what_one_call_does_for_the_others_shows_in_the_whole_request() -> None:
    baseline = _lane("baseline", 50e-6)
    honest, ahead = _lane("candidate", 20e-6), _lane("candidate", 2e-6)
    assert whole_requests_agree([honest, baseline], 6)
    # Six calls of nothing behind one of seven products.
    ahead.reported = [7 * 50e-6 + 6 * 2e-6] * 20
    assert not whole_requests_agree([ahead, baseline], 6)
    assert not whole_requests_agree([baseline, ahead], 6)
    # A first call that has to wake threads costs both about the same.
    for lane in (honest, baseline):
        lane.reported = [reported + 100e-6 for reported in lane.reported]
    assert whole_requests_agree([honest, baseline], 6)
