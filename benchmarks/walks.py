"""One expert walked many times: on fresh roots, and killed with SIGKILL at a random moment and started again.

    python -m benchmarks.walks --kernel experts/gemm/expert.cl --case gemm/256-f32 --fresh 2 --killed 10

Every run has a root of its own. Fresh ones have no cache; the killed ones share what the first compiled and checked,
and are killed some moments after a random number of rows, so that no kill comes too late. Wanted: one chain, one
lineage id, the same attempt ids in all, none missing and none written twice. A row a run; the last lines say whether
it held.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experts.ids import content_id
from tasks.evidence import Roots, journal
from tasks.evidence.store import Evidence

LINGER_SECONDS = 2.0
_FIELDS = (
    "run",
    "killed_after_s",
    "kept_at_kill",
    "gated_afterwards",
    "attempts",
    "written",
    "lineage_id",
    "chain",
    "attempt_ids",
    "accepted",
    "rejected",
    "seconds",
)


@dataclass(frozen=True)
class Run:
    """One walk, killed or not."""

    number: str
    killed_after: float | None
    kept_at_kill: int
    report: dict[str, Any]
    written: int
    ids: tuple[str, ...]
    seconds: float

    @property
    def chain(self) -> str:
        """Id of the accepted chain."""
        steps = self.report["steps"]
        return content_id([s["child"] for s in steps if s["purpose"] == "chain" and s["outcome"] == "accepted"])

    def row(self) -> tuple[object, ...]:
        """For the table."""
        return (
            self.number,
            "" if self.killed_after is None else f"{self.killed_after:.1f}",
            self.kept_at_kill,
            self.report["gated"],
            len(self.ids),
            self.written,
            self.report["lineage_id"],
            self.chain,
            content_id(list(self.ids)),
            self.report["accepted"],
            self.report["rejected"],
            f"{self.seconds:.0f}",
        )


def main() -> None:
    """Walk, kill, resume, and compare."""
    arguments = _arguments()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    with arguments.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        with tempfile.TemporaryDirectory() as cache:
            for number in range(arguments.fresh):
                runs.append(_run(f"fresh-{number}", arguments, Path(cache) if number == 0 else None, None))
                writer.writerow(runs[-1].row())
                file.flush()
            for number in range(arguments.killed):
                rows = random.randrange(len(runs[0].ids))
                runs.append(_run(f"killed-{number}", arguments, Path(cache), rows))
                writer.writerow(runs[-1].row())
                file.flush()
    for what, values in (
        ("chains", {run.chain for run in runs}),
        ("lineage ids", {run.report["lineage_id"] for run in runs}),
        ("sets of attempt ids", {run.ids for run in runs}),
    ):
        print(f"{what}: {len(values)} in {len(runs)} runs")
    doubled = sum(run.written - len(run.ids) for run in runs)
    print(f"attempts written twice: {doubled}")
    print(f"seconds of an uninterrupted walk: {', '.join(f'{r.seconds:.0f}' for r in runs if r.killed_after is None)}")


def _run(number: str, arguments: argparse.Namespace, cache: Path | None, rows: int | None) -> Run:
    """One walk; killed after so many rows and a random while, and started again, where `rows` is given."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if cache is not None:
            (root / "cache").symlink_to(cache)
        command = [sys.executable, "-m", "flows.cli", "walk", str(arguments.kernel), "--case", arguments.case]
        command += ["--pairs", str(arguments.pairs), "--data", folder, "--json"]
        kept, killed_after = 0, None
        if rows is not None:
            started = time.monotonic()
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while len(_written(root)) < rows and child.poll() is None:
                time.sleep(0.05)
            time.sleep(random.uniform(0, LINGER_SECONDS))
            child.send_signal(signal.SIGKILL)
            child.wait()
            kept, killed_after = len(_written(root)), time.monotonic() - started
            time.sleep(1)
        begun = time.monotonic()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.monotonic() - begun
        report = json.loads(done.stdout)
        with Evidence(Roots(root)) as evidence:
            ids = tuple(sorted(evidence.read("attempts")["attempt_id"]))
        # Compaction keeps a row once: what was written twice shows as rows beyond those that each process gated.
        return Run(number, killed_after, kept, report, kept + report["gated"], ids, seconds)


def _written(root: Path) -> list[str]:
    ids = [
        str(row["attempt_id"])
        for path in journal.paths(root)
        for dataset, row in journal.read(path).rows
        if dataset == "attempts"
    ]
    for path in sorted((root / "evidence" / "attempts").glob("*.parquet")):
        ids += pd.read_parquet(path)["attempt_id"].tolist()
    return ids


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One expert walked many times, killed and resumed.")
    parser.add_argument("--kernel", type=Path, default=Path("experts/gemm/expert.cl"))
    parser.add_argument("--case", default="gemm/256-f32")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--fresh", type=int, default=2)
    parser.add_argument("--killed", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/walks_gemm.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
