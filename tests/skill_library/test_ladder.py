"""Ladders from rows: which measurement counts, and which way round."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from experts.verdict import Effect
from skill_library.ladder import LadderError, Ratio, ladder, lineages, resolve

EXPERT, MIDDLE, LAST = "e" * 16, "b" * 16, "a" * 16
RUN, LINEAGE = "1" * 16, "2" * 16
START = pd.Timestamp("2026-01-01", tz="UTC")


def attempt(
    purpose: str, parent: str | None, child: str, ratio: float | None, edit: str = "", **fields: Any
) -> dict[str, Any]:
    writer = {"rule": "unroll-hint", "anchor": edit, "params": {}} if edit else None
    return {
        "attempt_id": f"{purpose}-{child}-{fields.get('repetition', 0)}",
        "run_id": RUN,
        "repetition": 0,
        "purpose": purpose,
        "intent": "unroll-loop" if edit else None,
        "parent_id": parent,
        "kernel_id": child,
        "baseline_id": parent,
        "accepted": True,
        "status": "ok",
        "stage": "profile",
        "reason": None,
        "effect": None if ratio is None else "slower" if ratio < 1 else "faster",
        "ratio": ratio,
        "low": None if ratio is None else ratio * 0.9,
        "high": None if ratio is None else ratio * 1.1,
        "pairs": None if ratio is None else 60,
        "candidate_us": 10.0,
        "writer": json.dumps(writer) if writer else None,
        "created": START,
    } | fields


def transition(
    step: int, above: str, simplified: str, forward: str, result: str | None, **fields: Any
) -> dict[str, Any]:
    return {
        "lineage_id": LINEAGE,
        "run_id": RUN,
        "step": step,
        "intent": "unroll-loop",
        "above_id": above,
        "simplified_id": simplified,
        "result_id": result,
        "forward": forward,
        "workload": "gemm",
        "case": "gemm/64-f32",
        "platform": "pocl-x86-avx2",
        "created": START,
    } | fields


ATTEMPTS = [
    attempt("chain", None, EXPERT, None, candidate_us=5.0),
    attempt("from_expert", EXPERT, MIDDLE, 0.4, "f/one"),
    attempt("from_expert", EXPERT, "c" * 16, None, "f/two", accepted=False, status="crash", stage="launch", reason="x"),
    attempt("chain", EXPERT, MIDDLE, 0.5, "f/one"),
    attempt("chain", MIDDLE, LAST, 0.8, "f/two"),
]
STEPS = [transition(0, EXPERT, MIDDLE, "identical", EXPERT), transition(1, MIDDLE, LAST, "failed", None)]


def frames(attempts: list[dict[str, Any]], steps: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.DataFrame(attempts), pd.DataFrame(steps)


def test_identical_text_turns_the_chains_ratio_round() -> None:
    found = ladder(*frames(ATTEMPTS, STEPS), LINEAGE)
    first, second = found.rungs
    assert first.here is not None
    assert (first.here.effect, first.here.ratio) == (Effect.FASTER, 2.0)
    assert (first.here.low, first.here.high) == pytest.approx((1 / 0.55, 1 / 0.45))
    assert first.alone is not None and first.alone.ratio == 2.5
    assert second.here is None and second.alone is None
    assert found.states == (EXPERT, MIDDLE, LAST)
    assert found.expert_us == 5.0
    assert found.slowdowns == (2.0, 2.5), "the chain timed what does not go forward, too"


def test_a_rederived_step_has_a_measurement_of_its_own() -> None:
    result = "d" * 16
    steps = [STEPS[0], transition(1, MIDDLE, LAST, "rederived", result)]
    forward = [
        attempt("forward", LAST, result, 1.3, "f/two"),
        attempt("forward", LAST, result, 1.0, "f/two", baseline_id=MIDDLE),
    ]
    found = ladder(*frames([*ATTEMPTS, *forward], steps), LINEAGE)
    assert found.rungs[1].here == Ratio(effect=Effect.FASTER, ratio=1.3, low=1.3 * 0.9, high=1.3 * 1.1, pairs=60)
    assert found.slowdowns == (2.0, 2.5)


def test_the_newest_repetition_counts() -> None:
    again = attempt("chain", EXPERT, MIDDLE, 0.25, "f/one", repetition=1)
    for attempts in ([*ATTEMPTS, again], [again, *ATTEMPTS]):
        rung = ladder(*frames(attempts, STEPS), LINEAGE).rungs[0]
        assert rung.here is not None and rung.here.ratio == 4.0


def test_refusals_say_what_and_where() -> None:
    (refusal,) = ladder(*frames(ATTEMPTS, STEPS), LINEAGE).refusals
    assert (refusal.purpose, refusal.anchor, refusal.status, refusal.stage) == (
        "from_expert",
        "f/two",
        "crash",
        "launch",
    )


def test_resolve() -> None:
    other = transition(0, EXPERT, MIDDLE, "identical", EXPERT, lineage_id="3" * 16, created=START + pd.Timedelta("1h"))
    steps = pd.DataFrame([*STEPS, other])
    assert lineages(steps)["steps"].tolist() == [2, 1]
    assert resolve(steps, "last") == "3" * 16
    assert resolve(steps, "22") == LINEAGE
    with pytest.raises(LadderError, match="no lineage with an id that begins with 'ff'"):
        resolve(steps, "ff")
    with pytest.raises(LadderError, match="no lineage yet"):
        resolve(steps.iloc[:0], "last")
    with pytest.raises(LadderError):
        ladder(pd.DataFrame(ATTEMPTS), steps, "4" * 16)
