"""`klineage demo`: the whole story on this machine, with neither a GPU nor a language model.

An expert is taken apart, its steps are probed and lifted into skills, the skills are admitted on states that no lineage
had, and a kernel that nobody has optimized is made faster with them.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

import experts
from flows.commands import options
from flows.commands.induce import induced
from flows.commands.optimize import optimized
from flows.commands.roundtrip import decided
from flows.commands.walk import show, walked
from flows.jobs import DEMO_SHAPES, OptimizeRequest, ProbeRequest, RoundtripRequest, WalkRequest
from tasks.induce.report import InduceReport

_EXPERTS = Path(experts.__file__).parent
EXPERT = _EXPERTS / "kde" / "expert.cl"
"""Few optimizations, and every one of them a step: a walk takes half a minute."""
USERS = _EXPERTS / "softmax" / "naive.cl"
"""A kernel of a workload that no lineage came from."""
ATTEMPTS = 4
"""Enough for each loop; the rest would be spent on what no longer helps."""


def command(data: options.Data = None) -> int:
    """Take an expert apart, learn skills from it, admit them, and make another kernel faster with them."""
    from flows.skill_view import print_decisions, print_induced, print_optimization

    root = str(options.roots(data).user)
    begun = time.monotonic()
    _say(begun, f"1. walk: {_name(EXPERT)} backward, one optimization at a time")
    report = walked(WalkRequest(str(EXPERT), data=root))
    if report is None:
        return 1
    show(report, options.roots(data))
    _say(begun, f"2. probe and induce: at which of {DEMO_SHAPES} shapes is each step sound, and what becomes of them")
    skills = induced(ProbeRequest(report.lineage_id, DEMO_SHAPES, data=root))
    print_induced(skills)
    _say(begun, "3. roundtrip: do those that help hold on states that no lineage had, and fail where they should")
    wanted = _helpful(skills)
    if wanted:
        print_decisions(decided(RoundtripRequest(wanted, data=root)))
    _say(begun, f"4. optimize: {_name(USERS)}, which nobody has optimized, with what was admitted")
    found = optimized(OptimizeRequest(str(USERS), attempts=ATTEMPTS, data=root))
    if found is None:
        return 1
    print_optimization(found)
    _say(begun, "done; next: klineage skills, klineage skills why SKILL, klineage optimize YOUR.cl")
    return 0


def _helpful(report: InduceReport) -> tuple[str, ...]:
    """Candidates that help somewhere, and those that they come after."""
    helpful = [each for each in report.skills if each.speeds_up]
    needed = {intent for each in helpful for intent in each.prior}
    wanted = [each for each in report.skills if each.speeds_up or each.intent in needed]
    return tuple(each.name for each in wanted if each.standing == "candidate")


def _say(begun: float, text: str) -> None:
    told = f"\n[bold]{text}[/] [dim]({time.monotonic() - begun:.0f} s)[/]"
    Console(highlight=False, soft_wrap=True).print(told)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
