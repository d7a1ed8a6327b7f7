"""Held-out states: kernels that no lineage of a skill went through.

From the expert of a source lineage other subsets of its optimizations are taken out: the steps before the skill's own
but one, or the same and one more. What comes of it stands in no lineage and was never gated by the walk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from experts.kernel import Kernel
from tasks.induce.steps import Removal
from tasks.rewrite.edit import Edit, NotApplicable
from tasks.rewrite.rules import apply


@dataclass(frozen=True)
class HeldOut:
    """A state, and where the skill is to go in."""

    kernel: Kernel
    case: str
    how: Literal["kernel", "subset", "workload"]
    forward: Edit
    """The way back of the removal: names the place."""


def subsets(
    expert: Kernel, removals: Sequence[Removal], transition_id: str, case: str, known: Collection[str]
) -> Iterator[HeldOut]:
    """States without the step and with another subset of the others than the lineage had, likeliest first."""
    number = next((i for i, each in enumerate(removals) if each.transition_id == transition_id), None)
    if number is None:
        return
    before, behind = list(range(number)), list(range(number + 1, len(removals)))
    fewer = ([*before[:skipped], *before[skipped + 1 :]] for skipped in before)
    more = ([*before, later] for later in behind)
    straight: list[list[int]] = [[each] for each in (*reversed(before), *behind)]
    seen = set(known)
    for others in chain(fewer, more, straight):
        found = _without(expert, [removals[i] for i in others], removals[number])
        if found is not None and found[0].kernel_id not in seen:
            seen.add(found[0].kernel_id)
            yield HeldOut(found[0], case, "subset", found[1])


def _without(expert: Kernel, others: Sequence[Removal], own: Removal) -> tuple[Kernel, Edit] | None:
    """The expert without the others and then without its own; None where one does not come out."""
    try:
        kernel = expert
        for each in others:
            kernel, _ = apply(kernel, each.edit)
        return apply(kernel, own.edit)
    except NotApplicable:
        return None
