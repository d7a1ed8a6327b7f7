"""The vocabulary of intents."""

from __future__ import annotations

import re

import pytest

from experts import catalog
from experts.kernel import load
from skill_library.intents import INTENTS, Order, canonical, order_of


def test_names_are_kebab_case_and_nothing_stands_twice() -> None:
    names = [name for intent in INTENTS.values() for name in (intent.name, *intent.aliases)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize(
    ("given", "name"), [("block-k", "block-loop"), ("unroll-loop", "unroll-loop"), ("new:warp-magic", "new:warp-magic")]
)
def test_canonical(given: str, name: str) -> None:
    assert canonical(given) == name


def test_local_ones_come_out_before_what_enables_others() -> None:
    assert order_of("hint-restrict") < order_of("pad-array") < order_of("tile-registers")
    assert order_of("block-k") is Order.SCHEDULE
    assert order_of("new:x") is Order.STRUCTURE


def test_our_experts_declare_intents_of_the_core() -> None:
    package = catalog._PACKAGE
    experts = sorted(package.glob("*/expert*.cl"))
    assert experts
    for path in experts:
        declared = load(path).manifest.intents
        assert len(declared) >= 6
        assert all(canonical(intent) in INTENTS for intent in declared), path
