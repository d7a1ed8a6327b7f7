"""Edits: one optimization taken out of a kernel or put into it, as a frozen value.

The contract of a rule:

- `removable(kernel)` lists the places where it can take its optimization out, `addable(kernel)` those where it can put
  it in, also in kernels that no removal produced. Both are in source order, the same for the same text, and never
  raise: what a rule does not fully understand, it declines, with the reason.
- `apply(kernel, edit)` gives the new kernel and the edit that takes it back. It raises `NotApplicable` where the place
  is gone or is not understood any more. An edit that `removable` or `addable` listed for this kernel always applies,
  and the result has the same meaning within the case's error bound, on every shape that the kernel accepted.
- `apply(*apply(kernel, edit))` has the kernel's text again where the rule can promise it; else one that is equal to it.
- `(rule, anchor)` names a place for as long as other edits leave it alone: a walk finds it again in later states.
- A rule of one surface lists nothing for kernels of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from experts.kernel import Kernel

Action = Literal["remove", "add"]
Scalar = str | int | bool


@dataclass(frozen=True)
class Edit:
    """One edit. `anchor` is a structural place, canonical text (experts/source/anchors.py)."""

    rule: str
    action: Action
    intent: str
    """Of the core (skill_library/intents.py)."""
    anchor: str
    params: tuple[tuple[str, Scalar], ...] = ()
    """What else decides the result, sorted by name."""

    @property
    def place(self) -> tuple[str, str]:
        """What stays the same while other edits come and go."""
        return self.rule, self.anchor

    def param(self, name: str) -> Scalar:
        """One parameter. Raises KeyError."""
        return dict(self.params)[name]

    def record(self) -> dict[str, object]:
        """As JSON values, for the evidence."""
        return {
            "rule": self.rule,
            "action": self.action,
            "intent": self.intent,
            "anchor": self.anchor,
            "params": dict(self.params),
        }


def params(**values: Scalar) -> tuple[tuple[str, Scalar], ...]:
    """Parameters of an edit."""
    return tuple(sorted(values.items()))


def edit_of(record: Mapping[str, object]) -> Edit:
    """The edit of a record. Raises ValueError for what is none."""
    match record:
        case {
            "rule": str(rule),
            "action": "remove" | "add" as action,
            "intent": str(intent),
            "anchor": str(anchor),
            "params": dict(values),
        } if all(isinstance(value, str | int) for value in values.values()):
            return Edit(rule, action, intent, anchor, tuple(sorted(values.items())))
        case _:
            raise ValueError("not an edit")


@dataclass(frozen=True)
class Declined:
    """A place that a rule sees and leaves alone."""

    rule: str
    intent: str
    anchor: str
    reason: str
    """Short, without names of machines: `its address is taken`."""


@dataclass(frozen=True)
class Places:
    """What a rule finds in a kernel."""

    edits: tuple[Edit, ...] = ()
    declined: tuple[Declined, ...] = ()


class NotApplicable(ValueError):
    """The place is gone, or the rule does not understand it any more; one line."""


class Rule(Protocol):
    """See the module's docstring."""

    name: str

    def removable(self, kernel: Kernel) -> Places:
        """Where the optimization can come out."""
        ...

    def addable(self, kernel: Kernel) -> Places:
        """Where it can be put in."""
        ...

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """The new kernel, and the edit that takes it back. Raises NotApplicable."""
        ...
