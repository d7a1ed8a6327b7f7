"""Facts of places: exact values on experts and small kernels, and unknown where the text does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from pathlib import Path

import pytest

import experts
from experts.case import Case, bind
from experts.expressions import Expression
from experts.fmha.case import WORKLOAD as FMHA
from experts.gemm.case import WORKLOAD as GEMM
from experts.kernel import Kernel, load, parse
from experts.platform import named
from experts.source import view
from experts.verdict import CompileFacts
from skill_library.facts import FACTS, Facts, Place, Scalar, divisibility_terms, expressions_at, facts_at

AVX512 = named("pocl-x86-avx512")
FOLDER = Path(experts.__file__).parent


def case_of(workload: str, **dims: int) -> Case:
    declared = {"gemm": GEMM, "fmha": FMHA}[workload]
    return bind(declared, None, "opencl", "").at(dims)


def expert(workload: str) -> Kernel:
    return load(FOLDER / workload / "expert.cl")


def kernel_of(
    body: str,
    *,
    parameters: str = "__global const float *A, __global const float *B, __global float *C, int M, int N, int K",
    args: str = '"A", "B", "C", "M", "N", "K"',
    grid: str = '"cdiv(M, W)"',
    block: str = '"W"',
    before: str = "",
    const: str = "W = 16",
) -> Kernel:
    return parse(
        f'/* klineage\nformat = 1\nworkload = "gemm"\n[const]\n{const}\n[[launch]]\nentry = "f"\n'
        f"grid = [{grid}]\nblock = [{block}]\nargs = [{args}]\n*/\n{before}\n"
        f"__kernel void f({parameters})\n{{\n{body}\n}}\n",
        surface="opencl",
    )


def at(
    kernel: Kernel, anchor: str, case: Case, offsets: Mapping[str, int] | None = None, **params: Scalar
) -> dict[str, object]:
    """The facts that follow from the kernel; numbers of one value as that value."""
    facts = facts_at(Place(kernel, anchor, params), case, AVX512, offsets=offsets or {})
    return {
        name: next(iter(value)) if isinstance(value, frozenset) and len(value) == 1 else value
        for name, value in facts.items()
        if not name.startswith("platform.") and name != "dtype"
    }


# One reduction over rows of A and one loop that writes rows of C, in three forms.
HEAD = """int row = get_global_id(0);
if (row >= M)
    return;
__global const float *a = A + row * K;
__global float *c = C + row * K;
float sum = 0.0f;
"""
PLAIN = (
    HEAD
    + """for (int k = 0; k < K; k++)
    sum += a[k];
for (int k = 0; k < K; k++)
    c[k] = a[k] / sum;
"""
)
LANES = (
    HEAD
    + """float s[16];
for (int lane = 0; lane < 16; lane++)
    s[lane] = 0.0f;
for (int k = 0; k < K; k += 16)
    for (int lane = 0; lane < 16; lane++)
        s[lane] += a[k + lane];
for (int lane = 0; lane < 16; lane++)
    sum += s[lane];
for (int k = 0; k < K; k += 16)
    for (int lane = 0; lane < 16; lane++)
        c[k + lane] = a[k + lane] / sum;
"""
)
VECTORS = (
    HEAD
    + """float16 s = 0.0f;
for (int k = 0; k < K; k += 16)
    s += vload16(0, a + k);
sum = s.s0 + s.s1;
for (int k = 0; k < K; k += 16)
    *(__global float16 *)(c + k) = *(__global const float16 *)(a + k) / sum;
