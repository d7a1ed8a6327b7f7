"""The rows of the evidence: one frozen model for each dataset, and their ids. Their Arrow schema: schema.py.

Every text that somebody else wrote (logs, reasons, environment, writer) is scrubbed when a row is made (scrub.py);
kernel texts are stored as they are. Unknown is None. Flat columns only: what nests is JSON text, so that plain
`pandas.read_parquet` shows every column.

A schema change: raise SCHEMA_VERSION, give a new field a default of None (older rows do not know it), and rewrite the
shipped files in the same commit; the user's are rewritten by `data compact`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from experts.ids import content_id, text_id
from experts.kernel import Kernel, Surface
from experts.verdict import GATE_VERSION, Effect, GateReport, Isolation, Stage, Status, Tier
from skill_library.scrub import scrub, scrub_json

SCHEMA_VERSION = 2
"""Rises with every change of a column."""

Dataset = Literal["kernels", "attempts", "transitions", "probes", "roundtrips"]
RunKind = Literal["walk", "probe", "roundtrip", "optimize", "gate"]
Purpose = Literal["from_expert", "chain", "forward", "context", "probe", "roundtrip", "optimize", "gate"]
"""Why a kernel was gated. from_expert: one optimization taken out of the expert. chain: one more taken out, down to
naive. forward: the re-derived inverse of a chain step. context: another subset of the optimizations."""
WrittenBy = Literal["rule", "merge", "lm", "author"]
Outcome = Literal["passed", "rejected"]
TrialResult = Literal[
    "reproduced", "not_reproduced", "failed_as_stated", "did_not_fail", "not_applicable", "not_materialized"
]
"""Of a positive trial: the effect's interval overlaps the card's and the result is clean, or not. Of a negative one:
the gate or the effect fails as the risk says, or not. not_applicable: no precondition can be false, and why.
not_materialized: the skill gave no kernel."""

FreeText = Annotated[str, AfterValidator(scrub)]
JsonText = Annotated[str, AfterValidator(scrub_json)]
Id = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Utc = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]


def run_id(
    kind: RunKind,
    *,
    kernel_id: str,
    case_id: str,
    env_id: str,
    configuration: Mapping[str, object],
    gate_version: int = GATE_VERSION,
) -> str:
    """Id of a run. `configuration` is whatever else decides what the run does: JSON values only."""
    return content_id([kind, kernel_id, case_id, env_id, gate_version, dict(configuration)])


def attempt_id(
    run_id: str,
    *,
    parent_id: str | None,
    kernel_id: str,
    baseline_id: str | None,
    case_id: str,
    purpose: Purpose,
    repetition: int = 0,
) -> str:
    """Id of one gated attempt; `repetition` counts `--fresh` runs."""
    return content_id([run_id, parent_id, kernel_id, baseline_id, case_id, purpose, repetition])


def lineage_id(run_id: str, chain: Sequence[str]) -> str:
    """Id of a lineage: the walk's run and the kernel ids of its accepted chain, expert first."""
    return content_id([run_id, list(chain)])


def transition_id(lineage_id: str, *, simplified_id: str, above_id: str) -> str:
    """Id of one step of a lineage."""
    return content_id([lineage_id, simplified_id, above_id])


def probe_id(
    run_id: str,
    *,
    kernel_id: str,
    case_id: str,
    dims: str,
    tensor: str | None,
    offset_bytes: int,
    tier: Tier,
    repetition: int = 0,
) -> str:
    """Id of one shape of a boundary probe; `dims` is the canonical JSON text of the row."""
    return content_id([run_id, kernel_id, case_id, dims, tensor, offset_bytes, tier, repetition])


def roundtrip_id(run_id: str, *, skill_id: str, state_id: str, case_id: str, trial: str, repetition: int = 0) -> str:
    """Id of one admission trial."""
    return content_id([run_id, skill_id, state_id, case_id, trial, repetition])


