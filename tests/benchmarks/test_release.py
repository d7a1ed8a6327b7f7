"""The release check finds each kind of thing that no longer holds, in a checkout where all else does."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import aa, corpus, gate_health, gate_speed, release
from experts import catalog
from experts.kernel import load, parse
from experts.verdict import GATE_VERSION

ROOT = Path(__file__).parents[2]
CORPUS = """[honest."naive.cl"]
case = "gemm/64-f32"
why = "Honest."
"""


def _write(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def _corpus_row(gate: Path) -> dict[str, Any]:
    return {
        "name": "naive.cl",
        "kernel_id": load(gate / "honest" / "naive.cl").kernel_id,
        "case": "gemm/64-f32",
        "case_id": catalog.find("gemm/64-f32", "opencl", (ROOT / "experts",)).case_id,
        "gate_version": GATE_VERSION,
        "tier": "sanitize",
        "expected": "ok",
        "status": "ok",
        "as_expected": True,
    }


def _health_rows(gate: Path) -> list[dict[str, Any]]:
    common = {"gate_version": GATE_VERSION, "as_expected": True, "children": 0, "descriptors": 7, "leftovers": 0}
    rows: list[dict[str, Any]] = [common | {"group": "honest", "number": 0, "name": "naive", "status": "ok"}]
    for group, (stem, *_) in gate_health.GROUPS.items():
        text = load(gate / "exploits" / f"{stem}.cl").text
        for number in range(gate_health.PUBLISHED_COUNT):
            kernel_id = parse(f"{text}// {group} {number}\n", surface="opencl").kernel_id
            rows.append(
                common | {"group": group, "number": number, "name": f"{stem}.cl", "kernel_id": kernel_id, "status": "x"}
            )
    return [*rows, common | {"group": "summary", "number": 150}]


def _speed_rows(gate: Path) -> list[dict[str, Any]]:
    common = {
        "kernel": gate_speed.KERNELS["opencl"],
        "kernel_id": load(gate / "honest" / "naive.cl").kernel_id,
        "gate_version": GATE_VERSION,
        "status": "ok",
    }
    rows = []
    for number, (own, peer) in enumerate([(1.0, 40.0), (2.0, 60.0), (1.0, 50.0)]):
        rows.append(common | {"kind": "gate", "round": number, "seconds": own, "compile": own / 2})
        rows.append(common | {"kind": "load_inline", "round": number, "seconds": peer})
    return rows


def _aa_rows() -> list[dict[str, Any]]:
    row = {"kind": "aa", "gate_version": GATE_VERSION, "case": "gemm/64-f32", "kernel_id": "0", "seconds": 1}
    return [row | {"trial": number, "effect": "tie", "candidate_us": 5} for number in range(3)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout whose rows all hold."""
    gate, results = tmp_path / "tests" / "gate", tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (gate / "honest").mkdir(parents=True)
    (gate / "exploits").mkdir()
    (gate / "corpus.toml").write_text(CORPUS)
    shutil.copy(ROOT / "tests" / "gate" / "honest" / "naive.cl", gate / "honest")
    for stem, *_ in gate_health.GROUPS.values():
        shutil.copy(ROOT / "tests" / "gate" / "exploits" / f"{stem}.cl", gate / "exploits")
    (tmp_path / "experts").symlink_to(ROOT / "experts")
    _write(results / "corpus_opencl.csv", corpus.COLUMNS, [_corpus_row(gate)])
    for surface in ("opencl", "cuda"):
        _write(results / f"health_{surface}.csv", gate_health.COLUMNS, _health_rows(gate))
        _write(results / f"speed_{surface}.csv", gate_speed.COLUMNS, _speed_rows(gate))
    for name in ("small", "large", "cuda"):
        _write(results / f"aa_{name}.csv", aa.COLUMNS, _aa_rows())
    (results / "README.md").write_text(f"Rows.\n\n{release.MARKS[0]}{release.figures(tmp_path)}{release.MARKS[1]}")
    return tmp_path


def test_what_holds_has_no_fault(root: Path) -> None:
    assert list(release.faults(root)) == []


