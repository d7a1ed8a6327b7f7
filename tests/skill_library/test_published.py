"""Published rows of the gate's corpus count only while they are about what the tree has."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from experts import catalog
from experts.kernel import load
from experts.verdict import GATE_VERSION
from skill_library.published import NEEDED, CorpusError, Published, entries, of_checkout, published

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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name,kernel_id\nzero.cl,0\n", "no column 'case'"),
        (",".join(NEEDED) + "\nzero.cl,0\n", "not as many fields as columns"),
        (",".join(NEEDED) + "\n" + "zero.cl," * len(NEEDED) + "more\n", "not as many fields as columns"),
    ],
)
def test_what_is_no_row_is_stale(tests: Path, text: str, reason: str) -> None:
    results = tests.parent / "results"
    (results / "corpus_opencl.csv").write_text(text)
    found = published(results, tests, (ROOT / "experts",))
    assert [gap.reason for gap in found.stale] == [reason]
    assert found.counted == ()


def _corpus(tests: Path, more: str) -> None:
    (tests / "corpus.toml").write_text(CORPUS + more)


def test_the_compile_tier_counts_where_it_can_tell_and_covers_nothing(tests: Path) -> None:
    row = _row(tests, tier="compile")
    assert "at tier 'compile'" in _found(tests, row).stale[0].reason
    _corpus(tests, 'where = "anywhere"\n')
    found = _found(tests, row)
    assert (len(found.counted), found.stale) == (1, ())
    assert [gap.name for gap in found.missing] == ["zero.cl"]


def test_a_kernel_that_compiles_first_and_fails_later_is_decided_on_a_device(tests: Path) -> None:
    assert [entry.where for entry in entries(tests / "corpus.toml")] == ["device"]
    _corpus(tests, 'stage = "compile"\n')
    assert [entry.where for entry in entries(tests / "corpus.toml")] == ["anywhere"]


def test_what_the_default_tier_says_needs_a_row_too(tests: Path) -> None:
    text = CORPUS.replace('tier = "default"', 'tier = "sanitize"\ndefault_status = ["ok"]')
    (tests / "corpus.toml").write_text(text)
    found = _found(tests, _row(tests, tier="sanitize"))
    assert [gap.reason for gap in found.missing] == ["no row that counts, at tier default"]
    assert _found(tests, _row(tests), _row(tests, tier="sanitize")).stale[0].number == 1
    assert _found(tests, _row(tests, expected="ok", status="ok"), _row(tests, tier="sanitize")).missing == ()


@pytest.mark.parametrize("field", ["case", "tier", "status"])
def test_an_entry_says_what_it_is_about(tests: Path, field: str) -> None:
    lines = [line for line in CORPUS.splitlines() if not line.startswith(f"{field} =")]
    (tests / "corpus.toml").write_text("\n".join(lines))
    with pytest.raises(CorpusError, match=f"corpus.toml: zero.cl: no {field}"):
        entries(tests / "corpus.toml")


def test_what_is_contained_may_pass(tests: Path) -> None:
    _corpus(tests, "contained = true\n")
    assert entries(tests / "corpus.toml")[0].expected == ("ok", "unwritten_output")


def test_a_folder_that_is_no_checkout_has_nothing_published(tmp_path: Path) -> None:
    assert of_checkout(tmp_path) is None


def test_the_rows_of_this_checkout_are_not_stale() -> None:
    found = of_checkout(ROOT)
    assert found is not None
    assert found.stale == ()
