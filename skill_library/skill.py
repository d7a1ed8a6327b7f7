"""A skill: one optimization, and when it is sound. Nine fields, each filled from evidence; the card is its JSON.

intent, anchor, carrier, preconditions, effects, evidence, risks, scope, verification. Every condition, effect and risk
names the rows that it rests on, so that `klineage skills why` can lead from a claim to what was measured.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from experts.ids import content_id
from experts.kernel import Surface
from experts.verdict import Effect, Stage, Status
from skill_library.learning import Kind
from skill_library.predicates import Predicate

Standing = Literal["candidate", "admitted", "waiting", "quarantined"]
"""candidate: induced, not tried yet. admitted: a held-out roundtrip reproduced its effect, and it failed where a
precondition is false. waiting: valid, but the effect was not reproduced, or there was no state to try it on.
quarantined: it gave a wrong kernel where its conditions hold, or did not fail where they do not."""
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]


class _Field(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AnchorField(_Field):
    """Where a skill acts."""

    kind: str
    """The last step of the structural anchor: loop, var, access, param, attribute, hint, const, option; or function."""
    rule: str
    """The rule that finds such places."""
    examples: tuple[str, ...]
    """Anchors of the evidence, with their workload: `gemv gemv/loop[k]`."""


class Carrier(_Field):
    """One way to put the optimization in."""

    rule: str
    params: dict[str, str | int | bool]
    """Parameters of the edit that the evidence used, beside those of the place."""
    sketch: str
    """A step of the evidence, as a unified diff."""
    transition_id: str
    """The step that the sketch shows."""


class Precondition(_Field):
    """A predicate over facts of the place that must hold, recovered from probes."""

    predicate: Predicate
    text: str
    rows_for: tuple[str, ...]
    """Probes that passed, and where it holds."""
    rows_against: tuple[str, ...]
    """Probes that failed though the kernel without the optimization passed, and where it is false."""
    ambiguous: tuple[str, ...]
    """Other predicates that the probes do not tell from it."""


class Preconditions(_Field):
    """When it is sound."""

    kind: Kind
    all_of: tuple[Precondition, ...]
    reason: str
    """How they were found, or why none can be false."""
    passed: int
    """Probes that the kernel with the optimization passed."""
    failed: int
    """Probes that it failed where the one without passed."""


class ContextEffect(_Field):
    """What the optimization was worth once, and where."""

    platform: str
    env_id: str
    workload: str
    case: str
    standing: tuple[str, ...]
    """The other optimizations in place."""
    effect: Effect
    ratio: float
    """t(without) / t(with): above 1 it helps."""
    low: float
    high: float
    """95 %, with `low`."""
    pairs: int
    attempt_id: str


class EvidenceField(_Field):
    """What the skill rests on, counted; the rows are named where they are used."""

    transitions: tuple[str, ...]
    lineages: tuple[str, ...]
    workloads: tuple[str, ...]
    attempts: int
    probes: int
    written_by: tuple[str, ...]


class Risk(_Field):
    """How it fails, and when."""

    status: Status
    stage: Stage
    trigger: str
    """What was the case when it failed."""
    dataset: Literal["attempts", "probes"]
    rows: tuple[str, ...]
    """Ids of that dataset."""


class Scope(_Field):
    """Where it was verified: case, surface, platform, prior actions."""

    cases: tuple[str, ...]
    workloads: tuple[str, ...]
    surface: Surface
    platforms: tuple[str, ...]
    prior: tuple[str, ...]
    """Intents that must stand before it."""
    dtypes: tuple[str, ...]


class Trial(_Field):
    """One admission trial."""

    roundtrip_id: str
    trial: Literal["positive", "negative"]
    held_out: Literal["kernel", "subset", "workload"]
    result: str
    case: str
    platform: str
    effect: Effect | None
    ratio: float | None
    low: float | None
    high: float | None
    status: Status | None
    reason: str | None


class Verification(_Field):
    """What came of admission."""

    standing: Standing = "candidate"
    reason: str = "not tried yet"
    platforms: tuple[str, ...] = ()
    """Where the trials ran."""
    gate_version: int | None = None
    trials: tuple[Trial, ...] = ()
    decided: datetime | None = None


class Skill(_Field):
    """A card."""

    format: Literal[1] = 1
    name: Name
    intent: str
    meaning: str
    """Of the intent, in a sentence."""
    when: str
    """When to use it and when not, in prose: for people and agents. Code decides by `preconditions`."""
    written_by: str
    """Who wrote the prose: `template`, or the model."""
    anchor: AnchorField
    carrier: tuple[Carrier, ...]
    preconditions: Preconditions
    effects: tuple[ContextEffect, ...]
    evidence: EvidenceField
    risks: tuple[Risk, ...]
    scope: Scope
    verification: Verification = Verification()

    @cached_property
    def skill_id(self) -> str:
        """Hash of the card without its verification and its prose: what a trial tries."""
        claimed: dict[str, Any] = self.model_dump(mode="json", exclude={"verification", "when", "written_by"})
        return content_id(claimed)

    @property
    def speeds_up(self) -> bool:
        """Whether it was beyond doubt faster in some context; others are evidence and enablers."""
        return any(each.effect is Effect.FASTER for each in self.effects)

    def expected(self, platform: str) -> tuple[float, float] | None:
        """The least and the most that its contexts on a platform claim; None where none was measured there."""
        here = [each for each in self.effects if each.platform == platform]
        return (min(each.low for each in here), max(each.high for each in here)) if here else None