def test_the_figures_are_those_of_the_rows(root: Path) -> None:
    lines = release.figures(root).splitlines()
    assert "  1 honest kernels, 1 gates: 1 as expected" in lines
    assert "  crash: 50 of 50 as expected" in lines
    assert "  gate: 3 of 3 ok, median 1 s (compile 0.5)" in lines
    assert "    40x the gate's (all rounds: 30 to 50)" in lines
    assert "  aa: 3 trials: 3 tie; 5 us a call, 1 s a trial (medians)" in lines


def _kernel_changed(root: Path) -> None:
    path = root / "tests" / "gate" / "honest" / "naive.cl"
    path.write_text(path.read_text() + "// another\n")


def _bad_kernel_changed(root: Path) -> None:
    path = root / "tests" / "gate" / "exploits" / "printf_flood.cl"
    path.write_text(path.read_text() + "// another\n")


def _older_gate(root: Path) -> None:
    _write(root / release.RESULTS / "aa_small.csv", aa.COLUMNS, [row | {"gate_version": 0} for row in _aa_rows()])


def _file_gone(root: Path) -> None:
    (root / release.RESULTS / "health_cuda.csv").unlink()


def _too_few(root: Path) -> None:
    rows = [row for row in _health_rows(root / "tests" / "gate") if (row["group"], row["number"]) != ("flood", 7)]
    _write(root / release.RESULTS / "health_cuda.csv", gate_health.COLUMNS, rows)


def _never_gated(root: Path) -> None:
    shutil.copy(ROOT / "tests" / "gate" / "honest" / "naive.cl", root / "tests" / "gate" / "honest" / "other.cl")
    (root / "tests" / "gate" / "corpus.toml").write_text(CORPUS + CORPUS.replace("naive.cl", "other.cl"))


def _wrong_answer(root: Path) -> None:
    row = _corpus_row(root / "tests" / "gate") | {"status": "wrong_value", "as_expected": False}
    _write(root / release.RESULTS / "corpus_opencl.csv", corpus.COLUMNS, [row])


def _figure_changed(root: Path) -> None:
    readme = root / release.RESULTS / "README.md"
    readme.write_text(readme.read_text().replace("40x the gate's", "60x the gate's"))


def _figures_swapped(root: Path) -> None:
    readme = root / release.RESULTS / "README.md"
    text = readme.read_text().replace("speed_cuda", "speed_other").replace("speed_opencl", "speed_cuda")
    readme.write_text(text.replace("speed_other", "speed_opencl"))


def _mark_gone(root: Path) -> None:
    readme = root / release.RESULTS / "README.md"
    readme.write_text(readme.read_text().replace(release.MARKS[1], ""))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_kernel_changed, "stale: corpus_opencl.csv: row 1: naive.cl: kernel "),
        (_kernel_changed, "stale: speed_cuda.csv: rows 1-6: kernel "),
        (_bad_kernel_changed, "stale: health_opencl.csv: rows 102-151: printf_flood.cl has changed"),
        (_older_gate, f"stale: aa_small.csv: rows 1-3: gate version 0, now {GATE_VERSION}"),
        (_file_gone, "missing: health_cuda.csv: no such file"),
        (_too_few, "missing: health_cuda.csv: 49 good rows of flood; 50 are wanted"),
        (_never_gated, "missing: corpus.toml: other.cl: no row that counts, at tier sanitize"),
        (_wrong_answer, "unexpected: corpus_opencl.csv: row 1: naive.cl: wrong_value"),
        (_figure_changed, "README.md: not what the rows say: 60x the gate's"),
        (_figures_swapped, "README.md: the figures stand under other files than the rows"),
        (_mark_gone, "README.md: no marks for the figures"),
    ],
)
def test_what_no_longer_holds_is_named(root: Path, change: Callable[[Path], None], told: str) -> None:
    change(root)
    assert any(line.startswith(told) for line in release.faults(root))


@pytest.mark.parametrize(("change", "code"), [(None, 0), (_file_gone, 1), (_mark_gone, 1)])
def test_the_exit_code(
    root: Path, change: Callable[[Path], None] | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change is not None:
        change(root)
    monkeypatch.setattr("sys.argv", ["release", "--root", str(root)])
    assert release.main() == code


def test_the_figures_can_be_written_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _figure_changed(root)
    monkeypatch.setattr("sys.argv", ["release", "--root", str(root), "--write"])
    assert release.main() == 0
    assert list(release.faults(root)) == []
