"""Probes as Prefect task runs: one for each step of a lineage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from tasks.evidence import Roots
from tasks.induce.run import ToProbe, probed
from tasks.probe.report import ProbeReport

ProbeListener = Callable[[ProbeReport], None]
PROBED: ContextVar[ProbeListener | None] = ContextVar("PROBED", default=None)
"""Told of each step as its probes end; the command line sets it."""


def probe_steps(steps: Sequence[ToProbe], roots: Roots) -> list[ProbeReport]:
    """Probe steps one after another: each has two threads of its own. Raises what probes raise."""
    listener, log = PROBED.get(), get_run_logger()
    found = []
    for step in steps:
        job = step.job
        report = _task(step, roots).submit(intent=job.intent or "", case=job.case.name, shapes=job.budget).result()
        found.append(report)
        if listener is not None:
            listener(report)
        log.info("%s: %s", job.intent, told(report))
    return found


def told(report: ProbeReport) -> str:
    """What came of one step in a few words."""
    failed = sum(count for status, count in report.above.counts.items() if status != "ok")
    return f"{report.above.shapes} shapes, {failed} failed with it, {len(report.differ)} tell it from the state below"


def _task(step: ToProbe, roots: Roots) -> Any:
    job = step.job

    @task(
        name="probe",
        task_run_name=f"{job.case.workload.name}/probe {job.intent}",
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=0,
    )
    def probe_step(intent: str, case: str, shapes: int | None) -> State[ProbeReport]:
        report = probed(step, roots)
        return Completed(message=told(report), data=report)

    return probe_step
