"""Retrieval: admitted skills of the surface, by verified scope, the most promising first; a model may only reorder."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils import DummyLM

from skill_library.retrieval import Query, Retrieved, retrieve, search, worth
from skill_library.skill import Skill
from tests.skill_library.cards import skill


def query(**other: Any) -> Query:
    given: dict[str, Any] = {
        "text": "kernel",
        "workload": "softmax",
        "case": "softmax/256-f32",
        "surface": "opencl",
        "platform": "pocl-x86-avx512",
        "standing": (),
    }
    return Query(**{**given, **other})


def _names(found: Retrieved) -> list[str]:
    return [each.name for each in found.speed]


def test_an_empty_library_gives_nothing() -> None:
    assert retrieve((), query()) == Retrieved((), ())


def test_only_admitted_skills_of_the_surface() -> None:
    others = [skill(f"s-{standing}", standing) for standing in ("candidate", "waiting", "quarantined")]
    assert _names(retrieve([skill("good"), *others], query())) == ["good"]
    assert retrieve([skill("good")], query(surface="cuda")) == Retrieved((), ())


def test_flat_skills_are_enablers() -> None:
    flat = skill("flat", effect="tie", ratio=1.0, low=0.99, high=1.01)
    found = retrieve([flat, skill("fast")], query())
    assert (_names(found), [each.name for each in found.enablers]) == (["fast"], ["flat"])


def test_the_most_promising_comes_first_and_ties_go_by_name() -> None:
    skills = [skill("b"), skill("a"), skill("best", ratio=9.0, low=8.0, high=10.0)]
    assert _names(retrieve(skills, query())) == ["best", "a", "b"]


def test_what_was_measured_on_this_platform_counts_before_what_was_measured_elsewhere() -> None:
    here, there = skill("here", low=1.5), skill("there", low=2.5, platform="pocl-x86-avx2")
    assert worth(here, query()) == 1.5
    found = retrieve([there, here], query(), top=1)
    assert set(_names(found)) == {"here", "there"}, "the union of the dimensions, not their intersection"


def test_the_union_is_of_the_best_of_each_dimension() -> None:
    skills: list[Skill] = [skill(f"s{number}", low=2.0 + number) for number in range(6)]
    skills.append(skill("own", low=1.1, workload="softmax", case="softmax/256-f32"))
    assert set(_names(retrieve(skills, query(), top=2))) == {"s5", "s4", "own"}


def test_what_the_best_come_after_comes_along() -> None:
    """`skill` makes cards that come after unroll-loop."""
    flat = {"effect": "tie", "ratio": 1.0, "low": 0.9, "high": 1.1, "prior": []}
    needed, other = skill("needed", intent="unroll-loop", **flat), skill("other", intent="hint-restrict", **flat)
    found = retrieve([skill("best"), needed, other], query(), top=1)
    assert (_names(found), [each.name for each in found.enablers]) == (["best"], ["needed"])


def test_a_model_reorders_and_neither_adds_nor_drops() -> None:
    skills = [skill("a"), skill("b"), skill("c")]
    with dspy.context(lm=DummyLM([{"order": '["c", "made-up", "a"]'}])):
        assert _names(retrieve(skills, query())) == ["c", "a", "b"]


def test_search_wants_every_word() -> None:
    skills = [skill("split-accumulator"), skill("unroll-loop")]
    assert [each.name for each in search(skills, "UNROLL")] == ["unroll-loop", "split-accumulator"]
    assert search(skills, "unroll nothing-of-the-kind") == ()
