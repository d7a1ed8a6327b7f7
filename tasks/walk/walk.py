"""The backward walk: from an expert towards naive, one optimization at a time, every step gated.

1. The expert itself is gated: it must be valid.
2. From the expert: every removal straight from it, side by side (the gate times one at a time).
3. Along the chain: in static order, one removal after the other; what fails waits until others are gone.
4. Precedence: where a removal failed in one state and worked in a later one, which step between made it work.
5. Forward: the inverse edit of each accepted step, found again on the simplified state (forward.py).

Only validity steers, never a time, so that two runs give one lineage. Nothing here knows Prefect: `submit` runs a
trial, at once or later, and the flow gives its own.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from experts.kernel import Kernel
from tasks.rewrite.edit import Edit, NotApplicable, Rule
from tasks.rewrite.rules import apply
from tasks.trials import Trial, Tried
from tasks.walk.inventory import Inventory, inventory

MAX_STEPS = 500
"""A walk that takes more removals than this goes round in circles."""
Place = tuple[str, str]


class ExpertInvalid(Exception):
    """The expert does not pass the gate; one line with its verdict."""

    def __init__(self, tried: Tried) -> None:
        row = tried.row
        super().__init__(f"{row['status']} at {row['stage']}: {row['reason']}")
        self.tried = tried


class Pending(Protocol):
    """A trial that was submitted."""

    def result(self) -> Tried:
        """What came of it, once it is there."""
        ...


class Submit(Protocol):
    """Runs trials. `after` are the trials whose outcome made this one worth trying."""

    def __call__(self, trial: Trial, after: Sequence[Pending] = ()) -> Pending: ...


@dataclass(frozen=True)
class Step:
    """An accepted step of the chain."""

    above: Kernel
    simplified: Kernel
    edit: Edit
    """The removal."""
    inverse: Edit
    tried: Tried
    pending: Pending


@dataclass(frozen=True)
class Precedence:
    """Going forward, `intent` at `place` comes after `needs`: that one could not be taken out while it stood."""

    intent: str
    place: Place
    needs_intent: str
    needs_place: Place
    shown_by: tuple[str, ...]
    """Attempts that failed while it stood; empty where the rule declined."""


@dataclass
class Walked:
    """A walk as far as it came."""

    expert: Kernel
    root: Tried
    from_expert: list[Tried] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    """The chain's trials in the order in which they were made, rejected ones too."""
    steps: list[Step] = field(default_factory=list)
    contexts: list[Tried] = field(default_factory=list)
    precedence: list[Precedence] = field(default_factory=list)

    @property
    def states(self) -> list[Kernel]:
        """From the expert down."""
        return [self.expert, *(step.simplified for step in self.steps)]

    @property
    def last(self) -> Kernel:
        """Where it ends."""
        return self.states[-1]


def walk(expert: Kernel, rules: Sequence[Rule], submit: Submit) -> Walked:
    """Walk an expert down. Raises ExpertInvalid, and what trials raise."""
    root = submit(Trial("chain", expert, label="expert"))
    walked = Walked(expert, root.result())
    if not walked.root.accepted:
        raise ExpertInvalid(walked.root)
    straight = _from_expert(walked, rules, submit, root)
    _down(walked, rules, submit, root)
    walked.from_expert = [pending.result() for pending in straight]
    _order(walked, rules, submit)
    return walked


def _from_expert(walked: Walked, rules: Sequence[Rule], submit: Submit, root: Pending) -> list[Pending]:
    expert = walked.expert
    straight = []
    for number, edit in enumerate(inventory(expert, rules).removals, start=1):
        child = _without(expert, edit)
        if child is not None:
            label = f"from-expert-{number:02d} {edit.intent}"
            straight.append(submit(Trial("from_expert", child[0], expert, expert, edit, label=label), [root]))
    # Before the chain starts: its first steps are then not timed beside them.
    for pending in straight:
        pending.result()
    return straight


