"""FMHA: O = softmax(scale Q K^T) V for each batch and head; not causal; fp32 in, out and accumulation.

All tensors are [B, H, S, D]. scale = 1 / sqrt(D) is the kernel's to compute: it follows from a dimension, and a scalar
of a case has one value for all shapes.

The bound. Let s be the scores, p = softmax(s), o = sum p v, u the unit roundoff. Four terms:

- The scores. An error e_j of s_j changes o by sum p_j e_j (v_j - o), to first order; an honest e_j is a small multiple
  of u a_j, with a_j = scale |q| |k_j|. Errors of different keys are independent roundings, so that the root of squares
  bounds the sum: what few keys decide gets the whole error of a score, what many keys decide an average. (An error that
  is one function of all scores, such as a rounded scale, moves o by u times the scores' deviation under p: little.)
- Weights and products, each rounded: a contraction's error on |P||V|.
- The sums. S roundings of partial sums, which are as large as the root of squares of their terms, and as o. After a key
  that dominates they are large, and many small weights follow.
- A sum that holds 1 already takes no more weights of 2^-24, however many there are. Those may be lost.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experts.case import Arrays, Case, Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Array, Expected, contraction_tolerance

U = UNIT_ROUNDOFF["f32"]
SCORES_BOUND = 256.0
"""In units of u a_j. Where two keys compete, one dot product's error decides: up to 10 with terms of one sign."""
SUMS_BOUND = 16.0
"""In units of u sqrt(S) times a partial sum: five deviations of S roundings are 2."""
LOST_BELOW = 4 * U
LOST_BOUND = 8.0
"""In units of what weights below LOST_BELOW add, so that an honest kernel may lose all of them."""


def _gaussian(rng: np.random.Generator, case: Case) -> list[NDArray[np.float32]]:
    return [rng.standard_normal(tensor.shape, np.float32) for tensor in case.inputs]


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    q, k, v = _gaussian(rng, case)
    return {"Q": q, "K": k, "V": v}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Queries, keys and columns of V of very different scale, log-uniform magnitudes within, both signs.

    Scores go from 1e-4 to some hundreds: rows of nearly equal weights, and rows with one that dominates. V only
    scales the outputs, so that it may range from 1e-3 to 1e3.
    """

    def draw(scales: NDArray[np.float64]) -> Array:
        magnitude = 10.0 ** (rng.uniform(-0.5, 0.5, shape) + scales)
        return np.asarray(magnitude * rng.choice([-1.0, 1.0], shape), np.float32)

    shape = case.inputs[0].shape
    rows, columns = (*shape[:3], 1), (*shape[:2], 1, shape[3])
    return {
        "Q": draw(rng.uniform(-3, 1, rows)),
        "K": draw(rng.uniform(-1, 0.5, rows)),
        "V": draw(rng.uniform(-3, 3, columns)),
    }


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values, so that many scores are equal; a fifth of the queries are zero: equal weights."""
    q, k, v = (rng.integers(-2, 3, tensor.shape).astype(np.float32) for tensor in case.inputs)
    q[rng.random(q.shape[:3]) < 0.2] = 0.0
    return {"Q": q, "K": k, "V": v}


def _cancelling(rng: np.random.Generator, case: Case) -> Arrays:
    """Pairs of equal keys whose values nearly cancel; the last key stands alone where S is odd."""
    q, k, v = _gaussian(rng, case)
    pairs = k.shape[2] // 2
    k[:, :, 1 : 2 * pairs : 2] = k[:, :, 0 : 2 * pairs : 2]
    v[:, :, 1 : 2 * pairs : 2] = v[:, :, 0 : 2 * pairs : 2] * np.float32(-1 - 2**-6)
    return {"Q": q, "K": k, "V": v}


def _ramp(rng: np.random.Generator, case: Case) -> Arrays:
    """Scores that rise along the keys from some 100 to 200 for half of the queries; the others have the negatives.

    exp overflows where no maximum is subtracted. Where scores rise, every block of keys has a new maximum; where they
    fall, a maximum that starts at zero leaves no weight.
    """
    q, k, v = _gaussian(rng, case)
    keys, size = k.shape[2:]
    # Along a direction of length sqrt(D) a query of 1 and a key of 1 have the score sqrt(D).
    direction = rng.choice([-1.0, 1.0], size).astype(np.float32)
    sign = rng.choice([-1.0, 1.0], (*q.shape[:3], 1)).astype(np.float32)
    height = (100.0 / np.sqrt(size) * (1.0 + (np.arange(keys) + 1.0) / keys)).astype(np.float32)
    return {"Q": np.float32(0.5) * q + sign * direction, "K": k + height[:, None] * direction, "V": v}


