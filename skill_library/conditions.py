"""Whether a skill is sound at a place: its preconditions asked of the place's facts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import Platform
from experts.verdict import CompileFacts
from skill_library.facts import Place, Scalar, facts_at
from skill_library.predicates import Facts, Unmet, unmet
from skill_library.skill import Skill


def holds(
    skill: Skill,
    kernel: Kernel,
    anchor: str,
    case: Case,
    platform: Platform,
    report: CompileFacts | None = None,
    *,
    params: Mapping[str, Scalar] = MappingProxyType({}),
    offsets: Mapping[str, int] = MappingProxyType({}),
    standing: Collection[str] = (),
) -> tuple[Unmet, ...]:
    """What keeps a skill from being sound at an anchor of a kernel; empty where it is.

    `params` are those of the forward edit (its width, its value), `offsets` the bytes that tensors start behind their
    alignment, `standing` the intents that stand in the kernel. A fact that is missing is unmet: unknown.
    """
    place = Place(kernel, anchor, dict(params))
    facts = facts_at(place, case, platform, offsets=offsets, report=report, standing=standing)
    return unmet_of(skill, facts)


def unmet_of(skill: Skill, facts: Facts) -> tuple[Unmet, ...]:
    """The same of facts that are known already."""
    return tuple(fault for each in skill.preconditions.all_of for fault in unmet(each.predicate, facts))
