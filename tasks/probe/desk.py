"""The rows of one run of probes. Rows decide: a shape whose row exists is not run again."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from experts.case import Case
from experts.kernel import Kernel
from experts.verdict import GATE_VERSION
from skill_library.records import ProbeRow, kernel_row, probe_id
from tasks.evidence import Evidence
from tasks.gate.launches import accepts, symbols
from tasks.gate.workers import Rejected
from tasks.probe.copies import without_require
from tasks.probe.prober import Finding, Stand
from tasks.probe.shapes import Shape


@dataclass(frozen=True)
class Probed:
    """One shape of one kernel, as the evidence has it."""

    shape: Shape
    row: Mapping[str, Any]
    """Fields of a ProbeRow."""


class Desk:
    """Finds and keeps the rows of a run; its threads share it."""

    def __init__(
        self,
        evidence: Evidence,
        case: Case,
        run_id: str,
        repetition: int,
        transition_id: str | None = None,
        intent: str | None = None,
    ) -> None:
        """Reads what the evidence has of this run. Raises StoreError."""
        self.case, self.run_id, self.repetition = case, run_id, repetition
        self._transition_id, self._intent = transition_id, intent
        self._evidence = evidence
        self._guard = threading.Lock()
        table = evidence.table("probes")
        self._rows: dict[str, Mapping[str, Any]] = {
            row["probe_id"]: row for row in table.to_pylist() if row["run_id"] == run_id
        }

    def begin(self, original: Kernel) -> Kernel:
        """The copy that is probed; both texts are kept. Raises NotApplicable, StoreError."""
        copy = without_require(original)
        self._evidence.append(kernel_row(original), kernel_row(copy))
        return copy

    def known(self, copy: Kernel, shapes: Sequence[Shape]) -> list[Probed]:
        """The shapes that the evidence has, in their order."""
        found = ((shape, self._rows.get(self.identify(copy, shape))) for shape in shapes)
        return [Probed(shape, row) for shape, row in found if row is not None]

    def identify(self, copy: Kernel, shape: Shape) -> str:
        """The probe's id."""
        return probe_id(
            self.run_id,
            kernel_id=copy.kernel_id,
            case_id=self.case.at(shape.dims).case_id,
            dims=dims_text(shape),
            tensor=shape.offset_tensor,
            offset_bytes=shape.offset_bytes,
            tier=shape.tier,
            repetition=self.repetition,
        )

    def keep(self, original: Kernel, copy: Kernel, finding: Finding, stand: Stand) -> None:
        """Keep one row: it is durable when this returns. Raises StoreError."""
        shape = finding.shape
        case = self.case.at(shape.dims)
        row = ProbeRow(
            probe_id=self.identify(copy, shape),
            run_id=self.run_id,
            repetition=self.repetition,
            transition_id=self._transition_id,
            intent=self._intent,
            kernel_id=copy.kernel_id,
            original_id=original.kernel_id,
            workload=case.workload.name,
            case=case.name,
            case_id=case.case_id,
            platform=stand.platform.name,
            env_id=stand.env_id,
            gate_version=GATE_VERSION,
            dims=dims_text(shape),
            offset_tensor=shape.offset_tensor,
            offset_bytes=shape.offset_bytes,
            required=required(original, case, stand),
            tier=shape.tier,
            isolation=stand.isolation,
            outcome="passed" if finding.passed else "rejected",
            stage=finding.stage,
            status=finding.status,
            reason=finding.reason,
            clean=finding.clean,
            error=finding.error,
            log=finding.log,
            created=datetime.now(UTC),
        )
        self._evidence.append(row)
        with self._guard:
            self._rows[row.probe_id] = row.model_dump(mode="json")

    def compact(self) -> None:
        """Turn what was kept into Parquet. Raises StoreError."""
        self._evidence.compact()


def dims_text(shape: Shape) -> str:
    """The sizes as rows have them: canonical JSON."""
    return json.dumps(dict(shape.dims), sort_keys=True, separators=(",", ":"))


def required(kernel: Kernel, case: Case, stand: Stand) -> bool | None:
    """Whether its [require] accepts the shape; None where it has none."""
    if not kernel.manifest.require:
        return None
    try:
        return accepts(kernel, symbols(kernel, case, stand.device.limits.compute_units, stand.platform.warp)) is None
    except Rejected:
        # An expression without a value here: the gate would refuse it, too.
        return False
