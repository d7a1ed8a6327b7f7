"""Binds a kernel to a case: names checked, launch geometry evaluated. Pure; runs in the parent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, NoReturn

from experts.case import ITEM_BYTES, Case, Dims
from experts.expressions import Expression, ExpressionError, Scalar
from experts.kernel import Dtype, Kernel
from experts.verdict import Status
from tasks.gate.maps import MapPlan, resolve
from tasks.gate.workers import Rejected

MAX_GROUPS = 1 << 31
MAX_ITEMS = 1 << 36
MAX_WORKSPACE_BYTES = 8 << 30
MAP_BYTES = 128
_MAX_CLUSTER = 8
"""Blocks: what every device with clusters takes."""
_DOMAIN_SHAPES = 199
_DOMAIN_FACTORS = (1, 3, 5, 7)
_DOMAIN_COMBINATIONS = 20_000


@dataclass(frozen=True)
class Limits:
    """What a device takes in one launch."""

    compute_units: int
    max_group: int
    max_items: tuple[int, ...]
    local_bytes: int
    alloc_bytes: int


@dataclass(frozen=True)
class Argument:
    """One argument: a buffer or a tensor map by name, or a scalar with its type and value."""

    kind: Literal["buffer", "scalar", "map"]
    name: str
    dtype: Dtype
    value: int | float | None = None


@dataclass(frozen=True)
class Launch:
    """One launch with its numbers. `grid` counts groups, `block` work-items, both on three axes."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Argument, ...]
    shared: int = 0
    """Dynamic shared memory in bytes; CUDA only."""
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster; CUDA only."""


@dataclass(frozen=True)
class Plan:
    """A kernel at one shape: workspace sizes in bytes, those to zero, launches in order, and the maps they take."""

    workspace: Mapping[str, int]
    zero: tuple[str, ...]
    launches: tuple[Launch, ...]
    maps: tuple[MapPlan, ...] = ()


def check_names(kernel: Kernel, case: Case) -> None:
    """Refuse a kernel whose names do not fit the case. Raises Rejected (invalid_kernel)."""
    manifest = kernel.manifest
    if manifest.workload != case.workload.name:
        _invalid(f"the kernel is for workload {manifest.workload!r}, the case is {case.name}")
    scalars = [scalar.name for scalar in case.workload.scalars]
    tensors = [tensor.name for tensor in case.tensors]
    for table, taken in (("const", manifest.const), ("workspace", manifest.workspace)):
        clash = set(taken) & {*case.dims, *scalars, *tensors}
        if clash:
            _invalid(f"[{table}] {min(clash)!r} is a name of the case")
    symbols = {*case.dims, *scalars, *manifest.const, "SMS", "WARP"}
    for where, expression in _expressions(kernel):
        unknown = expression.names - symbols
        if unknown:
            _invalid(
                f"{where}: unknown name {min(unknown)!r} in {expression.text!r}; known: {', '.join(sorted(symbols))}"
            )
    arguments = {*tensors, *case.dims, *scalars, *manifest.workspace}
    for name, declared in manifest.maps.items():
        if declared.tensor not in {*tensors, *manifest.workspace}:
            held = ", ".join(sorted({*tensors, *manifest.workspace}))
            _invalid(f"maps.{name}: unknown tensor {declared.tensor!r}; known: {held}")
    for index, launch in enumerate(manifest.launch):
        for name in launch.args:
            if name.removeprefix("map:") == name and name not in arguments:
                _invalid(f"launch[{index}].args: unknown name {name!r}; known: {', '.join(sorted(arguments))}")


def symbols(kernel: Kernel, case: Case, compute_units: int, warp: int) -> dict[str, Scalar]:
    """What expressions of this kernel see at this shape."""
    scalars = {scalar.name: scalar.value for scalar in case.workload.scalars}
    return {**case.dims, **scalars, **kernel.manifest.const, "SMS": compute_units, "WARP": warp}


def accepts(kernel: Kernel, known: Mapping[str, Scalar]) -> str | None:
    """None where every [require] holds, else the one that does not. Raises Rejected (invalid_kernel) for a bad one."""
    for name, expression in kernel.manifest.require.items():
        try:
            if not expression.holds(known):
                return f"{name}: {expression.text}"
        except ExpressionError as error:
            _invalid(f"require.{name}: {error}")
    return None


def domain_shapes(case: Case) -> list[Case]:
    """Shapes of the minimal domain to ask a [require] about.

    Every combination of the sizes that the workload names, as far as they can be listed, and a sample of multiples.
    """
    workload = case.workload
    listed = (case.dims, workload.sanitize, *workload.shapes.values(), *workload.family)
    named = _inside(case, listed, (1,))
    grown = _inside(case, listed, _DOMAIN_FACTORS)
    sample = grown[:: -(-len(grown) // _DOMAIN_SHAPES) or 1]
    return [case.at(dims) for dims in (*named, *(dims for dims in sample if dims not in named))]


def _inside(case: Case, listed: Sequence[Dims], factors: Sequence[int]) -> list[Dims]:
    """Combinations of listed sizes times a factor where the minimal domain holds."""
    domain = [Expression(text) for text in case.workload.domain]
    together = [expression for expression in domain if len(expression.names) != 1]
    sizes = []
    for name in case.workload.dimensions:
        alone = [expression for expression in domain if expression.names == {name}]
        values = sorted({shape[name] * factor for shape in listed for factor in factors})
        sizes.append([value for value in values if all(expression.holds({name: value}) for expression in alone)])
    combinations = itertools.islice(itertools.product(*sizes), _DOMAIN_COMBINATIONS)
    every = [dict(zip(case.workload.dimensions, combination, strict=True)) for combination in combinations]
    return [dims for dims in every if all(expression.holds(dims) for expression in together)]


def plan(kernel: Kernel, case: Case, limits: Limits, warp: int) -> Plan:
    """Evaluate launches and workspace at this shape, within the device's limits. Raises Rejected."""
    known = symbols(kernel, case, limits.compute_units, warp)
    workspace = {}
    for name, space in kernel.manifest.workspace.items():
        shape = [_integer(part, known, f"workspace.{name}.shape") for part in space.shape]
        if min(shape) < 1:
            _invalid(f"workspace.{name}: shape {shape} at {case.name}")
        workspace[name] = prod(shape) * ITEM_BYTES[space.dtype]
    allowed = min(limits.alloc_bytes, MAX_WORKSPACE_BYTES)
    if sum(workspace.values()) > allowed:
        reason = f"workspace of {sum(workspace.values())} bytes; the device allows {allowed}"
        raise Rejected(Status.RESOURCE_LIMIT, reason)
    launches = []
    for index, launch in enumerate(kernel.manifest.launch):
        where = f"launch[{index}]"
        grid = _axes([_integer(part, known, f"{where}.grid") for part in launch.grid])
        block = _axes([_integer(part, known, f"{where}.block") for part in launch.block])
        if min(*grid, *block) < 1:
            _invalid(f"{where}: grid {list(grid)} of blocks {list(block)} at {case.name}")
        _check_size(where, grid, block, limits)
        shared = 0 if launch.shared is None else _integer(launch.shared, known, f"{where}.shared")
        if shared < 0:
            _invalid(f"{where}: {shared} bytes of shared memory at {case.name}")
        if shared > limits.local_bytes:
            reason = f"{where}: {shared} bytes of shared memory; the device has {limits.local_bytes}"
            raise Rejected(Status.RESOURCE_LIMIT, reason)
        cluster = None if launch.cluster is None else _cluster(launch.cluster, known, where, grid)
        args = tuple(_argument(name, kernel, case) for name in launch.args)
        launches.append(Launch(launch.entry, grid, block, args, shared, cluster))
    zero = tuple(name for name, space in kernel.manifest.workspace.items() if space.zero)
    return Plan(workspace, zero, tuple(launches), _maps(kernel, case, known))


