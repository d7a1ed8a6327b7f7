"""From paired samples to an effect: the decision rule of the gate.

Each pair gives one ratio t(baseline) / t(candidate). The estimate is the median ratio, its interval the
distribution-free one between two order statistics (exact under independence, no resampling, so that anyone can
compute it again from the rows). The error of 5 % is split evenly over the checkpoints. `faster` and `slower` need the
near end of the interval beyond 2.5 %; `tie` needs it wholly within 5 %. After the first checkpoint only an
overwhelming effect decides: two native-code workers differ by more than their kernels do over so few pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, sqrt

from experts.verdict import Effect

CHECKPOINTS = (20, 60, 150, 400)
"""Numbers of pairs after which a decision may fall."""
MARGIN = 1.025
TIE = 1.05
OVERWHELMING = 1.25
"""How far the near end must be for the first checkpoint to decide."""
ERROR = 0.05


@dataclass(frozen=True)
class Estimate:
    """Median ratio with its interval at one checkpoint."""

    ratio: float
    low: float
    high: float
    pairs: int


def estimate(ratios: Sequence[float], error: float = ERROR / len(CHECKPOINTS)) -> Estimate:
    """Median and interval of at least one ratio; with too few for the level the interval is the whole range."""
    ordered = sorted(ratios)
    count = len(ordered)
    left_out = max(0, _left_out(count, error))
    # The geometric mean of the middle two: swapped roles give the reciprocal.
    middle = sqrt(ordered[(count - 1) // 2] * ordered[count // 2])
    return Estimate(middle, ordered[left_out], ordered[count - 1 - left_out], count)


def effect(found: Estimate) -> Effect:
    """What the interval says at a checkpoint; UNDECIDED means: more pairs, and at the last checkpoint the answer."""
    if _left_out(found.pairs, ERROR / len(CHECKPOINTS)) < 0:
        return Effect.UNDECIDED
    if found.pairs < CHECKPOINTS[1]:
        if found.low > OVERWHELMING:
            return Effect.FASTER
        return Effect.SLOWER if found.high < 1 / OVERWHELMING else Effect.UNDECIDED
    if found.low > MARGIN:
        return Effect.FASTER
    if found.high < 1 / MARGIN:
        return Effect.SLOWER
    return Effect.TIE if found.low >= 1 / TIE and found.high <= TIE else Effect.UNDECIDED


@cache
def _left_out(count: int, error: float) -> int:
    """How many ratios may be left out at each end for a binomial coverage of 1 - error; -1 where none is too many."""
    number, tail = -1, 0.0
    while number < (count - 1) // 2:
        tail += comb(count, number + 1) / 2**count
        if 2 * tail > error:
            break
        number += 1
    return number
