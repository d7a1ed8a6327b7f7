"""Planted kernels: pairs that differ in one optimization whose precondition is known, through the real probes, the real
facts and the learning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache as memoized
from pathlib import Path
from typing import Any

import pytest

from experts import catalog, platform
from experts.case import Case
from experts.expressions import Expression
from experts.kernel import Kernel, load
from skill_library.facts import Place, divisibility_terms, expressions_at
from skill_library.learning import Learned, Sample, learn
from skill_library.predicates import parse_predicate
from skill_library.requirements import state_as_requirement
from tasks.evidence import Evidence, Roots
from tasks.gate.runner import Settings
from tasks.induce.conditions import doubtful, samples
from tasks.induce.run import CONFIRMED
from tasks.induce.steps import Transition
from tasks.probe.run import Job, opened, run
from tasks.rewrite.edit import Edit, params

FOLDER = Path(__file__).parent / "planted"
BUDGET = 40
PLATFORM = platform.select("opencl", None)


@dataclass(frozen=True)
class Planted:
    """A pair: without and with the optimization, and where the forward edit goes."""

    workload: str
    simplified: str
    above: str
    anchor: str
    values: Mapping[str, int] = field(default_factory=dict)
    truth: Mapping[str, Any] | None = None
    """None: it needs nothing."""
    stated: tuple[str, ...] = ()
    """As a requirement."""


def rest(fact: str, mod: object) -> dict[str, Any]:
    return {"fact": fact, "mod": mod, "op": "==", "value": 0}


WIDTH = {"fact": "vector.width"}
PAIRS = {
    "lanes of 4 without a tail": Planted(
        "rowscale", "scale", "scale_lanes4", "rowscale/loop[j]", {"width": 4}, rest("loop.extent", WIDTH),
        ("N % 4 == 0",),
    ),
    "lanes of 16 without a tail": Planted(
        "rowsum", "sum", "sum_lanes16", "rowsum/loop[j]", {"width": 16}, rest("loop.extent", WIDTH),
        ("N % 16 == 0",),
    ),
    "tiles of 8 rows without a rest": Planted(
        "rowscale", "scale_rows1", "scale_rows8", "::/const[ROWS]", {"value": 8},
        rest("tile.extent", {"fact": "const.value"}), ("R % 8 == 0",),
    ),
    "a remainder that is dropped": Planted(
        "rowsum", "sum", "sum_by4", "rowsum/loop[j]", {}, rest("loop.extent", 4), ("N % 4 == 0",),
    ),
    "a row that has to fit": Planted(
        "rowscale", "scale_guarded", "scale_staged", "rowscale/loop[j]", {},
        {"fact": "loop.extent", "op": "<=", "value": {"fact": "tile.elements"}}, ("N <= 64",),
    ),
    "vectors through cast pointers": Planted(
        "rowscale", "scale", "scale_cast8", "rowscale/loop[j]", {"width": 8},
        rest("access.align", {"fact": "vector.bytes"}), ("N % 8 == 0",),
    ),
    "a promise that holds anyway": Planted("rowscale", "scale", "scale_restrict", "rowscale/param[X]"),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What the probes of a pair gave."""

    case: Case
    simplified: Kernel
    rows: Sequence[Mapping[str, Any]]
    above_id: str
    samples: Sequence[Sample]
    learned: Learned


Probed = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Probed:
    """Probes a pair, once."""
    settings = Settings(platform=PLATFORM, cache=tmp_path_factory.mktemp("cache"), profile=False)

    @memoized
    def outcome(name: str) -> Outcome:
        pair = PAIRS[name]
        case = catalog.find(pair.workload, "opencl", [FOLDER])
        simplified, above = (load(FOLDER / "pairs" / f"{stem}.cl") for stem in (pair.simplified, pair.above))
        roots = Roots(tmp_path_factory.mktemp("data"))
        job = Job(above, simplified, case, settings, roots, budget=BUDGET)
        edit = Edit("planted", "add", "new:planted", pair.anchor, params(**pair.values))
        step = Transition({}, edit, simplified, above)
        with opened(job) as desk:
            run(job, desk)
            rows = Evidence(roots).table("probes").to_pylist()
            also = tuple(doubtful(step, rows, case, PLATFORM)[:CONFIRMED])
            run(replace(job, also=also), desk)
        rows = Evidence(roots).table("probes").to_pylist()
        found = samples(step, rows, case, PLATFORM)
        return Outcome(case, simplified, rows, above.kernel_id, found.told, learn(found.told, masked=found.masked))

    return outcome


@pytest.mark.parametrize("name", PAIRS)
def test_the_precondition_is_recovered_exactly(name: str, probed: Probed) -> None:
    truth, found = PAIRS[name].truth, probed(name)
    learned = found.learned
    if truth is None:
        assert (learned.kind, learned.predicate, learned.failed) == ("none_needed", None, 0), learned
        return
    assert (learned.kind, learned.predicate) == ("recovered", parse_predicate(truth)), learned
    by_id = {row["probe_id"]: row for row in found.rows}
    for ids, outcome in ((learned.for_ids, "passed"), (learned.against_ids, "rejected")):
        assert ids
        assert {(by_id[each]["outcome"], by_id[each]["original_id"]) for each in ids} == {(outcome, found.above_id)}


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.truth is not None])
def test_stated_as_a_requirement_it_lets_no_failing_shape_pass(name: str, probed: Probed) -> None:
    pair, found = PAIRS[name], probed(name)
    predicate = found.learned.predicate
    assert predicate is not None
    place = Place(found.simplified, pair.anchor, dict(pair.values))
    terms = {"access.align": divisibility_terms(place, found.case, "access.align")}
    stated = state_as_requirement(predicate, expressions_at(place, found.case), terms=terms)
    assert stated is not None
    asked = [Expression(text) for text in stated]
    accepted = refused = 0
    for row in found.rows:
        if row["original_id"] == found.above_id and not row["offset_tensor"]:
            dims = json.loads(row["dims"])
            takes = all(each.holds(dims) for each in asked)
            assert takes == all(Expression(text).holds(dims) for text in pair.stated), (stated, dims)
            assert not takes or row["outcome"] == "passed", (stated, dims)
            accepted, refused = accepted + takes, refused + (not takes)
    assert accepted and refused


def test_pairs_of_one_kind_are_learned_together(probed: Probed) -> None:
    """Two workloads and two widths: the relation is what they have in common, and no constant would do."""
    lanes = ("lanes of 4 without a tail", "lanes of 16 without a tail")
    pooled = [sample for name in lanes for sample in probed(name).samples]
    learned = learn(pooled)
    assert learned.predicate == parse_predicate(PAIRS[lanes[0]].truth)
    without = learn(pooled, {name for sample in pooled for name in sample.facts} - {"vector.width", "vector.bytes"})
    assert without.kind == "unexplained", without
