"""`klineage cases`: the cases there are, and what a kernel for them gets."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table

from experts import audit, catalog
from experts.case import Case, CaseError, Workload, bind
from experts.kernel import Surface
from flows.commands import options
from flows.commands.failure import Failure


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorInfo(_Model):
    """One tensor of a case."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str


class FindingInfo(_Model):
    """One line of an audit."""

    what: str
    distribution: str
    share: float | None
    """Of the bound; None for infinite."""
    wanted: str
    holds: bool


class CaseInfo(_Model):
    """One case."""

    case: str
    case_id: str
    dims: dict[str, int]
    default_for: tuple[str, ...]
    tensors: tuple[TensorInfo, ...]
    domain: tuple[str, ...]
    """The minimal domain that a kernel must accept."""
    kernels: tuple[str, ...]
    """Files beside the case.py."""
    audit: tuple[FindingInfo, ...] | None = None


class CasesReport(_Model):
    """What `klineage cases --json` prints."""

    cases: tuple[CaseInfo, ...]


def command(
    workload: Annotated[str | None, typer.Argument(help="Only this workload.")] = None,
    check: Annotated[
        bool, typer.Option("--audit", help="Try what must fail each case: trivial and imprecise kernels.")
    ] = False,
    experts: options.Experts = None,
    as_json: options.Json = False,
) -> int:
    """List the cases: names, dimensions, tensors, kernels."""
    try:
        found = list(catalog.workloads(options.expert_roots(experts)))
        chosen = [item for item in found if workload in (None, item[0].name)]
        if not chosen:
            names = ", ".join(item[0].name for item in found) or "(none)"
            raise Failure(f"unknown workload {workload!r}; there are {names}")
        cases = []
        for declared, source, folder in chosen:
            kernels = tuple(path.name for path in catalog.kernels(folder))
            for dtype in declared.tensors:
                for shape in declared.shapes:
                    case = bind(declared, f"{shape}-{dtype}", "opencl", source)
                    cases.append(_info(case, kernels, check))
    except CaseError as error:
        raise Failure(str(error)) from None
    report = CasesReport(cases=tuple(cases))
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        _print(report)
    return 0


def _info(case: Case, kernels: tuple[str, ...], check: bool) -> CaseInfo:
    findings = audit.audit(case, secrets.randbits(64)) if check else None
    return CaseInfo(
        case=case.name,
        case_id=case.case_id,
        dims=dict(case.dims),
        default_for=_default_for(case.workload, f"{case.shape_name}-{case.dtype}"),
        tensors=tuple(TensorInfo(name=t.name, dtype=t.dtype, shape=t.shape, role=t.role) for t in case.tensors),
        domain=case.workload.domain,
        kernels=kernels,
        audit=None
        if findings is None
        else tuple(
            FindingInfo(
                what=finding.what,
                distribution=finding.distribution,
                share=finding.share if finding.share < float("inf") else None,
                wanted=finding.wanted,
                holds=finding.holds,
            )
            for finding in findings
        ),
    )


def _default_for(workload: Workload, name: str) -> tuple[Surface, ...]:
    return tuple(surface for surface, default in workload.default.items() if default == name)


def _print(report: CasesReport) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False)
    for column in ("case", "dimensions", "tensors", "kernels"):
        table.add_column(column, overflow="fold")
    for case in report.cases:
        default = f" (default for {', '.join(case.default_for)})" if case.default_for else ""
        dims = " ".join(f"{name}={size}" for name, size in case.dims.items())
        tensors = " ".join(f"{tensor.name}:{tensor.role}:{tensor.dtype}" for tensor in case.tensors)
        table.add_row(case.case + default, dims, tensors, " ".join(case.kernels))
    console.print(table)
    for case in report.cases:
        for finding in case.audit or ():
            share = "inf" if finding.share is None else f"{finding.share:.3g}"
            mark = "ok" if finding.holds else "FAILS"
            console.print(
                f"{case.case}: {finding.what} on {finding.distribution}: {share} of the bound, {finding.wanted}: {mark}"
            )
