"""The command line as a user meets it: what it prints, its exit codes, what it keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest

from flows.cli import run
from flows.commands import schemas
from skill_library.records import MODELS

ROOT = Path(__file__).parents[2]
NAIVE = ROOT / "experts/gemm/naive.cl"
CASE = ("--case", "gemm/64-f32")

HEAD = """/* klineage
format = 1
workload = "gemm"
{extra}
[[launch]]
entry = "gemm"
grid = {grid}
block = {block}
args = ["A", "B", "C", "M", "N", "K"]
*/
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose cache the tests of this module share."""
    return tmp_path_factory.mktemp("root")


def _kernel(
    folder: Path, grid: str = '["cdiv(N, 16)", "cdiv(M, 16)"]', block: str = "[16, 16]", extra: str = ""
) -> Path:
    path = folder / "kernel.cl"
    code = NAIVE.read_text().partition("*/\n")[2]
    path.write_text(HEAD.format(grid=grid, block=block, extra=extra) + code)
    return path


def _schema(name: str) -> Any:
    return json.loads((schemas.FOLDER / f"{name}.json").read_text())


@pytest.mark.parametrize("name", sorted(schemas.MODELS))
def test_shipped_schemas_are_those_of_the_models(name: str) -> None:
    assert (schemas.FOLDER / f"{name}.json").read_text() == schemas.text(name)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gate", "missing.cl", "--case", "gemm"], "missing.cl: No such file"),
        (["gate", ".", "--case", "gemm"], "unknown extension"),
        (["gate", str(ROOT / "README.md"), "--case", "gemm"], "unknown extension '.md'"),
        (["gate", str(NAIVE), "--case", "gemm", "--baseline", "missing.cl"], "missing.cl: No such file"),
        (
            ["gate", str(NAIVE), "--case", "nothing"],
            "unknown case 'nothing'; there are workloads fmha, gemm, ",
        ),
        (["gate", str(NAIVE), "--case", "gemm/7-f32"], "unknown case gemm/7-f32"),
        (["gate", str(NAIVE), "--case", "gemm/64-f16"], "expected <size>-<dtype>"),
        (["gate", str(NAIVE), "--case", "gemm/M=1,N=2-f32"], "give each of M, N, K once"),
        (["gate", str(NAIVE), *CASE, "--platform", "sm10"], "unknown platform 'sm10'"),
        (["gate", str(NAIVE), *CASE, "--platform", "sm90"], "runs cuda, triton, tilelang, not opencl"),
        (["gate", str(NAIVE), *CASE, "--experts", "missing"], "experts folder missing does not exist"),
        (["gate", str(NAIVE), *CASE, "--timeout", "soon"], "--timeout"),
        (["gate", str(NAIVE)], "Missing option '--case'"),
        (["gate"], "Missing argument 'FILE'"),
        (["walk", "missing.cl"], "missing.cl: No such file"),
        (["walk", str(ROOT / "README.md")], "expected a kernel that ends in .cl, .cu"),
        (["walk", str(NAIVE), "--case", "nothing"], "unknown case 'nothing'"),
        (["walk", str(NAIVE), "--platform", "sm10"], "unknown platform 'sm10'"),
        (["walk", str(NAIVE), "--pairs", "7"], "7 pairs: expected one of 20, 60, 150, 400"),
        (["walk", str(NAIVE), "--rewriter", "magic"], "--rewriter"),
        (["show", "zzz"], "no lineage"),
        (["optimize", "missing.cl"], "missing.cl: No such file"),
        (["optimize", str(ROOT / "README.md")], "expected a kernel that ends in .cl, .cu"),
        (["optimize", str(NAIVE), "--case", "nothing"], "unknown case 'nothing'"),
        (["optimize", str(NAIVE), "--attempts", "-1"], "-1 attempts: expected 0 or more"),
        (["optimize", str(NAIVE), "--pairs", "7"], "7 pairs: expected one of 20, 60, 150, 400"),
        (["optimize", str(NAIVE), "--cards", "missing"], "the folder of skills missing does not exist"),
        (["optimize", str(NAIVE), "--out", str(NAIVE)], "the given kernel is not overwritten"),
        (["optimize", str(NAIVE), "--out", "best.txt"], "best.txt: expected a file that ends in .cl"),
        (["induce", "--probe", "many"], "--probe many: expected a number of shapes, full, or none"),
        (["induce", "--probe", "0"], "0 shapes: expected 1 or more"),
        (["induce", "--platform", "sm10"], "unknown platform 'sm10'"),
        (["roundtrip", "nothing"], "there is no skill 'nothing'"),
        (["roundtrip", "--pairs", "7"], "7 pairs: expected one of 20, 60, 150, 400"),
        (["skills", "show", "nothing"], "there is no skill 'nothing'"),
        (["skills", "why", "nothing"], "there is no skill 'nothing'"),
        (["skills", "--cards", "missing"], "the folder of skills missing does not exist"),
        (["skills", "search"], "Missing argument"),
        (["cases", "nothing"], "unknown workload 'nothing'"),
        (["data", "check", "--shipped", "missing"], "--shipped"),
        (["data"], "Missing command"),
        (["unknown"], "No such command 'unknown'"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert err.count("\n") == 1
    assert err.startswith("klineage: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root reads every file")
def test_an_unreadable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _kernel(tmp_path)
    path.chmod(0)
    assert run(["gate", str(path), *CASE]) == 2
    assert "Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "stage", "status", "told"),
    [
        ({"extra": "kind = 3"}, "parse", "invalid_kernel", "unknown field 'kind'"),
        ({"extra": "options = ['-w']"}, "parse", "invalid_kernel", "option '-w' is not on the allow-list"),
        ({"extra": "= 3"}, "parse", "invalid_kernel", "line 4"),
        ({"grid": '["cdiv(Q, 16)", 1]'}, "parse", "invalid_kernel", "unknown name 'Q'"),
        ({"grid": '["M // (N - N)", 1]'}, "launch", "invalid_kernel", "division by zero"),
        ({"grid": '["M - N", 1]'}, "launch", "invalid_kernel", "grid [0, 1, 1]"),
        ({"block": "[100000, 1]"}, "launch", "resource_limit", "the device allows"),
        ({"extra": '[require]\nsmall = "M < 32"'}, "require", "unmet_require", "refuses gemm/64-f32: small: M < 32"),
        ({"extra": '[require]\nsmall = "M < 2000"'}, "require", "unmet_require", "minimal domain"),
    ],
)
def test_a_fault_inside_a_kernel_is_a_verdict_and_code_1(
    change: dict[str, str],
    stage: str,
    status: str,
    told: str,
    tmp_path: Path,
    shared: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = _kernel(tmp_path, **change)
    assert run(["gate", str(path), *CASE, "--json", "--data", str(shared)]) == 1
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, _schema("gate"))
    verdict = report["verdict"]
    assert (verdict["stage"], verdict["status"]) == (stage, status), verdict["reason"]
    assert told in verdict["reason"]
    assert report["kept"] == "kept"


def test_a_right_kernel_passes_and_its_row_is_kept(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", str(NAIVE), *CASE, "--json", "--no-profile", "--data", str(shared)]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, _schema("gate"))
    assert report["verdict"]["status"] == "ok"
    assert report["verdict"]["correctness"]["error"] < 1
    attempts = _compacted(shared, capsys)
    (row,) = attempts[attempts.attempt_id == report["attempt_id"]].to_dict("records")
    assert (row["status"], row["kernel_id"]) == ("ok", report["verdict"]["kernel_id"])


def test_a_comparison_has_a_ratio_with_its_interval(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expert = str(ROOT / "experts/gemm/expert.cl")
    arguments = ["gate", expert, "--case", "gemm/128-f32", "--baseline", str(NAIVE), "--data", str(shared)]
    assert run([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, _schema("gate"))
    profile = report["verdict"]["profile"]
    assert report["baseline"]["status"] == "ok"
    assert profile["effect"] == "faster"
    assert 1.25 < profile["low"] <= profile["ratio"] <= profile["high"]
    assert len(profile["candidate_samples_us"]) == len(profile["baseline_samples_us"]) == profile["pairs"]
    assert run(arguments) == 0
    assert "faster than" in capsys.readouterr().out


def test_each_repetition_is_a_row_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _kernel(tmp_path, extra="kind = 3")
    for _ in range(3):
        run(["gate", str(path), *CASE, "--data", str(tmp_path / "root")])
    assert len(_compacted(tmp_path / "root", capsys)) == 3
    assert run(["data", "check", "--data", str(tmp_path / "root")]) == 0


def test_every_dataset_is_there_for_plain_pandas(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["gate", str(NAIVE), *CASE, "--no-profile", "--data", str(shared)])
    _compacted(shared, capsys)
    for dataset in ("kernels", "attempts"):
        frame = pd.read_parquet(shared / "evidence" / dataset)
        assert set(frame.columns) == set(MODELS[dataset].model_fields)
        assert len(frame) > 0


def test_a_root_that_cannot_be_written_loses_no_verdict(
    tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    assert run(["gate", str(NAIVE), *CASE, "--no-profile", "--data", str(blocked)]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("passed ")
    assert "its row was not kept" in err
    assert blocked.read_text() == "mine"


def test_a_small_limit_on_file_size_is_one_line(tmp_path: Path) -> None:
    command = (
        f'ulimit -f 100; exec "{sys.executable}" -m flows.cli gate "{NAIVE}" --case gemm/64-f32 --data "{tmp_path}"'
    )
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "limit on file size" in done.stderr
    assert done.stderr.count("\n") == 1


def test_cases_and_doctor_answer_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cases", "--json"]) == 0
    cases = json.loads(capsys.readouterr().out)
    jsonschema.validate(cases, _schema("cases"))
    assert {"gemm/64-f32", "gemm/512-f32"} <= {case["case"] for case in cases["cases"]}
    assert run(["doctor", "--json"]) == 0
    doctor = json.loads(capsys.readouterr().out)
    jsonschema.validate(doctor, _schema("doctor"))
    assert all(check["fix"] for check in doctor["checks"] if check["state"] != "ok")


def test_gate_needs_no_prefect_and_no_dspy() -> None:
    heavy = ("prefect", "dspy", "pyopencl", "cupy")
    code = f"import sys, flows.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _compacted(root: Path, capsys: pytest.CaptureFixture[str]) -> pd.DataFrame:
    assert run(["data", "compact", "--data", str(root), "--json"]) == 0
    out = capsys.readouterr().out.splitlines()[-1]
    jsonschema.validate(json.loads(out), _schema("data-compact"))
    return pd.read_parquet(root / "evidence" / "attempts")
