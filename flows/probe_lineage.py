"""Flow probe-lineage: find out at which shapes the steps of a lineage are sound.

prefect deployment run probe-lineage/probe-lineage -p lineage=last --watch
"""

from __future__ import annotations

from prefect import flow, get_run_logger

from flows.jobs import ProbeRequest
from flows.probing import probe_steps
from tasks.gate.runner import CALL_SECONDS
from tasks.induce.run import read, summary, to_probe
from tasks.probe.report import ProbeReport


@flow(name="probe-lineage", persist_result=False)
def probe_lineage(
    lineage: str = "last",
    shapes: int | None = None,
    platform: str | None = None,
    timeout: float = CALL_SECONDS,
    data: str | None = None,
    experts: list[str] | None = None,
) -> list[ProbeReport]:
    """Probe every step of one lineage.

    Args:
        lineage: the beginning of its id, or last.
        shapes: for each kernel; the whole family by default.
        platform: which platform; by default this machine's.
        timeout: seconds for one call of a kernel.
        data: where evidence is kept; by default KLINEAGE_DATA, or ./.klineage.
        experts: folders of workloads, searched first.
    """
    request = ProbeRequest(lineage, shapes, platform, timeout, data, tuple(experts or ()))
    work = request.job()
    found = probe_steps(to_probe(work, read(work.roots)), work.roots)
    get_run_logger().info(summary(found))
    return found
