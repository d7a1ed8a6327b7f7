"""Forward steps: for each accepted step of a walk, the edit that puts the optimization back.

It is found again on the simplified state, by the rule and not from the walk's memory of the text above. Where it gives
the state above letter for letter, that state's verdict and the chain's timing serve. Else the result is gated twice:
against the state above (it must not be slower beyond the margin), and against the simplified state (the effect).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from experts.kernel import Kernel
from experts.verdict import Effect
from tasks.rewrite.edit import Edit, NotApplicable, Rule
from tasks.rewrite.rules import apply
from tasks.walk.trial import Trial, Tried
from tasks.walk.walk import Pending, Step, Submit, Walked

Kind = Literal["identical", "rederived", "failed"]


@dataclass(frozen=True)
class Forward:
    """How a step goes forward."""

    step: Step
    kind: Kind
    edit: Edit | None
    """The forward edit; None where the rule finds no place for it."""
    result: Kernel | None
    against_above: Tried | None = None
    effect: Tried | None = None
    """Against the simplified state; None where the chain's own timing serves, or nothing was gated."""


def forward(walked: Walked, rules: Sequence[Rule], submit: Submit) -> list[Forward]:
    """The forward step of each step of the chain, in its order. Raises what trials raise."""
    derived = [_derived(step, rules) for step in walked.steps]
    gated: list[tuple[Pending, Pending] | None] = []
    for step, (kind, edit, result) in zip(walked.steps, derived, strict=True):
        if kind != "rederived" or edit is None or result is None:
            gated.append(None)
            continue
        above = Trial("forward", result, step.simplified, step.above, edit, label=f"forward {edit.intent}")
        effect = Trial("forward", result, step.simplified, step.simplified, edit, label=f"forward {edit.intent}")
        gated.append((submit(above, [step.pending]), submit(effect, [step.pending])))
    return [_concluded(*each) for each in zip(walked.steps, derived, gated, strict=True)]


def _derived(step: Step, rules: Sequence[Rule]) -> tuple[Kind, Edit | None, Kernel | None]:
    wanted = step.inverse
    places = next(rule for rule in rules if rule.name == wanted.rule).addable(step.simplified)
    if all(edit.place != wanted.place for edit in places.edits):
        return "failed", None, None
    try:
        result, _ = apply(step.simplified, wanted)
    except NotApplicable:
        return "failed", wanted, None
    return ("identical" if result.kernel_id == step.above.kernel_id else "rederived"), wanted, result


def _concluded(
    step: Step, derived: tuple[Kind, Edit | None, Kernel | None], gated: tuple[Pending, Pending] | None
) -> Forward:
    kind, edit, result = derived
    if gated is None:
        return Forward(step, kind, edit, result)
    above, effect = (pending.result() for pending in gated)
    accepted = above.accepted and effect.accepted and above.row["effect"] != Effect.SLOWER
    return Forward(step, "rederived" if accepted else "failed", edit, result, above, effect)
