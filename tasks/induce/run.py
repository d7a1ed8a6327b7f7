"""A run of induction: what is to be probed, and the skills that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experts.case import Case
from skill_library.ladder import resolve
from tasks.evidence import Evidence, Roots
from tasks.gate.runner import Settings
from tasks.induce.conditions import doubtful, needs_probes
from tasks.induce.induce import case_of
from tasks.induce.steps import Known, Transition
from tasks.probe import run as probing
from tasks.probe.report import ProbeReport
from tasks.probe.run import Job as ProbeJob

CONFIRMED = 12
"""Doubtful shapes of a step that the simulator looks at, the quickest first."""


@dataclass(frozen=True)
class Job:
    """What to probe and induce."""

    settings: Settings
    roots: Roots
    folders: tuple[Path, ...]
    lineage: str | None = None
    """The beginning of an id, or `last`: its steps are probed. None for every step that was never probed."""
    shapes: int | None = None
    """For each kernel; None for the whole family."""


def read(roots: Roots) -> Known:
    """The evidence as it is now. Raises StoreError."""
    with Evidence(roots) as evidence:
        return Known(evidence)


@dataclass(frozen=True)
class ToProbe:
    """One step, and how to probe it."""

    transition: Transition
    job: ProbeJob


def to_probe(job: Job, known: Known) -> list[ToProbe]:
    """The probes that the job asks for: steps of this platform that a shape could make wrong.

    Raises LadderError where there is no such lineage.
    """
    lineage = None
    if job.lineage is not None:
        with Evidence(job.roots) as evidence:
            lineage = resolve(evidence.read("transitions"), job.lineage)
    found = []
    for each in known.transitions(lineage):
        case = case_of(each, job.folders)
        mine = each.row["platform"] == job.settings.platform.name
        done = lineage is None and known.probes(each.transition_id)
        if case is not None and mine and not done and needs_probes(each):
            found.append(ToProbe(each, probe_job(job, each, case)))
    return found


def probe_job(job: Job, transition: Transition, case: Case) -> ProbeJob:
    """The probes of one step."""
    return ProbeJob(
        above=transition.above,
        simplified=transition.simplified,
        case=case,
        settings=job.settings.untimed(),
        roots=job.roots,
        transition_id=transition.transition_id,
        intent=transition.row["intent"],
        budget=job.shapes,
    )


def probed(work: ToProbe, roots: Roots, told: probing.Told = lambda label, done, total: None) -> ProbeReport:
    """Probe one step, then what of it is doubtful in the simulator, and keep the rows. Raises Busy, and what probes
    raise."""
    job, step = work.job, work.transition
    with probing.opened(job) as desk:
        report = probing.run(job, desk, told)
        probes = read(roots).probes(step.transition_id)
        again = doubtful(step, probes, job.case, job.settings.platform)[:CONFIRMED]
        if again:
            report = probing.run(replace(job, also=tuple(again)), desk, told)
        return report


def summary(reports: Sequence[ProbeReport]) -> str:
    """In a few words."""
    shapes = sum(each.above.shapes for each in reports)
    return (
        f"{len(reports)} steps probed at {shapes} shapes, {sum(len(each.differ) for each in reports)} told them apart"
    )
