"""Softmax: Y[R,N] = softmax of each row of X, row-major, fp32 in, out and arithmetic.

The bound. Let m be the largest element of a row, d_i = m - x_i, p = softmax(x), u the unit roundoff. An error of y_i is
relative to p_i and has four terms:

- The exponential. The difference is rounded once, which moves exp(-d_i) by u d_i, and so does a factor log2(e) that is
  multiplied in after it; the function and the division add a few u. Rounding x log2(e) *before* the subtraction moves
  it by u |x_i| instead, which a row far from zero does not forgive: such a kernel is one that loses what fp32 can hold.
- The sum's own terms, each with the error of its exponential: their mean under p, sum p_j d_j.
- The sum. N roundings of partial sums of one sign, each up to u times the sum: a few sqrt(N), also where few distinct
  values make the roundings one-sided.
- A sum that is 1 already takes no more terms of 2^-24, however many there are. Those may be lost.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experts.case import Arrays, Case, Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Array, Expected

U = UNIT_ROUNDOFF["f32"]
FUNCTION_BOUND = 32.0
"""In units of u: exp (3 units in the last place are legal, 6 u), a division (2.5 units), a product."""
DIFFERENCE_BOUND = 16.0
"""In units of u d: a rounded difference, a rounded product and a rounded factor are 3."""
SUM_BOUND = 16.0
"""In units of u sqrt(N). Sums in sequence reach 2, of few distinct values and N = 4096."""
LOST_BELOW = 4 * U
LOST_BOUND = 8.0
"""In units of what weights below LOST_BELOW add, so that an honest kernel may lose all of them."""


def _rows(case: Case) -> tuple[int, int]:
    """The shape of one number for each row."""
    return case.dims["R"], 1


def _gaussian(rng: np.random.Generator, case: Case) -> NDArray[np.float32]:
    return rng.standard_normal(case.inputs[0].shape, np.float32)


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return {"X": _gaussian(rng, case)}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows of very different scale (1e-3 to 300), log-uniform magnitudes within, both signs.

    From rows of nearly equal weights to rows where one element has all, and others are below the normal range.
    """
    shape = case.inputs[0].shape
    magnitude = 10.0 ** (rng.uniform(-0.5, 0.5, shape) + rng.uniform(-3, 2, _rows(case)))
    return {"X": np.asarray(magnitude * rng.choice([-1.0, 1.0], shape), np.float32)}


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values, so that the largest stands many times; a fifth of the rows are constant: equal weights."""
    x = rng.integers(-2, 3, case.inputs[0].shape).astype(np.float32)
    constant = rng.random(case.dims["R"]) < 0.2
    x[constant] = x[constant, :1]
    return {"X": x}


def _ramp(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows that rise from some 100 to 400; half of them have the negatives, and fall.

    exp overflows where no maximum is subtracted, or that of a part of the row. Where a row rises, every block of it has
    a new maximum; where it falls, a maximum that starts at zero leaves no weight.
    """
    n = case.dims["N"]
    height = 100.0 * (1.0 + 3.0 * (np.arange(n) + 1.0) / n)
    sign = rng.choice([-1.0, 1.0], _rows(case))
    return {"X": (_gaussian(rng, case) + sign * height).astype(np.float32)}


def _offset(rng: np.random.Generator, case: Case) -> Arrays:
    """N(0, 1) around a mean of 10 to 10,000, of either sign, in each row: only differences matter."""
    mean = 10.0 ** rng.uniform(1, 4, _rows(case)) * rng.choice([-1.0, 1.0], _rows(case))
    return {"X": (_gaussian(rng, case) + mean).astype(np.float32)}


def _softmax(x: Array) -> NDArray[Any]:
    """In the precision of x."""
    e: NDArray[Any] = np.exp(x - x.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    x = inputs["X"].astype(np.float64)
    p = _softmax(x)
    distance = x.max(1, keepdims=True) - x
    share = FUNCTION_BOUND + DIFFERENCE_BOUND * (distance + (p * distance).sum(1, keepdims=True))
    share += SUM_BOUND * np.sqrt(case.dims["N"])
    lost = np.where(p < LOST_BELOW, p, 0.0).sum(1, keepdims=True)
    # Weights below the normal range may flush to zero.
    return {"Y": Expected(p, p * (U * share + LOST_BOUND * lost) + 2.0**-126)}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="softmax",
    dimensions=("R", "N"),
    tensors={"f32": (Tensor("X", "f32", ("R", "N")), Tensor("Y", "f32", ("R", "N"), "out"))},
    shapes={
        "64x128": {"R": 64, "N": 128},
        "256x256": {"R": 256, "N": 256},
        "256x512": {"R": 256, "N": 512},
        "512x1024": {"R": 512, "N": 1024},
        "64x4096": {"R": 64, "N": 4096},
    },
    default={"opencl": "256x512-f32"},
    domain=("N % 64 == 0",),
    family=(
        {"R": 1, "N": 1},
        {"R": 1, "N": 64},
        {"R": 64, "N": 1},
        {"R": 7, "N": 3},
        {"R": 5, "N": 13},
        {"R": 31, "N": 63},
        {"R": 17, "N": 65},
        {"R": 3, "N": 80},
        {"R": 33, "N": 127},
        {"R": 13, "N": 192},
        {"R": 2, "N": 257},
        {"R": 4, "N": 1000},
        {"R": 1, "N": 2048},
    ),
    sanitize={"R": 3, "N": 64},
    distributions={
        "normal": _normal,
        "log-uniform": _log_uniform,
        "ties": _ties,
        "ramp": _ramp,
        "offset": _offset,
    },
    reference=_reference,
    one_below=lambda inputs, case: {"Y": _softmax(_tf32(inputs["X"]))},
    honest=lambda inputs, case: {"Y": _softmax(inputs["X"])},
    operations="4 * R * N",
)
