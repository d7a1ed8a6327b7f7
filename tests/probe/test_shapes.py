"""The family of shapes: the same every time, and a small budget sees all kinds of sizes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from experts import catalog
from experts.case import Case, Tensor
from tasks.probe.shapes import FULL, shapes
from tests.probe.kernels import case as rows_case

BUDGET = 40
"""Enough for three dimensions."""


def _cases() -> list[Case]:
    return [
        rows_case(),
        *(
            catalog.find(workload.name, "opencl", catalog.roots())
            for workload, _, _ in catalog.workloads(catalog.roots())
        ),
    ]


@pytest.fixture(params=_cases(), ids=lambda case: case.workload.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def _budget(case: Case) -> int:
    return BUDGET if len(case.dims) <= 3 else 56


def test_the_same_every_time_and_a_budget_is_its_first_part(case: Case) -> None:
    family = shapes(case)
    assert len(family) == len(set(family)) == FULL
    assert shapes(case) == family
    assert shapes(case, BUDGET) == family[:BUDGET]
    assert shapes(case, 1)[0].dims == case.workload.sanitize
    other = shapes(case, seed=1)
    assert other != family and other[:20] == family[:20]


def test_a_small_budget_sees_every_power_of_two_of_every_dimension(case: Case) -> None:
    base = case.workload.sanitize
    plain = [shape for shape in shapes(case, _budget(case)) if shape.tier == "default" and not shape.offsets]
    for name in case.workload.dimensions:
        alone = {s.dims[name] for s in plain if all(s.dims[o] == base[o] for o in base if o != name)}
        for unit in (1, 2, 4, 8, 16):
            assert any(size % unit == 0 and size % (2 * unit) for size in alone), (name, unit)
        assert any(size % 32 == 0 for size in alone)
        assert any(size > base[name] for size in alone)
        assert base[name] == 1 or any(size < base[name] for size in alone)
        assert max(shape.dims[name] for shape in plain) >= 512
    assert any(all(shape.dims[name] == base[name] + 1 for name in base) for shape in plain)


def test_a_small_budget_moves_every_tensor_and_asks_the_sanitizer(case: Case) -> None:
    some = shapes(case, _budget(case))
    moved = {(shape.offset_tensor, shape.offset_bytes) for shape in some if shape.offsets}
    assert moved >= set(product([tensor.name for tensor in case.tensors], (4, 16, 32)))
    assert {shape.tier for shape in shapes(case) if shape.offsets} == {"sanitize"}
    simulated = [shape for shape in some if shape.tier == "sanitize" and not shape.offsets]
    # One dimension has fewer plain shapes, so that more of the budget is left.
    assert 3 <= len(simulated) <= (6 if len(case.dims) > 1 else 8)
    base = case.workload.sanitize
    assert any(shape.dims[name] >= 8 * base[name] for shape in simulated for name in base)


def test_shapes_are_small(case: Case) -> None:
    base = case.workload.sanitize
    for shape in shapes(case):
        bound = case.at(shape.dims)
        assert bound.mandatory_operations <= 10_000_000
        assert sum(tensor.nbytes for tensor in bound.tensors) <= 1 << 20
        assert all(min(tensor.shape) >= 1 for tensor in bound.tensors)
        large = [name for name, size in shape.dims.items() if size > max(1024, 8 * base[name])]
        assert len(large) <= 1
        assert all(shape.dims[name] <= base[name] for name in base if large and name not in large)


def test_a_tensor_without_elements_is_no_shape() -> None:
    case = rows_case()
    halved = replace(case.workload, tensors={"f32": (Tensor("X", "f32", ("R", "N // 2"), "inout"),)})
    family = shapes(Case(halved, "64", "f32", case.dims, ""))
    assert len(family) == FULL
    assert min(shape.dims["N"] for shape in family) == 2


def test_a_tensor_is_moved_by_whole_elements() -> None:
    case = rows_case()
    doubles = replace(case.workload, tensors={"f64": (Tensor("X", "f64", ("R", "N"), "inout"),)})
    moved = {shape.offset_bytes for shape in shapes(Case(doubles, "64", "f64", case.dims, "")) if shape.offsets}
    assert moved == {8, 16, 32}
