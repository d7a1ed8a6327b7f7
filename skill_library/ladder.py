"""The ladder of a lineage, read from the evidence: every rung with its measured reason, and what was refused.

Forward throughout: a rung's ratio is t(state below) / t(state above), so that above 1 its optimization helps there.
Everything is computed from the rows alone, as anybody can with pandas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict

from experts.verdict import Effect

_FLIPPED = {Effect.FASTER: Effect.SLOWER, Effect.SLOWER: Effect.FASTER}


class LadderError(ValueError):
    """A lineage that the evidence does not have; one line."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ratio(_Model):
    """A forward effect with its interval (95 %)."""

    effect: Effect
    ratio: float
    low: float
    high: float
    pairs: int


class Rung(_Model):
    """An accepted step."""

    step: int
    """Counted from the expert: 0 was taken out first."""
    intent: str
    rule: str | None
    anchor: str | None
    above_id: str
    simplified_id: str
    forward: str
    """identical, rederived or failed."""
    here: Ratio | None
    """On this rung; None where the forward step failed."""
    slower: float | None
    """t(state below) / t(state above), as the chain timed the two: known whether or not the step goes forward."""
    alone: Ratio | None
    """With everything else in place: measured straight from the expert. None where it was not, or was refused there."""
    simplified_us: float | None
    """Median call of the state below, from the chain."""


class Refusal(_Model):
    """A removal that the gate or the domain refused."""

    purpose: str
    intent: str
    rule: str | None
    anchor: str | None
    status: str
    stage: str
    reason: str | None
    parent_id: str
    attempt_id: str


class Ladder(_Model):
    """A lineage from its expert down; what `klineage show --json` prints."""

    lineage_id: str
    run_id: str
    case: str
    platform: str
    expert_id: str
    expert_us: float | None
    rungs: tuple[Rung, ...]
    refusals: tuple[Refusal, ...]

    @property
    def slowdowns(self) -> tuple[float | None, ...]:
        """For each rung, t(state below) / t(expert): the product of the paired ratios down to it, since single times
        drift with the machine. None from the first rung on that has no ratio."""
        found: list[float | None] = []
        product: float | None = 1.0
        for rung in self.rungs:
            product = product * rung.slower if product is not None and rung.slower is not None else None
            found.append(product)
        return tuple(found)

    @property
    def states(self) -> tuple[str, ...]:
        """Kernel ids, expert first."""
        return (self.expert_id, *(rung.simplified_id for rung in self.rungs))


def lineages(transitions: pd.DataFrame) -> pd.DataFrame:
    """One row for each lineage, oldest first: lineage_id, run_id, workload, case, platform, steps, created."""
    grouped = transitions.groupby("lineage_id", sort=False)
    found = grouped.agg(
        run_id=("run_id", "first"),
        workload=("workload", "first"),
        case=("case", "first"),
        platform=("platform", "first"),
        steps=("step", "count"),
        created=("created", "max"),
    )
    return found.reset_index().sort_values("created", kind="stable", ignore_index=True)


def resolve(transitions: pd.DataFrame, wanted: str) -> str:
    """The id of the lineage that `wanted` means: `last`, or the beginning of an id. Raises LadderError."""
    known = lineages(transitions)
    if known.empty:
        raise LadderError("the evidence has no lineage yet: klineage walk KERNEL makes one")
    if wanted == "last":
        return str(known.iloc[-1]["lineage_id"])
    found = [each for each in known["lineage_id"] if each.startswith(wanted)] if wanted else []
    if len(found) != 1:
        which = "no lineage" if not found else f"{len(found)} lineages"
        raise LadderError(f"{which} with an id that begins with {wanted!r}; there are {', '.join(known['lineage_id'])}")
    return str(found[0])


def ladder(attempts: pd.DataFrame, transitions: pd.DataFrame, lineage_id: str) -> Ladder:
    """The ladder of one lineage. Raises LadderError where the evidence has no such lineage.

    Where a run was repeated, the newest repetition of each measurement counts.
    """
    steps = transitions[transitions["lineage_id"] == lineage_id].sort_values("step")
    if steps.empty:
        raise LadderError(f"no lineage {lineage_id}")
    first = steps.iloc[0]
    of_run = attempts[attempts["run_id"] == first["run_id"]].sort_values("repetition", kind="stable")
    newest = of_run.drop_duplicates(["purpose", "parent_id", "kernel_id", "baseline_id"], keep="last")
    rows = [{str(name): _plain(value) for name, value in row.items()} for row in newest.to_dict("records")]
    chain = {(row["parent_id"], row["kernel_id"]): row for row in rows if row["purpose"] == "chain"}
    # By the whole edit: a constant that comes down in two steps is another edit the second time.
    alone = {row["writer"]: row for row in rows if row["purpose"] == "from_expert" and row["accepted"]}
    effects = {
        (row["baseline_id"], row["kernel_id"]): row
        for row in rows
        if row["purpose"] == "forward" and row["baseline_id"] == row["parent_id"]
    }
    root = chain.get((None, first["above_id"]))
    rungs = []
    for step in steps.to_dict("records"):
        down = chain.get((step["above_id"], step["simplified_id"]))
        place = _place(down) if down is not None else (None, None)
        if step["forward"] == "identical":
            here = _ratio(down, turned=True)
        elif step["forward"] == "rederived":
            here = _ratio(effects.get((step["simplified_id"], step["result_id"])), turned=False)
        else:
            here = None
        rungs.append(
            Rung(
                step=int(step["step"]),
                intent=step["intent"],
                rule=place[0],
                anchor=place[1],
                above_id=step["above_id"],
                simplified_id=step["simplified_id"],
                forward=step["forward"],
                here=here,
                slower=1 / down["ratio"] if down is not None and down["ratio"] is not None else None,
                alone=_ratio(alone.get(down["writer"]), turned=True) if down is not None else None,
                simplified_us=down["candidate_us"] if down is not None else None,
            )
        )
    refusals = tuple(
        Refusal(
            purpose=row["purpose"],
            intent=row["intent"],
            rule=_place(row)[0],
            anchor=_place(row)[1],
            status=row["status"],
            stage=row["stage"],
            reason=row["reason"],
            parent_id=row["parent_id"],
            attempt_id=row["attempt_id"],
        )
        for row in sorted(rows, key=lambda row: row["created"])
        if row["purpose"] in ("from_expert", "chain") and row["accepted"] is False and row["parent_id"]
    )
    return Ladder(
        lineage_id=lineage_id,
        run_id=first["run_id"],
        case=first["case"],
        platform=first["platform"],
        expert_id=first["above_id"],
        expert_us=root["candidate_us"] if root is not None else None,
        rungs=tuple(rungs),
        refusals=refusals,
    )


def _plain(value: Any) -> Any:
    """None for pandas' missing scalars; Python's own bool."""
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def _place(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Rule and anchor of the edit that wrote an attempt's kernel."""
    writer = json.loads(row["writer"]) if row["writer"] else {}
    return writer.get("rule"), writer.get("anchor")


def _ratio(row: Mapping[str, Any] | None, turned: bool) -> Ratio | None:
    if row is None or row["ratio"] is None:
        return None
    effect = Effect(row["effect"])
    ratio, low, high = row["ratio"], row["low"], row["high"]
    if turned:
        effect, ratio, low, high = _FLIPPED.get(effect, effect), 1 / ratio, 1 / high, 1 / low
    return Ratio(effect=effect, ratio=ratio, low=low, high=high, pairs=int(row["pairs"]))
