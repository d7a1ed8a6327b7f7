"""One skill through admission: positive trials, a negative one, and the decision.

Positive: the skill is materialized on a held-out state and gated there with the sanitizer: it must be valid and clean,
and its interval overlap what the card claims for the platform and workload. Negative: at a shape where a precondition
is false, the kernel with the skill must fail as a risk of the card says, where the one without passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from experts.case import Case
from experts.verdict import GATE_VERSION, Effect, Status
from skill_library.records import RoundtripRow, TrialResult, roundtrip_id
from skill_library.skill import Skill, Standing, Verification
from skill_library.skill import Trial as CardTrial
from tasks.materialize import Bench, Materialized, materialize, places
from tasks.rewrite.edit import Edit
from tasks.roundtrip.held_out import HeldOut
from tasks.trials import Trial, Tried
from tasks.walk.walk import Submit

POSITIVES = 3
"""Held-out states that are tried at most: the first that reproduces the effect admits."""


@dataclass(frozen=True)
class Negative:
    """What came of asking for failure."""

    result: TrialResult
    reason: str
    status: Status | None = None
    case: Case | None = None


Deny = Callable[[HeldOut, Edit, Skill], Negative]
"""Runs the negative trial at a place (negative.py)."""


@dataclass
class Admission:
    """Trials of one skill. `case_of` gives the case of a name."""

    skill: Skill
    run_id: str
    repetition: int
    platform: str
    env_id: str
    bench: Callable[[Case], Bench]
    case_of: Callable[[str], Case]
    submit: Callable[[Case], Submit]
    deny: Deny

    def decide(self, states: Iterable[HeldOut]) -> tuple[Verification, list[RoundtripRow], int]:
        """The verification, the rows, and how many gates were spent. Raises what trials raise."""
        rows: list[RoundtripRow] = []
        gated = 0
        for state in states:
            if not _reproduced(rows):
                if sum(row.trial == "positive" and row.result != "not_materialized" for row in rows) >= POSITIVES:
                    break
                row, spent, edit = self._positive(state)
                rows.append(row)
                gated += spent
                if row.result != "reproduced" or edit is None:
                    continue
            else:
                # The state before could not tell: the kernel without the skill failed there, too.
                found = self._made(state, self.bench(self.case_of(state.case)))
                if isinstance(found, str):
                    continue
                edit = found.edit
            rows.append(self._negative(state, edit))
            if rows[-1].result != "not_materialized":
                break
        return self._verification(rows), rows, gated

    def _positive(self, state: HeldOut) -> tuple[RoundtripRow, int, Edit | None]:
        case = self.case_of(state.case)
        made = self._made(state, self.bench(case))
        if isinstance(made, str):
            return self._row(state, case, "positive", "not_materialized", reason=made), 0, None
        trial = Trial(
            "roundtrip",
            made.kernel,
            state.kernel,
            state.kernel,
            made.edit,
            narrows=True,
            label=f"{self.skill.name} on a held-out {state.how}",
            writer={"skill": self.skill.name, "skill_id": self.skill.skill_id, "edit": made.edit.record()},
        )
        tried = self.submit(case)(trial).result()
        result, reason = self._judged(tried, state, case)
        row = self._row(state, case, "positive", result, reason=reason, made=made, tried=tried)
        return row, int(not tried.recorded), made.edit

    def _made(self, state: HeldOut, bench: Bench) -> Materialized | str:
        """The skill put in, where the removal was if it fits there; or why not."""
        reason = "no place is found"
        found = places(self.skill, state.kernel, bench.rules)
        for edit in sorted(found, key=lambda edit: edit.place != state.forward.place):
            outcome = materialize(self.skill, state.kernel, edit, bench)
            if isinstance(outcome, Materialized):
                return outcome
            reason = outcome.reason
        return reason

    def _judged(self, tried: Tried, state: HeldOut, case: Case) -> tuple[TrialResult, str]:
        row = tried.row
        if row["outcome"] != "passed":
            return "not_reproduced", f"{row['status']} at {row['stage']}: {row['reason']}"
        if row["clean"] is False or row["ratio"] is None:
            return "not_reproduced", "not clean" if row["clean"] is False else "not timed"
        claimed = self._claimed(state, case)
        if claimed is None:
            return "not_reproduced", f"the card claims nothing for {self.platform}"
        told = (
            f"{row['ratio']:.3f}x ({row['low']:.3f} to {row['high']:.3f}), claimed {claimed[0]:.3f} to {claimed[1]:.3f}"
        )
        overlap = row["low"] <= claimed[1] and claimed[0] <= row["high"]
        return ("reproduced" if overlap else "not_reproduced"), told

    def _claimed(self, state: HeldOut, case: Case) -> tuple[float, float] | None:
        """What the card says of this platform: of this workload where it was measured there, else of any."""
        here = [each for each in self.skill.effects if each.platform == self.platform]
        near = [each for each in here if each.workload == case.workload.name] or here
        return (min(each.low for each in near), max(each.high for each in near)) if near else None

    def _negative(self, state: HeldOut, edit: Edit) -> RoundtripRow:
        case = self.case_of(state.case)
        conditions = self.skill.preconditions
        if not conditions.all_of:
            return self._row(state, case, "negative", "not_applicable", reason=conditions.reason)
        found = self.deny(state, edit, self.skill)
        return self._row(state, found.case or case, "negative", found.result, reason=found.reason, status=found.status)

    def _row(
        self,
        state: HeldOut,
        case: Case,
        trial: Any,
        result: TrialResult,
        *,
        reason: str,
        status: Status | None = None,
        made: Materialized | None = None,
        tried: Tried | None = None,
    ) -> RoundtripRow:
        measured: dict[str, Any] = {}
        if tried is not None:
            measured = {
                name: tried.row[name] for name in ("status", "clean", "effect", "ratio", "low", "high", "pairs")
            }
            claimed = self._claimed(state, case)
            if claimed is not None:
                measured |= {"expected_low": claimed[0], "expected_high": claimed[1]}
        elif status is not None:
            measured = {"status": status}
        return RoundtripRow(
            roundtrip_id=roundtrip_id(
                self.run_id,
                skill_id=self.skill.skill_id,
                state_id=state.kernel.kernel_id,
                case_id=case.case_id,
                trial=trial,
                repetition=self.repetition,
            ),
            run_id=self.run_id,
            repetition=self.repetition,
            skill=self.skill.name,
            skill_id=self.skill.skill_id,
            trial=trial,
            held_out=state.how,
            state_id=state.kernel.kernel_id,
            result_id=made.kernel.kernel_id if made is not None else None,
            attempt_id=tried.attempt_id if tried is not None else None,
            workload=case.workload.name,
            case=case.name,
            case_id=case.case_id,
            platform=self.platform,
            env_id=self.env_id,
            gate_version=GATE_VERSION,
            result=result,
            reason=reason,
            written_by="rule",
            created=datetime.now(UTC),
            **measured,
        )

    def _verification(self, rows: Sequence[RoundtripRow]) -> Verification:
        standing, reason = decided(self.skill, rows)
        return Verification(
            standing=standing,
            reason=reason,
            platforms=(self.platform,),
            gate_version=GATE_VERSION,
            trials=tuple(card_trial(row) for row in rows),
            decided=datetime.now(UTC),
        )


def _reproduced(rows: Sequence[RoundtripRow]) -> bool:
    return any(row.result == "reproduced" for row in rows)


def decided(skill: Skill, rows: Sequence[RoundtripRow]) -> tuple[Standing, str]:
    """What trials make of a skill."""
    positives = [row for row in rows if row.trial == "positive"]
    negatives = [row for row in rows if row.trial == "negative"]
    wrong = [row for row in positives if row.status not in (None, Status.OK) or row.clean is False]
    if wrong:
        return "quarantined", f"it gave a wrong kernel on a held-out state: {wrong[0].reason}"
    if any(row.result == "did_not_fail" for row in negatives):
        return "quarantined", "it did not fail where a precondition is false"
    if skill.preconditions.kind not in ("recovered", "none_needed"):
        return "waiting", f"when it is sound is not known: {skill.preconditions.reason}"
    reproduced = [row for row in positives if row.result == "reproduced"]
    if not reproduced:
        tried = [row.reason or "not reproduced" for row in positives if row.result != "not_materialized"]
        return "waiting", tried[0] if tried else "no held-out state has a place for it"
    if not any(row.result in ("failed_as_stated", "not_applicable") for row in negatives):
        told = negatives[-1].reason if negatives else None
        return "waiting", told or "the negative trial was not made"
    effect = reproduced[0].effect
    flat = "" if effect is Effect.FASTER else "; flat by itself: kept as evidence and for others that need it"
    return "admitted", f"reproduced on a held-out {reproduced[0].held_out} of {reproduced[0].case}{flat}"


def card_trial(row: RoundtripRow) -> CardTrial:
    """A trial as a card shows it."""
    return CardTrial(
        roundtrip_id=row.roundtrip_id,
        trial=row.trial,
        held_out=row.held_out,
        result=row.result,
        case=row.case,
        platform=row.platform,
        effect=row.effect,
        ratio=row.ratio,
        low=row.low,
        high=row.high,
        status=row.status,
        reason=row.reason,
    )
