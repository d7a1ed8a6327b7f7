"""Candidate skills from everything that the evidence has: grouped by intent and rule, conditions learned, lifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experts import catalog
from experts.case import Case, CaseError
from experts.platform import PlatformError, named
from skill_library.abstraction import lift, name_of
from skill_library.skill import Skill, Verification
from skill_library.store import Library
from tasks.induce.conditions import Samples, learned, samples
from tasks.induce.report import InducedSkill, InduceReport
from tasks.induce.steps import Known, Transition, groups


def induce(known: Known, library: Library, folders: Sequence[Path]) -> InduceReport:
    """Lift every step of the evidence, and keep the cards that are new or changed.

    A card keeps its verification as long as what it claims is the same. Raises LibraryError, and what the LM in the
    DSPy context raises.
    """
    readable: list[tuple[Transition, Case]] = []
    transitions = known.transitions()
    for each in transitions:
        case = case_of(each, folders)
        if case is not None:
            readable.append((each, case))
    cases = {each.transition_id: case for each, case in readable}
    grouped = groups([each for each, _ in readable])
    carriers = Counter(intent for intent, _, _ in grouped)
    before = {skill.name: skill for skill in library.skills()}
    found = []
    for (intent, rule, _), members in grouped.items():
        sampled = [(each, _samples(known, each, cases[each.transition_id])) for each in members]
        steps = [known.step(each, cases[each.transition_id].dtype) for each in members]
        skill = lift(name_of(intent, rule, carriers[intent]), steps, learned(sampled))
        old = before.get(skill.name)
        same = old is not None and old.skill_id == skill.skill_id
        if old is not None and same:
            skill = skill.model_copy(update={"verification": old.verification})
        else:
            skill = skill.model_copy(update={"verification": Verification()})
            library.keep([skill])
        found.append(_line(skill, not same))
    return InduceReport(
        skills=tuple(sorted(found, key=lambda each: each.name)),
        transitions=len(transitions),
        unreadable=len(transitions) - len(readable),
    )


def case_of(transition: Transition, folders: Sequence[Path]) -> Case | None:
    """The case of a step; None where its workload is not here."""
    try:
        return catalog.find(transition.row["case"], transition.simplified.surface, folders)
    except CaseError:
        return None


def _samples(known: Known, transition: Transition, case: Case) -> Samples:
    found = Samples()
    probes = known.probes(transition.transition_id)
    for name in sorted({row["platform"] for row in probes}):
        try:
            platform = named(name)
        except PlatformError:
            continue
        here = samples(transition, probes, case, platform)
        found.told += here.told
        found.masked += here.masked
    return found


def _line(skill: Skill, changed: bool) -> InducedSkill:
    return InducedSkill(
        name=skill.name,
        intent=skill.intent,
        skill_id=skill.skill_id,
        steps=len(skill.evidence.transitions),
        conditions=skill.preconditions.kind,
        preconditions=tuple(each.text for each in skill.preconditions.all_of),
        prior=skill.scope.prior,
        speeds_up=skill.speeds_up,
        standing=skill.verification.standing,
        changed=changed,
    )
