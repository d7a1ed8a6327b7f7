"""Made the frozen files in v1/ (schema 1): `python -m tests.data.make_v1 FOLDER`, run from the repository's root.

They are never made anew: they stand for what users have on disk. After a schema change, today's rows go to a folder of
their own. Values are made up but of the kind that the gate gives; the first part of each dataset is Parquet, the rest a
journal.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from experts.ids import content_id
from experts.kernel import Kernel, parse
from experts.verdict import CompileFacts, Correctness, Domain, Effect, GateReport, Profile, Stage, Status, Verdict
from skill_library.records import (
    AttemptRow,
    ProbeRow,
    RoundtripRow,
    Row,
    TransitionRow,
    attempt_row,
    kernel_row,
    lineage_id,
    probe_id,
    roundtrip_id,
    run_id,
    transition_id,
)
from tasks.evidence import Evidence, Roots

START = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
CASE = "gemm/512-f32"
CASE_ID = content_id([CASE])
PLATFORM = "pocl-x86-avx512"
ENVIRONMENT = {
    "platform": PLATFORM,
    "cpu": "Intel(R) Xeon(R) Platinum 8488C",
    "threads": "2",
    "device.driver": "3.0",
    "package.pocl-binary-distribution": "3.0",
}
ENV_ID = content_id(ENVIRONMENT)
_TEXT = """/* klineage
format = 1
workload = "gemm"
[const]
UNROLL = {unroll}
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
args = ["A", "B", "C", "M", "N", "K"]
*/
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    #pragma unroll UNROLL
    for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}}
