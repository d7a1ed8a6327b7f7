"""`klineage roundtrip`: skills admitted, kept waiting or quarantined by held-out roundtrips."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flows.commands import options
from flows.commands.flowing import faults, quiet, waiting
from flows.display import WalkProgress
from flows.jobs import RoundtripRequest
from tasks.gate.runner import CALL_SECONDS
from tasks.gate.statistics import CHECKPOINTS
from tasks.roundtrip.report import RoundtripReport
from tasks.walk.run import DEFAULT_PAIRS


def command(
    skills: Annotated[
        list[str] | None,
        typer.Argument(help="Names of skills. [default: all that are not decided here yet]", metavar="SKILL"),
    ] = None,
    platform_name: Annotated[
        str | None, typer.Option("--platform", help="Which platform. [default: PoCL on this CPU]", metavar="NAME")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Decide those, too, that were decided here.")] = False,
    pairs: Annotated[
        int, typer.Option("--pairs", help=f"Samples for a comparison, at most: {', '.join(map(str, CHECKPOINTS))}.")
    ] = DEFAULT_PAIRS,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds for one call of a kernel.", min=0.1, max=3600)
    ] = CALL_SECONDS,
    experts: options.Experts = None,
    data: options.Data = None,
    as_json: options.Json = False,
) -> int:
    """Try skills on states that no lineage had, and where their preconditions are false; admit what holds."""
    request = RoundtripRequest(
        tuple(skills or ()),
        platform_name,
        again,
        pairs,
        timeout,
        str(options.roots(data).user),
        tuple(map(str, options.expert_roots(experts))),
    )
    report = decided(request)
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        from flows.skill_view import print_decisions

        print_decisions(report)
    return 0


def decided(request: RoundtripRequest) -> RoundtripReport:
    """The flow, with progress on stderr. Raises Failure."""
    with faults(request.data or ""):
        request.job()
        quiet()
        with WalkProgress() as progress:
            progress.note(waiting())
            from flows.gating import LISTENER
            from flows.validate_roundtrips import validate_roundtrips

            token = LISTENER.set(progress)
            try:
                report = validate_roundtrips(**request.parameters())
            finally:
                LISTENER.reset(token)
    assert isinstance(report, RoundtripReport)
    return report
