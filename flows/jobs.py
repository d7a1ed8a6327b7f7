"""From what a user asks to the job of a walk; no Prefect, so that bad input is told before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experts import catalog, platform
from experts.kernel import EXTENSIONS, load
from tasks.evidence import Roots
from tasks.gate.runner import CALL_SECONDS, Settings
from tasks.gate.statistics import CHECKPOINTS
from tasks.walk.run import DEFAULT_PAIRS, Job, Rewriter


class BadRequest(ValueError):
    """What was asked for does not exist; one line."""


@dataclass(frozen=True)
class WalkRequest:
    """The parameters of the flow extract-lineage, as JSON has them; what they mean is said there."""

    kernel: str
    case: str | None = None
    platform: str | None = None
    rewriter: Rewriter = "rule"
    fresh: bool = False
    pairs: int = DEFAULT_PAIRS
    timeout: float = CALL_SECONDS
    data: str | None = None
    experts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the kernel is called in names of runs and artifacts: `gemm/expert`."""
        return kernel_name(Path(self.kernel))

    def parameters(self) -> dict[str, Any]:
        """For the flow."""
        return {**self.__dict__, "experts": list(self.experts)}

    def job(self) -> Job:
        """The job. Raises BadRequest, OSError, KernelError, CaseError, PlatformError, StoreError."""
        path = Path(self.kernel)
        if path.suffix not in EXTENSIONS:
            raise BadRequest(f"{path}: a walk takes kernels that end in {', '.join(EXTENSIONS)}")
        if self.pairs not in CHECKPOINTS:
            raise BadRequest(f"{self.pairs} pairs: expected one of {', '.join(map(str, CHECKPOINTS))}")
        roots = Roots.find(data=Path(self.data) if self.data else None)
        surface = EXTENSIONS[path.suffix]
        chosen = platform.select(surface, self.platform)
        kernel = load(path)
        folders = catalog.roots([Path(each) for each in self.experts])
        case = catalog.find(self.case or kernel.manifest.workload, surface, folders)
        settings = Settings(platform=chosen, timeout=self.timeout, cache=roots.user / "cache", pairs=self.pairs)
        return Job(kernel, case, settings, roots, self.rewriter, self.fresh)


def kernel_name(path: Path) -> str:
    """`gemm/expert` of `experts/gemm/expert.cl`."""
    return f"{path.parent.name}/{path.stem}" if path.parent.name else path.stem
