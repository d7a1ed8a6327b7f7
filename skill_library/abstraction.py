"""From steps of lineages to candidate skills: steps of one intent by one rule are lifted into one card.

Everything that decides (anchor, carrier, preconditions, effects, risks, scope) is computed from rows. The prose that
says when to use it is written by a template, or, where a language model is in the DSPy context, by the model; it
decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import dspy

from experts.kernel import Surface
from experts.source import Anchor
from experts.verdict import Effect, Stage, Status
from skill_library.intents import INTENTS, canonical
from skill_library.learning import Learned
from skill_library.skill import (
    AnchorField,
    Carrier,
    ContextEffect,
    EvidenceField,
    Precondition,
    Preconditions,
    Risk,
    Scope,
    Skill,
)

Record = Mapping[str, Any]
_MAX_ROWS = 50
"""Named for one claim; the counts are of all."""
_FLIPPED = {Effect.FASTER: Effect.SLOWER, Effect.SLOWER: Effect.FASTER}


@dataclass(frozen=True)
class Step:
    """One transition with what else is known of it. Rows are dictionaries, as the datasets have them."""

    transition: Record
    edit: Record
    """The forward edit."""
    carried: Mapping[str, str | int | bool]
    """What of the edit's parameters carries over to other kernels."""
    sketch: str
    """The forward step as a unified diff."""
    surface: Surface
    dtype: str
    alone: Record | None
    """The attempt that took it straight out of the expert; None where that was refused or not tried."""
    others: tuple[str, ...]
    """Intents of the other steps of the lineage: what stands in the expert."""
    refused: tuple[Record, ...]
    """Attempts that took it out and were rejected."""
    probes: tuple[Record, ...]


def name_of(intent: str, rule: str, rules_of_intent: int) -> str:
    """A card's name: the intent, with the rule where several rules carry it."""
    plain = intent.removeprefix("new:")
    return plain if rules_of_intent < 2 else f"{plain}-{rule}"


def lift(name: str, steps: Sequence[Step], learned: Learned) -> Skill:
    """The candidate skill of steps that share intent, rule and surface; `learned` is what their probes gave."""
    first = steps[0]
    intent = canonical(str(first.transition["intent"]))
    rule = str(first.edit["rule"])
    effects = _effects(steps)
    conditions = _preconditions(learned)
    found = Skill(
        name=name,
        intent=intent,
        meaning=INTENTS[intent].meaning if intent in INTENTS else intent,
        when="",
        written_by="template",
        anchor=AnchorField(kind=kind_of(str(first.edit["anchor"])), rule=rule, examples=_examples(steps)),
        carrier=_carriers(steps, rule),
        preconditions=conditions,
        effects=effects,
        evidence=EvidenceField(
            transitions=_unique(step.transition["transition_id"] for step in steps),
            lineages=_unique(step.transition["lineage_id"] for step in steps),
            workloads=_unique(step.transition["workload"] for step in steps),
            attempts=len(effects) + sum(len(step.refused) for step in steps),
            probes=sum(len(step.probes) for step in steps),
            written_by=_unique(step.transition["written_by"] for step in steps),
        ),
        risks=_risks(steps, learned),
        scope=Scope(
            cases=_unique(step.transition["case"] for step in steps),
            workloads=_unique(step.transition["workload"] for step in steps),
            surface=first.surface,
            platforms=_unique(step.transition["platform"] for step in steps),
            prior=_unique(each for step in steps for each in step.transition.get("prior") or ()),
            dtypes=_unique(step.dtype for step in steps),
        ),
    )
    return Describe()(found)


def kind_of(anchor: str) -> str:
    """What an anchor's last step names: `loop`, `var`, ...; `function` where there is none."""
    try:
        steps = Anchor.parse(anchor).steps
    except ValueError:
        return "function"
    return steps[-1].kind.value if steps else "function"


def _unique(values: Any) -> tuple[str, ...]:
    return tuple(sorted({str(value) for value in values}))


def _examples(steps: Sequence[Step]) -> tuple[str, ...]:
    return _unique(f"{step.transition['workload']} {step.edit['anchor']}" for step in steps)


def _carriers(steps: Sequence[Step], rule: str) -> tuple[Carrier, ...]:
    """One for each way in which the steps were written; the one that gave most comes first."""
    ways: dict[tuple[tuple[str, str | int | bool], ...], Step] = {}
    for step in sorted(steps, key=lambda each: -(each.transition["ratio"] or 0.0)):
        ways.setdefault(tuple(sorted(step.carried.items())), step)
    return tuple(
        Carrier(
            rule=rule,
            params=dict(params),
            sketch=step.sketch,
            transition_id=str(step.transition["transition_id"]),
        )
        for params, step in ways.items()
    )


def _preconditions(learned: Learned) -> Preconditions:
    recovered: tuple[Precondition, ...] = ()
    if learned.predicate is not None:
        recovered = (
            Precondition(
                predicate=learned.predicate,
                text=str(learned.predicate),
                rows_for=learned.for_ids[:_MAX_ROWS],
                rows_against=learned.against_ids[:_MAX_ROWS],
                ambiguous=learned.ambiguous,
            ),
        )
    return Preconditions(
        kind=learned.kind, all_of=recovered, reason=learned.reason, passed=learned.passed, failed=learned.failed
    )


def _effects(steps: Sequence[Step]) -> tuple[ContextEffect, ...]:
    """Of each step on its rung, and straight in the expert."""
    found = []
    for step in steps:
        row = step.transition
        if row["ratio"] is not None:
            found.append(_effect(row, row, tuple(row["standing"] or ()), str(row["attempt_id"]), turned=False))
        if step.alone is not None and step.alone["ratio"] is not None:
            found.append(_effect(row, step.alone, step.others, str(step.alone["attempt_id"]), turned=True))
    return tuple(found)


