"""What a kernel needs before it runs on a device: what the device says of itself, and the kernel lowered.

Both are looked up in the cache first.
"""

from __future__ import annotations

from experts.kernel import Kernel
from experts.platform import Gpu, Platform, environment
from experts.verdict import Isolation
from tasks.gate import cache as caching
from tasks.gate import surfaces
from tasks.gate.cache import Cache
from tasks.gate.cuda.nvrtc import version
from tasks.gate.device import Artifact, Device
from tasks.gate.launches import MAX_WORKSPACE_BYTES, Limits


def nominal(gpu: Gpu) -> Device:
    """The device that a CUDA platform is named for, where none is at hand."""
    limits = Limits(
        compute_units=gpu.multiprocessors,
        max_group=1024,
        max_items=(1024, 1024, 64),
        local_bytes=gpu.shared_bytes,
        alloc_bytes=MAX_WORKSPACE_BYTES,
    )
    return Device(limits, {"nvrtc": version()})


_devices: dict[str, Device] = {}
"""What this process has asked already."""


def device_of(platform: Platform, isolation: Isolation | None, cache: Cache, *, compile_only: bool = False) -> Device:
    """What the device says of itself; asked once for each installation. Raises DeviceMissing, SandboxUnavailable.

    `compile_only` takes the platform's own figures where it is a CUDA one.
    """
    if compile_only and platform.gpu is not None:
        return nominal(platform.gpu)
    key = caching.key(kind="device", **environment(platform, {}), machine=surfaces.machine(platform))
    device = _devices.get(key) or cache.device(key)
    if device is None:
        with surfaces.process(platform, isolation=isolation) as process:
            device = process.device()
        cache.keep_device(key, device)
    _devices[key] = device
    return device


def lowered(kernel: Kernel, platform: Platform, isolation: Isolation | None, env: str, cache: Cache) -> Artifact:
    """The compiled kernel; `env` is the environment's id. Raises as `surfaces.lower`."""
    key = caching.key(kind="artifact", kernel=kernel.kernel_id, env=env, isolation=isolation or "")
    artifact = cache.artifact(key)
    if artifact is None:
        artifact = surfaces.lower(kernel, platform, isolation)
        cache.keep_artifact(key, artifact)
    return artifact


def lock_name(platform: Platform) -> str:
    """The device that the lock is on: all platforms of a CPU share it."""
    return "cpu" if platform.isa else platform.name
