"""Copies the user's rows to the shipped root: what a maintainer does before a commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from skill_library.records import MODELS, Dataset
from tasks.evidence import journal, parquet
from tasks.evidence.checks import KERNEL_REFERENCES, path_in
from tasks.evidence.errors import PromotionRefused, StoreError, explained
from tasks.evidence.files import make_folder, put_in_place, shared, write_temporary
from tasks.evidence.journal import Record
from tasks.evidence.roots import Roots


def promote(roots: Roots, *, runs: Sequence[str] | None = None) -> dict[Dataset, int]:
    """Copy rows of the given runs (None: all) and the kernels that they name; returns how many are new there.

    All or nothing as far as refusal goes. Raises PromotionRefused where a row's id is wrong, a text holds a path of a
    machine or a kernel is missing, StoreError where there is no shipped root or it cannot be written.
    """
    if roots.shipped is None:
        raise StoreError("nowhere to promote to: there is no shipped root")
    with explained("be promoted"):
        stored = {dataset: _shipped(roots.shipped, dataset) for dataset in MODELS}
        chosen = _chosen(roots.user, runs)
        known = {record["kernel_id"] for record in stored["kernels"].to_pylist() + chosen["kernels"]}
        reasons = tuple(
            f"{dataset} {record[MODELS[dataset].key]}: {reason}"
            for dataset, records in chosen.items()
            for record in records
            if (reason := _refusal(dataset, record, known)) is not None
        )
        if reasons:
            raise PromotionRefused(reasons)
        # Kernels first, as MODELS has them: a kill in between leaves no row without its kernel.
        return {dataset: _store(roots.shipped, dataset, stored[dataset], chosen[dataset]) for dataset in MODELS}


def _chosen(root: Path, runs: Sequence[str] | None) -> dict[Dataset, list[Record]]:
    with shared(root):
        contents = [journal.read(path) for path in journal.paths(root)]
        files = {
            dataset: [parquet.load(path, dataset).table for path in parquet.paths(root, dataset)] for dataset in MODELS
        }
    every = {
        dataset: parquet.union(
            [*files[dataset], parquet.from_records([r for c in contents for d, r in c.rows if d == dataset], dataset)],
            dataset,
        ).to_pylist()
        for dataset in MODELS
    }
    if runs is None:
        return every
    wanted = set(runs)
    rows: dict[Dataset, list[Record]] = {
        d: [r for r in records if r.get("run_id") in wanted] for d, records in every.items() if d != "kernels"
    }
    named = {record.get(name) for records in rows.values() for record in records for name in KERNEL_REFERENCES}
    return {"kernels": [record for record in every["kernels"] if record["kernel_id"] in named], **rows}


def _refusal(dataset: Dataset, record: Record, known: set[str]) -> str | None:
    model = MODELS[dataset]
    if record[model.key] != model.derived_id(record):
        return "its id is not the hash of its fields"
    column = path_in(dataset, record)
    if column is not None:
        return f"column {column} holds a path of a machine"
    for name in KERNEL_REFERENCES:
        if record.get(name) is not None and record[name] not in known and record.get("stage") != "parse":
            return f"the kernel in {name} is not stored"
    return None


def _shipped(root: Path, dataset: Dataset) -> pa.Table:
    loaded = [parquet.load(path, dataset) for path in parquet.paths(root, dataset)]
    if any(file.age is parquet.Age.NEWER for file in loaded):
        raise StoreError(f"the shipped {dataset} have a newer schema than this version's")
    return parquet.union([file.table for file in loaded], dataset)


def _store(root: Path, dataset: Dataset, stored: pa.Table, records: list[Record]) -> int:
    merged = parquet.union([stored, parquet.from_records(records, dataset)], dataset)
    new = len(merged) - len(stored)
    if new:
        folder = parquet.folder(root, dataset)
        make_folder(folder)
        old = parquet.paths(root, dataset)
        target = folder / f"{dataset}.parquet"
        put_in_place(write_temporary(target, parquet.encoded(merged)), target)
        for path in old:
            if path != target:
                path.unlink()
    return int(new)
