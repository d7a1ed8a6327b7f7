"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experts import catalog
from experts.case import CaseError
from flows.commands.failure import Failure
from tasks.evidence import Roots, StoreError
from tasks.gate.statistics import CHECKPOINTS

Experts = Annotated[
    list[Path] | None,
    typer.Option(
        "--experts", help="A folder of workloads, searched first. May be given more than once.", metavar="DIR"
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Where evidence is kept. [default: KLINEAGE_DATA, or ./.klineage]", metavar="DIR"),
]
Shipped = Annotated[
    Path | None,
    typer.Option(
        "--shipped", help="Evidence that comes with the project. [default: data/ of a checkout]", metavar="DIR"
    ),
]
PlatformName = Annotated[
    str | None, typer.Option("--platform", help="Which platform. [default: PoCL on this CPU]", metavar="NAME")
]
CaseName = Annotated[
    str | None, typer.Option("--case", help="Which case. [default: the kernel's workload at its default size]")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Repeat a run that the evidence has, instead of going on with it.")
]
Pairs = Annotated[
    int, typer.Option("--pairs", help=f"Samples for a comparison, at most: {', '.join(map(str, CHECKPOINTS))}.")
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds for one call of a kernel.", min=0.1, max=3600)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]


def roots(data: Path | None = None, shipped: Path | None = None) -> Roots:
    """The evidence of the project and the user's."""
    try:
        return Roots.find(data=data, shipped=shipped)
    except StoreError as error:
        raise Failure(str(error)) from None


def expert_roots(given: list[Path] | None) -> tuple[Path, ...]:
    """The folders of workloads."""
    try:
        return catalog.roots(given or ())
    except CaseError as error:
        raise Failure(str(error)) from None
