"""Blocks of lanes, and the vectors that they become, pass the gate on a device where the precondition holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experts import catalog, platform
from experts.kernel import Kernel, parse
from tasks.gate.runner import Settings, gate
from tasks.rewrite.edit import Edit, params
from tasks.rewrite.rules.lanes import VectorLanes
from tasks.rewrite.rules.strip import StripMine

RULE, LANES = StripMine(), VectorLanes()
EXPERTS = Path(catalog.__file__).parent
SEVERAL = """/* klineage
format = 1
workload = "gemm"
[require]
depth = "K % 16 == 0"
columns = "N % 16 == 0"
[[launch]]
entry = "gemm"
grid = ["M"]
block = [1]
args = ["A", "B", "C", "M", "N", "K"]
*/
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int row = get_global_id(0);
    float most = -INFINITY, squares = 1.0f;
    for (int k = 0; k < K; k++) {
        float a = A[row * K + k];
        const float twice = 2.0f * a;
        most = fmax(most, fabs(a));
        squares = mad(a, twice - a, squares);
    }
    for (int j = 0; j < N; j++)
        C[row * N + j] = squares < 1.0f || most > squares + 1.0f ? NAN : 0.0f;
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            C[j + row * N] += A[row * K + k] * B[k * N + j];
}
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    found = platform.select("opencl", None)
    return Settings(platform=found, tier="default", profile=False, cache=tmp_path_factory.mktemp("cache"))


def accept(kernel: Kernel, case: str, settings: Settings) -> None:
    verdict = gate(kernel, catalog.find(case, "opencl", catalog.roots()), settings).verdict
    assert verdict.status == "ok", f"{verdict.status} at {verdict.stage}: {verdict.reason}\n{kernel.text}"


def naive(workload: str) -> Kernel:
    """The naive kernel, for whole blocks only."""
    text = (EXPERTS / workload / "naive.cl").read_text()
    assert text.count("[[launch]]") == 1 and "[require]" not in text
    return parse(text.replace("[[launch]]", '[require]\nwhole = "N % 16 == 0"\n[[launch]]'), surface="opencl")


def blocks_of(kernel: Kernel) -> Kernel:
    for edit in RULE.addable(kernel).edits:
        kernel, _ = RULE.apply(kernel, edit)
    return kernel


def vectors_of(kernel: Kernel, forms: str) -> Kernel:
    while edits := LANES.addable(kernel).edits:
        values = dict(edits[0].params) | {"forms": forms}
        edit = Edit(edits[0].rule, "add", edits[0].intent, edits[0].anchor, params(**values))
        kernel, _ = LANES.apply(kernel, edit)
    return kernel


@pytest.mark.parametrize("workload", ["softmax", "layernorm"])
def test_rows(workload: str, settings: Settings) -> None:
    kernel, case = naive(workload), f"{workload}/64x128-f32"
    blocks = blocks_of(kernel)
    assert len(RULE.removable(blocks).edits) == 3
    accept(blocks, case, settings)
    vectors = vectors_of(blocks, "C")
    assert "[lane]" not in vectors.text and vectors.text.count("*(__global const float16 *)") >= 3
    assert {d.reason for d in RULE.removable(vectors).declined} == {"its lanes are vectors"}
    accept(vectors, case, settings)


def test_several_statements_and_sums(settings: Settings) -> None:
    kernel = parse(SEVERAL, surface="opencl")
    blocks = blocks_of(kernel)
    assert [edit.intent for edit in RULE.removable(blocks).edits] == [
        "split-accumulator",
        "strip-mine-loop",
        "strip-mine-loop",
    ]
    vectors = vectors_of(blocks, "v")
    assert "float16 squares_part" in vectors.text and "float16 a = vload16" in vectors.text
    for each in (kernel, blocks):
        accept(each, "gemm/64-f32", settings)
    accept(vectors, "gemm/64-f32", replace(settings, tier="sanitize"))


def test_blocks_past_the_end_are_wrong(settings: Settings) -> None:
    """What the precondition is for: the rule itself does not check it, the gate sees it."""
    kernel = blocks_of(parse(SEVERAL.replace('columns = "N % 16 == 0"\n', ""), surface="opencl"))
    verdict = gate(kernel, catalog.find("gemm/64-f32", "opencl", catalog.roots()), settings).verdict
    assert verdict.status != "ok"
