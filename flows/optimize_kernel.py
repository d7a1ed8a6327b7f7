"""Flow optimize-kernel: make a kernel faster with the library's admitted skills.

One task run for a gate; the best kernel so far is on disk at every moment, and the evidence decides what is done
already.

    prefect deployment run optimize-kernel/optimize-kernel -p kernel=experts/softmax/naive.cl --watch
"""

from __future__ import annotations

from pathlib import Path

from prefect import flow, get_run_logger
from prefect.runtime import flow_run

from flows.artifacts import keep_optimization
from flows.gating import RUNNER, GateTasks
from flows.jobs import OptimizeRequest, kernel_name
from tasks.gate.runner import CALL_SECONDS
from tasks.optimize.optimize import opened, optimize
from tasks.optimize.report import DEFAULT_ATTEMPTS, OptimizeReport
from tasks.walk.run import DEFAULT_PAIRS


def _flow_run_name() -> str:
    return kernel_name(Path(str(flow_run.parameters.get("kernel"))))


@flow(name="optimize-kernel", flow_run_name=_flow_run_name, task_runner=RUNNER, persist_result=False)
def optimize_kernel(
    kernel: str,
    case: str | None = None,
    platform: str | None = None,
    out: str | None = None,
    cards: str | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
    fresh: bool = False,
    pairs: int = DEFAULT_PAIRS,
    timeout: float = CALL_SECONDS,
    data: str | None = None,
    experts: list[str] | None = None,
) -> OptimizeReport:
    """Make one kernel faster.

    Args:
        kernel: the kernel's file; it is not changed.
        case: the case, such as softmax or softmax/256x512-f32; by default the kernel's workload at its default size.
        platform: which platform; by default this machine's.
        out: the file of the best kernel; by default in the data folder, under optimized/.
        cards: a folder of skills to use instead of the library.
        attempts: candidates to gate, at most.
        fresh: repeat a run that the evidence has, instead of going on with it.
        pairs: samples for a comparison, at most: 20, 60, 150 or 400.
        timeout: seconds for one call of a kernel.
        data: where evidence is kept; by default KLINEAGE_DATA, or ./.klineage.
        experts: folders of workloads, searched first.
    """
    request = OptimizeRequest(
        kernel, case, platform, out, cards, attempts, fresh, pairs, timeout, data, tuple(experts or ())
    )
    work, name = request.job(), request.name
    log = get_run_logger()
    with opened(work) as desk:
        log.info("run %s of %s on %s with %d skills", desk.run_id, name, work.case.name, len(work.skills))
        found = optimize(work, desk, GateTasks(name, desk), log.info)
        desk.compact()
    keep_optimization(name, found)
    log.info("best %s: %.3gx", found.best_id, found.speedup.ratio)
    return found
