"""What the flows leave in the Prefect UI: ladders and tables, each step's diff (markdown), the plot (image)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact

from experts.difference import difference
from flows.plot import data_uri
from skill_library.ladder import Ladder, Ratio
from tasks.induce.report import InduceReport
from tasks.optimize.report import OptimizeReport
from tasks.roundtrip.report import Decision
from tasks.trials import Tried

MAX_DIFF_LINES = 400
"""Of one step: the UI keeps every version."""


def slug(name: str) -> str:
    """A key as Prefect takes them: lowercase letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def keep_step(name: str, tried: Tried) -> None:
    """The diff of one tried step, on its task run."""
    trial = tried.trial
    if trial.parent is None or trial.edit is None:
        return
    diff = "\n".join(difference(trial.parent, trial.kernel, most=MAX_DIFF_LINES))
    reason = f"\n\n{tried.row['reason']}" if tried.row["reason"] else ""
    create_markdown_artifact(
        key=slug(f"{name}-diff-{trial.label}"),
        description=f"{trial.edit.intent} out of {trial.edit.anchor}",
        markdown=f"### {trial.label}: {tried.told}\n\n`{trial.edit.anchor}`{reason}\n\n```diff\n{diff}\n```\n",
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


def keep_optimization(name: str, report: OptimizeReport) -> None:
    """What was tried on a kernel, on the flow run."""
    create_table_artifact(
        key=slug(f"{name}-optimize"),
        description=f"{report.case} on {report.platform}: {report.speedup.ratio:.3g}x; {report.ended}",
        table=[
            {
                "skills": " + ".join(each.skills),
                "anchor": str(each.edits[0]["anchor"]) if each.edits else "",
                "verdict": each.status if each.effect is None else each.effect,
                "ratio": "" if each.ratio is None else f"{each.ratio:.3g}x ({each.low:.3g} to {each.high:.3g})",
                "kept": "yes" if each.kept else "",
            }
            for each in report.attempts
        ],
    )


def keep_decisions(decisions: Sequence[Decision]) -> None:
    """What became of skills, on the flow run."""
    create_table_artifact(
        key="skills-decided",
        description="Skills after their roundtrips",
        table=[
            {"skill": each.skill, "before": each.before, "now": each.standing, "reason": each.reason}
            for each in decisions
        ],
    )


def keep_skills(report: InduceReport) -> None:
    """What was induced, on the flow run."""
    create_table_artifact(
        key="skills-induced",
        description=f"Skills lifted from {report.transitions} steps",
        table=[
            {
                "skill": each.name,
                "steps": each.steps,
                "conditions": "; ".join(each.preconditions) or each.conditions,
                "standing": each.standing,
            }
            for each in report.skills
        ],
    )


def _ratio(found: Ratio | None) -> str:
    return "" if found is None else f"{found.ratio:.3g}x ({found.low:.3g} to {found.high:.3g}) {found.effect}"
