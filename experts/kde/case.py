"""Gaussian kernel density sums: y[M] = sum over j < N of exp(-(q_i - x_j)^2 / 2), fp32 in, out and arithmetic.

No bandwidth: q and x are in units of it. The density itself is y / (N sqrt(2 pi)), a factor that no kernel need spend
time on.

The bound. Let d_ij = q_i - x_j, a_ij = d_ij^2 / 2, p_ij = exp(-a_ij), u the unit roundoff. An error of y_i has four
terms:

- The exponential. The difference is rounded once, which moves p by u d |d| = 2 u a p; so do the square (u a p) and a
  factor 1/2 or log2(e) (u a p). What is far away is relatively worse, but a exp(-a) is small there: at most 1/e.
- The function itself adds a few u p.
- The sum. N roundings of partial sums of one sign, each up to u times the sum: a few sqrt(N), also where few distinct
  values make the roundings one-sided.
- A term below the normal range may flush to zero: 2^-126 for each.

Squaring out, (q^2 - 2 q x + x^2) / 2, moves the argument by u q^2 instead, which inputs far from zero do not forgive:
such a kernel is one that loses what fp32 can hold.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experts.case import Arrays, Case, Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Array, Expected

U = UNIT_ROUNDOFF["f32"]
FUNCTION_BOUND = 32.0
"""In units of u p: exp (3 units in the last place are legal, 6 u)."""
ARGUMENT_BOUND = 32.0
"""In units of u a p: a rounded difference counts twice, the square and a factor or two once each."""
SUM_BOUND = 16.0
"""In units of u y sqrt(N). Sums in sequence reach 6, of few distinct values and N = 4096."""


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return {tensor.name: np.asarray(rng.standard_normal(tensor.shape, np.float32)) for tensor in case.inputs}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Magnitudes from 0.1 to 100, both signs: most terms are far below the sum, or below the normal range."""

    def draw(shape: tuple[int, ...]) -> Array:
        return np.asarray(10.0 ** rng.uniform(-1, 2, shape) * rng.choice([-1.0, 1.0], shape), np.float32)

    return {tensor.name: draw(tensor.shape) for tensor in case.inputs}


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values: many terms are exactly 1, and roundings of the sum are one-sided."""
    return {tensor.name: rng.integers(-2, 3, tensor.shape).astype(np.float32) for tensor in case.inputs}


def _alone(rng: np.random.Generator, case: Case) -> Arrays:
    """Queries around 60 to 600, of either sign, far from all of x but one: every other term is nothing."""
    centre = 10.0 ** rng.uniform(1.8, 2.8) * rng.choice([-1.0, 1.0])
    x = rng.standard_normal(case.inputs[1].shape)
    x[rng.integers(x.size)] = centre
    q = centre + rng.standard_normal(case.inputs[0].shape)
    return {"q": q.astype(np.float32), "x": x.astype(np.float32)}


def _offset(rng: np.random.Generator, case: Case) -> Arrays:
    """N(0, 1) around one mean of 60 to 600, of either sign: only differences matter."""
    mean = 10.0 ** rng.uniform(1.8, 2.8) * rng.choice([-1.0, 1.0])
    return {t.name: (mean + rng.standard_normal(t.shape)).astype(np.float32) for t in case.inputs}


def _arguments(q: Array, x: Array) -> NDArray[Any]:
    """(q_i - x_j)^2 / 2, in the precision of both."""
    a: NDArray[Any] = np.subtract.outer(q, x)
    a *= a
    a *= a.dtype.type(0.5)
    return a


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    a = _arguments(inputs["q"].astype(np.float64), inputs["x"].astype(np.float64))
    p = np.exp(-a)
    value = p.sum(1)
    # The sum of a p over each row only scales the bound.
    moved = np.einsum("ij,ij->i", a, p)
    n = case.dims["N"]
    share = (FUNCTION_BOUND + SUM_BOUND * np.sqrt(n)) * value + ARGUMENT_BOUND * moved
    return {"y": Expected(value, U * share + n * 2.0**-126)}


def _sums(q: Array, x: Array) -> Arrays:
    a = _arguments(q.astype(np.float32), x.astype(np.float32))
    return {"y": np.exp(np.negative(a, out=a), out=a).sum(1)}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="kde",
    dimensions=("M", "N"),
    tensors={
        "f32": (
            Tensor("q", "f32", ("M",)),
            Tensor("x", "f32", ("N",)),
            Tensor("y", "f32", ("M",), "out"),
        )
    },
    shapes={
        "128": {"M": 128, "N": 128},
        "256": {"M": 256, "N": 256},
        "256x512": {"M": 256, "N": 512},
        "512": {"M": 512, "N": 512},
        "64x4096": {"M": 64, "N": 4096},
        "1024": {"M": 1024, "N": 1024},
    },
    default={"opencl": "512-f32"},
    domain=("M % 16 == 0", "N % 64 == 0"),
    family=(
        {"M": 1, "N": 1},
        {"M": 1, "N": 64},
        {"M": 16, "N": 64},
        {"M": 7, "N": 3},
        {"M": 31, "N": 13},
        {"M": 65, "N": 63},
        {"M": 64, "N": 65},
        {"M": 63, "N": 64},
        {"M": 17, "N": 80},
        {"M": 13, "N": 144},
        {"M": 48, "N": 192},
        {"M": 257, "N": 127},
        {"M": 128, "N": 1},
        {"M": 1, "N": 1000},
    ),
    sanitize={"M": 16, "N": 64},
    distributions={
        "normal": _normal,
        "log-uniform": _log_uniform,
        "ties": _ties,
        "alone": _alone,
        "offset": _offset,
    },
    reference=_reference,
    one_below=lambda inputs, case: _sums(_tf32(inputs["q"]), _tf32(inputs["x"])),
    honest=lambda inputs, case: _sums(inputs["q"], inputs["x"]),
    operations="4 * M * N",
)
