"""Which skills to try on a kernel, best first.

Scope filter: skills of the kernel's surface that are admitted. Of those the union of the best `top` along each
dimension of scope: case, surface, platform, prior actions, by what was verified there, not by what is declared; and
what those come after.
Preconditions are asked at the place (tasks/materialize.py), not here. Where a language model is in the DSPy context it
orders what the filter left; it adds nothing and drops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import dspy

from experts.kernel import Surface
from skill_library.skill import ContextEffect, Skill

TOP = 8


@dataclass(frozen=True)
class Query:
    """What is to be made faster, and where."""

    text: str
    """The kernel."""
    workload: str
    case: str
    surface: Surface
    platform: str
    standing: Collection[str]
    """Intents that already stand in it."""


@dataclass(frozen=True)
class Retrieved:
    """Skills in the order in which they are worth trying."""

    speed: tuple[Skill, ...]
    """Faster somewhere."""
    enablers: tuple[Skill, ...]
    """Flat by themselves: others may need them."""


def retrieve(skills: Sequence[Skill], query: Query, top: int = TOP) -> Retrieved:
    """The skills for a kernel; nothing where the library has none."""
    known = [each for each in skills if each.scope.surface == query.surface]
    known = [each for each in known if each.verification.standing == "admitted"]
    chosen: dict[str, Skill] = {}
    for score in _dimensions(query):
        best = sorted((each for each in known if score(each) > 0), key=lambda each: (-score(each), each.name))
        chosen.update({each.name: each for each in best[:top]})
    # What others come after is worth nothing by itself, and is what they need.
    while more := [each for each in known if each.name not in chosen and _needed(each, chosen.values())]:
        chosen.update({each.name: each for each in more})
    ordered = sorted(chosen.values(), key=lambda each: (-worth(each, query), each.name))
    ranked = Rank()(tuple(ordered), query)
    return Retrieved(
        speed=tuple(each for each in ranked if each.speeds_up),
        enablers=tuple(each for each in ranked if not each.speeds_up),
    )


def _needed(skill: Skill, others: Iterable[Skill]) -> bool:
    return any(skill.intent in other.scope.prior for other in others)


def worth(skill: Skill, query: Query) -> float:
    """What the skill promises here: the lower end of its effect in the most similar context that was measured."""
    if not skill.effects:
        return 1.0
    return max(skill.effects, key=lambda each: (_similar(each, query), each.low)).low


def _similar(effect: ContextEffect, query: Query) -> tuple[bool, bool, int]:
    """The platform counts first, then the workload, then how few optimizations differ."""
    differing = len(set(effect.standing) ^ set(query.standing))
    return effect.platform == query.platform, effect.workload == query.workload, -differing


def _dimensions(query: Query) -> tuple[Callable[[Skill], float], ...]:
    def by_case(skill: Skill) -> float:
        here = [each.low for each in skill.effects if each.case == query.case]
        near = [each.low for each in skill.effects if each.workload == query.workload]
        return 1 + max(here) if here else max(near, default=0.0)

    def by_surface(skill: Skill) -> float:
        return max((each.low for each in skill.effects), default=0.0)

    def by_platform(skill: Skill) -> float:
        return max((each.low for each in skill.effects if each.platform == query.platform), default=0.0)

    def by_prior(skill: Skill) -> float:
        ready = set(skill.scope.prior) <= set(query.standing)
        return max((each.low for each in skill.effects), default=0.0) if ready else 0.0

    return by_case, by_surface, by_platform, by_prior


class RankSkills(dspy.Signature):  # type: ignore[misc]
    """Order GPU kernel optimizations by how much each is likely to speed up this kernel, best first."""

    kernel: str = dspy.InputField(desc="the kernel's source")
    case: str = dspy.InputField(desc="workload, sizes, surface and platform")
    skills: str = dspy.InputField(desc="one skill a line: name, when it is sound, what it was worth")
    order: list[str] = dspy.OutputField(desc="names of the skills, best first")


class Rank(dspy.Module):  # type: ignore[misc]
    """Orders skills: by the LM in the DSPy context, or as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.rank = dspy.Predict(RankSkills)

    def forward(self, skills: tuple[Skill, ...], query: Query) -> tuple[Skill, ...]:
        """The same skills in another order; what the answer does not name keeps its place behind."""
        if dspy.settings.lm is None or len(skills) < 2:
            return skills
        answer = self.rank(
            kernel=query.text,
            case=f"{query.case}, {query.surface} on {query.platform}",
            skills="\n".join(f"{each.name}: {each.when}" for each in skills),
        )
        named = {name: place for place, name in reversed(list(enumerate(answer.order or [])))}
        return tuple(sorted(skills, key=lambda each: named.get(each.name, len(named))))

    def __call__(self, skills: tuple[Skill, ...], query: Query) -> tuple[Skill, ...]:
        """See forward."""
        return cast(tuple[Skill, ...], super().__call__(skills=skills, query=query))


def search(skills: Sequence[Skill], words: str) -> tuple[Skill, ...]:
    """The skills whose cards hold every word, those with more of them in name and intent first."""
    wanted = words.lower().split()

    def text(skill: Skill) -> str:
        scope = " ".join((*skill.scope.workloads, *skill.scope.platforms, *skill.scope.prior, skill.scope.surface))
        conditions = " ".join(each.text for each in skill.preconditions.all_of)
        return f"{skill.name} {skill.intent} {skill.meaning} {skill.when} {scope} {conditions}".lower()

    found = [each for each in skills if all(word in text(each) for word in wanted)]
    return tuple(sorted(found, key=lambda each: (-sum(word in each.name for word in wanted), each.name)))
