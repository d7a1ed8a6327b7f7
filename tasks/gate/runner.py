"""Runs the gate: one kernel through all stages, with a baseline through compile and correctness beside it.

A rejected kernel is a verdict; a machine that cannot run the gate is `GateUnavailable`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import Platform, env_id, environment
from experts.verdict import (
    CompileFacts,
    Correctness,
    Domain,
    Isolation,
    Profile,
    Stage,
    Status,
    Tier,
    Verdict,
)
from skill_library.scrub import scrub
from tasks.gate import cache as caching
from tasks.gate import lock, sandbox, statistics, surfaces
from tasks.gate.cache import Cache
from tasks.gate.correctness import Checker, agenda, pages_needed
from tasks.gate.device import Artifact, Device, DeviceMissing
from tasks.gate.entries import check_entries, check_fit
from tasks.gate.lanes import LaneFault
from tasks.gate.launches import Plan, accepts, check_names, domain_shapes, plan, symbols
from tasks.gate.pages import PagesError
from tasks.gate.pool import Pool
from tasks.gate.prepare import device_of, lock_name, lowered
from tasks.gate.stand import Stand, starts_early
from tasks.gate.workers import Rejected

CALL_SECONDS = 30.0
_LOG_CHARACTERS = 4000
_FILE_BYTES = 2 << 20

Progress = Callable[[str, str, int, int], None]
"""Called with the kernel's label, what is done, how far, of how much."""


class GateUnavailable(Exception):
    """This machine cannot run the gate for this kernel; one line with the remedy."""


class HarnessFault(Exception):
    """The gate failed, not the kernel; one line. The run stops, and can be started again."""


@dataclass(frozen=True)
class Settings:
    """How to gate. Times in seconds."""

    platform: Platform
    tier: Tier = "default"
    timeout: float = CALL_SECONDS
    """For one call of the kernel at the timed shape."""
    cache: Path | None = None
    isolation: Isolation | None = None
    """None: the best this machine has."""
    profile: bool = True
    pairs: int = statistics.CHECKPOINTS[-1]
    """Of samples, at most: a comparison that is not clear by then is undecided. One of the checkpoints."""

    def untimed(self) -> Settings:
        """The same without timing."""
        return replace(self, profile=False)


@dataclass
class _Course:
    """One kernel's way through the stages, as far as it came."""

    kernel: Kernel
    case: Case
    settings: Settings
    label: str
    stage: Stage = Stage.PARSE
    seconds: dict[str, float] = field(default_factory=dict)
    isolation: Isolation | None = None
    domain: Domain | None = None
    facts: CompileFacts | None = None
    correctness: Correctness | None = None
    clean: bool | None = None
    log: str = ""
    artifact: Artifact | None = None
    cached: bool = False
    held: ExitStack = field(default_factory=ExitStack)
    """What is ended after timing."""

    @contextmanager
    def at(self, stage: Stage) -> Iterator[None]:
        """Time a stage."""
        self.stage = stage
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - begun

    def recall(self, known: Verdict) -> None:
        """Take over what was found before."""
        self.stage, self.cached = known.stage, True
        self.domain, self.facts, self.correctness = known.domain, known.compile, known.correctness
        self.clean, self.log = known.clean, known.log or ""

    def verdict(self, fault: Rejected | None = None, profile: Profile | None = None) -> Verdict:
        """What is known now."""
        log = scrub(((fault.log if fault else "") or self.log).strip()[:_LOG_CHARACTERS])
        return Verdict(
            outcome="rejected" if fault else "passed",
            stage=self.stage,
            status=fault.status if fault else Status.OK,
            reason=(" ".join(scrub(fault.reason).split()) or str(fault.status)) if fault else None,
            kernel_id=self.kernel.kernel_id,
            case=self.case.name,
            case_id=self.case.case_id,
            platform=self.settings.platform.name,
            tier=self.settings.tier,
            isolation=self.isolation,
            clean=self.clean,
            domain=self.domain,
            compile=self.facts,
            correctness=self.correctness,
            profile=profile,
            log=log or None,
            seconds={name: round(value, 3) for name, value in self.seconds.items()},
            cached=self.cached,
        )


@dataclass(frozen=True)
class Outcome:
    """Verdicts of candidate and baseline, and the environment they were reached in."""

    verdict: Verdict
    baseline: Verdict | None
    environment: dict[str, str]
    env_id: str


def gate(
    kernel: Kernel,
    case: Case,
    settings: Settings,
    baseline: Kernel | None = None,
    progress: Progress | None = None,
    *,
    ahead: Kernel | None = None,
) -> Outcome:
    """Gate a kernel, against a baseline if given; a harness error is tried once more.

    `ahead` is a kernel that is likely to be asked about next: it is compiled and checked beside this one, before
    anything is timed, and what is found is kept in the cache, where there is one.

    Raises GateUnavailable where this machine cannot do it, CaseError for a case.py that does not hold.
    """
    outcome = _gate(kernel, case, settings, baseline, progress or _silent, ahead)
    verdicts = (outcome.verdict, outcome.baseline)
    if any(verdict is not None and verdict.status is Status.HARNESS_ERROR for verdict in verdicts):
        outcome = _gate(kernel, case, settings, baseline, progress or _silent, None)
    return outcome


