"""Kernels that no lineage came from, made faster for real with the shipped library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import experts
from experts import catalog, platform
from experts.kernel import load
from flows.commands import schemas
from flows.jobs import OptimizeRequest
from skill_library.retrieval import Query, retrieve
from tasks.gate.runner import Settings, gate
from tasks.materialize import Bench, Materialized, materialize, places, unasked
from tasks.optimize.optimize import opened, optimize
from tasks.optimize.report import KernelInvalid, OptimizeReport
from tasks.rewrite.rules import RULES
from tests.walk.driver import Threads

EXPERTS = Path(experts.__file__).parent
SOFTMAX = EXPERTS / "softmax" / "naive.cl"
ATTEMPTS = 4
"""One for each loop, and one more."""


def optimized(kernel: Path, data: Path, **other: Any) -> OptimizeReport:
    job = OptimizeRequest(str(kernel), data=str(data), pairs=20, **other).job()
    with opened(job) as desk:
        return optimize(job, desk, Threads(desk.try_out))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def softmax(data: Path) -> OptimizeReport:
    return optimized(SOFTMAX, data, attempts=ATTEMPTS)


def test_a_softmax_is_faster_beyond_doubt(softmax: OptimizeReport) -> None:
    assert softmax.speedup.low > 1.1
    assert softmax.skills
    assert softmax.best_id != softmax.kernel_id
    assert load(Path(softmax.best)).kernel_id == softmax.best_id
    assert all(attempt.low is not None and attempt.low > 1.025 for attempt in softmax.attempts if attempt.kept)
    jsonschema.validate(
        json.loads(softmax.model_dump_json()), json.loads((schemas.FOLDER / "optimize.json").read_text())
    )


def test_the_best_passes_a_second_gate_on_fresh_inputs_and_in_the_sanitizer(softmax: OptimizeReport) -> None:
    case = catalog.find("softmax", "opencl", catalog.roots())
    settings = Settings(platform=platform.select("opencl", None), tier="sanitize", profile=False)
    verdict = gate(load(Path(softmax.best)), case, settings).verdict
    assert verdict.status == "ok" and verdict.clean, verdict.reason


def test_started_again_it_goes_on_from_the_rows(softmax: OptimizeReport, data: Path) -> None:
    again = optimized(SOFTMAX, data, attempts=ATTEMPTS)
    assert again.gated == 0
    assert again.model_copy(update={"gated": softmax.gated}) == softmax


def test_an_empty_library_is_no_error(softmax: OptimizeReport, data: Path, tmp_path: Path) -> None:
    found = optimized(SOFTMAX, data, cards=str(tmp_path))
    assert (found.library, found.attempts, found.skills) == (0, (), ())
    assert (found.speedup.ratio, found.best_id) == (1.0, softmax.kernel_id)
    assert found.ended == "no skill applies"


def test_refusals_are_right_when_gated_anyway(data: Path) -> None:
    """At rows of 1000 elements, no whole vectors, what needs them is refused, and fails where it is forced."""
    name = "softmax/R=8,N=1000-f32"
    found = optimized(SOFTMAX, data, case=name, attempts=1)
    job = OptimizeRequest(str(SOFTMAX), case=name, data=str(data)).job()
    asked = {skill.name for skill in job.skills if skill.preconditions.all_of}
    assert found.refused
    assert not any(asked & set(attempt.skills) for attempt in found.attempts)
    assert all(refused.unmet for refused in found.refused)
    kernel, case = load(SOFTMAX), catalog.find(name, "opencl", catalog.roots())
    here = platform.select("opencl", None)
    query = Query(kernel.text, "softmax", name, "opencl", here.name, ())
    settings = Settings(platform=here, profile=False, cache=data / "cache")
    retrieved = retrieve(job.skills, query)
    forced = 0
    for skill in (*retrieved.speed, *retrieved.enablers):
        if not skill.preconditions.all_of:
            continue
        for edit in places(skill, kernel, RULES):
            assert not isinstance(materialize(skill, kernel, edit, Bench(case, here, RULES)), Materialized)
            verdict = gate(unasked(kernel, edit), case, settings).verdict
            assert verdict.outcome == "rejected", (skill.name, edit.anchor)
            forced += 1
    assert forced >= 3


def test_a_wrong_kernel_is_told_before_anything_is_tried(data: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.cl"
    wrong.write_text(SOFTMAX.read_text().replace("sum += exp", "sum -= exp"))
    with pytest.raises(KernelInvalid, match="wrong_value at correctness"):
        optimized(wrong, data)
