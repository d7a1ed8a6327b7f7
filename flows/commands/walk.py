"""`klineage walk`: an expert kernel backward towards naive, every step through the gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from experts.kernel import KernelError
from flows.commands import options
from flows.commands.flowing import faults, quiet, waiting
from flows.display import WalkProgress
from flows.jobs import WalkRequest
from skill_library.ladder import ladder
from tasks.evidence import Evidence, Roots
from tasks.gate.runner import CALL_SECONDS
from tasks.gate.statistics import CHECKPOINTS
from tasks.walk.report import WalkReport
from tasks.walk.run import DEFAULT_PAIRS
from tasks.walk.walk import ExpertInvalid


def command(
    kernel: Annotated[Path, typer.Argument(help="The expert's file: .cl", metavar="KERNEL")],
    case: Annotated[
        str | None, typer.Option("--case", help="Which case. [default: the kernel's workload at its default size]")
    ] = None,
    platform_name: Annotated[
        str | None, typer.Option("--platform", help="Which platform. [default: PoCL on this CPU]", metavar="NAME")
    ] = None,
    rewriter: Annotated[Literal["rule"], typer.Option("--rewriter", help="Who writes the steps.")] = "rule",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Repeat a walk that the evidence has, instead of going on with it.")
    ] = False,
    pairs: Annotated[
        int, typer.Option("--pairs", help=f"Samples for a step, at most: {', '.join(map(str, CHECKPOINTS))}.")
    ] = DEFAULT_PAIRS,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds for one call of a kernel.", min=0.1, max=3600)
    ] = CALL_SECONDS,
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
            return _flow(request)
        except (KernelError, ExpertInvalid) as fault:
            what = f"invalid_kernel at parse: {fault}" if isinstance(fault, KernelError) else str(fault)
            sys.stderr.write(f"klineage: {request.kernel}: the expert is not valid: {what}\n")
            return None


def _flow(request: WalkRequest) -> WalkReport:
    quiet()
    with WalkProgress() as progress:
        progress.note(waiting())
        from flows.extract_lineage import extract_lineage
        from flows.gating import LISTENER

        token = LISTENER.set(progress)
        try:
            found = extract_lineage(**request.parameters())
        finally:
            LISTENER.reset(token)
    assert isinstance(found, WalkReport)
    return found


def show(report: WalkReport, roots: Roots) -> None:
    """The ladder of a walk on stdout, and where it stopped."""
    from flows.ladder_view import print_end, print_ladder

    with Evidence(roots) as evidence:
        print_ladder(ladder(evidence.read("attempts"), evidence.read("transitions"), report.lineage_id))
    print_end(report)
