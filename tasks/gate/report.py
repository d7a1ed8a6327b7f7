"""Gates kernel files: a file that is not a kernel is a verdict too, and everything ends in one report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experts.case import Case
from experts.ids import text_id
from experts.kernel import Kernel, KernelError, load
from experts.platform import env_id, environment
from experts.verdict import GateReport, Stage, Status, Verdict
from tasks.gate.runner import Progress, Settings, gate


@dataclass(frozen=True)
class Gated:
    """A report, and the texts it is about: a Kernel, or the bare text where it is none."""

    report: GateReport
    texts: tuple[Kernel | str, ...]


def gate_files(path: Path, case: Case, settings: Settings, baseline: Path | None, progress: Progress | None) -> Gated:
    """Gate the kernel in a file, against a baseline's file if given.

    Raises OSError where a file cannot be read, GateUnavailable where this machine cannot gate it.
    """
    read = [_read(each, case, settings) for each in (path, baseline) if each is not None]
    texts = tuple(item if isinstance(item, Kernel) else text for item, text in read)
    kernels = [item for item, _ in read if isinstance(item, Kernel)]
    if len(kernels) == len(read):
        outcome = gate(kernels[0], case, settings, kernels[1] if len(kernels) > 1 else None, progress)
        verdict, other = outcome.verdict, outcome.baseline
        facts, env = outcome.environment, outcome.env_id
    else:
        # A text that is no kernel ends the matter; the other one is gated alone, untimed.
        facts = environment(settings.platform, {})
        env = env_id(facts)
        found: list[Verdict] = []
        for item, _ in read:
            if isinstance(item, Verdict):
                found.append(item)
            else:
                alone = gate(item, case, settings.untimed(), None, progress)
                found.append(alone.verdict)
                facts, env = alone.environment, alone.env_id
        verdict, other = found[0], found[1] if len(found) > 1 else None
    report = GateReport(verdict=verdict, baseline=other, environment=facts, env_id=env, kept="not yet")
    return Gated(report, texts)


def _read(path: Path, case: Case, settings: Settings) -> tuple[Kernel | Verdict, str]:
    try:
        kernel = load(path)
    except KernelError as error:
        text = error.text or ""
        verdict = Verdict(
            outcome="rejected",
            stage=Stage.PARSE,
            status=Status.INVALID_KERNEL,
            reason=str(error),
            kernel_id=text_id(text),
            case=case.name,
            case_id=case.case_id,
            platform=settings.platform.name,
            tier=settings.tier,
        )
        return verdict, text
    return kernel, kernel.text
