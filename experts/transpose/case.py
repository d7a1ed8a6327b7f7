"""Transpose: B[N,M] = A[M,N] transposed, row-major; fp32, fp16 or bf16. Nothing is computed, so that it is exact."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from experts.case import NUMPY_TYPES, Arrays, Case, Tensor, Workload
from experts.judge import Array, Expected
from experts.kernel import Dtype

BELOW = {
    "f32": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(ml_dtypes.float8_e5m2),
    "bf16": np.dtype(ml_dtypes.float8_e5m2),
}
"""A shorter type of a similar range, by dtype."""


def _typed(array: Array, case: Case) -> Arrays:
    return {"A": array.astype(NUMPY_TYPES[case.inputs[0].dtype])}


def _normal(rng: np.random.Generator, case: Case) -> Arrays:
    return _typed(rng.standard_normal(case.inputs[0].shape, np.float32), case)


def _log_uniform(rng: np.random.Generator, case: Case) -> Arrays:
    """Magnitudes from 1e-3 to 1e3, both signs."""
    shape = case.inputs[0].shape
    return _typed(10.0 ** rng.uniform(-3, 3, shape) * rng.choice([-1.0, 1.0], shape), case)


def _ties(rng: np.random.Generator, case: Case) -> Arrays:
    """Few distinct values: most exchanged elements are equal, and the others still show."""
    return _typed(rng.integers(-2, 3, case.inputs[0].shape), case)


def _places(rng: np.random.Generator, case: Case) -> Arrays:
    """Elements that count rows or columns, by chance: whole rows of equal numbers, and whole columns."""
    rows, columns = case.inputs[0].shape
    row, column = np.arange(rows)[:, None] % 251, np.arange(columns)[None, :] % 241
    return _typed(np.where(rng.random((rows, 1)) < 0.5, row + 0 * column, 0 * row - column), case)


def _reference(inputs: Mapping[str, Array], case: Case) -> dict[str, Expected]:
    value = np.ascontiguousarray(inputs["A"].T, np.float64)
    return {"B": Expected(value, np.zeros_like(value))}


def _one_below(inputs: Mapping[str, Array], case: Case) -> Arrays:
    a = inputs["A"]
    return {"B": a.astype(BELOW[case.dtype]).astype(a.dtype).T}


def _tensors(dtype: Dtype) -> tuple[Tensor, ...]:
    return Tensor("A", dtype, ("M", "N")), Tensor("B", dtype, ("N", "M"), "out")


WORKLOAD = Workload(
    name="transpose",
    dimensions=("M", "N"),
    tensors={"f32": _tensors("f32"), "f16": _tensors("f16"), "bf16": _tensors("bf16")},
    shapes={
        "64": {"M": 64, "N": 64},
        "256": {"M": 256, "N": 256},
        "1024": {"M": 1024, "N": 1024},
        "2048x512": {"M": 2048, "N": 512},
        "2048": {"M": 2048, "N": 2048},
        "4096": {"M": 4096, "N": 4096},
        "8192": {"M": 8192, "N": 8192},
    },
    default={"opencl": "1024-f32", "cuda": "4096-f32"},
    domain=("M % 64 == 0", "N % 64 == 0"),
    family=(
        {"M": 1, "N": 1},
        {"M": 1, "N": 64},
        {"M": 64, "N": 1},
        {"M": 7, "N": 5},
        {"M": 31, "N": 67},
        {"M": 65, "N": 63},
        {"M": 64, "N": 192},
        {"M": 320, "N": 64},
        {"M": 96, "N": 48},
        {"M": 257, "N": 127},
        {"M": 1000, "N": 33},
    ),
    sanitize={"M": 64, "N": 64},
    distributions={"normal": _normal, "log-uniform": _log_uniform, "ties": _ties, "places": _places},
    reference=_reference,
    one_below=_one_below,
    honest=lambda inputs, case: {"B": inputs["A"].T},
    operations="0",
    bitwise=True,
)
