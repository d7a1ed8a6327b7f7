"""What admission says when it ends: the object that `klineage roundtrip --json` prints."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from skill_library.skill import Standing, Trial


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Decision(_Model):
    """What came of one skill."""

    skill: str
    skill_id: str
    before: Standing
    standing: Standing
    reason: str
    trials: tuple[Trial, ...]


class RoundtripReport(_Model):
    """All of them."""

    platform: str
    decisions: tuple[Decision, ...]
    admitted: int
    """Skills that stand admitted now."""
    gated: int
    """Trials that this call gated; the others were in the evidence."""
    spent_usd: float = 0.0
