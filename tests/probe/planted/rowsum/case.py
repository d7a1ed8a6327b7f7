"""rowsum: S[R] = the sums of the rows of X[R,N], fp32: a workload for kernels with a known precondition."""

import numpy as np

from experts.case import Tensor, Workload
from experts.judge import Expected, contraction_tolerance


def _normal(rng, case):
    return {tensor.name: rng.standard_normal(tensor.shape, np.float32) for tensor in case.inputs}


def _reference(inputs, case):
    x = inputs["X"].astype(np.float64)
    magnitude = np.abs(x).sum(axis=1)
    return {"S": Expected(x.sum(axis=1), contraction_tolerance(magnitude, case.dims["N"], "f32") + 2.0**-126)}


def _half(array):
    return array.astype(np.float16).astype(np.float32)


WORKLOAD = Workload(
    name="rowsum",
    dimensions=("R", "N"),
    tensors={"f32": (Tensor("X", "f32", ("R", "N")), Tensor("S", "f32", ("R",), "out"))},
    shapes={"small": {"R": 16, "N": 128}},
    default={"opencl": "small-f32"},
    domain=("R % 16 == 0", "N % 64 == 0"),
    family=({"R": 1, "N": 1}, {"R": 7, "N": 65}),
    sanitize={"R": 16, "N": 64},
    distributions={"normal": _normal},
    reference=_reference,
    honest=lambda inputs, case: {"S": inputs["X"].sum(axis=1, dtype=np.float32)},
    one_below=lambda inputs, case: {"S": _half(inputs["X"]).sum(axis=1, dtype=np.float32)},
    operations="R * N",
)
