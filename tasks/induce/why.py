"""From a card's claims to the rows that they rest on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from skill_library.skill import Skill
from tasks.evidence import Evidence

Record = Mapping[str, Any]
RowsOf = Literal["attempts", "probes", "roundtrips", "transitions"]
_KEYS: dict[RowsOf, str] = {
    "attempts": "attempt_id",
    "probes": "probe_id",
    "roundtrips": "roundtrip_id",
    "transitions": "transition_id",
}


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowSeen(_Model):
    """One row behind a claim."""

    dataset: RowsOf
    id: str
    found: bool
    """False where the evidence at hand does not have it."""
    says: str
    """What the row says, in a line."""


class Claim(_Model):
    """One line of a card."""

    field: Literal["carrier", "preconditions", "effects", "risks", "scope", "verification"]
    text: str
    rows: tuple[RowSeen, ...]


class WhyReport(_Model):
    """What `klineage skills why NAME --json` prints."""

    skill: str
    skill_id: str
    claims: tuple[Claim, ...]
    missing: int
    """Rows that the evidence at hand does not have."""


def why(skill: Skill, evidence: Evidence) -> WhyReport:
    """Every claim of a card with its rows. Raises StoreError."""
    wanted = {dataset: set(ids) for dataset, ids in _wanted(skill).items()}
    rows: dict[RowsOf, dict[str, Record]] = {
        dataset: {row[_KEYS[dataset]]: row for row in evidence.table(dataset).to_pylist() if row[_KEYS[dataset]] in ids}
        for dataset, ids in wanted.items()
    }

    def seen(dataset: RowsOf, ids: Iterable[str]) -> tuple[RowSeen, ...]:
        return tuple(
            RowSeen(
                dataset=dataset,
                id=each,
                found=each in rows[dataset],
                says=_SAYS[dataset](rows[dataset][each]) if each in rows[dataset] else "not in the evidence at hand",
            )
            for each in ids
        )

    claims = [
        Claim(field="carrier", text=f"it is put in by {each.rule}", rows=seen("transitions", (each.transition_id,)))
        for each in skill.carrier
    ]
    for each in skill.preconditions.all_of:
        claims.append(Claim(field="preconditions", text=f"sound where {each.text}", rows=seen("probes", each.rows_for)))
        claims.append(
            Claim(
                field="preconditions",
                text=f"not sound where not ({each.text})",
                rows=seen("probes", each.rows_against),
            )
        )
    if not skill.preconditions.all_of:
        steps = seen("transitions", skill.evidence.transitions)
        claims.append(Claim(field="preconditions", text=f"none: {skill.preconditions.reason}", rows=steps))
    for effect in skill.effects:
        beside = f" beside {', '.join(effect.standing)}" if effect.standing else ""
        text = (
            f"{effect.ratio:.2f}x ({effect.low:.2f} to {effect.high:.2f}) in {effect.case} on {effect.platform}{beside}"
        )
        claims.append(Claim(field="effects", text=text, rows=seen("attempts", (effect.attempt_id,))))
    for risk in skill.risks:
        text = f"{risk.status} at {risk.stage}, where {risk.trigger}"
        claims.append(Claim(field="risks", text=text, rows=seen(risk.dataset, risk.rows)))
    if skill.scope.prior:
        text = f"comes after {', '.join(skill.scope.prior)}"
        claims.append(Claim(field="scope", text=text, rows=seen("transitions", skill.evidence.transitions)))
    for trial in skill.verification.trials:
        text = f"{trial.trial}, held out {trial.held_out}: {trial.result}"
        claims.append(Claim(field="verification", text=text, rows=seen("roundtrips", (trial.roundtrip_id,))))
    missing = sum(not row.found for claim in claims for row in claim.rows)
    return WhyReport(skill=skill.name, skill_id=skill.skill_id, claims=tuple(claims), missing=missing)


def _wanted(skill: Skill) -> dict[RowsOf, list[str]]:
    """Every id that a card names."""
    risks = {
        dataset: [row for risk in skill.risks if risk.dataset == dataset for row in risk.rows]
        for dataset in ("attempts", "probes")
    }
    conditions = [row for each in skill.preconditions.all_of for row in (*each.rows_for, *each.rows_against)]
    return {
        "attempts": [*(each.attempt_id for each in skill.effects), *risks["attempts"]],
        "probes": [*conditions, *risks["probes"]],
        "roundtrips": [trial.roundtrip_id for trial in skill.verification.trials],
        "transitions": [*skill.evidence.transitions, *(each.transition_id for each in skill.carrier)],
    }


def _probe(row: Record) -> str:
    dims = ",".join(f"{name}={size}" for name, size in json.loads(row["dims"]).items())
    moved = f", {row['offset_tensor']} moved by {row['offset_bytes']} bytes" if row["offset_tensor"] else ""
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"{row['workload']} {dims}{moved} ({row['tier']}): {row['status']}{reason}"


def _attempt(row: Record) -> str:
    measured = f", {row['effect']} {row['ratio']:.3g}x ({row['low']:.3g} to {row['high']:.3g})" if row["ratio"] else ""
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"{row['purpose']} of {row['case']} on {row['platform']}: {row['status']}{measured}{reason}"


def _roundtrip(row: Record) -> str:
    return f"{row['trial']} at {row['case']} on {row['platform']}: {row['result']}: {row['reason']}"


def _transition(row: Record) -> str:
    after = f", after {', '.join(row['prior'])}" if row["prior"] else ""
    return f"step {row['step'] + 1} of lineage {row['lineage_id']} ({row['case']}): {row['forward']}{after}"


_SAYS = {"attempts": _attempt, "probes": _probe, "roundtrips": _roundtrip, "transitions": _transition}
