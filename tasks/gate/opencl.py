"""The OpenCL surface and device: what `lower` makes of a kernel, and a worker that runs it.

`lower` builds in a throwaway worker with a compiler cache of its own; the artifact is that cache (PoCL's program.bc),
so that a runner's build of the same text and options costs milliseconds. PoCL turns it into machine code for each
(kernel, local size) at the first launch, in the runner, which needs a linker.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experts.case import NUMPY_TYPES
from experts.kernel import Kernel
from experts.platform import Platform, cpus
from experts.verdict import CompileFacts, Isolation, Status
from tasks.gate import folders
from tasks.gate.device import COMPILE_SECONDS, Artifact, DeviceProcess, Entry, compiling
from tasks.gate.launches import Launch, Plan
from tasks.gate.pages import Pages
from tasks.gate.sandbox import MEMORY_BYTES, Grant
from tasks.gate.workers import Fault, Rejected, Script, field, items

MAX_CACHE_BYTES = 64 << 20

OCLGRIND = "Oclgrind"
_CACHE = "compiled"
_SCRIPT = Script.serving(Path(__file__).with_name("worker.py"))


class OpenCLProcess(DeviceProcess):
    """A worker with one OpenCL device open. Use as a context manager."""

    def __init__(
        self,
        opencl_name: str,
        pages: Pages | None = None,
        isolation: Isolation | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder = folders.scratch_folder("worker")
        variables = {
            "POCL_CACHE_DIR": str(folder / _CACHE),
            "POCL_AFFINITY": "1" if cpus() == tuple(range(len(cpus()))) else "0",
            "PYOPENCL_NO_CACHE": "1",
            "HWLOC_SYNTHETIC": topology(),
            **(environment or {}),
        }
        (folder / _CACHE).mkdir(exist_ok=True)
        grant = Grant(
            scratch=folder,
            pages=(pages.path,) if pages else (),
            environment=variables,
            memory_bytes=MEMORY_BYTES + 2 * (pages.nbytes if pages else 0),
        )
        opening = {"opencl": opencl_name, "copies": opencl_name == OCLGRIND}
        super().__init__(_SCRIPT, grant, pages, isolation, opening)

    def build(self, kernel: Kernel, artifact: Artifact | None = None) -> None:
        """Compile, or take what `lower` compiled. Raises Rejected (compile_error and its kin)."""
        self.compile(kernel, artifact.files if artifact else {})

    def compile(self, kernel: Kernel, files: Mapping[str, bytes]) -> dict[str, Any]:
        """The same, and the worker's answer."""
        for name, content in files.items():
            path = self._folder / _CACHE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        # Without the first, the runtime knows no argument types.
        options = ["-cl-kernel-arg-info", *kernel.options, *kernel.defines]
        with compiling():
            try:
                return self.worker.ask("build", COMPILE_SECONDS, text=kernel.text, options=options)
            except Fault as fault:
                if fault.kind != "build":
                    raise
                raise Rejected(Status.COMPILE_ERROR, first_error(fault.text), _compiler_words(fault.text)) from None

    def compiled(self) -> dict[str, bytes]:
        """The compiler's cache as it stands, with machine code once a kernel ran: the candidate's to write by then."""
        return _harvest(self._folder / _CACHE)

    def _wired(self, plan: Plan) -> list[dict[str, object]]:
        return [_wire(launch) for launch in plan.launches]


def lower(kernel: Kernel, platform: Platform, isolation: Isolation | None = None) -> Artifact:
    """Compile in a throwaway worker. Raises Rejected, DeviceMissing, SandboxUnavailable."""
    assert platform.opencl_name is not None
    with OpenCLProcess(platform.opencl_name, isolation=isolation) as process:
        process.device()
        answer = process.compile(kernel, {})
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
