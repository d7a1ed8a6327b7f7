"""Seconds for one verdict: an isolated gate with nothing cached, against the way of PyTorch extensions.

    python -m benchmarks.gate_speed --surface cuda --rounds 10 --grow 1,10,100 --out benchmarks/results/speed_cuda.csv

A verdict is compile, correctness and 20 timed pairs of a small kernel against its text with another comment, each in
its own sandboxed workers, in this process. On CUDA the same kernel goes, in each round and in random order, through
`torch.utils.cpp_extension.load_inline` and flashinfer-bench's isolated runner, where those are there
(`benchmarks.speed_peers`): build, one check against `torch.matmul`, 20 timings. Each text is new, so that nobody
answers from a cache; imports and a peer's opened device are in nobody's seconds. The ratio is t(peer) / t(gate), round
by round; its interval runs between order statistics.

`--grow` measures what more candidates cost: a fresh process that gates so many of them one after another, by the clock
of who started it, imports and end included. Workers that are started ahead of need are paid for there.

Rows are appended as they come. Stages of candidate and baseline run side by side, and so do others: they do not add up
to the whole. Exit code 0: every gate passed; 1: one did not; 2: this machine cannot gate such kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rows import appended, environment_columns, read
from experts import catalog, platform
from experts.case import Case, CaseError
from experts.kernel import Kernel, KernelError, load, parse
from experts.platform import PlatformError
from experts.verdict import GATE_VERSION, Status
from skill_library.scrub import scrub
from tasks.gate.runner import GateUnavailable, Settings, gate, surroundings
from tasks.gate.statistics import CHECKPOINTS, estimate

ROOT = Path(__file__).parents[1]
KERNELS = {"opencl": "tests/gate/honest/naive.cl", "cuda": "tests/gate/honest/naive.cu"}
"""Small, and the same work on both surfaces."""
SIZE = 64
GATE, GROW = "gate", "grow"
PEERS = ("load_inline", "flashinfer_bench")
STAGES = ("parse", "require", "compile", "launch", "correctness", "profile")
COLUMNS = (
    "kind", "round", "place", "count", "case", "kernel", "kernel_id", "platform", "device", "driver", "toolchain",
    "gate_version", "isolation", "status", "effect", "pairs", "seconds", *STAGES, "told", "load",
)  # fmt: skip
NOT_RUN = "not run"
_ERROR = 0.05
_ROUNDS_FOR_95 = 6
"""The whole range of fewer ratios says less than 95 %."""
_PEER_SECONDS = 300.0
"""Then a peer's process is ended."""


