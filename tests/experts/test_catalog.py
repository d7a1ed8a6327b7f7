"""The catalogue: which folder wins, and what a broken case.py says."""
# ruff: noqa: E501 (tables with one case a line)

from __future__ import annotations

import os
from pathlib import Path

import pytest

import experts
from experts import catalog
from experts.case import CaseError
from experts.catalog import find, kernels, roots, workloads

PACKAGE = Path(experts.__file__).resolve().parent

SOURCE = """
import numpy as np
from experts.case import Tensor, Workload
from experts.judge import Expected

WORKLOAD = Workload(
    name="@NAME@",
    dimensions=("R",),
    tensors={"f32": (Tensor("X", "f32", ("R",)), Tensor("Y", "f32", ("R",), "out"))},
    shapes={"@SIZE@": {"R": @SIZE@}},
    default={"opencl": "@SIZE@-f32"},
    domain=(),
    family=(),
    sanitize={"R": 4},
    distributions={"normal": lambda rng, case: {"X": rng.standard_normal(case.dims["R"]).astype(np.float32)}},
    reference=lambda inputs, case: {"Y": Expected(inputs["X"].astype(np.float64), np.zeros(case.dims["R"]))},
    one_below=lambda inputs, case: {"Y": inputs["X"]},
    honest=lambda inputs, case: {"Y": inputs["X"]},
    operations="R",
)
"""


def _workload(root: Path, name: str, size: int = 8) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "case.py").write_text(SOURCE.replace("@NAME@", name).replace("@SIZE@", str(size)))
    return root


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KLINEAGE_EXPERTS", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_the_package_is_always_searched() -> None:
    assert roots() == (PACKAGE,)
    assert find("gemm", "opencl", roots()).name == "gemm/512-f32"
    assert find("gemm/M=512,N=300,K=64-f32", "opencl", roots()).dims == {"M": 512, "N": 300, "K": 64}
    assert "gemm" in {workload.name for workload, _, _ in workloads(roots())}


def test_order_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, other = _workload(tmp_path / "given", "dup", 1), _workload(tmp_path / "other", "dup", 2)
    first, second = _workload(tmp_path / "env1", "dup", 3), _workload(tmp_path / "env2", "dup", 4)
    local = _workload(tmp_path / "here" / "experts", "dup", 5)
    monkeypatch.setenv("KLINEAGE_EXPERTS", f"{first}{os.pathsep}{os.pathsep}{second}{os.pathsep}/no/such/folder")
    assert roots([given, other]) == (given, other, first, second, local, PACKAGE)
    assert find("dup", "opencl", roots([given, other])).dims == {"R": 1}
    assert find("dup", "opencl", roots([other, given])).dims == {"R": 2}
    assert find("dup", "opencl", roots()).dims == {"R": 3}
    monkeypatch.delenv("KLINEAGE_EXPERTS")
    assert find("dup", "opencl", roots()).dims == {"R": 5}


def test_a_user_may_replace_a_shipped_workload(tmp_path: Path) -> None:
    given = _workload(tmp_path / "given", "gemm", 16)
    assert find("gemm", "opencl", roots([given])).name == "gemm/16-f32"
    declared = {workload.name: folder for workload, _, folder in workloads(roots([given]))}
    assert declared["gemm"] == given / "gemm"


def test_a_folder_stands_once() -> None:
    assert roots([PACKAGE, PACKAGE.parent / "experts"]) == (PACKAGE,)


def test_a_given_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"^experts folder .*/none does not exist$"):
        roots([tmp_path / "none"])


def test_the_source_is_part_of_the_id(tmp_path: Path) -> None:
    one, other = _workload(tmp_path / "one", "toy"), _workload(tmp_path / "other", "toy")
    with (other / "toy" / "case.py").open("a") as file:
        file.write("# a comment\n")
    first, second = (find("toy", "opencl", roots([root])) for root in (one, other))
    assert first.name == second.name and first.case_id != second.case_id
    assert find("toy", "opencl", roots([one])).case_id == first.case_id


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("nosuch", "unknown case 'nosuch'; there are workloads "),
        ("nosuch/1-f32", "unknown case 'nosuch/1-f32'; there are workloads "),
        ("gemm/", "unknown case 'gemm/': nothing after the slash"),
        ("", "unknown case ''"),
        ("/", "unknown case '/'"),
        ("../experts/gemm", "unknown case"),
        ("a\0b", "unknown case"),
        ("gemm/nosuch-f32", "unknown case gemm/nosuch-f32; there are gemm/64-f32"),
        ("gemm/512", "expected <size>-<dtype>"),
        ("gemm/512-f16", "expected <size>-<dtype>"),
    ],
)
def test_unknown_cases(case: str, message: str) -> None:
    with pytest.raises(CaseError) as caught:
        find(case, "opencl", roots())
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


