"""The rules: structural source-to-source edits with inverses. The contract is in tasks/rewrite/edit.py."""

from __future__ import annotations

from experts.kernel import Kernel
from tasks.rewrite.edit import Edit, NotApplicable, Rule
from tasks.rewrite.rules.attributes import AlignAttribute, WorkGroupSize
from tasks.rewrite.rules.constants import ShrinkConstant
from tasks.rewrite.rules.lanes import VectorLanes
from tasks.rewrite.rules.numerics import FuseCall, NativeFunction
from tasks.rewrite.rules.options import BuildOption
from tasks.rewrite.rules.padding import PadArray
from tasks.rewrite.rules.prefetch import PrefetchCall
from tasks.rewrite.rules.restrict import RestrictPointer
from tasks.rewrite.rules.strip import StripMine
from tasks.rewrite.rules.unroll import UnrollHint

RULES_VERSION = 2
"""Rises when a rule lists other places or writes other text: part of a walk's identity."""

RULES: tuple[Rule, ...] = (
    RestrictPointer(),
    WorkGroupSize(),
    PrefetchCall(),
    AlignAttribute(),
    BuildOption(),
    NativeFunction(),
    FuseCall(),
    PadArray(),
    ShrinkConstant(),
    StripMine(),
    VectorLanes(),
    UnrollHint(),
)
"""All rules. Their order breaks ties between intents of one static class."""

_BY_NAME = {rule.name: rule for rule in RULES}


def rule_named(name: str) -> Rule:
    """The rule of that name. Raises NotApplicable."""
    if name not in _BY_NAME:
        raise NotApplicable(f"there is no rule {name!r}")
    return _BY_NAME[name]


def apply(kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
    """The kernel with the edit, and the edit that takes it back. Raises NotApplicable."""
    return rule_named(edit.rule).apply(kernel, edit)
