"""A kernel bound to a case: names, geometry, limits, and the minimal domain."""
# ruff: noqa: E501 (tables with one case a line)

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from experts.case import Case, Parameter, bind
from experts.gemm.case import WORKLOAD
from experts.kernel import Kernel, parse
from experts.platform import named
from experts.verdict import Status
from tasks.gate.launches import Argument, Limits, Plan, accepts, check_names, domain_shapes, plan, symbols
from tasks.gate.runner import Settings, _accept, _Course
from tasks.gate.workers import Rejected

CASE = bind(WORKLOAD, "M=96,N=48,K=80-f32", "opencl", "")
LIMITS = Limits(compute_units=4, max_group=1024, max_items=(1024, 1024, 64), local_bytes=1 << 15, alloc_bytes=1 << 30)


def _kernel(head: str = "", launch: str = "", **fields: str) -> Kernel:
    default = {"entry": '"gemm"', "grid": "[1]", "block": "[1]", "args": '["A", "B", "C", "M", "N", "K"]'}
    lines = "\n".join(f"{key} = {value}" for key, value in {**default, **fields}.items())
    text = f'/* klineage\nformat = 1\nworkload = "gemm"\n{head}\n[[launch]]\n{lines}\n{launch}\n*/\n'
    return parse(text, surface="opencl")


def _plan(kernel: Kernel, case: Case = CASE, limits: Limits = LIMITS) -> Plan:
    check_names(kernel, case)
    return plan(kernel, case, limits, 1)


def _rejection(kernel: Kernel, case: Case = CASE, limits: Limits = LIMITS) -> tuple[Status, str]:
    with pytest.raises(Rejected) as caught:
        _plan(kernel, case, limits)
    assert len(caught.value.reason.splitlines()) == 1
    return caught.value.status, caught.value.reason


def test_a_plan_has_numbers() -> None:
    found = _plan(
        _kernel(
            '[const]\nT = 7\n[workspace]\nw = { dtype = "f16", shape = ["K", "up(N, T)"], zero = true }\n'
            'v = { dtype = "f64", shape = ["SMS"] }',
            grid='["cdiv(M, T)", "cdiv(N, 32)"]',
            block='["T", 2, "WARP"]',
            args='["w", "C", "K", "B", "v"]',
        )
    )
    assert found.workspace == {"w": 80 * 49 * 2, "v": 4 * 8}
    assert found.zero == ("w",)
    (launch,) = found.launches
    assert (launch.grid, launch.block) == ((14, 2, 1), (7, 2, 1))
    assert launch.args == (
        Argument("buffer", "w", "f16"),
        Argument("buffer", "C", "f32"),
        Argument("scalar", "K", "i32", 80),
        Argument("buffer", "B", "f32"),
        Argument("buffer", "v", "f64"),
    )


def test_launches_stay_in_order() -> None:
    second = '[[launch]]\nentry = "after"\ngrid = [2]\nblock = [3]\nargs = []'
    found = _plan(_kernel(launch=second))
    assert [(launch.entry, launch.grid[0], launch.block[0]) for launch in found.launches] == [
        ("gemm", 1, 1),
        ("after", 2, 3),
    ]


def test_scalars_of_the_case_are_passed_and_seen() -> None:
    case = bind(
        replace(WORKLOAD, scalars=(Parameter("alpha", "f32", 0.5), Parameter("axis", "i64", 2))), "64-f32", "opencl", ""
    )
    found = _plan(_kernel(grid='["axis * 3"]', args='["alpha", "axis"]'), case)
    assert found.launches[0].args == (Argument("scalar", "alpha", "f32", 0.5), Argument("scalar", "axis", "i64", 2))
    assert found.launches[0].grid == (6, 1, 1)


