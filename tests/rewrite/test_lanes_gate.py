"""What the rule makes of kernels, and of its own results, passes the gate on a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experts import catalog, platform
from experts.kernel import Kernel, load, parse
from experts.verdict import Verdict
from tasks.gate.runner import Settings, gate
from tasks.rewrite.rules.lanes import VectorLanes

RULE = VectorLanes()
EXPERT = load(Path(__file__).parents[2] / "experts" / "gemm" / "expert.cl")

# bodies of a GEMM kernel: parameters, grid, group, what N and K must be multiples of, code
KERNELS = {
    "pointer parameters": (
        "__global const float *A, __global const float4 *B, __global float4 *C, int M, int N, int K",
        '"cdiv(N, 4)", "M"',
        "1, 1",
        4,
        """
    int col = get_global_id(0), row = get_global_id(1);
    float4 sum = (float4)(0.0f);
    for (int k = 0; k < K; k++)
        sum = mad((float4)(A[row * K + k]), B[k * (N / 4) + col], sum);
    C[row * (N / 4) + col] = sum;
""",
    ),
    "reduction over components": (
        "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
        '"N", "M"',
        "1, 1",
        4,
        """
    int col = get_global_id(0), row = get_global_id(1);
    float4 sum = 0.0f, b;
    for (int k = 0; k < K; k += 4) {
        __global const float *p = B + k * N + col;
        b.x = p[0];
        b.y = p[N];
        b.z = p[2 * N];
        b.w = p[3 * N];
        const float4 a = vload4(0, &A[row * K + k]);
        sum += a * b;
    }
    C[row * N + col] = sum.x + sum.y + (sum.z + sum.w);
""",
    ),
    "rows of accumulators": (
        "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
        '"cdiv(N, 8)", "cdiv(M, 3)"',
        "1, 1",
        8,
        """
    int j = get_global_id(0), i = get_global_id(1) * 3;
    float8 acc[3] = {0.0f};
    for (int k = 0; k < K; k++) {
        float8 b = ((__global const float8 *)(B + k * N))[j];
        #pragma unroll
        for (int r = 0; r < 3; r++)
            if (i + r < M) acc[r] = fma(b, (float8)(A[(i + r) * K + k]), acc[r]);
    }
    for (int r = 0; r < 3; r++)
        if (i + r < M)
            *(__global float8 *)&C[(i + r) * N + 8 * j] = acc[r];