BROKEN = {
    "syntax": ("def (\n", "SyntaxError"),
    "nothing": ("", "WORKLOAD is not a Workload"),
    "other value": ("WORKLOAD = 7\n", "WORKLOAD is not a Workload"),
    "import": ("import no_such_module_klineage\n", "No module named"),
    "name": ("WORKLOAD = Workload()\n", "NameError"),
    "missing fields": ("from experts.case import Workload\nWORKLOAD = Workload()\n", "TypeError"),
    "two lines": ("raise ValueError('one\\ntwo')\n", "ValueError: one two"),
    "folder's name": (SOURCE.replace("@NAME@", "other").replace("@SIZE@", "8"), "the workload is called 'other', its folder"),
    "contradiction": (SOURCE.replace("@NAME@", "broken").replace('{"R": 4}', '{"Q": 4}').replace("@SIZE@", "8"), "does not give each"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_case_is_one_line(tmp_path: Path, name: str) -> None:
    source, message = BROKEN[name]
    folder = tmp_path / "given" / "broken"
    folder.mkdir(parents=True)
    (folder / "case.py").write_text(source)
    with pytest.raises(CaseError) as caught:
        find("broken", "opencl", roots([tmp_path / "given"]))
    assert message in str(caught.value)
    assert str(folder / "case.py") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_case_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "given" / "broken"
    folder.mkdir(parents=True)
    (folder / "case.py").write_bytes(b"# \xff\n")
    with pytest.raises(CaseError) as caught:
        find("broken", "opencl", roots([tmp_path / "given"]))
    assert len(str(caught.value).splitlines()) == 1


ESCAPES = {
    "KeyError": "{}['a']\n",
    "IndexError": "[][0]\n",
    "ZeroDivisionError": "1 // 0\n",
    "AssertionError": "assert False\n",
    "RuntimeError": "raise RuntimeError('no')\n",
    "SystemExit": "import sys; sys.exit(0)\n",
    "two lines": "raise BaseException('one\\u2028two')\n",
    "CaseError": "from experts.case import CaseError\nraise CaseError('one\\ntwo')\n",
    "NUL": "\0\n",
    "shapes are a list": SOURCE.replace("@NAME@", "broken")
    .replace('{"@SIZE@": {"R": @SIZE@}}', "[1]")
    .replace("@SIZE@", "8"),
    "tensors are None": SOURCE.replace("@NAME@", "broken").replace("@SIZE@", "8").replace("domain=()", "domain=None"),
    "bad domain": SOURCE.replace("@NAME@", "broken").replace("@SIZE@", "8").replace("domain=()", 'domain=("R %",)'),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_whatever_a_case_raises_is_one_line(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "given" / "broken"
    folder.mkdir(parents=True)
    (folder / "case.py").write_text(ESCAPES[name])
    try:
        find("broken", "opencl", roots([tmp_path / "given"]))
    except CaseError as error:
        assert len(str(error).splitlines()) == 1
        assert str(folder / "case.py") in str(error)
        return
    except BaseException as error:
        pytest.fail(f"{type(error).__name__}")
    pytest.fail("accepted")


def test_an_interrupt_goes_through(tmp_path: Path) -> None:
    folder = tmp_path / "given" / "broken"
    folder.mkdir(parents=True)
    (folder / "case.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        find("broken", "opencl", roots([tmp_path / "given"]))


def test_what_is_hashed_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    given = _workload(tmp_path / "given", "toy", 8)
    path = given / "toy" / "case.py"
    stamp = path.stat()
    assert find("toy", "opencl", roots([given])).dims == {"R": 8}
    # An edit of the same length within the second that Python's cache can tell.
    path.write_text(path.read_text().replace("8", "9"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    catalog._load.cache_clear()
    found = find("toy", "opencl", roots([given]))
    assert found.source == path.read_text()
    assert found.dims == {"R": 9}


def test_kernels_are_by_extension(tmp_path: Path) -> None:
    for name in ("b.cl", "a.cu", "case.py", "notes.md", "c.cl.bak"):
        (tmp_path / name).write_text("")
    assert [path.name for path in kernels(tmp_path)] == ["a.cu", "b.cl"]
    assert {path.name for path in kernels(PACKAGE / "gemm")} >= {"expert.cl", "naive.cl"}
