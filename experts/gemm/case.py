"""GEMM: C[M,N] = A[M,K] B[K,N], row-major, fp32 accumulation; fp32 in and out, or bf16 in and out.

The bound. With fp32 outputs it is that of a contraction in fp32. With bf16 outputs each element is rounded once more,
to within 2^-8 |C|, which is most of an honest kernel's error; eight times that, added to the contraction's bound,
leaves an honest kernel at an eighth of it at most. What loses precision earlier is still seen where terms cancel: there
|C| is small, and what is left is the contraction's bound, 64 units of 2^-24 times the norms of the row and the column.
Sums that are kept in bf16 or fp16, and inputs of 8 bits, are a hundred times that.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from experts.case import NUMPY_TYPES, Arrays, Case, Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Array, Expected, contraction_tolerance
from experts.kernel import Dtype

ROUNDING_BOUND = 8.0
"""In units of the rounding of a bf16 output, of which a correctly rounded product has one at most."""
TILE = 16
"""Products that matrix instructions add before a sum is rounded to bf16, in what is one precision too low."""


def _typed(arrays: Arrays, case: Case) -> Arrays:
    """Rounded to the types of the case's tensors."""
    return {tensor.name: arrays[tensor.name].astype(NUMPY_TYPES[tensor.dtype], copy=False) for tensor in case.inputs}


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return _typed({t.name: np.asarray(rng.standard_normal(t.shape, np.float32)) for t in case.inputs}, case)


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Rows of A and columns of B of very different scale (1e-3 to 1e3), log-uniform magnitudes within, both signs.

    The wide range lies across outputs, not within one sum: a sum of few dominant terms would raise honest errors.
    """

    def draw(shape: tuple[int, ...], scales: tuple[int, ...]) -> Array:
        magnitude = 10.0 ** (rng.uniform(-1, 1, shape) + rng.uniform(-3, 3, scales))
        return np.asarray(magnitude * rng.choice([-1.0, 1.0], shape), np.float32)

    (m, k), (_, n) = (tensor.shape for tensor in case.inputs)
    return _typed({"A": draw((m, k), (m, 1)), "B": draw((k, n), (1, n))}, case)


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values, zeros among them, and whole constant columns of A."""
    a = rng.integers(-2, 3, case.inputs[0].shape).astype(np.float32)
    b = rng.integers(-2, 3, case.inputs[1].shape).astype(np.float32)
    a[:, rng.random(a.shape[1]) < 0.2] = 0.5
    return _typed({"A": a, "B": b}, case)


def _cancelling(rng: np.random.Generator, case: Case) -> Arrays:
    """Neighbouring products that nearly cancel, on top of a small rest; the last column stands alone where K is odd."""
    a = rng.standard_normal(case.inputs[0].shape, np.float32)
    b = rng.standard_normal(case.inputs[1].shape, np.float32)
    pairs = a.shape[1] // 2
    a[:, 1 : 2 * pairs : 2] = -a[:, 0 : 2 * pairs : 2]
    b[1 : 2 * pairs : 2] = b[0 : 2 * pairs : 2] * np.float32(1 + 2**-6)
    return _typed({"A": a, "B": b}, case)


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    a, b = inputs["A"], inputs["B"]
    value = np.matmul(a.astype(np.float64), b.astype(np.float64))
    if case.dtype == "bf16":
        tolerance = np.abs(value)
        tolerance *= ROUNDING_BOUND * UNIT_ROUNDOFF["bf16"]
        tolerance += contraction_tolerance(_norms(a, 1) * _norms(b, 0), case.dims["K"], "f32")
        return {"C": Expected(value, tolerance)}
    # The magnitudes only scale the bound, so that fp32 is enough for them.
    magnitude = np.matmul(np.abs(a), np.abs(b)).astype(np.float64)
    return {"C": Expected(value, contraction_tolerance(magnitude, case.dims["K"], "f32"))}


def _norms(array: Array, axis: int) -> NDArray[np.float64]:
    """Euclidean norms of rows or columns; their products bound |A||B|, and cost no second product of matrices."""
    squares = np.square(array.astype(np.float32)).sum(axis, dtype=np.float64, keepdims=True)
    norms: NDArray[np.float64] = np.sqrt(squares)
    return norms


def _product(a: Array, b: Array) -> NDArray[np.float32]:
    product: NDArray[np.float32] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return product


def _honest(inputs: Mapping[str, Array], case: Case) -> Arrays:
    return {"C": _product(inputs["A"], inputs["B"]).astype(NUMPY_TYPES[case.outputs[0].dtype])}


def _one_below(inputs: Mapping[str, Array], case: Case) -> Arrays:
    """fp32: inputs of tf32. bf16: sums that are kept in bf16 between matrix instructions."""
    a, b = inputs["A"], inputs["B"]
    if case.dtype == "f32":
        return {"C": _product(_tf32(a), _tf32(b))}
    c = np.zeros(case.outputs[0].shape, a.dtype)
    for k in range(0, case.dims["K"], TILE):
        c = (c.astype(np.float32) + _product(a[:, k : k + TILE], b[k : k + TILE])).astype(a.dtype)
    return {"C": c}


def _tf32(array: Array) -> Array:
    """Round to 10 mantissa bits, to nearest even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFFE000)).view(np.float32)


def _tensors(dtype: Dtype) -> tuple[Tensor, ...]:
    return Tensor("A", dtype, ("M", "K")), Tensor("B", dtype, ("K", "N")), Tensor("C", dtype, ("M", "N"), "out")


WORKLOAD = Workload(
    name="gemm",
    dimensions=("M", "N", "K"),
    tensors={"f32": _tensors("f32"), "bf16": _tensors("bf16")},
    shapes={str(size): {"M": size, "N": size, "K": size} for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192)},
    default={"opencl": "512-f32", "cuda": "4096-bf16"},
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
    one_below=_one_below,
    honest=_honest,
    operations="2 * M * N * K",
)