""",
    ),
    "staged in local memory": (
        "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
        '"cdiv(N, 64)", "M"',
        "16, 1",
        64,
        """
    __local float4 tile[4][16];
    int lid = get_local_id(0), row = get_global_id(1), col = get_group_id(0) * 64;
    float4 sum = (float4)(0.0f);
    for (int k = 0; k < K; k += 4) {
        for (int t = 0; t < 4; t++)
            tile[t][lid] = vload4(lid, B + (k + t) * N + col);
        barrier(CLK_LOCAL_MEM_FENCE);
        const float4 a = vload4(k / 4, A + row * K);
        sum += a.x * tile[0][lid] + a.y * tile[1][lid] + a.z * tile[2][lid] + a.w * tile[3][lid];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    vstore4(sum, lid, C + row * N + col);
""",
    ),
    "rows of a padded array": (
        "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
        '"cdiv(N, 32)", "cdiv(M, 2)"',
        "2, 1",
        32,
        """
    __local float tile[3][35];
    int lid = get_local_id(0), i = get_group_id(1) * 2 + lid, col = get_group_id(0) * 32;
    uint half_ = lid * 16;
    float sum[32] = {0.0f};
    for (int k = 0; k < K; k++) {
        vstore16(vload16(0, B + k * N + col + (int)half_), 0, &tile[k % 2 + 1][1 + half_]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < M)
            for (int j = 0; j < 32; j++)
                sum[j] += A[i * K + k] * tile[k % 2 + 1][j + 1];
    }
    __local float rows[2][32 + 5];
    for (int j = 0; j < 32; j++)
        rows[lid][j + 5] = sum[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < M) {
        vstore8(vload8(1, &rows[lid][5]), 1, C + i * N + col);
        vstore8(vload8(0, rows[lid] + 5), 0, C + i * N + col);
        vstore8(vload8(2, &rows[lid][5]), 2, C + i * N + col);
        vstore8(vload8(0, &rows[lid][24 + 5]), 3, C + i * N + col);
    }
""",
    ),
    "moving pointers": (
        "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
        '"cdiv(N, 32)", "M"',
        "1, 1",
        32,
        """
    int row = get_global_id(1);
    __global float16 *c = (__global float16 *)(C + row * N) + 2 * (int)get_global_id(0);
    for (int half_ = 0; half_ < 2; half_++, c++) {
        __global const float16 *b = (__global const float16 *)(B + (get_global_id(0) * 2 + half_) * 16);
        float16 sum = 0.0f;
        for (int k = 0; k < K; k++) {
            sum += A[row * K + k] * *b;
            b += N / 16;
        }
        *c = sum;
    }
""",
    ),
    "integers and conversions": (
        "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
        '"cdiv(N, 2)", "M"',
        "1, 1",
        2,
        """
    int row = get_global_id(1);
    int2 col = (int2)(get_global_id(0) * 2);
    col.y += 1;
    float2 sum = (float2)(0.0f, 0.0f);
    for (int k = 0; k < K; k++)
        sum += A[row * K + k] * vload2(get_global_id(0), B + k * N) * convert_float2((col + 2) / (col + 2));
    vstore2(sum, 0, C + row * N + col.x);
""",
    ),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    found = platform.select("opencl", None)
    return Settings(platform=found, tier="default", profile=False, cache=tmp_path_factory.mktemp("cache"))


def gated(kernel: Kernel, case: str, settings: Settings) -> Verdict:
    return gate(kernel, catalog.find(case, "opencl", catalog.roots()), settings, None, None).verdict


def told(verdict: Verdict) -> str:
    return f"{verdict.status} at {verdict.stage}: {verdict.reason}"


def stripped(kernel: Kernel) -> Kernel:
    """Every region out."""
    places = RULE.removable(kernel)
    assert places.edits and not places.declined
    for edit in places.edits:
        kernel, _ = RULE.apply(kernel, edit)
    return kernel


def kernel_of(name: str) -> Kernel:
    parameters, grid, group, multiple, body = KERNELS[name]
    return parse(
        f"""/* klineage
format = 1
workload = "gemm"
[require]
columns = "N % {multiple} == 0"
depth = "K % {multiple} == 0"
[[launch]]
entry = "gemm"
grid = [{grid}]
block = [{group}]
args = ["A", "B", "C", "M", "N", "K"]
*/
__kernel void gemm({parameters})
{{{body}}}
""",
        surface="opencl",
    )


@pytest.mark.parametrize("at", range(3))
def test_each_region_of_the_expert(at: int, settings: Settings) -> None:
    kernel, _ = RULE.apply(EXPERT, RULE.removable(EXPERT).edits[at])
    verdict = gated(kernel, "gemm/128-f32", settings)
    assert verdict.status == "ok", told(verdict)


def test_all_regions_of_the_expert(settings: Settings) -> None:
    kernel = stripped(EXPERT)
    verdict = gated(kernel, "gemm/128-f32", replace(settings, tier="sanitize"))
    assert verdict.status == "ok" and verdict.clean, told(verdict)
    # as if a person had written the loops: through vloadN
    for edit in RULE.addable(kernel).edits:
        kernel, _ = RULE.apply(kernel, edit)
    assert "vload16" in kernel.text
    verdict = gated(kernel, "gemm/128-f32", settings)
    assert verdict.status == "ok", told(verdict)


@pytest.mark.parametrize("name", KERNELS)
def test_before_and_after(name: str, settings: Settings) -> None:
    kernel = kernel_of(name)
    after = stripped(kernel)
    again = after
    for edit in RULE.addable(after).edits:
        again, _ = RULE.apply(again, edit)
    assert kernel.text != after.text != again.text
    for each in {k.text: k for k in (kernel, after, again)}.values():
        verdict = gated(each, "gemm/64-f32", settings)
        assert verdict.status == "ok", f"{told(verdict)}\n{each.text}"
