"""A finished walk as rows: one transition for each step, seen forward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from experts.verdict import Effect
from skill_library.records import TransitionRow, lineage_id, transition_id
from tasks.rewrite.edit import Rule
from tasks.walk.forward import Forward
from tasks.walk.walk import Walked, standing

_FLIPPED = {Effect.FASTER: Effect.SLOWER, Effect.SLOWER: Effect.FASTER}
_CONTEXT = ("workload", "case", "case_id", "platform", "env_id", "gate_version")


def transitions(walked: Walked, forwards: Sequence[Forward], rules: Sequence[Rule], run_id: str) -> list[TransitionRow]:
    """The rows of a walk's chain, from the expert down."""
    lineage = lineage_id(run_id, [kernel.kernel_id for kernel in walked.states])
    rows = []
    for number, each in enumerate(forwards):
        step = each.step
        # Identical text: the chain timed the simplified state against this one, so the ratio turns round.
        source = each.effect if each.effect is not None else (step.tried if each.kind == "identical" else None)
        measured = {} if source is None else _effect(source.row, turned=each.effect is None)
        rows.append(
            TransitionRow(
                transition_id=transition_id(
                    lineage, simplified_id=step.simplified.kernel_id, above_id=step.above.kernel_id
                ),
                lineage_id=lineage,
                run_id=run_id,
                step=number,
                intent=step.edit.intent,
                edit=json.dumps(each.edit.record()) if each.edit else None,
                simplified_id=step.simplified.kernel_id,
                above_id=step.above.kernel_id,
                result_id=each.result.kernel_id if each.result and each.kind != "failed" else None,
                forward=each.kind,
                backward_attempt_id=step.tried.attempt_id,
                attempt_id=source.attempt_id if source else None,
                standing=standing(step.simplified, rules),
                prior=tuple(
                    dict.fromkeys(each.needs_intent for each in walked.precedence if each.place == step.edit.place)
                ),
                written_by="rule",
                writer=json.dumps(each.edit.record()) if each.edit else None,
                created=datetime.now(UTC),
                **{name: step.tried.row[name] for name in _CONTEXT},
                **measured,
            )
        )
    return rows


def _effect(row: Mapping[str, Any], turned: bool) -> dict[str, Any]:
    if row["effect"] is None:
        return {"clean": row["clean"]}
    effect = Effect(row["effect"])
    found = {name: row[name] for name in ("ratio", "low", "high", "pairs")}
    if turned:
        found |= {"ratio": 1 / row["ratio"], "low": 1 / row["high"], "high": 1 / row["low"]}
        effect = _FLIPPED.get(effect, effect)
    return {"effect": effect, "clean": row["clean"], **found}
