"""`klineage induce`: candidate skills from every lineage of the evidence, probed where they were not."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flows.commands import options
from flows.commands.failure import Failure
from flows.commands.flowing import faults, watched
from flows.jobs import DEMO_SHAPES, ProbeRequest
from tasks.gate.runner import CALL_SECONDS
from tasks.induce.report import InduceReport


def command(
    probe: Annotated[
        str,
        typer.Option(
            "--probe",
            help="Shapes to probe each step at that was never probed: a number, full for the whole family, or none.",
            metavar="N|full|none",
        ),
    ] = str(DEMO_SHAPES),
    lineage: Annotated[
        str | None,
        typer.Option(
            "--lineage",
            help="Probe the steps of this lineage, probed or not: the beginning of its id, or last.",
            metavar="ID",
        ),
    ] = None,
    platform_name: options.PlatformName = None,
    timeout: options.Timeout = CALL_SECONDS,
    experts: options.Experts = None,
    data: options.Data = None,
    as_json: options.Json = False,
) -> int:
    """Lift the steps of all lineages into skills: when each is sound, what it is worth, and how it fails."""
    if probe not in ("full", "none") and not probe.isdecimal():
        raise Failure(f"--probe {probe}: expected a number of shapes, full, or none")
    request = ProbeRequest(
        lineage,
        int(probe) if probe.isdecimal() else None,
        platform_name,
        timeout,
        str(options.roots(data).user),
        tuple(map(str, options.expert_roots(experts))),
    )
    report = induced(request, probe=probe != "none")
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        from flows.skill_view import print_induced

        print_induced(report)
    return 0


def induced(request: ProbeRequest, *, probe: bool = True) -> InduceReport:
    """The flow, with progress on stderr. Raises Failure."""
    with faults(request.data or ""):
        request.job()
        with watched() as progress:
            from flows.induce_skills import induce_skills
            from flows.probing import PROBED, told

            token = PROBED.set(lambda found: progress.line(f"probed {found.intent} of {found.case}", told(found)))
            try:
                report = induce_skills(**request.parameters(), probe=probe)
            finally:
                PROBED.reset(token)
    assert isinstance(report, InduceReport)
    return report
