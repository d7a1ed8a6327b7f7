"""Steps become one card: every field from their rows, and prose that a model may write but that decides nothing."""

from __future__ import annotations

import dspy
import pytest
from dspy.utils import DummyLM

from skill_library.abstraction import kind_of, lift, name_of
from skill_library.learning import Learned
from skill_library.skill import Skill
from tests.skill_library.cards import WHOLE, ident, recovered, step

NONE_NEEDED = Learned(kind="none_needed", passed=40, failed=0, reason="no probe separates them: 40 shapes passed")


def test_the_nine_fields_are_those_of_the_rows() -> None:
    alone = {"attempt_id": ident(9), "env_id": ident(300), "effect": "slower", "ratio": 0.5, "low": 0.4, "high": 0.6}
    probe = {"probe_id": ident(3), "status": "out_of_bounds", "stage": "correctness"}
    refused = {"attempt_id": ident(8), "status": "crash", "stage": "launch"}
    found = lift(
        "split-accumulator",
        [step(1, alone={**alone, "pairs": 20}, probes=(probe,)), step(2, refused=(refused,))],
        recovered(),
    )
    assert (found.name, found.intent) == ("split-accumulator", "split-accumulator")
    assert (found.anchor.kind, found.anchor.rule) == ("loop", "strip-mine")
    assert [(each.rule, each.params) for each in found.carrier] == [("strip-mine", {"width": 16})]
    assert [each.predicate for each in found.preconditions.all_of] == [WHOLE]
    assert (found.preconditions.passed, found.preconditions.failed) == (20, 9)
    in_expert = next(each for each in found.effects if each.attempt_id == ident(9))
    assert (in_expert.effect, in_expert.ratio) == ("faster", 2.0)
    assert (in_expert.low, in_expert.high) == (pytest.approx(1 / 0.6), 2.5)
    assert in_expert.standing == ("hint-restrict", "unroll-loop")
    assert {each.attempt_id for each in found.effects} == {ident(9), ident(401), ident(402)}
    assert [(risk.status, risk.rows) for risk in found.risks] == [
        ("crash", (ident(8),)),
        ("out_of_bounds", (ident(3),)),
    ]
    assert next(risk for risk in found.risks if risk.status == "out_of_bounds").trigger == f"not ({WHOLE})"
    assert found.evidence.transitions == (ident(1), ident(2))
    assert found.scope.prior == ("unroll-loop",)
    assert found.scope.platforms == ("pocl-x86-avx512",)
    assert found.verification.standing == "candidate"


def test_each_way_of_writing_it_is_a_carrier_and_the_best_comes_first() -> None:
    steps = [step(1, carried={"argument": "4"}, row={"ratio": 1.2}), step(2, carried={"argument": ""})]
    found = lift("unroll-loop", steps, NONE_NEEDED)
    assert [each.params for each in found.carrier] == [{"argument": ""}, {"argument": "4"}]


def test_without_a_model_the_prose_says_conditions_effects_and_order() -> None:
    found = lift("split-accumulator", [step()], recovered())
    assert found.written_by == "template"
    for part in ("`loop.extent % vector.width == 0`", "after unroll-loop", "3.00x (2.80 to 3.20)"):
        assert part in found.when
    flat = lift("hint-restrict", [step(row={"effect": "tie", "ratio": 1.0})], NONE_NEEDED)
    assert "never faster by itself" in flat.when and "No precondition" in flat.when


def test_a_model_in_the_context_writes_the_prose_and_nothing_else() -> None:
    plain = lift("split-accumulator", [step()], recovered())
    with dspy.context(lm=DummyLM([{"when": "Where rows are whole vectors."}])):
        told = lift("split-accumulator", [step()], recovered())
    assert told.when == "Where rows are whole vectors."
    assert told.written_by != "template"
    assert told.skill_id == plain.skill_id
    assert told.model_copy(update={"when": plain.when, "written_by": plain.written_by}) == plain


def test_an_empty_answer_leaves_the_template() -> None:
    with dspy.context(lm=DummyLM([{"when": "  "}])):
        assert lift("split-accumulator", [step()], recovered()).written_by == "template"


def test_claims_decide_the_id_and_verification_does_not() -> None:
    found = lift("split-accumulator", [step()], recovered())
    other = lift("split-accumulator", [step(row={"ratio": 3.1})], recovered())
    assert found.skill_id != other.skill_id
    verified = found.model_copy(update={"verification": found.verification.model_copy(update={"standing": "admitted"})})
    assert Skill.model_validate_json(verified.model_dump_json()).skill_id == found.skill_id


@pytest.mark.parametrize(
    ("anchor", "kind"),
    [("gemm", "function"), ("gemm/loop[k]", "loop"), ("::/const[MR]", "const"), ("gemm/loop[k]/hint[unroll]", "hint")],
)
def test_the_kind_of_an_anchor(anchor: str, kind: str) -> None:
    assert kind_of(anchor) == kind


def test_names() -> None:
    assert name_of("unroll-loop", "unroll-hint", 1) == "unroll-loop"
    assert name_of("fuse-multiply-add", "build-option", 2) == "fuse-multiply-add-build-option"
