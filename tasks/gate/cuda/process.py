"""A worker that drives one CUDA device, and what this machine says of its GPU without one.

The worker gets a cubin and a declarative launch list: no host code of a candidate runs anywhere. Device code is not
harmless for all that: where the GPU can reach pageable host memory, it can overwrite the worker. So the worker is
held like any other, and nothing that it says is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experts import platform
from experts.case import NUMPY_TYPES
from experts.kernel import Kernel
from experts.verdict import Isolation, Status
from tasks.gate import folders
from tasks.gate.cuda.nvrtc import CUBIN
from tasks.gate.device import START_SECONDS, Artifact, DeviceProcess
from tasks.gate.launches import Launch, Plan
from tasks.gate.pages import Pages
from tasks.gate.sandbox import Grant
from tasks.gate.workers import Rejected, Script, check_seconds

_SCRIPT = Path(__file__).with_name("worker.py")
_HEAP_BYTES = 8 << 20


class CudaProcess(DeviceProcess):
    """A worker with the first CUDA device open. Use as a context manager.

    `under` makes, of the worker's folder, a command that the worker is started by, such as a sanitizer's; then each
    buffer is an allocation of its own, so that an access outside it is one outside all of them.
    """

    joint = True
    # Each call is behind a flush of the cache, which warms the device too.
    warm_seconds = 0.05

    def __init__(
        self,
        pages: Pages | None = None,
        isolation: Isolation | None = None,
        under: Callable[[Path], tuple[str, ...]] | None = None,
        readable: tuple[Path, ...] = (),
        *,
        spare: bool = False,
    ) -> None:
        folder = folders.scratch_folder("worker")
        environment = {
            "CUPY_CACHE_DIR": str(folder / "cupy"),
            "CUDA_CACHE_DISABLE": "1",
            "CUDA_MODULE_LOADING": "LAZY",
        }
        grant = Grant(
            scratch=folder,
            pages=(pages.path,) if pages else (),
            readable=readable,
            environment=environment,
            # The driver reserves far more address space than it uses.
            memory_bytes=None,
            gpu=True,
        )
        opening = {"apart": under is not None, "heap_bytes": _HEAP_BYTES}
        script = Script.serving(_SCRIPT, under(folder) if under else ())
        super().__init__(script, grant, pages, isolation, opening, spare=spare)

    def build(self, kernel: Kernel, artifact: Artifact | None = None) -> None:
        """Load what `lower` compiled. Raises Rejected where the driver refuses it."""
        assert artifact is not None
        path = self.scratch / f"{kernel.kernel_id}.cubin"
        path.write_bytes(artifact.files[CUBIN])
        entries = {name: list(entry.cluster) for name, entry in artifact.entries.items()}
        try:
            self._ask("build", START_SECONDS, kernel=kernel.kernel_id, path=str(path), entries=entries)
        except Rejected as fault:
            if fault.status is Status.LAUNCH_ERROR:
                reason = f"the driver does not load what was compiled: {fault.reason}"
                raise Rejected(Status.COMPILE_ERROR, reason, fault.log) from None
            raise

    def overhead(self) -> float | None:
        """Of setting four bytes, the median of some."""
        return check_seconds(self._ask("overhead", START_SECONDS), 1)[0]

    def finish(self, seconds: float) -> bool:
        """End the requests, so that the worker ends by itself and a tool around it says its last; whether in time."""
        return self.worker.finish(seconds)

    def _wired(self, plan: Plan) -> list[dict[str, object]]:
        return [_wire(launch) for launch in plan.launches]


def driver() -> str:
    """What names this machine's GPU and driver, for a cache."""
    return " ".join((platform.gpu() or {}).values())


def _wire(launch: Launch) -> dict[str, Any]:
    args = [
        [argument.kind, argument.name]
        if argument.kind != "scalar"
        else [NUMPY_TYPES[argument.dtype].name, argument.value]
        for argument in launch.args
    ]
    return {
        "entry": launch.entry,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared": launch.shared,
        "cluster": list(launch.cluster) if launch.cluster else None,
        "args": args,
    }
