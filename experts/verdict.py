"""Verdicts: what the gate says of one kernel, as data.

A verdict passed or was rejected at one stage with one status of a closed set; which fields exist follows from that and
is enforced in the type. `ratio = t(baseline) / t(candidate)`: above 1 the candidate is faster.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

GATE_VERSION = 2
"""Rises when verdicts could change."""


class Stage(StrEnum):
    """In this order; a stage runs only if the one before it passed."""

    PARSE = "parse"
    """The text is a kernel of format 1 and fits the case's names."""
    REQUIRE = "require"
    """The kernel accepts the case's dimensions and its minimal domain."""
    COMPILE = "compile"
    """The code builds, and its entry points take the declared arguments. Where the compile tier ends."""
    LAUNCH = "launch"
    """The launch fits the device, and the first launch ends."""
    CORRECTNESS = "correctness"
    """Outputs, inputs and guard zones over fresh inputs, the shape family and repeats."""
    PROFILE = "profile"
    """Timing, with every timed output checked."""


class Status(StrEnum):
    """What happened."""

    OK = "ok"
    INVALID_KERNEL = "invalid_kernel"
    """The manifest or an expression in it is wrong."""
    UNMET_REQUIRE = "unmet_require"
    """The kernel refuses the case, or part of its minimal domain."""
    UNSUPPORTED = "unsupported"
    """The platform cannot run such a kernel."""
    COMPILE_ERROR = "compile_error"
    LAUNCH_ERROR = "launch_error"
    """The runtime refused the launch or reported an error after it."""
    CRASH = "crash"
    """The worker ended by a signal or by itself."""
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    RESOURCE_LIMIT = "resource_limit"
    """More output, work-items, local memory or source than allowed."""
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    """An entry point's parameter has another type than the case gives it."""
    WRONG_VALUE = "wrong_value"
    UNWRITTEN_OUTPUT = "unwritten_output"
    """Elements of an output still hold the poison."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """A guard zone changed, or the sanitizer saw an access outside its buffer."""
    INPUT_MUTATED = "input_mutated"
    NONDETERMINISTIC = "nondeterministic"
    """Some repeats on the same input pass and some fail; or differ bit for bit where the case asks."""
    RACE = "race"
    TAMPERING = "tampering"
    """The worker's words contradict what the parent measured or asked."""
    IMPOSSIBLE_TIME = "impossible_time"
    """Faster than the mandatory bytes and operations allow."""
    HARNESS_ERROR = "harness_error"
    """Our fault or the machine's, never the kernel's; retried once."""


class Effect(StrEnum):
    """How the candidate compares with its baseline; the rule is in tasks/gate/statistics.py."""

    FASTER = "faster"
    SLOWER = "slower"
    TIE = "tie"
    UNDECIDED = "undecided"