def _cluster(
    declared: Sequence[Expression], known: Mapping[str, Scalar], where: str, grid: tuple[int, int, int]
) -> tuple[int, int, int]:
    found = _axes([_integer(part, known, f"{where}.cluster") for part in declared])
    if min(found) < 1 or prod(found) > _MAX_CLUSTER:
        _invalid(f"{where}: cluster {list(found)}; from 1 to {_MAX_CLUSTER} blocks make one")
    if any(blocks % size for blocks, size in zip(grid, found, strict=True)):
        _invalid(f"{where}: grid {list(grid)} is not made of whole clusters of {list(found)}")
    return found


def _maps(kernel: Kernel, case: Case, known: Mapping[str, Scalar]) -> tuple[MapPlan, ...]:
    """The tensor maps, each within its tensor or workspace. Raises Rejected (invalid_kernel)."""
    bases: dict[str, tuple[Dtype, tuple[int, ...]]] = {t.name: (t.dtype, t.shape) for t in case.tensors}
    for name, space in kernel.manifest.workspace.items():
        bases[name] = (space.dtype, tuple(_integer(part, known, f"workspace.{name}.shape") for part in space.shape))
    return tuple(resolve(name, each, *bases[each.tensor], known) for name, each in kernel.manifest.maps.items())


def _check_size(where: str, grid: tuple[int, int, int], block: tuple[int, int, int], limits: Limits) -> None:
    items = prod(block)
    if items > limits.max_group or any(size > most for size, most in zip(block, limits.max_items, strict=False)):
        raise Rejected(
            Status.RESOURCE_LIMIT,
            f"{where}: block {list(block)} is {items} work-items; the device allows {limits.max_group}",
        )
    if prod(grid) > MAX_GROUPS or prod(grid) * items > MAX_ITEMS:
        raise Rejected(
            Status.RESOURCE_LIMIT, f"{where}: {prod(grid)} groups of {items} work-items are beyond the work budget"
        )


