"""`klineage optimize`: a kernel made faster with the library's skills, every candidate through the gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from experts.kernel import KernelError
from flows.commands import options
from flows.commands.flowing import faults, quiet, waiting
from flows.display import WalkProgress
from flows.jobs import OptimizeRequest
from tasks.gate.runner import CALL_SECONDS
from tasks.gate.statistics import CHECKPOINTS
from tasks.optimize.report import DEFAULT_ATTEMPTS, KernelInvalid, OptimizeReport
from tasks.walk.run import DEFAULT_PAIRS


def command(
    kernel: Annotated[Path, typer.Argument(help="The kernel's file: .cl; it is not changed", metavar="FILE")],
    case: Annotated[
        str | None, typer.Option("--case", help="Which case. [default: the kernel's workload at its default size]")
    ] = None,
    platform_name: Annotated[
        str | None, typer.Option("--platform", help="Which platform. [default: PoCL on this CPU]", metavar="NAME")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The file of the best kernel. [default: in the data folder, under optimized/]", metavar="FILE"
        ),
    ] = None,
    cards: Annotated[
        Path | None, typer.Option("--cards", help="A folder of skills to use instead of the library.", metavar="DIR")
    ] = None,
    attempts: Annotated[int, typer.Option("--attempts", help="Candidates to gate, at most.")] = DEFAULT_ATTEMPTS,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Repeat a run that the evidence has, instead of going on with it.")
    ] = False,
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
    """Make a kernel faster with admitted skills; the best so far is always on disk."""
    request = OptimizeRequest(
        str(kernel),
        case,
        platform_name,
        str(out) if out else None,
        str(cards) if cards else None,
        attempts,
        fresh,
        pairs,
        timeout,
        str(options.roots(data).user),
        tuple(map(str, options.expert_roots(experts))),
    )
    report = optimized(request)
    if report is None:
        return 1
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        from flows.skill_view import print_optimization

        print_optimization(report)
    return 0


def optimized(request: OptimizeRequest) -> OptimizeReport | None:
    """The flow, with progress on stderr; None where the kernel is not valid, which is then said. Raises Failure."""
    with faults(request.kernel):
        try:
            request.job()
            return _flow(request)
        except (KernelError, KernelInvalid) as fault:
            what = f"invalid_kernel at parse: {fault}" if isinstance(fault, KernelError) else str(fault)
            sys.stderr.write(f"klineage: {request.kernel}: the kernel is not valid: {what}\n")
            return None


def _flow(request: OptimizeRequest) -> OptimizeReport:
    quiet()
    with WalkProgress() as progress:
        progress.note(waiting())
        from flows.gating import LISTENER
        from flows.optimize_kernel import optimize_kernel

        token = LISTENER.set(progress)
        try:
            found = optimize_kernel(**request.parameters())
        finally:
            LISTENER.reset(token)
    assert isinstance(found, OptimizeReport)
    return found
