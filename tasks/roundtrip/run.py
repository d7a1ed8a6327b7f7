"""A run of admission over a library: every candidate that is not decided for this platform, with its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from experts import catalog
from experts.case import Case, CaseError
from experts.verdict import GATE_VERSION
from skill_library.records import kernel_row, run_id
from skill_library.skill import Skill
from skill_library.store import Library
from tasks import runs
from tasks.evidence import Evidence, Roots
from tasks.gate.runner import Settings, surroundings
from tasks.induce.steps import Known
from tasks.materialize import Bench
from tasks.probe.run import on_stand
from tasks.rewrite.edit import Edit, Rule
from tasks.rewrite.rules import RULES, RULES_VERSION
from tasks.roundtrip.held_out import HeldOut, subsets
from tasks.roundtrip.negative import deny
from tasks.roundtrip.report import Decision
from tasks.roundtrip.roundtrip import POSITIVES, Admission, Negative
from tasks.trials import Desk
from tasks.walk.walk import Submit

STATES = 5
"""Held-out states that are looked at for a skill."""


@dataclass(frozen=True)
class Job:
    """What to decide, and how."""

    settings: Settings
    """With the sanitizer: what is admitted is clean."""
    roots: Roots
    library: Library
    folders: tuple[Path, ...]
    names: tuple[str, ...] = ()
    """Skills by name; all that are not decided here for none."""
    again: bool = False
    """Decide those, too, that were decided by this gate on this platform."""
    rules: Sequence[Rule] = RULES


def due(job: Job) -> list[Skill]:
    """The skills that a run decides. Raises LibraryError."""
    skills = [job.library.find(name) for name in job.names] or list(job.library.skills())
    platform = job.settings.platform

    def decided(skill: Skill) -> bool:
        found = skill.verification
        here = found.standing != "candidate" and platform.name in found.platforms
        return here and found.gate_version == GATE_VERSION

    surfaces = [each for each in skills if each.scope.surface in platform.surfaces]
    return [each for each in surfaces if job.again or job.names or not decided(each)]


@dataclass(frozen=True)
class Office:
    """One skill's run, held by this process alone."""

    job: Job
    run_id: str
    repetition: int
    env_id: str
    evidence: Evidence

    def desk(self, case: Case) -> Desk:
        """Where trials at a case are gated."""
        return Desk(self.evidence, case, self.job.settings, self.run_id, self.repetition)


@contextmanager
def opened(job: Job, skill: Skill) -> Iterator[Office]:
    """The office of one skill's run. Raises Busy, GateUnavailable, StoreError, LockError."""
    _, env_id = surroundings(job.settings)
    identity = run_id(
        "roundtrip",
        kernel_id=skill.skill_id,
        case_id=skill.skill_id,
        env_id=env_id,
        configuration={
            "rules": RULES_VERSION,
            "tier": job.settings.tier,
            "pairs": job.settings.pairs,
            "timeout": job.settings.timeout,
            "platform": job.settings.platform.name,
        },
    )
    with runs.held("roundtrip", identity, job.roots, "roundtrips", fresh=job.again) as (evidence, repetition):
        yield Office(job, identity, repetition, env_id, evidence)


def decide(office: Office, skill: Skill, known: Known, submit_of: Callable[[Desk], Submit]) -> tuple[Decision, int]:
    """One skill through its trials; its card and rows are kept. Raises what trials raise."""
    job = office.job
    cases: dict[str, Case] = {}

    def case_of(name: str) -> Case:
        if name not in cases:
            cases[name] = catalog.find(name, skill.scope.surface, job.folders)
        return cases[name]

    def denied(state: HeldOut, edit: Edit, tried: Skill) -> Negative:
        with on_stand(job.settings) as stand:
            return deny(state, edit, tried, case_of(state.case), stand)

    admission = Admission(
        skill=skill,
        run_id=office.run_id,
        repetition=office.repetition,
        platform=job.settings.platform.name,
        env_id=office.env_id,
        bench=lambda case: Bench(case, job.settings.platform, job.rules),
        case_of=case_of,
        submit=lambda case: submit_of(office.desk(case)),
        deny=denied,
    )
    states = list(islice(_states(skill, known, case_of), STATES))
    verification, rows, gated = admission.decide(states)
    tried = {row.state_id for row in rows}
    # A state that was only denied the skill was never gated, and is named all the same.
    office.evidence.append(*(kernel_row(each.kernel) for each in states if each.kernel.kernel_id in tried))
    runs.keep_new(office.evidence, rows)
    decision = Decision(
        skill=skill.name,
        skill_id=skill.skill_id,
        before=skill.verification.standing,
        standing=verification.standing,
        reason=verification.reason,
        trials=verification.trials,
    )
    job.library.keep([skill.model_copy(update={"verification": verification})])
    return decision, gated


def _states(skill: Skill, known: Known, case_of: Callable[[str], Case]) -> Iterator[HeldOut]:
    """Held-out states of a skill, those of the steps that gave most first."""
    steps = [each for each in known.transitions() if each.transition_id in skill.evidence.transitions]
    for each in sorted(steps, key=lambda step: -(step.row["ratio"] or 0.0)):
        expert, removals, gated = known.lineage(each)
        try:
            case_of(each.row["case"])
        except CaseError:
            continue
        if expert is not None:
            yield from islice(subsets(expert, removals, each.transition_id, each.row["case"], gated), POSITIVES)
