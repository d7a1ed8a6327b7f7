"""One run of probes: two kernels of a transition over one family of shapes, on two threads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import env_id, environment
from skill_library.records import run_id
from tasks import runs
from tasks.evidence import Roots
from tasks.gate import lock, sandbox
from tasks.gate.cache import Cache
from tasks.gate.device import DeviceMissing
from tasks.gate.pages import PagesError
from tasks.gate.pool import Pool
from tasks.gate.prepare import device_of, lock_name
from tasks.gate.runner import GateUnavailable, Settings, check_room, surroundings
from tasks.probe.desk import Desk
from tasks.probe.prober import SECONDS, Stand, probe
from tasks.probe.report import ProbeReport, counts, differences
from tasks.probe.shapes import Shape, shapes

PROBES_VERSION = 1
"""Rises when the family of shapes, or what is done at one, changes."""

Told = Callable[[str, int, int], None]
"""Called with a kernel's label, probes done, and how many there are."""


class Interrupted(Exception):
    """The other kernel's probes failed: these were given up."""


@dataclass(frozen=True)
class Job:
    """What to probe, and how."""

    above: Kernel
    """With the optimization."""
    simplified: Kernel
    """Without it."""
    case: Case
    """Names workload and dtype; the family is built around the workload's `sanitize` shape."""
    settings: Settings
    roots: Roots
    transition_id: str | None = None
    intent: str | None = None
    budget: int | None = None
    """Shapes for each kernel; None for the whole family."""
    also: tuple[Shape, ...] = ()
    """Shapes beside the family's; the rows of one run with the others."""
    fresh: bool = False
    """Repeat a run that the evidence has, instead of going on with it."""


@contextmanager
def opened(job: Job) -> Iterator[Desk]:
    """The desk of a run, held by this process alone. Raises Busy, GateUnavailable, StoreError, LockError."""
    _, env = surroundings(job.settings)
    identity = run_id(
        "probe",
        kernel_id=job.above.kernel_id,
        case_id=job.case.case_id,
        env_id=env,
        configuration={
            "simplified": job.simplified.kernel_id,
            "transition": job.transition_id,
            "budget": job.budget,
            "version": PROBES_VERSION,
            "timeout": min(job.settings.timeout, SECONDS),
            "platform": job.settings.platform.name,
        },
    )
    with runs.held("probe", identity, job.roots, "probes", fresh=job.fresh) as (evidence, repetition):
        yield Desk(evidence, job.case, identity, repetition, job.transition_id, job.intent)


def run(job: Job, desk: Desk, told: Told = lambda label, done, total: None) -> ProbeReport:
    """Probe what the evidence lacks, and report on all of it.

    Raises NotApplicable where a kernel does not come apart at its [require], HarnessFault, GateUnavailable, CaseError,
    StoreError.
    """
    family = list(dict.fromkeys((*shapes(job.case, job.budget), *job.also)))
    originals = {"above": job.above, "simplified": job.simplified}
    copies = {label: desk.begin(kernel) for label, kernel in originals.items()}
    # Kernels that differ in their [require] only have one copy.
    labels = ["above"] if copies["above"] == copies["simplified"] else list(copies)
    todo = {label: _missing(desk, copies[label], family) for label in labels}
    if any(todo.values()):
        with on_stand(job.settings) as stand:
            crew = _Crew(desk, stand, told, len(family))
            with ThreadPoolExecutor(len(labels)) as threads:
                jobs = [
                    threads.submit(crew.work, label, originals[label], copies[label], todo[label]) for label in labels
                ]
                try:
                    wait(jobs)
                except BaseException:
                    # Somebody wants to go: the threads are not to probe on to their ends.
                    crew.stop()
                    raise
            failed = [fault for fault in (each.exception() for each in jobs) if fault is not None]
            for fault in sorted(failed, key=lambda fault: isinstance(fault, Interrupted)):
                raise fault
    probed = {label: desk.known(copies[label], family) for label in originals}
    return ProbeReport(
        run_id=desk.run_id,
        repetition=desk.repetition,
        transition_id=job.transition_id,
        intent=job.intent,
        case=job.case.name,
        platform=job.settings.platform.name,
        above=counts(job.above, copies["above"], probed["above"]),
        simplified=counts(job.simplified, copies["simplified"], probed["simplified"]),
        differ=differences(probed["above"], probed["simplified"]),
        ran=sum(map(len, todo.values())),
    )


def _missing(desk: Desk, copy: Kernel, family: Sequence[Shape]) -> list[Shape]:
    known = {each.shape for each in desk.known(copy, family)}
    return [shape for shape in family if shape not in known]


@contextmanager
def on_stand(settings: Settings) -> Iterator[Stand]:
    """What probes share, with the device held beside others that do not time. Raises GateUnavailable, LockError."""
    check_room()
    cache = Cache(settings.cache)
    try:
        with lock.held(lock_name(settings.platform), "shared"):
            device = device_of(settings.platform, settings.isolation, cache)
            yield Stand(
                platform=settings.platform,
                isolation=settings.isolation or sandbox.isolation(),
                device=device,
                env_id=env_id(environment(settings.platform, device.facts)),
                pool=Pool(),
                cache=cache,
                seconds=min(settings.timeout, SECONDS),
            )
    except (DeviceMissing, sandbox.SandboxUnavailable, PagesError) as error:
        raise GateUnavailable(str(error)) from None


class _Crew:
    """Two threads on one desk; where one fails, the other stops at its next shape."""

    def __init__(self, desk: Desk, stand: Stand, told: Told, total: int) -> None:
        self._desk, self._stand, self._told, self._total = desk, stand, told, total
        self._stopped = False

    def stop(self) -> None:
        """Both end before their next shape."""
        self._stopped = True

    def work(self, label: str, original: Kernel, copy: Kernel, todo: Sequence[Shape]) -> None:
        """Probe one kernel, and keep each row at once."""
        try:
            done = self._total - len(todo)
            with closing(probe(copy, self._desk.case, todo, self._stand)) as findings:
                for finding in findings:
                    if self._stopped:
                        raise Interrupted(label)
                    self._desk.keep(original, copy, finding, self._stand)
                    done += 1
                    self._told(label, done, self._total)
        except BaseException:
            self.stop()
            raise