def _argument(name: str, kernel: Kernel, case: Case) -> Argument:
    if name.startswith("map:"):
        return Argument("map", name.removeprefix("map:"), "u8")
    for tensor in case.tensors:
        if tensor.name == name:
            return Argument("buffer", name, tensor.dtype)
    if name in kernel.manifest.workspace:
        return Argument("buffer", name, kernel.manifest.workspace[name].dtype)
    for scalar in case.workload.scalars:
        if scalar.name == name:
            return Argument("scalar", name, scalar.dtype, scalar.value)
    return Argument("scalar", name, "i32", case.dims[name])


def _expressions(kernel: Kernel) -> list[tuple[str, Expression]]:
    manifest = kernel.manifest
    found = [(f"require.{name}", expression) for name, expression in manifest.require.items()]
    for name, space in manifest.workspace.items():
        found += [(f"workspace.{name}.shape", part) for part in space.shape]
    for index, launch in enumerate(manifest.launch):
        for field in ("grid", "block", "cluster"):
            found += [(f"launch[{index}].{field}", part) for part in getattr(launch, field) or ()]
        if launch.shared is not None:
            found.append((f"launch[{index}].shared", launch.shared))
    for name, declared in manifest.maps.items():
        for field in type(declared).model_fields:
            value = getattr(declared, field)
            parts = value if isinstance(value, tuple) else (value,)
            found += [(f"maps.{name}.{field}", part) for part in parts if isinstance(part, Expression)]
    return found


def _integer(expression: Expression, known: Mapping[str, Scalar], where: str) -> int:
    try:
        return expression.integer(known)
    except ExpressionError as error:
        _invalid(f"{where}: {error}")


def _axes(values: list[int]) -> tuple[int, int, int]:
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _invalid(reason: str) -> NoReturn:
    raise Rejected(Status.INVALID_KERNEL, reason)
