"""Verdicts: which fields may stand together, and JSON."""

from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from experts.verdict import CompileFacts, Correctness, Domain, Effect, GateReport, Profile, Stage, Status, Verdict

CORRECTNESS = Correctness(error=0.01, launches=12, distributions=("normal", "ties"), repeats=3)
DOMAIN = Domain(checked=("512", "M=7,N=5,K=3"), refused=("M=1,N=1,K=1",))
ALONE = {"candidate_us": 10.0, "candidate_samples_us": (9.0, 10.0, 11.0), "floor_us": 1.0}
COMPARED = {
    **ALONE,
    "baseline_us": 20.0,
    "baseline_samples_us": (19.0, 20.0, 21.0),
    "effect": Effect.FASTER,
    "ratio": 2.0,
    "low": 1.9,
    "high": 2.1,
    "pairs": 3,
}


def _fields(**changed: object) -> dict[str, Any]:
    passed = {
        "outcome": "passed",
        "stage": Stage.PROFILE,
        "status": Status.OK,
        "kernel_id": "0" * 16,
        "case": "gemm/512-f32",
        "case_id": "1" * 16,
        "platform": "pocl-x86-avx2",
        "tier": "default",
        "isolation": "sandlock",
        "domain": DOMAIN,
        "compile": CompileFacts(binary_bytes=4096),
        "correctness": CORRECTNESS,
        "profile": Profile(**COMPARED),
        "seconds": {"compile": 0.5},
    }
    return {**passed, **changed}


def _rejected(**changed: object) -> dict[str, Any]:
    rejection = {
        "outcome": "rejected",
        "stage": Stage.CORRECTNESS,
        "status": Status.WRONG_VALUE,
        "reason": "C[0,0] is 1",
        "profile": None,
        "correctness": None,
    }
    return _fields(**{**rejection, **changed})


