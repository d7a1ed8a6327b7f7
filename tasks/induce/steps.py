"""Steps of lineages with everything that the evidence has about each: what skills are lifted from."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experts.difference import difference
from experts.kernel import Kernel, KernelError, Surface, parse
from skill_library.abstraction import Step
from tasks.evidence import Evidence
from tasks.rewrite.carry import carried
from tasks.rewrite.edit import Edit, edit_of

Record = dict[str, Any]
_SKETCH_LINES = 60


@dataclass(frozen=True)
class Transition:
    """One step of a lineage that goes forward by a rule."""

    row: Record
    edit: Edit
    """The forward edit."""
    simplified: Kernel
    above: Kernel

    @cached_property
    def transition_id(self) -> str:
        """The row's."""
        return str(self.row["transition_id"])


@dataclass(frozen=True)
class Removal:
    """A step of a lineage, backward."""

    transition_id: str
    edit: Edit


class Known:
    """The evidence, read once."""

    def __init__(self, evidence: Evidence) -> None:
        """Raises StoreError."""
        self._attempts = defaultdict(list)
        for row in evidence.table("attempts").to_pylist():
            self._attempts[row["run_id"]].append(row)
        self._probes: dict[str, list[Record]] = defaultdict(list)
        for row in evidence.table("probes").to_pylist():
            if row["transition_id"] is not None:
                self._probes[row["transition_id"]].append(row)
        self._texts = {row["kernel_id"]: row for row in evidence.table("kernels").to_pylist()}
        self._rows = evidence.table("transitions").to_pylist()

    def transitions(self, lineage_id: str | None = None) -> list[Transition]:
        """Those that a rule can repeat, in the order of their lineages and steps; of one lineage, or of all."""
        found = []
        for row in sorted(self._rows, key=lambda row: (row["created"], row["lineage_id"], row["step"])):
            if row["forward"] == "failed" or not row["edit"] or lineage_id not in (None, row["lineage_id"]):
                continue
            kernels = [self.kernel(row[name]) for name in ("simplified_id", "result_id")]
            if None in kernels:
                continue
            edit = edit_of(json.loads(row["edit"]))
            simplified, above = kernels
            assert simplified is not None and above is not None
            found.append(Transition(row, edit, simplified, above))
        return found

    def kernel(self, kernel_id: str | None) -> Kernel | None:
        """A kernel by id; None where its text is not stored or is no kernel."""
        row = self._texts.get(kernel_id or "")
        if row is None or row["surface"] is None:
            return None
        surface: Surface = row["surface"]
        try:
            return parse(row["text"], surface=None if surface in ("triton", "tilelang") else surface)
        except KernelError:
            return None

    def lineage(self, transition: Transition) -> tuple[Kernel | None, list[Removal], set[str]]:
        """The expert of a step's lineage, the chain's removals from there, and every kernel that its walk gated.

        None for an expert, and no removals, where the evidence does not have them all.
        """
        row = transition.row
        attempts = self._attempts[row["run_id"]]
        writers = {each["attempt_id"]: each["writer"] for each in attempts}
        steps = [each for each in self._rows if each["lineage_id"] == row["lineage_id"]]
        steps.sort(key=lambda each: each["step"])
        gated = {each["kernel_id"] for each in attempts}
        removals = []
        for each in steps:
            writer = writers.get(each["backward_attempt_id"])
            if writer is None:
                return None, [], gated
            removals.append(Removal(each["transition_id"], edit_of(json.loads(writer))))
        return self.kernel(steps[0]["above_id"]), removals, gated

    def probes(self, transition_id: str) -> list[Record]:
        """The probes of a step; of each shape and kernel the newest repetition."""
        newest: dict[tuple[Any, ...], Record] = {}
        for row in sorted(self._probes[transition_id], key=lambda row: (row["repetition"], row["created"])):
            shape = (row["kernel_id"], row["dims"], row["offset_tensor"], row["offset_bytes"], row["tier"])
            newest[(*shape, row["platform"])] = row
        return list(newest.values())

    def step(self, transition: Transition, dtype: str) -> Step:
        """A transition with what else is known of it."""
        row = transition.row
        attempts = self._attempts[row["run_id"]]
        down = next((each for each in attempts if each["attempt_id"] == row["backward_attempt_id"]), None)
        removal = down["writer"] if down is not None else None
        alone = [
            each
            for each in attempts
            if each["purpose"] == "from_expert" and each["accepted"] and each["writer"] == removal is not None
        ]
        place = (transition.edit.rule, _anchor(removal) or transition.edit.anchor)
        refused = [
            each
            for each in attempts
            if each["accepted"] is False
            and each["purpose"] in ("from_expert", "chain", "context")
            and each["writer"]
            and (json.loads(each["writer"]).get("rule"), json.loads(each["writer"]).get("anchor")) == place
        ]
        others = {
            each["intent"]
            for each in self._rows
            if each["lineage_id"] == row["lineage_id"] and each["transition_id"] != row["transition_id"]
        }
        return Step(
            transition=row,
            edit=transition.edit.record(),
            carried=carried(transition.edit),
            sketch="\n".join(difference(transition.simplified, transition.above, around=1, most=_SKETCH_LINES)),
            surface=transition.simplified.surface,
            dtype=dtype,
            alone=alone[-1] if alone else None,
            others=tuple(sorted(others)),
            refused=tuple(refused),
            probes=tuple(self.probes(transition.transition_id)),
        )


def groups(transitions: Sequence[Transition]) -> Mapping[tuple[str, str, Surface], list[Transition]]:
    """Steps that become one skill: by intent, rule and surface."""
    found: dict[tuple[str, str, Surface], list[Transition]] = defaultdict(list)
    for each in transitions:
        found[each.row["intent"], each.edit.rule, each.simplified.surface].append(each)
    return found


def _anchor(writer: str | None) -> str | None:
    return json.loads(writer).get("anchor") if writer else None