def _weights(q: Array, k: Array) -> NDArray[Any]:
    """softmax(scale Q K^T) in the inputs' precision."""
    scores: NDArray[Any] = np.matmul(q, k.swapaxes(-1, -2))
    scores *= scores.dtype.type(q.shape[-1] ** -0.5)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    q, k, v = (inputs[name].astype(np.float64) for name in ("Q", "K", "V"))
    p = _weights(q, k)
    value = np.matmul(p, v)
    # Magnitudes only scale the bound, so that fp32 is enough for them.
    size = np.abs(inputs["V"])
    reach = np.matmul(np.abs(inputs["Q"]), np.abs(inputs["K"]).swapaxes(-1, -2)) * np.float32(q.shape[-1] ** -0.5)
    lost = np.where(p < LOST_BELOW, p, 0.0).astype(np.float32)
    tolerance = contraction_tolerance(np.matmul(p.astype(np.float32), size).astype(np.float64), case.dims["S"], "f32")
    partial = np.sqrt(np.matmul(np.square(p, dtype=np.float32, casting="same_kind"), size * size)) + np.abs(value)
    tolerance += SUMS_BOUND * U * np.sqrt(case.dims["S"]) * partial
    tolerance += LOST_BOUND * (np.matmul(lost, size) + lost.sum(-1, keepdims=True) * np.abs(value))
    # The sum of w_j (v_j - o)^2, multiplied out; what that cancels is far below the first term.
    w = np.square(p * reach)
    squares = np.matmul(w, v * v) - 2 * value * np.matmul(w, v) + value * value * w.sum(-1, keepdims=True)
    tolerance += SCORES_BOUND * U * np.sqrt(np.maximum(squares, 0.0))
    # Weights below the normal range may flush to zero.
    tolerance += 2.0**-126 * size.sum(2, keepdims=True)
    return {"O": Expected(value, tolerance)}


def _attention(q: Array, k: Array, v: Array) -> Arrays:
    return {"O": np.matmul(_weights(q, k), v)}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="fmha",
    dimensions=("B", "H", "S", "D"),
    tensors={
        "f32": (
            Tensor("Q", "f32", ("B", "H", "S", "D")),
            Tensor("K", "f32", ("B", "H", "S", "D")),
            Tensor("V", "f32", ("B", "H", "S", "D")),
            Tensor("O", "f32", ("B", "H", "S", "D"), "out"),
        )
    },
    shapes={str(size): {"B": 1, "H": 4, "S": size, "D": 64} for size in (64, 128, 256, 512, 1024)},
    default={"opencl": "512-f32"},
    domain=("S % 64 == 0", "D % 16 == 0", "D <= 128"),
    family=(
        {"B": 1, "H": 1, "S": 1, "D": 1},
        {"B": 1, "H": 1, "S": 1, "D": 64},
        {"B": 1, "H": 2, "S": 64, "D": 1},
        {"B": 2, "H": 3, "S": 5, "D": 7},
        {"B": 1, "H": 2, "S": 31, "D": 13},
        {"B": 2, "H": 1, "S": 63, "D": 64},
        {"B": 1, "H": 1, "S": 65, "D": 65},
        {"B": 3, "H": 2, "S": 64, "D": 16},
        {"B": 2, "H": 2, "S": 128, "D": 80},
        {"B": 1, "H": 3, "S": 144, "D": 48},
        {"B": 1, "H": 1, "S": 192, "D": 128},
        {"B": 1, "H": 2, "S": 100, "D": 144},
        {"B": 1, "H": 1, "S": 257, "D": 32},
    ),
    sanitize={"B": 1, "H": 1, "S": 64, "D": 16},
    distributions={
        "normal": _normal,
        "log-uniform": _log_uniform,
        "ties": _ties,
        "cancelling": _cancelling,
        "ramp": _ramp,
    },
    reference=_reference,
    one_below=lambda inputs, case: _attention(*(_tf32(inputs[name]) for name in ("Q", "K", "V"))),
    honest=lambda inputs, case: _attention(inputs["Q"], inputs["K"], inputs["V"]),
    operations="4 * B * H * S * S * D",
)
