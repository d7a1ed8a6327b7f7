"""What an optimization says when it ends: the object that `klineage optimize --json` prints."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from experts.verdict import Effect
from skill_library.predicates import Unmet

DEFAULT_ATTEMPTS = 24
"""Candidates that are gated at most."""


class KernelInvalid(Exception):
    """The given kernel does not pass the gate; one line with its verdict."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Speedup(_Model):
    """t(given) / t(best), with the interval (95 %). All are 1 where the best is the given kernel."""

    ratio: float
    low: float
    high: float


class Attempt(_Model):
    """One gated candidate."""

    skills: tuple[str, ...]
    """What went in, in order."""
    edits: tuple[dict[str, Any], ...]
    required: tuple[str, ...]
    """What the candidate's [require] says more."""
    status: str
    reason: str | None
    effect: Effect | None
    ratio: float | None
    """t(best so far) / t(candidate)."""
    low: float | None
    high: float | None
    kept: bool
    """Faster beyond doubt, so that the next are tried on top of it."""
    kernel_id: str
    parent_id: str
    attempt_id: str


class RefusedSkill(_Model):
    """A place where a skill was not tried, and why."""

    skill: str
    anchor: str
    unmet: tuple[Unmet, ...]
    """Preconditions that do not hold there."""
    reason: str


class OptimizeReport(_Model):
    """What came of it."""

    run_id: str
    kernel_id: str
    """Of the given kernel."""
    case: str
    platform: str
    best: str
    """The file of the best kernel."""
    best_id: str
    """Of the best kernel; the given one where nothing helped."""
    speedup: Speedup
    skills: tuple[str, ...]
    """What is in the best kernel, in the order in which it went in."""
    attempts: tuple[Attempt, ...]
    gated: int
    """Gates that this call spent, the comparison of the end included; the others were in the evidence."""
    refused: tuple[RefusedSkill, ...]
    library: int
    """Skills that were retrieved."""
    ended: str
    """Why it ended: `nothing more helps`, `attempts spent`, or `no skill applies`."""
    spent_usd: float
    """On language models."""
