"""`klineage walk`: an expert kernel backward towards naive, every step through the gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from experts.kernel import KernelError
from flows.commands import options
from flows.commands.flowing import faults, not_valid, watched
from flows.jobs import WalkRequest
from skill_library.ladder import ladder
from tasks.evidence import Evidence, Roots
from tasks.gate.runner import CALL_SECONDS
from tasks.walk.report import WalkReport
from tasks.walk.run import DEFAULT_PAIRS
from tasks.walk.walk import ExpertInvalid


def command(
    kernel: Annotated[Path, typer.Argument(help="The expert's file: .cl", metavar="KERNEL")],
    case: options.CaseName = None,
    platform_name: options.PlatformName = None,
    rewriter: Annotated[Literal["rule"], typer.Option("--rewriter", help="Who writes the steps.")] = "rule",
    fresh: options.Fresh = False,
    pairs: options.Pairs = DEFAULT_PAIRS,
    timeout: options.Timeout = CALL_SECONDS,
    experts: options.Experts = None,
    data: options.Data = None,
    as_json: options.Json = False,
) -> int:
    """Walk an expert kernel backward, one optimization at a time; every step is gated and kept."""
    roots = options.roots(data)
    request = WalkRequest(
        str(kernel),
        case,
        platform_name,
        rewriter,
        fresh,
        pairs,
        timeout,
        str(roots.user),
        tuple(map(str, options.expert_roots(experts))),
    )
    report = walked(request)
    if report is None:
        return 1
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        show(report, roots)
    return 0


def walked(request: WalkRequest) -> WalkReport | None:
    """The flow, with progress on stderr; None where the expert is not valid, which is then said. Raises Failure."""
    with faults(request.kernel):
        try:
            request.job()
            with watched():
                from flows.extract_lineage import extract_lineage

                found = extract_lineage(**request.parameters())
        except (KernelError, ExpertInvalid) as fault:
            not_valid(request.kernel, "expert", fault)
            return None
    assert isinstance(found, WalkReport)
    return found


def show(report: WalkReport, roots: Roots) -> None:
    """The ladder of a walk on stdout, and where it stopped."""
    from flows.ladder_view import print_end, print_ladder

    with Evidence(roots) as evidence:
        print_ladder(ladder(evidence.read("attempts"), evidence.read("transitions"), report.lineage_id))
    print_end(report)
