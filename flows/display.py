"""How things look on a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from experts.verdict import Effect, GateReport, Profile, Verdict
from tasks.trials import Tried

_COLOURS = {Effect.FASTER: "green", Effect.SLOWER: "red", Effect.TIE: "cyan", Effect.UNDECIDED: "yellow"}


class GateProgress:
    """One line for each kernel on stderr while the gate works; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[label]:<9}"),
            TextColumn("{task.description:<22}"),
            BarColumn(24),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            # Drawing takes time on the cores that are being timed.
            refresh_per_second=4,
            disable=not Console(stderr=True).is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> GateProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, label: str, what: str, done: int, total: int) -> None:
        """`label` is the kernel's part, or empty for both together; a `total` of 0 means that it is not known."""
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(what, label=label or "both")
        for other, task in self._tasks.items():
            # Either each kernel has its line, or both share one.
            self._progress.update(task, visible=bool(other) == bool(label))
        self._progress.update(self._tasks[label], description=what, completed=done, total=total or None)


class WalkProgress:
    """One line on stderr for each trial of a walk as it ends, and on a terminal what is going on now."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status = self._console.status("", refresh_per_second=4)
        self._begun = time.monotonic()

    def __enter__(self) -> WalkProgress:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def note(self, text: str) -> None:
        """What is going on."""
        if self._console.is_terminal:
            self._status.update(escape(text))
        else:
            self._console.print(f"[dim]{escape(text)}[/]")

    def line(self, what: str, told: str) -> None:
        """Something else ended."""
        seconds = time.monotonic() - self._begun
        self._console.print(f"[dim]{seconds:5.0f} s[/]   {escape(what)}: {escape(told)}")

    def __call__(self, tried: Tried) -> None:
        """A trial ended."""
        mark = "[green]+[/]" if tried.accepted else "[red]-[/]"
        place = tried.trial.edit.anchor if tried.trial.edit else ""
        known = " [dim](recorded)[/]" if tried.recorded else ""
        seconds = time.monotonic() - self._begun
        self._console.print(
            f"[dim]{seconds:5.0f} s[/] {mark} {escape(tried.trial.label)} [dim]{escape(place)}[/]: {tried.told}{known}"
        )
        if self._console.is_terminal:
            self._status.update("gating the next step")


def print_report(report: GateReport, file: Path, baseline: Path | None) -> None:
    """A verdict in a few lines on stdout."""
    console = Console(highlight=False, soft_wrap=True)
    _print_verdict(console, report.verdict, file)
    if report.baseline is not None and baseline is not None:
        _print_verdict(console, report.baseline, baseline)
    if report.verdict.profile is not None:
        _print_profile(console, report.verdict.profile, baseline)
    if report.verdict.isolation == "process":
        console.print(
            "[bold yellow]isolation: process[/] - the candidate ran with this user's rights; see klineage doctor"
        )


def _print_verdict(console: Console, verdict: Verdict, file: Path) -> None:
    colour = "green" if verdict.outcome == "passed" else "red"
    name = escape(str(file))
    head = f"[bold {colour}]{verdict.outcome}[/] {name} on {verdict.case}, {verdict.platform}"
    if verdict.outcome == "rejected":
        console.print(f"{head}: [bold]{verdict.status}[/] at {verdict.stage}")
        console.print(f"  {escape(verdict.reason or '')}")
        for line in (verdict.log or "").splitlines()[:12]:
            console.print(f"  [dim]| {escape(line)}[/]")
        return
    facts = []
    if verdict.correctness is not None and verdict.domain is not None:
        facts.append(f"error {verdict.correctness.error:.2g} of its bound")
        facts.append(f"{verdict.correctness.launches} calls checked on {len(verdict.domain.checked)} shapes")
        if verdict.domain.refused:
            facts.append(f"{len(verdict.domain.refused)} shapes refused by [require]")
    if verdict.clean:
        facts.append("sanitizer clean")
    if verdict.cached:
        facts.append("from the cache")
    facts.append(f"isolation {verdict.isolation}")
    console.print(head)
    console.print(f"  {escape('; '.join(facts))}")


def _print_profile(console: Console, profile: Profile, baseline: Path | None) -> None:
    if profile.effect is None or profile.baseline_us is None:
        console.print(f"  {_time(profile.candidate_us)} a call (median of {len(profile.candidate_samples_us)} samples)")
        return
    colour = _COLOURS[profile.effect]
    console.print(
        f"[bold {colour}]{profile.effect}[/] than {escape(str(baseline))}: "
        if profile.effect in (Effect.FASTER, Effect.SLOWER)
        else f"[bold {colour}]{profile.effect}[/] with {escape(str(baseline))}: ",
        end="",
    )
    console.print(
        f"[bold]{profile.ratio:.3g}x[/] (95 %: {profile.low:.3g} to {profile.high:.3g}, {profile.pairs} pairs); "
        f"{_time(profile.candidate_us)} against {_time(profile.baseline_us)}"
    )
    if profile.gpu is not None and profile.gpu.throttled:
        console.print(f"  [yellow]the GPU's clocks were held down: {', '.join(profile.gpu.throttled)}[/]")


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.3g} ms" if microseconds >= 1000 else f"{microseconds:.3g} us"
