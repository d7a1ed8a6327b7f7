"""Negative trials: the skill put in unasked, at a shape where its preconditions are false."""

from __future__ import annotations

from collections.abc import Iterator

from experts.case import Case
from experts.platform import Platform
from skill_library.conditions import holds
from skill_library.skill import Skill
from tasks.gate.launches import accepts, symbols
from tasks.materialize import unasked
from tasks.probe.copies import without_require
from tasks.probe.prober import Stand, probe
from tasks.probe.shapes import Shape, shapes
from tasks.rewrite.edit import Edit, NotApplicable
from tasks.roundtrip.held_out import HeldOut
from tasks.roundtrip.roundtrip import Negative

MOST = 3
"""Shapes that are tried natively, and as many in the simulator: a kernel without the skill that fails there, too, says
nothing."""


def deny(state: HeldOut, edit: Edit, skill: Skill, case: Case, stand: Stand) -> Negative:
    """Fail as a risk of the card says, or not. Raises what probes raise."""
    try:
        forced, plain = without_require(unasked(state.kernel, edit)), without_require(state.kernel)
    except NotApplicable as reason:
        return Negative("not_materialized", str(reason))
    stated = {risk.status for risk in skill.risks}
    last = "no shape of the family makes a precondition false"
    lucky: Negative | None = None
    for shape in _false(state, edit, skill, case, stand.platform):
        where = ",".join(f"{name}={size}" for name, size in shape.dims.items())
        where += f", {shape.offset_tensor} moved by {shape.offset_bytes} bytes" if shape.offset_tensor else ""
        below = next(probe(plain, case, [shape], stand))
        if not below.passed:
            last = f"{where}: the kernel without it fails, too ({below.status})"
            continue
        above = next(probe(forced, case, [shape], stand))
        at = case.at(shape.dims)
        if above.status in stated:
            return Negative("failed_as_stated", f"{above.status} at {where}", above.status, at)
        if above.passed:
            # One pass can be luck; another shape, or the simulator, may see what this one did not.
            lucky = lucky or Negative("did_not_fail", f"it passed at {where}", above.status, at)
        else:
            last = f"{above.status} at {where}, which no risk states"
    return lucky or Negative("not_materialized", last)


def _false(state: HeldOut, edit: Edit, skill: Skill, case: Case, platform: Platform) -> Iterator[Shape]:
    """Shapes at which a precondition is known to be false, those first that the state's author allows."""

    def refused(shape: Shape) -> bool:
        known = symbols(state.kernel, case.at(shape.dims), 1, platform.warp)
        return accepts(state.kernel, known) is not None

    def far(shape: Shape) -> tuple[int, int]:
        apart = [abs(size - case.workload.sanitize[name]) for name, size in shape.dims.items()]
        return sum(each > 0 for each in apart), sum(apart)

    found = []
    for shape in sorted(shapes(case), key=refused):
        at = case.at(shape.dims)
        faults = holds(skill, state.kernel, edit.anchor, at, platform, params=dict(edit.params), offsets=shape.offsets)
        if any(fault.reason == "false" for fault in faults):
            found.append(shape)
    yield from found[:MOST]
    # What reads past an end passes natively where nothing of note lies there.
    tails = sorted((shape for shape in found if shape.offset_tensor is None), key=far)
    yield from (Shape(shape.dims, tier="sanitize") for shape in tails[:MOST])
