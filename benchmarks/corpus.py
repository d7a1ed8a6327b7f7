"""Every kernel of the gate's corpus through the gate of this machine: what was said, and what had to be said.

    python -m benchmarks.corpus --surface opencl --repeats 1 --out benchmarks/results/corpus_opencl.csv

Nothing is cached: each row is a verdict of its own. Rows are appended as they come, so that a run that was cut short
leaves good ones, and an unexpected verdict stops nothing. A row with status `harness_error`, `unavailable` or `raised`
is the gate's or the machine's fault and says nothing about the kernel. Exit code 0: all verdicts are as expected;
1: some are not; 2: this machine cannot gate such kernels.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from experts import catalog, platform
from experts.case import CaseError
from experts.kernel import Surface
from experts.platform import Platform, PlatformError
from experts.verdict import GATE_VERSION, GateReport
from skill_library.published import NO_VERDICT, CorpusError, Entry, entries
from skill_library.scrub import scrub
from tasks.gate import sandbox
from tasks.gate.report import gate_files
from tasks.gate.runner import GateUnavailable, Settings, surroundings

TESTS = Path(__file__).parents[1] / "tests" / "gate"
CORPUS = {"opencl": TESTS / "corpus.toml", "cuda": TESTS / "corpus_cuda.toml"}
COLUMNS = (
    "name", "repeat", "kernel_id", "case", "case_id", "platform", "device", "driver", "toolchain", "env_id",
    "gate_version", "tier", "isolation", "expected", "status", "stage", "effect", "as_expected", "clean", "seconds",
    "registers", "spill_bytes", "shared_bytes", "reason",
)  # fmt: skip
_CALL_SECONDS = 4.0
_MARKER = ("KLINEAGE_TEST_MARKER", "klineage-canary")
"""One kernel looks for it in the worker's environment."""


def main() -> int:
    """Gate the corpus, append rows, print counts."""
    arguments = _arguments()
    os.environ[_MARKER[0]] = _MARKER[1]
    try:
        chosen = platform.select(arguments.surface, arguments.platform)
        wanted = _wanted(entries(CORPUS[arguments.surface]), arguments.only)
        facts = surroundings(Settings(chosen))[0]
    except (OSError, CorpusError, PlatformError, GateUnavailable) as error:
        return _refuse(str(error))
    held = sandbox.isolation() == "sandlock"
    skipped = [entry.name for entry in wanted if not held and entry.table.get("isolation") == "sandbox"]
    jobs = [(entry, number) for number in range(arguments.repeats) for entry in wanted if entry.name not in skipped]
    told: Counter[str] = Counter()
    try:
        with appended(arguments.out, COLUMNS) as (writer, file), ThreadPoolExecutor(arguments.jobs) as threads:
            futures = [threads.submit(_row, *job, chosen, facts, arguments.timeout) for job in jobs]
            for future in as_completed(futures):
                row = future.result()
                writer.writerow(row)
                file.flush()
                kind = "fault" if row["status"] in NO_VERDICT else "expected" if row["as_expected"] else "unexpected"
                told[kind] += 1
                if kind != "expected":
                    print(f"{kind}: {row['name']}: {row['status']} at {row['stage']}: {row['reason']}", flush=True)
    except OSError as error:
        return _refuse(f"{arguments.out}: {error}")
    print(
        f"{arguments.surface} on {chosen.name}: {sum(told.values())} gates: {told['expected']} as expected, "
        f"{told['unexpected']} unexpected, {told['fault']} harness errors"
    )
    if skipped:
        print(f"skipped, for want of the sandbox ({sandbox.sandlock_fault()}): {', '.join(sorted(set(skipped)))}")
    return 0 if told["expected"] == len(jobs) else 1


