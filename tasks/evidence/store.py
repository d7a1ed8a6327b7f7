"""The evidence as its users see it: rows go in, frames come out."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from skill_library.records import Dataset, Row
from tasks.evidence import compaction, journal, parquet
from tasks.evidence.checks import Finding, check
from tasks.evidence.errors import explained
from tasks.evidence.files import shared
from tasks.evidence.promotion import promote
from tasks.evidence.roots import Roots

_RUNS = ("run_id", "repetition")

if TYPE_CHECKING:
    # Only a reader needs it, and it takes a quarter of a second to import.
    import pandas as pd


class Evidence:
    """The shipped evidence and the user's, read as one; writes go to the user's root only.

    Threads may share one object; each process has its own. Close it, or use it as a context manager, when the run ends.
    """

    def __init__(self, roots: Roots) -> None:
        """Touches no file; the user's root is created by the first row."""
        self.roots = roots
        self._guard = threading.Lock()
        self._writer: journal.Writer | None = None
        self._kernels: set[str] | None = None

    def append(self, *rows: Row) -> None:
        """Keep rows: they are durable when this returns. Kernels that the root has are passed over.

        Scrubs again, since `model_copy` does not. Raises StoreError where the rows cannot be kept; what was kept before
        still is. Raises pydantic.ValidationError for a row that is not valid.
        """
        checked = [type(row).model_validate(row.model_dump()) for row in rows]
        with self._guard, explained("keep a row"):
            wanted = self._new(checked)
            if wanted:
                self._own_writer().append(wanted)
            if self._kernels is not None:
                self._kernels.update(_kernel_ids(wanted))

    def read(self, dataset: Dataset) -> pd.DataFrame:
        """All rows of a dataset, each once, every column present and of its type. Raises StoreError."""
        frame: pd.DataFrame = self.table(dataset).to_pandas()
        return frame

    def table(self, dataset: Dataset) -> pa.Table:
        """The same as an Arrow table. Raises StoreError."""
        shipped = _stored(self.roots.shipped, dataset) if self.roots.shipped is not None else []
        with explained("be read"):
            try:
                user = _user_tables(self.roots.user, dataset)
            except FileNotFoundError:
                # The root's first compaction took a file; by now there is a lock that holds off the next.
                user = _user_tables(self.roots.user, dataset)
        # The user's first: of a row that both have, it is the one that was measured here.
        return parquet.union([*user, *shipped], dataset)

    def repetitions(self, run_id: str, dataset: Dataset = "attempts") -> int:
        """How often a run was recorded in a dataset: the `repetition` that the next one gets. Raises StoreError."""
        roots = [root for root in (self.roots.shipped, self.roots.user) if root is not None]
        with explained("be read"), shared(self.roots.user):
            lines = [row for path in journal.paths(self.roots.user) for _, row in journal.read(path).rows]
            files = [parquet.load(path, dataset, _RUNS).table for r in roots for path in parquet.paths(r, dataset)]
        rows = [*lines, *(row for table in files for row in table.to_pylist())]
        return max(((row.get("repetition") or 0) + 1 for row in rows if row.get("run_id") == run_id), default=0)

    def compact(self, *, step: compaction.Step = lambda name: None) -> compaction.Compaction:
        """Turn the user's journals into one Parquet file for each dataset; see compaction.py. Raises StoreError."""
        with self._guard:
            self._close()
            return compaction.compact(self.roots.user, step=step)

    def check(self) -> tuple[Finding, ...]:
        """Everything that is wrong with what is stored; empty where nothing is. Raises StoreError."""
        return check(self.roots)

    def promote(self, *, runs: Sequence[str] | None = None) -> dict[Dataset, int]:
        """Copy the user's rows to the shipped root: a maintainer's act. `runs` are run ids; None is all of them.

        Returns the rows that are new there. Raises PromotionRefused, StoreError.
        """
        return promote(self.roots, runs=runs)

    def close(self) -> None:
        """Let go of the journal, so that compaction may take it. The next row opens another."""
        with self._guard:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new(self, rows: Sequence[Row]) -> list[Row]:
        if not any(row.dataset == "kernels" for row in rows):
            return list(rows)
        if self._kernels is None:
            # Not the shipped ones: the user's root stays complete by itself.
            self._kernels = set(parquet.kernel_ids(self.roots.user))
        new: list[Row] = []
        seen = set(self._kernels)
        for row in rows:
            ids = _kernel_ids([row])
            if not ids or ids - seen:
                new.append(row)
            seen |= ids
        return new

    def _own_writer(self) -> journal.Writer:
        if self._writer is None or self._writer.is_closed or self._writer.pid != os.getpid():
            # A forked child must not write to its parent's file.
            self._writer = journal.Writer(self.roots.user)
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self._kernels = None


def _kernel_ids(rows: Sequence[Row]) -> set[str]:
    return {str(getattr(row, row.key)) for row in rows if row.dataset == "kernels"}


def _stored(root: Path, dataset: Dataset) -> list[pa.Table]:
    with explained("be read"):
        return [parquet.load(path, dataset).table for path in parquet.paths(root, dataset)]


def _user_tables(root: Path, dataset: Dataset) -> list[pa.Table]:
    with shared(root):
        # Journals first: one that is gone by then is in a file that is listed afterwards.
        contents = [journal.read(path) for path in journal.paths(root)]
        stored = [parquet.load(path, dataset).table for path in parquet.paths(root, dataset)]
    records = [row for content in contents for name, row in content.rows if name == dataset]
    return [*stored, parquet.from_records(records, dataset)]
