"""One run of a walk: its ids, its lock, its rows; killed and started again, it goes on from the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from experts.case import Case
from experts.kernel import Kernel
from skill_library.records import lineage_id, run_id
from tasks import runs
from tasks.evidence import Roots
from tasks.gate.runner import Settings, surroundings
from tasks.rewrite.edit import Rule
from tasks.rewrite.rules import RULES, RULES_VERSION
from tasks.trials import Desk
from tasks.walk.forward import forward
from tasks.walk.inventory import inventory
from tasks.walk.record import transitions
from tasks.walk.report import WalkReport, report
from tasks.walk.walk import Submit, walk

Rewriter = Literal["rule"]
DEFAULT_PAIRS = 60
"""Of samples for a step: what is not clear by then is undecided, and the walk goes on all the same."""


@dataclass(frozen=True)
class Job:
    """What to walk, and how."""

    kernel: Kernel
    case: Case
    settings: Settings
    roots: Roots
    rewriter: Rewriter = "rule"
    fresh: bool = False
    """Repeat a run that the evidence has, instead of going on with it."""
    rules: Sequence[Rule] = RULES


@contextmanager
def opened(job: Job) -> Iterator[Desk]:
    """The desk of a run, held by this process alone.

    Raises Busy, GateUnavailable, StoreError, LockError.
    """
    _, env_id = surroundings(job.settings)
    identity = run_id(
        "walk",
        kernel_id=job.kernel.kernel_id,
        case_id=job.case.case_id,
        env_id=env_id,
        configuration={
            "rewriter": job.rewriter,
            "rules": {"version": RULES_VERSION, "names": [rule.name for rule in job.rules]},
            "tier": job.settings.tier,
            "timeout": job.settings.timeout,
            "pairs": job.settings.pairs if job.settings.profile else 0,
            "platform": job.settings.platform.name,
        },
    )

    with runs.held("walk", identity, job.roots, "attempts", fresh=job.fresh) as (evidence, repetition):
        yield Desk(evidence, job.case, job.settings, identity, repetition)


def run(job: Job, desk: Desk, submit: Submit, told: Callable[[str], None] = lambda text: None) -> WalkReport:
    """Walk, keep the lineage, and say what came of it. Raises ExpertInvalid, and what trials raise."""
    walked = walk(job.kernel, job.rules, submit)
    told("forward steps")
    forwards = forward(walked, job.rules, submit)
    rows = transitions(walked, forwards, job.rules, desk.run_id)
    desk.keep(rows)
    told("compacting")
    desk.compact()
    return report(
        walked,
        forwards,
        inventory(walked.last, job.rules),
        lineage_id=lineage_id(desk.run_id, [kernel.kernel_id for kernel in walked.states]),
        run_id=desk.run_id,
        repetition=desk.repetition,
    )
