"""`klineage roundtrip`: skills admitted, kept waiting or quarantined by held-out roundtrips."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flows.commands import options
from flows.commands.flowing import faults, watched
from flows.jobs import RoundtripRequest
from tasks.gate.runner import CALL_SECONDS
from tasks.roundtrip.report import RoundtripReport
from tasks.walk.run import DEFAULT_PAIRS


def command(
    skills: Annotated[
        list[str] | None,
        typer.Argument(help="Names of skills. [default: all that are not decided here yet]", metavar="SKILL"),
    ] = None,
    platform_name: options.PlatformName = None,
    again: Annotated[bool, typer.Option("--again", help="Decide those, too, that were decided here.")] = False,
    pairs: options.Pairs = DEFAULT_PAIRS,
    timeout: options.Timeout = CALL_SECONDS,
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
        with watched():
            from flows.validate_roundtrips import validate_roundtrips

            report = validate_roundtrips(**request.parameters())
    assert isinstance(report, RoundtripReport)
    return report
