"""The OpenCL surface and device: what `lower` makes of a kernel, and a worker that runs it.

`lower` builds in a throwaway worker with a compiler cache of its own; the artifact is that cache (PoCL's program.bc),
so that a runner's build of the same text and options costs milliseconds. PoCL turns it into machine code for each
(kernel, local size) at the first launch, in the runner, which needs a linker.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as declared
from pathlib import Path
from types import TracebackType
from typing import Any

from experts.case import NUMPY_TYPES
from experts.kernel import Kernel
from experts.platform import Platform, cpus
from experts.verdict import CompileFacts, Isolation, Status
from tasks.gate import folders
from tasks.gate.launches import Launch, Limits, Plan
from tasks.gate.pages import Layout, Pages
from tasks.gate.sandbox import MEMORY_BYTES, Grant
from tasks.gate.workers import Fault, Rejected, Worker, field, items

START_SECONDS = 30.0
COMPILE_SECONDS = 60.0
MAX_CACHE_BYTES = 64 << 20

OCLGRIND = "Oclgrind"
_CACHE = "compiled"


class DeviceMissing(Exception):
    """The OpenCL device cannot be used here; one line with the remedy."""


@dataclass(frozen=True)
class Device:
    """What the runtime says of itself before any candidate is in the process."""

    limits: Limits
    facts: Mapping[str, str]
    """For the environment: name, driver, runtime."""


@dataclass(frozen=True)
class Entry:
    """A kernel function as compiled: for each argument its type and address space, and static memory in bytes."""

    arguments: tuple[tuple[str, str], ...]
    local_bytes: int
    private_bytes: int
    group: tuple[int, ...]
    """reqd_work_group_size, or zeros."""


@dataclass(frozen=True)
class Artifact:
    """A lowered kernel: compiled files by relative path, its entries, the compiler's figures and what it said."""

    files: Mapping[str, bytes] = declared(repr=False)
    entries: Mapping[str, Entry]
    facts: CompileFacts
    log: str


