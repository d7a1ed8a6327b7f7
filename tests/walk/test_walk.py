"""The order of a walk, what it learns from failures, and how it goes forward; rules and gate are plain logic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from experts.kernel import Kernel, parse
from tasks.rewrite import rules as registry
from tasks.rewrite.edit import Declined, Edit, NotApplicable, Places
from tasks.trials import Trial, Tried
from tasks.walk import forward as forwarding
from tasks.walk import walk as walking
from tasks.walk.forward import forward
from tasks.walk.inventory import inventory
from tasks.walk.walk import ExpertInvalid, Pending, Walked, walk

TEXT = """/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "f"
grid = [1]
block = [1]
args = ["A"]
*/
"""
Standing = frozenset[str]


def kernel(*marks: str, places: bool = True) -> Kernel:
    """With places, the toy rule puts a line back where it was; without, at the end."""
    lines = (f"// mark {mark}\n" + (f"// place of {mark}\n" if places else "") for mark in marks)
    return parse(TEXT + "".join(lines), surface="opencl")


def marks(of: Kernel) -> Standing:
    return frozenset(re.findall(r"^// mark (.*)$", of.text, re.M))


@dataclass(frozen=True)
class MarkRule:
    """Takes out lines `// mark INTENT`; declines an intent while another one stands."""

    name: str = "mark"
    declines: tuple[tuple[str, str], ...] = ()
    """(intent, while this one stands)"""
    forgets: tuple[str, ...] = ()
    """Intents that it finds no place for, forward."""
    renames: tuple[str, ...] = ()
    """Intents whose place has another anchor, forward."""

    def removable(self, kernel: Kernel) -> Places:
        standing = re.findall(r"^// mark (.*)$", kernel.text, re.M)
        held = {intent: other for intent, other in self.declines if other in standing}
        return Places(
            tuple(Edit(self.name, "remove", mark, f"::/var[{mark}]") for mark in standing if mark not in held),
            tuple(
                Declined(self.name, mark, f"::/var[{mark}]", f"{held[mark]} stands")
                for mark in standing
                if mark in held
            ),
        )

    def addable(self, kernel: Kernel) -> Places:
        missing = [mark for mark in ALL if mark not in marks(kernel) and mark not in self.forgets]
        again = {mark: "again-" if mark in self.renames else "" for mark in missing}
        return Places(tuple(Edit(self.name, "add", mark, f"::/var[{again[mark]}{mark}]") for mark in missing))

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        line = f"// mark {edit.intent}\n"
        if edit.action == "remove":
            if line not in kernel.text:
                raise NotApplicable("gone")
            text = kernel.text.replace(line, "")
        else:
            # Over the entry's line, so that each intent touches a line of its own.
            place = f"// place of {edit.intent}\n"
            text = kernel.text.replace(place, line + place) if place in kernel.text else kernel.text + line
        inverse = Edit(self.name, "add" if edit.action == "remove" else "remove", edit.intent, edit.anchor)
        return parse(text, surface="opencl"), inverse


# By static class: hints, then numerics, then layout, then blocks, then what enables.
ALL = ("hint-restrict", "fix-work-group", "relax-math", "pad-array", "block-loop", "unroll-loop")


@dataclass
class Gate:
    """Judges a kernel by the marks that stand, and remembers what it was asked."""

    valid: Callable[[Standing], bool]
    asked: list[Trial] = field(default_factory=list)

    def __call__(self, trial: Trial, after: Sequence[Pending] = ()) -> Pending:
        self.asked.append(trial)
        passed = self.valid(marks(trial.kernel))
        row = {
            "accepted": passed,
            "outcome": "passed" if passed else "rejected",
            "status": "ok" if passed else "wrong_value",
            "stage": "correctness",
            "reason": None if passed else "wrong",
            "effect": "tie",
            "ratio": 1.0,
        }
        identity = f"{trial.purpose}:{'+'.join(sorted(marks(trial.kernel)))}"
        return Done(Tried(identity, trial, row, recorded=False))

    @property
    def contexts(self) -> int:
        return sum(trial.purpose == "context" for trial in self.asked)


@dataclass(frozen=True)
class Done:
    tried: Tried

    def result(self) -> Tried:
        return self.tried


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> MarkRule:
    found: MarkRule = getattr(request, "param", MarkRule())
    for module in (walking, forwarding, registry):
        monkeypatch.setattr(module, "apply", found.apply)
    return found


def chain(walked: Walked) -> list[str]:
    return [step.edit.intent for step in walked.steps]


class TestOrder:
    def test_follows_the_static_class_and_not_the_text(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: True)
        walked = walk(kernel(*reversed(ALL)), [rule], gate)
        # Within a class the text's order holds.
        assert chain(walked) == [
            "fix-work-group",
            "hint-restrict",
            "relax-math",
            "pad-array",
            "block-loop",
            "unroll-loop",
        ]
        assert marks(walked.last) == frozenset()
        assert not walked.precedence

    def test_tries_every_removal_straight_from_the_expert_first(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: True)
        walk(kernel(*ALL), [rule], gate)
        purposes = [trial.purpose for trial in gate.asked]
        assert purposes == ["chain"] + ["from_expert"] * len(ALL) + ["chain"] * len(ALL)
        straight = [trial for trial in gate.asked if trial.purpose == "from_expert"]
        assert all(marks(trial.kernel) == frozenset(ALL) - {trial.edit.intent} for trial in straight if trial.edit)

    def test_an_invalid_expert_ends_the_walk(self, rule: MarkRule) -> None:
        with pytest.raises(ExpertInvalid, match="wrong_value at correctness: wrong"):
            walk(kernel(*ALL), [rule], Gate(lambda standing: False))

    def test_what_never_comes_out_stays_and_the_walk_ends(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: "pad-array" in standing)
        walked = walk(kernel(*ALL), [rule], gate)
        assert marks(walked.last) == {"pad-array"}
        refused = [tried.trial for tried in walked.tried if not tried.accepted]
        # Once at its turn, once more when all others are gone.
        assert [trial.edit.intent for trial in refused if trial.edit] == ["pad-array"] * 2


class TestPrecedence:
    def test_a_failure_is_tried_again_and_its_cause_found(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: "hint-restrict" in standing or "block-loop" not in standing)
        walked = walk(kernel(*ALL), [rule], gate)
        assert chain(walked) == [*ALL[1:], ALL[0]]
        (found,) = walked.precedence
        assert (found.intent, found.needs_intent) == ("block-loop", "hint-restrict")
        assert len(found.shown_by) == 1
        # Bisection: fewer gates than states between.
        assert 0 < gate.contexts <= 3

    def test_a_failure_from_the_expert_counts(self, rule: MarkRule) -> None:
        # unroll-loop cannot go while relax-math stands; at its turn in the chain it is gone.
        gate = Gate(lambda standing: "unroll-loop" in standing or "relax-math" not in standing)
        walked = walk(kernel(*ALL), [rule], gate)
        assert chain(walked) == list(ALL)
        assert [(found.intent, found.needs_intent) for found in walked.precedence] == [("relax-math", "unroll-loop")]

    @pytest.mark.parametrize("rule", [MarkRule(declines=(("hint-restrict", "pad-array"),))], indirect=True)
    def test_a_declined_place_counts_without_a_gate(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: True)
        walked = walk(kernel(*ALL), [rule], gate)
        assert chain(walked)[:5] == ["fix-work-group", "relax-math", "pad-array", "hint-restrict", "block-loop"]
        (found,) = walked.precedence
        assert (found.intent, found.needs_intent, found.shown_by) == ("pad-array", "hint-restrict", ())
        assert gate.contexts == 0


class TestForward:
    @pytest.mark.parametrize("rule", [MarkRule(forgets=("pad-array",))], indirect=True)
    def test_finds_the_place_again_or_fails(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: True)
        walked = walk(kernel(*ALL), [rule], gate)
        kinds = {each.step.edit.intent: each.kind for each in forward(walked, [rule], gate)}
        assert kinds.pop("pad-array") == "failed"
        assert set(kinds.values()) == {"identical"}

    @pytest.mark.parametrize("rule", [MarkRule(renames=("unroll-loop",), forgets=("pad-array",))], indirect=True)
    def test_finds_the_same_lines_under_another_anchor(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: True)
        walked = walk(kernel("unroll-loop", "pad-array"), [rule], gate)
        found = forward(walked, [rule], gate)
        assert [(each.step.edit.intent, each.kind) for each in found] == [
            ("pad-array", "failed"),
            ("unroll-loop", "identical"),
        ]

    def test_gates_what_is_not_identical_against_both_states(self, rule: MarkRule) -> None:
        gate = Gate(lambda standing: True)
        walked = walk(kernel("hint-restrict", "unroll-loop", places=False), [rule], gate)
        gate.asked.clear()
        found = forward(walked, [rule], gate)
        assert [each.kind for each in found] == ["rederived", "identical"]
        above, effect = gate.asked
        assert above.purpose == effect.purpose == "forward"
        assert above.baseline == walked.expert and effect.baseline == walked.states[1]
        assert above.kernel == effect.kernel and above.parent == effect.parent == walked.states[1]


def test_inventory_is_the_same_for_the_same_text() -> None:
    rule = MarkRule()
    assert inventory(kernel(*ALL), [rule]) == inventory(kernel(*ALL), [rule])
