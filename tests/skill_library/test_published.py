"""Published rows of the gate's corpus count only while they are about what the tree has."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from experts import catalog
from experts.kernel import load
from experts.verdict import GATE_VERSION
from skill_library.published import NEEDED, Published, of_checkout, published

KERNEL = """/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = [1]
block = [1]
args = ["C"]
*/
__kernel void gemm(__global float *C) { C[0] = 0.0f; }
"""
CORPUS = """[exploits."zero.cl"]
kind = "semantic"
case = "gemm/64-f32"
tier = "default"
isolation = "any"
status = ["unwritten_output"]
why = "Writes one element."
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    (folder / "exploits").mkdir(parents=True)
    (folder / "honest").mkdir()
    (folder / "exploits" / "zero.cl").write_text(KERNEL)
    (folder / "corpus.toml").write_text(CORPUS)
    (tmp_path / "results").mkdir()
    return folder


def _row(tests: Path, **changed: str) -> dict[str, str]:
    return {
        "name": "zero.cl",
        "kernel_id": load(tests / "exploits" / "zero.cl").kernel_id,
        "case": "gemm/64-f32",
        "case_id": catalog.find("gemm/64-f32", "opencl", catalog.roots()).case_id,
        "gate_version": str(GATE_VERSION),
        "tier": "default",
        "expected": "unwritten_output",
        "status": "unwritten_output",
    } | changed


def _found(tests: Path, *rows: dict[str, str]) -> Published:
    results = tests.parent / "results"
    with (results / "corpus_opencl.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, NEEDED)
        writer.writeheader()
        writer.writerows(rows)
    return published(results, tests, (ROOT / "experts",))


def test_a_row_about_what_is_there_counts(tests: Path) -> None:
    found = _found(tests, _row(tests))
    assert (len(found.counted), found.stale, found.missing) == (1, (), ())


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("kernel_id", "0" * 16, "kernel 0000000000000000, now"),
        ("case_id", "0" * 16, "case id 0000000000000000, now"),
        ("case", "gemm/128-f32", "case gemm/128-f32, now gemm/64-f32"),
        ("gate_version", "0", f"gate version 0, now {GATE_VERSION}"),
        ("expected", "wrong_value", "expected wrong_value, now unwritten_output"),
        ("name", "gone.cl", "not in the corpus"),
    ],
)
def test_a_row_about_something_else_is_stale(tests: Path, column: str, value: str, reason: str) -> None:
    found = _found(tests, _row(tests, **{column: value}))
    assert found.counted == ()
    assert [gap.number for gap in found.stale] == [1]
    assert reason in found.stale[0].reason
    assert [gap.name for gap in found.missing] == ["zero.cl"]


def _edited(tests: Path) -> None:
    path = tests / "exploits" / "zero.cl"
    path.write_text(path.read_text() + "// another\n")


def _removed(tests: Path) -> None:
    (tests / "exploits" / "zero.cl").unlink()


@pytest.mark.parametrize("change", [_edited, _removed])
def test_a_kernel_that_changed_makes_its_row_stale(tests: Path, change: Callable[[Path], None]) -> None:
    row = _row(tests)
    assert _found(tests, row).stale == ()
    change(tests)
    assert len(_found(tests, row).stale) == 1


def test_no_verdict_covers_nothing(tests: Path) -> None:
    found = _found(tests, _row(tests, status="harness_error"))
    assert [gap.name for gap in found.missing] == ["zero.cl"]


def test_the_rows_of_this_checkout_are_not_stale() -> None:
    found = of_checkout(ROOT)
    assert found is not None
    assert found.stale == ()
