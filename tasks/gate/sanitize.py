"""The sanitizer tier for OpenCL: calls of a kernel in Oclgrind, a simulator that sees every access and data race.

Oclgrind interprets the kernel, so its log, a file that the kernel's own prints do not reach, can be believed. Its
messages open with what was seen and go on with `At line N (column M) of input.cl:`; the kernel itself runs on.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from experts.case import Case
from experts.kernel import Kernel
from experts.verdict import Isolation, Status
from tasks.gate.correctness import Checker, Tried, pages_needed
from tasks.gate.launches import Limits
from tasks.gate.opencl import OCLGRIND, OpenCLProcess
from tasks.gate.pages import Pages
from tasks.gate.pool import Pool
from tasks.gate.workers import Rejected

SECONDS = 120.0
_LOG = "oclgrind.log"
_MAX_LOG_BYTES = 1 << 20
_LOCAL_BYTES = 1 << 20
"""Oclgrind's default of 32 KiB would turn honest kernels away; the device's own limit is checked elsewhere."""

_FINDING = re.compile(
    r"^(?:(?P<access>(?:Invalid|Unaligned) .*memory)[^\n]*"
    r"|\S+ data race at \w+ memory|Work-group divergence detected \(\w+\))",
    re.MULTILINE,
)
_LINE = re.compile(r"At line ([1-9]\d*) \(column \d+\)")


def sanitize(kernel: Kernel, case: Case, pool: Pool, limits: Limits, isolation: Isolation | None, warp: int) -> None:
    """Run once at this (tiny) shape. Raises Rejected (out_of_bounds, race, or a wrong value) at the first finding."""
    nbytes = pages_needed(kernel, [case], limits, warp)
    with Sanitizer(kernel, nbytes, pool, limits, isolation, warp) as sanitizer:
        sanitizer.check(Tried(case, case.timed_distribution))


class Sanitizer:
    """A worker with Oclgrind and one kernel, for shapes one after another; of no more use after a finding.

    Use as a context manager. Raises Rejected (compile_error and its kin) where Oclgrind does not take the kernel.
    """

    def __init__(
        self, kernel: Kernel, nbytes: int, pool: Pool, limits: Limits, isolation: Isolation | None, warp: int
    ) -> None:
        environment = {
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_LOG": _LOG,
            "OCLGRIND_MAX_ERRORS": "3",
            "OCLGRIND_LOCAL_MEM_SIZE": str(_LOCAL_BYTES),
            "OCLGRIND_MAX_WGSIZE": "4096",
        }
        with ExitStack() as made:
            pages = made.enter_context(Pages(nbytes, pool.seed()))
            process = made.enter_context(OpenCLProcess(OCLGRIND, pages, isolation=isolation, environment=environment))
            process.device()
            process.build(kernel)
            process.open_pages()
            self._made = made.pop_all()
        self._log = process.scratch / _LOG
        self._checker = Checker(kernel, process, pages, pool, limits, warp)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def check(self, item: Tried) -> float:
        """The item's calls: their largest error, as a share of its bound. Raises Rejected at the first finding."""
        try:
            error = self._checker.judged(item, SECONDS)
        except Rejected as fault:
            look(self._log)
            if fault.status is Status.TIMEOUT:
                reason = f"the sanitizer did not end within {SECONDS:.0f} s at {item.case.name}"
                raise Rejected(Status.TIMEOUT, reason, fault.log) from None
            raise Rejected(fault.status, f"in the sanitizer: {fault.reason}", fault.log) from None
        look(self._log)
        return error


def look(path: Path) -> None:
    """Read a log. Raises Rejected (out_of_bounds, race) for its first finding, with the source line."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_LOG_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return
    found = _FINDING.search(text)
    if found is None:
        return
    status = Status.OUT_OF_BOUNDS if found["access"] else Status.RACE
    told = text[found.start() :].partition("\n\n")[0] if found["access"] else text[found.start() :]
    line = _LINE.search(told)
    place = f", line {line[1]}" if line else ""
    raise Rejected(status, f"{found[0].strip()}{place}", text[found.start() :])
