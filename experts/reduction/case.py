"""Reduction: y[1] = the sum of x[N], fp32 in, out and accumulation.

The bound. Each addition of an honest sum errs by u times a partial sum, and those are at most sum |x|. In pairs that
comes to a few u sum |x|; in lanes, to what one lane loses, which grows with its length where few distinct values make
all roundings go one way: lanes of 1,024 terms use a tenth of the bound, of 4,096 a third; one of 2^17 is beyond it.

What is lost below: matrix instructions read fp32 as tf32 and cut 13 bits off each term, a thousand u where the terms
have one sign. Where signs differ those errors average out, whatever the kernel does. So the timed terms have one sign,
and on every distribution the sum is a fair share of the magnitudes: near 0, zero would be a good guess.
"""

from collections.abc import Mapping

import numpy as np

from experts.case import Arrays, Case, Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Array, Expected

SUM_BOUND = 256.0
"""In units of u sum |x|. NumPy's pairs stay below 3."""


def _uniform(rng: np.random.Generator, case: Case) -> Arrays:
    return {"x": rng.random(case.inputs[0].shape, np.float32)}


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    """N(1/4, 1)."""
    return {"x": rng.standard_normal(case.inputs[0].shape, np.float32) + np.float32(0.25)}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Magnitudes from 1e-3 to 1e3, one in four negative."""
    shape = case.inputs[0].shape
    magnitude = 10.0 ** rng.uniform(-3, 3, shape)
    return {"x": np.asarray(magnitude * rng.choice([-1.0, 1.0, 1.0, 1.0], shape), np.float32)}


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values, whose roundings all go the same way."""
    values = np.array([-1, 0.1, 1.3, 2.7], np.float32)
    return {"x": values[rng.integers(0, len(values), case.inputs[0].shape)]}


def _cancelling(rng: np.random.Generator, case: Case) -> Arrays:
    """Neighbours that nearly cancel, on top of a small rest of one sign; the last stands alone where N is odd."""
    x = rng.standard_normal(case.inputs[0].shape, np.float32)
    pairs = x.size // 2
    rest = rng.uniform(2.0**-6, 2.0**-5, pairs)
    x[1 : 2 * pairs : 2] = rest - x[0 : 2 * pairs : 2]
    return {"x": x}


def _alone(rng: np.random.Generator, case: Case) -> Arrays:
    """One term that is as large as all the others together, anywhere: what is added to it loses its last bits."""
    x = rng.random(case.inputs[0].shape, np.float32)
    x[rng.integers(x.size)] = max(1.0, x.size / 2)
    return {"x": x}


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    x = inputs["x"]
    # NumPy adds float64 in pairs: 2^-29 of a unit of fp32.
    value = x.sum(dtype=np.float64, keepdims=True)
    magnitude = np.abs(x).sum(dtype=np.float64, keepdims=True)
    # Terms below the normal range may flush to zero.
    return {"y": Expected(value, SUM_BOUND * UNIT_ROUNDOFF["f32"] * magnitude + x.size * 2.0**-126)}


def _sum(x: Array) -> Arrays:
    return {"y": x.sum(dtype=np.float32, keepdims=True)}


def _cut_to_tf32(x: Array) -> Array:
    """Without the last 13 bits, as matrix instructions read fp32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="reduction",
    dimensions=("N",),
    tensors={"f32": (Tensor("x", "f32", ("N",)), Tensor("y", "f32", ("1",), "out"))},
    shapes={f"{1 << power}m": {"N": 1 << (20 + power)} for power in range(7)},
    default={"opencl": "1m-f32", "cuda": "16m-f32"},
    domain=("N % 256 == 0",),
    family=tuple(
        {"N": n} for n in (1, 2, 3, 31, 127, 255, 256, 257, 512, 1000, 1021, 1023, 1025, 4099, 65536, 65537, 99991)
    ),
    sanitize={"N": 1024},
    distributions={
        "uniform": _uniform,
        "normal": _normal,
        "log-uniform": _log_uniform,
        "ties": _ties,
        "cancelling": _cancelling,
        "alone": _alone,
    },
    reference=_reference,
    one_below=lambda inputs, case: _sum(_cut_to_tf32(inputs["x"])),
    honest=lambda inputs, case: _sum(inputs["x"]),
    # One addition for each element but the first.
    operations="N - 1",
)
