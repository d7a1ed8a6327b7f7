"""Flow extract-lineage: walk an expert kernel backward through the gate.

One flow run for a kernel, one task run for a gate; the run graph's edges are the trials that made another worth trying.
A rejected kernel is a finding, not a failed task: its task run ends as completed, in a state named Rejected. The
evidence decides what is done already, so nothing is cached here.

    prefect deployment run extract-lineage/extract-lineage -p kernel=experts/gemm/expert.cl --watch
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from flows.artifacts import keep_ladder, keep_step
from flows.jobs import WalkRequest, kernel_name
from skill_library.ladder import ladder
from tasks.evidence import Evidence
from tasks.gate.runner import CALL_SECONDS
from tasks.walk.report import WalkReport
from tasks.walk.run import DEFAULT_PAIRS, Rewriter, opened, run
from tasks.walk.trial import Desk, Trial, Tried
from tasks.walk.walk import Pending

Listener = Callable[[Tried], None]
LISTENER: ContextVar[Listener | None] = ContextVar("LISTENER", default=None)
"""Told of each trial as it ends, in the thread that ran it; the command line sets it."""


def _flow_run_name() -> str:
    return kernel_name(Path(str(flow_run.parameters.get("kernel"))))


_RUNNER: Any = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 2)


@flow(
    name="extract-lineage",
    flow_run_name=_flow_run_name,
    task_runner=_RUNNER,
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
        found = run(work, desk, _Submitter(name, desk))
    with Evidence(work.roots) as evidence:
        kept = ladder(evidence.read("attempts"), evidence.read("transitions"), found.lineage_id)
    keep_ladder(name, kept)
    log.info("lineage %s: %d accepted, %d rejected", found.lineage_id, found.accepted, found.rejected)
    return found


class _Submitter:
    """Runs trials as Prefect tasks; futures of earlier trials become edges of the run graph."""

    def __init__(self, name: str, desk: Desk) -> None:
        self._name, self._desk = name, desk
        self._listener = LISTENER.get()

    def __call__(self, trial: Trial, after: Sequence[Pending] = ()) -> Pending:
        edit = trial.edit.record() if trial.edit else None
        return _pending(
            self._task(trial).submit(
                step=trial.label,
                purpose=trial.purpose,
                edit=edit,
                kernel_id=trial.kernel.kernel_id,
                baseline_id=trial.baseline.kernel_id if trial.baseline else None,
                wait_for=[each for each in after if isinstance(each, PrefectFuture)],
            )
        )

    def _task(self, trial: Trial) -> Any:
        # The trial travels in the closure: Prefect looks through every parameter, and shows them.
        @task(
            name="gate",
            task_run_name=f"{self._name}/{trial.label}",
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=0,
        )
        def gate_step(
            step: str, purpose: str, edit: dict[str, Any] | None, kernel_id: str, baseline_id: str | None
        ) -> State[Tried]:
            tried = self._desk.try_out(trial)
            if self._listener is not None:
                self._listener(tried)
            keep_step(self._name, tried)
            state = "Accepted" if tried.accepted else "Rejected"
            return Completed(name=state, message=tried.told, data=tried)

        return gate_step


def _pending(future: Any) -> Pending:
    found: Pending = future
    return found
