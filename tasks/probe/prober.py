"""Runs one kernel over shapes, and says what came of each: what is rejected here is an answer, not an error."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import Platform
from experts.verdict import Isolation, Stage, Status
from tasks.gate.cache import Cache
from tasks.gate.correctness import Tried, item_bytes
from tasks.gate.device import Artifact, Device
from tasks.gate.entries import check_entries, check_fit
from tasks.gate.launches import check_names, plan
from tasks.gate.pool import Pool
from tasks.gate.prepare import lowered
from tasks.gate.sanitize import Sanitizer
from tasks.gate.workers import Rejected
from tasks.probe.shapes import Shape
from tasks.probe.stations import Binary, Line, NativeStation, Station, Unbuilt

SECONDS = 10.0
"""For one call, at the most: shapes are small."""
_SECOND_BYTES = 256 << 10
"""A case with so little in its tensors is tried on a second distribution."""
_LOG_CHARACTERS = 4000
_AFTER_THE_CALL = frozenset(
    (
        Status.WRONG_VALUE,
        Status.UNWRITTEN_OUTPUT,
        Status.OUT_OF_BOUNDS,
        Status.INPUT_MUTATED,
        Status.NONDETERMINISTIC,
        Status.RACE,
    )
)


@dataclass(frozen=True)
class Finding:
    """What came of one shape."""

    shape: Shape
    stage: Stage
    status: Status
    reason: str | None = None
    """One line; None where it passed."""
    error: float | None = None
    """Largest error as a share of its bound; None where it did not pass."""
    clean: bool | None = None
    """The sanitizer found nothing; None where it did not run to the end."""
    log: str | None = None

    @property
    def passed(self) -> bool:
        return self.status is Status.OK


@dataclass(frozen=True)
class Stand:
    """What the probes of one run share."""

    platform: Platform
    isolation: Isolation
    device: Device
    env_id: str
    pool: Pool
    """Both kernels of a transition see the same inputs."""
    cache: Cache
    seconds: float = SECONDS


def probe(kernel: Kernel, case: Case, shapes: Sequence[Shape], stand: Stand) -> Generator[Finding, None, None]:
    """Findings in no particular order, each as soon as it is known.

    Raises HarnessFault where the gate fails twice, DeviceMissing, SandboxUnavailable, PagesError, and CaseError for a
    case.py that does not hold.
    """
    if not shapes:
        return
    stage = Stage.PARSE
    try:
        check_names(kernel, case)
        stage = Stage.COMPILE
        artifact = lowered(kernel, stand.platform, stand.isolation, stand.env_id, stand.cache)
    except Rejected as fault:
        yield from (_rejected(shape, stage, fault) for shape in shapes)
        return
    for tier in ("default", "sanitize"):
        planned: list[_Planned] = []
        for shape in shapes:
            if shape.tier == tier:
                found = _plan(kernel, case, shape, artifact, stand)
                if isinstance(found, Finding):
                    yield found
                else:
                    planned.append(found)
        if planned:
            yield from _run(kernel, artifact, planned, tier == "sanitize", stand)


@dataclass(frozen=True)
class _Planned:
    shape: Shape
    items: tuple[Tried, ...]
    nbytes: int


def _plan(kernel: Kernel, case: Case, shape: Shape, artifact: Artifact, stand: Stand) -> _Planned | Finding:
    """What to run at this shape, or why nothing can be launched there."""
    bound = case.at(shape.dims)
    first, *others = bound.workload.distributions
    names = [first]
    if others and shape.tier == "default" and sum(tensor.nbytes for tensor in bound.tensors) <= _SECOND_BYTES:
        # Not at random: both kernels get the same.
        names.append(others[sum(shape.dims.values()) % len(others)])
    items = tuple(Tried(bound, name, offsets=shape.offsets) for name in names)
    limits, warp = stand.device.limits, stand.platform.warp
    stage = Stage.LAUNCH
    try:
        launches = plan(kernel, bound, limits, warp)
        stage = Stage.COMPILE
        check_entries(artifact, launches)
        stage = Stage.LAUNCH
        check_fit(artifact, launches, limits)
        return _Planned(shape, items, max(item_bytes(kernel, item, limits, warp) for item in items))
    except Rejected as fault:
        return _rejected(shape, stage, fault)


def _run(
    kernel: Kernel, artifact: Artifact, planned: Sequence[_Planned], sanitized: bool, stand: Stand
) -> Generator[Finding, None, None]:
    nbytes = max(each.nbytes for each in planned)
    limits, platform = stand.device.limits, stand.platform
    binary = Binary(artifact)

    def start() -> Station:
        if sanitized:
            return Sanitizer(kernel, nbytes, stand.pool, limits, stand.isolation, platform.warp)
        return NativeStation(kernel, binary, nbytes, stand.pool, limits, platform, stand.isolation, stand.seconds)

    with Line(start, len(planned)) as line:
        for number, each in enumerate(planned):
            try:
                error = line.check(each.items)
            except Unbuilt as unbuilt:
                yield from (_rejected(other.shape, Stage.COMPILE, unbuilt.cause) for other in planned[number:])
                return
            except Rejected as fault:
                stage = Stage.CORRECTNESS if fault.status in _AFTER_THE_CALL else Stage.LAUNCH
                yield _rejected(each.shape, stage, fault)
            else:
                yield Finding(each.shape, Stage.CORRECTNESS, Status.OK, error=error, clean=True if sanitized else None)


def _rejected(shape: Shape, stage: Stage, fault: Rejected) -> Finding:
    clean = None
    if shape.tier == "sanitize" and stage is Stage.CORRECTNESS:
        clean = fault.status not in (Status.OUT_OF_BOUNDS, Status.RACE)
    return Finding(
        shape,
        stage,
        fault.status,
        " ".join(fault.reason.split()) or str(fault.status),
        clean=clean,
        log=fault.log.strip()[:_LOG_CHARACTERS] or None,
    )