@pytest.mark.parametrize(
    "fields",
    [
        _fields(),
        _fields(profile=None, stage=Stage.CORRECTNESS),
        _fields(profile=Profile(**ALONE)),
        _fields(tier="sanitize", clean=True),
        _rejected(),
        _rejected(stage=Stage.PARSE, status=Status.INVALID_KERNEL, domain=None, compile=None, isolation=None),
        _rejected(stage=Stage.PROFILE, status=Status.IMPOSSIBLE_TIME, correctness=CORRECTNESS),
        # The baseline was at fault in timing.
        _fields(profile=None),
        # Built again for the sanitizer, or for timing.
        _rejected(status=Status.COMPILE_ERROR),
        _rejected(stage=Stage.PROFILE, status=Status.COMPILE_ERROR),
        # What the sanitizer's tiny shape did not show.
        _rejected(stage=Stage.PROFILE, status=Status.OUT_OF_BOUNDS, tier="sanitize", clean=True),
        _rejected(stage=Stage.REQUIRE, status=Status.UNMET_REQUIRE, domain=None, compile=None, isolation=None),
        _rejected(stage=Stage.REQUIRE, status=Status.HARNESS_ERROR, domain=None, compile=None, isolation=None),
    ],
)
def test_a_verdict_survives_json(fields: dict[str, Any]) -> None:
    verdict = Verdict(**fields)
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize(
    "fields",
    [
        _fields(status=Status.WRONG_VALUE),
        _fields(reason="why"),
        _fields(correctness=None),
        _fields(domain=None),
        _fields(clean=True),
        _fields(outcome="maybe"),
        _fields(status="fine"),
        _fields(stage="warmup"),
        _fields(tier="other"),
        _fields(isolation="docker"),
        _fields(surprise=1),
        _rejected(status=Status.OK),
        _rejected(reason=None),
        _rejected(profile=Profile(**ALONE)),
        _rejected(outcome="passed"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Verdict(**fields)


LOOSE = {
    "a pass that ended at parse": _fields(stage=Stage.PARSE, profile=None),
    "a profile without its stage": _fields(stage=Stage.CORRECTNESS),
    "a pass beyond the bound": _fields(correctness=CORRECTNESS.model_copy(update={"error": 2.0})),
    "correctness without a worker": _fields(isolation=None),
    "a reason of two lines": _rejected(reason="one\ntwo"),
    "an empty reason": _rejected(reason=""),
    "a blank reason": _rejected(reason=" "),
    "a reason with a line separator": _rejected(reason="one\u2028two"),
    "an error that is no number": _fields(correctness=CORRECTNESS.model_copy(update={"error": math.nan})),
    "not compiled, before compile": _rejected(stage=Stage.REQUIRE, status=Status.COMPILE_ERROR),
    "a wrong value of a text": _rejected(stage=Stage.PARSE),
    "a wrong value of a build": _rejected(stage=Stage.COMPILE),
    "impossible time without timing": _rejected(status=Status.IMPOSSIBLE_TIME),
    "a [require] of the compiler": _rejected(stage=Stage.COMPILE, status=Status.UNMET_REQUIRE),
    "a worker that nothing held": _rejected(isolation=None),
    "clean, and out of bounds": _rejected(tier="sanitize", clean=True, status=Status.OUT_OF_BOUNDS),
    "clean, and rejected for a race": _rejected(tier="sanitize", clean=True, status=Status.RACE),
}


@pytest.mark.parametrize("name", LOOSE)
def test_more_contradictions_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Verdict(**LOOSE[name])


@pytest.mark.parametrize("missing", ["baseline_us", "baseline_samples_us", "effect", "ratio", "low", "high", "pairs"])
def test_a_comparison_has_all_its_fields_or_none(missing: str) -> None:
    Profile(**COMPARED)
    with pytest.raises(ValidationError):
        Profile(**{**COMPARED, missing: None})
    with pytest.raises(ValidationError):
        Profile(**{**ALONE, missing: COMPARED[missing]})


@pytest.mark.parametrize(
    "changed",
    [
        {"low": 2.05},
        {"high": 1.5},
        {"pairs": 4},
        {"baseline_samples_us": (19.0, 21.0)},
        {"candidate_samples_us": ()},
        {"candidate_samples_us": (9.0, 10.0, math.inf)},
        {"candidate_us": 0.0},
        {"baseline_us": -1.0},
        {"floor_us": math.nan},
        {"calls_per_sample": 0},
        {"ratio": math.nan},
        {"low": math.nan},
        {"low": 0.0},
        {"high": math.inf},
        {"effect": Effect.SLOWER},
        {"low": 0.99},
    ],
    ids=str,
)
def test_a_comparison_is_consistent(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Profile(**{**COMPARED, **changed})


def test_values_are_frozen() -> None:
    verdict = Verdict(**_fields())
    with pytest.raises(ValidationError):
        verdict.status = Status.WRONG_VALUE  # type: ignore[misc]


def test_the_sets_are_closed_and_documented_words() -> None:
    assert {status.value for status in Status} == set(
        [
            "ok",
            "invalid_kernel",
            "unmet_require",
            "unsupported",
            "compile_error",
            "launch_error",
            "crash",
            "timeout",
            "out_of_memory",
            "resource_limit",
            "wrong_shape",
            "wrong_dtype",
            "wrong_value",
            "unwritten_output",
            "out_of_bounds",
            "input_mutated",
            "nondeterministic",
            "race",
            "tampering",
            "impossible_time",
            "harness_error",
        ]
    )
    assert [stage.value for stage in Stage] == ["parse", "require", "compile", "launch", "correctness", "profile"]
    assert {effect.value for effect in Effect} == {"faster", "slower", "tie", "undecided"}


@pytest.mark.parametrize("verdict", [Verdict(**_fields()), Verdict(**_rejected())])
def test_a_report_fits_its_json_schema(verdict: Verdict) -> None:
    report = GateReport(verdict=verdict, baseline=None, environment={"cpu": "x"}, env_id="2" * 16, kept="kept")
    schema = GateReport.model_json_schema(mode="serialization")
    jsonschema.validate(report.model_dump(mode="json"), schema)
    assert GateReport.model_validate_json(report.model_dump_json()) == report
