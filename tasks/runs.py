"""What long runs share: their evidence, open for one process at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from experts.ids import content_id
from skill_library.records import MODELS, Dataset, Row, RunKind
from tasks.evidence import Evidence, Roots
from tasks.gate import lock


class Busy(Exception):
    """Another process is on this run; one line."""


@contextmanager
def held(
    kind: RunKind, identity: str, roots: Roots, dataset: Dataset, *, fresh: bool
) -> Iterator[tuple[Evidence, int]]:
    """The evidence and the repetition that this run's rows get, held by this process alone.

    `identity` is the run's id, `dataset` where its rows are; `fresh` repeats a run that the evidence has, instead of
    going on with it. Only the user's own rows count: what was measured elsewhere is not measured here. Raises Busy,
    StoreError, LockError.
    """

    def refuse() -> None:
        raise Busy(f"another process is on this {kind} already (run {identity})")

    with (
        lock.held(f"{kind}-{content_id([str(roots.user), identity])}", "exclusive", refuse),
        Evidence(Roots(roots.user)) as evidence,
    ):
        known = evidence.repetitions(identity, dataset)
        yield evidence, known if fresh else max(0, known - 1)


def keep_new(evidence: Evidence, rows: Sequence[Row]) -> None:
    """Keep rows, those that the evidence lacks. Raises StoreError."""
    for dataset in {row.dataset for row in rows}:
        stored = set(evidence.table(dataset).column(MODELS[dataset].key).to_pylist())
        evidence.append(*(row for row in rows if row.dataset == dataset and getattr(row, row.key) not in stored))
