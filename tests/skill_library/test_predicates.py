"""Predicates: their trees, when they hold, and how they are stated as a kernel's [require]."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from experts.expressions import Expression
from skill_library.predicates import (
    All,
    AnyOf,
    Atom,
    FactRef,
    Facts,
    FactValue,
    Predicate,
    PredicateError,
    atoms,
    holds,
    parse_predicate,
    unmet,
)
from skill_library.requirements import state_as_requirement

LANES: dict[str, Any] = {"fact": "loop.extent", "mod": {"fact": "vector.width"}, "op": "==", "value": 0}
FITS: dict[str, Any] = {"fact": "loop.extent", "op": "<=", "value": {"fact": "tile.elements"}}
SINGLE: dict[str, Any] = {"fact": "dtype", "op": "==", "value": "f32"}
AFTER: dict[str, Any] = {"fact": "prior(stage-tile)", "op": "==", "value": True}
UNKNOWN_PART: dict[str, Any] = {"fact": "tile.bytes", "op": "<", "value": 9}

FACTS: Facts = {
    "loop.extent": frozenset({32}),
    "vector.width": frozenset({16}),
    "tile.elements": frozenset({16, 64}),
    "access.stride": frozenset({0}),
    "loop.step": frozenset(),
    "dtype": "f32",
    "prior(stage-tile)": True,
}


def read(tree: object) -> Predicate:
    return parse_predicate(json.dumps(tree))


def atom(fact: str, op: str, value: object, mod: object = None) -> Atom:
    return Atom.model_validate({"fact": fact, "op": op, "value": value, "mod": mod})


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (LANES, "loop.extent % vector.width == 0"),
        (FITS, "loop.extent <= tile.elements"),
        (SINGLE, "dtype == f32"),
        (AFTER, "prior(stage-tile) == true"),
        ({"all": [LANES, {"any": [FITS, SINGLE]}]},
         "loop.extent % vector.width == 0 and (loop.extent <= tile.elements or dtype == f32)"),
    ],
)  # fmt: skip
def test_trees_are_read_shown_and_written_as_they_were(tree: dict[str, Any], text: str) -> None:
    predicate = read(tree)
    assert str(predicate) == text
    assert predicate.model_dump(mode="json") == tree
    assert parse_predicate(tree) == read(predicate.model_dump(mode="json")) == predicate


def test_a_field_of_another_model() -> None:
    class Card(BaseModel):
        needs: Predicate

    card = Card(needs=read({"all": [LANES, FITS]}))
    assert json.loads(card.model_dump_json()) == {"needs": {"all": [LANES, FITS]}}
    assert Card.model_validate_json(card.model_dump_json()) == card
    assert "needs" in Card.model_json_schema()["properties"]


def nested(depth: int, tree: dict[str, Any] = LANES) -> dict[str, Any]:
    for _ in range(depth):
        tree = {"all": [tree]}
    return tree


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ("x", "Invalid JSON"),
        ([], "dictionary|object"),
        ({}, "fact: Field required"),
        ({**LANES, "mod": 0}, "mod"),
        ({**LANES, "mod": -4}, "mod"),
        ({**LANES, "mod": True}, "mod"),
        ({**LANES, "mod": 2.0}, "mod"),
        ({**LANES, "value": 0.5}, "value"),
        ({**LANES, "value": 1 << 64}, "value"),
        ({**LANES, "value": None}, "value"),
        ({**LANES, "op": "="}, "op"),
        ({**LANES, "code": "print()"}, "Extra inputs"),
        ({**LANES, "fact": "__import__('os')"}, "pattern"),
        ({**LANES, "fact": "a" * 1000}, "128"),
        ({**SINGLE, "op": "<"}, "compares numbers"),
        ({**SINGLE, "mod": 2}, "remainder"),
        ({**SINGLE, "value": "f" * 1000}, "value"),
        ({"all": []}, "at least 1"),
        ({"any": []}, "at least 1"),
        ({"all": [LANES], "any": [LANES]}, "Extra inputs"),
        ({"all": [LANES] * 33}, "at most 32"),
        ({"all": [{"all": [LANES] * 20}, {"any": [LANES] * 20}]}, "more than 32 atoms"),
        (nested(6), "nested more than 6"),
        (nested(80), "nested more than 6"),
        (nested(400), "no predicate"),
    ],
)
def test_what_is_no_predicate_is_refused_in_one_line(tree: object, told: str) -> None:
    for given_as in (tree, tree if isinstance(tree, str) else json.dumps(tree)):
        with pytest.raises(PredicateError, match=told) as refused:
            parse_predicate(given_as)
        assert str(refused.value).startswith("no predicate") and "\n" not in str(refused.value)
    assert read(nested(5))


def test_trees_are_frozen() -> None:
    predicate = read(LANES)
    with pytest.raises(ValidationError):
        predicate.op = "<"  # type: ignore[union-attr]
    assert len({predicate, read(LANES), read(FITS)}) == 2


@pytest.mark.parametrize(
    ("predicate", "outcome", "values"),
    [
        (atom("loop.extent", "==", 0, FactRef(fact="vector.width")), "holds", ""),
        (atom("loop.extent", "==", 0, 5), "false", "loop.extent = 32"),
        (atom("loop.extent", "<=", FactRef(fact="tile.elements")), "false",
         "loop.extent = 32, tile.elements in {16, 64}"),
        (atom("tile.elements", "<=", 64), "holds", ""),
        (atom("tile.elements", "<", 64), "false", "tile.elements in {16, 64}"),
        (atom("tile.elements", "==", 0, 16), "holds", ""),
        (atom("tile.elements", "==", 0, FactRef(fact="loop.extent")), "false",
         "tile.elements in {16, 64}, loop.extent = 32"),
        (atom("tile.elements", "!=", 16), "false", "tile.elements in {16, 64}"),
        (atom("tile.elements", "!=", 32), "holds", ""),
        (atom("loop.extent", "==", 0, FactRef(fact="access.stride")), "unknown", "loop.extent = 32, access.stride = 0"),
        (atom("loop.step", ">", 0), "unknown", "loop.step in {}"),
        (atom("loop.extent", "==", 0, FactRef(fact="loop.step")), "unknown", "loop.extent = 32, loop.step in {}"),
        (atom("loop.extent", "==", 0, FactRef(fact="group.size")), "unknown", "loop.extent = 32"),
        (atom("group.size", ">", 1), "unknown", ""),
        (atom("loop.extent", ">", FactRef(fact="dtype")), "unknown", "loop.extent = 32, dtype = f32"),
        (atom("dtype", "==", 0, 2), "unknown", "dtype = f32"),
        (atom("dtype", "==", "f32"), "holds", ""),
        (atom("dtype", "!=", "f32"), "false", "dtype = f32"),
        (atom("dtype", "==", 32), "unknown", "dtype = f32"),
        (atom("dtype", "==", FactRef(fact="prior(stage-tile)")), "unknown", "dtype = f32, prior(stage-tile) = true"),
        (atom("prior(stage-tile)", "==", True), "holds", ""),
        (atom("prior(stage-tile)", "==", False), "false", "prior(stage-tile) = true"),
        (atom("prior(stage-tile)", "==", 1), "unknown", "prior(stage-tile) = true"),
        (atom("prior(fuse-loops)", "==", False), "unknown", ""),
    ],
)  # fmt: skip
def test_atoms(predicate: Atom, outcome: str, values: str) -> None:
    found = unmet(predicate, FACTS)
    assert holds(predicate, FACTS) == (outcome == "holds") == (not found)
    for fault in found:
        assert (fault.predicate, fault.reason, fault.values) == (str(predicate), outcome, values)


def test_many_values_are_cut_short() -> None:
    (fault,) = unmet(atom("loop.extent", "<", 3), {"loop.extent": frozenset(range(100))})
    assert fault.values == "loop.extent in {0, 1, 2, 3, 4, 5, ...}"


def test_trees_hold_by_their_parts() -> None:
    good, bad, unknown = read(LANES), read({**SINGLE, "value": "f16"}), read(UNKNOWN_PART)
    assert unmet(All(all=(good, good)), FACTS) == ()
    assert [fault.reason for fault in unmet(All(all=(bad, good, unknown)), FACTS)] == ["false", "unknown"]
    assert unmet(AnyOf(any=(unknown, bad, good)), FACTS) == ()
    (fault,) = unmet(AnyOf(any=(bad, unknown)), FACTS)
    assert (fault.reason, fault.values) == ("unknown", "dtype = f32")
    (fault,) = unmet(AnyOf(any=(bad, All(all=(unknown, bad)))), FACTS)
    assert fault.reason == "false"
    (fault,) = unmet(All(all=(good, AnyOf(any=(bad, bad)))), FACTS)
    assert fault.predicate == "dtype == f16 or dtype == f16"


NAMES = st.sampled_from(["loop.extent", "vector.width", "tile.elements", "dtype", "prior(stage-tile)"])
VALUES: st.SearchStrategy[FactValue] = (
    st.frozensets(st.integers(-3, 20), min_size=1, max_size=3) | st.sampled_from(["f32", "f16"]) | st.booleans()
)
REFERENCES = st.builds(FactRef, fact=NAMES)
NUMERIC = st.builds(
    Atom,
    fact=NAMES,
    mod=st.none() | st.integers(1, 9) | REFERENCES,
    op=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    value=st.integers(-9, 20) | REFERENCES,
)
NAMED = st.builds(
    Atom, fact=NAMES, op=st.sampled_from(["==", "!="]), value=st.booleans() | st.sampled_from(["f32", "f16"])
)
TREES: st.SearchStrategy[Predicate] = st.recursive(
    NUMERIC | NAMED,
    lambda parts: (
        st.builds(All, all=st.lists(parts, min_size=1, max_size=3).map(tuple))
        | st.builds(AnyOf, any=st.lists(parts, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@given(st.data())
def test_any_tree_survives_json_and_has_one_answer(data: st.DataObject) -> None:
    try:
        predicate = data.draw(TREES)
    except ValidationError:
        return  # deeper than is allowed
    assert parse_predicate(predicate.model_dump_json()) == predicate
    facts = data.draw(st.dictionaries(NAMES, VALUES))
    found = unmet(predicate, facts)
    assert holds(predicate, facts) == (not found)
    # Only what is known can be told, and what more is known never makes a true one unknown.
    if not found:
        assert not any(fault.reason == "unknown" for fault in unmet(predicate, {**facts, "access.align": frozenset()}))
    needed = {name for each in atoms(predicate) for name in each.facts}
    assert unmet(predicate, {name: value for name, value in facts.items() if name in needed}) == found


EXPRESSIONS = {
    "loop.extent": "N - 1",
    "tile.extent": "M",
    "const.value": "TM",
    "access.align": None,
    "group.size": None,
}
CONSTANTS: Facts = {
    "vector.width": frozenset({16}),
    "vector.bytes": frozenset({64}),
    "group.size": frozenset({8, 32}),
    "dtype": "f32",
    "const.value": frozenset({8}),
}
TERMS = {"access.align": ["4 * N", "64 * W", "128"]}


@pytest.mark.parametrize(
    ("tree", "stated"),
    [
        (LANES, ["(N - 1) % 16 == 0"]),
        ({"fact": "tile.extent", "mod": {"fact": "const.value"}, "op": "==", "value": 0}, ["M % TM == 0"]),
        ({"fact": "tile.extent", "op": ">=", "value": {"fact": "loop.extent"}}, ["M >= (N - 1)"]),
        ({"fact": "tile.extent", "mod": {"fact": "group.size"}, "op": "==", "value": 0}, ["M % 8 == 0", "M % 32 == 0"]),
        ({"fact": "access.align", "mod": {"fact": "vector.bytes"}, "op": "==", "value": 0},
         ["(4 * N) % 64 == 0", "(64 * W) % 64 == 0"]),
        ({"fact": "access.align", "mod": 256, "op": "==", "value": 0}, None),
        ({"fact": "access.align", "op": ">=", "value": 16}, None),
        ({"fact": "access.align", "mod": 16, "op": "==", "value": 4}, None),
        ({"fact": "tile.bytes", "op": "<=", "value": 16}, None),
        ({"fact": "vector.width", "op": "<=", "value": 16}, []),
        ({"fact": "vector.width", "op": "<", "value": 16}, None),
        (SINGLE, []),
        ({**SINGLE, "value": "f16"}, None),
        (AFTER, None),
        ({"all": [SINGLE, LANES, LANES]}, ["(N - 1) % 16 == 0"]),
        ({"all": [AFTER, LANES]}, None),
        ({"any": [SINGLE, LANES]}, []),
        ({"any": [AFTER, LANES]}, ["((N - 1) % 16 == 0)"]),
        ({"any": [{"all": [LANES, {"fact": "tile.extent", "op": ">", "value": 3}]},
                  {"fact": "tile.extent", "op": "==", "value": 1}]},
         ["((N - 1) % 16 == 0) and (M > 3) or (M == 1)"]),
    ],
)  # fmt: skip
def test_a_predicate_as_requirements(tree: object, stated: list[str] | None) -> None:
    assert state_as_requirement(read(tree), EXPRESSIONS, CONSTANTS, TERMS) == stated


@given(
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.none() | st.integers(1, 6),
    st.integers(-2, 9),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_requirements_mean_what_the_predicate_means(op: str, mod: int | None, value: int, m: int, n: int) -> None:
    texts = {"loop.extent": "M + N - 4", "tile.extent": "N"}
    facts: Facts = {"loop.extent": frozenset({m + n - 4}), "tile.extent": frozenset({n})}
    both = AnyOf(
        any=(
            All(all=(atom("loop.extent", op, value, mod), atom("tile.extent", op, FactRef(fact="loop.extent")))),
            atom("tile.extent", "==", 0, 7),
        )
    )
    stated = state_as_requirement(both, texts)
    assert stated is not None
    assert all(Expression(text).holds({"M": m, "N": n}) for text in stated) == holds(both, facts)


def test_a_requirement_too_long_is_not_stated() -> None:
    predicate = All(all=tuple(atom("loop.extent", "!=", number) for number in range(30)))
    either = AnyOf(any=(predicate, atom("loop.extent", ">", 99)))
    assert state_as_requirement(either, {"loop.extent": "M * N + K"}) is None
