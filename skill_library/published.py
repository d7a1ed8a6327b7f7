"""Which published rows of the gate's corpus still count.

A row says what the gate said of one kernel of the corpus, on hardware that whoever reads it may not have. It counts
only while it is about what the tree has: the same text of the kernel, the same case, the same expected statuses, the
same gate version. Any other row is stale, with the reason. No kernel is run: texts are read, and hashed.

A corpus is a TOML file with tables `exploits` and `honest`; kernels lie beside it, in a folder named like their table.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from experts import catalog
from experts.case import CaseError
from experts.ids import text_id
from experts.kernel import EXTENSIONS, KernelError, load
from experts.verdict import GATE_VERSION, Stage, Status, Tier

Where = Literal["anywhere", "device"]
CHECKOUT = Path(__file__).parents[1]

CORPORA = ("corpus.toml", "corpus_cuda.toml")
"""Their names, in the folder of the gate's tests."""
PATTERN = "corpus_*.csv"
"""The names of files with published rows."""
NEEDED = ("name", "kernel_id", "case", "case_id", "gate_version", "tier", "expected", "status")
"""Columns that are compared; a file may have more."""
NO_VERDICT = (str(Status.HARNESS_ERROR), "unavailable", "raised")
"""Statuses of a row that say nothing about the kernel."""

_KINDS = ("exploits", "honest")
_BEFORE_A_DEVICE = (Stage.PARSE, Stage.REQUIRE, Stage.COMPILE)


class CorpusError(ValueError):
    """A corpus that cannot be read; one line."""


@dataclass(frozen=True)
class Entry:
    """One kernel of a corpus at one tier, and what the gate must say of it there."""

    name: str
    path: Path
    honest: bool
    tier: Tier
    expected: tuple[str, ...]
    """Acceptable statuses, as the corpus has them; `ok` first where the attack is contained."""
    table: Mapping[str, Any]
    """The entry as the corpus has it."""
    baseline: Path | None = None
    """The honest kernel that it is timed against."""

    @property
    def case(self) -> str:
        """The name of its case."""
        return str(self.table["case"])

    @property
    def where(self) -> Where:
        """`anywhere`: what is wanted is seen when it is compiled, or earlier; `device`: it has to run for that."""
        told: Where | None = self.table.get("where")
        return told or ("anywhere" if self.table.get("stage") in _BEFORE_A_DEVICE else "device")

    def compiled(self) -> Entry | None:
        """The same at the compile tier, where that can tell: an honest kernel compiles. None where it cannot."""
        if not self.honest and (self.where == "device" or self.tier != self.table["tier"]):
            return None
        return replace(self, tier="compile", baseline=None)

    @cached_property
    def kernel_id(self) -> str:
        """As a verdict has it, of a text that is no kernel too. Raises OSError."""
        try:
            return load(self.path).kernel_id
        except KernelError as error:
            return text_id(error.text or "")


@dataclass(frozen=True)
class Row:
    """One published row that counts."""

    file: str
    number: int
    """Of the row in its file; the first behind the header is 1."""
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Gap:
    """A published row that no longer counts; or, where `number` is None, a whole file or a row that there is not."""

    file: str
    number: int | None
    name: str
    reason: str


@dataclass(frozen=True)
class Published:
    """What was found in the files of rows."""

    counted: tuple[Row, ...]
    stale: tuple[Gap, ...]
    missing: tuple[Gap, ...]
    """Entries of the corpora without a row that counts and has a verdict; `file` is the corpus. A row of the compile
    tier covers none."""