Tier = Literal["compile", "default", "sanitize"]
"""How far: `compile` stops there and needs no device, `sanitize` goes beyond what `default` looks at."""
Isolation = Literal["sandlock", "process"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

_WITHOUT_WORKER = (Stage.PARSE, Stage.REQUIRE)
"""Stages that look at the text alone."""
_STATUS_WITHOUT_WORKER = (Status.INVALID_KERNEL, Status.UNMET_REQUIRE, Status.UNSUPPORTED, Status.HARNESS_ERROR)
_ONLY_AT = {
    Status.UNMET_REQUIRE: (Stage.REQUIRE,),
    Status.WRONG_VALUE: (Stage.CORRECTNESS, Stage.PROFILE),
    Status.UNWRITTEN_OUTPUT: (Stage.CORRECTNESS, Stage.PROFILE),
    Status.NONDETERMINISTIC: (Stage.CORRECTNESS,),
    Status.RACE: (Stage.CORRECTNESS,),
    Status.IMPOSSIBLE_TIME: (Stage.PROFILE,),
}
"""The others can come late: the code is built again for the sanitizer and for timing."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Domain(_Model):
    """Where the kernel was checked, of the shapes the case has."""

    checked: tuple[str, ...]
    """Sizes (`512`, `M=7,N=5,K=3`) that its [require] accepts."""
    refused: tuple[str, ...] = ()
    """Sizes outside the minimal domain that its [require] refuses."""


class CompileFacts(_Model):
    """What the compiler said of the build. None where the platform has no such figure."""

    binary_bytes: int | None = None
    registers: int | None = None
    spill_bytes: int | None = None
    local_bytes: int | None = None
    """Largest local (shared) memory of an entry point, static."""
    private_bytes: int | None = None
    """Largest private memory of a work-item."""


class Correctness(_Model):
    """How close the outputs came."""

    error: float
    """Largest error as a share of its bound (1 is the bound)."""
    launches: int
    """Checked calls."""
    distributions: tuple[str, ...]
    repeats: int


class GpuFacts(_Model):
    """What a GPU was like while it was timed. What NVML does not say is None."""

    launch_us: Positive
    """What is measured of one command that does next to nothing."""
    clock_mhz: tuple[int, int] | None = None
    """Lowest and highest clock of the multiprocessors, looked at before each pair."""
    throttled: tuple[str, ...] | None = None
    """Why clocks were held down at any such look, in NVML's words; empty where they were not."""


class Profile(_Model):
    """Times of single calls in microseconds: medians, the samples behind them, and the comparison with a baseline."""

    candidate_us: Positive
    candidate_samples_us: tuple[Positive, ...] = Field(min_length=1, repr=False)
    baseline_us: Positive | None = None
    baseline_samples_us: tuple[Positive, ...] | None = Field(default=None, repr=False)
    effect: Effect | None = None
    ratio: Positive | None = None
    low: Positive | None = None
    high: Positive | None = None
    """95 % over all checkpoints together."""
    pairs: int | None = None
    """As many as there are samples of each."""
    calls_per_sample: int = Field(default=1, ge=1)
    floor_us: float = Field(ge=0, allow_inf_nan=False)
    """No kernel can be faster than this here (mandatory bytes and operations at a generous peak)."""
    gpu: GpuFacts | None = None

    @model_validator(mode="after")
    def _compared_or_not(self) -> Profile:
        fields = (self.baseline_us, self.baseline_samples_us, self.effect, self.ratio, self.low, self.high, self.pairs)
        if all(field is None for field in fields):
            return self
        if (
            self.baseline_samples_us is None
            or self.ratio is None
            or self.low is None
            or self.high is None
            or None in fields
        ):
            raise ValueError("a comparison has all its fields or none")
        if not self.low <= self.ratio <= self.high:
            raise ValueError("the ratio lies inside its interval")
        if not self.pairs == len(self.candidate_samples_us) == len(self.baseline_samples_us):
            raise ValueError("a pair is one sample of each")
        if (self.effect is Effect.FASTER and self.low <= 1) or (self.effect is Effect.SLOWER and self.high >= 1):
            raise ValueError("the effect contradicts the interval")
        return self


class Verdict(_Model):
    """What the gate says of one kernel on one case and platform."""

    outcome: Literal["passed", "rejected"]
    stage: Stage
    """The last stage that ran."""
    status: Status
    reason: str | None = None
    """One line; None where it passed."""
    kernel_id: str
    """Hash of the text, even where it is not a kernel."""
    case: str
    case_id: str
    platform: str
    tier: Tier
    isolation: Isolation | None = None
    """How the worker was held; None where no worker ran."""
    clean: bool | None = None
    """The sanitizer found nothing; None where it did not run."""
    domain: Domain | None = None
    compile: CompileFacts | None = None
    correctness: Correctness | None = None
    profile: Profile | None = None
    log: str | None = None
    """An excerpt of what the compiler, the runtime or the sanitizer said, scrubbed and cut."""
    seconds: dict[str, float] = {}
    """Wall time by stage; a stage answered from the cache is missing."""
    cached: bool = False
    """Compile and correctness were answered from the cache."""

    @model_validator(mode="after")
    def _fields_follow_the_status(self) -> Verdict:
        passed = self.outcome == "passed"
        if passed != (self.status is Status.OK):
            raise ValueError("passed means status ok")
        if passed == (self.reason is not None):
            raise ValueError("a rejection has a reason, a pass none")
        if self.reason is not None and (not self.reason.strip() or len(self.reason.splitlines()) > 1):
            raise ValueError("a reason is one line")
        if self.tier == "compile":
            if passed and (self.stage is not Stage.COMPILE or self.compile is None or self.domain is None):
                raise ValueError("a pass of the compile tier has a domain and compile facts, and ends there")
            if self.correctness is not None:
                raise ValueError("nothing runs in the compile tier")
            return self
        if passed and (self.correctness is None or self.domain is None):
            raise ValueError("a pass has a domain and correctness")
        if passed and self.stage not in (Stage.CORRECTNESS, Stage.PROFILE):
            raise ValueError("a pass comes through correctness")
        if passed and self.correctness is not None and not 0 <= self.correctness.error <= 1:
            raise ValueError("a pass is within its bound")
        if self.profile is not None and not (passed and self.stage is Stage.PROFILE):
            raise ValueError("only a correct kernel has a profile, at that stage")
        if self.clean and self.tier != "sanitize":
            raise ValueError("clean is what the sanitize tier says")
        return self

    @model_validator(mode="after")
    def _status_fits_the_stage(self) -> Verdict:
        if self.stage in _WITHOUT_WORKER:
            if self.status not in _STATUS_WITHOUT_WORKER:
                raise ValueError(f"{self.status} needs a worker, and none runs at stage {self.stage}")
        elif self.isolation is None:
            raise ValueError(f"stage {self.stage} has a worker, which is held somehow")
        if self.stage not in _ONLY_AT.get(self.status, tuple(Stage)):
            raise ValueError(f"{self.status} does not come up at stage {self.stage}")
        late = self.status is Status.OUT_OF_BOUNDS and self.stage is not Stage.PROFILE
        if self.clean and (self.status is Status.RACE or late):
            raise ValueError("clean means that the sanitizer found nothing")
        return self


class GateReport(_Model):
    """What `klineage gate --json` prints."""

    verdict: Verdict
    baseline: Verdict | None = None
    """Of the baseline, through compile and correctness."""
    environment: dict[str, str]
    env_id: str
    gate_version: int = GATE_VERSION
    attempt_id: str | None = None
    """Id of the row kept; None where nothing could be kept, and `kept` says why."""
    kept: str
    """`kept`, or why the row was not kept."""
