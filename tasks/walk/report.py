"""What a walk says when it ends: the object that `klineage walk --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from experts.verdict import Effect
from skill_library.intents import canonical
from skill_library.records import Purpose, WrittenBy
from tasks.trials import Tried, writer_of
from tasks.walk.forward import Forward
from tasks.walk.inventory import Inventory
from tasks.walk.walk import Walked


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StepReport(_Model):
    """One gated attempt of a walk."""

    intent: str | None
    """None for the expert itself."""
    purpose: Purpose
    outcome: Literal["accepted", "rejected"]
    status: str
    effect: Effect | None
    ratio: float | None
    """t(baseline) / t(child): above 1 the child is faster."""
    low: float | None
    high: float | None
    written_by: WrittenBy
    writer: dict[str, Any]
    parent: str | None
    child: str
    baseline: str | None
    attempt_id: str


class PrecedenceReport(_Model):
    """Going forward, `intent` comes after `needs`: that one could not be taken out while it stood."""

    intent: str
    anchor: str
    needs: str
    needs_anchor: str
    shown_by: tuple[str, ...]
    """Attempts; empty where the rule declined."""


class ForwardReport(_Model):
    """The forward step of one step of the chain."""

    intent: str
    anchor: str
    forward: Literal["identical", "rederived", "failed"]
    simplified: str
    result: str | None


class DeclinedReport(_Model):
    """A place of the last state that its rule leaves alone."""

    rule: str
    intent: str
    anchor: str
    reason: str


class WalkReport(_Model):
    """A lineage."""

    lineage_id: str
    run_id: str
    repetition: int
    kernel: str
    """The expert's id."""
    case: str
    platform: str
    steps: tuple[StepReport, ...]
    accepted: int
    """Steps of the chain."""
    rejected: int
    """Attempts of the chain and from the expert that the gate or the domain refused."""
    gated: int
    """Attempts that this call gated; the others were in the evidence."""
    forward: tuple[ForwardReport, ...]
    precedence: tuple[PrecedenceReport, ...]
    expert_us: float | None
    """None where nothing was timed."""
    last_us: float | None
    """Of the state in which the walk ended."""
    left: tuple[str, ...] | None
    """Intents that the expert declares and no rule took out; None where it declares none: unknown."""
    declined: tuple[DeclinedReport, ...]
    evidence: str
    """`kept`: where to look is the caller's knowledge."""


def report(
    walked: Walked,
    forwards: Sequence[Forward],
    remaining: Inventory,
    *,
    lineage_id: str,
    run_id: str,
    repetition: int,
) -> WalkReport:
    """The report of a finished walk."""
    forward_tries = [tried for each in forwards for tried in (each.against_above, each.effect) if tried is not None]
    tries = [walked.root, *walked.from_expert, *walked.tried, *walked.contexts, *forward_tries]
    considered = [*walked.from_expert, *walked.tried]
    last = walked.steps[-1].tried if walked.steps else walked.root
    return WalkReport(
        lineage_id=lineage_id,
        run_id=run_id,
        repetition=repetition,
        kernel=walked.expert.kernel_id,
        case=walked.root.row["case"],
        platform=walked.root.row["platform"],
        steps=tuple(_step(tried) for tried in tries),
        accepted=len(walked.steps),
        rejected=sum(not tried.accepted for tried in considered),
        gated=sum(not tried.recorded for tried in tries),
        forward=tuple(_forward(each) for each in forwards),
        precedence=tuple(
            PrecedenceReport(
                intent=each.intent,
                anchor=each.place[1],
                needs=each.needs_intent,
                needs_anchor=each.needs_place[1],
                shown_by=each.shown_by,
            )
            for each in walked.precedence
        ),
        expert_us=walked.root.row["candidate_us"],
        last_us=last.row["candidate_us"],
        left=left(walked),
        declined=tuple(
            DeclinedReport(rule=each.rule, intent=each.intent, anchor=each.anchor, reason=each.reason)
            for each in remaining.declined
        ),
        evidence="kept",
    )


def left(walked: Walked) -> tuple[str, ...] | None:
    """Declared intents of which no step was accepted; None where the expert declares none."""
    declared = walked.expert.manifest.intents
    if not declared:
        return None
    gone = {step.edit.intent for step in walked.steps}
    return tuple(dict.fromkeys(name for name in map(canonical, declared) if name not in gone))


def _step(tried: Tried) -> StepReport:
    row = tried.row
    return StepReport(
        intent=row["intent"],
        purpose=row["purpose"],
        outcome="accepted" if tried.accepted else "rejected",
        status=row["status"],
        effect=row["effect"],
        ratio=row["ratio"],
        low=row["low"],
        high=row["high"],
        written_by=row["written_by"],
        writer=writer_of(row),
        parent=row["parent_id"],
        child=row["kernel_id"],
        baseline=row["baseline_id"],
        attempt_id=tried.attempt_id,
    )


def _forward(each: Forward) -> ForwardReport:
    return ForwardReport(
        intent=each.step.edit.intent,
        anchor=each.step.edit.anchor,
        forward=each.kind,
        simplified=each.step.simplified.kernel_id,
        result=each.result.kernel_id if each.result is not None and each.kind != "failed" else None,
    )
