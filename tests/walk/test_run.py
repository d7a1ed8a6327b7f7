"""A planted expert with four steps, walked for real: one lineage every time, killed or not, and never a wrong step."""

from __future__ import annotations

import json
import math
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pandas as pd
import pytest

from experts.kernel import parse
from flows import cli
from flows.commands import schemas
from tasks.evidence import Roots, journal
from tasks.evidence.store import Evidence
from tasks.gate.runner import Settings, gate
from tasks.runs import Busy
from tasks.walk.report import WalkReport
from tasks.walk.run import opened
from tests.walk.driver import PLANTED, job, walked

CASE = "gemm/64-f32"
KILLED_TIMED, KILLED_UNTIMED = 2, 8
CHAIN = ["hint-restrict", "fix-work-group", "tune-constant", "unroll-loop"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled code and verdicts of all walks here: what is killed and compared is the walk."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    return _root(tmp_path_factory.mktemp("first"), cache)


@pytest.fixture(scope="module")
def first(root: Path) -> WalkReport:
    return walked(job(PLANTED, CASE, root))


def _root(folder: Path, cache: Path) -> Path:
    (folder / "cache").symlink_to(cache)
    return folder


def _attempts(root: Path) -> pd.DataFrame:
    with Evidence(Roots(root)) as evidence:
        return evidence.read("attempts")


def _recorded(root: Path) -> list[str]:
    """Attempt ids as they stand in the files, each as often as it was written."""
    ids = [
        str(row["attempt_id"])
        for path in journal.paths(root)
        for dataset, row in journal.read(path).rows
        if dataset == "attempts"
    ]
    for path in sorted((root / "evidence" / "attempts").glob("*.parquet")):
        ids += pd.read_parquet(path)["attempt_id"].tolist()
    return ids


def _chain(report: WalkReport) -> list[str]:
    return [step.child for step in report.steps if step.purpose == "chain" and step.outcome == "accepted"]


def test_takes_all_four_out(first: WalkReport) -> None:
    assert [each.intent for each in first.forward] == CHAIN
    assert first.accepted == 4
    assert first.left == ("fuse-loops",)


def test_learns_that_the_attribute_pins_the_constant(first: WalkReport) -> None:
    refused = {(step.intent, step.purpose, step.status) for step in first.steps if step.outcome == "rejected"}
    # In between, where the search for the cause tries it without the pointers' promise only.
    assert refused == {
        ("tune-constant", "from_expert", "launch_error"),
        ("tune-constant", "context", "launch_error"),
    }
    (order,) = first.precedence
    assert (order.intent, order.needs) == ("fix-work-group", "tune-constant")


def test_goes_forward_letter_for_letter(first: WalkReport) -> None:
    assert [each.forward for each in first.forward] == ["identical"] * 4


def test_every_state_passes_a_second_gate_on_fresh_inputs_and_in_the_sanitizer(first: WalkReport, root: Path) -> None:
    kernels = pd.read_parquet(root / "evidence" / "kernels").set_index("kernel_id")
    work = job(PLANTED, CASE, root)
    settings = Settings(platform=work.settings.platform, tier="sanitize", profile=False)
    for identity in _chain(first):
        verdict = gate(parse(kernels.loc[identity, "text"], surface="opencl"), work.case, settings).verdict
        assert verdict.status == "ok" and verdict.clean, (identity, verdict.reason)


def test_the_report_has_its_schema(first: WalkReport) -> None:
    schema = json.loads((schemas.FOLDER / "walk.json").read_text())
    jsonschema.validate(json.loads(first.model_dump_json()), schema)


def test_the_ladder_that_is_shown_is_in_the_rows(
    first: WalkReport, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts = pd.read_parquet(root / "evidence" / "attempts").set_index("attempt_id")
    steps = pd.read_parquet(root / "evidence" / "transitions").sort_values("step")
    assert cli.run(["show", first.lineage_id, "--data", str(root), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    jsonschema.validate(shown, json.loads((schemas.FOLDER / "show.json").read_text()))
    assert [rung["intent"] for rung in shown["rungs"]] == steps["intent"].tolist() == CHAIN
    for rung, (_, step) in zip(shown["rungs"], steps.iterrows(), strict=True):
        # Forward: t(simplified) / t(above), where the chain timed the simplified state against the one above.
        down = attempts.loc[step["backward_attempt_id"]]
        assert (rung["above_id"], rung["simplified_id"]) == (down["parent_id"], down["kernel_id"])
        assert rung["simplified_us"] == down["candidate_us"] == statistics.median(down["candidate_samples_us"])
        pairs = zip(down["candidate_samples_us"], down["baseline_samples_us"], strict=True)
        assert rung["here"]["ratio"] == pytest.approx(_middle([simplified / above for simplified, above in pairs]))
        assert rung["here"]["ratio"] == pytest.approx(step["ratio"])
        assert (rung["here"]["low"], rung["here"]["high"]) == pytest.approx((1 / down["high"], 1 / down["low"]))
    refused = attempts[(attempts["accepted"] == False) & (attempts["purpose"] != "context")]  # noqa: E712
    assert [each["attempt_id"] for each in shown["refusals"]] == refused.index.tolist()

    assert cli.run(["show", first.lineage_id[:6], "--data", str(root), "--diff"]) == 0
    text = capsys.readouterr().out
    assert all(intent in text for intent in CHAIN)
    for _, step in steps.iterrows():
        assert f"{step['ratio']:.2f}x" in text
    assert "-W = 16" in text and "+W = 1" in text


def _middle(values: list[float]) -> float:
    ordered = sorted(values)
    return math.sqrt(ordered[(len(ordered) - 1) // 2] * ordered[len(ordered) // 2])


def test_a_finished_walk_is_read_and_not_gated_again(first: WalkReport, root: Path) -> None:
    again = walked(job(PLANTED, CASE, root))
    assert again.gated == 0
    assert again == first.model_copy(update={"gated": 0})
    assert len(_recorded(root)) == len(set(_recorded(root))) == first.gated


def test_a_second_walker_is_told(first: WalkReport, root: Path) -> None:
    with opened(job(PLANTED, CASE, root)), pytest.raises(Busy, match="another process is on this walk already"):
        walked(job(PLANTED, CASE, root))


@pytest.fixture(scope="module")
def untimed_root(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    return _root(tmp_path_factory.mktemp("untimed"), cache)


@pytest.fixture(scope="module")
def untimed(untimed_root: Path, first: WalkReport) -> WalkReport:
    """After the first, so that all verdicts are in the cache."""
    return walked(job(PLANTED, CASE, untimed_root, timed=False))


def test_validity_alone_gives_the_same_chain(first: WalkReport, untimed: WalkReport) -> None:
    assert _chain(untimed) == _chain(first)
    assert untimed.precedence[0].needs == first.precedence[0].needs
    assert untimed.expert_us is None and all(step.ratio is None for step in untimed.steps)


def test_fresh_repeats_it(untimed: WalkReport, tmp_path: Path, cache: Path) -> None:
    place = _root(tmp_path, cache)
    for repetition in range(2):
        repeated = walked(job(PLANTED, CASE, place, fresh=True, timed=False))
        assert (repeated.repetition, repeated.gated) == (repetition, untimed.gated)
        assert repeated.lineage_id == untimed.lineage_id
        assert len(set(_attempts(place)["attempt_id"])) == (repetition + 1) * untimed.gated


def test_another_root_gives_the_same_chain(first: WalkReport, tmp_path: Path, cache: Path) -> None:
    other = walked(job(PLANTED, CASE, _root(tmp_path, cache)))
    assert (other.lineage_id, other.run_id) == (first.lineage_id, first.run_id)
    assert _chain(other) == _chain(first)
    assert other.precedence == first.precedence


@pytest.mark.parametrize("number", range(KILLED_TIMED))
def test_killed_within_a_gate_and_resumed(
    number: int, first: WalkReport, root: Path, tmp_path: Path, cache: Path
) -> None:
    moment = random.Random(f"moment {number}").uniform(2.0, 14.0)
    _killed_and_resumed(_root(tmp_path, cache), moment, first, _first_repetition(root), timed=True)


@pytest.mark.parametrize("number", range(KILLED_UNTIMED))
def test_killed_between_rows_and_resumed(
    number: int, untimed: WalkReport, untimed_root: Path, tmp_path: Path, cache: Path
) -> None:
    # Nothing is timed and every verdict is known: what is left is starting, keeping rows, compacting and ending.
    moment = random.Random(f"instant {number}").uniform(0.7, 3.0)
    ids = _first_repetition(untimed_root)
    _killed_and_resumed(_root(tmp_path, cache), moment, untimed, ids, timed=False)


def _killed_and_resumed(place: Path, moment: float, whole: WalkReport, ids: list[str], *, timed: bool) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.walk.driver",
        str(PLANTED),
        CASE,
        str(place),
        "timed" if timed else "untimed",
    ]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        child.wait(moment)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
    child.wait()
    before = _recorded(place)
    assert len(before) == len(set(before))
    resumed = _resume(place, timed)
    assert _chain(resumed) == _chain(whole)
    assert resumed.lineage_id == whole.lineage_id
    # What was there at the kill was not gated again, and nothing is missing.
    assert len(before) + resumed.gated == whole.gated
    assert sorted(_attempts(place)["attempt_id"]) == sorted(ids)
    assert len(_recorded(place)) == whole.gated


def _first_repetition(root: Path) -> list[str]:
    frame = _attempts(root)
    return [str(each) for each in frame[frame["repetition"] == 0]["attempt_id"]]


def _resume(root: Path, timed: bool) -> WalkReport:
    # The lock goes with its holder, which the kernel may take a moment to end.
    for _ in range(50):
        try:
            return walked(job(PLANTED, CASE, root, timed=timed))
        except Busy:
            time.sleep(0.1)
    raise AssertionError("the killed walk still holds its lock")
