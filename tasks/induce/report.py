"""What induction says when it ends: the object that `klineage induce --json` prints."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class InducedSkill(BaseModel):
    """A candidate in a line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    intent: str
    skill_id: str
    steps: int
    conditions: str
    """`recovered`, `none_needed`, `unexplained` or `undetermined`."""
    preconditions: tuple[str, ...]
    prior: tuple[str, ...]
    """Intents that must stand before it."""
    speeds_up: bool
    standing: str
    changed: bool
    """Its card was written now."""


class InduceReport(BaseModel):
    """What `klineage induce --json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skills: tuple[InducedSkill, ...]
    transitions: int
    unreadable: int
    """Transitions whose case or kernel is not here."""
    spent_usd: float = 0.0