class DeviceProcess:
    """A worker with one OpenCL device open. Use as a context manager."""

    def __init__(
        self,
        opencl_name: str,
        pages: Pages | None = None,
        isolation: Isolation | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folders.scratch_folder("worker")
        self._opencl_name = opencl_name
        variables = {
            "POCL_CACHE_DIR": str(self._folder / _CACHE),
            "POCL_AFFINITY": "1" if cpus() == tuple(range(len(cpus()))) else "0",
            "PYOPENCL_NO_CACHE": "1",
            "HWLOC_SYNTHETIC": topology(),
            **(environment or {}),
        }
        (self._folder / _CACHE).mkdir(exist_ok=True)
        grant = Grant(
            scratch=self._folder,
            pages=(pages.path,) if pages else (),
            environment=variables,
            memory_bytes=MEMORY_BYTES + 2 * (pages.nbytes if pages else 0),
        )
        self._pages = pages
        try:
            self.worker = Worker(grant, isolation)
        except BaseException:
            folders.remove(self._folder)
            raise
        try:
            self.worker.send("device", opencl=opencl_name, copies=opencl_name == OCLGRIND)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> DeviceProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.worker.kill()
        finally:
            folders.remove(self._folder)

    @property
    def scratch(self) -> Path:
        """The worker's own folder; what is in it is the candidate's to write."""
        return self._folder

    def device(self) -> Device:
        """Wait for the device to open. Raises DeviceMissing: no candidate is in the process yet."""
        try:
            answer = self.worker.receive(START_SECONDS)
            limits = Limits(
                compute_units=field(answer, "compute_units", int),
                max_group=field(answer, "max_group", int),
                max_items=items(answer, "max_items", int),
                local_bytes=field(answer, "local_bytes", int),
                alloc_bytes=field(answer, "alloc_bytes", int),
            )
            return Device(limits, {key: field(answer, key, str) for key in ("name", "version", "driver", "runtime")})
        except Fault as fault:
            raise DeviceMissing(f"{fault.text}; run klineage doctor") from None
        except Rejected as death:
            last = death.log.strip().splitlines()[-1:] or [""]
            reason = f"the OpenCL device does not open ({death.reason}; {last[0]}); run klineage doctor"
            raise DeviceMissing(reason) from None

    def build(self, kernel: Kernel, files: Mapping[str, bytes] | None = None) -> dict[str, Any]:
        """Compile, or take what `lower` compiled. Raises Rejected (compile_error and its kin)."""
        for name, content in (files or {}).items():
            path = self._folder / _CACHE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        # Without the first, the runtime knows no argument types.
        options = ["-cl-kernel-arg-info", *kernel.options, *kernel.defines]
        try:
            return self.worker.ask("build", COMPILE_SECONDS, text=kernel.text, options=options)
        except Fault as fault:
            if fault.kind == "memory":
                raise Rejected(Status.OUT_OF_MEMORY, "the compiler ran out of memory", fault.text) from None
            if fault.kind != "build":
                raise Rejected(Status.HARNESS_ERROR, f"the runtime refused a query: {fault.text}") from None
            raise Rejected(Status.COMPILE_ERROR, first_error(fault.text), _compiler_words(fault.text)) from None
        except Rejected as death:
            if death.status is Status.CRASH:
                raise Rejected(Status.COMPILE_ERROR, f"the compiler crashed: {death.reason}", death.log) from None
            if death.status is Status.TIMEOUT:
                raise Rejected(Status.TIMEOUT, f"not compiled within {COMPILE_SECONDS:.0f} s", death.log) from None
            raise

    def open_pages(self) -> None:
        """Map the shared pages."""
        assert self._pages is not None
        self.worker.ask("pages", START_SECONDS, path=str(self._pages.path), nbytes=self._pages.nbytes)

    def bind(self, name: str, plan: Plan, layout: Layout) -> None:
        """Make buffers, kernels and arguments for one shape, under a name for `run`. Raises Rejected."""
        self._ask(
            "bind",
            START_SECONDS,
            plan=name,
            buffers={key: list(span) for key, span in layout.spans.items()},
            launches=[_wire(launch) for launch in plan.launches],
            zero=list(plan.zero),
        )

    def compiled(self) -> dict[str, bytes]:
        """The compiler's cache as it stands, with machine code once a kernel ran: the candidate's to write by then."""
        return _harvest(self._folder / _CACHE)

    def drop(self) -> None:
        """Forget all plans."""
        self._ask("drop", START_SECONDS)

    def run(self, names: Sequence[str], timeout: float) -> dict[str, Any]:
        """Run plans one after another, each to its end; `timeout` in seconds for all. Raises Rejected."""
        return self._ask("run", timeout, plans=list(names))

    def _ask(self, operation: str, timeout: float, **fields: object) -> dict[str, Any]:
        try:
            return self.worker.ask(operation, timeout, **fields)
        except Fault as fault:
            status = _STATUS_OF_FAULT.get(fault.kind, Status.LAUNCH_ERROR)
            raise Rejected(status, " ".join(fault.text.split())[:200], self.worker.printed) from None


def lower(kernel: Kernel, platform: Platform, isolation: Isolation | None = None) -> Artifact:
    """Compile in a throwaway worker. Raises Rejected, DeviceMissing, SandboxUnavailable."""
    assert platform.opencl_name is not None
    with DeviceProcess(platform.opencl_name, isolation=isolation) as process:
        process.device()
        answer = process.build(kernel)
        log = process.worker.printed
        process.worker.kill()
        files = _harvest(process.scratch / _CACHE)
    entries = {name: _entry(value) for name, value in field(answer, "entries", dict).items()}
    facts = CompileFacts(
        binary_bytes=sum(len(content) for name, content in files.items() if name.endswith(".bc")) or None,
        local_bytes=max((entry.local_bytes for entry in entries.values()), default=0),
        private_bytes=max((entry.private_bytes for entry in entries.values()), default=0),
    )
    return Artifact(files, entries, facts, log)


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
        if entry.local_bytes > limits.local_bytes:
            reason = f"{where}: {entry.local_bytes} bytes of local memory; the device has {limits.local_bytes}"
            raise Rejected(Status.RESOURCE_LIMIT, reason)


def first_error(log: str) -> str:
    """The line of a build log that says what is wrong, without the place where the source lay."""
    for line in log.splitlines():
        before, mark, message = line.partition("error: ")
        if mark:
            place = re.search(r":(\d+):\d+: *$", before) or re.match(r"\S*?:(\d+):\d+: *", message)
            at = f"line {place[1]}: " if place else ""
            return at + re.sub(r"^\S*?:\d+:\d+: *", "", message).strip()[:200]
    return "the compiler refused the code"


def _compiler_words(log: str) -> str:
    """A build log without what pyopencl wraps around it."""
    _, mark, words = log.partition("Build on <")
    return words.partition("\n\n")[2].rpartition("\n(options:")[0] if mark else log


@functools.cache
def topology() -> str:
    """This machine's CPU topology as hwloc's synthetic description: the sandbox hides /sys, which PoCL would read."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(cpus())
    levels = [f"NUMANode:1(memory={memory})", "Package:1"]
    l3, l2, l1 = (_cache_bytes(index) for index in (3, 2, 1))
    if l3:
        levels.append(f"L3Cache:1(size={l3})")
    levels += [f"L2Cache:{cores}(size={l2 or 512 << 10})", f"L1dCache:1(size={l1 or 32 << 10})", "Core:1", "PU:1"]
    return " ".join(levels)


def _cache_bytes(level: int) -> int | None:
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
            if (index / "level").read_text().strip() == str(level) and kind != "Instruction":
                return int(size.removesuffix("K")) << 10 if size.endswith("K") else int(size)
        except (OSError, ValueError):
            continue
    return None


_STATUS_OF_FAULT = {"memory": Status.OUT_OF_MEMORY, "worker": Status.HARNESS_ERROR}

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


def _wire(launch: Launch) -> dict[str, object]:
    args = [
        ["buffer", argument.name] if argument.kind == "buffer" else [NUMPY_TYPES[argument.dtype].name, argument.value]
        for argument in launch.args
    ]
    size = [groups * items for groups, items in zip(launch.grid, launch.block, strict=True)]
    return {"entry": launch.entry, "global": size, "local": list(launch.block), "args": args}


def _entry(value: object) -> Entry:
    pairs = items(value, "arguments", list)
    if any(len(pair) != 2 or not all(isinstance(part, str) for part in pair) for pair in pairs):
        raise Rejected(Status.TAMPERING, "the worker gave no proper 'arguments'")
    return Entry(
        arguments=tuple((kind, space) for kind, space in pairs),
        local_bytes=field(value, "local_bytes", int),
        private_bytes=field(value, "private_bytes", int),
        group=items(value, "group", int),
    )


def _harvest(folder: Path) -> dict[str, bytes]:
    """The compiled files; links are not followed, and a candidate that wrote too much loses the shortcut."""
    files: dict[str, bytes] = {}
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            if path.is_symlink() or not path.is_file() or name.startswith("tempfile"):
                continue
            total += path.stat().st_size
            if total > MAX_CACHE_BYTES:
                return {}
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files
