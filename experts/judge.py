"""Library judges: from a float64 reference with a tolerance for each element to one judgement.

A reference gives, for each output, `Expected(value, tolerance)`. The tolerance is absolute and scaled by the problem,
never by the result: for a contraction it is `RHO_BOUND` times the unit roundoff times |A||B| (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.5). NaN and infinities must match class by class, position by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

UNIT_ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""By accumulation type; round to nearest."""

RHO_BOUND = 64.0
"""On N(0, 1) an honest fp32 contraction stays below 4; tf32 and fp16 inputs land at 488 or more (K up to 4096)."""

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Expected:
    """What one output should be. Both arrays have the output's shape and are float64."""

    value: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    """Largest allowed absolute error, element by element."""


@dataclass(frozen=True)
class Judgement:
    """Whether outputs are right, and how far off the worst element is."""

    correct: bool
    error: float
    """The largest error as a share of its bound; infinite where a class (finite, NaN, infinity) differs."""
    worst: str | None
    """The worst element in words: `C[3,7] is 1.5, expected 2.25 within 3e-06`."""


def within(outputs: Mapping[str, Array], expected: Mapping[str, Expected]) -> Judgement:
    """Every element of every output within its tolerance of the reference.

    Raises ValueError where an output is missing or of another shape: the caller owns the buffers.
    """
    error, worst = 0.0, None
    for name, target in expected.items():
        output = outputs[name]
        if output.shape != target.value.shape:
            raise ValueError(f"output {name} has shape {output.shape}, the reference {target.value.shape}")
        share = _share(output, target)
        if share.size == 0:
            continue
        at = int(np.argmax(share))
        if share.flat[at] > error or worst is None:
            error = float(share.flat[at])
            worst = _worst(name, output, target, at)
    return Judgement(error <= 1.0, error, worst)


def contraction_tolerance(magnitude: NDArray[np.float64], length: int, accumulate: str) -> NDArray[np.float64]:
    """Tolerance of a contraction whose absolute values sum to `magnitude` over `length` products.

    The second term lets products and sums below the normal range flush to zero.
    """
    tiny = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}[accumulate]
    return RHO_BOUND * UNIT_ROUNDOFF[accumulate] * magnitude + length * tiny


def largest_finite(dtype: np.dtype[np.generic]) -> float:
    """The largest finite number of a floating type, bf16 included; infinity for integers, which have no infinity."""
    # NumPy counts the types of ml_dtypes as neither floating nor integer.
    return np.inf if dtype.kind in "iub" else float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _share(output: Array, target: Expected) -> NDArray[np.float64]:
    """Error of each element as a share of its tolerance; infinite where a class differs."""
    value, tolerance = target.value, target.tolerance
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        out = output.astype(np.float64)
        difference = np.subtract(out, value)
        np.abs(difference, out=difference)
        representable = np.abs(value).max(initial=0.0) <= largest_finite(output.dtype)
        if representable and np.isfinite(out).all() and (difference <= tolerance).all():
            # The common case: all finite and right. Zero error within a tolerance of zero is no error.
            return np.divide(difference, tolerance, out=difference, where=tolerance > 0)
        share = np.where(difference == 0, 0.0, difference / tolerance)
        # Where the true value rounds to infinity in the output's type, infinity is the right class.
        rounded = value.astype(output.dtype).astype(np.float64)
    special = ~np.isfinite(rounded) | ~np.isfinite(out)
    if special.any():
        same = (np.isnan(out) & np.isnan(rounded)) | (out == rounded)
        share = np.where(special, np.where(same, 0.0, np.inf), share)
    return np.where(np.isnan(share), np.inf, share)


def _worst(name: str, output: Array, target: Expected, at: int) -> str:
    place = ",".join(str(index) for index in np.unravel_index(at, output.shape))
    return (
        f"{name}[{place}] is {float(output.flat[at]):.9g}, expected {float(target.value.flat[at]):.9g} "
        f"within {float(target.tolerance.flat[at]):.3g}"
    )
