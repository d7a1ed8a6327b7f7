"""Rows doubled: Y[R,N] = 2 X[R,N], so that a test's kernels are a few lines."""

import numpy as np

from experts.case import Tensor, Workload
from experts.judge import Expected


def _reference(inputs, case):
    value = 2 * inputs["X"].astype(np.float64)
    return {"Y": Expected(value, np.abs(value) * 2.0**-22)}


WORKLOAD = Workload(
    name="rows",
    dimensions=("R", "N"),
    tensors={"f32": (Tensor("X", "f32", ("R", "N")), Tensor("Y", "f32", ("R", "N"), "out"))},
    shapes={"64": {"R": 64, "N": 64}},
    default={"opencl": "64-f32"},
    domain=("N % 64 == 0",),
    family=({"R": 1, "N": 1}, {"R": 3, "N": 13}),
    sanitize={"R": 3, "N": 64},
    distributions={
        "normal": lambda rng, case: {"X": rng.standard_normal(case.inputs[0].shape, np.float32)},
        "wide": lambda rng, case: {"X": (10.0 ** rng.uniform(-3, 3, case.inputs[0].shape)).astype(np.float32)},
    },
    reference=_reference,
    one_below=lambda inputs, case: {"Y": (2 * inputs["X"].astype(np.float16)).astype(np.float32)},
    honest=lambda inputs, case: {"Y": 2 * inputs["X"]},
    operations="R * N",
)
