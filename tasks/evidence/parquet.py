"""The Parquet files of one root: `evidence/<dataset>/*.parquet`, each written with the schema of the row models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skill_library.records import MODELS, SCHEMA_VERSION, Dataset
from skill_library.schema import arrow_schema
from tasks.evidence.errors import StoreError
from tasks.evidence.files import TEMPORARY
from tasks.evidence.journal import Record

FOLDER = "evidence"


class Age(StrEnum):
    """A file's schema against this version's."""

    CURRENT = "current"
    OLDER = "older"
    """Columns are missing, stand in another order or have another type that converts."""
    NEWER = "newer"
    """It has columns that this version does not know, which must not be dropped."""


class UnreadableFile(StoreError):
    """A file that is not Parquet, or whose columns do not convert."""


@dataclass(frozen=True)
class Loaded:
    """A file, conformed to this version's schema."""

    table: pa.Table
    age: Age


def folder(root: Path, dataset: Dataset) -> Path:
    """Where a dataset's files stand."""
    return root / FOLDER / dataset


def paths(root: Path, dataset: Dataset) -> tuple[Path, ...]:
    """A dataset's files, by name. Raises OSError."""
    try:
        found = sorted(folder(root, dataset).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(path for path in found if path.suffix == ".parquet" and not path.name.startswith("."))


def leftovers(root: Path, dataset: Dataset) -> tuple[Path, ...]:
    """Files in the making whose maker was killed; ask only under the root's lock. Raises OSError."""
    try:
        return tuple(path for path in folder(root, dataset).iterdir() if path.name.startswith(TEMPORARY))
    except FileNotFoundError:
        return ()


def load(path: Path, dataset: Dataset, columns: Sequence[str] | None = None) -> Loaded:
    """Read a file, or some of its columns. Raises UnreadableFile, and OSError where it is gone or may not be read."""
    wanted = arrow_schema(dataset)
    with path.open("rb") as file:
        try:
            stored = pq.ParquetFile(file)
            found = stored.schema_arrow
            names = None if columns is None else [name for name in columns if name in found.names]
            table = stored.read(columns=names, use_threads=False)
            version = int((found.metadata or {}).get(b"klineage_schema", b"0"))
            newer = version > SCHEMA_VERSION or not set(found.names) <= set(wanted.names)
            older = version < SCHEMA_VERSION or not found.equals(wanted)
            age = Age.NEWER if newer else Age.OLDER if older else Age.CURRENT
            return Loaded(_conformed(table, dataset, columns), age)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnreadableFile(f"evidence store: {dataset}/{path.name} cannot be read; see `data check`") from error


def kernel_ids(root: Path) -> frozenset[str]:
    """Ids of the kernels that a root's files hold; a file that cannot be read counts as empty. Raises OSError."""
    known: set[str] = set()
    for path in paths(root, "kernels"):
        try:
            known.update(load(path, "kernels", ["kernel_id"]).table.column("kernel_id").to_pylist())
        except (UnreadableFile, FileNotFoundError):
            continue
    return frozenset(known)


def from_records(records: Sequence[Record], dataset: Dataset) -> pa.Table:
    """A table of records, what they lack as nulls."""
    return _conformed(pa.Table.from_pylist(list(records), schema=arrow_schema(dataset)), dataset)


def union(tables: Sequence[pa.Table], dataset: Dataset) -> pa.Table:
    """The tables one after another; of rows with one id, the first."""
    whole = pa.concat_tables([arrow_schema(dataset).empty_table(), *tables])
    first: dict[str, int] = {}
    for index, key in enumerate(whole.column(MODELS[dataset].key).to_pylist()):
        first.setdefault(key, index)
    return whole if len(first) == len(whole) else whole.take(pa.array(first.values(), pa.int64()))


def encoded(table: pa.Table) -> bytes:
    """The bytes of a file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _conformed(table: pa.Table, dataset: Dataset, names: Sequence[str] | None = None) -> pa.Table:
    schema, model = arrow_schema(dataset), MODELS[dataset]
    if names is not None:
        schema = pa.schema([schema.field(name) for name in names])
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    whole = pa.Table.from_arrays(columns, schema=schema)
    if names is not None:
        return whole
    keys = whole.column(model.key)
    if keys.null_count == 0:
        return whole
    derived = [key or model.derived_id(row) for key, row in zip(keys.to_pylist(), whole.to_pylist(), strict=True)]
    return whole.set_column(schema.get_field_index(model.key), schema.field(model.key), pa.array(derived, pa.string()))
