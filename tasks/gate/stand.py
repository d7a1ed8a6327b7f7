"""Where verified kernels are timed: workers and shared pages, which can start while the kernels are still checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import Platform, cpus
from experts.verdict import GpuFacts, Isolation, Profile
from tasks.gate import surfaces
from tasks.gate.device import Artifact, DeviceProcess
from tasks.gate.lanes import Lane, blame
from tasks.gate.launches import Limits, plan
from tasks.gate.pool import Pool
from tasks.gate.timing import Bench, prime, profile

_CORES_TO_SPARE = 4


def starts_early(platform: Platform) -> bool:
    """Whether workers for timing should boot beside the checks: where that does not slow them."""
    return platform.gpu is not None or len(cpus()) >= _CORES_TO_SPARE


class Stand:
    """Timing of one kernel, or of two against each other, at one case. Use as a context manager.

    Raises Rejected where a kernel has no launches here, PagesError, SandboxUnavailable.
    """

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        case: Case,
        limits: Limits,
        platform: Platform,
        isolation: Isolation | None,
        pool: Pool,
    ) -> None:
        self._platform, self._pool = platform, pool
        plans = [plan(kernel, case, limits, platform.warp) for kernel in kernels.values()]
        self.lanes: list[Lane] = []
        with ExitStack() as made:
            self._bench = Bench(case, plans, pool)
            made.callback(self._bench.close)
            nbytes = self._bench.layout.nbytes
            process: DeviceProcess | None = None
            for (label, kernel), planned in zip(kernels.items(), plans, strict=True):
                if process is None:
                    opened = surfaces.opened(platform, nbytes, pool.seed(), isolation)
                    self._pages, process = made.enter_context(opened)
                elif not process.joint:
                    process = made.enter_context(surfaces.process(platform, self._pages, isolation))
                self.lanes.append(Lane(label, process, kernel, planned))
            self._made = made.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def time(
        self, artifacts: Sequence[Artifact], timeout: float, pairs: int, progress: Callable[[int, int], None]
    ) -> Profile:
        """The first kernel's times, against the second's where there is one; `timeout` in seconds for one call.

        Raises LaneFault, DeviceMissing.
        """
        joint = self.lanes[0].process.joint
        if joint:
            self.lanes[0].process.device()
            self.lanes[0].process.open_pages()
        with ThreadPoolExecutor(1 if joint else len(self.lanes)) as threads:
            # Each in its own process, they boot and build at once; list() raises the first fault, in their order.
            list(threads.map(lambda lane, artifact: self._ready(lane, artifact, timeout), self.lanes, artifacts))
        clocks = surfaces.gpu_clocks(self._platform)

        def look(done: int, total: int) -> None:
            progress(done, total)
            if clocks is not None:
                clocks.look()

        found = profile(self._bench, self._pages, self.lanes, self._platform, self._pool, timeout, look, pairs=pairs)
        with blame(self.lanes[0]):
            overhead = self.lanes[0].process.overhead()
        if clocks is None or overhead is None:
            return found
        facts = GpuFacts(launch_us=overhead * 1e6, clock_mhz=clocks.range_mhz, throttled=clocks.throttled)
        return found.model_copy(update={"gpu": facts})

    def _ready(self, lane: Lane, artifact: Artifact, timeout: float) -> None:
        """Build the kernel in a worker that has started, and call it once. Raises LaneFault."""
        with blame(lane):
            if not lane.process.joint:
                lane.process.device()
            lane.process.build(lane.kernel, artifact)
            if not lane.process.joint:
                lane.process.open_pages()
        prime(self._bench, lane, timeout)
