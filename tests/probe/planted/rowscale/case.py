"""rowscale: Y[R,N] = 2 X[R,N] + B[R], fp32: a workload for kernels with a known precondition."""

import numpy as np

from experts.case import Tensor, Workload
from experts.judge import UNIT_ROUNDOFF, Expected


def _normal(rng, case):
    return {tensor.name: rng.standard_normal(tensor.shape, np.float32) for tensor in case.inputs}


def _reference(inputs, case):
    x, b = inputs["X"].astype(np.float64), inputs["B"].astype(np.float64)[:, None]
    # A doubling, which is exact, and a sum that is rounded once.
    return {"Y": Expected(2 * x + b, 16 * UNIT_ROUNDOFF["f32"] * (np.abs(2 * x) + np.abs(b)) + 2.0**-126)}


def _rowscale(x, b):
    return {"Y": 2 * x + b[:, None]}


def _half(array):
    return array.astype(np.float16).astype(np.float32)


WORKLOAD = Workload(
    name="rowscale",
    dimensions=("R", "N"),
    tensors={
        "f32": (Tensor("X", "f32", ("R", "N")), Tensor("B", "f32", ("R",)), Tensor("Y", "f32", ("R", "N"), "out"))
    },
    shapes={"small": {"R": 16, "N": 128}},
    default={"opencl": "small-f32"},
    domain=("R % 16 == 0", "N % 64 == 0"),
    family=({"R": 1, "N": 1}, {"R": 7, "N": 65}),
    sanitize={"R": 16, "N": 64},
    distributions={"normal": _normal},
    reference=_reference,
    honest=lambda inputs, case: _rowscale(inputs["X"], inputs["B"]),
    one_below=lambda inputs, case: _rowscale(_half(inputs["X"]), _half(inputs["B"])),
    operations="2 * R * N",
)
