"""Flow extract-lineage: walk an expert kernel backward through the gate.

One flow run for a kernel, one task run for a gate; the run graph's edges are the trials that made another worth trying.
A rejected kernel is a finding, not a failed task: its task run ends as completed, in a state named Rejected. The
evidence decides what is done already, so nothing is cached here.

    prefect deployment run extract-lineage/extract-lineage -p kernel=experts/gemm/expert.cl --watch
"""

from __future__ import annotations

from pathlib import Path

from prefect import flow, get_run_logger
from prefect.runtime import flow_run

from flows.artifacts import keep_ladder
from flows.gating import RUNNER, GateTasks
from flows.jobs import WalkRequest, kernel_name
from skill_library.ladder import ladder
from tasks.evidence import Evidence
from tasks.gate.runner import CALL_SECONDS
from tasks.walk.report import WalkReport
from tasks.walk.run import DEFAULT_PAIRS, Rewriter, opened, run


def _flow_run_name() -> str:
    return kernel_name(Path(str(flow_run.parameters.get("kernel"))))


@flow(
    name="extract-lineage",
    flow_run_name=_flow_run_name,
    task_runner=RUNNER,
    persist_result=False,
)
def extract_lineage(
    kernel: str,
    case: str | None = None,
    platform: str | None = None,
    rewriter: Rewriter = "rule",
    fresh: bool = False,
    pairs: int = DEFAULT_PAIRS,
    timeout: float = CALL_SECONDS,
    data: str | None = None,
    experts: list[str] | None = None,
) -> WalkReport:
    """Walk one kernel backward.

    Args:
        kernel: the expert's file.
        case: the case, such as gemm or gemm/512-f32; by default the kernel's workload at its default size.
        platform: which platform; by default this machine's.
        rewriter: who writes the steps.
        fresh: repeat a walk that the evidence has, instead of going on with it.
        pairs: samples for a step, at most: 20, 60, 150 or 400.
        timeout: seconds for one call of a kernel.
        data: where evidence is kept; by default KLINEAGE_DATA, or ./.klineage.
        experts: folders of workloads, searched first.
    """
    request = WalkRequest(kernel, case, platform, rewriter, fresh, pairs, timeout, data, tuple(experts or ()))
    work, name = request.job(), request.name
    log = get_run_logger()
    with opened(work) as desk:
        log.info("run %s of %s on %s", desk.run_id, name, work.case.name)
        found = run(work, desk, GateTasks(name, desk))
    with Evidence(work.roots) as evidence:
        kept = ladder(evidence.read("attempts"), evidence.read("transitions"), found.lineage_id)
    keep_ladder(name, kept)
    log.info("lineage %s: %d accepted, %d rejected", found.lineage_id, found.accepted, found.rejected)
    return found
