"""Journals and many files into one Parquet file for each dataset; a kill at any moment loses and doubles nothing.

Order: the new file is durable, then takes its name, then old files go, then journals go. A kill in between leaves rows
twice, which readers see once. Journals of living writers, files of a newer schema, files that cannot be read and
journals with damage stay as they are. Each dataset is rewritten whole: a few megabytes for thousands of rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from skill_library.records import MODELS, Dataset
from tasks.evidence import journal, parquet
from tasks.evidence.errors import explained
from tasks.evidence.files import exclusive, make_folder, put_in_place, sync_folder, write_temporary

Step = Callable[[str], None]
"""Told of each step once it is done; tests kill the process there."""


@dataclass(frozen=True)
class Compaction:
    """What a compaction did."""

    rows: dict[Dataset, int]
    """Rows of the datasets that were rewritten."""
    journals: int
    """Journal files that are gone now."""
    left: tuple[str, ...]
    """What was left as it is, and why; names relative to the root."""


def compact(root: Path, *, step: Step = lambda name: None) -> Compaction:
    """Compact one root. Waits for another compaction to end. Raises StoreError; nothing is lost then."""
    with explained("compact"), ExitStack() as stack:
        if not root.is_dir():
            return Compaction({}, 0, ())
        stack.enter_context(exclusive(root))
        step("locked")
        taken, left = _take_journals(root, stack)
        step("journals read")
        rewritten: dict[Dataset, int] = {}
        for dataset in MODELS:
            records = [row for content in taken.values() for name, row in content.rows if name == dataset]
            count = _compact_dataset(root, dataset, records, left, step)
            if count is not None:
                rewritten[dataset] = count
        gone = [path for path, content in taken.items() if content.is_whole]
        for path in gone:
            path.unlink()
            step("journal removed")
        if gone:
            sync_folder(root / journal.FOLDER)
        return Compaction(rewritten, len(gone), tuple(left))


def _take_journals(root: Path, stack: ExitStack) -> tuple[dict[Path, journal.Content], list[str]]:
    taken: dict[Path, journal.Content] = {}
    left: list[str] = []
    for path in journal.paths(root):
        descriptor = journal.locked(path)
        if descriptor is None:
            left.append(f"{journal.FOLDER}/{path.name}: its writer lives")
            continue
        stack.callback(os.close, descriptor)
        content = journal.read(path)
        taken[path] = content
        if not content.is_whole:
            left.append(f"{journal.FOLDER}/{path.name}: damaged, or of a newer schema; see `data check`")
    return taken, left


def _compact_dataset(
    root: Path, dataset: Dataset, records: list[journal.Record], left: list[str], step: Step
) -> int | None:
    """The number of rows now stored in one file; None where there was nothing to do."""
    for path in parquet.leftovers(root, dataset):
        path.unlink()
    merged: dict[Path, parquet.Loaded] = {}
    for path in parquet.paths(root, dataset):
        try:
            loaded = parquet.load(path, dataset)
        except parquet.UnreadableFile:
            left.append(f"{parquet.FOLDER}/{dataset}/{path.name}: cannot be read")
            continue
        if loaded.age is parquet.Age.NEWER:
            left.append(f"{parquet.FOLDER}/{dataset}/{path.name}: of a newer schema")
        else:
            merged[path] = loaded
    is_current = len(merged) <= 1 and all(loaded.age is parquet.Age.CURRENT for loaded in merged.values())
    if is_current and not records:
        return None
    tables = [*(loaded.table for loaded in merged.values()), parquet.from_records(records, dataset)]
    table = parquet.union(tables, dataset)
    target = _store(root, dataset, table, frozenset(merged), step)
    for path in merged:
        if path != target:
            path.unlink()
            step(f"{dataset}: old file removed")
    sync_folder(target.parent)
    return len(table)


def _store(root: Path, dataset: Dataset, table: pa.Table, replaceable: frozenset[Path], step: Step) -> Path:
    folder = parquet.folder(root, dataset)
    make_folder(folder)
    target, number = folder / f"{dataset}.parquet", 1
    while target.exists() and target not in replaceable:  # a file that stays as it is has the name
        target, number = folder / f"{dataset}-{number}.parquet", number + 1
    temporary = write_temporary(target, parquet.encoded(table))
    step(f"{dataset}: written")
    put_in_place(temporary, target)
    step(f"{dataset}: in place")
    return target
