"""What a walk leaves in the Prefect UI: the ladder (table), each step's diff (markdown), the plot (image)."""

from __future__ import annotations

import difflib
import re

from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact

from experts.kernel import Kernel
from flows.plot import data_uri
from skill_library.ladder import Ladder, Ratio
from tasks.walk.trial import Tried

MAX_DIFF_LINES = 400
"""Of one step: the UI keeps every version."""


def slug(name: str) -> str:
    """A key as Prefect takes them: lowercase letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def diff(above: Kernel, below: Kernel) -> str:
    """What a step takes out, as a unified diff without file names."""
    lines = difflib.unified_diff(above.text.splitlines(), below.text.splitlines(), lineterm="", n=2)
    shown = list(lines)[2:]
    more = len(shown) - MAX_DIFF_LINES
    return "\n".join([*shown[:MAX_DIFF_LINES], *([f"... {more} more lines"] if more > 0 else [])])


def keep_step(name: str, tried: Tried) -> None:
    """The diff of one tried step, on its task run."""
    trial = tried.trial
    if trial.parent is None or trial.edit is None:
        return
    reason = f"\n\n{tried.row['reason']}" if tried.row["reason"] else ""
    create_markdown_artifact(
        key=slug(f"{name}-diff-{trial.label}"),
        description=f"{trial.edit.intent} out of {trial.edit.anchor}",
        markdown=f"### {trial.label}: {tried.told}\n\n`{trial.edit.anchor}`{reason}\n\n"
        f"```diff\n{diff(trial.parent, trial.kernel)}\n```\n",
    )


def keep_ladder(name: str, ladder: Ladder) -> None:
    """The ladder and its plot, on the flow run."""
    rows: list[dict[str, object]] = [
        {
            "step": "",
            "intent": "expert",
            "anchor": "",
            "time": "1 t",
            "effect here": "",
            "effect alone": "",
            "forward": "",
        }
    ]
    rows += [
        {
            "step": rung.step + 1,
            "intent": rung.intent,
            "anchor": rung.anchor or "",
            "time": "?" if slowdown is None else f"{slowdown:.2f} t",
            "effect here": _ratio(rung.here),
            "effect alone": _ratio(rung.alone),
            "forward": rung.forward,
        }
        for rung, slowdown in zip(ladder.rungs, ladder.slowdowns, strict=True)
    ]
    described = f"Lineage {ladder.lineage_id}: {ladder.case} on {ladder.platform}; t is the expert's time"
    create_table_artifact(key=slug(f"{name}-ladder"), table=rows, description=described)
    if ladder.refusals:
        create_table_artifact(
            key=slug(f"{name}-refused"),
            description=f"Lineage {ladder.lineage_id}: removals that were refused",
            table=[
                {
                    "purpose": each.purpose,
                    "intent": each.intent,
                    "anchor": each.anchor or "",
                    "status": each.status,
                    "stage": each.stage,
                    "reason": each.reason or "",
                }
                for each in ladder.refusals
            ],
        )
    create_image_artifact(key=slug(f"{name}-plot"), image_url=data_uri(ladder), description=described)


def _ratio(found: Ratio | None) -> str:
    return "" if found is None else f"{found.ratio:.3g}x ({found.low:.3g} to {found.high:.3g}) {found.effect}"
