"""Flow induce-skills: probe what was never probed, and lift the steps of all lineages into candidate skills.

prefect deployment run induce-skills/induce-skills --watch
"""

from __future__ import annotations

from prefect import flow, get_run_logger

from flows.artifacts import keep_skills
from flows.jobs import DEMO_SHAPES, ProbeRequest
from flows.probing import probe_steps
from skill_library.store import Library
from tasks.evidence import Evidence
from tasks.gate.runner import CALL_SECONDS
from tasks.induce.induce import induce
from tasks.induce.report import InduceReport
from tasks.induce.run import read, summary, to_probe


@flow(name="induce-skills", persist_result=False)
def induce_skills(
    lineage: str | None = None,
    shapes: int | None = DEMO_SHAPES,
    probe: bool = True,
    platform: str | None = None,
    timeout: float = CALL_SECONDS,
    data: str | None = None,
    experts: list[str] | None = None,
) -> InduceReport:
    """Induce skills.

    Args:
        lineage: probe the steps of this one, probed or not: the beginning of its id, or last.
        shapes: probed for each kernel; None (null) for the whole family.
        probe: False takes the probes that there are.
        platform: which platform; by default this machine's.
        timeout: seconds for one call of a kernel.
        data: where evidence is kept; by default KLINEAGE_DATA, or ./.klineage.
        experts: folders of workloads, searched first.
    """
    request = ProbeRequest(lineage, shapes, platform, timeout, data, tuple(experts or ()))
    work = request.job()
    log = get_run_logger()
    known = read(work.roots)
    if probe:
        reports = probe_steps(to_probe(work, known), work.roots)
        log.info(summary(reports))
        with Evidence(work.roots) as evidence:
            evidence.compact()
        known = read(work.roots)
    found = induce(known, Library.at(work.roots.user), work.folders)
    keep_skills(found)
    log.info("%d skills from %d steps", len(found.skills), found.transitions)
    return found