"""


def kernel(number: int) -> Kernel:
    """A kernel; another text for each number."""
    return parse(_TEXT.format(unroll=number), surface="opencl")


RUN = run_id(
    "walk", kernel_id=kernel(8).kernel_id, case_id=CASE_ID, env_id=ENV_ID, gate_version=1, configuration={"rules": 1}
)
LINEAGE = lineage_id(RUN, [kernel(number).kernel_id for number in (8, 4, 1)])


def passed(number: int, *, profile: Profile | None = None) -> Verdict:
    """A pass of kernel `number`."""
    return Verdict(
        outcome="passed",
        stage=Stage.PROFILE if profile else Stage.CORRECTNESS,
        status=Status.OK,
        kernel_id=kernel(number).kernel_id,
        case=CASE,
        case_id=CASE_ID,
        platform=PLATFORM,
        tier="default",
        isolation="sandlock",
        domain=Domain(checked=("512", "M=7,N=5,K=3"), refused=("M=1,N=1,K=1",)),
        compile=CompileFacts(binary_bytes=20480, private_bytes=64),
        correctness=Correctness(error=0.031, launches=12, distributions=("normal", "integers"), repeats=3),
        profile=profile,
        seconds={"parse": 0.001, "compile": 0.41, "correctness": 1.7},
    )


def rejected(number: int) -> Verdict:
    """A wrong value of kernel `number`."""
    return Verdict(
        outcome="rejected",
        stage=Stage.CORRECTNESS,
        status=Status.WRONG_VALUE,
        reason="C[3, 7] is 1.25 and should be 1.5; 40 of 262144 elements are outside the bound",
        kernel_id=kernel(number).kernel_id,
        case=CASE,
        case_id=CASE_ID,
        platform=PLATFORM,
        tier="default",
        isolation="process",
        correctness=Correctness(error=18.5, launches=1, distributions=("normal",), repeats=1),
        log="program.cl:17:5: warning: loop not unrolled",
        seconds={"compile": 0.38},
    )


def attempt(number: int, *, purpose: str = "chain", repetition: int = 0) -> AttemptRow:
    """An attempt on kernel `number`, whose parent is the next one; every third is rejected."""
    profile = Profile(
        candidate_us=812.5,
        candidate_samples_us=(811.0, 812.5, 815.25),
        baseline_us=975.0,
        baseline_samples_us=(974.0, 975.0, 981.0),
        effect=Effect.FASTER,
        ratio=1.2,
        low=1.18,
        high=1.22,
        pairs=3,
        floor_us=3.1,
    )
    verdict = rejected(number) if number % 3 == 2 else passed(number, profile=profile)
    report = GateReport(
        verdict=verdict,
        baseline=passed(number + 1),
        environment=ENVIRONMENT,
        env_id=ENV_ID,
        gate_version=1,
        kept="kept",
    )
    return attempt_row(
        report,
        run_id=RUN,
        purpose=purpose,  # type: ignore[arg-type]
        repetition=repetition,
        parent_id=kernel(number + 1).kernel_id,
        intent="unroll-loop",
        accepted=verdict.outcome == "passed",
        written_by="rule",
        writer={"rule": "unroll", "params": {"factor": number}},
        created=START + timedelta(seconds=number),
    )


def transition(number: int) -> TransitionRow:
    """The step from kernel `number` up to the next one."""
    simplified, above = kernel(number).kernel_id, kernel(number + 1).kernel_id
    return TransitionRow(
        transition_id=transition_id(LINEAGE, simplified_id=simplified, above_id=above),
        lineage_id=LINEAGE,
        run_id=RUN,
        step=number,
        intent="unroll-loop",
        edit='{"rule": "unroll", "anchor": ["gemm", "k"], "params": {"factor": 4}}',
        simplified_id=simplified,
        above_id=above,
        result_id=above,
        forward="identical",
        backward_attempt_id=attempt(number).attempt_id,
        attempt_id=attempt(number).attempt_id,
        workload="gemm",
        case=CASE,
        case_id=CASE_ID,
        platform=PLATFORM,
        env_id=ENV_ID,
        gate_version=1,
        standing=("stage-tile", "vectorize-load"),
        effect=Effect.FASTER,
        ratio=1.2,
        low=1.18,
        high=1.22,
        pairs=3,
        written_by="rule",
        created=START,
    )


def probe(number: int) -> ProbeRow:
    """A probe of kernel 8 at K = number."""
    dims = f'{{"K":{number},"M":7,"N":5}}'
    copy = kernel(80).kernel_id
    return ProbeRow(
        probe_id=probe_id(RUN, kernel_id=copy, case_id=CASE_ID, dims=dims, tensor="A", offset_bytes=4, tier="default"),
        run_id=RUN,
        kernel_id=copy,
        original_id=kernel(8).kernel_id,
        workload="gemm",
        case=f"gemm/M=7,N=5,K={number}-f32",
        case_id=CASE_ID,
        platform=PLATFORM,
        env_id=ENV_ID,
        gate_version=1,
        dims=dims,
        offset_tensor="A",
        offset_bytes=4,
        required=number % 4 == 0,
        tier="default",
        isolation="process",
        outcome="rejected",
        stage=Stage.CORRECTNESS,
        status=Status.OUT_OF_BOUNDS,
        reason="16 bytes behind C were written",
        created=START,
    )


def roundtrip(number: int) -> RoundtripRow:
    """An admission trial on kernel `number`."""
    state, skill = kernel(number).kernel_id, content_id(["unroll-inner-loop"])
    return RoundtripRow(
        roundtrip_id=roundtrip_id(RUN, skill_id=skill, state_id=state, case_id=CASE_ID, trial="positive"),
        run_id=RUN,
        skill="unroll-inner-loop",
        skill_id=skill,
        trial="positive",
        held_out="subset",
        state_id=state,
        result_id=kernel(number + 1).kernel_id,
        workload="gemm",
        case=CASE,
        case_id=CASE_ID,
        platform=PLATFORM,
        env_id=ENV_ID,
        gate_version=1,
        result="reproduced",
        status=Status.OK,
        clean=True,
        expected_low=1.1,
        expected_high=1.25,
        effect=Effect.FASTER,
        ratio=1.19,
        low=1.15,
        high=1.23,
        pairs=32,
        written_by="lm",
        writer='{"model": "example-1", "prompt": "0123456789abcdef", "tokens": [900, 210]}',
        cost_usd=0.0125,
        created=START,
    )


def rows(numbers: range) -> list[Row]:
    """Rows of every dataset that are whole together: kernels with all their names."""
    kernels = [kernel(number) for number in (*range(numbers.start, numbers.stop + 1), 8, 80)]
    made = [make(number) for make in (attempt, transition, probe, roundtrip) for number in numbers]
    return [*(kernel_row(found) for found in kernels), *made]


def main(folder: Path) -> None:
    """Write the files into a new folder."""
    with Evidence(Roots(folder)) as evidence:
        evidence.append(*rows(range(1, 4)))
        evidence.compact()
        evidence.append(*rows(range(4, 6)))
    (folder / "evidence.lock").unlink()
    (journal,) = (folder / "journal").iterdir()
    journal.rename(journal.with_name("00000000000000000001-1-00000000.jsonl"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