@contextmanager
def appended(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[csv.DictWriter[str], TextIO]]:
    """A file of rows to append to; the header is written where there is none yet.

    Raises OSError where it cannot be written, or has other columns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        text = file.read()
        header = next(csv.reader(text.splitlines()), None)
        if header is not None and tuple(header) != columns:
            raise OSError("has other columns; name another file")
        writer = csv.DictWriter(file, columns)
        if header is None:
            writer.writeheader()
        elif not text.endswith("\n"):
            # A run was killed inside a row: the next one must not be glued to it.
            file.write("\r\n")
        yield writer, file


def environment_columns(facts: Mapping[str, str]) -> dict[str, str]:
    """`device`, `driver` and `toolchain` in words, of the facts of an environment."""
    packages = [
        f"{key.removeprefix('package.')} {value}"
        for key, value in sorted(facts.items())
        if key.startswith("package.") and key != "package.numpy"
    ]
    return {
        "device": facts.get("device.name", facts.get("cpu", "")),
        "driver": facts.get("device.driver", ""),
        "toolchain": "; ".join(part for part in (facts.get("device.runtime", ""), *packages) if part),
    }


def _row(entry: Entry, number: int, chosen: Platform, facts: Mapping[str, str], timeout: float) -> dict[str, Any]:
    """One gate, as a row; whatever is raised is a row too."""
    begun = time.monotonic()
    row: dict[str, Any] = {
        "name": entry.name,
        "repeat": number,
        "case": entry.case,
        "platform": chosen.name,
        "gate_version": GATE_VERSION,
        "tier": entry.tier,
        "expected": "|".join(entry.expected),
        "as_expected": False,
    } | environment_columns(facts)
    try:
        report = _gate(entry, chosen, timeout)
    except (GateUnavailable, CaseError, OSError) as error:
        row |= {"status": "unavailable", "reason": " ".join(scrub(str(error)).split())}
    except Exception as error:
        # A fault of the gate itself must not cost the rows behind it.
        row |= {"status": "raised", "reason": " ".join(scrub(f"{type(error).__name__}: {error}").split())}
    else:
        row |= _said(report) | {"as_expected": _as_expected(entry, report)}
    return row | {"seconds": f"{time.monotonic() - begun:.2f}"}


def _gate(entry: Entry, chosen: Platform, timeout: float) -> GateReport:
    case = catalog.find(entry.case, chosen.surfaces[0], catalog.roots())
    settings = Settings(
        platform=chosen,
        tier=entry.tier,
        timeout=timeout,
        # Timing is asked for where the attack is on the clock, or shows only after many calls.
        profile=entry.baseline is not None
        or entry.table.get("kind") == "timing"
        or "profile" in entry.table.get("stage", ""),
    )
    return gate_files(entry.path, case, settings, entry.baseline, None).report


def _said(report: GateReport) -> dict[str, Any]:
    verdict, facts = report.verdict, report.verdict.compile
    return {
        "kernel_id": verdict.kernel_id,
        "case_id": verdict.case_id,
        "env_id": report.env_id,
        "gate_version": report.gate_version,
        "isolation": verdict.isolation,
        "status": str(verdict.status),
        "stage": str(verdict.stage),
        "effect": verdict.profile.effect if verdict.profile else None,
        "clean": verdict.clean,
        "registers": facts.registers if facts else None,
        "spill_bytes": facts.spill_bytes if facts else None,
        "shared_bytes": facts.local_bytes if facts else None,
        "reason": verdict.reason,
    }


def _as_expected(entry: Entry, report: GateReport) -> bool:
    verdict, table = report.verdict, entry.table
    if verdict.status not in entry.expected:
        return False
    if entry.honest:
        return entry.tier != "sanitize" or verdict.clean is True
    if verdict.profile is not None and "effect" in table and verdict.profile.effect not in table["effect"]:
        return False
    # The stage and the words are those of the entry's own tier.
    own = entry.tier == table["tier"]
    if own and "stage" in table and not table.get("contained") and verdict.stage != table["stage"]:
        return False
    return "log_never" not in table or table["log_never"] not in verdict.model_dump_json()


def _wanted(every: tuple[Entry, ...], only: list[str] | None) -> tuple[Entry, ...]:
    """All entries, or those named, with or without extension. Raises CorpusError for a name that is none."""
    if only is None:
        return every
    unknown = [name for name in only if not any(name in (entry.name, entry.path.stem) for entry in every)]
    if unknown:
        raise CorpusError(f"{unknown[0]} is not in the corpus")
    return tuple(entry for entry in every if {entry.name, entry.path.stem} & set(only))


def _refuse(reason: str) -> int:
    print(f"benchmarks.corpus: {' '.join(reason.split())}", file=sys.stderr)
    return 2


def _arguments() -> argparse.Namespace:
    surfaces: tuple[Surface, ...] = ("opencl", "cuda")
    parser = argparse.ArgumentParser(description="The gate's corpus on this machine.")
    parser.add_argument("--surface", choices=surfaces, default="opencl")
    parser.add_argument("--platform", help="by default this machine's for the surface")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", action="append", metavar="NAME", help="one kernel; may be given more than once")
    parser.add_argument("--jobs", type=int, default=1, help="gates at a time; timing still has the device alone")
    parser.add_argument("--timeout", type=float, default=_CALL_SECONDS, help="seconds for one call of a kernel")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
