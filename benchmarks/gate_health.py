"""What the gate leaves behind after kernels that hang, crash and flood: nothing, or this says what.

    python -m benchmarks.gate_health --surface opencl --count 50 --out benchmarks/results/health_opencl.csv

Three groups of kernels from the corpus, each kernel `--count` times with another comment, so that none is answered from
a cache. After each gate: child processes of this one, its open descriptors, what is named klineage-* in the temporary
folder and in /dev/shm, and, where there is a GPU, its memory in use. After each group an honest kernel must pass. A row
a gate, and a row `summary`. Exit code 0: nothing is left and every verdict is as wanted; 1: not so; 2: this machine
cannot gate such kernels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpus import CORPUS
from benchmarks.rows import appended, read
from experts import catalog, platform
from experts.case import Case, CaseError
from experts.kernel import Kernel, KernelError, load, parse
from experts.platform import PlatformError
from experts.verdict import GATE_VERSION
from skill_library.published import CorpusError, Entry, entries
from skill_library.scrub import scrub
from tasks.gate.runner import GateUnavailable, Settings, gate, surroundings

COLUMNS = (
    "group", "number", "name", "kernel_id", "case", "platform", "gate_version", "expected", "status", "stage",
    "as_expected", "seconds", "children", "descriptors", "leftovers", "gpu_mib", "reason",
)  # fmt: skip
GROUPS = {
    "hang": ("endless_loop",),
    "crash": ("null_write", "far_write", "trap", "assert_fails"),
    "flood": ("printf_flood",),
}
"""By group, stems of kernels of the corpus: the first that the surface has, where none is named."""
PUBLISHED_COUNT = 50
"""Kernels of each group in a file that is published."""
_GPU_MIB = 16
"""Memory in use that may come and go beside us."""
_SETTLE_SECONDS = 10.0
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Standing:
    """What of ours is there now."""

    children: tuple[int, ...]
    descriptors: int
    leftovers: tuple[str, ...]
    gpu_mib: int | None
    """In use on the first GPU, by anybody; None where there is none."""

    def beyond(self, before: Standing) -> str:
        """What there is more than before, in words; empty where nothing is."""
        told = []
        if len(self.children) > len(before.children):
            told.append(f"{len(self.children) - len(before.children)} child processes more")
        if self.descriptors > before.descriptors:
            told.append(f"{self.descriptors - before.descriptors} open descriptors more")
        more = set(self.leftovers) - set(before.leftovers)
        if more:
            told.append(f"{len(more)} files or folders more")
        if self.gpu_mib is not None and before.gpu_mib is not None and self.gpu_mib > before.gpu_mib + _GPU_MIB:
            told.append(f"{self.gpu_mib - before.gpu_mib} MiB of the GPU's memory more")
        return ", ".join(told)


def main() -> int:
    """Run the groups, append rows, say what is left."""
    arguments = _arguments()
    try:
        chosen = platform.select(arguments.surface, arguments.platform)
        found = {entry.path.stem: entry for entry in entries(CORPUS[arguments.surface]) if entry.tier == "default"}
        bad = {group: _first(found, getattr(arguments, group), arguments.surface) for group in GROUPS}
        honest = load(CORPUS[arguments.surface].parents[2] / "experts" / "gemm" / f"naive.{_suffix(arguments.surface)}")
        kernels = {group: load(entry.path) for group, entry in bad.items()}
        cases = {entry.case: catalog.find(entry.case, arguments.surface, catalog.roots()) for entry in bad.values()}
        surroundings(Settings(chosen))
    except (OSError, CorpusError, PlatformError, KernelError, CaseError, GateUnavailable) as error:
        return _refuse(str(error))
    settings = Settings(chosen, timeout=arguments.timeout, profile=False)
    wrong: list[str] = []
    try:
        with appended(arguments.out, COLUMNS) as (writer, file):

            def gated(group: str, number: int, kernel: Kernel, case: Case, expected: tuple[str, ...], name: str) -> str:
                row = _row(kernel, case, settings, expected) | {"group": group, "number": number, "name": name}
                writer.writerow(row)
                file.flush()
                if not row["as_expected"]:
                    wrong.append(f"{group} {number}: {row['status']}: {row['reason']}")
                    print(wrong[-1], flush=True)
                return str(row["status"])

            # The first gate of a process opens what stays open for the next ones: it comes before the count.
            case = cases[bad["hang"].case]
            gated("honest", 0, _copy(honest, "before"), case, ("ok",), "naive")
            before = standing()
            begun = time.monotonic()
            for group, entry in bad.items():
                for number in range(arguments.count):
                    kernel = _numbered(kernels[group], group, number)
                    gated(group, number, kernel, cases[entry.case], entry.expected, entry.name)
                gated("honest", 1 + list(bad).index(group), _copy(honest, f"after {group}"), case, ("ok",), "naive")
                left = _settled(before)
                if left:
                    wrong.append(f"after {group}: {left}")
                    print(wrong[-1], flush=True)
            after = standing()
            writer.writerow(
                _figures(after)
                | {
                    "group": "summary",
                    "number": arguments.count * len(bad),
                    "platform": chosen.name,
                    "gate_version": GATE_VERSION,
                    "as_expected": not wrong,
                    "seconds": f"{time.monotonic() - begun:.2f}",
                    "reason": _settled(before) or ("; ".join(wrong)[:500] if wrong else ""),
                }
            )
    except OSError as error:
        return _refuse(f"{arguments.out}: {error}")
    print(f"{arguments.surface} on {chosen.name}: {arguments.count} of each of {', '.join(bad)}")
    for name, was, now in (
        ("child processes", len(before.children), len(after.children)),
        ("open descriptors", before.descriptors, after.descriptors),
        ("files and folders", len(before.leftovers), len(after.leftovers)),
        ("GPU memory in use, MiB", before.gpu_mib, after.gpu_mib),
    ):
        print(f"  {name}: {_told(was)} before, {_told(now)} after")
    print("nothing is left, every verdict is as wanted" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


def summary(path: Path) -> str:
    """What was gated, by the rows of a file, and what was there afterwards that was not before."""
    rows = read(path)
    lines = [path.name]
    for group in GROUPS:
        own = [row for row in rows if row["group"] == group]
        good = sum(row["as_expected"] == "True" for row in own)
        lines.append(f"  {group}: {good} of {len(own)} as expected")
    own = [row for row in rows if row["group"] == "honest"]
    lines.append(f"  honest kernels between them: {sum(row['status'] == 'ok' for row in own)} of {len(own)} ok")
    before, after = next(iter(own), None), next((row for row in rows if row["group"] == "summary"), None)
    if before is not None and after is not None:
        more = {name: (before[name], after[name]) for name in ("children", "descriptors", "leftovers", "gpu_mib")}
        told = [f"{name} {was} before, {now} after" for name, (was, now) in more.items() if was and now]
        lines.append(f"  {'; '.join(told)}")
    return "\n".join(lines)


def fault(root: Path, row: Mapping[str, str]) -> str | None:
    """Why a row is not about a kernel in the tree at `root`; None where it is. Raises OSError, KernelError."""
    if row["group"] not in GROUPS:
        return None
    original = load(root / "tests" / "gate" / "exploits" / row["name"])
    now = _numbered(original, row["group"], int(row["number"])).kernel_id
    return None if row["kernel_id"] == now else f"{row['name']} has changed"


def incomplete(rows: Sequence[Mapping[str, str]]) -> str | None:
    """What a file lacks that is published; None where nothing."""
    for group in GROUPS:
        good = sum(row["group"] == group and row["as_expected"] == "True" for row in rows)
        if good < PUBLISHED_COUNT:
            return f"{good} good rows of {group}; {PUBLISHED_COUNT} are wanted"
    whole = any(row["group"] == "summary" and row["as_expected"] == "True" for row in rows)
    return None if whole else "no row that sums up and says that nothing is left"


def standing() -> Standing:
    """What of this process is there now."""
    return Standing(_children(), len(os.listdir("/proc/self/fd")), _leftovers(), _gpu_mib())


def _settled(before: Standing) -> str:
    """What stays beyond what there was, after some time to end: a GPU's context outlives its process by moments."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while (left := standing().beyond(before)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def _row(kernel: Kernel, case: Case, settings: Settings, expected: tuple[str, ...]) -> dict[str, Any]:
    begun = time.monotonic()
    said: dict[str, Any]
    try:
        verdict = gate(kernel, case, settings).verdict
        said = {"status": str(verdict.status), "stage": str(verdict.stage), "reason": verdict.reason}
    except GateUnavailable as error:
        # A gate that the ones before made impossible is what is looked for here.
        said = {"status": "unavailable", "reason": " ".join(scrub(str(error)).split())}
    row = {
        "kernel_id": kernel.kernel_id,
        "case": case.name,
        "platform": settings.platform.name,
        "gate_version": GATE_VERSION,
        "expected": "|".join(expected),
        "as_expected": said["status"] in expected,
        "seconds": f"{time.monotonic() - begun:.2f}",
    }
    return row | said | _figures(standing())


