"""How often the gate errs on speed: a kernel against its own copy, and against one with a tenth more work.

    python -m benchmarks.aa --case gemm/512-f32 --kernel experts/gemm/expert.cl --trials 600 --power 100

An A/A trial gates a kernel against its text with another comment: `faster` or `slower` is false. A power trial gates
a kernel that does its launches 10 times over against one that does them 11 times: anything but `faster` misses a true
10 %. Compile and correctness come from the cache; each trial has its own two workers, pages and inputs, as every gate
has. Trials of both kinds alternate, so that both see the same machine. One row a trial goes to a CSV file.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import time
from math import comb
from pathlib import Path

from experts import catalog, platform
from experts.case import Case
from experts.kernel import Kernel, load, parse
from experts.verdict import GATE_VERSION, Effect
from tasks.gate.runner import Settings, gate

COLUMNS = (
    "kind", "trial", "case", "kernel_id", "gate_version", "status", "effect", "ratio", "low", "high", "pairs",
    "calls_per_sample", "candidate_us", "baseline_us", "seconds", "load",
)  # fmt: skip


def main() -> None:
    """Run the trials, append rows, print counts with their bounds."""
    arguments = _arguments()
    case = catalog.find(arguments.case, "opencl", catalog.roots())
    power_case = catalog.find(arguments.power_case or arguments.case, "opencl", catalog.roots())
    kernel = load(arguments.kernel)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="klineage-aa-") as folder, arguments.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        settings = Settings(platform.select("opencl", None), cache=Path(folder))
        every = max(1, arguments.trials // max(1, arguments.power))
        done = {"aa": 0, "power": 0}
        for number in range(arguments.trials):
            _trial("aa", number, kernel, _copy(kernel, "another copy"), case, settings, writer)
            done["aa"] += 1
            if number % every == every - 1 and done["power"] < arguments.power:
                _trial(
                    "power", done["power"], _repeated(kernel, 10), _repeated(kernel, 11), power_case, settings, writer
                )
                done["power"] += 1
            file.flush()
            if number % 20 == 19:
                print(f"{number + 1} of {arguments.trials}", file=sys.stderr, flush=True)
    print(summary(arguments.out))


def summary(path: Path) -> str:
    """Counts and exact 95 % bounds of a file of rows."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
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
        lines.append(
            f"  {kind}: {total} trials: {told}; {times[len(times) // 2]:.3g} us a call, "
            f"{seconds[len(seconds) // 2]:.2g} s a trial (medians)"
        )
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


def _trial(
    kind: str, number: int, candidate: Kernel, baseline: Kernel, case: Case, settings: Settings, writer: object
) -> None:
    begun = time.monotonic()
    load = os.getloadavg()[0]
    verdict = gate(candidate, case, settings, baseline).verdict
    profile = verdict.profile
    row = [kind, number, case.name, candidate.kernel_id, GATE_VERSION, verdict.status]
    if profile is None or profile.ratio is None or profile.low is None or profile.high is None:
        row += [""] * 8
    else:
        figures = (profile.ratio, profile.low, profile.high)
        row += [profile.effect, *(f"{figure:.4f}" for figure in figures), profile.pairs, profile.calls_per_sample]
        row += [f"{profile.candidate_us:.3f}", f"{profile.baseline_us:.3f}"]
    writer.writerow([*row, f"{time.monotonic() - begun:.2f}", f"{load:.2f}"])  # type: ignore[attr-defined]


def _copy(kernel: Kernel, comment: str) -> Kernel:
    return parse(kernel.text + f"// {comment}\n", surface=kernel.surface)


def _repeated(kernel: Kernel, times: int) -> Kernel:
    """The kernel with its whole launch list `times` times over: each launch computes the same again."""
    head, mark, tail = kernel.text.partition("*/")
    start = head.index("[[launch]]")
    return parse(head[:start] + head[start:] * times + mark + tail, surface=kernel.surface)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How often the gate errs on speed.")
    parser.add_argument("--case", default="gemm/512-f32")
    parser.add_argument("--kernel", type=Path, default=Path("experts/gemm/expert.cl"))
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--power", type=int, default=100)
    parser.add_argument("--power-case", help="a smaller case, so that ten launches take as long as one of --case")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/aa.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