def entries(corpus: Path) -> tuple[Entry, ...]:
    """What a corpus asks for: one entry a kernel, and a second where it says what the default tier answers.

    Raises OSError where it cannot be read, CorpusError where it is no corpus.
    """
    try:
        tables = tomllib.loads(corpus.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{corpus.name}: {' '.join(str(error).split())}") from None
    found: list[Entry] = []
    for kind in _KINDS:
        for name, table in sorted(tables.get(kind, {}).items()):
            absent = _absent(kind, table)
            if absent is not None:
                raise CorpusError(f"{corpus.name}: {name}: no {absent}")
            found += _entries(corpus.parent, kind, name, table)
    return tuple(found)


def of_checkout(root: Path = CHECKOUT) -> Published | None:
    """What is published in a checkout; None where `root` is none, or has no benchmarks and tests.

    Raises as `published`.
    """
    results, tests = root / "benchmarks" / "results", root / "tests" / "gate"
    if not (results.is_dir() and tests.is_dir()):
        return None
    return published(results, tests, (root / "experts",))


def published(results: Path, tests: Path, experts: Sequence[Path]) -> Published:
    """Judge the rows of `results`/corpus_*.csv by the corpora in `tests` and the workloads in the folders `experts`.

    Raises OSError where a folder or file cannot be read, CorpusError for a corpus that is none.
    """
    wanted: dict[tuple[str, str], str] = {}
    """The corpus of each name and tier that needs a row."""
    known: dict[tuple[str, str], Entry] = {}
    for path in (tests / name for name in CORPORA):
        for entry in entries(path) if path.is_file() else ():
            known[entry.name, entry.tier] = entry
            wanted[entry.name, entry.tier] = path.name
            compiled = entry.compiled()
            if compiled is not None:
                known[compiled.name, compiled.tier] = compiled
    cases = _Cases(experts)
    counted: list[Row] = []
    stale: list[Gap] = []
    for path in sorted(results.glob(PATTERN)):
        for row, reason in _rows(path, known, cases):
            if reason is None:
                counted.append(row)
            else:
                stale.append(Gap(row.file, row.number or None, row.fields.get("name", ""), reason))
    covered = {(row.fields["name"], row.fields["tier"]) for row in counted if row.fields["status"] not in NO_VERDICT}
    missing = tuple(
        Gap(corpus, None, name, f"no row that counts, at tier {tier}")
        for (name, tier), corpus in wanted.items()
        if (name, tier) not in covered
    )
    return Published(tuple(counted), tuple(stale), missing)


def _absent(kind: str, table: Mapping[str, Any]) -> str | None:
    """The field that an entry lacks."""
    needed = ["case"] if kind == "honest" else ["case", "tier"]
    if kind == "exploits" and not table.get("contained"):
        needed.append("status")
    return next((field for field in needed if field not in table), None)


def _entries(folder: Path, kind: str, name: str, table: Mapping[str, Any]) -> Iterator[Entry]:
    path = folder / kind / name
    baseline = folder / "honest" / table["baseline"] if "baseline" in table else None
    if kind == "honest":
        yield Entry(name, path, True, table.get("tier", "sanitize"), ("ok",), table, baseline)
        return
    statuses = tuple(table.get("status", ()))
    if table.get("contained"):
        statuses = ("ok", *(status for status in statuses if status != "ok"))
    yield Entry(name, path, False, table["tier"], statuses, table, baseline)
    if "default_status" in table and table["tier"] != "default":
        yield Entry(name, path, False, "default", tuple(table["default_status"]), table, baseline)


class _Cases:
    """The case ids of the tree, each found once; a case belongs to a surface."""

    def __init__(self, experts: Sequence[Path]) -> None:
        self._experts = experts
        self._found: dict[tuple[str, str], str] = {}

    def id(self, entry: Entry) -> str:
        """Raises CaseError where the tree has no such case."""
        surface = EXTENSIONS.get(entry.path.suffix, "cuda")
        key = (entry.case, surface)
        if key not in self._found:
            self._found[key] = catalog.find(entry.case, surface, self._experts).case_id
        return self._found[key]


def _rows(path: Path, known: Mapping[tuple[str, str], Entry], cases: _Cases) -> Iterator[tuple[Row, str | None]]:
    """Every row of a file with the reason why it does not count; row 0 stands for the file."""
    with path.open(newline="", encoding="utf-8", errors="backslashreplace") as file:
        reader = csv.DictReader(file)
        try:
            absent = [column for column in NEEDED if column not in (reader.fieldnames or ())]
            if absent:
                yield Row(path.name, 0, {}), f"no column {absent[0]!r}"
                return
            for number, fields in enumerate(reader, 1):
                if None in fields or None in fields.values():
                    yield Row(path.name, number, {"name": str(fields["name"] or "")}), "not as many fields as columns"
                else:
                    row = Row(path.name, number, dict(fields))
                    yield row, _fault(row.fields, known, cases)
        except csv.Error as error:
            yield Row(path.name, 0, {}), f"not CSV: {error}"


def _fault(fields: Mapping[str, str], known: Mapping[tuple[str, str], Entry], cases: _Cases) -> str | None:
    """Why a row does not count; None where it does."""
    name, tier = fields["name"], fields["tier"]
    entry = known.get((name, tier))
    if entry is None:
        there = any(name == other for other, _ in known)
        return f"the corpus does not ask about it at tier {tier!r}" if there else "not in the corpus"
    if fields["gate_version"] != str(GATE_VERSION):
        return f"gate version {fields['gate_version']}, now {GATE_VERSION}"
    try:
        if fields["kernel_id"] != entry.kernel_id:
            return f"kernel {fields['kernel_id']}, now {entry.kernel_id}"
        if fields["case"] != entry.case:
            return f"case {fields['case']}, now {entry.case}"
        if fields["case_id"] != cases.id(entry):
            return f"case id {fields['case_id']}, now {cases.id(entry)}"
    except OSError:
        return "the kernel's file cannot be read"
    except CaseError:
        return f"there is no case {entry.case}"
    if set(fields["expected"].split("|")) != set(entry.expected):
        return f"expected {fields['expected']}, now {'|'.join(entry.expected)}"
    return None
