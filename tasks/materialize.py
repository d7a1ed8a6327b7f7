"""A skill on a kernel: at each place that its rule finds, whether it is sound there, and the kernel that it gives.

Preconditions are asked about the place at the case's dimensions, and stated in the new kernel's [require], so that no
other shape meets it unasked; where the case demands shapes that the requirement would refuse, the skill is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experts.case import Case
from experts.kernel import Kernel
from experts.platform import Platform
from skill_library.conditions import unmet_of
from skill_library.facts import Place, divisibility_terms, expressions_at, facts_at
from skill_library.predicates import Facts, Unmet, atoms
from skill_library.requirements import state_as_requirement
from skill_library.skill import Skill
from tasks.gate.launches import accepts, domain_shapes, symbols
from tasks.rewrite.carry import asked
from tasks.rewrite.edit import Edit, NotApplicable, Rule
from tasks.rewrite.manifest import with_requirement
from tasks.rewrite.rules import apply


@dataclass(frozen=True)
class Refused:
    """A place where a skill is not sound, or cannot be put in."""

    skill: Skill
    edit: Edit
    unmet: tuple[Unmet, ...]
    """Empty where the rule could not write it after all: then `reason` says why."""
    reason: str


@dataclass(frozen=True)
class Materialized:
    """A skill put in."""

    skill: Skill
    edit: Edit
    kernel: Kernel
    required: tuple[str, ...]
    """What went into [require]."""


@dataclass(frozen=True)
class Bench:
    """What materializing looks at beside the kernel."""

    case: Case
    platform: Platform
    rules: Sequence[Rule]
    compute_units: int = 1
    standing: tuple[str, ...] = ()


def places(skill: Skill, kernel: Kernel, rules: Sequence[Rule]) -> Iterator[Edit]:
    """The forward edits of a skill in a kernel, each way of writing it, in source order."""
    by_name = {rule.name: rule for rule in rules}
    for carrier in skill.carrier:
        rule = by_name.get(carrier.rule)
        for edit in rule.addable(kernel).edits if rule is not None else ():
            if edit.intent == skill.intent:
                yield asked(edit, carrier.params)


def materialize(skill: Skill, kernel: Kernel, edit: Edit, bench: Bench) -> Materialized | Refused:
    """The kernel with the skill at one place, or why not."""
    place = Place(kernel, edit.anchor, dict(edit.params))
    facts = facts_at(place, bench.case, bench.platform, standing=bench.standing)
    faults = unmet_of(skill, facts)
    if faults:
        return Refused(skill, edit, faults, "; ".join(map(str, faults)))
    try:
        made, _ = apply(kernel, edit)
        required = requirements(skill, place, bench.case, facts)
        for text in required:
            made = with_requirement(made, skill.intent.removeprefix("new:").replace("-", "_"), text)
    except NotApplicable as error:
        return Refused(skill, edit, (), str(error))
    outside = _outside(made, required, bench)
    if outside:
        return Refused(skill, edit, outside, "; ".join(map(str, outside)))
    return Materialized(skill, edit, made, required)


def unasked(kernel: Kernel, edit: Edit) -> Kernel:
    """The kernel with an edit whatever the preconditions say, and nothing required. Raises NotApplicable."""
    return apply(kernel, edit)[0]


def requirements(skill: Skill, place: Place, case: Case, facts: Facts) -> tuple[str, ...]:
    """The preconditions as expressions over dimensions and [const]. Raises NotApplicable where one has none."""
    expressions = expressions_at(place, case)
    # What no shape changes; a number without an expression may be another elsewhere.
    fixed = {name: value for name, value in facts.items() if not isinstance(value, frozenset) or _outside_shapes(name)}
    found: list[str] = []
    for each in skill.preconditions.all_of:
        names = {name for atom in atoms(each.predicate) for name in atom.facts}
        terms = {name: divisibility_terms(place, case, name) for name in names}
        stated = state_as_requirement(each.predicate, expressions, fixed, terms)
        if stated is None:
            raise NotApplicable(f"`{each.text}` cannot be stated as a requirement here")
        found += stated
    return tuple(dict.fromkeys(found))


def _outside_shapes(fact: str) -> bool:
    return fact.startswith(("platform.", "compile."))


def _outside(kernel: Kernel, required: Sequence[str], bench: Bench) -> tuple[Unmet, ...]:
    """The first shape of the minimal domain that the new requirements refuse."""
    if not required:
        return ()
    for shape in (bench.case, *domain_shapes(bench.case)):
        refused = accepts(kernel, _known(kernel, shape, bench))
        if refused is not None:
            text = refused.partition(": ")[2]
            return (Unmet(predicate=text, reason="false", values=f"{shape.name}, which the case demands"),)
    return ()


def _known(kernel: Kernel, case: Case, bench: Bench) -> Mapping[str, int | float]:
    return symbols(kernel, case, bench.compute_units, bench.platform.warp)
