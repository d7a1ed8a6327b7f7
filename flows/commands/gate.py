"""`klineage gate`: one kernel through compile, correctness and profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from experts import catalog, platform
from experts.case import CaseError
from experts.ids import text_id
from experts.kernel import EXTENSIONS, Kernel
from experts.verdict import GateReport, Status
from flows.commands import options
from flows.commands.failure import Failure
from flows.display import GateProgress, print_report
from skill_library.records import attempt_row, bare_kernel_row, kernel_row, run_id
from tasks.evidence import Evidence, Roots, StoreError, journal
from tasks.gate import lock
from tasks.gate.report import Gated, gate_files
from tasks.gate.runner import CALL_SECONDS, GateUnavailable, Settings

MAX_JOURNALS = 64
"""Each gate leaves one journal; beyond this many they become one file."""


def command(
    file: Annotated[Path, typer.Argument(help="The kernel file: .cl or .cu", metavar="FILE")],
    case: Annotated[
        str, typer.Option("--case", help="gemm, gemm/512-f32, gemm/M=512,N=300,K=64-f32: see klineage cases.")
    ],
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="Another kernel to be faster or slower than.", metavar="FILE")
    ] = None,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Run it in the sanitizer too: bounds and races.")
    ] = False,
    platform_name: options.PlatformName = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds for one call of the kernel.", min=0.1, max=3600)
    ] = CALL_SECONDS,
    isolation: Annotated[
        Literal["auto", "sandlock", "process"],
        typer.Option("--isolation", help="How the worker is held; auto is the best this machine has."),
    ] = "auto",
    compile_only: Annotated[
        bool,
        typer.Option("--compile-only", help="Stop after compiling: a CUDA kernel then needs no GPU, but a --platform."),
    ] = False,
    no_profile: Annotated[bool, typer.Option("--no-profile", help="Stop after correctness: no timing.")] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither use nor keep compiled code and verdicts.")
    ] = False,
    experts: options.Experts = None,
    data: options.Data = None,
    as_json: options.Json = False,
) -> int:
    """Say whether a kernel compiles, is correct, and is faster than another."""
    for path in (file, baseline):
        if path is not None:
            _readable(path)
    if file.suffix == ".py":
        raise Failure("Triton and TileLang kernels are not lowered by this version of the gate yet")
    if compile_only and sanitize:
        raise Failure("--compile-only runs nothing, so that there is nothing for --sanitize")
    try:
        surface = EXTENSIONS[file.suffix]
        chosen = platform.select(surface, platform_name, compile_only=compile_only)
        found = catalog.find(case, surface, options.expert_roots(experts))
    except (CaseError, platform.PlatformError) as error:
        raise Failure(str(error)) from None
    roots = options.roots(data)
    settings = Settings(
        platform=chosen,
        tier="compile" if compile_only else "sanitize" if sanitize else "default",
        timeout=timeout,
        cache=None if no_cache else roots.user / "cache",
        isolation=None if isolation == "auto" else isolation,
        profile=not no_profile,
    )
    with GateProgress() as progress:
        try:
            gated = gate_files(file, found, settings, baseline, progress)
        except (GateUnavailable, CaseError) as error:
            raise Failure(str(error)) from None
        except OSError as error:
            raise Failure(f"{error.filename or file}: {error.strerror}") from None
    report, fault = _keep(gated, roots, settings)
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        print_report(report, file, baseline)
    if fault is not None:
        raise Failure(f"the verdict above stands, but its row was not kept: {fault}")
    return _exit_code(report)


def _readable(path: Path) -> None:
    """Raises Failure where the file cannot be read at all."""
    if path.suffix not in (*EXTENSIONS, ".py"):
        raise Failure(
            f"{path}: unknown extension {path.suffix!r}; a kernel file ends in {', '.join((*EXTENSIONS, '.py'))}"
        )
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None


def _keep(gated: Gated, roots: Roots, settings: Settings) -> tuple[GateReport, str | None]:
    """Store the texts and the row; the report says what came of it."""
    report, verdict = gated.report, gated.report.verdict
    run = run_id(
        "gate",
        kernel_id=verdict.kernel_id,
        case_id=verdict.case_id,
        env_id=report.env_id,
        gate_version=report.gate_version,
        configuration={"tier": settings.tier, "timeout": settings.timeout, "profile": settings.profile},
    )
    texts = [kernel_row(text) if isinstance(text, Kernel) else bare_kernel_row(text) for text in gated.texts]
    try:
        # Each gate of one configuration is a repetition of its own; two at once must not take the same number.
        with lock.held(f"evidence-{text_id(str(roots.user))}", "exclusive"), Evidence(roots) as evidence:
            row = attempt_row(report, run_id=run, purpose="gate", repetition=evidence.repetitions(run))
            evidence.append(*texts, row)
            if len(journal.paths(roots.user)) > MAX_JOURNALS:
                evidence.compact()
    except (StoreError, lock.LockError) as error:
        return report.model_copy(update={"kept": str(error)}), str(error)
    return report.model_copy(update={"kept": "kept", "attempt_id": row.attempt_id}), None


def _exit_code(report: GateReport) -> int:
    verdicts = [report.verdict, *([report.baseline] if report.baseline else [])]
    if any(verdict.status is Status.HARNESS_ERROR for verdict in verdicts):
        return 2
    return 1 if any(verdict.outcome == "rejected" for verdict in verdicts) else 0
