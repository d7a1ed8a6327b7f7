"""What a run of probes found, in numbers, and where its two kernels differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from experts.kernel import Kernel
from experts.verdict import Status, Tier
from tasks.probe.desk import Probed


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KernelCounts(_Model):
    """One kernel over all its shapes."""

    kernel_id: str
    """The copy without [require] that was run."""
    original_id: str
    shapes: int
    counts: dict[str, int]
    """Shapes by status, the most frequent first."""
    refused: int | None
    """Shapes that the original's [require] does not accept; None where it has none."""
    lucky: int
    """Refused and passed all the same."""


class Difference(_Model):
    """A shape where one kernel passes and the other does not, or both fail in different ways."""

    dims: dict[str, int]
    offset_tensor: str | None
    offset_bytes: int
    tier: Tier
    above: Status
    above_reason: str | None
    simplified: Status
    simplified_reason: str | None


class ProbeReport(_Model):
    """Of one transition."""

    run_id: str
    repetition: int
    transition_id: str | None
    intent: str | None
    case: str
    platform: str
    above: KernelCounts
    """With the optimization."""
    simplified: KernelCounts
    differ: tuple[Difference, ...]
    ran: int
    """Probes that this call ran; the others were in the evidence already."""


def differences(above: Sequence[Probed], simplified: Sequence[Probed]) -> tuple[Difference, ...]:
    """Shapes with two statuses, in the order of the first."""
    other = {each.shape: each.row for each in simplified}
    return tuple(
        Difference(
            dims=json.loads(each.row["dims"]),
            offset_tensor=each.row["offset_tensor"],
            offset_bytes=each.row["offset_bytes"],
            tier=each.row["tier"],
            above=each.row["status"],
            above_reason=each.row["reason"],
            simplified=other[each.shape]["status"],
            simplified_reason=other[each.shape]["reason"],
        )
        for each in above
        if each.shape in other and other[each.shape]["status"] != each.row["status"]
    )


def counts(original: Kernel, copy: Kernel, probed: Sequence[Probed]) -> KernelCounts:
    """The numbers of one kernel."""
    rows: list[Any] = [each.row for each in probed]
    refused = [row for row in rows if row["required"] is False]
    return KernelCounts(
        kernel_id=copy.kernel_id,
        original_id=original.kernel_id,
        shapes=len(rows),
        counts=dict(Counter(str(row["status"]) for row in rows).most_common()),
        refused=len(refused) if original.manifest.require else None,
        lucky=sum(row["outcome"] == "passed" for row in refused),
    )
