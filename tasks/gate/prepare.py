"""What a kernel needs before it runs on a device: what the device says of itself, and the kernel lowered.

Both are looked up in the cache first.
"""

from __future__ import annotations

from experts.kernel import Kernel
from experts.platform import Platform, environment
from experts.verdict import Isolation
from tasks.gate import cache as caching
from tasks.gate.cache import Cache
from tasks.gate.opencl import Artifact, Device, DeviceProcess, lower, topology


def device_of(platform: Platform, isolation: Isolation | None, cache: Cache) -> Device:
    """What the device says of itself; asked once for each installation. Raises DeviceMissing, SandboxUnavailable."""
    key = caching.key(kind="device", **environment(platform, {}), topology=topology())
    device = cache.device(key)
    if device is None:
        assert platform.opencl_name is not None
        with DeviceProcess(platform.opencl_name, isolation=isolation) as process:
            device = process.device()
        cache.keep_device(key, device)
    return device


def lowered(kernel: Kernel, platform: Platform, isolation: Isolation | None, env: str, cache: Cache) -> Artifact:
    """The compiled kernel; `env` is the environment's id. Raises as `opencl.lower`."""
    key = caching.key(kind="artifact", kernel=kernel.kernel_id, env=env, isolation=isolation or "")
    artifact = cache.artifact(key)
    if artifact is None:
        artifact = lower(kernel, platform, isolation)
        cache.keep_artifact(key, artifact)
    return artifact


def lock_name(platform: Platform) -> str:
    """The device that the lock is on: all platforms of a CPU share it."""
    return "cpu" if platform.isa else platform.name
