"""Walks a kernel without Prefect: `python -m tests.walk.driver KERNEL CASE ROOT timed|untimed`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from experts import catalog, platform
from experts.kernel import load
from tasks.evidence import Roots
from tasks.gate.runner import Settings
from tasks.runs import Busy
from tasks.trials import Trial, Tried
from tasks.walk.report import WalkReport
from tasks.walk.run import Job, opened, run
from tasks.walk.walk import Pending

PLANTED = Path(__file__).parent / "planted.cl"
PAIRS = 20


class Threads:
    """Runs trials on threads."""

    def __init__(self, try_out: Callable[[Trial], Tried], workers: int = 2) -> None:
        self._try_out = try_out
        self._pool = ThreadPoolExecutor(workers)

    def __call__(self, trial: Trial, after: Sequence[Pending] = ()) -> Pending:
        for pending in after:
            pending.result()
        future: Future[Tried] = self._pool.submit(self._try_out, trial)
        return future


def job(kernel: Path, case: str, root: Path, *, fresh: bool = False, timed: bool = True) -> Job:
    """A job that compares over few pairs, or not at all: these tests are about validity."""
    settings = Settings(platform=platform.select("opencl", None), cache=root / "cache", pairs=PAIRS, profile=timed)
    found = catalog.find(case, "opencl", catalog.roots())
    return Job(load(kernel), found, settings, Roots(root), fresh=fresh)


def walked(work: Job) -> WalkReport:
    """The whole walk."""
    with opened(work) as desk:
        return run(work, desk, Threads(desk.try_out))


def main() -> None:
    """One walk, for tests that kill it."""
    kernel, case, root, how = sys.argv[1:]
    try:
        sys.stdout.write(walked(job(Path(kernel), case, Path(root), timed=how == "timed")).model_dump_json() + "\n")
    except Busy as busy:
        sys.exit(f"busy: {busy}")


if __name__ == "__main__":
    main()
