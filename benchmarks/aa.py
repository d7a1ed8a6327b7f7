"""How often the gate errs on speed: a kernel against its own copy, and against one with a tenth more work.

    python -m benchmarks.aa --case gemm/512-f32 --kernel experts/gemm/expert.cl --trials 600 --power 100 --out aa.csv
    python -m benchmarks.aa --surface cuda --trials 600 --power 100 --stop-after 540 --out aa_cuda.csv

An A/A trial gates a kernel against its text with another comment: `faster` or `slower` is false. A power trial gates
a kernel that does its launches 10 times over against one that does them 11 times: anything but `faster` misses a true
10 %. Compile and correctness come from the cache; each trial has its own workers, pages and inputs, as every gate has.
Trials of both kinds alternate, so that both see the same machine. One row a trial is appended to a CSV file: started
again with the same arguments, after `--stop-after` or a kill, it goes on where the file ends.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from math import comb
from pathlib import Path
from typing import Any

from benchmarks.rows import appended, environment_columns, read
from experts import catalog, platform
from experts.case import Case, CaseError
from experts.kernel import EXTENSIONS, Kernel, KernelError, load, parse
from experts.platform import PlatformError
from experts.verdict import GATE_VERSION, Effect
from tasks.gate.runner import GateUnavailable, Settings, gate, surroundings

COLUMNS = (
    "kind", "trial", "case", "kernel_id", "platform", "device", "driver", "toolchain", "gate_version", "status",
    "effect", "ratio", "low", "high", "pairs", "calls_per_sample", "candidate_us", "baseline_us", "seconds", "load",
)  # fmt: skip
REPEATED = (10, 11)
"""Launch lists of a power trial: the candidate's, and the baseline's with a tenth more work."""


def main() -> int:
    """Run the trials, append rows, print counts with their bounds. Returns 2 where this machine cannot."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="klineage-aa-") as folder:
        return _run(arguments, Path(folder))


def _run(arguments: argparse.Namespace, cache: Path) -> int:
    surface = arguments.surface
    try:
        kernel = load(arguments.kernel)
        if kernel.surface != surface:
            return _refuse(f"{arguments.kernel} is for {kernel.surface}, not {surface}")
        case = catalog.find(arguments.case, surface, catalog.roots())
        power_case = catalog.find(arguments.power_case or arguments.case, surface, catalog.roots())
        settings = Settings(platform.select(surface, arguments.platform), cache=cache)
        facts = surroundings(settings)[0]
    except (OSError, KernelError, CaseError, PlatformError, GateUnavailable) as error:
        return _refuse(str(error))
    common = {"platform": settings.platform.name} | environment_columns(facts)
    power = [_repeated(kernel, times) for times in REPEATED]
    pairs = {"aa": (kernel, _copy(kernel, "another copy"), case), "power": (power[0], power[1], power_case)}
    known = [row for row in read(arguments.out) if row["gate_version"] == str(GATE_VERSION)]
    done = {
        kind: sum((row["kind"], row["kernel_id"], row["case"]) == (kind, candidate.kernel_id, at.name) for row in known)
        for kind, (candidate, _, at) in pairs.items()
    }
    until = time.monotonic() + arguments.stop_after
    try:
        with appended(arguments.out, COLUMNS) as (writer, file):
            while (kind := _next(done, arguments.trials, arguments.power)) and time.monotonic() < until:
                writer.writerow(common | _trial(kind, done[kind], *pairs[kind], settings))
                file.flush()
                done[kind] += 1
                if sum(done.values()) % 20 == 0:
                    print(f"{done['aa']} of {arguments.trials}, {done['power']} of {arguments.power}", file=sys.stderr)
    except GateUnavailable as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{arguments.out}: {error}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print(summary(arguments.out))
    return 0