def _gate(
    kernel: Kernel,
    case: Case,
    settings: Settings,
    baseline: Kernel | None,
    progress: Progress,
    ahead: Kernel | None,
) -> Outcome:
    courses = [_Course(kernel, case, settings, "candidate")]
    if baseline is not None:
        courses.append(_Course(baseline, case, settings, "baseline"))
    check_room()
    pool, cache = Pool(quiet=settings.platform.gpu is None), Cache(settings.cache)
    name = lock_name(settings.platform)
    try:
        compile_only = settings.tier == "compile"
        device = device_of(settings.platform, settings.isolation, cache, compile_only=compile_only)
        facts = environment(settings.platform, device.facts)
        timed = settings.profile and not compile_only
        every = list(courses)
        with _ending(every) as made:
            stand: Stand | None = None
            with lock.held(name, "shared", lambda: progress("", "waiting for the device", 0, 0)):
                with ThreadPoolExecutor(len(courses) + 1) as threads:
                    jobs = [
                        threads.submit(_check, course, device, env_id(facts), pool, cache, progress)
                        for course in courses
                    ]
                    if (
                        ahead is not None
                        and settings.cache is not None
                        and _known(courses[0], env_id(facts), cache)[1] is None
                    ):
                        # It takes the core that a check leaves idle. What is found is for whoever asks about it.
                        beside = _Course(ahead, case, settings, "next")
                        every.append(beside)
                        threads.submit(_check, beside, device, env_id(facts), pool, cache, _silent)
                    if timed and starts_early(settings.platform):
                        # What is wrong with the launches, the checks say.
                        with suppress(Rejected):
                            stand = made.enter_context(_stand(courses, device, pool))
                        surfaces.refill(settings.platform, pool.seed(), settings.isolation)
                faults = [job.result() for job in jobs]
            profiled = None
            if timed and not any(faults):
                with lock.held(name, "exclusive", lambda: progress("", "waiting for the device", 0, 0)):
                    stand = stand or made.enter_context(_stand(courses, device, pool))
                    profiled, faults = _time(courses, stand, progress)
    except (DeviceMissing, sandbox.SandboxUnavailable, PagesError, lock.LockError) as error:
        raise GateUnavailable(str(error)) from None
    verdicts = [course.verdict(fault) for course, fault in zip(courses, faults, strict=True)]
    if profiled is not None:
        verdicts[0] = courses[0].verdict(None, profiled)
    return Outcome(verdicts[0], verdicts[1] if baseline else None, facts, env_id(facts))


@contextmanager
def _ending(courses: list[_Course]) -> Iterator[ExitStack]:
    """A stack for what lasts as long as the gate. It and what courses hold end side by side: each takes its time."""
    made = ExitStack()
    try:
        yield made
    finally:
        stacks = [made, *(course.held for course in courses)]
        with ThreadPoolExecutor(len(stacks)) as threads:
            list(threads.map(ExitStack.close, stacks))


def surroundings(settings: Settings) -> tuple[dict[str, str], str]:
    """The environment that verdicts are reached in here, and its id. Raises GateUnavailable."""
    try:
        device = device_of(settings.platform, settings.isolation, Cache(settings.cache))
    except (DeviceMissing, sandbox.SandboxUnavailable) as error:
        raise GateUnavailable(str(error)) from None
    facts = environment(settings.platform, device.facts)
    return facts, env_id(facts)


def check_room() -> None:
    """Raises GateUnavailable where the limit on file size would make a compiler or the pages fail half-way."""
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft != resource.RLIM_INFINITY and soft < _FILE_BYTES:
        raise GateUnavailable(
            f"the limit on file size is {soft} bytes; compiling needs {_FILE_BYTES} (ulimit -f {_FILE_BYTES >> 10})"
        )


def _accept(course: _Course, compute_units: int) -> list[Case]:
    """The stages that need no process, parse and require; the family shapes that the kernel accepts. Raises
    Rejected."""
    kernel, case, platform = course.kernel, course.case, course.settings.platform
    with course.at(Stage.PARSE):
        check_names(kernel, case)
        if kernel.surface not in platform.surfaces:
            raise Rejected(Status.UNSUPPORTED, f"platform {platform.name} does not run {kernel.surface} kernels")
    with course.at(Stage.REQUIRE):
        refused = accepts(kernel, symbols(kernel, case, compute_units, platform.warp))
        if refused:
            raise Rejected(Status.UNMET_REQUIRE, f"refuses {case.name}: {refused}")
        for shape in domain_shapes(case):
            refused = accepts(kernel, symbols(kernel, shape, compute_units, platform.warp))
            if refused:
                raise Rejected(
                    Status.UNMET_REQUIRE, f"refuses {shape.name}, which is in the minimal domain of the case: {refused}"
                )
        family = [case.at(dims) for dims in case.workload.family]
        accepted = [
            shape for shape in family if not accepts(kernel, symbols(kernel, shape, compute_units, platform.warp))
        ]
        course.domain = Domain(
            checked=tuple(shape.shape_name for shape in (case, *accepted)),
            refused=tuple(shape.shape_name for shape in family if shape not in accepted),
        )
    return accepted