def _down(walked: Walked, rules: Sequence[Rule], submit: Submit, root: Pending) -> None:
    """The chain. A place that failed is left alone until the others are through, then tried again."""
    seen = {walked.expert.kernel_id}
    failed: dict[Place, str] = {}
    waiting: list[Pending] = []
    above = root
    while len(walked.tried) < MAX_STEPS:
        state = walked.last
        edit = next((each for each in inventory(state, rules).removals if each.place not in failed), None)
        if edit is None:
            # Another round for what failed in another state than this one.
            again = {place for place, where in failed.items() if where != state.kernel_id}
            if not again:
                return
            failed = {place: where for place, where in failed.items() if place not in again}
            continue
        child = _without(state, edit)
        if child is None or child[0].kernel_id in seen:
            failed[edit.place] = state.kernel_id
            continue
        simplified, inverse = child
        label = f"chain-{len(walked.tried) + 1:02d} {edit.intent}"
        ahead = _following(simplified, rules, failed)
        trial = Trial("chain", simplified, state, state, edit, ahead=ahead, label=label)
        pending = submit(trial, [above, *waiting])
        tried = pending.result()
        walked.tried.append(tried)
        if tried.accepted:
            seen.add(simplified.kernel_id)
            walked.steps.append(Step(state, simplified, edit, inverse, tried, pending))
            above, waiting = pending, []
        else:
            failed[edit.place] = state.kernel_id
            waiting.append(pending)


def _following(state: Kernel, rules: Sequence[Rule], failed: Container[Place]) -> Kernel | None:
    """What the chain will try once it is in that state."""
    edit = next((each for each in inventory(state, rules).removals if each.place not in failed), None)
    child = _without(state, edit) if edit is not None else None
    return child[0] if child is not None else None


def _order(walked: Walked, rules: Sequence[Rule], submit: Submit) -> None:
    """What had to go before what: for each step that failed earlier, the step that made it work."""
    states = walked.states
    for number, step in enumerate(walked.steps):
        place = step.edit.place
        failures = _failures(walked, rules, place, number)
        if not failures:
            continue
        low, high = max(failures), number
        while high - low > 1:
            middle = (low + high) // 2
            tried = _probe(states[middle], rules, place, step, submit)
            if isinstance(tried, Tried):
                walked.contexts.append(tried)
            if tried is None or (isinstance(tried, Tried) and not tried.accepted):
                low = middle
                failures[low] = tried
            else:
                high = middle
        cause, shown = walked.steps[low], failures[low]
        walked.precedence.append(
            Precedence(
                intent=cause.edit.intent,
                place=cause.edit.place,
                needs_intent=step.edit.intent,
                needs_place=place,
                shown_by=(shown.attempt_id,) if shown is not None else (),
            )
        )


def _failures(walked: Walked, rules: Sequence[Rule], place: Place, before: int) -> dict[int, Tried | None]:
    """The states, by number, in which the place is known not to come out; None where its rule declined."""
    index = {state.kernel_id: number for number, state in enumerate(walked.states[:before])}
    found: dict[int, Tried | None] = {}
    for tried in (*walked.from_expert, *walked.tried):
        trial = tried.trial
        if trial.edit is None or trial.parent is None or trial.edit.place != place or tried.accepted:
            continue
        if trial.parent.kernel_id in index:
            found[index[trial.parent.kernel_id]] = tried
    if inventory(walked.expert, rules).reason(place) is not None:
        found.setdefault(0, None)
    return found


def _probe(state: Kernel, rules: Sequence[Rule], place: Place, step: Step, submit: Submit) -> Tried | None:
    """Whether the place comes out of that state; None where the rule declines."""
    edit = inventory(state, rules).at(place)
    child = _without(state, edit) if edit is not None else None
    if edit is None or child is None:
        return None
    label = f"context {edit.intent}"
    return submit(Trial("context", child[0], state, state, edit, timed=False, label=label), [step.pending]).result()


def _without(kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit] | None:
    """The kernel without it, and the way back; None where the rule cannot after all."""
    try:
        return apply(kernel, edit)
    except NotApplicable:
        return None


def standing(kernel: Kernel, rules: Sequence[Rule]) -> tuple[str, ...]:
    """The intents that rules could still take out of a kernel."""
    found: Inventory = inventory(kernel, rules)
    return tuple(sorted({edit.intent for edit in found.removals}))
