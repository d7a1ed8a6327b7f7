"""A ladder on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from experts.difference import difference
from experts.kernel import Kernel
from experts.verdict import Effect
from skill_library.ladder import Ladder, Ratio
from tasks.walk.report import WalkReport

_COLOURS = {Effect.FASTER: "green", Effect.SLOWER: "red", Effect.TIE: "cyan", Effect.UNDECIDED: "yellow"}
_WIDTH = 132
_PARTS = 3


def print_ladder(ladder: Ladder, console: Console | None = None) -> None:
    """The ladder on stdout: the expert on top, each rung with what its optimization is worth."""
    console = console or _console()
    console.print(
        f"[bold]lineage {ladder.lineage_id}[/]: {escape(ladder.case)} on {ladder.platform}; "
        f"the expert's time t is {_time(ladder.expert_us)} a call",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right")
    table.add_column("taken out", no_wrap=True)
    table.add_column("where", overflow="fold", style="dim")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("worth here (95 %)", no_wrap=True)
    table.add_column("in the expert", no_wrap=True)
    for rung, slowdown in zip(ladder.rungs, ladder.slowdowns, strict=True):
        table.add_row(
            str(rung.step + 1),
            rung.intent,
            escape(_short(rung.anchor)),
            "?" if slowdown is None else f"{slowdown:.2f} t",
            _ratio(rung.here) if rung.here else f"[dim]forward {rung.forward}[/]",
            _ratio(rung.alone, short=True),
        )
    console.print(table)
    if ladder.refusals:
        console.print("[bold]refused[/]")
        refused = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(4):
            refused.add_column(overflow="fold")
        for each in ladder.refusals:
            where = "from the expert" if each.purpose == "from_expert" else "in the chain"
            refused.add_row(
                f"  {each.intent}",
                f"[dim]{escape(_short(each.anchor))}[/]",
                where,
                f"[red]{each.status}[/] at {each.stage}",
            )
        console.print(refused)


def print_end(report: WalkReport, console: Console | None = None) -> None:
    """Where a walk stopped, and what has to go before what."""
    console = console or _console()
    for each in report.precedence:
        shown = "its rule declines" if not each.shown_by else "the gate refuses"
        console.print(
            f"[bold]order[/]: {each.needs} [dim]{escape(each.needs_anchor)}[/] before {each.intent} "
            f"[dim]{escape(each.anchor)}[/] ({shown} to take it out otherwise)",
            soft_wrap=True,
        )
    console.print(
        f"{report.accepted} steps accepted, {report.rejected} attempts refused, {report.gated} gated now; "
        f"{_time(report.expert_us)} -> {_time(report.last_us)}",
        soft_wrap=True,
    )
    if report.left is None:
        console.print("left: [bold]unknown[/], the kernel declares no intents", soft_wrap=True)
    elif report.left:
        console.print(f"left, as no rule takes it out: [bold]{', '.join(report.left)}[/]", soft_wrap=True)
    for declined in report.declined:
        console.print(
            f"  [dim]declined: {declined.intent} at {escape(declined.anchor)}: {escape(declined.reason)}[/]",
            soft_wrap=True,
        )


def print_diffs(ladder: Ladder, texts: Mapping[str, Kernel], console: Console | None = None) -> None:
    """What each step takes out."""
    console = console or _console()
    for rung in ladder.rungs:
        above, below = texts[rung.above_id], texts[rung.simplified_id]
        console.print(f"\n[bold]{rung.step + 1} {rung.intent}[/] {escape(rung.anchor or '')}")
        console.print(Syntax("\n".join(difference(above, below)), "diff", background_color="default", word_wrap=True))


def _console() -> Console:
    """Stdout; where it is no terminal, wide enough for a ladder."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _short(anchor: str | None) -> str:
    """Function and innermost place: `gemm/../loop[k]/hint[unroll]`."""
    parts = (anchor or "").split("/")
    return anchor or "" if len(parts) <= _PARTS else "/".join((parts[0], "..", *parts[1 - _PARTS :]))


def _ratio(found: Ratio | None, short: bool = False) -> str:
    if found is None:
        return "[dim]-[/]"
    colour = _COLOURS[found.effect]
    if short:
        return f"[{colour}]{found.ratio:.2f}x[/]"
    return f"[{colour}]{found.ratio:.2f}x[/] ({found.low:.2f} to {found.high:.2f}) {found.effect}"


def _time(microseconds: float | None) -> str:
    if microseconds is None:
        return "?"
    return f"{microseconds / 1000:.3g} ms" if microseconds >= 1000 else f"{microseconds:.3g} us"