def _figures(now: Standing) -> dict[str, Any]:
    return {
        "children": len(now.children),
        "descriptors": now.descriptors,
        "leftovers": len(now.leftovers),
        "gpu_mib": now.gpu_mib,
    }


def _children() -> tuple[int, ...]:
    """Children of this process, dead ones that nobody reaped included."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                stat = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == os.getpid():
                found.append(int(name))
    return tuple(sorted(found))


def _leftovers() -> tuple[str, ...]:
    """What carries our name in the shared folders, of this user and of any process: a killed worker's too."""
    found = []
    for folder in {_SHARED_MEMORY, Path(tempfile.gettempdir())}:
        if folder.is_dir():
            # The folder of locks stays for good.
            found += [str(path) for path in folder.glob("klineage-*") if path.name != "klineage-locks"]
    return tuple(sorted(found))


def _gpu_mib() -> int | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _first(found: Mapping[str, Entry], stems: Sequence[str], surface: str) -> Entry:
    for stem in stems:
        if stem in found:
            return found[stem]
    raise CorpusError(f"the {surface} corpus has none of {', '.join(stems)}")


def _copy(kernel: Kernel, comment: str) -> Kernel:
    return parse(kernel.text + f"// {comment}\n", surface=kernel.surface)


def _numbered(kernel: Kernel, group: str, number: int) -> Kernel:
    return _copy(kernel, f"{group} {number}")


def _suffix(surface: str) -> str:
    return "cu" if surface == "cuda" else "cl"


def _told(value: object) -> str:
    return "not known" if value is None else str(value)


def _refuse(reason: str) -> int:
    print(f"benchmarks.gate_health: {' '.join(reason.split())}", file=sys.stderr)
    return 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the gate leaves behind after bad kernels.")
    parser.add_argument("--surface", choices=("opencl", "cuda"), default="opencl")
    parser.add_argument("--platform", help="by default this machine's for the surface")
    parser.add_argument("--count", type=int, default=PUBLISHED_COUNT, help="kernels of each group")
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds for one call of a kernel")
    for group, stems in GROUPS.items():
        told = f"the kernel of this group, without extension; by default the first there is of {', '.join(stems)}"
        parser.add_argument(f"--{group}", nargs=1, default=stems, metavar="NAME", help=told)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
