"""Which code drives a platform: the one place that knows the surfaces apart.

Each surface compiles in a throwaway worker (`lower`), runs in a `DeviceProcess`, and is looked at in a sanitizer.
None of its modules needs CUDA to be imported: what does is loaded in workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import Platform
from experts.verdict import Isolation
from tasks.gate.cuda import spares
from tasks.gate.cuda.clocks import Clocks
from tasks.gate.cuda.nvrtc import lower as lower_cuda
from tasks.gate.cuda.process import CudaProcess, driver
from tasks.gate.cuda.sanitize import sanitize as sanitize_cuda
from tasks.gate.device import Artifact, DeviceProcess
from tasks.gate.launches import Limits
from tasks.gate.opencl import OpenCLProcess, topology
from tasks.gate.opencl import lower as lower_opencl
from tasks.gate.pages import Pages
from tasks.gate.pool import Pool
from tasks.gate.sanitize import sanitize as sanitize_opencl


def lower(kernel: Kernel, platform: Platform, isolation: Isolation | None = None) -> Artifact:
    """Compile in a throwaway worker. Raises Rejected, DeviceMissing, SandboxUnavailable."""
    if platform.opencl_name is not None:
        return lower_opencl(kernel, platform, isolation)
    return lower_cuda(kernel, platform, isolation)


def process(platform: Platform, pages: Pages | None = None, isolation: Isolation | None = None) -> DeviceProcess:
    """A worker with the platform's device open. Raises SandboxUnavailable."""
    if platform.opencl_name is not None:
        return OpenCLProcess(platform.opencl_name, pages, isolation)
    return CudaProcess(pages, isolation)


@contextmanager
def opened(
    platform: Platform, nbytes: int, seed: int, isolation: Isolation | None
) -> Iterator[tuple[Pages, DeviceProcess]]:
    """Pages of so many bytes, guarded from `seed`, and a worker that may map them; one that has started, if there is.

    Raises PagesError, SandboxUnavailable.
    """
    with ExitStack() as made:
        if platform.gpu is not None:
            spare = spares.take(nbytes, isolation)
            if spare is not None:
                made.callback(spare.close)
                yield spare.pages, spare.process
                return
        pages = made.enter_context(Pages(nbytes, seed))
        yield pages, made.enter_context(process(platform, pages, isolation))


def refill(platform: Platform, seed: int, isolation: Isolation | None) -> None:
    """Start workers for the gate after this one. Raises PagesError, SandboxUnavailable."""
    if platform.gpu is not None:
        spares.refill(seed, isolation)


def sanitize(
    platform: Platform,
    kernel: Kernel,
    artifact: Artifact,
    case: Case,
    pool: Pool,
    limits: Limits,
    isolation: Isolation | None,
) -> None:
    """Run once at this (tiny) shape in the surface's sanitizer.

    Raises Rejected at the first finding, DeviceMissing where there is no sanitizer, PagesError, SandboxUnavailable.
    """
    if platform.opencl_name is not None:
        sanitize_opencl(kernel, case, pool, limits, isolation, platform.warp)
        return
    sanitize_cuda(kernel, artifact, case, pool, limits, isolation, platform.warp)


def machine(platform: Platform) -> str:
    """What of this machine its device's answers depend on, beside the installed packages."""
    if platform.opencl_name is not None:
        return topology()
    return driver()


def gpu_clocks(platform: Platform) -> Clocks | None:
    """What watches a GPU's clock; None where the platform has no GPU."""
    return Clocks() if platform.gpu is not None else None