class Peer:
    """Another way, in a process of its own. Use as a context manager."""

    def __init__(self, way: str, python: str) -> None:
        self.way = way
        command = [python, "-m", "benchmarks.speed_peers", way]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = self._answer()
        self.ready, self.told = bool(first.get("ready")), str(first.get("told", "did not start"))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def judge(self, code: str) -> dict[str, Any]:
        """`status`, `seconds` and what else it tells of a kernel."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"code": code, "size": SIZE}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"status": "crash", "told": "the peer's process ended"}
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        # An end of its process is the end of the line.
        watch = threading.Timer(_PEER_SECONDS, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        found: dict[str, Any] = json.loads(line) if line else {"status": "crash", "told": "the peer's process ended"}
        return found


def main() -> int:
    """Run the rounds and the growth, append rows, print the summary; or be the process of one growth."""
    arguments = _arguments()
    surface = arguments.surface
    try:
        chosen = platform.select(surface, arguments.platform)
        kernel = load(ROOT / KERNELS[surface])
        case = catalog.find(f"gemm/{SIZE}-f32", surface, (ROOT / "experts",))
        settings = Settings(chosen, pairs=CHECKPOINTS[0])
        if arguments.be is not None:
            return _be(kernel, case, settings, arguments.be)
        facts = surroundings(settings)[0]
    except (OSError, PlatformError, KernelError, CaseError, GateUnavailable) as error:
        return _refuse(str(error))
    common = {
        "case": case.name,
        "kernel": KERNELS[surface],
        "kernel_id": kernel.kernel_id,
        "platform": chosen.name,
        "gate_version": GATE_VERSION,
    } | environment_columns(facts)
    good = True
    try:
        with appended(arguments.out, COLUMNS) as (writer, file):
            for row in _rows(arguments, kernel, case, settings):
                good = good and (row["kind"] not in (GATE, GROW) or row["status"] == Status.OK)
                writer.writerow(common | row | {"load": f"{os.getloadavg()[0]:.2f}"})
                file.flush()
    except GateUnavailable as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{arguments.out}: {error}")
    print(summary(arguments.out))
    return 0 if good else 1


def summary(path: Path) -> str:
    """Medians of a file of rows, and how much longer the peers take. Only what was answered well is counted."""
    rows = read(path)
    good = [row for row in rows if row["status"] == Status.OK]
    seconds = {
        kind: {row["round"]: float(row["seconds"]) for row in good if row["kind"] == kind} for kind in (GATE, *PEERS)
    }
    lines = [path.name]
    for kind, found in seconds.items():
        if not found:
            told = {row["told"] for row in rows if row["kind"] == kind}
            lines += [f"  {kind}: {'; '.join(sorted(told))}"] if told else []
            continue
        asked = sum(row["kind"] == kind for row in rows)
        line = f"  {kind}: {len(found)} of {asked} ok, median {median(found.values()):.3g} s"
        stages = {
            stage: median(values)
            for stage in STAGES
            if (values := [float(row[stage]) for row in good if row["kind"] == kind and row[stage]])
        }
        if stages:
            line += f" ({', '.join(f'{stage} {value:.2g}' for stage, value in stages.items())})"
        lines.append(line)
        ratios = [value / seconds[GATE][number] for number, value in found.items() if number in seconds[GATE]]
        if kind != GATE and ratios:
            ratio = estimate(ratios, _ERROR)
            level = "95 %" if len(ratios) >= _ROUNDS_FOR_95 else "all rounds"
            lines.append(f"    {ratio.ratio:.3g}x the gate's ({level}: {ratio.low:.3g} to {ratio.high:.3g})")
    for count in sorted({int(row["count"]) for row in good if row["kind"] == GROW}):
        whole = [float(row["seconds"]) for row in good if row["kind"] == GROW and int(row["count"]) == count]
        line = f"  {count} in one process: {median(whole):.3g} s, {median(whole) / count:.3g} s each"
        lines.append(line + (f" (median of {len(whole)})" if len(whole) > 1 else ""))
    return "\n".join(lines)


def fault(root: Path, row: Mapping[str, str]) -> str | None:
    """Why a row is not about the kernel in the tree at `root`; None where it is. Raises OSError, KernelError."""
    now = load(root / row["kernel"]).kernel_id
    return None if row["kernel_id"] == now else f"kernel {row['kernel_id']}, now {now}"


def _rows(arguments: argparse.Namespace, kernel: Kernel, case: Case, settings: Settings) -> Iterator[dict[str, Any]]:
    """Raises GateUnavailable."""
    until = time.monotonic() + arguments.stop_after
    with ExitStack() as stack:
        ways: list[Peer | None] = [None]
        for way in arguments.peer if arguments.rounds else ():
            peer = stack.enter_context(Peer(way, arguments.python))
            if peer.ready:
                ways.append(peer)
            else:
                yield {"kind": way, "status": NOT_RUN, "told": peer.told}
        # Rows of an earlier run stay rounds of their own.
        first = 1 + max((int(row["round"]) for row in read(arguments.out) if row["round"]), default=-1)
        for number in range(first, first + arguments.rounds):
            for place, way in enumerate(random.sample(ways, len(ways))):
                if time.monotonic() > until:
                    return
                # Another text each time, in another run too.
                code = kernel.text + f"// {os.getpid()} {number} {place}\n"
                row = _gated(code, kernel, case, settings) if way is None else _judged(way, code)
                yield row | {"round": number, "place": place}
    for count in arguments.grow:
        if time.monotonic() > until:
            return
        yield _grown(arguments, count)


def _gated(code: str, kernel: Kernel, case: Case, settings: Settings) -> dict[str, Any]:
    """One verdict of this process, as a row. Raises GateUnavailable."""
    candidate = parse(code, surface=kernel.surface)
    baseline = parse(code + "// The baseline.\n", surface=kernel.surface)
    begun = time.perf_counter()
    verdict = gate(candidate, case, settings, baseline).verdict
    seconds = time.perf_counter() - begun
    profile = verdict.profile
    return {
        "kind": GATE,
        "isolation": verdict.isolation,
        "status": str(verdict.status),
        "effect": profile.effect if profile else None,
        "pairs": profile.pairs if profile else None,
        "seconds": f"{seconds:.3f}",
        "told": verdict.reason,
    } | {stage: f"{verdict.seconds[stage]:.3f}" for stage in STAGES if stage in verdict.seconds}


def _judged(peer: Peer, code: str) -> dict[str, Any]:
    """One answer of a peer, as a row."""
    found = peer.judge(code)
    row = {"kind": peer.way, "status": found["status"], "told": scrub(str(found.get("told") or peer.told))}
    return row | {name: f"{found[name]:.3f}" for name in ("seconds", *STAGES) if name in found}


def _grown(arguments: argparse.Namespace, count: int) -> dict[str, Any]:
    """A process that gates so many candidates, as a row."""
    command = [sys.executable, "-m", "benchmarks.gate_speed", "--surface", arguments.surface, "--be", str(count)]
    if arguments.platform:
        command += ["--platform", arguments.platform]
    begun = time.perf_counter()
    done = subprocess.run([*command, "--out", os.devnull], cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    told = done.stdout.strip() if done.returncode == 0 else " ".join(scrub(done.stderr).split())[-300:]
    status = str(Status.OK) if done.returncode == 0 and not told else "not ok"
    return {"kind": GROW, "count": count, "status": status, "seconds": f"{seconds:.3f}", "told": told}


def _be(kernel: Kernel, case: Case, settings: Settings, count: int) -> int:
    """Gate so many candidates; prints one line for each that does not pass. Raises GateUnavailable."""
    for number in range(count):
        row = _gated(kernel.text + f"// {os.getpid()} {number}\n", kernel, case, settings)
        if row["status"] != Status.OK:
            print(f"{number}: {row['status']}: {row['told']}")
    return 0


def _refuse(reason: str) -> int:
    print(f"benchmarks.gate_speed: {' '.join(reason.split())}", file=sys.stderr)
    return 2


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Seconds for one verdict.")
    parser.add_argument("--surface", choices=tuple(KERNELS), default="cuda")
    parser.add_argument("--platform", help="by default this machine's for the surface")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--grow", type=_counts, default=(), metavar="N,N", help="candidates in one process")
    parser.add_argument("--peer", action="append", choices=PEERS, help="by default all, on CUDA")
    parser.add_argument("--no-peers", action="store_true", help="the gate alone")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--stop-after", type=float, default=float("inf"), metavar="SECONDS", help="begin nothing then")
    parser.add_argument("--be", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.no_peers or arguments.surface != "cuda":
        arguments.peer = ()
    else:
        arguments.peer = arguments.peer or PEERS
    return arguments


if __name__ == "__main__":
    sys.exit(main())
