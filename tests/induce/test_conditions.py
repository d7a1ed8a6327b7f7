"""From probe rows to samples: what luck hides, the simulator tells; what was never tested licenses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import experts
from experts.case import Case, bind
from experts.kernel import load
from experts.platform import named
from experts.softmax.case import WORKLOAD
from skill_library.learning import Sample, learn
from tasks.induce.conditions import doubtful, learned, samples
from tasks.induce.steps import Transition
from tasks.rewrite.rules import apply, rule_named

NAIVE = load(Path(experts.__file__).parent / "softmax" / "naive.cl")
STRIP = rule_named("strip-mine")
EDIT = STRIP.addable(NAIVE).edits[0]
ABOVE, _ = apply(NAIVE, EDIT)
STEP = Transition({"transition_id": "t"}, EDIT, NAIVE, ABOVE)
HERE = named("pocl-x86-avx512")
WHOLE = "loop.extent % vector.width == 0"


def case() -> Case:
    return bind(WORKLOAD, "256x512-f32", "opencl", "")


def rows(size: int, above: str, below: str = "ok", tier: str = "default") -> list[dict[str, Any]]:
    """One shape of both kernels."""

    def row(kernel_id: str, status: str) -> dict[str, Any]:
        return {
            "probe_id": f"{kernel_id[:4]}-{size}-{tier}",
            "original_id": kernel_id,
            "dims": json.dumps({"R": 2, "N": size}),
            "offset_tensor": None,
            "offset_bytes": 0,
            "tier": tier,
            "platform": HERE.name,
            "outcome": "passed" if status == "ok" else "rejected",
            "status": status,
            "stage": "correctness",
            "clean": None if tier == "default" else status == "ok",
        }

    return [row(ABOVE.kernel_id, above), row(NAIVE.kernel_id, below)]


def told(*each: list[dict[str, Any]]) -> Any:
    found = samples(STEP, [row for group in each for row in group], case(), HERE)
    return learned([(STEP, found)])


WHOLES = [rows(size, "ok") for size in (16, 32, 48, 64, 128)]


def test_fails_where_it_is_false() -> None:
    found = told(*WHOLES, *(rows(size, "wrong_value") for size in (1, 8, 13, 24)))
    assert (found.kind, str(found.predicate)) == ("recovered", WHOLE)
    assert set(found.against_ids) == {f"{ABOVE.kernel_id[:4]}-{size}-default" for size in (1, 8, 13, 24)}


def test_a_shape_at_which_both_fail_is_no_sample() -> None:
    found = told(*WHOLES, *(rows(size, "wrong_value") for size in (1, 8)), rows(80, "crash", below="crash"))
    assert (found.passed, found.failed) == (5, 2)


def test_luck_that_the_simulator_refutes_takes_other_luck_of_its_kind_along() -> None:
    lucky = [rows(size, "ok") for size in (17, 33, 50)]
    assert told(*WHOLES, *lucky).kind == "none_needed"
    refuted = [rows(size, "out_of_bounds", tier="sanitize") for size in (17, 33)]
    found = told(*WHOLES, *lucky, *refuted)
    assert (found.kind, str(found.predicate)) == ("recovered", WHOLE)
    assert (found.passed, found.failed) == (5, 2), "50 was not looked at, and says nothing"


def test_luck_of_the_kernel_without_it_says_nothing_either() -> None:
    fails = [rows(size, "wrong_value") for size in (17, 33)]
    seen = [rows(size, "out_of_bounds", below="out_of_bounds", tier="sanitize") for size in (17, 33)]
    found = told(*WHOLES, *fails, *seen)
    assert found.failed == 0


def test_the_simulator_is_asked_about_fails_and_what_may_be_luck() -> None:
    probes = [*rows(32, "ok"), *rows(13, "wrong_value"), *rows(17, "ok"), *rows(18, "crash", below="crash")]
    asked = doubtful(STEP, probes, case(), HERE)
    assert [(shape.dims["N"], shape.tier) for shape in asked] == [(13, "sanitize"), (17, "sanitize")]
    assert doubtful(STEP, [*probes, *rows(17, "ok", tier="sanitize")], case(), HERE)[0].dims["N"] == 13


def test_what_is_false_only_where_both_fail_was_never_tested() -> None:
    masked = [rows(size, "crash", below="crash") for size in (1, 8, 13)]
    found = told(*WHOLES, *masked)
    assert found.kind == "undetermined"
    assert WHOLE in found.reason and "without it fails, too" in found.reason
    passes = [Sample({"loop.extent": frozenset({n}), "vector.width": frozenset({16})}, True) for n in (16, 32, 48)]
    assert learn(passes).kind == "none_needed"
    tested = Sample({"loop.extent": frozenset({7}), "vector.width": frozenset({16})}, True)
    assert learn([*passes, tested], masked=[tested.facts]).kind == "none_needed"


def test_hints_need_no_probes() -> None:
    restrict = rule_named("restrict-pointer")
    edit = restrict.addable(NAIVE).edits[0]
    above, _ = apply(NAIVE, edit)
    step = Transition({"transition_id": "t"}, edit, NAIVE, above)
    assert learned([(step, samples(step, [], case(), HERE))]).kind == "none_needed"
    assert told().kind == "undetermined"