"""
)


@pytest.mark.parametrize("k", [16, 48, 512])
@pytest.mark.parametrize(
    ("body", "anchor", "step", "stride", "params"),
    [
        (PLAIN, "f/loop[k]", 1, 1, {"width": 16}),
        (PLAIN, "f/var[sum]", 1, 1, {"width": 16}),
        (LANES, "f/loop[k]", 16, 1, {}),
        (LANES, "f/loop[k]", 16, 1, {"width": 16}),
        (LANES, "f/loop[k]/loop[lane]", 16, 1, {"width": 16}),
        (LANES, "f/var[s]", 16, 1, {}),
        (VECTORS, "f/loop[k]", 16, 16, {}),
        (VECTORS, "f/var[s]", 16, 16, {}),
        (VECTORS, "f/loop[k]/access[a]#0", 16, 16, {}),
    ],
)
def test_a_reduction_has_the_same_facts_in_every_form(
    body: str, anchor: str, step: int, stride: int, params: dict[str, Scalar], k: int
) -> None:
    facts = at(kernel_of(body), anchor, case_of("gemm", M=20, N=1, K=k), **params)
    wanted = {
        "loop.extent": k,
        "loop.step": step,
        "reduction.extent": k,
        "vector.width": 16,
        "vector.bytes": 64,
        "access.align": 64,
        "access.stride": stride,
        "group.size": 16,
    }
    if anchor == "f/var[s]" and body is LANES:
        wanted |= {"tile.elements": 16, "tile.bytes": 64}
    assert facts == wanted


@pytest.mark.parametrize(
    ("body", "anchor", "params"),
    [
        (PLAIN, "f/loop[k]#1", {"width": 16}),
        (LANES, "f/loop[k]#1", {}),
        (LANES, "f/loop[k]#1/loop[lane]", {}),
        (VECTORS, "f/loop[k]#1", {}),
        (VECTORS, "f/loop[k]#1/access[c]#0", {}),
    ],
)
def test_what_is_no_reduction_has_no_extent_of_one(body: str, anchor: str, params: dict[str, Scalar]) -> None:
    facts = at(kernel_of(body), anchor, case_of("gemm", M=20, N=1, K=48), **params)
    assert "reduction.extent" not in facts
    assert (facts["loop.extent"], facts["vector.width"], facts["access.align"]) == (48, 16, 64)


@pytest.mark.parametrize("k", [1, 3, 13, 16, 20, 24, 40, 64])
@pytest.mark.parametrize("offset", [0, 4, 8, 16, 20, 32, 60])
def test_alignment_counts_offsets_and_rows(k: int, offset: int) -> None:
    case = case_of("gemm", M=5, N=1, K=k)
    facts = at(kernel_of(PLAIN), "f/loop[k]", case, {"A": offset}, width=8)
    # 16 rows of the one group, whole blocks of 8 in each
    starts = [offset + 4 * (row * k + 8 * block) for row in range(16) for block in range(max(k // 8, 1))]
    common = gcd(128, *starts)
    assert facts["access.align"] == common & -common
    assert (
        at(kernel_of(PLAIN), "f/loop[k]", case, {"C": offset}, width=8)["access.align"]
        == at(kernel_of(PLAIN), "f/loop[k]", case, width=8)["access.align"]
    )


def test_alignment_is_that_of_the_worst_tensor() -> None:
    case = case_of("gemm", M=5, N=1, K=64)
    assert at(kernel_of(PLAIN), "f/loop[k]#1", case, {"C": 12}, width=8)["access.align"] == 4
    assert at(kernel_of(PLAIN), "f/loop[k]#1", case, {"C": 16, "A": 8}, width=8)["access.align"] == 8


def test_elements_that_are_in_no_block_do_not_count() -> None:
    body = "int col = get_global_id(0); float s = 0; for (int k = 0; k < K; k++) s += A[k] * B[k * N + col];"
    facts = at(kernel_of(body), "f/loop[k]", case_of("gemm", M=32, N=7, K=64), width=4)
    assert facts["access.align"] == 16  # A's blocks; B's elements are N apart
    assert facts["access.stride"] == frozenset({1, 7})
    assert "access.align" not in at(kernel_of(body), "f/loop[k]", case_of("gemm", M=32, N=7, K=64))


@pytest.mark.parametrize(("k", "extents"), [(512, {256}), (300, {256, 44}), (64, {64}), (257, {256, 1})])
def test_gemm_expert(k: int, extents: set[int]) -> None:
    kernel, case = expert("gemm"), case_of("gemm", M=130, N=320, K=k)
    facts = at(kernel, "gemm/loop[k0]/loop[j]/loop[i]/var[acc]", case)
    assert facts.pop("loop.extent") == facts.pop("reduction.extent") == _one(extents)
    assert facts == {
        "loop.step": 1,
        "vector.width": 16,
        "vector.bytes": 64,
        "access.align": 64,
        "access.stride": frozenset({16, 320}),  # Bp, and the rows of C
        "tile.elements": 6 * 16,
        "tile.bytes": 6 * 64,
        "group.size": 1,
    }
    staged = at(kernel, "gemm/loop[k0]/loop[i]/loop[k]", case)
    assert staged["loop.extent"] == _one(extents) and staged["loop.step"] == 16
    assert staged["access.align"] == gcd(64, 4 * k & -(4 * k))
    assert (staged["tile.elements"], staged["tile.bytes"]) == (6 * 11 * 256, 4 * 6 * 11 * 256)
    assert at(kernel, "gemm/loop[k0]/loop[i]", case)["loop.extent"] == 66  # up to whole tiles: 64 rows are 66
    assert at(kernel, "gemm/loop[k0]/loop[j]/loop[i]", case)["loop.extent"] == frozenset({66, 64})
    assert at(kernel, "gemm/loop[k0]/loop[j]", case)["loop.extent"] == frozenset({256, 64})
    hint = at(kernel, "gemm/loop[k0]/loop[j]/loop[i]/loop[k]/hint[unroll]", case)
    assert hint["loop.extent"] == _one(extents)


def _one(values: set[int]) -> object:
    return next(iter(values)) if len(values) == 1 else frozenset(values)


def test_fmha_expert() -> None:
    kernel, case = expert("fmha"), case_of("fmha", B=1, H=2, S=304, D=48)
    assert at(kernel, "pack_k/loop[d]", case)["group.size"] == 64
    assert at(kernel, "pack_k/loop[d]", case)["access.stride"] == frozenset({1, 16})
    rows = at(kernel, "fmha/loop[i]/loop[d]", case)
    assert (rows["loop.extent"], rows["loop.step"]) == (48, 16)
    # Qs[BM][D_MAX + PAD]: d goes along its second dimension
    assert (rows["tile.elements"], rows["tile.bytes"]) == (144, 4 * 64 * 144)
    assert rows["access.align"] == 64 and "reduction.extent" not in rows
    most = at(kernel, "fmha/loop[j0]/loop[i]/var[most]", case)
    assert most["reduction.extent"] == frozenset({112, 32}) and most["vector.width"] == 16
    assert "access.align" not in most  # local memory only
    weights = at(kernel, "fmha/loop[j0]/loop[d]/loop[i]/var[acc]", case)
    assert weights["reduction.extent"] == frozenset({128, 48})
    assert weights["access.stride"] == 48
    assert at(kernel, "fmha/var[P]", case)["tile.bytes"] == 4 * 64 * 144
    assert at(kernel, "exp2_16", case) == {"vector.width": 16, "vector.bytes": 64}  # a helper: no launch tells more


def test_constants() -> None:
    gemm, fmha = case_of("gemm", M=130, N=320, K=300), case_of("fmha", B=1, H=2, S=304, D=48)
    of = {name: at(expert("gemm"), f"::/const[{name}]", gemm) for name in ("KC", "PK", "MR", "MT")}
    assert of["KC"] == {"const.value": 256, "tile.extent": 300}
    assert of["PK"] == {"const.value": 16, "tile.extent": 300}  # cdiv(K, PK)
    assert of["MR"] == {"const.value": 6, "tile.extent": frozenset({64, 66})}
    assert of["MT"] == {"const.value": 11}
    assert at(expert("gemm"), "::/const[KC]", gemm, value=64)["const.value"] == 64
    assert at(expert("fmha"), "::/const[BM]", fmha) == {"const.value": 64, "tile.extent": 304}
    body = "int blocks = (K + W - 1) / W; for (int b = 0; b < blocks; b++) C[b] = 0.0f;"
    kernel = kernel_of(body, grid="1", block="1")
    assert at(kernel, "::/const[W]", gemm) == {"const.value": 16, "tile.extent": 300}
    assert expressions_at(Place(kernel, "::/const[W]", {}), gemm) == {"const.value": "16", "tile.extent": "K"}
    assert at(expert("gemm"), "::/option[-cl-mad-enable]", gemm) == {}


def test_parameters_by_other_names_than_the_launch_gives() -> None:
    body = "for (int i = 0; i < K; i++) C[i] = A[i * M];"
    kernel = kernel_of(
        body,
        parameters="__global const float *C1, __global float *C, __global const float *A, int K, int M",
        args='"B", "A", "C", "N", "K"',
    )
    case = case_of("gemm", M=2, N=64, K=10)
    assert expressions_at(Place(kernel, "f/loop[i]", {}), case)["loop.extent"] == "N"
    facts = at(kernel, "f/loop[i]", case, {"A": 4}, width=4)
    assert facts["loop.extent"] == 64 and facts["access.stride"] == frozenset({1, 10})
    assert facts["access.align"] == 4  # the kernel's C is the case's A
    assert at(kernel, "f/loop[i]", case, {"C": 4}, width=4)["access.align"] == 16


def test_a_kernel_that_is_launched_twice_has_the_facts_of_both() -> None:
    text = kernel_of("for (int i = 0; i < N; i++) C[i] = A[i];").text
    again = '[[launch]]\nentry = "f"\ngrid = [1]\nblock = [4]\nargs = ["A", "B", "C", "M", "K", "N"]\n*/'
    kernel = parse(text.replace("*/", again, 1), surface="opencl")
    place = Place(kernel, "f/loop[i]", {"width": 4})
    case = case_of("gemm", M=8, N=12, K=20)
    facts = facts_at(place, case, AVX512)
    assert facts["loop.extent"] == frozenset({12, 20}) and facts["group.size"] == frozenset({16, 4})
    assert expressions_at(place, case)["loop.extent"] is None
    assert divisibility_terms(place, case, "loop.extent") == ["N", "K"]


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("int n = (int)A[0]; for (int k = 0; k < n; k++) C[k] = 0.0f;", {"loop.extent", "access.align"}),
        ("for (int k = 0; k < K; k++) { if (A[k] > 3.0f) break; C[k] = 0.0f; }", {"loop.extent"}),
        ("for (int k = 0; k < K; k++) { C[k] = 0.0f; CLEAR(k) }", {"access.align", "access.stride"}),
        ("for (int k = 0; k < K; k++) { C[k] = 0.0f; touch(C, k); }", {"access.align", "access.stride"}),
        ("for (int k = 0; k < K; k++) C[(int)A[k]] = 0.0f;", {"access.align", "access.stride"}),
        ("for (int k = 0; k < K; k++) C[min(k, M)] = 0.0f;", {"access.align"}),
        ("int k = 0; while (k < K) { C[k] = 0.0f; k++; }", {"loop.extent", "access.align", "access.stride"}),
    ],
)
def test_what_is_not_understood_is_absent(body: str, missing: set[str]) -> None:
    before = "#define CLEAR(k) C[k] = 0.0f;\nvoid touch(__global float *p, int k) { p[k] = 1.0f; }\n"
    anchor = "f/loop[while]" if "while" in body else "f/loop[k]"
    facts = at(kernel_of(body, before=before), anchor, case_of("gemm", M=8, N=8, K=64), width=8)
    assert not missing & facts.keys()
    assert facts["group.size"] == 16 and facts["vector.width"] == 8


def test_a_loop_that_is_never_reached_has_no_facts_of_its_iterations() -> None:
    body = "for (int k = 16; k < K; k += 16) for (int i = k; i < N; i++) C[i] = 0.0f;"
    facts = at(kernel_of(body), "f/loop[k]/loop[i]", case_of("gemm", M=8, N=8, K=16), width=4)
    assert not {"loop.extent", "access.align"} & facts.keys()
    facts = at(kernel_of(body), "f/loop[k]", case_of("gemm", M=8, N=8, K=7))
    assert facts["loop.extent"] == 0


def test_an_anchor_of_what_is_not_there_yet_is_about_what_is_around() -> None:
    case = case_of("gemm", M=8, N=8, K=64)
    kernel = kernel_of(PLAIN)
    assert at(kernel, "f/loop[k]/hint[unroll]", case, value=4) == at(kernel, "f/loop[k]", case)
    assert at(kernel, "f/attribute[reqd_work_group_size]", case)["group.size"] == 16
    assert at(kernel, "g/loop[k]", case) == {} == at(kernel, "no anchor", case)


def test_tiles() -> None:
    body = "__local float t[8][32]; float r[4]; for (int k = 0; k < K; k++) t[0][k] = A[k]; C[0] = t[0][0] + r[0];"
    case = case_of("gemm", M=8, N=8, K=24)
    kernel = kernel_of(body)
    assert at(kernel, "f/loop[k]", case)["tile.elements"] == 32
    assert at(kernel, "f/loop[k]", case)["tile.bytes"] == at(kernel, "f", case)["tile.bytes"] == 1024
    assert at(kernel, "f", case)["tile.elements"] == 256
    assert at(kernel, "f/var[r]", case)["tile.bytes"] == 16
    assert expressions_at(Place(kernel, "f/var[t]", {}), case)["tile.elements"] == "256"


def test_platform_report_and_prior() -> None:
    place, case = Place(kernel_of(PLAIN), "f/loop[k]", {}), case_of("gemm", M=8, N=8, K=64)
    report = CompileFacts(registers=40, spill_bytes=0, local_bytes=None)
    facts = facts_at(place, case, AVX512, report=report, standing=("stage-tile",))
    assert facts["dtype"] == "f32" and facts["platform.arch"] == "avx512"
    assert facts["platform.warp"] == frozenset({1}) and "platform.local_bytes" not in facts
    assert facts["compile.registers"] == frozenset({40}) and facts["compile.spill_bytes"] == frozenset({0})
    assert "compile.local_bytes" not in facts
    assert facts["prior(stage-tile)"] is True and "prior(pack-operand)" not in facts
    device = facts_at(place, case, named("sm90"))
    assert device["platform.arch"] == "sm90" and device["platform.warp"] == frozenset({32})
    assert device["platform.local_bytes"] == frozenset({232448})


def test_cuda() -> None:
    text = """/* klineage
format = 1
workload = "gemm"
[const]
T = 32
[[launch]]
entry = "f"
grid = ["cdiv(N, T * 4)"]
block = ["T"]
args = ["A", "C", "N", "K"]
*/
__global__ void f(const float *__restrict__ A, float *C, int N, int K)
{
    __shared__ float4 t[T];
    int col = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    for (int k = 0; k < K; k++)
        t[threadIdx.x] = *reinterpret_cast<const float4 *>(A + k * N + col);
    C[col] = t[0].x;
}
"""
    kernel, case = parse(text, surface="cuda"), case_of("gemm", M=8, N=264, K=24)
    facts = facts_at(Place(kernel, "f/loop[k]", {}), case, named("sm90"))
    assert facts["loop.extent"] == frozenset({24}) and facts["group.size"] == frozenset({32})
    assert facts["access.align"] == frozenset({16}) and facts["access.stride"] == frozenset({264})
    assert facts["vector.width"] == frozenset({4})
    assert at(kernel, "f/var[t]", case)["tile.bytes"] == 512


def test_a_parameter_is_about_all_that_goes_through_it() -> None:
    kernel, case = expert("gemm"), case_of("gemm", M=64, N=64, K=72)
    facts = at(kernel, "gemm/param[A]", case)
    assert (facts["access.align"], facts["access.stride"], facts["vector.width"]) == (32, 16, 16)
    assert at(kernel, "gemm/param[M]", case) == {"group.size": 1}
    unnamed = kernel_of("C[0] = 1.0f;", parameters="__global float *, __global float *C", args='"A", "C"')
    assert at(unnamed, "f/param[_]", case) == {"group.size": 16}


SHAPES = {
    "gemm": ({"M": 64, "N": 64, "K": 64}, {"M": 31, "N": 67, "K": 300}, {"M": 1, "N": 1, "K": 1}),
    "fmha": ({"B": 1, "H": 2, "S": 304, "D": 48}, {"B": 2, "H": 1, "S": 33, "D": 20}),
}


@pytest.mark.parametrize("workload", ["gemm", "fmha"])
def test_expressions_and_terms_say_what_the_facts_say(workload: str) -> None:
    kernel = expert(workload)
    anchors = [
        str(a) for a in view(kernel.text, "opencl").anchors() if "param" not in str(a) and "/call[" not in str(a)
    ]
    anchors = [a for a in anchors if "/assign[" not in a] + [f"::/const[{name}]" for name in kernel.manifest.const]
    known = 0
    for anchor in anchors:
        place = Place(kernel, anchor, {})
        for dims in SHAPES[workload]:
            case = case_of(workload, **dims)
            facts = facts_at(place, case, AVX512)
            _closed(facts)
            symbols = {**dims, **kernel.manifest.const}
            for name, text in expressions_at(place, case).items():
                values = facts.get(name)
                if not isinstance(values, frozenset):
                    continue
                if text is not None:
                    known += 1
                    assert values == {Expression(text).integer(symbols)}, (anchor, name, text)
                terms = divisibility_terms(place, case, name)
                if terms is None:
                    continue
                common = gcd(*(Expression(t).integer(symbols) for t in terms))
                if name == "access.align":
                    common &= -common
                assert all(value == 0 or (common and value % common == 0) for value in values), (anchor, name, terms)
    assert known > 100


def _closed(facts: Facts) -> None:
    assert facts.keys() <= FACTS.keys()
    assert all(values for values in facts.values() if isinstance(values, frozenset))