def _check(course: _Course, device: Device, env: str, pool: Pool, cache: Cache, progress: Progress) -> Rejected | None:
    """One kernel through correctness, in fresh workers; what is wrong with it, or None."""
    try:
        family = _accept(course, device.limits.compute_units)
        course.isolation = course.settings.isolation or sandbox.isolation()
        key, known = _known(course, env, cache)
        if known is not None:
            course.recall(known)
            course.artifact = _lowered(course, env, cache)
            return None
        _correct(course, family, device, env, pool, cache, progress)
    except Rejected as fault:
        return fault
    cache.keep_verdict(key, course.verdict())
    return None


def _known(course: _Course, env: str, cache: Cache) -> tuple[str, Verdict | None]:
    """Where its verdict through correctness is kept, and that verdict."""
    kernel, case, settings = course.kernel, course.case, course.settings
    isolation = settings.isolation or sandbox.isolation()
    key = caching.key(kernel=kernel.kernel_id, case=case.case_id, env=env, tier=settings.tier, isolation=isolation)
    return key, cache.verdict(key, kernel.kernel_id, case.case_id)


def _correct(
    course: _Course, family: list[Case], device: Device, env: str, pool: Pool, cache: Cache, progress: Progress
) -> None:
    """Compile, launch, correctness, and the sanitizer where the tier asks. Raises Rejected."""
    kernel, case, settings, platform = course.kernel, course.case, course.settings, course.settings.platform
    if settings.tier == "compile":
        with course.at(Stage.COMPILE):
            _compile(course, device, env, cache)
        return
    with course.at(Stage.LAUNCH):
        nbytes = pages_needed(kernel, [case, *family], device.limits, platform.warp)
    with ExitStack() as made:
        pages, process = made.enter_context(surfaces.opened(platform, nbytes, pool.seed(), course.isolation))
        with course.at(Stage.COMPILE):
            progress(course.label, "compile", 0, 0)
            artifact, timed = _compile(course, device, env, cache)
            process.device()
            process.build(kernel, artifact)
        checker = Checker(kernel, process, pages, pool, device.limits, platform.warp)
        with course.at(Stage.LAUNCH):
            progress(course.label, "first launch", 0, 0)
            check_fit(artifact, timed, device.limits)
            process.open_pages()
            checker.first_launch(case, settings.timeout)
        with course.at(Stage.CORRECTNESS):
            course.correctness = checker.run(
                agenda(case, family, pool),
                settings.timeout,
                lambda done, total: progress(course.label, "correctness", done, total),
            )
        if process.joint:
            # It is idle, and its end would take time from the device while others are timed.
            course.held = made.pop_all()
    if settings.tier == "sanitize":
        with course.at(Stage.CORRECTNESS):
            progress(course.label, "sanitizer", 0, 0)
            tiny = case.at(case.workload.sanitize)
            surfaces.sanitize(platform, kernel, artifact, tiny, pool, device.limits, course.isolation)
            course.clean = True


def _compile(course: _Course, device: Device, env: str, cache: Cache) -> tuple[Artifact, Plan]:
    """What the kernel was compiled to and its launches at the timed shape, held against each other. Raises Rejected."""
    course.artifact = _lowered(course, env, cache)
    course.facts, course.log = course.artifact.facts, course.artifact.log
    timed = plan(course.kernel, course.case, device.limits, course.settings.platform.warp)
    check_entries(course.artifact, timed)
    return course.artifact, timed


def _lowered(course: _Course, env: str, cache: Cache) -> Artifact:
    return lowered(course.kernel, course.settings.platform, course.isolation, env, cache)


def _stand(courses: list[_Course], device: Device, pool: Pool) -> Stand:
    """Raises Rejected, PagesError, SandboxUnavailable."""
    settings = courses[0].settings
    kernels = {course.label: course.kernel for course in courses}
    return Stand(kernels, courses[0].case, device.limits, settings.platform, settings.isolation, pool)


def _time(courses: list[_Course], stand: Stand, progress: Progress) -> tuple[Profile | None, list[Rejected | None]]:
    """Time verified kernels in fresh workers; a fault belongs to the one that showed it."""
    settings = courses[0].settings
    faults: list[Rejected | None] = [None] * len(courses)
    with ExitStack() as stack:
        for course in courses:
            stack.enter_context(course.at(Stage.PROFILE))
        artifacts = [course.artifact for course in courses if course.artifact is not None]
        try:
            found = stand.time(
                artifacts, settings.timeout, settings.pairs, lambda done, total: progress("", "timing", done, total)
            )
        except LaneFault as fault:
            faults[stand.lanes.index(fault.lane)] = fault.cause
            return None, faults
    for course in courses[1:]:
        # The comparison stands in the candidate's verdict; the baseline's own ends with correctness.
        course.stage = Stage.CORRECTNESS
        course.seconds.pop(Stage.PROFILE, None)
    return found, faults


def _silent(label: str, what: str, done: int, total: int) -> None:
    return None
