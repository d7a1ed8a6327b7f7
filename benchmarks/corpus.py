"""Every kernel of the gate's corpus through the gate of this machine: what was said, and what had to be said.

    python -m benchmarks.corpus --surface opencl --repeats 1 --out benchmarks/results/corpus_opencl.csv

Nothing is cached: each row is a verdict of its own. Rows are appended as they come, so that a run that was cut short
leaves good ones, and an unexpected verdict stops nothing. A row with status `harness_error`, `unavailable` or `raised`
is the gate's or the machine's fault and says nothing about the kernel. `--compile-only` asks of the compile tier what
that can tell: `--surface cuda --platform sm90 --compile-only` needs no GPU. Exit code 0: all verdicts are as expected;
1: some are not; 2: this machine cannot gate such kernels.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, get_args

from benchmarks.rows import appended, environment_columns
from experts import catalog, platform
from experts.case import Case, CaseError
from experts.kernel import Surface
from experts.platform import Platform, PlatformError, environment
from experts.verdict import GATE_VERSION, GateReport
from skill_library.published import NO_VERDICT, CorpusError, Entry, Where, entries
from skill_library.scrub import scrub
from tasks.gate import sandbox
from tasks.gate.cache import Cache
from tasks.gate.device import DeviceMissing
from tasks.gate.prepare import device_of
from tasks.gate.report import gate_files
from tasks.gate.runner import GateUnavailable, Settings

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
        chosen = platform.select(arguments.surface, arguments.platform, compile_only=arguments.compile_only)
        wanted = _wanted(arguments)
        device = device_of(chosen, None, Cache(None), compile_only=arguments.compile_only)
        facts = environment(chosen, device.facts)
    except (OSError, CorpusError, PlatformError, DeviceMissing, sandbox.SandboxUnavailable) as error:
        return _refuse(str(error))
    held = sandbox.isolation() == "sandlock"
    skipped = [entry.name for entry in wanted if not held and entry.table.get("isolation") == "sandbox"]
    jobs = [(entry, number) for number in range(arguments.repeats) for entry in wanted if entry.name not in skipped]
    told: Counter[str] = Counter()
    try:
        with appended(arguments.out, COLUMNS) as (writer, file), ThreadPoolExecutor(arguments.jobs) as threads:
            futures = [threads.submit(_row, *job, arguments.surface, chosen, facts, arguments.timeout) for job in jobs]
            for future in as_completed(futures):
                row = future.result()
                writer.writerow(row)
                file.flush()
                kind = "fault" if row["status"] in NO_VERDICT else "expected" if row["as_expected"] else "unexpected"
                told[kind] += 1
                if kind != "expected":
                    print(f"{kind}: {row['name']}: {_told(row)}", flush=True)
    except OSError as error:
        return _refuse(f"{arguments.out}: {error}")
    print(
        f"{arguments.surface} on {chosen.name}: {sum(told.values())} gates: {told['expected']} as expected, "
        f"{told['unexpected']} unexpected, {told['fault']} harness errors"
    )
    if skipped:
        print(f"skipped, for want of the sandbox ({sandbox.sandlock_fault()}): {', '.join(sorted(set(skipped)))}")
    return 0 if told["expected"] == len(jobs) else 1


def _told(row: Mapping[str, Any]) -> str:
    stage = f" at {row['stage']}" if "stage" in row else ""
    return f"{row['status']}{stage}: {row['reason'] or row['effect'] or ''}"


def _row(
    entry: Entry, number: int, surface: Surface, chosen: Platform, facts: Mapping[str, str], timeout: float
) -> dict[str, Any]:
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
        row["kernel_id"] = entry.kernel_id
        case = catalog.find(entry.case, surface, catalog.roots())
        row["case_id"] = case.case_id
        report = _gate(entry, case, chosen, timeout)
    except (GateUnavailable, CaseError, OSError) as error:
        row |= {"status": "unavailable", "reason": " ".join(scrub(str(error)).split())}
    except Exception as error:
        # A fault of the gate itself must not cost the rows behind it.
        row |= {"status": "raised", "reason": " ".join(scrub(f"{type(error).__name__}: {error}").split())}
    else:
        row |= _said(report) | {"as_expected": _as_expected(entry, report)}
    return row | {"seconds": f"{time.monotonic() - begun:.2f}"}


def _gate(entry: Entry, case: Case, chosen: Platform, timeout: float) -> GateReport:
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
        "env_id": report.env_id,
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


def _wanted(arguments: argparse.Namespace) -> tuple[Entry, ...]:
    """The entries that are asked for. Raises OSError, CorpusError, which names a kernel that the corpus has not."""
    every = entries(CORPUS[arguments.surface])
    names = set(arguments.only or ())
    unknown = sorted(names - {name for entry in every for name in (entry.name, entry.path.stem)})
    if unknown:
        raise CorpusError(f"{unknown[0]} is not in the corpus")
    chosen = [entry for entry in every if not names or {entry.name, entry.path.stem} & names]
    if arguments.where is not None:
        chosen = [entry for entry in chosen if entry.where == arguments.where]
    if arguments.compile_only:
        chosen = [compiled for entry in chosen if (compiled := entry.compiled()) is not None]
    return tuple(chosen)


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
    parser.add_argument("--where", choices=get_args(Where), help="kernels that are decided there only")
    parser.add_argument("--compile-only", action="store_true", help="the compile tier, for what it can tell")
    parser.add_argument("--jobs", type=int, default=1, help="gates at a time; timing still has the device alone")
    parser.add_argument("--timeout", type=float, default=_CALL_SECONDS, help="seconds for one call of a kernel")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
