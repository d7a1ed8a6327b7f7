"""Looks for everything that is wrong with what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from skill_library.records import MODELS, Dataset
from skill_library.scrub import machine_paths, scrub_paths
from tasks.evidence import journal, parquet
from tasks.evidence.errors import explained
from tasks.evidence.files import shared
from tasks.evidence.journal import Record
from tasks.evidence.roots import Roots

KERNEL_REFERENCES = (
    "kernel_id",
    "parent_id",
    "baseline_id",
    "simplified_id",
    "above_id",
    "result_id",
    "original_id",
    "state_id",
)
"""Columns that name a kernel."""


class Wrong(StrEnum):
    """What can be wrong."""

    UNREADABLE_FILE = "unreadable_file"
    WRONG_SCHEMA = "wrong_schema"
    """Older: `data compact` rewrites it. Newer: this version must not."""
    TORN_LINE = "torn_line"
    """The last line of a journal, never acknowledged; goes at `data compact`."""
    DAMAGED_LINE = "damaged_line"
    """Another line of a journal; the file stays until somebody has looked at it."""
    DUPLICATE_ID = "duplicate_id"
    """Two different rows under one id, or one row twice in a file."""
    WRONG_ID = "wrong_id"
    """The id is not the hash of the row's fields."""
    MISSING_KERNEL = "missing_kernel"
    """A row names a kernel that is not stored."""
    MACHINE_PATH = "machine_path"
    """A path of a machine in a text."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    wrong: Wrong
    where: str
    """`user` or `shipped`, and the file relative to that root."""
    detail: str


@dataclass(frozen=True)
class _Source:
    """The rows of one dataset in one file."""

    where: str
    dataset: Dataset
    records: list[Record]


def check(roots: Roots) -> tuple[Finding, ...]:
    """What is wrong in both roots. Raises StoreError where a folder cannot be read."""
    findings: list[Finding] = []
    sources: list[_Source] = []
    with explained("be checked"), shared(roots.user):
        for name, root in (("shipped", roots.shipped), ("user", roots.user)):
            if root is not None:
                _read_journals(name, root, sources, findings)
                _read_files(name, root, sources, findings)
    findings.extend(_ids(sources))
    findings.extend(_kernels(sources))
    findings.extend(_paths(sources))
    return tuple(findings)


def path_in(dataset: Dataset, record: Record) -> str | None:
    """The first column that holds a path of a machine."""
    for name, value in record.items():
        if dataset == "kernels" and name == "text":
            if machine_paths(value or ""):
                return name
        elif any(scrub_paths(text) != text for text in _texts(value)):
            return name
    return None


def _read_journals(name: str, root: Path, sources: list[_Source], findings: list[Finding]) -> None:
    for path in journal.paths(root):
        where = f"{name}/{journal.FOLDER}/{path.name}"
        content = journal.read(path)
        for bad in content.bad:
            kind = Wrong.TORN_LINE if bad.fault is journal.Fault.TORN else Wrong.DAMAGED_LINE
            findings.append(Finding(kind, where, f"line {bad.line}: {bad.reason}"))
        for dataset in MODELS:
            records = [row for found, row in content.rows if found == dataset]
            # Through a table, so that rows compare with those of files.
            sources.append(_Source(where, dataset, parquet.from_records(records, dataset).to_pylist()))


def _read_files(name: str, root: Path, sources: list[_Source], findings: list[Finding]) -> None:
    for dataset in MODELS:
        for path in parquet.paths(root, dataset):
            where = f"{name}/{parquet.FOLDER}/{dataset}/{path.name}"
            try:
                loaded = parquet.load(path, dataset)
            except parquet.UnreadableFile as error:
                findings.append(Finding(Wrong.UNREADABLE_FILE, where, _cause(error)))
                continue
            if loaded.age is not parquet.Age.CURRENT:
                findings.append(Finding(Wrong.WRONG_SCHEMA, where, f"{loaded.age} than this version's"))
            sources.append(_Source(where, dataset, loaded.table.to_pylist()))


def _cause(error: parquet.UnreadableFile) -> str:
    first = str(error.__cause__).splitlines() or ["no reason given"]
    return scrub_paths(first[0])[:200]


def _ids(sources: Iterable[_Source]) -> Iterator[Finding]:
    first: dict[tuple[Dataset, str], Record] = {}
    for source in sources:
        model, here = MODELS[source.dataset], set()
        for record in source.records:
            key = record[model.key]
            if key != model.derived_id(record):
                yield Finding(Wrong.WRONG_ID, source.where, f"{source.dataset} {key}: not the hash of its fields")
            if key in here and f"/{parquet.FOLDER}/" in source.where:
                yield Finding(Wrong.DUPLICATE_ID, source.where, f"{source.dataset} {key}: twice in one file")
            elif first.setdefault((source.dataset, key), record) != record:
                yield Finding(Wrong.DUPLICATE_ID, source.where, f"{source.dataset} {key}: another row has this id")
            here.add(key)


def _kernels(sources: list[_Source]) -> Iterator[Finding]:
    stored = {record["kernel_id"] for source in sources if source.dataset == "kernels" for record in source.records}
    for source in sources:
        if source.dataset == "kernels":
            continue
        for record in source.records:
            for name in KERNEL_REFERENCES:
                kernel = record.get(name)
                # A text that is no kernel need not be stored.
                if kernel is not None and kernel not in stored and record.get("stage") != "parse":
                    key = record[MODELS[source.dataset].key]
                    yield Finding(Wrong.MISSING_KERNEL, source.where, f"{source.dataset} {key}: {name} {kernel}")


def _paths(sources: Iterable[_Source]) -> Iterator[Finding]:
    for source in sources:
        for record in source.records:
            column = path_in(source.dataset, record)
            if column is not None:
                key = record[MODELS[source.dataset].key]
                yield Finding(Wrong.MACHINE_PATH, source.where, f"{source.dataset} {key}: column {column}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