class Row(BaseModel):
    """What the rows of all datasets share. The id in `key` is derived from `identity`, and must match it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: ClassVar[Dataset]
    key: ClassVar[str]
    """The field that holds the row's id: readers dedupe by it."""
    identity: ClassVar[tuple[str, ...]]
    """The fields that the id is the hash of, in order."""

    @classmethod
    def derived_id(cls, record: Mapping[str, Any]) -> str:
        """The id that a record of this dataset should have."""
        return content_id([record.get(name) for name in cls.identity])

    @model_validator(mode="after")
    def _id_is_derived(self) -> Self:
        if getattr(self, self.key) != self.derived_id(self.__dict__):
            raise ValueError(f"{self.key} is not the hash of the row's {', '.join(self.identity)}")
        return self


class KernelRow(Row):
    """A kernel text, stored once, exactly as it was gated."""

    dataset = "kernels"
    key = "kernel_id"
    identity = ("text",)

    kernel_id: Id
    surface: Surface | None = None
    """None where the text is not a kernel and its surface is unknown."""
    text: str
    """Normalised, manifest included, never scrubbed."""
    workload: str | None = None
    """None where the text is not a kernel."""

    @classmethod
    def derived_id(cls, record: Mapping[str, Any]) -> str:
        """The hash of the text itself."""
        return text_id(record.get("text") or "")


class AttemptRow(Row):
    """One kernel through the gate: what was gated, why, what the gate said, and who wrote it."""

    dataset = "attempts"
    key = "attempt_id"
    identity = ("run_id", "parent_id", "kernel_id", "baseline_id", "case_id", "purpose", "repetition")

    attempt_id: Id
    run_id: Id
    lineage_id: Id | None = None
    """None outside a walk, and in rows written before the chain was complete."""
    purpose: Purpose
    repetition: int = Field(default=0, ge=0)
    """Counts `--fresh` runs."""
    intent: str | None = None
    """The optimization that was taken out or put in."""
    accepted: bool | None = None
    """Whether the run went on with it; None where nothing was to be decided (`gate`)."""
    kernel_id: Id
    """The child: the kernel that was judged; the hash of its text also where that is no kernel."""
    parent_id: Id | None = None
    """The kernel it was made from."""
    baseline_id: Id | None = None
    """The kernel it was timed against."""
    workload: str
    case: str
    case_id: Id
    platform: str
    env_id: Id
    environment: JsonText
    """JSON object: what env_id is the hash of, scrubbed."""
    gate_version: int

    tier: Tier
    isolation: Isolation | None = None
    outcome: Outcome
    stage: Stage
    """The last one that ran."""
    status: Status
    reason: FreeText | None = None
    clean: bool | None = None
    """The sanitizer found nothing; None where it did not run."""
    cached: bool
    """Compile and correctness were answered from the cache."""
    seconds: JsonText
    """JSON object: wall time by stage, without those answered from the cache."""
    log: FreeText | None = None
    """An excerpt."""
    domain_checked: tuple[str, ...] | None = None
    """Sizes that the kernel's [require] accepts."""
    domain_refused: tuple[str, ...] | None = None

    binary_bytes: int | None = None
    registers: int | None = None
    """Of one thread."""
    spill_bytes: int | None = None
    local_bytes: int | None = None
    """Static local (shared) memory of a work-group."""
    private_bytes: int | None = None
    """Private memory of a work-item."""

    error: float | None = None
    """Largest error as a share of its bound (1 is the bound)."""
    launches: int | None = None
    """Checked calls."""
    distributions: tuple[str, ...] | None = None
    repeats: int | None = None

    candidate_us: float | None = None
    """Median of a call, in microseconds, as all times here."""
    candidate_samples_us: tuple[float, ...] | None = Field(default=None, repr=False)
    baseline_us: float | None = None
    baseline_samples_us: tuple[float, ...] | None = Field(default=None, repr=False)
    effect: Effect | None = None
    ratio: float | None = None
    """t(baseline) / t(candidate): above 1 the candidate is faster."""
    low: float | None = None
    high: float | None = None
    """95 %, with `low`."""
    pairs: int | None = None
    calls_per_sample: int | None = None
    floor_us: float | None = None
    """No kernel can be faster here."""
    baseline_outcome: Outcome | None = None
    """What the gate said of the baseline itself; None where there is none."""
    baseline_status: Status | None = None

    written_by: WrittenBy
    writer: JsonText | None = None
    """JSON object: rule, or model, prompt hash, tokens and cost."""
    cost_usd: float | None = Field(default=None, ge=0)
    """What writing the child cost; None where nothing was paid for or the price is unknown."""
    created: Utc


