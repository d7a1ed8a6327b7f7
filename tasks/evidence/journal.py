"""The append journal: one JSON line for a row, one file for each writer.

A line is `{"format": 1, "dataset": "attempts", "row": {...}}`. A writer holds a lock on its file as long as it lives;
compaction takes only files that it can lock, so that it never takes one that still grows. A row is durable when
`append` returns. What follows the last line end was never acknowledged and is passed over by readers; a bad line
elsewhere is damage, and its file stays where it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from skill_library.records import MODELS, SCHEMA_VERSION, Dataset, Row
from skill_library.schema import arrow_schema
from tasks.evidence.files import make_folder, sync_folder, write_all

FOLDER = "journal"
SUFFIX = ".jsonl"
Record = dict[str, Any]


class Fault(StrEnum):
    """What is wrong with a line."""

    TORN = "torn"
    """The end of the file, never acknowledged: its writer was killed."""
    DAMAGED = "damaged"
    NEWER = "newer"
    """Written by a newer version; left for it."""


@dataclass(frozen=True)
class Bad:
    """A line that gives no row."""

    line: int
    fault: Fault
    reason: str


@dataclass(frozen=True)
class Content:
    """What a journal file holds."""

    rows: tuple[tuple[Dataset, Record], ...]
    bad: tuple[Bad, ...]

    @property
    def is_whole(self) -> bool:
        """Nothing is lost when the file goes once its rows are stored elsewhere."""
        return all(bad.fault is Fault.TORN for bad in self.bad)


class Writer:
    """Appends to a file of its own. Not for several threads at a time, nor for a forked child."""

    def __init__(self, root: Path) -> None:
        """Creates the file, and the folders above it. Raises OSError."""
        folder = root / FOLDER
        make_folder(folder)
        self.pid = os.getpid()
        self._descriptor, self._path = _own_file(folder)
        self._size = 0
        try:
            sync_folder(folder)
        except OSError:
            self.close()
            raise

    @property
    def is_closed(self) -> bool:
        """After `close`, and after an append that failed."""
        return self._descriptor < 0

    def append(self, rows: Sequence[Row]) -> None:
        """Keep rows, durably. Raises OSError; the file then holds what it held before, and the writer is closed."""
        lines = b"".join(_encoded(row) for row in rows)
        try:
            write_all(self._descriptor, lines)
            os.fsync(self._descriptor)
        except OSError:
            # What a failed fsync left is unknown, so this file ends here and the next row opens another.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
                os.fsync(self._descriptor)
            self.close()
            raise
        self._size += len(lines)

    def close(self) -> None:
        """Let go of the file: compaction may take it. A file without rows is removed."""
        if self._descriptor >= 0:
            if self._size == 0 and self.pid == os.getpid():
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def paths(root: Path) -> tuple[Path, ...]:
    """The journal files of a root, oldest first. Raises OSError."""
    try:
        return tuple(sorted(path for path in (root / FOLDER).iterdir() if path.suffix == SUFFIX))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def locked(path: Path) -> int | None:
    """Take over a file that nobody writes to: a descriptor to close; None where a writer lives or the file is gone.

    Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def read(path: Path) -> Content:
    """What a file holds now. Raises OSError."""
    lines = path.read_bytes().split(b"\n")
    rows: list[tuple[Dataset, Record]] = []
    bad: list[Bad] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            rows.append(_decoded(line))
        except _Newer as error:
            bad.append(Bad(number, Fault.NEWER, str(error)))
        except ValueError as error:
            # A crash of the machine can leave blocks of zeros at the end, with line ends after or among them.
            torn = not line.strip(b"\0") or not any(rest.strip(b"\0") for rest in lines[number:])
            bad.append(Bad(number, Fault.TORN if torn else Fault.DAMAGED, str(error)))
    if lines[-1]:
        bad.append(Bad(len(lines), Fault.TORN, "no line end"))
    return Content(tuple(rows), tuple(bad))


class _Newer(Exception):
    """A line of a later schema."""


def _own_file(folder: Path) -> tuple[int, Path]:
    while True:
        path = folder / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            os.close(descriptor)
            raise
        # Between the two calls a compaction may have found the empty file and removed it.
        if os.fstat(descriptor).st_nlink > 0:
            return descriptor, path
        os.close(descriptor)


def _encoded(row: Row) -> bytes:
    line = {"format": SCHEMA_VERSION, "dataset": row.dataset, "row": row.model_dump()}
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False, default=datetime.isoformat).encode() + b"\n"


def _decoded(line: bytes) -> tuple[Dataset, Record]:
    """Raises ValueError for a line that is not ours, _Newer for one that later code wrote."""
    value = json.loads(line)
    match value:
        case {"format": int(version), "dataset": str(dataset), "row": dict(row)}:
            pass
        case _:
            raise ValueError("not a journal line")
    if version > SCHEMA_VERSION:
        raise _Newer(f"written with schema {version}; this version knows {SCHEMA_VERSION}")
    if dataset not in MODELS:
        raise ValueError(f"unknown dataset {dataset!r}")
    schema = arrow_schema(dataset)
    unknown = sorted(row.keys() - set(schema.names))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    return dataset, {name: _value(schema.field(name).type, name, item) for name, item in row.items()}


def _value(kind: pa.DataType, name: str, value: object) -> object:
    if value is None:
        return None
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_value(kind.value_type, name, item) for item in value]
    if pa.types.is_timestamp(kind) and isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(UTC)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if pa.types.is_string(kind) and isinstance(value, str):
        return value
    if not isinstance(value, bool):
        if pa.types.is_floating(kind) and isinstance(value, int | float):
            return float(value)
        if pa.types.is_integer(kind) and isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            return value
    raise ValueError(f"field {name!r} is not of its type")
