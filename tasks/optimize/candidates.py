"""What the library offers for a kernel: skills put in, alone or on top of one that they need.

A skill that is flat by itself can be what makes a place for another: loops run in blocks are no faster, but vectors
need them. So a skill that helps is also tried where it finds a place only after such an enabler went in; the two are
gated as one candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from experts.kernel import Kernel
from skill_library.intents import Order, order_of
from skill_library.retrieval import Query, Retrieved, worth
from skill_library.skill import Skill
from tasks.materialize import Bench, Materialized, Refused, materialize, places
from tasks.rewrite.edit import Edit


@dataclass(frozen=True)
class Candidate:
    """A kernel to gate."""

    kernel: Kernel
    made: tuple[Materialized, ...]
    """What went in, in order; the last is the one that is to help."""
    promised: float
    """The lower end of what the last one was worth in the most similar context."""

    @property
    def skill(self) -> Skill:
        """The one that is to help."""
        return self.made[-1].skill

    @property
    def label(self) -> str:
        """For people: `split-accumulator + vectorize-arithmetic at softmax/loop[j]`."""
        return f"{' + '.join(each.skill.name for each in self.made)} at {self.made[0].edit.anchor}"


@dataclass
class Offers:
    """Candidates in the order in which they are worth trying, and what was refused."""

    candidates: list[Candidate] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def offers(kernel: Kernel, retrieved: Retrieved, query: Query, bench: Bench) -> Offers:
    """Everything that the retrieved skills can do to a kernel."""
    found = Offers()
    seen = {kernel.kernel_id}

    def consider(made: tuple[Materialized, ...]) -> None:
        last = made[-1]
        if last.kernel.kernel_id not in seen:
            seen.add(last.kernel.kernel_id)
            found.candidates.append(Candidate(last.kernel, made, worth(last.skill, query)))

    here: dict[str, set[tuple[str, str]]] = {}
    for skill in retrieved.speed:
        here[skill.name] = set()
        for edit in places(skill, kernel, bench.rules):
            here[skill.name].add(edit.place)
            outcome = materialize(skill, kernel, edit, bench)
            if isinstance(outcome, Refused):
                found.refused.append(outcome)
            else:
                consider((outcome,))
    for enabled in _enabled(kernel, retrieved, bench, found.refused):
        for skill in retrieved.speed:
            if skill.name == enabled.skill.name:
                continue
            for edit in _new(skill, enabled.kernel, here[skill.name], bench):
                outcome = materialize(skill, enabled.kernel, edit, bench)
                if isinstance(outcome, Refused):
                    found.refused.append(outcome)
                else:
                    consider((enabled, outcome))
    # sorted() keeps the order of the library and of the text among equals.
    found.candidates.sort(key=lambda each: (-each.promised, len(each.made)))
    return found


def _enabled(kernel: Kernel, retrieved: Retrieved, bench: Bench, refused: list[Refused]) -> Iterator[Materialized]:
    """What could make places for others: skills that some skill comes after, and flat ones that change structure."""
    prior = {intent for skill in retrieved.speed for intent in skill.scope.prior}
    for skill in (*retrieved.enablers, *retrieved.speed):
        opens = skill.intent in prior or (not skill.speeds_up and order_of(skill.intent) >= Order.SCHEDULE)
        for edit in places(skill, kernel, bench.rules) if opens else ():
            outcome = materialize(skill, kernel, edit, bench)
            if isinstance(outcome, Materialized):
                yield outcome
            elif not skill.speeds_up:
                refused.append(outcome)


def _new(skill: Skill, kernel: Kernel, known: set[tuple[str, str]], bench: Bench) -> Iterator[Edit]:
    """The places of a skill that the enabler made."""
    return (edit for edit in places(skill, kernel, bench.rules) if edit.place not in known)
