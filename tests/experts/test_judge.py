"""Judges: tolerance, classes, and a GEMM that is right or wrong in one element."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from experts.case import Case, bind
from experts.gemm.case import WORKLOAD
from experts.judge import RHO_BOUND, UNIT_ROUNDOFF, Expected, contraction_tolerance, largest_finite, within

INF, NAN = math.inf, math.nan


def _expected(value: list[float], tolerance: float | list[float] = 0.0) -> dict[str, Expected]:
    array = np.array(value, np.float64)
    return {"C": Expected(array, np.broadcast_to(np.asarray(tolerance, np.float64), array.shape))}


def _output(value: list[float], dtype: type = np.float32) -> dict[str, NDArray[np.generic]]:
    with np.errstate(over="ignore"):
        return {"C": np.array(value, dtype)}


@pytest.mark.parametrize(
    ("output", "expected", "tolerance", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.5, 0.0),
        ([1.25, 2.0], [1.0, 2.0], 0.5, 0.5),
        ([1.5, 2.0], [1.0, 2.0], 0.5, 1.0),
        ([0.5, 2.0], [1.0, 2.0], 0.5, 1.0),
        ([1.0, 3.0], [1.0, 2.0], 0.5, 2.0),
        ([1.5, 2.5], [1.0, 2.0], [1.0, 0.25], 2.0),
        # Zero tolerance: equal or infinitely wrong; -0 is 0.
        ([1.0], [1.0], 0.0, 0.0),
        ([-0.0], [0.0], 0.0, 0.0),
        ([1.0000001], [1.0], 0.0, INF),
        # Classes, position by position.
        ([NAN], [NAN], 0.0, 0.0),
        ([INF, -INF], [INF, -INF], 0.0, 0.0),
        ([1.0], [NAN], 1e30, INF),
        ([NAN], [1.0], 1e30, INF),
        ([NAN], [INF], INF, INF),
        ([INF], [NAN], INF, INF),
        ([NAN, 1.0], [1.0, NAN], INF, INF),
        # What rounds to infinity in fp32.
        ([INF], [1e39], 1e30, 0.0),
        ([-INF], [-1e39], 1e30, 0.0),
        ([-INF], [1e39], 1e30, INF),
        ([INF], [3.0e38], 1e39, INF),
        ([0.0], [1e-60], 1e-50, 1e-10),
        # A bound that is no number admits nothing but equality.
        ([1.5], [1.0], NAN, INF),
    ],
)
def test_elements(output: list[float], expected: list[float], tolerance: float | list[float], error: float) -> None:
    found = within(_output(output), _expected(expected, tolerance))
    assert found.error == pytest.approx(error)
    assert found.correct is (error <= 1)


@pytest.mark.parametrize(
    ("output", "expected", "tolerance"), [(INF, 1.0, INF), (1.0, INF, INF), (-INF, INF, INF), (3.0e38, 1e39, 1e39)]
)
def test_classes_differ_however_wide_the_bound(output: float, expected: float, tolerance: float) -> None:
    found = within(_output([output]), _expected([expected], tolerance))
    assert found.error == INF and not found.correct


def test_overflow_is_judged_in_the_outputs_type() -> None:
    assert within(_output([INF], np.float16), _expected([70000.0], 1.0)).correct
    assert not within(_output([INF], np.float32), _expected([70000.0], 1.0)).correct


def test_the_worst_element_is_named() -> None:
    value = np.arange(6, dtype=np.float64).reshape(2, 3)
    output = value.astype(np.float32)
    output[1, 2] = 5.5
    found = within({"C": output}, {"C": Expected(value, np.full((2, 3), 0.25))})
    assert (found.correct, found.error) == (False, 2.0)
    assert found.worst == "C[1,2] is 5.5, expected 5 within 0.25"


def test_the_worst_of_several_outputs() -> None:
    expected = {"C": _expected([1.0], 1.0)["C"], "D": _expected([1.0], 1.0)["C"]}
    found = within({"C": np.float32([1.5]), "D": np.float32([3.0])}, expected)
    assert found.error == 2.0 and found.worst is not None and found.worst.startswith("D[0] ")


def test_an_empty_output_is_right() -> None:
    found = within({"C": np.zeros((0, 3), np.float32)}, {"C": Expected(np.zeros((0, 3)), np.zeros((0, 3)))})
    assert (found.correct, found.error, found.worst) == (True, 0.0, None)


def test_integers_are_judged_exactly() -> None:
    expected = {"C": Expected(np.array([3.0, -4.0]), np.zeros(2))}
    assert within({"C": np.array([3, -4], np.int32)}, expected).correct
    assert not within({"C": np.array([3, -5], np.int32)}, expected).correct


@pytest.mark.parametrize("shape", [(2,), (1, 1), (0,), (3, 1)])
def test_another_shape_is_a_value_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        within({"C": np.ones(shape, np.float32)}, _expected([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("dtype", sorted(UNIT_ROUNDOFF))
def test_the_tolerance_of_a_contraction_grows_with_its_terms(dtype: str) -> None:
    magnitude = np.array([0.0, 1.0, 4.0])
    found = contraction_tolerance(magnitude, 8, dtype)
    assert found[0] > 0
    assert found[2] - found[0] == pytest.approx(4 * (found[1] - found[0]))
    assert found[1] == pytest.approx(RHO_BOUND * UNIT_ROUNDOFF[dtype], rel=0.5)


def _gemm(m: int, n: int, k: int) -> Case:
    return bind(WORKLOAD, f"M={m},N={n},K={k}-f32", "opencl", "")


def _problem(case: Case, seed: int, distribution: str = "normal"):  # type: ignore[no-untyped-def]
    inputs = case.draw(np.random.default_rng(seed), distribution)
    return inputs["A"], inputs["B"], WORKLOAD.reference(inputs, case)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 60),
    st.sampled_from(list(WORKLOAD.distributions)),
    st.integers(0, 1000),
    st.data(),
)
def test_a_single_wrong_element_is_found(
    m: int, n: int, k: int, distribution: str, seed: int, data: st.DataObject
) -> None:
    a, b, expected = _problem(_gemm(m, n, k), seed, distribution)
    right = (a @ b).astype(np.float32)
    assert within({"C": right}, expected).correct
    row, column = data.draw(st.integers(0, m - 1)), data.draw(st.integers(0, n - 1))
    wrong = right.copy()
    wrong[row, column] += np.float32(2.1 * expected["C"].tolerance[row, column])
    found = within({"C": wrong}, expected)
    assert not found.correct
    assert found.worst is not None and found.worst.startswith(f"C[{row},{column}] ")


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 30), st.integers(2, 30), st.integers(2, 50), st.integers(0, 1000), st.data())
def test_a_dropped_product_is_found(m: int, n: int, k: int, seed: int, data: st.DataObject) -> None:
    a, b, expected = _problem(_gemm(m, n, k), seed)
    row, column, at = (data.draw(st.integers(0, size - 1)) for size in (m, n, k))
    wrong = a.astype(np.float64) @ b
    dropped = float(a[row, at]) * float(b[at, column])
    wrong[row, column] -= dropped
    # On N(0, 1) a product is rarely so small that the bound cannot see it.
    assume(abs(dropped) > 1.1 * expected["C"].tolerance[row, column])
    assert not within({"C": wrong.astype(np.float32)}, expected).correct


@pytest.mark.parametrize("size", [64, 192, 512])
def test_tf32_inputs_fail(size: int) -> None:
    case = _gemm(size, size, size)
    a, b, expected = _problem(case, 1)
    found = within(WORKLOAD.one_below({"A": a, "B": b}, case), expected)
    assert found.error >= 4


@pytest.mark.parametrize("distribution", list(WORKLOAD.distributions))
@pytest.mark.parametrize("k", [1, 3, 127, 1000])
def test_reordered_and_split_sums_pass(k: int, distribution: str) -> None:
    a, b, expected = _problem(_gemm(17, 13, k), 5, distribution)
    products = a[:, :, None] * b[None, :, :]
    order = np.random.default_rng(0).permutation(k)
    sums = {
        "one after another": products.cumsum(axis=1, dtype=np.float32)[:, -1],
        "backward": products[:, ::-1].cumsum(axis=1, dtype=np.float32)[:, -1],
        "shuffled": products[:, order].cumsum(axis=1, dtype=np.float32)[:, -1],
        "split by four": sum(
            (products[:, start::4].cumsum(axis=1, dtype=np.float32)[:, -1] for start in range(min(4, k))),
            np.zeros((17, 13), np.float32),
        ),
        "pairwise": products.sum(axis=1, dtype=np.float32),
    }
    for name, output in sums.items():
        found = within({"C": output}, expected)
        assert found.error <= 1 / 8, name


@pytest.mark.parametrize(
    ("output", "expected", "tolerance", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, 0.0),
        ([1.0078125, 2.0], [1.0, 2.0], 2.0**-6, 0.5),
        ([NAN, INF, 0.0], [NAN, INF, 0.0], 0.0, 0.0),
        ([NAN], [1.0], 1e30, INF),
        # What rounds to infinity in bf16 is finite in fp32: 3.39e38 is the largest bf16.
        ([INF], [3.4e38], 1e30, 0.0),
        ([-INF], [3.4e38], 1e30, INF),
        ([INF], [3.3e38], 1e39, INF),
    ],
)
def test_bf16_outputs(output: list[float], expected: list[float], tolerance: float, error: float) -> None:
    with np.errstate(over="ignore"):
        found = within({"C": np.array(output).astype(ml_dtypes.bfloat16)}, _expected(expected, tolerance))
    assert found.error == error
    assert found.correct is (error <= 1)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (np.float64, 1.7976931348623157e308),
        (np.float32, 3.4028234663852886e38),
        (np.float16, 65504.0),
        (ml_dtypes.bfloat16, 3.3895313892515355e38),
        (np.int32, INF),
        (np.uint8, INF),
    ],
)
def test_largest_finite(dtype: type, largest: float) -> None:
    assert largest_finite(np.dtype(dtype)) == largest
