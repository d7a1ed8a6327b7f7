"""Preconditions by contrast: the simplest predicate that separates where an optimization passes from where it fails.

A sample is one probed shape at one place. It counts as a pass where the kernel with the optimization passes, as a fail
where it fails though the kernel without it passes; other shapes say nothing about the optimization and are not given.
Samples of several steps are pooled: where vector widths or tiles differ between them, relations between facts win over
constants by evidence, not only by preference.

Of all predicates that separate the samples exactly, single atoms come before conjunctions of two, relations before
powers of two, bounds and names (hypotheses.py), and among equals the one that claims less: a precondition that is too
narrow loses a chance, one that is too wide gives a wrong kernel. The equals are told as `ambiguous`; so are
conjunctions of the chosen atom with a relation that the samples never show to be false alone.

Where nothing separates exactly, a relation may be learned that is false at every fail and at few of the passes: it is
sufficient as far as seen, and `reason` says at how many passes it is false.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Literal

from pydantic import BaseModel, ConfigDict

from skill_library.hypotheses import RELATION, Hypothesis, hypotheses, implies, relations_of_edit
from skill_library.predicates import All, Atom, FactRef, Facts, Predicate, holds, is_false

MIN_PASSED = 3
MIN_FAILED = 2
"""Samples of distinct facts without which nothing is concluded."""
MAX_IDS = 50
_MAX_AMBIGUOUS = 12
_ACCIDENT = 1e-4
"""A predicate that is false at some passes, too, may be so likely by accident: some thirty are tried."""

Kind = Literal["recovered", "none_needed", "unexplained", "undetermined"]
"""recovered: a predicate separates the samples. none_needed: nothing failed. unexplained: some failed, and no predicate
of the language says which: not a licence. undetermined: too few samples."""


@dataclass(frozen=True)
class Sample:
    """One probed shape."""

    facts: Facts
    holds: bool
    """The kernel with the optimization passed."""
    probe_ids: tuple[str, ...] = ()


class Learned(BaseModel):
    """What the samples say about when an optimization is sound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    predicate: Predicate | None = None
    """Only where `recovered`."""
    passed: int
    """Samples."""
    failed: int
    for_ids: tuple[str, ...] = ()
    """Probes that passed."""
    against_ids: tuple[str, ...] = ()
    """Probes that failed."""
    ambiguous: tuple[str, ...] = ()
    """Other predicates that separate the samples as well: the probes do not tell them from the one chosen."""
    reason: str


def learn(samples: Sequence[Sample], names: Collection[str] | None = None, masked: Sequence[Facts] = ()) -> Learned:
    """What separates the samples that hold from the others.

    `names`: facts to consider, all by default. `masked`: facts at shapes where the kernel without the optimization
    fails, too; where nothing failed, a relation that is false only there was never tested, and nothing is concluded.
    """
    considered = {name for sample in samples for name in sample.facts} if names is None else set(names)
    passes = _distinct(samples, considered, passed=True)
    fails = _distinct(samples, considered, passed=False)

    def learned(
        kind: Kind, reason: str, predicate: Predicate | None = None, ambiguous: tuple[str, ...] = ()
    ) -> Learned:
        return Learned(
            kind=kind,
            predicate=predicate,
            passed=sum(sample.holds for sample in samples),
            failed=sum(not sample.holds for sample in samples),
            for_ids=_ids(samples, passed=True),
            against_ids=_ids(samples, passed=False),
            ambiguous=ambiguous,
            reason=reason,
        )

    total = f"{len(samples)} shapes"
    if not any(not sample.holds for sample in samples):
        if sum(sample.holds for sample in samples) < MIN_PASSED:
            return learned("undetermined", f"only {total} could be compared")
        untested = _untested(passes, masked, considered)
        if untested:
            told = f"{total} passed, but none where not ({untested[0]}): there the kernel without it fails, too"
            return learned("undetermined", told, ambiguous=tuple(map(str, untested)))
        return learned("none_needed", f"no probe separates them: {total} passed")
    if not passes:
        return learned("undetermined", f"it failed at all of {total}")
    if len(passes) < MIN_PASSED or len(fails) < MIN_FAILED:
        told = f"{len(passes)} distinct passing and {len(fails)} failing samples"
        return learned("undetermined", f"{told}; {MIN_PASSED} and {MIN_FAILED} are needed")
    rivals = _separating(passes, fails, considered)
    if rivals:
        return learned("recovered", f"it separates {total} exactly", rivals[0], _told(rivals[1:]))
    rivals, lucky = _sufficient(passes, fails, considered)
    if rivals:
        told = f"it is false at every fail of {total}, and at {lucky} of {len(passes)} distinct passes"
        return learned("recovered", told, rivals[0], _told(rivals[1:]))
    both = len(set(map(_key, passes)) & set(map(_key, fails)))
    if both:
        return learned("unexplained", f"{both} sets of facts both pass and fail: no known fact tells them apart")
    return learned("unexplained", f"no predicate of one or two atoms separates {total}")


def _untested(passes: Sequence[Facts], masked: Sequence[Facts], names: Collection[str]) -> list[Atom]:
    """Relations that hold at every pass, and are false only where the optimization could not be looked at."""
    return [
        atom
        for atom in relations_of_edit(names)
        if all(holds(atom, facts) for facts in passes) and any(is_false(atom, facts) for facts in masked)
    ]


def _told(rivals: Sequence[Predicate]) -> tuple[str, ...]:
    return tuple(map(str, rivals[:_MAX_AMBIGUOUS]))