class TransitionRow(Row):
    """One accepted step of a lineage, forward: the simplified state, the edit, the state above it, and the effect."""

    dataset = "transitions"
    key = "transition_id"
    identity = ("lineage_id", "simplified_id", "above_id")

    transition_id: Id
    lineage_id: Id
    run_id: Id
    """The walk."""
    step: int = Field(ge=0)
    """Counted from the expert: 0 took the first optimization out."""
    intent: str
    edit: JsonText | None = None
    """JSON object: rule, anchor and parameters of the forward edit; None where no rule wrote it."""
    simplified_id: Id
    """The state below: what the forward edit starts from."""
    above_id: Id
    """The state above: what the walk simplified."""
    result_id: Id | None = None
    """What the forward edit gave: `above_id` where identical, None where it failed."""
    forward: Literal["identical", "rederived", "failed"]
    backward_attempt_id: Id
    """The attempt that took the optimization out."""
    attempt_id: Id | None = None
    """The attempt that the effect is from."""
    workload: str
    case: str
    case_id: Id
    platform: str
    env_id: Id
    gate_version: int
    standing: tuple[str, ...] = ()
    """Intents of the other optimizations that stand in the simplified state: the context of the effect."""
    prior: tuple[str, ...] | None = None
    """Intents that must stand before this one goes in: what could not be taken out while it stood. None where the walk
    did not look."""
    clean: bool | None = None
    effect: Effect | None = None
    ratio: float | None = None
    """t(simplified) / t(result): above 1 the optimization helps."""
    low: float | None = None
    high: float | None = None
    pairs: int | None = None
    written_by: WrittenBy
    writer: JsonText | None = None
    created: Utc


class ProbeRow(Row):
    """One shape of a boundary probe, run on a copy of a kernel without its [require]."""

    dataset = "probes"
    key = "probe_id"
    identity = ("run_id", "kernel_id", "case_id", "dims", "offset_tensor", "offset_bytes", "tier", "repetition")

    probe_id: Id
    run_id: Id
    repetition: int = Field(default=0, ge=0)
    transition_id: Id | None = None
    """The step whose precondition is sought; None for a kernel probed by itself."""
    intent: str | None = None
    kernel_id: Id
    """The copy."""
    original_id: Id
    """The kernel it is a copy of."""
    workload: str
    case: str
    case_id: Id
    """Of the probed shape."""
    platform: str
    env_id: Id
    gate_version: int
    dims: JsonText
    """JSON object: sizes by dimension."""
    offset_tensor: str | None = None
    """The tensor that starts off its alignment; None where none does."""
    offset_bytes: int = Field(default=0, ge=0)
    required: bool | None = None
    """Whether the original's [require] accepts the shape; None where it has none."""
    tier: Tier
    isolation: Isolation | None = None
    outcome: Outcome
    stage: Stage
    status: Status
    reason: FreeText | None = None
    clean: bool | None = None
    error: float | None = None
    """Largest error as a share of its bound."""
    log: FreeText | None = None
    created: Utc


