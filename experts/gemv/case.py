"""GEMV: y[M] = A[M,K] x[K], A row-major, fp32 in and out, fp32 accumulation."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from experts.case import Arrays, Case, Tensor, Workload
from experts.judge import Array, Expected, contraction_tolerance


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return {tensor.name: np.asarray(rng.standard_normal(tensor.shape, np.float32)) for tensor in case.inputs}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows of A of very different scale (1e-3 to 1e3), log-uniform magnitudes within, both signs.

    The wide range lies across outputs, not within one sum: a sum of few dominant terms would raise honest errors.
    """

    def draw(shape: tuple[int, ...], scales: NDArray[np.float64] | float) -> Array:
        magnitude = 10.0 ** (rng.uniform(-1, 1, shape) + scales)
        return np.asarray(magnitude * rng.choice([-1.0, 1.0], shape), np.float32)

    m, k = case.dims["M"], case.dims["K"]
    return {"A": draw((m, k), rng.uniform(-3, 3, (m, 1))), "x": draw((k,), rng.uniform(-3, 3))}


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values, zeros among them, and whole constant columns of A."""
    a = rng.integers(-2, 3, case.inputs[0].shape).astype(np.float32)
    x = rng.integers(-2, 3, case.inputs[1].shape).astype(np.float32)
    a[:, rng.random(a.shape[1]) < 0.2] = 0.5
    return {"A": a, "x": x}


def _cancelling(rng: np.random.Generator, case: Case) -> Arrays:
    """Neighbouring products that nearly cancel, on top of a small rest; the last column stands alone where K is odd."""
    a = rng.standard_normal(case.inputs[0].shape, np.float32)
    x = rng.standard_normal(case.inputs[1].shape, np.float32)
    pairs = x.size // 2
    a[:, 1 : 2 * pairs : 2] = -a[:, 0 : 2 * pairs : 2]
    x[1 : 2 * pairs : 2] = x[0 : 2 * pairs : 2] * np.float32(1 + 2**-6)
    return {"A": a, "x": x}


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    a, x = inputs["A"], inputs["x"]
    # The magnitudes only scale the bound, so that fp32 is enough for them.
    magnitude = np.matmul(np.abs(a), np.abs(x)).astype(np.float64)
    value = np.matmul(a.astype(np.float64), x.astype(np.float64))
    return {"y": Expected(value, contraction_tolerance(magnitude, case.dims["K"], "f32"))}


def _product(a: Array, x: Array) -> Arrays:
    return {"y": np.matmul(a.astype(np.float32), x.astype(np.float32))}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="gemv",
    dimensions=("M", "K"),
    tensors={
        "f32": (
            Tensor("A", "f32", ("M", "K")),
            Tensor("x", "f32", ("K",)),
            Tensor("y", "f32", ("M",), "out"),
        )
    },
    shapes={
        "256": {"M": 256, "K": 256},
        "512": {"M": 512, "K": 512},
        "1024": {"M": 1024, "K": 1024},
        "2048": {"M": 2048, "K": 2048},
        "4096x256": {"M": 4096, "K": 256},
        "256x2048": {"M": 256, "K": 2048},
    },
    default={"opencl": "1024-f32"},
    domain=("M % 16 == 0", "K % 64 == 0"),
    family=(
        {"M": 1, "K": 1},
        {"M": 1, "K": 64},
        {"M": 16, "K": 64},
        {"M": 7, "K": 3},
        {"M": 31, "K": 13},
        {"M": 65, "K": 63},
        {"M": 64, "K": 65},
        {"M": 63, "K": 64},
        {"M": 17, "K": 80},
        {"M": 13, "K": 144},
        {"M": 48, "K": 192},
        {"M": 257, "K": 127},
        {"M": 128, "K": 1},
        {"M": 1, "K": 1000},
    ),
    sanitize={"M": 16, "K": 64},
    distributions={"normal": _normal, "log-uniform": _log_uniform, "ties": _ties, "cancelling": _cancelling},
    reference=_reference,
    one_below=lambda inputs, case: _product(_tf32(inputs["A"]), _tf32(inputs["x"])),
    honest=lambda inputs, case: _product(inputs["A"], inputs["x"]),
    operations="2 * M * K",
)