NAMES = {
    "other workload": ({"head": ""}, "conv2d", "the kernel is for workload 'conv2d', the case is gemm/"),
    "const is a tensor": ({"head": "[const]\nA = 1"}, None, "[const] 'A' is a name of the case"),
    "const is a dimension": ({"head": "[const]\nM = 1"}, None, "[const] 'M' is a name of the case"),
    "workspace is a tensor": ({"head": '[workspace]\nC = {dtype="f32",shape=[1]}'}, None, "[workspace] 'C' is a name of the case"),
    "unknown in grid": ({"grid": '["cdiv(M, TM)"]'}, None, "launch[0].grid: unknown name 'TM' in 'cdiv(M, TM)'; known: K, M, N, SMS, WARP"),
    "unknown in block": ({"block": '["m"]'}, None, "launch[0].block: unknown name 'm'"),
    "tensor in grid": ({"grid": '["A"]'}, None, "launch[0].grid: unknown name 'A'"),
    "unknown in require": ({"head": '[require]\nr = "Q == 1"'}, None, "require.r: unknown name 'Q'"),
    "unknown in shape": ({"head": '[workspace]\nw = {dtype="f32",shape=["Q"]}'}, None, "workspace.w.shape: unknown name 'Q'"),
    "unknown argument": ({"args": '["A", "b"]'}, None, "launch[0].args: unknown name 'b'; known: A, B, C, K, M, N"),
    "const as argument": ({"head": "[const]\nT = 1", "args": '["T"]'}, None, "launch[0].args: unknown name 'T'"),
    "SMS as argument": ({"args": '["SMS"]'}, None, "launch[0].args: unknown name 'SMS'"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_do_not_fit(name: str) -> None:
    fields, workload, message = NAMES[name]
    kernel = _kernel(**fields)
    if workload:
        kernel = parse(kernel.text.replace('"gemm"', f'"{workload}"', 1), surface="opencl")
    status, reason = _rejection(kernel)
    assert status is Status.INVALID_KERNEL and message in reason


GEOMETRY: dict[str, tuple[dict[str, str], Status, str]] = {
    "grid 0": ({"grid": '["M // 100"]'}, Status.INVALID_KERNEL, "launch[0]: grid [0, 1, 1] of blocks [1, 1, 1] at gemm/M=96"),
    "grid -1": ({"grid": '["M - 97"]'}, Status.INVALID_KERNEL, "launch[0]: grid [-1, 1, 1]"),
    "block 0": ({"block": "[0]"}, Status.INVALID_KERNEL, "blocks [0, 1, 1]"),
    "two negatives": ({"grid": "[-1, -1]"}, Status.INVALID_KERNEL, "grid [-1, -1, 1]"),
    "division": ({"grid": '["M // (N - 48)"]'}, Status.INVALID_KERNEL, "launch[0].grid: division by zero in 'M // (N - 48)'"),
    "64 bits": ({"grid": '["M * 9223372036854775807"]'}, Status.INVALID_KERNEL, "launch[0].grid: a value beyond 64 bits"),
    "shape 0": ({"head": '[workspace]\nw = {dtype="f32",shape=["M - 96"]}'}, Status.INVALID_KERNEL, "workspace.w: shape [0] at gemm/"),
    "negative shape": ({"head": '[workspace]\nw = {dtype="f32",shape=[-4, -4]}'}, Status.INVALID_KERNEL, "workspace.w: shape [-4, -4]"),
    "block items": ({"block": "[32, 33]"}, Status.RESOURCE_LIMIT, "launch[0]: block [32, 33, 1] is 1056 work-items; the device allows 1024"),
    "block axis": ({"block": "[1, 1, 65]"}, Status.RESOURCE_LIMIT, "launch[0]: block [1, 1, 65]"),
    "groups": ({"grid": "[65536, 65536]"}, Status.RESOURCE_LIMIT, "beyond the work budget"),
    "items": ({"grid": "[67108865]", "block": "[1024]"}, Status.RESOURCE_LIMIT, "beyond the work budget"),
    "workspace": ({"head": '[workspace]\nw = {dtype="f64",shape=[134217729]}'}, Status.RESOURCE_LIMIT, "workspace of 1073741832 bytes; the device allows 1073741824"),
    "petabytes": ({"head": '[workspace]\nw = {dtype="f64",shape=[4611686018427387904, 4611686018427387904]}'}, Status.RESOURCE_LIMIT, "the device allows"),
}  # fmt: skip


@pytest.mark.parametrize("name", GEOMETRY)
def test_geometry_that_does_not_fit(name: str) -> None:
    fields, status, message = GEOMETRY[name]
    found, reason = _rejection(_kernel(**fields))
    assert found is status and message in reason


def test_the_limits_themselves_are_allowed() -> None:
    found = _plan(
        _kernel('[workspace]\nw = {dtype="f64",shape=[134217728]}', grid="[67108864]", block="[1024]", args='["w"]')
    )
    assert found.workspace == {"w": 1 << 30}


def test_workspaces_count_together() -> None:
    head = "[workspace]\n" + "".join(f'w{number} = {{dtype="f64",shape=[134217728]}}\n' for number in range(64))
    status, _ = _rejection(_kernel(head))
    assert status is Status.RESOURCE_LIMIT


def _accepts(require: str, dims: str = "M=96,N=48,K=80-f32") -> str | None:
    case = bind(WORKLOAD, dims, "opencl", "")
    kernel = _kernel(f'[require]\nfirst = "M > 0"\nsecond = "{require}"')
    check_names(kernel, case)
    return accepts(kernel, symbols(kernel, case, 4, 1))


@pytest.mark.parametrize(
    ("require", "refused"),
    [
        ("M % 32 == 0", None),
        ("M % 64 == 0", "second: M % 64 == 0"),
        ("M", None),
        ("M - 96", "second: M - 96"),
        ("SMS == 4 and WARP == 1", None),
    ],
)
def test_accepts_names_what_it_refuses(require: str, refused: str | None) -> None:
    assert _accepts(require) == refused


def test_a_require_without_a_value_is_an_invalid_kernel() -> None:
    with pytest.raises(Rejected) as caught:
        _accepts("K % (N - 48) == 0")
    assert caught.value.status is Status.INVALID_KERNEL
    assert caught.value.reason == "require.second: division by zero in 'K % (N - 48) == 0'"


def test_domain_shapes_lie_in_the_domain() -> None:
    shapes = domain_shapes(bind(WORKLOAD, None, "opencl", ""))
    assert 50 < len(shapes) < 1000
    assert all(shape.in_domain for shape in shapes)
    assert len({tuple(shape.dims.values()) for shape in shapes}) == len(shapes)
    dims = [tuple(shape.dims[name] for name in "MNK") for shape in shapes]
    # Shapes that are not square, in every order.
    assert any(m < n < k for m, n, k in dims) and any(m > n > k for m, n, k in dims)


def test_domain_shapes_hold_the_timed_one() -> None:
    case = bind(WORKLOAD, "M=448,N=448,K=448-f32", "opencl", "")
    assert any(448 in shape.dims.values() for shape in domain_shapes(case))


def _course(require: str, case: str = "512-f32", head: str = "") -> Any:
    kernel = _kernel(f'{head}\n[require]\nr = "{require}"')
    return _Course(kernel, bind(WORKLOAD, case, "opencl", ""), Settings(named("pocl-x86-avx2")), "candidate")


@pytest.mark.parametrize(
    "require",
    ["M % 64 == 0", "N % 64 == 0 and K % 16 == 0", "M % 4 == 0", "M * N * K > 0", "M % 64 == 0 or M == 7", "1"],
)
def test_a_require_within_the_domain_is_accepted(require: str) -> None:
    course = _course(require)
    _accept(course, 4)
    assert "512" in course.domain.checked


def test_the_verdicts_domain_says_what_was_refused() -> None:
    course = _course("M % 64 == 0 and N % 64 == 0 and K % 64 == 0")
    accepted = _accept(course, 4)
    assert [case.shape_name for case in accepted] == ["M=64,N=128,K=192", "M=192,N=320,K=64"]
    assert "M=1,N=1,K=1" in course.domain.refused and "M=257,N=129,K=127" in course.domain.refused
    assert set(course.domain.checked) == {"512", "M=64,N=128,K=192", "M=192,N=320,K=64"}


@pytest.mark.parametrize(
    "require",
    [
        "M % 128 == 0",
        "M == N",
        "M == 512",
        "K <= 1024",
        "K >= 128",
        "M % 64 != 0 or N < 2048",
        "M % 3",
        "M * N <= 262144",
    ],
)
def test_a_require_that_narrows_the_domain_is_refused(require: str) -> None:
    with pytest.raises(Rejected) as caught:
        _accept(_course(require), 4)
    assert caught.value.status is Status.UNMET_REQUIRE
    assert len(caught.value.reason.splitlines()) == 1
    assert require in caught.value.reason


def test_a_require_that_refuses_the_case_itself_is_refused() -> None:
    with pytest.raises(Rejected) as caught:
        _accept(_course("M != 512"), 4)
    assert caught.value.status is Status.UNMET_REQUIRE and caught.value.reason == "refuses gemm/512-f32: r: M != 512"


@pytest.mark.parametrize(
    "require",
    [
        "M <= 2048",
        "M != 448",
        "K % 5 or K == 320",
        "N % 3",
    ],
)
def test_narrowing_at_sizes_that_nobody_lists_is_refused(require: str) -> None:
    with pytest.raises(Rejected):
        _accept(_course(require), 4)


def test_a_require_sees_the_devices_compute_units() -> None:
    _accept(_course("SMS == 4"), 4)
    with pytest.raises(Rejected):
        _accept(_course("SMS == 1"), 4)


def test_no_combination_of_named_sizes_may_be_refused() -> None:
    case = bind(WORKLOAD, None, "opencl", "")
    asked = {tuple(shape.dims[name] for name in "MNK") for shape in domain_shapes(case)}
    sizes = [shape["M"] for shape in WORKLOAD.shapes.values()]
    for m, n, k in itertools.product(sizes, repeat=3):
        if (m, n, k) not in asked:
            with pytest.raises(Rejected):
                _accept(_course(f"M != {m} or N != {n} or K != {k}"), 4)
