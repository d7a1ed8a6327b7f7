"""From what a user asks to the job of a run; no Prefect, so that bad input is told before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experts import catalog, platform
from experts.case import Case
from experts.kernel import EXTENSIONS, Kernel, Surface, load
from skill_library.store import Library
from tasks.evidence import Roots
from tasks.gate.runner import CALL_SECONDS, Settings
from tasks.gate.statistics import CHECKPOINTS
from tasks.optimize.report import DEFAULT_ATTEMPTS
from tasks.walk.run import DEFAULT_PAIRS, Job, Rewriter

if TYPE_CHECKING:
    # They bring DSPy along, which takes a second to import, and which a gate does not need.
    from tasks.induce import run as inducing
    from tasks.optimize import optimize as optimizing
    from tasks.roundtrip import run as admission

DEMO_SHAPES = 40
"""Probed for each kernel of a step, unless the whole family is asked for."""


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
        roots = _roots(self.data)
        settings = _settings(_surface(Path(self.kernel)), self.platform, self.timeout, self.pairs, roots)
        kernel, case = _kernel(self.kernel, self.case, self.experts)
        return Job(kernel, case, settings, roots, self.rewriter, self.fresh)


@dataclass(frozen=True)
class OptimizeRequest:
    """The parameters of the flow optimize-kernel."""

    kernel: str
    case: str | None = None
    platform: str | None = None
    out: str | None = None
    cards: str | None = None
    attempts: int = DEFAULT_ATTEMPTS
    fresh: bool = False
    pairs: int = DEFAULT_PAIRS
    timeout: float = CALL_SECONDS
    data: str | None = None
    experts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the kernel is called in names of runs and artifacts: `softmax/naive`."""
        return kernel_name(Path(self.kernel))

    def parameters(self) -> dict[str, Any]:
        """For the flow."""
        return {**self.__dict__, "experts": list(self.experts)}

    def job(self) -> optimizing.Job:
        """The job. Raises BadRequest, OSError, KernelError, CaseError, PlatformError, StoreError, LibraryError."""
        from tasks.optimize import optimize as optimizing

        if self.attempts < 0:
            raise BadRequest(f"{self.attempts} attempts: expected 0 or more")
        roots = _roots(self.data)
        path = Path(self.kernel)
        settings = _settings(_surface(path), self.platform, self.timeout, self.pairs, roots)
        kernel, case = _kernel(self.kernel, self.case, self.experts)
        best = Path(self.out) if self.out else roots.user / "optimized" / f"{path.parent.name}-{path.name}"
        if best.is_dir() or best.suffix != path.suffix:
            raise BadRequest(f"{best}: expected a file that ends in {path.suffix}")
        if best.resolve() == path.resolve():
            raise BadRequest(f"{best}: the given kernel is not overwritten")
        return optimizing.Job(
            kernel, case, settings, roots, _library(self.cards, roots).skills(), best, self.attempts, self.fresh
        )


@dataclass(frozen=True)
class RoundtripRequest:
    """The parameters of the flow validate-roundtrips."""

    skills: tuple[str, ...] = ()
    platform: str | None = None
    again: bool = False
    pairs: int = DEFAULT_PAIRS
    timeout: float = CALL_SECONDS
    data: str | None = None
    experts: tuple[str, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """For the flow."""
        return {**self.__dict__, "skills": list(self.skills), "experts": list(self.experts)}

    def job(self) -> admission.Job:
        """The job. Raises BadRequest, CaseError, PlatformError, StoreError, LibraryError."""
        from tasks.roundtrip import run as admission

        roots = _roots(self.data)
        settings = replace(_settings("opencl", self.platform, self.timeout, self.pairs, roots), tier="sanitize")
        library = Library.at(roots.user)
        for name in self.skills:
            library.find(name)
        return admission.Job(settings, roots, library, _folders(self.experts), self.skills, self.again)


@dataclass(frozen=True)
class ProbeRequest:
    """The parameters of the flows probe-lineage and induce-skills."""

    lineage: str | None = None
    """The beginning of an id, or `last`; None for all that are not probed yet."""
    shapes: int | None = DEMO_SHAPES
    """For each kernel; None for the whole family."""
    platform: str | None = None
    timeout: float = CALL_SECONDS
    data: str | None = None
    experts: tuple[str, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """For the flow."""
        return {**self.__dict__, "experts": list(self.experts)}

    def job(self) -> inducing.Job:
        """The job. Raises BadRequest, CaseError, PlatformError, StoreError."""
        from tasks.induce import run as inducing

        if self.shapes is not None and self.shapes < 1:
            raise BadRequest(f"{self.shapes} shapes: expected 1 or more")
        roots = _roots(self.data)
        settings = _settings("opencl", self.platform, self.timeout, DEFAULT_PAIRS, roots)
        return inducing.Job(settings, roots, _folders(self.experts), self.lineage, self.shapes)


def _roots(data: str | None) -> Roots:
    return Roots.find(data=Path(data) if data else None)


def _folders(experts: tuple[str, ...]) -> tuple[Path, ...]:
    return catalog.roots([Path(each) for each in experts])


def _library(cards: str | None, roots: Roots) -> Library:
    if cards is None:
        return Library.at(roots.user)
    if not Path(cards).is_dir():
        raise BadRequest(f"the folder of skills {cards} does not exist")
    return Library((Path(cards),))


def _surface(path: Path) -> Surface:
    if path.suffix not in EXTENSIONS:
        raise BadRequest(f"{path}: expected a kernel that ends in {', '.join(EXTENSIONS)}")
    return EXTENSIONS[path.suffix]


def _settings(surface: Surface, name: str | None, timeout: float, pairs: int, roots: Roots) -> Settings:
    if pairs not in CHECKPOINTS:
        raise BadRequest(f"{pairs} pairs: expected one of {', '.join(map(str, CHECKPOINTS))}")
    chosen = platform.select(surface, name)
    return Settings(platform=chosen, timeout=timeout, cache=roots.user / "cache", pairs=pairs)


def _kernel(file: str, case: str | None, experts: tuple[str, ...]) -> tuple[Kernel, Case]:
    kernel = load(Path(file))
    return kernel, catalog.find(case or kernel.manifest.workload, kernel.surface, _folders(experts))


def kernel_name(path: Path) -> str:
    """`gemm/expert` of `experts/gemm/expert.cl`."""
    return f"{path.parent.name}/{path.stem}" if path.parent.name else path.stem
