"""Lowers CUDA C++ to a cubin, on any machine: NVRTC needs no driver. The compiler runs in a throwaway worker.

Headers come from NVIDIA's header packages or from an installed toolkit; nothing else is on the include path, and the
sandbox keeps other files out of reach.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from experts.kernel import Kernel
from experts.platform import Platform
from experts.verdict import CompileFacts, Isolation, Status
from tasks.gate import folders
from tasks.gate.device import COMPILE_SECONDS, START_SECONDS, Artifact, DeviceMissing, Entry, compiling
from tasks.gate.sandbox import Grant
from tasks.gate.workers import Fault, Rejected, Script, Worker, field, items

CUBIN = "kernel.cubin"
_SCRIPT = Script.serving(Path(__file__).with_name("compiler.py"))
_MEMORY_BYTES = 4 << 30
_ERROR = re.compile(r"^(\S+)\((\d+)\): (?:catastrophic )?error(?: #\d+(?:-\w+)?)?: (.*)$", re.MULTILINE)
_PTXAS_ERROR = re.compile(r"^\s*ptxas.*?(?:error|fatal)\s*:\s*(.*)$", re.MULTILINE)
_RESERVED_SHARED = 1024
"""Bytes at the start of shared memory that the hardware keeps, in what a cubin says since sm_90."""


def lower(kernel: Kernel, platform: Platform, isolation: Isolation | None = None) -> Artifact:
    """Compile in a throwaway worker. Raises Rejected, DeviceMissing (no NVRTC), SandboxUnavailable."""
    folder = folders.scratch_folder("worker")
    output = folder / CUBIN
    grant = Grant(folder, readable=include_folders(), memory_bytes=_MEMORY_BYTES)
    try:
        with Worker(grant, isolation, _SCRIPT) as worker:
            _open(worker)
            with compiling():
                try:
                    answer = worker.ask(
                        "build",
                        COMPILE_SECONDS,
                        text=kernel.text,
                        options=[*_options(platform), *kernel.options, *kernel.defines],
                        output=str(output),
                    )
                except Fault as fault:
                    if fault.kind != "build":
                        raise
                    raise Rejected(Status.COMPILE_ERROR, first_error(fault.text), fault.text) from None
            log = field(answer, "log", str)
        entries = {name: _entry(value) for name, value in field(answer, "entries", dict).items()}
        cubin = _taken(output)
    finally:
        folders.remove(folder)
    facts = CompileFacts(
        binary_bytes=len(cubin),
        registers=field(answer, "registers", int),
        spill_bytes=field(answer, "spill_bytes", int),
        local_bytes=max((entry.local_bytes for entry in entries.values()), default=0),
    )
    return Artifact({CUBIN: cubin}, entries, facts, log)


def version() -> str:
    """NVRTC's version. Raises DeviceMissing where it does not load, SandboxUnavailable."""
    folder = folders.scratch_folder("worker")
    try:
        with Worker(Grant(folder, memory_bytes=_MEMORY_BYTES), None, _SCRIPT) as worker:
            return _open(worker)
    finally:
        folders.remove(folder)


@functools.cache
def include_folders() -> tuple[Path, ...]:
    """Where the CUDA headers are: those of the header packages, else of the toolkit that nvcc belongs to."""
    for root in _roots():
        if (root / "cuda_fp16.h").is_file():
            return tuple(path for path in (root, root / "cccl") if path.is_dir())
    return ()


def first_error(log: str) -> str:
    """The line of a compiler's log that says what is wrong."""
    found = _ERROR.search(log)
    if found:
        # Another file is a header, or what the code calls one by #line.
        place = f"line {found[2]}" if found[1] == "kernel.cu" else "in a header"
        return f"{place}: {found[3].strip()}"[:200]
    ptxas = _PTXAS_ERROR.search(log)
    return ptxas[1].strip()[:200] if ptxas and ptxas[1].strip() else "the compiler refused the code"


def _options(platform: Platform) -> list[str]:
    assert platform.gpu is not None
    return [
        f"--gpu-architecture={platform.gpu.arch}",
        "--std=c++17",
        # What one candidate compiled, the next must not read.
        "--no-cache",
        "--generate-line-info",
        "--ptxas-options=-v",
        *(f"--include-path={folder}" for folder in include_folders()),
    ]


def _roots() -> Iterator[Path]:
    found = importlib.util.find_spec("nvidia")
    for place in (found.submodule_search_locations or []) if found else []:
        # One folder for all packages since CUDA 13, one for each before.
        yield from sorted(Path(place).glob("cu[0-9]*/include"), reverse=True)
        yield Path(place) / "cuda_runtime" / "include"
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    compiler = shutil.which("nvcc")
    if compiler:
        homes.append(str(Path(compiler).resolve().parents[1]))
    for home in (*homes, "/usr/local/cuda"):
        if home:
            yield Path(home) / "include"


def _open(worker: Worker) -> str:
    try:
        worker.send("device")
        return field(worker.receive(START_SECONDS), "version", str)
    except Fault as fault:
        raise DeviceMissing(f"{fault.text}; pip install 'klineage[cuda13]'") from None
    except Rejected as death:
        raise DeviceMissing(f"NVRTC does not start ({death.reason}); run klineage doctor") from None


def _entry(value: object) -> Entry:
    sizes = items(value, "parameters", int)
    shared = field(value, "shared", int)
    return Entry(
        arguments=tuple((f"{size} bytes", "param") for size in sizes),
        local_bytes=max(0, shared - _RESERVED_SHARED),
        private_bytes=0,
        cluster=items(value, "cluster", int),
    )


def _taken(path: Path) -> bytes:
    try:
        if path.is_symlink():
            raise Rejected(Status.TAMPERING, "the compiler left a link where its output should be")
        return path.read_bytes()
    except OSError:
        raise Rejected(Status.TAMPERING, "the compiler said that it was done, and left nothing") from None
