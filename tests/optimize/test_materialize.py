"""A skill at a place: asked, put in, and what it needs stated in the new kernel; or refused, with what is unmet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import experts
from experts.case import Case, bind
from experts.kernel import load
from experts.platform import named
from experts.softmax.case import WORKLOAD
from skill_library.learning import Learned
from skill_library.predicates import Atom, FactRef, Predicate
from skill_library.retrieval import Query, Retrieved
from skill_library.skill import Skill
from tasks.materialize import Bench, Materialized, Refused, materialize, places
from tasks.optimize.candidates import offers
from tasks.rewrite.rules import RULES
from tests.skill_library.cards import WHOLE, recovered, step

NAIVE = load(Path(experts.__file__).parent / "softmax" / "naive.cl")
ALIGNED = Atom(fact="access.align", mod=FactRef(fact="vector.bytes"), op="==", value=0)
FLAT = {"effect": "tie", "ratio": 1.0, "low": 0.99, "high": 1.01}


def case(name: str = "256x512-f32") -> Case:
    return bind(WORKLOAD, name, "opencl", "")


def bench(name: str = "256x512-f32") -> Bench:
    return Bench(case(name), named("pocl-x86-avx512"), RULES)


def skill(intent: str, rule: str, learned: Learned, row: dict[str, Any] | None = None, **carried: Any) -> Skill:
    from skill_library.abstraction import lift

    given = {"intent": intent, "prior": [], **(row or {})}
    found = lift(intent, [step(row=given, edit={"rule": rule, "anchor": "gemv/loop[k]"}, carried=carried)], learned)
    return found.model_copy(update={"verification": found.verification.model_copy(update={"standing": "admitted"})})


def split(predicate: Predicate = WHOLE, row: dict[str, Any] | None = None) -> Skill:
    return skill("split-accumulator", "strip-mine", recovered(predicate=predicate), row, width=16)


def vectorize() -> Skill:
    row = {"prior": ["split-accumulator"], "ratio": 10.0, "low": 9.0, "high": 11.0}
    return skill("vectorize-arithmetic", "vector-lanes", recovered(predicate=ALIGNED), row, forms="C")


def made(found: Materialized | Refused) -> Materialized:
    assert isinstance(found, Materialized), found.reason
    return found


def test_what_it_needs_is_required_of_every_shape() -> None:
    edits = list(places(split(), NAIVE, RULES))
    assert [edit.anchor for edit in edits] == ["softmax/loop[j]", "softmax/loop[j]#1"]
    found = made(materialize(split(), NAIVE, edits[0], bench()))
    assert found.required == ("N % 16 == 0",)
    assert [each.text for each in found.kernel.manifest.require.values()] == ["N % 16 == 0"]
    assert "largest_part[16]" in found.kernel.text
    # The second loop needs the same, which stands already.
    again = made(materialize(split(), found.kernel, next(places(split(), found.kernel, RULES)), bench()))
    assert len(again.kernel.manifest.require) == 1


def test_a_false_precondition_is_named_with_its_values() -> None:
    edit = next(places(split(), NAIVE, RULES))
    found = materialize(split(), NAIVE, edit, bench("R=4,N=1000-f32"))
    assert isinstance(found, Refused)
    (fault,) = found.unmet
    assert (fault.predicate, fault.reason) == ("loop.extent % vector.width == 0", "false")
    assert "loop.extent = 1000" in fault.values and "vector.width = 16" in fault.values


def test_an_unknown_fact_licenses_nothing() -> None:
    odd = split(Atom(fact="tile.bytes", op="<=", value=4096))
    found = materialize(odd, NAIVE, next(places(odd, NAIVE, RULES)), bench())
    assert isinstance(found, Refused)
    assert [fault.reason for fault in found.unmet] == ["unknown"]


def test_a_requirement_may_not_refuse_what_the_case_demands() -> None:
    """The workload promises N % 64 == 0 and no more."""
    wide = split(Atom(fact="loop.extent", mod=128, op="==", value=0))
    found = materialize(wide, NAIVE, next(places(wide, NAIVE, RULES)), bench())
    assert isinstance(found, Refused)
    (fault,) = found.unmet
    assert fault.predicate == "N % 128 == 0" and "which the case demands" in fault.values


def test_alignment_is_stated_through_what_divides_the_addresses() -> None:
    lanes = made(materialize(split(), NAIVE, next(places(split(), NAIVE, RULES)), bench())).kernel
    edit = next(places(vectorize(), lanes, RULES))
    found = made(materialize(vectorize(), lanes, edit, bench()))
    assert "*(__global const float16 *)(x + j)" in found.kernel.text
    assert all("N" in text for text in found.required)


def test_a_flat_skill_makes_the_place_of_one_that_helps() -> None:
    query = Query(NAIVE.text, "softmax", "softmax/256x512-f32", "opencl", "pocl-x86-avx512", ())
    alone = offers(NAIVE, Retrieved((vectorize(),), ()), query, bench())
    assert alone.candidates == []
    found = offers(NAIVE, Retrieved((vectorize(),), (split(row=FLAT),)), query, bench())
    assert [[each.skill.name for each in candidate.made] for candidate in found.candidates] == [
        ["split-accumulator", "vectorize-arithmetic"],
        ["split-accumulator", "vectorize-arithmetic"],
    ]
    assert len({candidate.kernel.kernel_id for candidate in found.candidates}) == 2
    assert all("float16" in candidate.kernel.text for candidate in found.candidates)


def test_what_helps_by_itself_is_offered_alone_too_and_the_most_promising_comes_first() -> None:
    query = Query(NAIVE.text, "softmax", "softmax/256x512-f32", "opencl", "pocl-x86-avx512", ())
    found = offers(NAIVE, Retrieved((split(), vectorize()), ()), query, bench())
    assert [len(candidate.made) for candidate in found.candidates] == [2, 2, 1, 1]


@pytest.mark.parametrize("name", ["R=4,N=1000-f32", "R=4,N=40-f32"])
def test_every_refusal_of_an_offer_names_what_is_unmet(name: str) -> None:
    query = Query(NAIVE.text, "softmax", f"softmax/{name}", "opencl", "pocl-x86-avx512", ())
    found = offers(NAIVE, Retrieved((split(), vectorize()), ()), query, bench(name))
    assert found.candidates == []
    assert {refused.skill.name for refused in found.refused} == {"split-accumulator"}
    assert all(refused.unmet for refused in found.refused)
