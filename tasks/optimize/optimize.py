"""The loop: the best offer is gated against the best so far, and kept where it is faster beyond doubt.

Every gate is a row before the loop moves on; killed and started again, it goes on from the rows. The best kernel so far
is on disk at every moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from experts.case import Case
from experts.kernel import Kernel
from experts.verdict import Effect
from skill_library.records import run_id
from skill_library.retrieval import Query, Retrieved, retrieve
from skill_library.skill import Skill
from tasks import runs
from tasks.evidence import Roots
from tasks.evidence.files import make_folder, put_in_place, write_temporary
from tasks.gate.runner import HarnessFault, Settings, surroundings
from tasks.materialize import Bench, Refused
from tasks.optimize.candidates import Candidate, offers
from tasks.optimize.report import (
    DEFAULT_ATTEMPTS,
    Attempt,
    KernelInvalid,
    OptimizeReport,
    RefusedSkill,
    Speedup,
)
from tasks.rewrite.edit import Rule
from tasks.rewrite.rules import RULES, RULES_VERSION
from tasks.trials import Desk, Trial, Tried
from tasks.walk.walk import Submit, standing


@dataclass(frozen=True)
class Job:
    """What to make faster, and with what."""

    kernel: Kernel
    case: Case
    settings: Settings
    roots: Roots
    skills: tuple[Skill, ...]
    best: Path
    """Where the best kernel is kept."""
    attempts: int = DEFAULT_ATTEMPTS
    """Candidates to gate, at most."""
    fresh: bool = False
    rules: Sequence[Rule] = RULES


@contextmanager
def opened(job: Job) -> Iterator[Desk]:
    """The desk of a run, held by this process alone. Raises Busy, GateUnavailable, StoreError, LockError."""
    _, env_id = surroundings(job.settings)
    identity = run_id(
        "optimize",
        kernel_id=job.kernel.kernel_id,
        case_id=job.case.case_id,
        env_id=env_id,
        configuration={
            "skills": sorted(skill.skill_id for skill in job.skills),
            "rules": RULES_VERSION,
            "tier": job.settings.tier,
            "timeout": job.settings.timeout,
            "pairs": job.settings.pairs,
            "platform": job.settings.platform.name,
        },
    )
    with runs.held("optimize", identity, job.roots, "attempts", fresh=job.fresh) as (evidence, repetition):
        yield Desk(evidence, job.case, job.settings, identity, repetition)


@dataclass
class _State:
    """How far it came."""

    best: Kernel
    made: tuple[str, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)
    refused: dict[tuple[str, str, str], Refused] = field(default_factory=dict)
    gated: int = 0
    tried: set[str] = field(default_factory=set)


def optimize(job: Job, desk: Desk, submit: Submit, told: Callable[[str], None] = lambda text: None) -> OptimizeReport:
    """Make a kernel faster. Raises KernelInvalid, and what trials raise."""
    state = _State(job.kernel)
    _keep(job.best, job.kernel)
    first = submit(Trial("optimize", job.kernel, timed=False, label="given")).result()
    state.gated += not first.recorded
    if not first.accepted:
        row = first.row
        raise KernelInvalid(f"{row['status']} at {row['stage']}: {row['reason']}")
    retrieved, ended = _climb(job, state, submit, told)
    return OptimizeReport(
        run_id=desk.run_id,
        kernel_id=job.kernel.kernel_id,
        case=job.case.name,
        platform=job.settings.platform.name,
        best=str(job.best),
        best_id=state.best.kernel_id,
        speedup=_speedup(job, state, submit),
        skills=state.made,
        attempts=tuple(state.attempts),
        gated=state.gated,
        refused=tuple(
            RefusedSkill(skill=each.skill.name, anchor=each.edit.anchor, unmet=each.unmet, reason=each.reason)
            for each in state.refused.values()
        ),
        library=len(retrieved.speed) + len(retrieved.enablers),
        ended=ended,
        spent_usd=0.0,
    )


def _climb(job: Job, state: _State, submit: Submit, told: Callable[[str], None]) -> tuple[Retrieved, str]:
    """Until nothing more helps."""
    while True:
        stands = standing(state.best, job.rules)
        query = Query(
            state.best.text,
            job.case.workload.name,
            job.case.name,
            state.best.surface,
            job.settings.platform.name,
            stands,
        )
        retrieved = retrieve(job.skills, query)
        bench = Bench(job.case, job.settings.platform, job.rules, standing=stands)
        found = offers(state.best, retrieved, query, bench)
        for each in found.refused:
            state.refused[each.skill.name, each.edit.anchor, each.reason] = each
        open_ = [each for each in found.candidates if each.kernel.kernel_id not in state.tried]
        if not open_:
            return retrieved, "nothing more helps" if state.attempts else "no skill applies"
        told(f"{len(open_)} candidates")
        kept = False
        for number, candidate in enumerate(open_):
            if len(state.attempts) >= job.attempts:
                return retrieved, "attempts spent"
            following = open_[number + 1].kernel if number + 1 < len(open_) else None
            if kept := _attempt(job, state, candidate, following, submit):
                break
        if not kept:
            return retrieved, "nothing more helps"


def _attempt(job: Job, state: _State, candidate: Candidate, following: Kernel | None, submit: Submit) -> bool:
    """Gate a candidate against the best so far; whether it is the best now."""
    parent = state.best
    state.tried.add(candidate.kernel.kernel_id)
    trial = Trial(
        "optimize",
        candidate.kernel,
        parent,
        parent,
        candidate.made[-1].edit,
        ahead=following,
        label=f"try-{len(state.attempts) + 1:02d} {candidate.label}",
        narrows=True,
        writer={
            "skills": [{"name": each.skill.name, "skill_id": each.skill.skill_id} for each in candidate.made],
            "edits": [each.edit.record() for each in candidate.made],
        },
    )
    tried = submit(trial).result()
    state.gated += not tried.recorded
    kept = tried.accepted and tried.row["effect"] == Effect.FASTER
    state.attempts.append(_report(candidate, tried, parent, kept))
    if kept:
        state.best = candidate.kernel
        state.made += tuple(each.skill.name for each in candidate.made)
        _keep(job.best, state.best)
    return kept


def _report(candidate: Candidate, tried: Tried, parent: Kernel, kept: bool) -> Attempt:
    row = tried.row
    return Attempt(
        skills=tuple(each.skill.name for each in candidate.made),
        edits=tuple(each.edit.record() for each in candidate.made),
        required=tuple(dict.fromkeys(text for each in candidate.made for text in each.required)),
        status=row["status"],
        reason=row["reason"],
        effect=row["effect"],
        ratio=row["ratio"],
        low=row["low"],
        high=row["high"],
        kept=kept,
        kernel_id=candidate.kernel.kernel_id,
        parent_id=parent.kernel_id,
        attempt_id=tried.attempt_id,
    )


def _speedup(job: Job, state: _State, submit: Submit) -> Speedup:
    """The best against the given, in one comparison: products of steps would multiply their errors."""
    if state.best.kernel_id == job.kernel.kernel_id:
        return Speedup(ratio=1.0, low=1.0, high=1.0)
    only = [each for each in state.attempts if each.kept]
    if len(only) == 1 and only[0].ratio is not None and only[0].low is not None and only[0].high is not None:
        return Speedup(ratio=only[0].ratio, low=only[0].low, high=only[0].high)
    trial = Trial(
        "optimize",
        state.best,
        job.kernel,
        job.kernel,
        label="best against given",
        narrows=True,
        writer={"skills": list(state.made)},
    )
    tried = submit(trial).result()
    state.gated += not tried.recorded
    row = tried.row
    if row["ratio"] is None:
        raise HarnessFault(f"the best kernel passed step by step, and is {row['status']} now: {row['reason']}")
    return Speedup(ratio=row["ratio"], low=row["low"], high=row["high"])


def _keep(path: Path, kernel: Kernel) -> None:
    """Put a kernel's text in the file, whole or not at all. Raises OSError."""
    make_folder(path.parent)
    put_in_place(write_temporary(path, kernel.text.encode()), path)
