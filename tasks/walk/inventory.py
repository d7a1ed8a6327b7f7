"""What a walk can take out of a kernel, in the order in which it tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experts.kernel import Kernel
from skill_library.intents import order_of
from tasks.rewrite.edit import Declined, Edit, Rule


@dataclass(frozen=True)
class Inventory:
    """The removals that rules offer, in static order, and the places that they leave alone."""

    removals: tuple[Edit, ...]
    declined: tuple[Declined, ...]

    def reason(self, place: tuple[str, str]) -> str | None:
        """Why a place cannot come out of this kernel: None where it can, or where there is no such place."""
        return next((each.reason for each in self.declined if (each.rule, each.anchor) == place), None)

    def at(self, place: tuple[str, str]) -> Edit | None:
        """The removal at a place."""
        return next((edit for edit in self.removals if edit.place == place), None)


def inventory(kernel: Kernel, rules: Sequence[Rule]) -> Inventory:
    """Everything the rules find, ordered by static class, then rule, then place in the text."""
    found = [rule.removable(kernel) for rule in rules]
    edits = [edit for places in found for edit in places.edits]
    # sorted() keeps the order of rules and of places within a class.
    return Inventory(
        tuple(sorted(edits, key=lambda edit: order_of(edit.intent))),
        tuple(declined for places in found for declined in places.declined),
    )
