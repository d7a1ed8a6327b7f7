"""What trials make of a skill: admitted only if reproduced, clean, and failing where it should."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from skill_library.abstraction import lift
from skill_library.learning import Learned
from skill_library.records import RoundtripRow, roundtrip_id
from skill_library.skill import Skill
from tasks.roundtrip.roundtrip import decided
from tests.skill_library.cards import ident, recovered, step

NONE_NEEDED = Learned(kind="none_needed", passed=40, failed=0, reason="no probe separates them")
UNEXPLAINED = Learned(kind="unexplained", passed=30, failed=4, reason="no predicate separates 34 shapes")


def skill(learned: Learned) -> Skill:
    return lift("split-accumulator", [step()], learned)


def row(trial: str, result: str, **other: Any) -> RoundtripRow:
    given: dict[str, Any] = {
        "run_id": ident(1),
        "skill": "split-accumulator",
        "skill_id": ident(2),
        "trial": trial,
        "held_out": "subset",
        "state_id": ident(3),
        "workload": "gemv",
        "case": "gemv/256-f32",
        "case_id": ident(4),
        "platform": "pocl-x86-avx512",
        "env_id": ident(5),
        "gate_version": 1,
        "result": result,
        "written_by": "rule",
        "created": datetime.now(UTC),
        **other,
    }
    given["roundtrip_id"] = roundtrip_id(ident(1), skill_id=ident(2), state_id=ident(3), case_id=ident(4), trial=trial)
    return RoundtripRow(**given)


REPRODUCED = row("positive", "reproduced", status="ok", clean=True, effect="faster", ratio=3.0, low=2.9, high=3.1)
FAILED = row("negative", "failed_as_stated", status="wrong_value")
NOT_APPLICABLE = row("negative", "not_applicable", reason="no probe separates them")


@pytest.mark.parametrize(
    ("learned", "rows", "standing", "told"),
    [
        (recovered(), [REPRODUCED, FAILED], "admitted", "held-out subset of gemv/256-f32"),
        (NONE_NEEDED, [REPRODUCED, NOT_APPLICABLE], "admitted", "held-out subset"),
        (recovered(), [REPRODUCED], "waiting", "the negative trial was not made"),
        (recovered(), [REPRODUCED, row("negative", "did_not_fail", status="ok")], "quarantined", "did not fail"),
        (recovered(), [REPRODUCED, row("negative", "not_materialized", reason="x")], "waiting", "x"),
        (UNEXPLAINED, [REPRODUCED, FAILED], "waiting", "when it is sound is not known"),
        (recovered(), [], "waiting", "no held-out state"),
        (recovered(), [row("positive", "not_materialized", reason="x")], "waiting", "no held-out state"),
        (recovered(), [row("positive", "not_reproduced", status="ok", reason="1.0x")], "waiting", "1.0x"),
        (
            recovered(),
            [row("positive", "not_reproduced", status="wrong_value", reason="wrong_value at correctness")],
            "quarantined",
            "wrong kernel",
        ),
        (
            recovered(),
            [row("positive", "not_reproduced", status="ok", clean=False, reason="not clean"), FAILED],
            "quarantined",
            "wrong kernel",
        ),
    ],
)
def test_decisions(learned: Learned, rows: list[RoundtripRow], standing: str, told: str) -> None:
    found, reason = decided(skill(learned), rows)
    assert found == standing
    assert told in reason


def test_a_flat_skill_is_admitted_as_such() -> None:
    tie = row("positive", "reproduced", status="ok", clean=True, effect="tie", ratio=1.0, low=0.99, high=1.01)
    standing, reason = decided(skill(NONE_NEEDED), [tie, NOT_APPLICABLE])
    assert (standing, "flat by itself" in reason) == ("admitted", True)