def _effect(
    step: Record, measured: Record, standing: tuple[str, ...], attempt_id: str, *, turned: bool
) -> ContextEffect:
    effect = Effect(measured["effect"])
    ratio, low, high = measured["ratio"], measured["low"], measured["high"]
    if turned:
        effect, ratio, low, high = _FLIPPED.get(effect, effect), 1 / ratio, 1 / high, 1 / low
    return ContextEffect(
        platform=step["platform"],
        env_id=measured["env_id"],
        workload=step["workload"],
        case=step["case"],
        standing=standing,
        effect=effect,
        ratio=ratio,
        low=low,
        high=high,
        pairs=int(measured["pairs"]),
        attempt_id=attempt_id,
    )


def _risks(steps: Sequence[Step], learned: Learned) -> tuple[Risk, ...]:
    """From probes that failed where the kernel without it passed, and from removals that were refused."""
    rows: dict[tuple[Literal["attempts", "probes"], str, str, str], list[str]] = defaultdict(list)
    against = set(learned.against_ids)
    false = f"not ({learned.predicate})" if learned.predicate is not None else "at some of the probed shapes"
    for step in steps:
        for probe in step.probes:
            if probe["probe_id"] in against:
                rows["probes", probe["status"], probe["stage"], false].append(probe["probe_id"])
        for attempt in step.refused:
            trigger = "the other optimizations stand that its removal was tried beside"
            rows["attempts", attempt["status"], attempt["stage"], trigger].append(attempt["attempt_id"])
    return tuple(
        Risk(
            status=Status(status),
            stage=Stage(stage),
            trigger=trigger,
            dataset=dataset,
            rows=tuple(dict.fromkeys(ids))[:_MAX_ROWS],
        )
        for (dataset, status, stage, trigger), ids in sorted(rows.items())
    )


class DescribeSkill(dspy.Signature):  # type: ignore[misc]
    """Say when a GPU kernel optimization is sound and worth trying, from measured evidence only.

    Two to four sentences for a kernel engineer. State the conditions exactly as given, what it was worth and in which
    context, how it fails, and what must stand before it. Claim nothing that the evidence does not show.
    """

    intent: str = dspy.InputField(desc="name of the optimization and what it does")
    conditions: str = dspy.InputField(desc="recovered preconditions, or why none can be false")
    effects: str = dspy.InputField(desc="measured speedups with 95 % intervals, by context")
    risks: str = dspy.InputField(desc="how it failed, and when")
    prior: str = dspy.InputField(desc="optimizations that must stand before it")
    when: str = dspy.OutputField(desc="when to use it and when not")


class Describe(dspy.Module):  # type: ignore[misc]
    """Writes a card's prose: the LM in the DSPy context, or a template where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.describe = dspy.Predict(DescribeSkill)

    def forward(self, skill: Skill) -> Skill:
        """The skill with its prose. Raises what the LM raises; an empty answer leaves the template's."""
        lm = dspy.settings.lm
        if lm is None:
            return skill.model_copy(update={"when": template(skill), "written_by": "template"})
        answer = self.describe(
            intent=f"{skill.intent}: {skill.meaning}",
            conditions=conditions_text(skill),
            effects=effects_text(skill),
            risks=risks_text(skill),
            prior=", ".join(skill.scope.prior) or "none known",
        )
        words = " ".join(str(answer.when or "").split())
        if not words:
            return skill.model_copy(update={"when": template(skill), "written_by": "template"})
        return skill.model_copy(update={"when": words, "written_by": str(getattr(lm, "model", "lm"))})

    def __call__(self, skill: Skill) -> Skill:
        """See forward."""
        return cast(Skill, super().__call__(skill=skill))


def template(skill: Skill) -> str:
    """The prose of a card without a language model."""
    parts = [conditions_text(skill)]
    if skill.scope.prior:
        parts.append(f"It goes in after {', '.join(skill.scope.prior)}.")
    parts.append(effects_text(skill))
    if skill.risks:
        parts.append(risks_text(skill))
    return " ".join(parts)


def conditions_text(skill: Skill) -> str:
    """The preconditions in words."""
    found = skill.preconditions
    if found.all_of:
        stated = " and ".join(f"`{each.text}`" for each in found.all_of)
        return (
            f"Sound where {stated}: {found.passed} probes passed where it holds, and {found.failed} failed where it "
            "does not."
        )
    return f"No precondition: {found.reason}." if found.kind == "none_needed" else f"Unsure when: {found.reason}."


def effects_text(skill: Skill) -> str:
    """The effects in words."""
    if not skill.effects:
        return "Its effect was not measured."
    faster = [each for each in skill.effects if each.effect is Effect.FASTER]
    if not faster:
        best = max(skill.effects, key=lambda each: each.ratio)
        return (
            f"It was never faster by itself ({len(skill.effects)} measured contexts, at best {best.ratio:.2f}x in "
            f"{best.case}): use it where others need it."
        )
    best = max(faster, key=lambda each: each.low)
    rest = len(skill.effects) - len(faster)
    told = f"Faster in {len(faster)} of {len(skill.effects)} measured contexts, up to {best.ratio:.2f}x "
    told += f"({best.low:.2f} to {best.high:.2f}) in {best.case} on {best.platform}"
    return told + (f"; in {rest} it made no difference or none that is certain." if rest else ".")


def risks_text(skill: Skill) -> str:
    """The risks in words."""
    if not skill.risks:
        return "No failure was recorded."
    told = "; ".join(
        f"{each.status} at {each.stage} ({len(each.rows)} rows), where {each.trigger}" for each in skill.risks
    )
    return f"Otherwise: {told}."
