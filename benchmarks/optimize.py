"""What the library is worth: kernels optimized with it, with an empty one, and by trying every rule everywhere.

    python -m benchmarks.optimize --kernel experts/softmax/naive.cl --rounds 3 --out rows.csv

`library` uses admitted skills, `empty` a library without any, `blind` no library at all: every place at which a rule
could add something is gated in the rules' order, one edit at a time, what is faster is kept, and the same number of
attempts is allowed. A row an arm and round: gates spent, and the final kernel against the given one. Each round starts
from nothing but the compiler's cache.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from experts.kernel import Kernel
from experts.verdict import Effect
from flows.jobs import OptimizeRequest
from tasks.evidence import Roots
from tasks.optimize.optimize import Job, opened, optimize
from tasks.rewrite.edit import NotApplicable
from tasks.rewrite.rules import apply
from tasks.trials import Desk, Trial, Tried

_COLUMNS = (
    "kernel",
    "case",
    "arm",
    "round",
    "gates",
    "ratio",
    "low",
    "high",
    "kernel_id",
    "edits",
    "refused",
    "seconds",
)


def main() -> None:
    """All arms of all rounds, in turn."""
    arguments = _arguments()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arms: dict[str, Callable[[Job], dict[str, object]]] = {"library": _library, "empty": _empty, "blind": _blind}
    with arguments.out.open("w", newline="") as file, tempfile.TemporaryDirectory() as cache:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        for number in range(arguments.rounds):
            for arm, run in arms.items():
                with tempfile.TemporaryDirectory() as folder:
                    request = OptimizeRequest(str(arguments.kernel), arguments.case, data=folder)
                    given = request.job()
                    job = replace(
                        given,
                        settings=replace(given.settings, cache=Path(cache)),
                        roots=Roots(Path(folder)),
                        attempts=arguments.attempts,
                    )
                    begun = time.monotonic()
                    found = run(job)
                    row = {"kernel": request.name, "case": job.case.name, "arm": arm, "round": number, **found}
                    writer.writerow({**row, "seconds": f"{time.monotonic() - begun:.1f}"})
                    file.flush()
                    print(row)


class _Thread:
    """Runs trials on one thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._pool = desk, ThreadPoolExecutor(1)

    def __call__(self, trial: Trial, after: object = ()) -> Future[Tried]:
        return self._pool.submit(self._desk.try_out, trial)


def _library(job: Job) -> dict[str, object]:
    with opened(job) as desk:
        report = optimize(job, desk, _Thread(desk))
    measured = report.speedup
    return _row(report.gated, measured.ratio, measured.low, measured.high, report.best_id, report.skills) | {
        "refused": len(report.refused)
    }


def _empty(job: Job) -> dict[str, object]:
    return _library(replace(job, skills=()))


def _blind(job: Job) -> dict[str, object]:
    """Every place of every rule, one after the other; after a gain all of them again."""
    best, kept, gates, tried = job.kernel, [], 0, {job.kernel.kernel_id}
    with _desk(job) as desk:
        gates += not desk.try_out(Trial("optimize", best, timed=False)).recorded
        going = True
        while going:
            going = False
            for kernel, told in _every(best, job):
                if gates > job.attempts or kernel.kernel_id in tried:
                    continue
                tried.add(kernel.kernel_id)
                found = desk.try_out(Trial("optimize", kernel, best, best, narrows=True))
                gates += 1
                if found.accepted and found.row["effect"] == Effect.FASTER:
                    best, going = kernel, True
                    kept.append(told)
                    break
        if not kept:
            return _row(gates, 1.0, 1.0, 1.0, best.kernel_id, ()) | {"refused": 0}
        last = desk.try_out(Trial("optimize", best, job.kernel, job.kernel, narrows=True)).row
    return _row(gates + 1, last["ratio"], last["low"], last["high"], best.kernel_id, kept) | {"refused": 0}


def _every(kernel: Kernel, job: Job) -> Iterator[tuple[Kernel, str]]:
    for rule in job.rules:
        for edit in rule.addable(kernel).edits:
            try:
                yield apply(kernel, edit)[0], f"{edit.intent} at {edit.anchor}"
            except NotApplicable:
                continue


@contextmanager
def _desk(job: Job) -> Iterator[Desk]:
    with opened(replace(job, skills=())) as desk:
        yield desk


def _row(gates: int, ratio: float, low: float, high: float, kernel_id: str, edits: object) -> dict[str, object]:
    names = " + ".join(map(str, edits if isinstance(edits, list | tuple) else ()))
    figures = {"ratio": f"{ratio:.3f}", "low": f"{low:.3f}", "high": f"{high:.3f}"}
    return {"gates": gates, **figures, "kernel_id": kernel_id, "edits": names}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the library is worth.")
    parser.add_argument("--kernel", type=Path, required=True)
    parser.add_argument("--case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attempts", type=int, default=24)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
