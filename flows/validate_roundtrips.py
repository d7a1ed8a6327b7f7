"""Flow validate-roundtrips: admit, keep waiting or quarantine skills by held-out roundtrips.

Scheduled it decides what is new since the last run: candidates, and what another gate or platform decided.

    prefect deployment run validate-roundtrips/validate-roundtrips --watch
"""

from __future__ import annotations

from functools import partial

from prefect import flow, get_run_logger

from flows.artifacts import keep_decisions
from flows.gating import RUNNER, GateTasks
from flows.jobs import RoundtripRequest
from tasks.evidence import Evidence
from tasks.gate.runner import CALL_SECONDS
from tasks.induce.steps import Known
from tasks.roundtrip.report import Decision, RoundtripReport
from tasks.roundtrip.run import decide, due, opened
from tasks.walk.run import DEFAULT_PAIRS


@flow(name="validate-roundtrips", task_runner=RUNNER, persist_result=False)
def validate_roundtrips(
    skills: list[str] | None = None,
    platform: str | None = None,
    again: bool = False,
    pairs: int = DEFAULT_PAIRS,
    timeout: float = CALL_SECONDS,
    data: str | None = None,
    experts: list[str] | None = None,
) -> RoundtripReport:
    """Decide skills.

    Args:
        skills: names; all that this platform has not decided yet, by default.
        platform: which platform; by default this machine's.
        again: decide those, too, that were decided here.
        pairs: samples for a comparison, at most: 20, 60, 150 or 400.
        timeout: seconds for one call of a kernel.
        data: where evidence is kept; by default KLINEAGE_DATA, or ./.klineage.
        experts: folders of workloads, searched first.
    """
    request = RoundtripRequest(tuple(skills or ()), platform, again, pairs, timeout, data, tuple(experts or ()))
    work = request.job()
    log = get_run_logger()
    with Evidence(work.roots) as evidence:
        known = Known(evidence)
    decisions: list[Decision] = []
    gated = 0
    for skill in due(work):
        with opened(work, skill) as office:
            decision, spent = decide(office, skill, known, partial(GateTasks, skill.name))
        decisions.append(decision)
        gated += spent
        log.info("%s: %s (%s)", decision.skill, decision.standing, decision.reason)
    with Evidence(work.roots) as evidence:
        evidence.compact()
    keep_decisions(decisions)
    admitted = sum(each.verification.standing == "admitted" for each in work.library.skills())
    return RoundtripReport(
        platform=work.settings.platform.name, decisions=tuple(decisions), admitted=admitted, gated=gated
    )
