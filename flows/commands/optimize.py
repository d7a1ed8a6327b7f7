"""`klineage optimize`: a kernel made faster with the library's skills, every candidate through the gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from experts.kernel import KernelError
from flows.commands import options
from flows.commands.flowing import faults, not_valid, watched
from flows.jobs import OptimizeRequest
from tasks.gate.runner import CALL_SECONDS
from tasks.optimize.report import DEFAULT_ATTEMPTS, KernelInvalid, OptimizeReport
from tasks.walk.run import DEFAULT_PAIRS


def command(
    kernel: Annotated[Path, typer.Argument(help="The kernel's file: .cl; it is not changed", metavar="FILE")],
    case: options.CaseName = None,
    platform_name: options.PlatformName = None,
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
    fresh: options.Fresh = False,
    pairs: options.Pairs = DEFAULT_PAIRS,
    timeout: options.Timeout = CALL_SECONDS,
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
            with watched():
                from flows.optimize_kernel import optimize_kernel

                found = optimize_kernel(**request.parameters())
        except (KernelError, KernelInvalid) as fault:
            not_valid(request.kernel, "kernel", fault)
            return None
    assert isinstance(found, OptimizeReport)
    return found
