"""Whether what is published holds for this tree: run before a release.

    python -m benchmarks.release            # names what does not hold; exit code 1 where anything does not
    python -m benchmarks.release --write    # writes the figures of benchmarks/results/README.md anew

Rows of the corpus count only while they are about the tree's kernels, cases and gate (`skill_library.published`); each
kernel of the corpora needs one, and each must be as expected. Rows of what bad kernels leave behind, of speed and of
the error rates count for the tree's gate version and the same kernel texts. The figures between the marks in the README
are computed from the rows again, and must be what is written there. Nothing is gated.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import aa, gate_health, gate_speed
from benchmarks.rows import read
from experts.kernel import KernelError
from experts.verdict import GATE_VERSION
from skill_library.published import CHECKOUT, CORPORA, NO_VERDICT, CorpusError, Published, Row, entries, of_checkout

RESULTS = Path("benchmarks") / "results"
MARKS = (
    "<!-- Figures: written by `python -m benchmarks.release --write`. -->\n```text\n",
    "```\n<!-- End of figures. -->\n",
)
_TRUE = "True"


@dataclass(frozen=True)
class Kind:
    """Files of one kind of rows, beside the corpus."""

    pattern: str
    needed: tuple[str, ...]
    """Files that a release has."""
    summary: Callable[[Path], str]
    fault: Callable[[Path, Mapping[str, str]], str | None]
    """Why a row of the tree at that root does not count, beside its gate version; None where it does."""
    incomplete: Callable[[Sequence[Mapping[str, str]]], str | None] = lambda rows: None
    """What a file lacks; None where nothing."""


KINDS = (
    Kind(
        "health_*.csv",
        ("health_opencl.csv", "health_cuda.csv"),
        gate_health.summary,
        gate_health.fault,
        gate_health.incomplete,
    ),
    Kind("speed_*.csv", ("speed_opencl.csv", "speed_cuda.csv"), gate_speed.summary, gate_speed.fault),
    Kind("aa_*.csv", ("aa_small.csv", "aa_large.csv", "aa_cuda.csv"), aa.summary, lambda root, row: None),
)


def main() -> int:
    """Check, or write the figures."""
    arguments = _arguments()
    try:
        if arguments.write:
            readme = arguments.root / RESULTS / "README.md"
            text = readme.read_text(encoding="utf-8")
            found = _between(text)
            if found is None:
                print(f"benchmarks.release: {readme.name} has no marks for the figures", file=sys.stderr)
                return 2
            start, end = found
            readme.write_text(text[:start] + figures(arguments.root) + text[end:], encoding="utf-8")
            return 0
        wrong = list(faults(arguments.root))
    except (OSError, CorpusError) as error:
        print(f"benchmarks.release: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    for line in wrong:
        print(line)
    print(f"{len(wrong)} things are wrong" if wrong else "what is published holds for this tree")
    return 1 if wrong else 0


def faults(root: Path = CHECKOUT) -> Iterator[str]:
    """What does not hold of what is published in this checkout, a line each. Raises OSError, CorpusError."""
    rows = _published(root)
    for gap in rows.stale:
        place = gap.file if gap.number is None else f"{gap.file}: row {gap.number}: {gap.name}"
        yield f"stale: {place}: {gap.reason}"
    for row in rows.counted:
        if not _as_expected(row):
            told = row.fields["status"]
            yield f"unexpected: {row.file}: row {row.number}: {row.fields['name']}: {told}: {row.fields.get('reason')}"
    for gap in rows.missing:
        yield f"missing: {gap.file}: {gap.name}: {gap.reason}"
    for kind in KINDS:
        for name in kind.needed:
            if not (root / RESULTS / name).is_file():
                yield f"missing: {name}: no such file"
        for path in sorted((root / RESULTS).glob(kind.pattern)):
            good, stale = _sorted(root, kind, path)
            for reason, numbers in stale.items():
                yield f"stale: {path.name}: {_ranges(numbers)}: {reason}"
            lacking = kind.incomplete(good)
            if lacking is not None:
                yield f"missing: {path.name}: {lacking}"
    text = (root / RESULTS / "README.md").read_text(encoding="utf-8")
    found = _between(text)
    if found is None:
        yield "README.md: no marks for the figures"
        return
    written, computed = text[found[0] : found[1]].splitlines(), figures(root).splitlines()
    for line in written:
        if line not in computed:
            yield f"README.md: not what the rows say: {line.strip()}"
    for line in computed:
        if line not in written:
            yield f"README.md: not written there: {line.strip()}"
    if written != computed and set(written) == set(computed):
        yield "README.md: the figures stand under other files than the rows"


def figures(root: Path = CHECKOUT) -> str:
    """What the rows say, as lines. A file with a stale row is left out. Raises OSError, CorpusError."""
    rows = _published(root)
    honest = {
        entry.name: entry.honest
        for path in (root / "tests" / "gate" / name for name in CORPORA)
        if path.is_file()
        for entry in entries(path)
    }
    lines = []
    for name in sorted({row.file for row in rows.counted}):
        lines.append(name)
        for kind, is_honest in (("exploits", False), ("honest kernels", True)):
            own = [row for row in rows.counted if row.file == name and honest[row.fields["name"]] == is_honest]
            told = Counter(
                "no verdict"
                if row.fields["status"] in NO_VERDICT
                else "as expected"
                if _as_expected(row)
                else "not as expected"
                for row in own
            )
            kernels = len({row.fields["name"] for row in own})
            counts = ", ".join(f"{count} {what}" for what, count in sorted(told.items()))
            lines.append(f"  {kernels} {kind}, {len(own)} gates: {counts}")
    for each in KINDS:
        for path in sorted((root / RESULTS).glob(each.pattern)):
            if not _sorted(root, each, path)[1]:
                lines += each.summary(path).splitlines()
    return "".join(f"{line}\n" for line in lines)


def _published(root: Path) -> Published:
    found = of_checkout(root)
    if found is None:
        raise CorpusError("this is no checkout: benchmarks/results or tests/gate is not there")
    return found


def _as_expected(row: Row) -> bool:
    """The row's own word on stage, effect and the sanitizer, and its status held against the corpus."""
    return row.fields["status"] in row.fields["expected"].split("|") and row.fields.get("as_expected") == _TRUE


def _sorted(root: Path, kind: Kind, path: Path) -> tuple[list[dict[str, str]], dict[str, list[int]]]:
    """Rows that count, and the numbers of the others by reason; the first behind the header is 1."""
    good: list[dict[str, str]] = []
    stale: dict[str, list[int]] = {}
    for number, row in enumerate(read(path), 1):
        version = row.get("gate_version")
        try:
            reason = kind.fault(root, row)
        except (OSError, KernelError):
            reason = "its kernel cannot be read"
        if version != str(GATE_VERSION):
            reason = f"gate version {version}, now {GATE_VERSION}"
        if reason is None:
            good.append(row)
        else:
            stale.setdefault(reason, []).append(number)
    return good, stale


def _ranges(numbers: Sequence[int]) -> str:
    """`row 3`, or `rows 1-4, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"{'row' if len(numbers) == 1 else 'rows'} {told}"


def _between(text: str) -> tuple[int, int] | None:
    """Where the figures begin and end in the README; None where a mark is not there."""
    start, end = text.find(MARKS[0]), text.find(MARKS[1])
    return None if start < 0 or end < start else (start + len(MARKS[0]), end)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Whether what is published holds for this tree.")
    parser.add_argument("--write", action="store_true", help="write the figures of the README anew")
    parser.add_argument("--root", type=Path, default=CHECKOUT, help="the checkout")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
