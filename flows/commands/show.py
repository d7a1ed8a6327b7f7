"""`klineage show`: a lineage as a ladder, from the evidence."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from experts.kernel import Kernel, parse
from flows.commands import options
from flows.commands.failure import Failure
from skill_library.ladder import LadderError, ladder, resolve
from tasks.evidence import Evidence, StoreError


def command(
    lineage: Annotated[
        str, typer.Argument(help="The lineage's id, or its beginning; or: last", metavar="LINEAGE")
    ] = "last",
    diffs: Annotated[bool, typer.Option("--diff", help="What each step takes out, too.")] = False,
    data: options.Data = None,
    shipped: options.Shipped = None,
    as_json: options.Json = False,
) -> int:
    """Show a lineage: every rung with its measured reason, and what was refused."""
    from flows.ladder_view import print_diffs, print_ladder

    roots = options.roots(data, shipped)
    try:
        with Evidence(roots) as evidence:
            transitions = evidence.read("transitions")
            found = ladder(evidence.read("attempts"), transitions, resolve(transitions, lineage))
            texts = _texts(evidence, found.states) if diffs else {}
    except (LadderError, StoreError) as error:
        raise Failure(str(error)) from None
    if as_json:
        sys.stdout.write(found.model_dump_json() + "\n")
        return 0
    print_ladder(found)
    if diffs:
        print_diffs(found, texts)
    return 0


def _texts(evidence: Evidence, wanted: tuple[str, ...]) -> dict[str, Kernel]:
    frame = evidence.read("kernels")
    frame = frame[frame["kernel_id"].isin(wanted)]
    return {row["kernel_id"]: parse(row["text"], surface=row["surface"]) for row in frame.to_dict("records")}
