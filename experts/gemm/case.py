"""GEMM: C[M,N] = A[M,K] B[K,N], row-major, fp32 in and out, fp32 accumulation."""

from collections.abc import Mapping

import numpy as np

from experts.case import Arrays, Case, Tensor, Workload
from experts.judge import Array, Expected, contraction_tolerance


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return {tensor.name: np.asarray(rng.standard_normal(tensor.shape, np.float32)) for tensor in case.inputs}


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows of A and columns of B of very different scale (1e-3 to 1e3), log-uniform magnitudes within, both signs.

    The wide range lies across outputs, not within one sum: a sum of few dominant terms would raise honest errors.
    """

    def draw(shape: tuple[int, ...], scales: tuple[int, ...]) -> Array:
        magnitude = 10.0 ** (rng.uniform(-1, 1, shape) + rng.uniform(-3, 3, scales))
        return np.asarray(magnitude * rng.choice([-1.0, 1.0], shape), np.float32)

    (m, k), (_, n) = (tensor.shape for tensor in case.inputs)
    return {"A": draw((m, k), (m, 1)), "B": draw((k, n), (1, n))}


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values, zeros among them, and whole constant columns of A."""
    a = rng.integers(-2, 3, case.inputs[0].shape).astype(np.float32)
    b = rng.integers(-2, 3, case.inputs[1].shape).astype(np.float32)
    a[:, rng.random(a.shape[1]) < 0.2] = 0.5
    return {"A": a, "B": b}


def _cancelling(rng: np.random.Generator, case: Case) -> Arrays:
    """Neighbouring products that nearly cancel, on top of a small rest; the last column stands alone where K is odd."""
    a = rng.standard_normal(case.inputs[0].shape, np.float32)
    b = rng.standard_normal(case.inputs[1].shape, np.float32)
    pairs = a.shape[1] // 2
    a[:, 1 : 2 * pairs : 2] = -a[:, 0 : 2 * pairs : 2]
    b[1 : 2 * pairs : 2] = b[0 : 2 * pairs : 2] * np.float32(1 + 2**-6)
    return {"A": a, "B": b}


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    a, b = inputs["A"], inputs["B"]
    # The magnitudes only scale the bound, so that fp32 is enough for them.
    magnitude = np.matmul(np.abs(a), np.abs(b)).astype(np.float64)
    value = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return {"C": Expected(value, contraction_tolerance(magnitude, case.dims["K"], "f32"))}


def _product(a: Array, b: Array) -> Arrays:
    return {"C": np.matmul(a.astype(np.float32), b.astype(np.float32))}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


WORKLOAD = Workload(
    name="gemm",
    dimensions=("M", "N", "K"),
    tensors={
        "f32": (
            Tensor("A", "f32", ("M", "K")),
            Tensor("B", "f32", ("K", "N")),
            Tensor("C", "f32", ("M", "N"), "out"),
        )
    },
    shapes={str(size): {"M": size, "N": size, "K": size} for size in (64, 128, 256, 512, 1024, 2048)},
    default={"opencl": "512-f32"},
    domain=("M % 64 == 0", "N % 64 == 0", "K % 64 == 0"),
    family=(
        {"M": 1, "N": 1, "K": 1},
        {"M": 1, "N": 64, "K": 300},
        {"M": 7, "N": 5, "K": 3},
        {"M": 31, "N": 67, "K": 13},
        {"M": 65, "N": 63, "K": 64},
        {"M": 128, "N": 64, "K": 1},
        {"M": 64, "N": 128, "K": 192},
        {"M": 192, "N": 320, "K": 64},
        {"M": 96, "N": 48, "K": 80},
        {"M": 257, "N": 129, "K": 127},
    ),
    sanitize={"M": 64, "N": 64, "K": 64},
    distributions={"normal": _normal, "log-uniform": _log_uniform, "ties": _ties, "cancelling": _cancelling},
    reference=_reference,
    one_below=lambda inputs, case: _product(_tf32(inputs["A"]), _tf32(inputs["B"])),
    honest=lambda inputs, case: _product(inputs["A"], inputs["B"]),
    operations="2 * M * N * K",
)
