"""Held-out states: made of the expert, and nowhere in the lineage."""

from __future__ import annotations

from pathlib import Path

import pytest

import experts
from experts.kernel import Kernel, load
from tasks.induce.steps import Removal
from tasks.rewrite.edit import NotApplicable
from tasks.rewrite.rules import RULES, apply
from tasks.roundtrip.held_out import subsets
from tasks.walk.inventory import inventory

EXPERT = load(Path(experts.__file__).parent / "gemv" / "expert.cl")


def _lineage() -> tuple[list[Removal], set[str]]:
    """The chain as the rules give it, without a gate: removals, and the ids of the states."""
    kernel: Kernel = EXPERT
    removals, states = [], {EXPERT.kernel_id}
    while found := inventory(kernel, RULES).removals:
        kernel, _ = apply(kernel, found[0])
        removals.append(Removal(f"{len(removals):016x}", found[0]))
        states.add(kernel.kernel_id)
    return removals, states


def test_states_are_new_and_the_skill_has_a_place_in_them() -> None:
    removals, states = _lineage()
    for removal in removals:
        found = list(subsets(EXPERT, removals, removal.transition_id, "gemv/256-f32", states))
        assert found, removal.edit.intent
        assert len({each.kernel.kernel_id for each in found}) == len(found)
        for each in found:
            assert each.how == "subset"
            assert each.kernel.kernel_id not in states
            above, _ = apply(each.kernel, each.forward)
            assert above.kernel_id != each.kernel.kernel_id


def test_a_step_of_another_lineage_has_none() -> None:
    removals, states = _lineage()
    assert list(subsets(EXPERT, removals, "f" * 16, "gemv/256-f32", states)) == []


def test_what_does_not_come_out_is_passed_over() -> None:
    removals, states = _lineage()
    split = next(each for each in removals if each.edit.intent == "split-accumulator")
    with pytest.raises(NotApplicable, match="vectors"):
        apply(EXPERT, split.edit)
    for each in subsets(EXPERT, removals, split.transition_id, "gemv/256-f32", states):
        assert "float16" not in each.kernel.text
