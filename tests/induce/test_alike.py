"""Hints are hints, and everything else is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import experts
from experts.kernel import Kernel, load, parse
from tasks.induce import alike
from tasks.rewrite.rules import RULES, apply

EXPERT = load(Path(experts.__file__).parent / "gemm" / "expert.cl")
HINTS = {"hint-restrict", "fix-work-group", "unroll-loop", "align-storage"}


def _without(change: tuple[str, str]) -> Kernel:
    assert change[0] in EXPERT.text
    return parse(EXPERT.text.replace(*change), surface="opencl")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_removals_of_hints_and_no_others(rule: object) -> None:
    for edit in rule.removable(EXPERT).edits:  # type: ignore[attr-defined]
        simplified, _ = apply(EXPERT, edit)
        assert alike.differ_in_hints_only(EXPERT, simplified) == (edit.intent in HINTS), edit


@pytest.mark.parametrize(
    "change",
    [
        ("acc[r] = 0.0f;", "acc[r] = 1.0f;"),
        ("k0 += KC", "k0 += 2 * KC"),
        ("__local float As", "__private float As"),
        ("KC = 256", "KC = 128"),
        ('grid = ["cdiv(K, PK)"]', 'grid = ["K"]'),
        ('"-cl-mad-enable"', '"-cl-no-signed-zeros"'),
        ('whole_steps = "KC % NR == 0"', 'whole_steps = "KC % 8 == 0"'),
        ("float16 acc[MR];", "float16 acc[MR] __attribute__((packed));"),
        ("// C[M,N] =", "#define X 1\n// C[M,N] ="),
    ],
)
def test_other_changes_are_none(change: tuple[str, str]) -> None:
    assert not alike.differ_in_hints_only(EXPERT, _without(change))


def test_comments_and_layout_do_not_count() -> None:
    assert alike.differ_in_hints_only(EXPERT, _without(("float16 acc[MR];", "float16  acc[MR]; // mine")))


def test_a_promise_about_overlap_says_why_it_holds() -> None:
    restrict = next(rule for rule in RULES if rule.name == "restrict-pointer")
    simplified, _ = apply(EXPERT, restrict.removable(EXPERT).edits[0])
    assert "do not overlap" in alike.reason(EXPERT, simplified)
    unroll = next(rule for rule in RULES if rule.name == "unroll-hint")
    simplified, _ = apply(EXPERT, unroll.removable(EXPERT).edits[0])
    assert "do not overlap" not in alike.reason(EXPERT, simplified)
