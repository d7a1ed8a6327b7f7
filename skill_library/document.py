"""SKILL.md of a card: the Agent Skills format, made from card.json alone, for people and coding agents."""

from __future__ import annotations

import json
from collections.abc import Iterator

from skill_library.skill import ContextEffect, Skill

_MAX_DESCRIPTION = 1024
_MAX_EFFECTS = 12


def document(skill: Skill) -> str:
    """The whole file."""
    return "\n".join([*_front(skill), "", *_body(skill)]) + "\n"


def _front(skill: Skill) -> Iterator[str]:
    description = f"{skill.meaning[:1].upper()}{skill.meaning[1:]}. {skill.when}"
    if len(description) > _MAX_DESCRIPTION:
        description = description[: _MAX_DESCRIPTION - 3] + "..."
    yield "---"
    yield f"name: {skill.name}"
    # JSON strings are YAML strings.
    yield f"description: {json.dumps(description, ensure_ascii=False)}"
    yield "license: Apache-2.0"
    verified = f"{skill.scope.surface} kernels; verified on {_listed(skill.scope.platforms)}"
    yield f"compatibility: {json.dumps(verified)}"
    yield "metadata:"
    yield f"  skill-id: {json.dumps(skill.skill_id)}"
    yield f"  intent: {json.dumps(skill.intent)}"
    yield f"  standing: {json.dumps(skill.verification.standing)}"
    yield "---"


def _body(skill: Skill) -> Iterator[str]:
    yield f"# {skill.name}"
    yield ""
    yield skill.when
    yield ""
    yield "## Where"
    yield ""
    yield f"At a {skill.anchor.kind}, as the rule `{skill.anchor.rule}` finds it. In the evidence:"
    yield ""
    yield from (f"- `{example}`" for example in skill.anchor.examples)
    yield ""
    yield "## When it is sound"
    yield ""
    found = skill.preconditions
    if found.all_of:
        yield from (f"- `{each.text}`" for each in found.all_of)
        for each in found.all_of:
            if each.ambiguous:
                yield f"- the probes do not tell it from {_listed(tuple(f'`{text}`' for text in each.ambiguous))}"
    else:
        yield f"- {found.reason}"
    yield f"- probes: {found.passed} passed, {found.failed} failed where the kernel without it passed"
    if skill.scope.prior:
        yield f"- comes after: {_listed(skill.scope.prior)}"
    yield ""
    yield "## What it is worth"
    yield ""
    if skill.effects:
        yield "| case | platform | ratio (95 %) | effect | standing beside it |"
        yield "|---|---|---|---|---|"
        best = sorted(skill.effects, key=lambda each: -each.ratio)
        yield from map(_effect, best[:_MAX_EFFECTS])
        if len(best) > _MAX_EFFECTS:
            yield ""
            yield f"{len(best) - _MAX_EFFECTS} more contexts are in card.json. Ratios are t(without) / t(with)."
    else:
        yield "Not measured."
    yield ""
    yield "## How it fails"
    yield ""
    yield from (f"- {each.status} at {each.stage}, where {each.trigger}: {len(each.rows)} rows" for each in skill.risks)
    if not skill.risks:
        yield "No failure was recorded."
    yield ""
    yield "## How it is written"
    yield ""
    carrier = skill.carrier[0]
    yield f"`klineage optimize` applies the rule `{carrier.rule}` at such places. A step of the evidence, forward:"
    yield ""
    yield "```diff"
    yield carrier.sketch
    yield "```"
    yield ""
    yield "## Verification"
    yield ""
    checked = skill.verification
    yield f"{checked.standing}: {checked.reason}"
    if checked.trials:
        yield ""
    for trial in checked.trials:
        measured = f", {trial.ratio:.2f}x ({trial.low:.2f} to {trial.high:.2f})" if trial.ratio and trial.low else ""
        told = f": {trial.reason}" if trial.reason else ""
        yield f"- {trial.trial}, {trial.case} (held out: {trial.held_out}): {trial.result}{measured}{told}"
    yield ""
    yield f"`klineage skills why {skill.name}` shows the rows behind each line."


def _effect(each: ContextEffect) -> str:
    beside = ", ".join(each.standing) or "nothing"
    return (
        f"| {each.case} | {each.platform} | {each.ratio:.2f}x ({each.low:.2f} to {each.high:.2f}) | {each.effect} "
        f"| {beside} |"
    )


def _listed(parts: tuple[str, ...]) -> str:
    return ", ".join(parts) if parts else "no platform"
