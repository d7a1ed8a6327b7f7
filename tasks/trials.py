"""One gate of a walk: a kernel tried against another, and the row that is kept of it.

Rows decide: a trial whose row exists is answered from it, and nothing is gated twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experts.case import Case
from experts.kernel import Kernel
from experts.verdict import Domain, GateReport, Status
from skill_library.records import AttemptRow, Purpose, Row, attempt_id, attempt_row, kernel_row
from tasks import runs
from tasks.evidence import Evidence
from tasks.gate.runner import HarnessFault, Outcome, Progress, Settings, gate
from tasks.rewrite.edit import Edit

_TRIES = 2


@dataclass(frozen=True)
class Trial:
    """A kernel to be gated, and why."""

    purpose: Purpose
    kernel: Kernel
    parent: Kernel | None = None
    """What it was made from; None for the expert itself."""
    baseline: Kernel | None = None
    """What it is timed against."""
    edit: Edit | None = None
    """What made it from its parent."""
    timed: bool = True
    """False where only validity is asked for."""
    ahead: Kernel | None = None
    """What will be tried next if this one is accepted."""
    label: str = ""
    """For people: `chain-03 unroll-loop`."""
    narrows: bool = False
    """It may refuse shapes that its parent takes, down to the case's minimal domain: going forward, what a skill needs
    is required."""
    writer: Mapping[str, object] | None = None
    """Who wrote the kernel, where it was not the edit alone."""


@dataclass(frozen=True)
class Tried:
    """What came of a trial, as the evidence has it."""

    attempt_id: str
    trial: Trial
    row: Mapping[str, Any]
    """Fields of an AttemptRow."""
    recorded: bool
    """It was there already."""

    @property
    def accepted(self) -> bool:
        """Valid, and on all the shapes that its parent takes."""
        return bool(self.row["accepted"])

    @property
    def told(self) -> str:
        """The verdict in a few words."""
        row = self.row
        if row["outcome"] != "passed":
            return f"{row['status']} at {row['stage']}"
        if not self.accepted:
            return "narrows the domain"
        effect = row["effect"]
        return "passed" if effect is None else f"{effect} {row['ratio']:.3g}x"


class Desk:
    """Gates trials of one run and keeps their rows. Threads may share it."""

    def __init__(self, evidence: Evidence, case: Case, settings: Settings, run_id: str, repetition: int) -> None:
        """Reads what the evidence has of this run. Raises StoreError."""
        self.case, self.settings, self.run_id, self.repetition = case, settings, run_id, repetition
        self._evidence = evidence
        self._guard = threading.Lock()
        table = evidence.table("attempts")
        self._rows: dict[str, Mapping[str, Any]] = {
            row["attempt_id"]: row for row in table.to_pylist() if row["run_id"] == run_id
        }

    def identify(self, trial: Trial) -> str:
        """The attempt's id."""
        return attempt_id(
            self.run_id,
            parent_id=trial.parent.kernel_id if trial.parent else None,
            kernel_id=trial.kernel.kernel_id,
            baseline_id=trial.baseline.kernel_id if trial.baseline else None,
            case_id=self.case.case_id,
            purpose=trial.purpose,
            repetition=self.repetition,
        )

    def known(self, trial: Trial) -> Tried | None:
        """What the evidence has of it."""
        identity = self.identify(trial)
        row = self._rows.get(identity)
        return Tried(identity, trial, row, recorded=True) if row is not None else None

    def try_out(self, trial: Trial, progress: Progress | None = None) -> Tried:
        """Gate it, or read its row; when this returns, the row is durable.

        Raises HarnessFault, GateUnavailable, CaseError, StoreError.
        """
        known = self.known(trial)
        if known is not None:
            return known
        outcome = self._gated(trial, progress)
        report = GateReport(
            verdict=outcome.verdict,
            baseline=outcome.baseline,
            environment=outcome.environment,
            env_id=outcome.env_id,
            kept="kept",
        )
        row = self._row(trial, report)
        kernels = [kernel_row(each) for each in (trial.kernel, trial.parent, trial.baseline) if each is not None]
        self._evidence.append(*kernels, row)
        record = row.model_dump(mode="json")
        with self._guard:
            self._rows[row.attempt_id] = record
        return Tried(row.attempt_id, trial, record, recorded=False)

    def keep(self, rows: Sequence[Row]) -> None:
        """Keep other rows of this run, those that the evidence lacks. Raises StoreError."""
        runs.keep_new(self._evidence, rows)

    def compact(self) -> None:
        """Turn what was kept into Parquet. Raises StoreError."""
        self._evidence.compact()

    def _gated(self, trial: Trial, progress: Progress | None) -> Outcome:
        settings = self.settings if trial.timed else self.settings.untimed()
        for _ in range(_TRIES):
            outcome = gate(trial.kernel, self.case, settings, trial.baseline, progress, ahead=trial.ahead)
            fault = _fault(outcome)
            if fault is None:
                return outcome
        raise HarnessFault(fault or "the gate failed")

    def _row(self, trial: Trial, report: GateReport) -> AttemptRow:
        passed = report.verdict.outcome == "passed"
        if report.baseline is not None and not trial.narrows:
            passed = passed and _takes_all_of(report.verdict.domain, report.baseline.domain)
        return attempt_row(
            report,
            run_id=self.run_id,
            purpose=trial.purpose,
            parent_id=trial.parent.kernel_id if trial.parent else None,
            baseline_id=trial.baseline.kernel_id if trial.baseline else None,
            repetition=self.repetition,
            intent=trial.edit.intent if trial.edit else None,
            accepted=passed,
            written_by="rule" if trial.edit or trial.writer else "author",
            writer=trial.writer or (trial.edit.record() if trial.edit else None),
        )


def _fault(outcome: Outcome) -> str | None:
    """What went wrong that is not the candidate's fault: a baseline was valid when it was taken as one."""
    if outcome.verdict.status is Status.HARNESS_ERROR:
        return outcome.verdict.reason
    baseline = outcome.baseline
    if baseline is not None and baseline.outcome == "rejected":
        return f"a kernel that was valid before is {baseline.status} now: {baseline.reason}"
    return None


def _takes_all_of(domain: Domain | None, other: Domain | None) -> bool:
    return domain is not None and (other is None or set(other.checked) <= set(domain.checked))


def writer_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The edit that a row was written by, as a record; empty where nobody did."""
    found: dict[str, Any] = json.loads(row["writer"]) if row.get("writer") else {}
    return found
