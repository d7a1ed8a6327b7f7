"""`klineage data`: care for the evidence on disk."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict

from flows.commands import options
from flows.commands.failure import Failure
from skill_library.published import CorpusError, of_checkout
from skill_library.store import SHIPPED, Library, LibraryError
from tasks.evidence import Evidence, StoreError

app = typer.Typer(help="Care for the evidence on disk.", rich_markup_mode=None)


class CompactReport(BaseModel):
    """What `klineage data compact --json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: dict[str, int]
    """Rows of each dataset that was rewritten."""
    journals: int
    """Journals that are gone now."""
    left: tuple[str, ...]
    """What was left as it is, and why."""


class Fault(BaseModel):
    """One thing that is wrong with the evidence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wrong: str
    where: str
    detail: str


class StaleRow(BaseModel):
    """A published row of the gate's corpus that is about something else than this checkout has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    """In benchmarks/results."""
    row: int | None
    """The first behind the header is 1; None for a whole file."""
    name: str
    """Of the kernel, as the row has it."""
    reason: str


class CheckReport(BaseModel):
    """What `klineage data check --json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    findings: tuple[Fault, ...]
    stale: tuple[StaleRow, ...] = ()
    """Told for those who work on the project; no fault of the evidence. Empty where there is no checkout."""


class PromoteReport(BaseModel):
    """What `klineage data promote --json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: dict[str, int]
    """Rows of each dataset that are new among the shipped ones."""
    skills: tuple[str, ...]
    """Cards that were written."""


@app.command("compact")
def compact(data: options.Data = None, as_json: options.Json = False) -> int:
    """Turn journals into one Parquet file for each dataset, and rewrite files of an older schema."""
    try:
        with Evidence(options.roots(data)) as evidence:
            done = evidence.compact()
    except StoreError as error:
        raise Failure(str(error)) from None
    if as_json:
        answer = CompactReport(
            rows={str(name): rows for name, rows in done.rows.items()}, journals=done.journals, left=done.left
        )
        sys.stdout.write(answer.model_dump_json() + "\n")
        return 0
    for dataset, rows in done.rows.items():
        sys.stdout.write(f"{dataset}: {rows} rows\n")
    if not done.rows:
        sys.stdout.write("nothing to do\n")
    for left in done.left:
        sys.stdout.write(f"left as it is: {left}\n")
    return 0


@app.command("check")
def check(data: options.Data = None, shipped: options.Shipped = None, as_json: options.Json = False) -> int:
    """Say what is wrong with the evidence: unreadable files, wrong or doubled ids, missing kernels, machine paths.

    In a checkout, rows of benchmarks/results that are no longer about its corpus, cases and gate are listed too; they
    leave the exit code alone, since nothing that a user keeps rests on them.
    """
    roots = options.roots(data, shipped)
    try:
        with Evidence(roots) as evidence:
            findings = evidence.check()
        stale = _stale()
    except (StoreError, CorpusError) as error:
        raise Failure(str(error)) from None
    if as_json:
        faults = tuple(Fault(wrong=str(found.wrong), where=found.where, detail=found.detail) for found in findings)
        sys.stdout.write(CheckReport(findings=faults, stale=stale).model_dump_json() + "\n")
    else:
        for found in findings:
            sys.stdout.write(f"{found.wrong}: {found.where}: {found.detail}\n")
        if not findings:
            sys.stdout.write("the evidence is sound\n")
        for row in stale:
            place = row.file if row.row is None else f"{row.file}: row {row.row}: {row.name}"
            sys.stdout.write(f"stale: {place}: {row.reason}\n")
        if roots.note:
            sys.stderr.write(f"klineage: {roots.note}\n")
    return 1 if findings else 0


def _stale() -> tuple[StaleRow, ...]:
    """Raises CorpusError where the checkout's corpus or rows cannot be read."""
    try:
        found = of_checkout()
    except OSError as error:
        raise CorpusError(f"{error.filename}: {error.strerror}") from None
    gaps = found.stale if found is not None else ()
    return tuple(StaleRow(file=gap.file, row=gap.number, name=gap.name, reason=gap.reason) for gap in gaps)


@app.command("promote")
def promote(
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="The id of a run; all of them by default.", metavar="ID")
    ] = None,
    data: options.Data = None,
    shipped: options.Shipped = None,
    as_json: options.Json = False,
) -> int:
    """For maintainers: copy rows and admitted cards to what is shipped with the project."""
    roots = options.roots(data, shipped)
    try:
        own = [each for each in Library((roots.user / "skills",)).skills() if each.verification.standing == "admitted"]
        with Evidence(roots) as evidence:
            rows = evidence.promote(runs=runs)
        # After the rows that their claims rest on.
        Library((SHIPPED,)).keep(own)
    except (StoreError, LibraryError) as error:
        raise Failure(str(error)) from None
    report = PromoteReport(
        rows={str(name): count for name, count in rows.items()}, skills=tuple(each.name for each in own)
    )
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
        return 0
    for dataset, count in report.rows.items():
        sys.stdout.write(f"{dataset}: {count} rows more\n")
    sys.stdout.write(f"skills: {', '.join(report.skills) or '(none)'}\n")
    return 0