def summary(path: Path) -> str:
    """Counts and exact 95 % bounds of a file of rows."""
    rows = read(path)
    if not rows:
        return f"{path.name}: no rows"
    lines = [f"{path.name}: {rows[0]['case']}, kernel {rows[0]['kernel_id']}"]
    for kind, wanted in (("aa", "tie"), ("power", "faster")):
        chosen = [row for row in rows if row["kind"] == kind]
        if not chosen:
            continue
        total = len(chosen)
        counts = {effect: sum(row["effect"] == effect for row in chosen) for effect in (*Effect, "")}
        times = sorted(float(row["candidate_us"]) for row in chosen if row["candidate_us"])
        seconds = sorted(float(row["seconds"]) for row in chosen)
        told = ", ".join(f"{count} {effect or 'rejected'}" for effect, count in counts.items() if count)
        call = f"{times[len(times) // 2]:.3g} us a call, " if times else ""
        lines.append(f"  {kind}: {total} trials: {told}; {call}{seconds[len(seconds) // 2]:.2g} s a trial (medians)")
        if kind == "aa":
            false = counts[Effect.FASTER] + counts[Effect.SLOWER] + counts[""]
            undecided = counts[Effect.UNDECIDED]
            low, high = clopper_pearson(false, total)
            lines.append(f"    false: {false / total:.2%} (95 %: {low:.2%} to {high:.2%})")
            lines.append(f"    undecided: {undecided / total:.2%}")
        else:
            low, high = clopper_pearson(counts[wanted], total)
            lines.append(f"    power at a true 10 %: {counts[wanted] / total:.1%} (95 %: {low:.1%} to {high:.1%})")
    return "\n".join(lines)


def clopper_pearson(count: int, total: int, error: float = 0.05) -> tuple[float, float]:
    """Exact binomial interval for `count` of `total` (Clopper and Pearson, 1934), by bisection."""

    def at_most(rate: float, most: int) -> float:
        return sum(comb(total, k) * rate**k * (1 - rate) ** (total - k) for k in range(most + 1))

    def solve(reached: float, most: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at_most(middle, most) > reached else (low, middle)
        return (low + high) / 2

    lower = 0.0 if count == 0 else solve(1 - error / 2, count - 1)
    upper = 1.0 if count == total else solve(error / 2, count)
    return lower, upper


def _next(done: Mapping[str, int], trials: int, power: int) -> str | None:
    """The kind whose share of its trials is behind; None where all are done."""
    left = {kind: done[kind] / wanted for kind, wanted in (("aa", trials), ("power", power)) if done[kind] < wanted}
    return min(left, key=lambda kind: left[kind], default=None)


def _trial(
    kind: str, number: int, candidate: Kernel, baseline: Kernel, case: Case, settings: Settings
) -> dict[str, Any]:
    """One gate, as a row. Raises GateUnavailable."""
    begun = time.monotonic()
    load = os.getloadavg()[0]
    verdict = gate(candidate, case, settings, baseline).verdict
    profile = verdict.profile
    row: dict[str, Any] = {
        "kind": kind,
        "trial": number,
        "case": case.name,
        "kernel_id": candidate.kernel_id,
        "gate_version": GATE_VERSION,
        "status": str(verdict.status),
        "seconds": f"{time.monotonic() - begun:.2f}",
        "load": f"{load:.2f}",
    }
    if profile is not None:
        row |= {name: f"{getattr(profile, name):.4f}" for name in ("ratio", "low", "high")}
        row |= {name: f"{getattr(profile, name):.3f}" for name in ("candidate_us", "baseline_us")}
        row |= {name: getattr(profile, name) for name in ("effect", "pairs", "calls_per_sample")}
    return row


def _copy(kernel: Kernel, comment: str) -> Kernel:
    return parse(kernel.text + f"// {comment}\n", surface=kernel.surface)


def _repeated(kernel: Kernel, times: int) -> Kernel:
    """The kernel with its whole launch list `times` times over: each launch computes the same again."""
    head, mark, tail = kernel.text.partition("*/")
    start = head.index("[[launch]]")
    return parse(head[:start] + head[start:] * times + mark + tail, surface=kernel.surface)


def _refuse(reason: str) -> int:
    print(f"benchmarks.aa: {' '.join(reason.split())}", file=sys.stderr)
    return 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How often the gate errs on speed.")
    parser.add_argument("--surface", choices=tuple(EXTENSIONS.values()), default="opencl")
    parser.add_argument("--platform", help="by default this machine's for the surface")
    parser.add_argument("--case", default="gemm/512-f32")
    parser.add_argument("--kernel", type=Path, help="by default experts/gemm/expert of the surface")
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--power", type=int, default=100)
    parser.add_argument("--power-case", help="a smaller case, so that ten launches take as long as one of --case")
    parser.add_argument("--stop-after", type=float, default=float("inf"), metavar="SECONDS", help="begin no trial then")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/aa.csv"))
    arguments = parser.parse_args()
    suffix = {surface: suffix for suffix, surface in EXTENSIONS.items()}[arguments.surface]
    arguments.kernel = arguments.kernel or Path(f"experts/gemm/expert{suffix}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
