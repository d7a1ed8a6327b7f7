"""What every rule promises, over generated kernels: edits apply, come back letter for letter, and commute."""

from __future__ import annotations

from itertools import combinations

import pytest
from generated import PLAIN, SINGLE, Recipe, kernel_of, recipes
from hypothesis import HealthCheck, given, settings

from experts.kernel import Kernel, parse
from skill_library.intents import INTENTS
from tasks.rewrite.edit import Edit, Places, Rule, edit_of
from tasks.rewrite.rules import RULES, apply, rule_named
from tasks.rewrite.text import source

SIMPLE = tuple(rule for rule in RULES if rule.name != "vector-lanes")
FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def removals(kernel: Kernel) -> list[Edit]:
    return [edit for rule in SIMPLE for edit in rule.removable(kernel).edits]


def additions(kernel: Kernel) -> list[Edit]:
    return [edit for rule in SIMPLE for edit in rule.addable(kernel).edits]


def check_edit(kernel: Kernel, edit: Edit) -> None:
    assert edit.intent in INTENTS
    assert edit_of(edit.record()) == edit
    changed, back = apply(kernel, edit)
    assert changed.text != kernel.text
    assert (back.place, back.intent) == (edit.place, edit.intent)
    assert back.action != edit.action
    again, there = apply(changed, back)
    assert again.text == kernel.text
    assert apply(again, there)[0].text == changed.text, "and forth once more"
    before, after = source(kernel), source(changed)
    assert before is not None and after is not None
    assert len(after.opaque) <= len(before.opaque)
    rule = rule_named(edit.rule)
    removable, addable = rule.removable(changed).edits, rule.addable(changed).edits
    listed, other = (removable, addable) if edit.action == "remove" else (addable, removable)
    if edit.rule != "shrink-constant" or edit.action == "remove":
        assert edit.place not in [each.place for each in listed], "done is done"
    if edit.rule != "prefetch-call" or edit.action == "add":
        assert edit.place in [each.place for each in other], "the way back is found without memory"


@pytest.mark.parametrize("recipe", SINGLE, ids=str)
def test_every_edit_comes_back(recipe: Recipe) -> None:
    kernel = kernel_of(recipe)
    for edit in removals(kernel):
        check_edit(kernel, edit)


@pytest.mark.parametrize("recipe", [Recipe(), PLAIN], ids=["optimized", "plain"])
def test_every_addition_comes_back(recipe: Recipe) -> None:
    kernel = kernel_of(recipe)
    listed = additions(kernel)
    assert len({edit.rule for edit in listed}) >= 4
    for edit in listed:
        check_edit(kernel, edit)


@FEW
@given(recipes())
def test_any_combination_comes_back(recipe: Recipe) -> None:
    kernel = kernel_of(recipe)
    for edit in removals(kernel):
        check_edit(kernel, edit)


@FEW
@given(recipes())
def test_edits_at_different_places_commute(recipe: Recipe) -> None:
    kernel = kernel_of(recipe)
    alone = {edit: apply(kernel, edit)[0] for edit in removals(kernel)}
    places = {edit: {each.place for each in removals(state)} for edit, state in alone.items()}
    for one, other in combinations(alone, 2):
        # One optimization may be gone with the other: a constant that only a hint uses.
        if other.place in places[one] and one.place in places[other]:
            assert apply(alone[one], other)[0].text == apply(alone[other], one)[0].text, (one, other)


@FEW
@given(recipes())
def test_the_recipe_says_what_is_found(recipe: Recipe) -> None:
    found = {(edit.rule, edit.anchor): edit for edit in removals(kernel_of(recipe))}
    rules = {rule for rule, _ in found}
    assert ("unroll-hint" in rules) == bool(recipe.unroll)
    assert ("restrict-pointer" in rules) == bool(recipe.restrict)
    assert ("fuse-call" in rules) == bool(recipe.fuse)
    assert ("native-function" in rules) == bool(recipe.scale)
    assert ("prefetch-call" in rules) == bool(recipe.prefetch)
    assert ("align-attribute" in rules) == bool(recipe.align)
    assert ("work-group-size" in rules) == bool(recipe.group)
    assert {anchor for rule, anchor in found if rule == "pad-array"} == (
        {"gemm/var[a]", "gemm/var[b]"} if recipe.pad else set()
    )
    assert sum(rule == "build-option" for rule in [r for r, _ in found]) == {"": 0, "one": 1}.get(recipe.options, 2)


@FEW
@given(recipes())
def test_lists_are_the_same_for_the_same_text(recipe: Recipe) -> None:
    kernel, same = kernel_of(recipe), kernel_of(recipe)
    for rule in SIMPLE:
        assert rule.removable(kernel) == rule.removable(same)
        assert rule.addable(kernel) == rule.addable(same)


@FEW
@given(recipes())
def test_all_removals_end_and_nothing_is_left(recipe: Recipe) -> None:
    kernel, steps, backs = kernel_of(recipe), 0, []
    texts = [kernel.text]
    while edits := removals(kernel):
        kernel, back = apply(kernel, edits[-1])
        backs.append(back)
        texts.append(kernel.text)
        steps += 1
        assert steps < 40
    for text, back in zip(reversed(texts[:-1]), reversed(backs), strict=True):
        kernel, _ = apply(kernel, back)
        assert kernel.text == text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_other_surfaces_are_left_alone(rule: Rule) -> None:
    text = kernel_of(Recipe()).text.replace("__kernel", "__global__").replace("__local", "__shared__")
    text = "\n".join(line for line in text.split("\n") if not line.startswith("options"))
    kernel = parse(text, surface="cuda")
    assert (rule.removable(kernel), rule.addable(kernel)) == (Places(), Places())
