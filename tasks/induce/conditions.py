"""What the probes of steps say about when they are sound: facts at each probed shape, held against its verdict.

A native pass may be luck: a read past the end hits what happens to lie there. So shapes at which the kernel without the
optimization passes and a relation between facts is false are tried again in the simulator (`doubtful`). Where that
refutes passes of one of the two kernels, those of the same kind that it did not look at say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experts.case import Case
from experts.platform import Platform
from skill_library.facts import Facts, Place, facts_at
from skill_library.hypotheses import relations_of_edit
from skill_library.learning import Learned, Sample, learn
from skill_library.predicates import Atom, holds, is_false
from tasks.induce import alike
from tasks.induce.steps import Transition
from tasks.probe.shapes import Shape

Record = Mapping[str, Any]
_SHAPE = ("dims", "offset_tensor", "offset_bytes", "platform")


@dataclass
class Samples:
    """Of one step, or of several together."""

    told: list[Sample] = field(default_factory=list)
    """A sample for each shape at which the kernel without the optimization passes."""
    masked: list[Facts] = field(default_factory=list)
    """Facts at the others."""


@dataclass(frozen=True)
class _Seen:
    """One shape with the verdicts on both kernels, native and in the simulator."""

    shape: Shape
    facts: Facts
    below: tuple[Record, ...]
    above: tuple[Record, ...]

    @property
    def compared(self) -> bool:
        """The kernel without the optimization passes."""
        return all(map(_passed, self.below))

    @property
    def simulated(self) -> bool:
        return any(row["tier"] == "sanitize" for row in self.above)

    @property
    def sample(self) -> Sample:
        """A shape that was also tried in the simulator passes only if both say so."""
        failed = [row for row in self.above if not _passed(row)]
        return Sample(self.facts, not failed, tuple(row["probe_id"] for row in failed or self.above))


def samples(transition: Transition, probes: Sequence[Record], case: Case, platform: Platform) -> Samples:
    """What the probes of one step say."""
    seen = list(_seen(transition, probes, case, platform))
    relations = _varying(seen)
    below = _common(relations, [each.facts for each in seen if _lucky(each.below)])
    above = _common(relations, [each.facts for each in seen if each.compared and _lucky(each.above)])
    found = Samples()
    for each in seen:
        sample = each.sample
        if not each.compared:
            found.masked.append(each.facts)
        elif each.simulated or not any(
            is_false(atom, each.facts) for atom in (*below, *(above if sample.holds else ()))
        ):
            found.told.append(sample)
    return found


def doubtful(transition: Transition, probes: Sequence[Record], case: Case, platform: Platform) -> list[Shape]:
    """Shapes for the simulator: the kernel without the optimization passed natively, though the one with it failed, or
    a relation between facts is false there. Those first at which it failed, then the quickest."""
    found = []
    seen = list(_seen(transition, probes, case, platform))
    relations = _varying(seen)
    for each in seen:
        native = each.compared and not each.simulated and not each.shape.offset_tensor
        doubts = not each.sample.holds or any(is_false(atom, each.facts) for atom in relations)
        if native and doubts:
            work = case.at(each.shape.dims).mandatory_operations
            found.append((each.sample.holds, work, Shape(each.shape.dims, tier="sanitize")))
    return [shape for _, _, shape in sorted(found, key=lambda entry: entry[:2])]


def learned(group: Sequence[tuple[Transition, Samples]]) -> Learned:
    """What the samples of a skill's steps say together; without probes where none is needed."""
    hints = [alike.differ_in_hints_only(each.simplified, each.above) for each, _ in group]
    if all(hints):
        reasons = sorted({alike.reason(each.simplified, each.above) for each, _ in group})
        return Learned(kind="none_needed", passed=0, failed=0, reason="; ".join(reasons))
    pooled = [sample for _, each in group for sample in each.told]
    if not pooled:
        return Learned(kind="undetermined", passed=0, failed=0, reason="it was not probed")
    return learn(pooled, masked=[facts for _, each in group for facts in each.masked])


def needs_probes(transition: Transition) -> bool:
    """Whether a shape could make it wrong."""
    return not alike.differ_in_hints_only(transition.simplified, transition.above)


def _seen(transition: Transition, probes: Sequence[Record], case: Case, platform: Platform) -> Iterator[_Seen]:
    rows: dict[tuple[Any, ...], dict[str, list[Record]]] = {}
    for row in probes:
        if row["platform"] == platform.name:
            sides = rows.setdefault(tuple(row[name] for name in _SHAPE), {})
            sides.setdefault(row["original_id"], []).append(row)
    place = Place(transition.simplified, transition.edit.anchor, dict(transition.edit.params))
    for sides in rows.values():
        below = sides.get(transition.simplified.kernel_id, [])
        above = sides.get(transition.above.kernel_id, [])
        if below and above:
            first = above[0]
            shape = Shape(json.loads(first["dims"]), first["offset_tensor"], first["offset_bytes"])
            facts = facts_at(place, case.at(shape.dims), platform, offsets=shape.offsets)
            yield _Seen(shape, facts, tuple(below), tuple(above))


def _lucky(rows: Sequence[Record]) -> bool:
    """It passed natively, and the simulator saw that it should not have."""
    native = [row for row in rows if row["tier"] == "default"]
    return bool(native) and all(map(_passed, native)) and not all(map(_passed, rows))


def _varying(seen: Sequence[_Seen]) -> list[Atom]:
    """The relations that hold at some shape: one that never does tells no shape from another."""
    names = {name for each in seen for name in each.facts}
    return [atom for atom in relations_of_edit(names) if any(holds(atom, each.facts) for each in seen)]


def _common(relations: Sequence[Atom], lucky: Sequence[Facts]) -> list[Atom]:
    """Those that are false wherever there was luck."""
    return [atom for atom in relations if lucky and all(is_false(atom, facts) for facts in lucky)]


def _passed(row: Record) -> bool:
    return bool(row["outcome"] == "passed" and row["clean"] is not False)
