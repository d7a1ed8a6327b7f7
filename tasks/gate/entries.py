"""Holds what was compiled against what the manifest declares, and against the device. Pure; runs in the parent."""

from __future__ import annotations

from experts.case import ITEM_BYTES
from experts.verdict import Status
from tasks.gate.device import Artifact
from tasks.gate.launches import MAP_BYTES, Argument, Limits, Plan
from tasks.gate.workers import Rejected

POINTER_BYTES = 8


def check_entries(artifact: Artifact, plan: Plan) -> None:
    """Hold what was compiled against what the manifest declares. Raises Rejected."""
    for index, launch in enumerate(plan.launches):
        entry = artifact.entries.get(launch.entry)
        where = f"launch[{index}] {launch.entry}"
        if entry is None:
            names = ", ".join(sorted(artifact.entries)) or "none"
            raise Rejected(Status.COMPILE_ERROR, f"{where}: no such kernel function; the code has {names}")
        if len(entry.arguments) != len(launch.args):
            counts = f"takes {len(entry.arguments)} arguments, the manifest gives {len(launch.args)}"
            raise Rejected(Status.INVALID_KERNEL, f"{where}: {counts}")
        for argument, (type_name, space) in zip(launch.args, entry.arguments, strict=True):
            if space == "param":
                _check_size(argument, type_name, where)
                continue
            buffer = argument.kind == "buffer"
            if not _fits(argument.dtype, buffer, type_name, space):
                name = _C_TYPES[argument.dtype][0]
                wanted = f"__global {name} *" if buffer else name
                declared = f"the code declares '{space} {type_name}'"
                raise Rejected(Status.WRONG_DTYPE, f"{where}: {argument.name} is '{wanted}', {declared}")


def check_fit(artifact: Artifact, plan: Plan, limits: Limits) -> None:
    """Whether the compiled entries fit their launches and the device. Raises Rejected."""
    for index, launch in enumerate(plan.launches):
        entry = artifact.entries[launch.entry]
        where = f"launch[{index}] {launch.entry}"
        if any(entry.group) and entry.group != launch.block:
            reason = f"{where}: block {list(launch.block)}, but reqd_work_group_size{tuple(entry.group)}"
            raise Rejected(Status.LAUNCH_ERROR, reason)
        if launch.cluster and any(entry.cluster) and entry.cluster != launch.cluster:
            reason = f"{where}: cluster {list(launch.cluster)}, but __cluster_dims__{tuple(entry.cluster)}"
            raise Rejected(Status.LAUNCH_ERROR, reason)
        asked = entry.local_bytes + launch.shared
        if asked > limits.local_bytes:
            reason = f"{where}: {asked} bytes of local memory; the device has {limits.local_bytes}"
            raise Rejected(Status.RESOURCE_LIMIT, reason)


def _check_size(argument: Argument, found: str, where: str) -> None:
    """Compiled CUDA code knows its parameters' sizes, not their types. Raises Rejected."""
    kinds = {"buffer": ("a pointer", POINTER_BYTES), "map": ("a tensor map", MAP_BYTES)}
    what, nbytes = kinds.get(argument.kind, (argument.dtype, ITEM_BYTES[argument.dtype]))
    if found != f"{nbytes} bytes":
        reason = f"{where}: {argument.name} is {what} of {nbytes} bytes, the code declares a parameter of {found}"
        raise Rejected(Status.WRONG_DTYPE, reason)


_C_TYPES: dict[str, tuple[str, ...]] = {
    "f64": ("double",),
    "f32": ("float",),
    "f16": ("half",),
    "bf16": ("ushort",),
    "i64": ("long",),
    "i32": ("int", "uint"),
    "i16": ("short",),
    "i8": ("char",),
    "u64": ("ulong",),
    "u32": ("uint",),
    "u16": ("ushort",),
    "u8": ("uchar",),
}


def _fits(dtype: str, buffer: bool, type_name: str, space: str) -> bool:
    """A buffer is any global or constant pointer (vectors and bit tricks are honest); a scalar must match by type."""
    if buffer:
        return space in ("global", "constant") and type_name.rstrip().endswith("*")
    # A typedef hides the type; the runtime then checks the size when the argument is set.
    known = {name for names in _C_TYPES.values() for name in names}
    return space == "private" and (type_name in _C_TYPES[dtype] or type_name not in known | {"bool", "size_t"})
