"""From paired samples to an effect: coverage, the decision table, symmetry."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experts.verdict import Effect
from tasks.gate.statistics import CHECKPOINTS, ERROR, Estimate, effect, estimate

LEVEL = ERROR / len(CHECKPOINTS)


def _left_out(count: int) -> int:
    """How many of 1, 2, ... lie below the interval."""
    return round(estimate([float(value) for value in range(count)]).low)


def _coverage(count: int, left_out: int) -> float:
    """That the median lies between the order statistics with `left_out` beyond each: exact under independence."""
    return 1 - 2 * sum(comb(count, below) for below in range(left_out + 1)) / 2**count


@pytest.mark.parametrize("count", [8, 9, 10, 21, *CHECKPOINTS, 300])
def test_the_interval_covers_at_its_level(count: int) -> None:
    assert _coverage(count, _left_out(count)) >= 1 - LEVEL


@pytest.mark.parametrize("count", [9, 21, *CHECKPOINTS, 300])
def test_the_interval_is_no_wider_than_its_level_asks(count: int) -> None:
    assert _coverage(count, _left_out(count) + 1) < 1 - LEVEL


def _gaussian(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(1.0, 0.05, count)


def _skewed(rng: np.random.Generator, count: int) -> np.ndarray:
    """Median 1, a long tail of slow samples."""
    return np.exp(np.maximum(rng.normal(0, 0.02, count), rng.normal(0, 0.3, count)) - 0.0)


def _ratio_of_exponentials(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.exponential(1.0, count) / rng.exponential(1.0, count)


@pytest.mark.parametrize("draw", [_gaussian, _skewed, _ratio_of_exponentials])
def test_coverage_by_simulation(draw: Callable[[np.random.Generator, int], np.ndarray]) -> None:
    rng = np.random.default_rng(20)
    truth = float(np.median(draw(rng, 400_000)))
    trials = 4000
    inside = 0
    for _ in range(trials):
        found = estimate(draw(rng, 20).tolist())
        inside += found.low <= truth <= found.high
    # The exact coverage at 20 pairs is 98.8 %; three standard errors of the simulation are 0.6 %.
    assert inside / trials >= 1 - LEVEL - 0.003


def test_no_false_effect_over_all_checkpoints() -> None:
    """The intervals of all three checkpoints together miss the truth in 5 % of the runs at most."""
    rng = np.random.default_rng(6)
    trials, missed = 3000, 0
    for _ in range(trials):
        ratios = rng.normal(1.0, 0.05, CHECKPOINTS[-1]).tolist()
        intervals = [estimate(ratios[:count]) for count in CHECKPOINTS]
        missed += any(not found.low <= 1.0 <= found.high for found in intervals)
    assert missed / trials <= ERROR


def test_an_estimate_is_median_and_order_statistics() -> None:
    ratios = [1.3, 1.1, 1.2, 1.0, 1.5]
    assert estimate(ratios) == Estimate(ratio=1.2, low=1.0, high=1.5, pairs=5)
    assert estimate([2.0]) == Estimate(2.0, 2.0, 2.0, 1)
    assert estimate([1.0, 2.0]).ratio == pytest.approx(1.45, abs=0.06)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=200), st.randoms())
def test_an_estimate_depends_on_no_order_and_holds_its_ratio(ratios: list[float], random: object) -> None:
    found = estimate(ratios)
    assert min(ratios) <= found.low <= found.ratio <= found.high <= max(ratios)
    assert found.pairs == len(ratios)
    shuffled = list(ratios)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert estimate(shuffled) == found


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=150))
def test_the_interval_of_swapped_roles_is_the_reciprocal(ratios: list[float]) -> None:
    found, swapped = estimate(ratios), estimate([1 / ratio for ratio in ratios])
    assert swapped.low == pytest.approx(1 / found.high)
    assert swapped.high == pytest.approx(1 / found.low)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=150).filter(lambda ratios: len(ratios) % 2))
def test_the_ratio_of_swapped_roles_is_the_reciprocal(ratios: list[float]) -> None:
    assert estimate([1 / ratio for ratio in ratios]).ratio == pytest.approx(1 / estimate(ratios).ratio)


def test_the_ratio_of_swapped_roles_is_the_reciprocal_for_even_counts() -> None:
    ratios = [0.5] * 10 + [2.0] * 10
    assert estimate([1 / ratio for ratio in ratios]).ratio == pytest.approx(1 / estimate(ratios).ratio)


F, S, T, U = Effect.FASTER, Effect.SLOWER, Effect.TIE, Effect.UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "at_first", "later"),
    [
        (1.30, 1.40, F, F),
        (1.2501, 9.0, F, F),
        (1.25, 1.40, U, F),
        (1.10, 1.20, U, F),
        (1.0251, 1.03, U, F),
        (1.0251, 5.0, U, F),
        (1.025, 1.04, U, T),
        (1.01, 1.05, U, T),
        (1.01, 1.0501, U, U),
        (0.999, 1.001, U, T),
        (1 / 1.05, 1.05, U, T),
        (0.95, 1.0, U, U),
        (0.90, 1.10, U, U),
        (0.5, 2.0, U, U),
        (0.90, 1 / 1.025, U, U),
        (0.90, 0.9755, U, S),
        (0.96, 0.9755, U, S),
        (0.70, 0.81, U, S),
        (0.70, 0.80, U, S),
        (0.70, 0.799, S, S),
        (0.01, 0.02, S, S),
    ],
)
def test_decisions(low: float, high: float, at_first: Effect, later: Effect) -> None:
    middle = (low + high) / 2
    assert effect(Estimate(middle, low, high, CHECKPOINTS[0])) is at_first
    for pairs in CHECKPOINTS[1:]:
        assert effect(Estimate(middle, low, high, pairs)) is later


@given(st.floats(0.3, 3), st.floats(1, 2), st.sampled_from(CHECKPOINTS))
def test_decisions_mirror(low: float, width: float, pairs: int) -> None:
    mirror = {F: S, S: F, T: T, U: U}
    high = low * width
    # Clear of the limits, where a reciprocal rounds either way.
    for edge in (low, high):
        for limit in (1.025, 1.05, 1.25):
            if min(abs(edge / limit - 1), abs(edge * limit - 1)) < 1e-9:
                return
    found = effect(Estimate((low + high) / 2, low, high, pairs))
    assert effect(Estimate(2 / (low + high), 1 / high, 1 / low, pairs)) is mirror[found]


@pytest.mark.parametrize(("shift", "wanted"), [(1.5, F), (1.1, F), (1.0, T), (1 / 1.1, S), (1 / 1.5, S)])
def test_clear_effects_are_told(shift: float, wanted: Effect) -> None:
    ratios = (np.random.default_rng(3).normal(1.0, 0.01, CHECKPOINTS[-1]) * shift).tolist()
    assert effect(estimate(ratios)) is wanted
    early = effect(estimate(ratios[: CHECKPOINTS[0]]))
    assert early is (wanted if shift in (1.5, 1 / 1.5) else U)


@pytest.mark.parametrize("pairs", [1, 2, 3, 6])
def test_too_few_pairs_decide_nothing(pairs: int) -> None:
    """Where time is up before seven pairs, not even their whole range covers the median at the level."""
    assert effect(estimate([1.4] * pairs)) is Effect.UNDECIDED
