"""Skills, their admission and what they did, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table

from experts.verdict import Effect
from skill_library.document import document
from skill_library.skill import Skill
from tasks.induce.report import InduceReport
from tasks.induce.why import WhyReport
from tasks.optimize.report import OptimizeReport
from tasks.roundtrip.report import RoundtripReport

_STANDING = {"admitted": "green", "candidate": "cyan", "waiting": "yellow", "quarantined": "red"}
_COLOURS = {Effect.FASTER: "green", Effect.SLOWER: "red", Effect.TIE: "cyan", Effect.UNDECIDED: "yellow"}
_WIDTH = 132
_ROWS = 4
"""Of one claim that are printed; --json has all."""
_REASON = 160


def print_skills(skills: Sequence[Skill]) -> None:
    """One line a skill."""
    console = _console()
    if not skills:
        console.print("no skill yet: klineage walk KERNEL, then klineage induce and klineage roundtrip make some")
        return
    table = _table("skill", "standing", "sound where", "after", "worth at best")
    for each in skills:
        best = max(each.effects, key=lambda effect: effect.low, default=None)
        worth = "-" if best is None else f"{best.ratio:.2f}x {best.effect} in {best.case}"
        table.add_row(
            each.name,
            _standing(each.verification.standing),
            escape(_conditions(each)),
            ", ".join(each.scope.prior) or "-",
            worth,
        )
    console.print(table)


def print_induced(report: InduceReport) -> None:
    """What was induced."""
    console = _console()
    table = _table("skill", "steps", "sound where", "standing")
    for each in report.skills:
        told = "; ".join(each.preconditions) or _KINDS[each.conditions]
        table.add_row(each.name, str(each.steps), escape(told), _standing(each.standing))
    console.print(table)
    new = sum(each.changed for each in report.skills)
    console.print(f"{len(report.skills)} skills from {report.transitions} steps, {new} new or changed")
    if report.unreadable:
        console.print(f"[yellow]{report.unreadable} steps left out[/]: their kernels or cases are not here")


def print_decisions(report: RoundtripReport) -> None:
    """What became of skills."""
    console = _console()
    for each in report.decisions:
        console.print(
            f"{_standing(each.standing)} [bold]{each.skill}[/]: {escape(_short(each.reason))}", soft_wrap=True
        )
        for trial in each.trials:
            reason = f" ({escape(_short(trial.reason))})" if trial.reason else ""
            console.print(
                f"  [dim]{trial.trial}, held out {trial.held_out} of {trial.case}: {trial.result}{reason}[/]",
                soft_wrap=True,
            )
    if not report.decisions:
        console.print("nothing to decide: every skill was decided on this platform by this gate")
    console.print(f"{report.admitted} skills stand admitted, {report.gated} gates now")


def print_optimization(report: OptimizeReport) -> None:
    """What was tried and what came of it."""
    console = _console()
    for each in report.attempts:
        mark = "[green]+[/]" if each.kept else "[dim]-[/]"
        what = " + ".join(each.skills)
        anchor = escape(str(each.edits[0]["anchor"])) if each.edits else ""
        if each.effect is None or each.ratio is None:
            told = each.status if each.status != "ok" else "passed"
        else:
            colour = _COLOURS[each.effect]
            told = f"[{colour}]{each.effect}[/] {each.ratio:.3g}x ({each.low:.3g} to {each.high:.3g})"
        console.print(f"{mark} {what} [dim]{anchor}[/]: {told}", soft_wrap=True)
    if report.refused:
        console.print("not tried:")
    for refused in report.refused:
        reason = escape(_short(refused.reason))
        console.print(f"  {refused.skill} [dim]{escape(refused.anchor)}[/]: {reason}", soft_wrap=True)
    found = report.speedup
    tried = f"{len(report.attempts)} candidates, {report.gated} gates now; {report.ended}"
    if not report.skills:
        console.print(f"no gain on {report.case}: {tried} ({report.library} skills retrieved)")
    else:
        console.print(
            f"[bold green]{found.ratio:.3g}x[/] (95 %: {found.low:.3g} to {found.high:.3g}) on {report.case}, "
            f"{report.platform}: {tried}",
            soft_wrap=True,
        )
    console.print(f"best: {escape(report.best)}", soft_wrap=True)


def print_card(skill: Skill) -> None:
    """A card, as its SKILL.md says it."""
    body = document(skill).partition("---\n")[2].partition("---\n")[2]
    _console().print(Markdown(body))


def print_why(report: WhyReport) -> None:
    """Claims and their rows."""
    console = _console()
    console.print(f"[bold]{report.skill}[/] [dim]{report.skill_id}[/]")
    for claim in report.claims:
        console.print(f"\n[bold]{claim.field}[/]: {escape(claim.text)}", soft_wrap=True)
        for row in claim.rows[:_ROWS]:
            mark = "" if row.found else "[red]missing[/] "
            console.print(f"  {mark}[dim]{row.dataset}[/] {row.id} {escape(_short(row.says))}", soft_wrap=True)
        if len(claim.rows) > _ROWS:
            console.print(f"  [dim]{len(claim.rows) - _ROWS} more rows[/]")
    if report.missing:
        console.print(f"\n[yellow]{report.missing} rows are not in the evidence at hand[/]")


_KINDS = {
    "none_needed": "none can be false",
    "unexplained": "unexplained failures",
    "undetermined": "not known",
    "recovered": "",
}


def _conditions(skill: Skill) -> str:
    return "; ".join(each.text for each in skill.preconditions.all_of) or _KINDS[skill.preconditions.kind]


def _standing(standing: str) -> str:
    return f"[{_STANDING[standing]}]{standing}[/]"


def _short(text: str | None) -> str:
    told = text or ""
    return told if len(told) <= _REASON else f"{told[: _REASON - 3]}..."


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _console() -> Console:
    """Stdout; where it is no terminal, wide enough for a table."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)