class RoundtripRow(Row):
    """One admission trial: a skill materialized on a held-out state, against what its card says."""

    dataset = "roundtrips"
    key = "roundtrip_id"
    identity = ("run_id", "skill_id", "state_id", "case_id", "trial", "repetition")

    roundtrip_id: Id
    run_id: Id
    repetition: int = Field(default=0, ge=0)
    skill: str
    """The card's name."""
    skill_id: Id
    """Hash of the card as it was tried."""
    trial: Literal["positive", "negative"]
    """negative: on a state or case where a precondition is false."""
    held_out: Literal["kernel", "subset", "workload"]
    """How the state differs from the skill's source lineage."""
    state_id: Id
    """The held-out kernel."""
    result_id: Id | None = None
    """What materializing gave; None where it gave no kernel."""
    attempt_id: Id | None = None
    """The gated attempt; None where nothing was gated."""
    workload: str
    case: str
    case_id: Id
    platform: str
    env_id: Id
    gate_version: int
    result: Literal[
        "reproduced", "not_reproduced", "failed_as_stated", "did_not_fail", "not_applicable", "not_materialized"
    ]
    reason: FreeText | None = None
    status: Status | None = None
    clean: bool | None = None
    expected_low: float | None = None
    """The card's interval, with `expected_high`."""
    expected_high: float | None = None
    effect: Effect | None = None
    ratio: float | None = None
    """t(state) / t(result)."""
    low: float | None = None
    high: float | None = None
    pairs: int | None = None
    written_by: WrittenBy
    writer: JsonText | None = None
    cost_usd: float | None = Field(default=None, ge=0)
    created: Utc


MODELS: dict[Dataset, type[Row]] = {
    model.dataset: model for model in (KernelRow, AttemptRow, TransitionRow, ProbeRow, RoundtripRow)
}


def kernel_row(kernel: Kernel) -> KernelRow:
    """The row that stores a kernel's text."""
    return KernelRow(
        kernel_id=kernel.kernel_id, surface=kernel.surface, text=kernel.text, workload=kernel.manifest.workload
    )


def bare_kernel_row(text: str) -> KernelRow:
    """The row of a text that was gated and is no kernel, so that its verdict can be understood."""
    return KernelRow(kernel_id=text_id(text), text=text)


def attempt_row(
    report: GateReport,
    *,
    run_id: str,
    purpose: Purpose,
    parent_id: str | None = None,
    baseline_id: str | None = None,
    lineage_id: str | None = None,
    repetition: int = 0,
    intent: str | None = None,
    accepted: bool | None = None,
    written_by: WrittenBy = "author",
    writer: Mapping[str, object] | None = None,
    cost_usd: float | None = None,
    created: datetime | None = None,
) -> AttemptRow:
    """The row of what the gate said.

    `baseline_id` defaults to the baseline verdict's, `created` to now. Raises pydantic.ValidationError for ids that
    are none, TypeError for a `writer` that JSON does not have.
    """
    verdict, baseline = report.verdict, report.baseline
    if baseline_id is None and baseline is not None:
        baseline_id = baseline.kernel_id
    nested = (verdict.compile, verdict.correctness, verdict.profile)
    # What the GPU was like stands in the report alone.
    measured = {name: value for part in nested if part is not None for name, value in part if name != "gpu"}
    return AttemptRow(
        attempt_id=attempt_id(
            run_id,
            parent_id=parent_id,
            kernel_id=verdict.kernel_id,
            baseline_id=baseline_id,
            case_id=verdict.case_id,
            purpose=purpose,
            repetition=repetition,
        ),
        run_id=run_id,
        lineage_id=lineage_id,
        purpose=purpose,
        repetition=repetition,
        intent=intent,
        accepted=accepted,
        kernel_id=verdict.kernel_id,
        parent_id=parent_id,
        baseline_id=baseline_id,
        workload=verdict.case.partition("/")[0],
        case=verdict.case,
        case_id=verdict.case_id,
        platform=verdict.platform,
        env_id=report.env_id,
        environment=json.dumps(report.environment),
        gate_version=report.gate_version,
        tier=verdict.tier,
        isolation=verdict.isolation,
        outcome=verdict.outcome,
        stage=verdict.stage,
        status=verdict.status,
        reason=verdict.reason,
        clean=verdict.clean,
        cached=verdict.cached,
        seconds=json.dumps(verdict.seconds),
        log=verdict.log,
        domain_checked=verdict.domain.checked if verdict.domain else None,
        domain_refused=verdict.domain.refused if verdict.domain else None,
        baseline_outcome=baseline.outcome if baseline else None,
        baseline_status=baseline.status if baseline else None,
        written_by=written_by,
        writer=json.dumps(dict(writer)) if writer is not None else None,
        cost_usd=cost_usd,
        created=created or datetime.now(UTC),
        **measured,
    )
