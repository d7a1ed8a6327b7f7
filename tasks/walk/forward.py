"""Forward steps: for each accepted step of a walk, the edit that puts the optimization back.

The place is found again on the simplified state, by the rule and not from the walk's memory of the text above: under
the same anchor, or, where vectors and the loops over their lanes go by different names, on the same lines. Where the
edit gives the state above letter for letter, that state's verdict and the chain's timing serve. Else the result is
gated twice: against the state above (it must not be slower beyond the margin), and against the simplified state (the
effect).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from experts.kernel import Kernel
from experts.verdict import Effect
from tasks.rewrite.edit import Edit, NotApplicable, Rule
from tasks.rewrite.rules import apply
from tasks.trials import Trial, Tried
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
    try:
        result, _ = apply(step.simplified, wanted)
    except NotApplicable:
        return "failed", wanted, None
    touched = _touched(step.simplified, result)
    if not any(edit.place == wanted.place or _touches(step.simplified, edit, touched) for edit in places.edits):
        return "failed", None, None
    return ("identical" if result.kernel_id == step.above.kernel_id else "rederived"), wanted, result


def _touches(kernel: Kernel, edit: Edit, lines: set[int]) -> bool:
    """Whether an edit that the rule found changes one of these lines."""
    try:
        return not lines.isdisjoint(_touched(kernel, apply(kernel, edit)[0]))
    except NotApplicable:
        return False


def _touched(before: Kernel, after: Kernel) -> set[int]:
    """The numbers of the lines of `before` that are others in `after`, or that new ones stand before."""
    matcher = SequenceMatcher(None, before.text.splitlines(), after.text.splitlines(), autojunk=False)
    return {line for tag, i, j, _, _ in matcher.get_opcodes() if tag != "equal" for line in range(i, max(j, i + 1))}


def _concluded(
    step: Step, derived: tuple[Kind, Edit | None, Kernel | None], gated: tuple[Pending, Pending] | None
) -> Forward:
    kind, edit, result = derived
    if gated is None:
        return Forward(step, kind, edit, result)
    above, effect = (pending.result() for pending in gated)
    accepted = above.accepted and effect.accepted and above.row["effect"] != Effect.SLOWER
    return Forward(step, "rederived" if accepted else "failed", edit, result, above, effect)
