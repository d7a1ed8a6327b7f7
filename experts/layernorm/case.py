"""Layer normalization: Y[R,N] = (X - mean) / sqrt(variance + eps) G[N] + B[N], fp32 in, out and arithmetic.

Mean and (biased) variance are those of each row of X. Everything is row-major.

The bound. Let z = (x - mean) / sqrt(variance + eps), a the mean of |x| in the row, u the unit roundoff. Three terms:

- The mean. N roundings of partial sums, which are at most N a, move it by a few u sqrt(N) a; divided by sqrt(variance +
  eps), that shifts all z of the row. This is what the two-pass algorithm loses in a row far from zero. The variance
  around a mean that is off is larger by the square of that, which is less.
- The variance. N terms of one sign: a relative error of a few u sqrt(N), half of which is in z.
- Functions and the last operations: a few u (|z g| + |b|).

One pass in fp32, variance = mean of squares - square of the mean, is not within it: its error of u a^2 is
a / sqrt(variance) times the first term. On the distribution `offset` that rejects it, summed in whatever order.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experts.case import Arrays, Case, Parameter, Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Array, Expected

U = UNIT_ROUNDOFF["f32"]
EPS = 1e-5
SUM_BOUND = 16.0
"""In units of u sqrt(N). Sums in sequence reach 1; of few distinct values, 5 where N = 4096."""
FUNCTION_BOUND = 32.0
"""In units of u: a square root (3 units in the last place are legal, 6 u), a reciprocal (2.5), products, a sum."""


def _rows(case: Case) -> tuple[int, int]:
    """The shape of one number for each row."""
    return case.dims["R"], 1


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return {tensor.name: np.asarray(rng.standard_normal(tensor.shape, np.float32)) for tensor in case.inputs}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows, gains and biases of very different scale (1e-3 to 1e3), log-uniform magnitudes within rows, both signs.

    In the smallest rows the variance is a tenth of eps.
    """

    def draw(shape: tuple[int, ...], scales: NDArray[np.float64]) -> Array:
        magnitude = 10.0 ** (rng.uniform(-0.5, 0.5, shape) + scales)
        return np.asarray(magnitude * rng.choice([-1.0, 1.0], shape), np.float32)

    rows, columns = case.inputs[0].shape, case.inputs[1].shape
    return {
        "X": draw(rows, rng.uniform(-3, 3, _rows(case))),
        "G": draw(columns, rng.uniform(-2.5, 2.5, columns)),
        "B": draw(columns, rng.uniform(-2.5, 2.5, columns)),
    }


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values; a fifth of the rows are constant: no variance but eps."""
    inputs = {tensor.name: rng.integers(-2, 3, tensor.shape).astype(np.float32) for tensor in case.inputs}
    x = inputs["X"]
    constant = rng.random(case.dims["R"]) < 0.2
    x[constant] = x[constant, :1]
    return dict(inputs)


def _offset(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows around a mean that is 300 to 2,000 times their deviation, of either sign; the deviation is 1e-1 to 1e2."""
    inputs = _normal(rng, case)
    mean = 10.0 ** rng.uniform(2.5, 3.3, _rows(case)) * rng.choice([-1.0, 1.0], _rows(case))
    deviation = 10.0 ** rng.uniform(-1, 2, _rows(case))
    return inputs | {"X": ((inputs["X"] + mean) * deviation).astype(np.float32)}


def _normalized(x: Array, eps: float) -> NDArray[Any]:
    """In the precision of x, in two passes."""
    z: NDArray[Any] = x - x.mean(1, keepdims=True)
    z /= np.sqrt(np.square(z).mean(1, keepdims=True) + z.dtype.type(eps))
    return z


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    x, g, b = (inputs[name].astype(np.float64) for name in ("X", "G", "B"))
    # The kernel gets eps as an fp32.
    eps = float(np.float32(EPS))
    z = _normalized(x, eps)
    size = np.abs(x).mean(1, keepdims=True) / np.sqrt(x.var(1, keepdims=True) + eps)
    sums = SUM_BOUND * np.sqrt(case.dims["N"])
    tolerance = U * np.abs(g) * (sums * (size + np.abs(z)) + FUNCTION_BOUND * np.abs(z))
    # What is below the normal range may flush to zero, in a deviation, a square or a product.
    tolerance += U * FUNCTION_BOUND * np.abs(b) + 2.0**-126 * (1.0 + np.abs(g) / np.sqrt(eps))
    return {"Y": Expected(z * g + b, tolerance)}


def _layernorm(x: Array, g: Array, b: Array) -> Arrays:
    return {"Y": _normalized(x, EPS) * g + b}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="layernorm",
    dimensions=("R", "N"),
    tensors={
        "f32": (
            Tensor("X", "f32", ("R", "N")),
            Tensor("G", "f32", ("N",)),
            Tensor("B", "f32", ("N",)),
            Tensor("Y", "f32", ("R", "N"), "out"),
        )
    },
    scalars=(Parameter("eps", "f32", EPS),),
    shapes={
        "64x128": {"R": 64, "N": 128},
        "256x256": {"R": 256, "N": 256},
        "256x512": {"R": 256, "N": 512},
        "512x1024": {"R": 512, "N": 1024},
        "64x4096": {"R": 64, "N": 4096},
    },
    default={"opencl": "512x1024-f32"},
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
    distributions={"normal": _normal, "log-uniform": _log_uniform, "ties": _ties, "offset": _offset},
    reference=_reference,
    one_below=lambda inputs, case: _layernorm(*(_tf32(inputs[name]) for name in ("X", "G", "B"))),
    honest=lambda inputs, case: _layernorm(inputs["X"], inputs["G"], inputs["B"]),
    operations="5 * R * N",
)
