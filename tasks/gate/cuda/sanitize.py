"""The sanitizer tier for CUDA: one call of a kernel under each tool of compute-sanitizer.

The tools run side by side, each around a worker of its own that gives every buffer an allocation of its own. A kernel
is clean when each tool came to its end and counted nothing: a log without an end proves nothing. Where several find
something memcheck speaks first, since what lies behind a wild access follows from it.

What no tool sees: global memory that two threads race for, and whatever the tensor memory engine does (TMA loads and
stores, and who waits for them). A kernel with tensor maps is therefore also called again and again without a tool,
where buffers have guard zones, that overruns of a map land in; each call must pass, and all be the same bit for bit
where the case asks. That its views stay inside their tensors was decided before anything ran. initcheck sees the
device's heap alone at present: the worker writes every buffer, those too that the kernel is to write.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experts.case import Case
from experts.kernel import Kernel
from experts.verdict import Isolation, Status
from tasks.gate.correctness import Checker, Tried, pages_needed
from tasks.gate.cuda import sanitizer_log
from tasks.gate.cuda.process import CudaProcess
from tasks.gate.device import Artifact, DeviceMissing
from tasks.gate.launches import Limits
from tasks.gate.pages import Pages
from tasks.gate.pool import Pool
from tasks.gate.workers import Rejected

SECONDS = 120.0
"""For one call under a tool; it takes about a thousand times as long as without."""
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
REPEATS = 8
"""Calls of a kernel with tensor maps."""
SOURCE = "kernel.cu"
"""What NVRTC is told that the text is called."""
_FINISH_SECONDS = 30.0
_LOG = "sanitizer.log"
_MAX_LOG_BYTES = 1 << 20
REMEDY = "install it with the CUDA toolkit (apt-get install cuda-sanitizer-13-0), or set CUDA_HOME"


@dataclass(frozen=True)
class _Seen:
    """What came of one call under one tool."""

    tool: str
    fault: Rejected | None
    log: str


def sanitize(
    kernel: Kernel,
    artifact: Artifact,
    case: Case,
    pool: Pool,
    limits: Limits,
    isolation: Isolation | None,
    warp: int,
) -> None:
    """Run once at this (tiny) shape under each tool. Raises Rejected at the first finding.

    That is out_of_bounds, race, nondeterministic, or what a call without a tool is rejected for; harness_error where a
    tool did not see the call to its end. Raises DeviceMissing where there is no compute-sanitizer.
    """
    program = locate()
    # Beside it lie the libraries that it puts into the worker, and the program that starts it.
    readable = (program.parent,)
    nbytes = pages_needed(kernel, [case], limits, warp)

    def judge(process: CudaProcess, pages: Pages, repeats: int) -> None:
        process.build(kernel, artifact)
        process.open_pages()
        checker = Checker(kernel, process, pages, pool, limits, warp)
        checker.judged(Tried(case, case.timed_distribution, repeats), SECONDS)

    def look(tool: str) -> _Seen:
        with ExitStack() as made:
            pages = made.enter_context(Pages(nbytes, pool.seed()))
            process = made.enter_context(CudaProcess(pages, isolation, partial(_command, program, tool), readable))
            process.device()
            fault = None
            try:
                judge(process, pages, 1)
            except Rejected as found:
                fault = found
            process.finish(_FINISH_SECONDS)
            return _Seen(tool, fault, _read(process.scratch / _LOG))

    with ThreadPoolExecutor(len(TOOLS)) as threads:
        _decide(list(threads.map(look, TOOLS)))
    if kernel.manifest.maps:
        with Pages(nbytes, pool.seed()) as pages, CudaProcess(pages, isolation) as process:
            process.device()
            judge(process, pages, REPEATS)


def locate() -> Path:
    """The compute-sanitizer program: of the PATH, CUDA_HOME, or /usr/local/cuda. Raises DeviceMissing."""
    for path in _candidates():
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise DeviceMissing(f"compute-sanitizer is not found; {REMEDY}")


def _candidates() -> Iterator[Path]:
    roots = [Path(home) for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    found = shutil.which("compute-sanitizer")
    if found:
        path = Path(found).resolve()
        # What a toolkit has in bin is a script around the program, whose libraries lie beside that.
        yield path.parents[1] / "compute-sanitizer" / path.name
        yield path
    for root in (*roots, Path("/usr/local/cuda")):
        yield root.resolve() / "compute-sanitizer" / "compute-sanitizer"
        yield root.resolve() / "bin" / "compute-sanitizer"


def _command(program: Path, tool: str, folder: Path) -> tuple[str, ...]:
    """The tool's, before the worker's own; its log goes to the worker's folder."""
    # Several look for a port at the same moment.
    port = str(49152 + 64 * TOOLS.index(tool))
    options = ["--tool", tool, "--log-file", str(folder / _LOG), "--port", port]
    options += ["--print-limit", "10", "--show-backtrace", "device"]
    if tool == "memcheck":
        # Calls of the worker's own that fail are its answer.
        options += ["--report-api-errors", "no"]
    return (str(program), *options)


def _read(path: Path) -> str:
    # Whoever took the worker over could have put something else there.
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(_MAX_LOG_BYTES).decode(errors="replace")


def _decide(seen: list[_Seen]) -> None:
    """Raises Rejected for the first finding, else the first fault of a call, else a tool that proves nothing."""
    for each in seen:
        finding = sanitizer_log.first_finding(each.log, SOURCE)
        if finding is None:
            continue
        if each.tool != "memcheck" and sanitizer_log.overflowed(each.log):
            reason = f"{each.tool} tracks fewer barriers than the kernel uses, so that what it finds may be nothing"
            raise Rejected(Status.HARNESS_ERROR, reason, each.log)
        raise Rejected(finding.status, f"{each.tool}: {finding.reason}", finding.excerpt)
    for each in seen:
        if each.fault is not None:
            if each.fault.status is Status.TIMEOUT:
                reason = f"{each.tool} did not end within {SECONDS:.0f} s"
                raise Rejected(Status.TIMEOUT, reason, each.fault.log)
            raise Rejected(each.fault.status, f"under {each.tool}: {each.fault.reason}", each.fault.log)
    for each in seen:
        doubt = sanitizer_log.doubt(each.log)
        if doubt is not None:
            raise Rejected(Status.HARNESS_ERROR, f"{each.tool}: {doubt}", each.log)