@dataclass(frozen=True)
class _Judged:
    """A hypothesis that holds at every pass."""

    hypothesis: Hypothesis
    excludes: int
    """The fails at which it is false, as bits."""


def _separating(passes: Sequence[Facts], fails: Sequence[Facts], names: Collection[str]) -> list[Predicate]:
    """The predicates of the simplest kind that separate, best first."""
    every = (1 << len(fails)) - 1
    judged = [
        _Judged(each, _excluded(each.atom, fails))
        for each in hypotheses(passes, fails, names)
        if all(holds(each.atom, facts) for facts in passes)
    ]
    single = [each.hypothesis for each in judged if each.excludes == every]
    if single:
        chosen = single[0]
        return [*(each.atom for each in single if each.rank == chosen.rank), *_narrower(chosen, judged, every)]
    pairs = sorted(_pairs(_sharpest(judged), every), key=_preference)
    ranks = _preference(pairs[0])[:2] if pairs else None
    return [_both(pair) for pair in pairs if _preference(pair)[:2] == ranks]


def _sufficient(passes: Sequence[Facts], fails: Sequence[Facts], names: Collection[str]) -> tuple[list[Predicate], int]:
    """The relations, or pairs of them, that are false at every fail and at so few passes that this is no accident.

    A pass says less than a fail: it may be luck (what an access beyond an array hits is seen in the simulator alone),
    and at some shapes the optimized code is never reached. With them, at how many passes they are false.
    """
    every = (1 << len(fails)) - 1
    relations = [
        _Judged(each, excludes)
        for each in hypotheses(passes, fails, names)
        if each.rank == RELATION and (excludes := _excluded(each.atom, fails))
    ]
    single = [(each.hypothesis,) for each in relations if each.excludes == every]
    for candidates in (single, _pairs(relations, every)):
        lost = [
            (sum(not all(holds(each.atom, facts) for each in candidate) for facts in passes), number, candidate)
            for number, candidate in enumerate(sorted(candidates, key=_preference))
        ]
        # How likely an atom that is false at so many passes would be false at all fails without being their cause.
        likely = [
            entry
            for entry in lost
            if len(passes) - entry[0] >= MIN_PASSED and ((entry[0] + 1) / (len(passes) + 1)) ** len(fails) <= _ACCIDENT
        ]
        if likely:
            least = min(likely)[0]
            return [_both(candidate) for count, _, candidate in sorted(likely) if count == least], least
    return [], 0


def _pairs(judged: Sequence[_Judged], every: int) -> list[tuple[Hypothesis, ...]]:
    """Pairs that are false at every fail. Each has its own evidence: an atom for one stray fail would be made up."""
    return [
        (one.hypothesis, other.hypothesis)
        for one, other in combinations(judged, 2)
        if one.excludes | other.excludes == every
        and (one.excludes & ~other.excludes).bit_count() >= MIN_FAILED
        and (other.excludes & ~one.excludes).bit_count() >= MIN_FAILED
    ]


def _both(candidate: tuple[Hypothesis, ...]) -> Predicate:
    atoms = tuple(each.atom for each in candidate)
    return atoms[0] if len(atoms) == 1 else All(all=atoms)


def _narrower(chosen: Hypothesis, judged: Sequence[_Judged], every: int) -> list[Predicate]:
    """With a second relation that also holds at every pass and fails at some fails: it may be needed, too."""
    return [
        All(all=(chosen.atom, each.hypothesis.atom))
        for each in judged
        if each.hypothesis.rank == RELATION and MIN_FAILED <= each.excludes.bit_count() < every.bit_count()
        if not implies(chosen.atom, each.hypothesis.atom)
    ]


def _excluded(atom: Atom, fails: Sequence[Facts]) -> int:
    """The fails at which it is false, as bits."""
    bits = 0
    for index, facts in enumerate(fails):
        if is_false(atom, facts):
            bits |= 1 << index
    return bits


def _sharpest(judged: Sequence[_Judged]) -> list[_Judged]:
    """Without atoms that exclude nothing, or are weaker forms of one there: the same fact and comparison."""
    best: dict[tuple[object, ...], _Judged] = {}
    for each in judged:
        atom = each.hypothesis.atom
        constant = isinstance(atom.mod, int) or (atom.mod is None and not isinstance(atom.value, FactRef))
        key = (atom.fact, atom.mod is None, atom.op) if constant else (str(atom),)
        # They come with the one that claims least first.
        if each.excludes and key not in best:
            best[key] = each
    return list(best.values())


def _preference(candidate: tuple[Hypothesis, ...]) -> tuple[int, int, int, float, int]:
    ranks = [each.rank for each in candidate]
    outer = sum(each.surrounding for each in candidate)
    claim = prod(each.claim for each in candidate)
    return max(ranks), min(ranks), outer, claim, sum(each.order for each in candidate)


def _distinct(samples: Sequence[Sample], names: Collection[str], *, passed: bool) -> list[Facts]:
    """The facts of the samples, without repetitions, and only those to consider."""
    found: dict[object, Facts] = {}
    for sample in samples:
        if sample.holds == passed:
            facts = {name: value for name, value in sample.facts.items() if name in names}
            found.setdefault(_key(facts), facts)
    return list(found.values())


def _key(facts: Facts) -> frozenset[tuple[str, object]]:
    # `True` and 1 cannot meet: numbers are sets.
    return frozenset(facts.items())


def _ids(samples: Sequence[Sample], *, passed: bool) -> tuple[str, ...]:
    ids = dict.fromkeys(each for sample in samples if sample.holds == passed for each in sample.probe_ids)
    return tuple(ids)[:MAX_IDS]
