"""CUDA kernels through the compile stage, which needs no driver and no device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flows.cli import run

HEAD = """/* klineage
format = 1
workload = "gemm"
{tables}
[[launch]]
entry = "gemm"
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
{fields}
args = ["A", "B", "C", "M", "N", "K"]
*/
"""
CODE = """extern "C" __global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""


def _gate(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str, platform: str, fields: str = "", tables: str = ""
) -> tuple[int, dict[str, Any]]:
    path = folder / "kernel.cu"
    path.write_text(HEAD.format(tables=tables, fields=fields) + code)
    command = ["gate", str(path), "--case", "gemm/64-f32", "--compile-only", "--platform", platform, "--json"]
    code_of = run([*command, "--data", str(folder / "root")])
    return code_of, json.loads(capsys.readouterr().out)["verdict"]


@pytest.mark.parametrize("platform", ["sm90", "sm120"])
def test_it_compiles_without_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str], platform: str) -> None:
    code, verdict = _gate(tmp_path, capsys, CODE, platform)
    assert (code, verdict["status"], verdict["stage"], verdict["tier"]) == (0, "ok", "compile", "compile")
    facts = verdict["compile"]
    assert 8 <= facts["registers"] <= 255
    assert facts["spill_bytes"] == facts["local_bytes"] == 0
    assert facts["binary_bytes"] > 1000
    assert verdict["correctness"] is verdict["profile"] is None


def test_registers_spills_and_shared_memory_are_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = CODE.replace("float sum", "__shared__ float tile[1000]; float many[96]; tile[col % 1000] = row; float sum")
    # All values live at once across a barrier, in 16 registers.
    code = code.replace(
        "    C[row",
        """
#pragma unroll
    for (int i = 0; i < 96; i++)
        many[i] = sum * A[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; i++)
        sum += many[i] * tile[i];
    C[row""",
    )
    _, verdict = _gate(tmp_path, capsys, code, "sm90", tables='options = ["--maxrregcount=24"]')
    assert verdict["status"] == "ok"
    assert verdict["compile"]["registers"] <= 24
    assert verdict["compile"]["spill_bytes"] > 0
    assert verdict["compile"]["local_bytes"] == 4000


@pytest.mark.parametrize(
    ("replaced", "by", "fields", "status", "reason"),
    [
        ("float sum = 0.0f", "float sum = 0.0f +", "", "compile_error", "line 1[0-9]: "),
        ("for (int", 'asm("bogus.f32 %0;" : "=f"(sum)); for (int', "", "compile_error", "bogus"),
        ("void gemm", "void other", "", "compile_error", "no such kernel function; the code has other"),
        ("int M, int N, int K", "int M, int N", "", "compile_error", "undefined"),
        ("int K)", "int K, int more)", "", "invalid_kernel", "takes 7 arguments, the manifest gives 6"),
        ("int K)", "long long K)", "", "wrong_dtype", "K is i32 of 4 bytes, the code declares a parameter of 8 bytes"),
        ("extern", '#include "/etc/passwd"\nextern', "", "compile_error", "cannot open|could not open"),
        ("extern", "#include <stdio.h>\nextern", "", "compile_error", "cannot open|could not open"),
        ("", "", "shared = 300000", "resource_limit", "300000 bytes of shared memory"),
        ("", "", "cluster = [3]", "invalid_kernel", r"grid \[4, 4, 1\] is not made of whole clusters"),
        ("", "", "cluster = [2, 2, 4]", "invalid_kernel", "from 1 to 8 blocks make one"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_seen_without_a_device(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    replaced: str,
    by: str,
    fields: str,
    status: str,
    reason: str,
) -> None:
    code, verdict = _gate(tmp_path, capsys, CODE.replace(replaced, by, 1), "sm90", fields)
    assert (code, verdict["status"]) == (1, status), verdict["reason"]
    assert re.search(reason, verdict["reason"]), verdict["reason"]


def test_headers_of_cuda_are_on_the_include_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headers = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cooperative_groups.h>\n#include <mma.h>\n"
    _, verdict = _gate(tmp_path, capsys, headers + CODE, "sm120")
    assert verdict["status"] == "ok", verdict["log"]


def test_a_gpu_is_asked_for_where_more_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(HEAD.format(tables="", fields="") + CODE)
    for extra in (["--platform", "sm75"], ["--compile-only"], ["--compile-only", "--platform", "pocl-x86-avx2"]):
        code = run(["gate", str(path), "--case", "gemm/64-f32", *extra, "--data", str(tmp_path / "root")])
        told = capsys.readouterr().err
        if extra == ["--compile-only"] and not told:
            continue  # this machine has a GPU
        assert (code, len(told.splitlines())) == (2, 1), told
