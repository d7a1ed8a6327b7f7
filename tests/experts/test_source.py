"""The parsed view of kernels: what is found, what is declined, and that anchors and edits hold."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experts.source import (
    Anchor,
    Function,
    Loop,
    SourceView,
    Span,
    StepKind,
    Surface,
    TextEdit,
    Variable,
    apply_edits,
    view,
)

GEMM_CL = r"""/* klineage
format = 1
workload = "gemm"    # tile größe → 8 by 16, global
[[launch]]
entry = "gemm"
*/
#define BM 16
#define BK (BM * 2)
#define IDX(r, c) ((r) * K + (c))
#define LDG4(p) (*(__global const float4 *)(p))
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__constant float lut[4] = { 0.f, 1.f, 2.f, 3.f };

inline float8 mad8(const float8 a, float b, float8 c) { return a * b + c; }

// the kernel: every global load is staged in local memory («größer ist besser»)
__kernel __attribute__((reqd_work_group_size(16, 1, 1), vec_type_hint(float8)))
void gemm(__global const float * restrict A, const global float *restrict B,
          __global float *C, const int M, int N, int K)
{
    __local float Asub[BM][BK + 1];
    local float4 Bsub[BK];
    float8 acc[4], zero = (float8)(0.0f);
    const int lid = get_local_id(0);

    for (int i = 0; i < 4; ++i)
        acc[i] = (float8)(0.0f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        Asub[lid / BM][lid % BM] = A[IDX(lid, k0)];
        Bsub[lid] = vload4(lid, B + k0 * N);
        float4 q = *(__global const float4 *)(A + k0 * 2 + lid);
        float4 r = ((__global float4 *)B)[lid];
        prefetch(A + k0, 16);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll 4 // of the inner product
        for (int k = 0; k < BM; k++) {
            acc[0].s01 += Asub[lid][k] * (float2)(q.x, -r.y);
            q = (float4)-r;
        }
        __attribute__((opencl_unroll_hint(2)))
        for (int k = BM; k > 0; k -= 2) {
            acc[1] = mad8(acc[1], native_exp(1.0f), acc[0]);
            if (acc[1].s0 > 3) break;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    vstore8(acc[0], 0, &C[lid * N]);
    while (lid < N) { atomic_inc(&C[lid]); continue; }
}
"""

GEMM_CU = r"""#include <cuda_fp16.h>
constexpr int BK = 32;
__constant__ float scale[4];
template <int N> __device__ __forceinline__ float dot(const float (&a)[N], const float4 &b) {
    return a[0] * b.x;
}
extern "C" __global__ void __launch_bounds__(256, 2)
gemm(const float *__restrict__ A, const float4* __restrict__ B, float *C, int K,
     const __grid_constant__ CUtensorMap map)
{
    __shared__ __align__(16) float tile[2][BK + 1];
    extern __shared__ float dyn[];
    float acc[8] = {0.f};
    int k0;
#pragma unroll
    for (k0 = 0; k0 < K; k0 = k0 + BK) {
        tile[k0 & 1][threadIdx.x] = A[k0 + threadIdx.x];
        float4 v = reinterpret_cast<const float4 *>(A + k0)[threadIdx.x];
        float w = __ldg(&A[k0]) + static_cast<float>(K) + std::max(v.x, v.y);
        __syncthreads();
        for (int j = 7; j >= 0; --j) acc[j] += tile[0][j] * B[j].x;
        if (w > 0) *(C + k0) = dot<8>(acc, v);
    }
    asm volatile("bar.sync 0;" ::: "memory");
}
"""


def kernel(text: str, surface: Surface = "opencl") -> Function:
    return view(text, surface).entries[0]


def cl(body: str, parameters: str = "__global float *A, int n") -> SourceView:
    return view(f"__kernel void f({parameters})\n{{\n{body}\n}}\n", "opencl")


def names(found: SourceView) -> list[str]:
    return [str(a) for a in found.anchors()]


# what is found


def test_entries_and_parameters_opencl() -> None:
    found = view(GEMM_CL, "opencl")
    assert [f.name for f in found.functions] == ["mad8", "gemm"]
    assert [f.name for f in found.entries] == ["gemm"] and [f.name for f in found.helpers] == ["mad8"]
    gemm = found.entries[0]
    assert gemm.span.of(GEMM_CL).startswith("__kernel __attr") and gemm.span.of(GEMM_CL).endswith("}")
    assert gemm.return_type == "void" and found.functions[0].return_type == "float8"
    table = [(p.type, p.name, p.address_space, p.is_pointer, p.const, p.restrict) for p in gemm.parameters]
    assert table == [
        ("float *", "A", "global", True, True, True),
        ("float *", "B", "global", True, True, True),
        ("float *", "C", "global", True, False, False),
        ("int", "M", "private", False, True, False),
        ("int", "N", "private", False, False, False),
        ("int", "K", "private", False, False, False),
    ]
    assert [(a.name, a.arguments) for a in gemm.attributes] == [
        ("reqd_work_group_size", "16, 1, 1"),
        ("vec_type_hint", "float8"),
    ]


def test_entries_and_parameters_cuda() -> None:
    found = view(GEMM_CU, "cuda")
    gemm = found.entries[0]
    assert [f.name for f in found.helpers] == ["dot"]
    assert gemm.attributes[0].name == "__launch_bounds__" and gemm.attributes[0].arguments == "256, 2"
    table = [(p.type, p.name, p.address_space, p.const, p.restrict) for p in gemm.parameters]
    assert table == [
        ("float *", "A", "global", True, True),
        ("float4 *", "B", "global", True, True),
        ("float *", "C", "global", False, False),
        ("int", "K", "private", False, False),
        ("CUtensorMap", "map", "private", True, False),
    ]
    arrays = [(v.name, v.type, [d and d.text for d in v.dims], v.address_space) for v in gemm.arrays]
    assert arrays == [
        ("tile", "float", ["2", "BK + 1"], "local"),
        ("dyn", "float", [None], "local"),
        ("acc", "float", ["8"], "private"),
    ]
    assert gemm.arrays[0].attributes[0].arguments == "16" and gemm.arrays[1].storage == ("extern",)
    assert [(v.name, v.address_space) for v in found.variables] == [("BK", "private"), ("scale", "constant")]


def test_arrays_opencl() -> None:
    found = view(GEMM_CL, "opencl")
    arrays = [(v.name, v.type, [d and d.text for d in v.dims], v.address_space) for v in kernel(GEMM_CL).arrays]
    assert arrays == [
        ("Asub", "float", ["BM", "BK + 1"], "local"),
        ("Bsub", "float4", ["BK"], "local"),
        ("acc", "float8", ["4"], "private"),
    ]
    dims = found.entries[0].arrays[0].dims
    assert dims[1] is not None and dims[1].span.of(GEMM_CL) == "BK + 1"
    assert not found.entries[0].arrays[2].alone
    assert [(v.name, v.address_space) for v in found.variables] == [("lut", "constant")]


def test_loops() -> None:
    loops = {str(x.anchor): x for x in kernel(GEMM_CL).walk_loops()}
    assert list(loops) == [
        "gemm/loop[i]",
        "gemm/loop[k0]",
        "gemm/loop[k0]/loop[k]",
        "gemm/loop[k0]/loop[k]#1",
        "gemm/loop[while]",
    ]
    down = loops["gemm/loop[k0]/loop[k]#1"]
    assert down.induction is not None and down.exits == ("break",)
    induction = down.induction
    assert (induction.start.text, induction.comparison, induction.bound.text, induction.step) == (
        "BM",
        ">",
        "0",
        "-2",
    )
    assert down.header.of(GEMM_CL) == "for (int k = BM; k > 0; k -= 2)"
    hint = loops["gemm/loop[k0]/loop[k]"].hints[0]
    assert (hint.kind, hint.name, hint.argument) == ("pragma", "unroll", "4")
    assert hint.removal.of(GEMM_CL) == "        #pragma unroll 4 // of the inner product\n"
    hint = down.hints[0]
    assert (hint.kind, hint.name, hint.argument) == ("attribute", "opencl_unroll_hint", "2")
    assert loops["gemm/loop[while]"].exits == ("continue",)
    assert loops["gemm/loop[k0]"].children == (loops["gemm/loop[k0]/loop[k]"], down)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("for (int i = 0; i < n; i++)", ("int", "0", "<", "n", "1")),
        ("for (uint i = a; n > i; i += 2)", ("uint", "a", "<", "n", "2")),
        ("for (i = 0; i <= n - 1; i = 4 + i)", (None, "0", "<=", "n - 1", "4")),
        ("for (int i = n; i >= 0; i -= s + 1)", ("int", "n", ">=", "0", "-(s + 1)")),
        ("for (int i = 0; i != n; ++i)", ("int", "0", "!=", "n", "1")),
        ("for (int i = 0, j = 0; i < n; i++)", None),
        ("for (int i = 0; i < n; i *= 2)", None),
        ("for (int i = 0; i < n; i--)", None),
        ("for (int i = 0; i < n; i += i)", None),
        ("for (int i = 0; A[i] < n; i++)", None),
        ("for (int i = 0; i < n && n; i++)", None),
        ("for (;;)", None),
        ("while (i < n)", None),
    ],
)
def test_induction(header: str, expected: tuple[str | None, ...] | None) -> None:
    loop = cl(f"{header} {{ A[0] = 1; }}").entries[0].loops[0]
    got = loop.induction
    assert (got and (got.type, got.start.text, got.comparison, got.bound.text, got.step)) == expected


@pytest.mark.parametrize("body", ["i += 2;", "g(&i);", "{ int i = 3; A[i] = 0; }", "if (n) { i--; }"])
def test_no_induction_where_the_body_changes_the_variable(body: str) -> None:
    loop = cl(f"for (int i = 0; i < n; i++) {{ {body} }}").entries[0].loops[0]
    assert loop.induction is None and str(loop.anchor) == "f/loop[i]"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("A[i] = 1;", ("A", "write", (), None, ("i",), None)),
        ("A[i] += 1;", ("A", "read_write", (), None, ("i",), None)),
        ("(A[i])++;", ("A", "read_write", (), None, ("i",), None)),
        ("x = t[i][j + 1];", ("t", "read", (), None, ("i", "j + 1"), None)),
        ("v[i].x = 1;", ("v", "write", (), None, ("i",), "x")),
        ("x = *A;", ("A", "read", (), None, (), None)),
        ("*(A + i - 2 * n) = 0;", ("A", "write", (), None, ("i - 2 * n",), None)),
        ("x = *(i + A);", ("A", "read", (), None, ("i",), None)),
        ("x = (A + i)[j];", ("A", "read", ("i",), None, ("j",), None)),
        ("y = *(__global float4 *)(A + i);", ("A", "read", ("i",), "float4 *", (), None)),
        ("y = *((__global float4 *)A + i);", ("A", "read", (), "float4 *", ("i",), None)),
        ("y = *(__global float4 *)&t[i][j];", ("t", "read", ("i", "j"), "float4 *", (), None)),
        ("y = ((__global const float4 *)A)[i];", ("A", "read", (), "float4 *", ("i",), None)),
        ("g(&A[i]);", ("A", "address", (), None, ("i",), None)),
        ("y = vload4(i, A + n);", ("A", "read", ("n",), None, ("i",), None)),
        ("vstore4(y, 0, &A[i]);", ("A", "write", ("i",), None, ("0",), None)),
        # rows of an array, lane by lane: t[i][j + k * 4 + lane], and t[i][k * 4 + lane]
        ("y = vload4(k, &t[i][j + 1]);", ("t", "read", ("i", "j + 1"), None, ("k",), None)),
        ("y = vload4(k, t[i] + j + 1);", ("t", "read", ("i", "j + 1"), None, ("k",), None)),
        ("y = vload4(k, t[i]);", ("t", "read", ("i",), None, ("k",), None)),
        ("y = vload4(0, (t[i]) + j);", ("t", "read", ("i", "j"), None, ("0",), None)),
        ("vstore4(y, k, &t[i][j]);", ("t", "write", ("i", "j"), None, ("k",), None)),
        ("y = vload4(k, &cube[1][i][j]);", ("cube", "read", ("1", "i", "j"), None, ("k",), None)),
        ("y = vload4(k, (__local float *)&t[i][j]);", ("t", "read", ("i", "j"), "float *", ("k",), None)),
        ("x = (t[i] + j)[k];", ("t", "read", ("i", "j"), None, ("k",), None)),
        ("x = (&t[i][j])[k];", ("t", "read", ("i", "j"), None, ("k",), None)),
        ("x = *(t[i] + j);", ("t", "read", (), None, ("i", "j"), None)),
        ("x = p->rows[i];", ("p", "read", (), None, ("i",), None)),
        ("x = p->size;", ("p", "read", (), None, (), "size")),
    ],
)
def test_access(statement: str, expected: tuple[object, ...]) -> None:
    declared = "float t[4][4], cube[2][4][4]; float4 v[4], y; float x; int i, j, k;"
    found = cl(f"{declared} {statement}", "__global float *A, __global S *p")
    (access,) = found.entries[0].accesses
    origin, indices = tuple(e.text for e in access.origin), tuple(e.text for e in access.indices)
    assert (access.base, access.mode, origin, access.cast, indices, access.component) == expected
    assert not found.opaque


@pytest.mark.parametrize(
    "statement",
    [
        "x = *g(1);",
        "x = (n ? A : B)[i];",
        "x = **q;",
        "x = A[i, 2];",
        "x = *((A + i) + (i + 1));",
        # what is added to `&t[i][j]` is added to j, and is no index of its own
        "y = vload4(0, &t[i][j] + k);",
        "y = vload4(0, &A[i] + k);",
        "x = (&t[i][j] + k)[1];",
        "y = vload4(0, (__local float *)t[i] + k);",
        "vstore4(y, 0, (t + 1)[i] + k);",
        "y = vload4(0, *q + k);",
        # a member of one of several: not `t.rows[i]`
        "y = vload4(0, s[i].rows);",
        "y = vload4(0, s[i].rows + k);",
        "x = *(s[i].rows + k);",
        "y = *(float4 *)s[i].rows;",
    ],
)
def test_unclear_access_is_opaque(statement: str) -> None:
    found = cl(f"float x, t[4][4]; float4 y; struct S s[4]; int i, j, k; __global float **q; {statement}")
    assert {o.reason for o in found.opaque} == {"pointer"}
    start = found.text.index(statement)
    assert found.is_opaque(Span(start, start + len(statement))) and not found.is_opaque(Span(0, 10))


def test_rows_read_by_vload_hide_nothing() -> None:
    """What stands in the index of a row is seen, too, and the row is one access."""
    found = cl("float t[4][4]; int at[2]; A[0] = vload4(0, &t[at[1]][at[0]]).x; vstore4(0.0f, 1, t[at[0]] + at[1]);")
    assert [(a.base, a.form) for a in found.entries[0].accesses] == [
        ("A", "subscript"),
        ("t", "vload"),
        ("at", "subscript"),
        ("at", "subscript"),
        ("t", "vstore"),
        ("at", "subscript"),
        ("at", "subscript"),
    ]
    assert not found.opaque


def test_calls_assignments_literals() -> None:
    gemm = kernel(GEMM_CL)
    calls = {str(c.anchor): c for c in gemm.calls}
    prefetch = calls["gemm/loop[k0]/call[prefetch]#0"]
    assert [a.text for a in prefetch.arguments] == ["A + k0", "16"]
    assert prefetch.statement is not None and prefetch.statement.of(GEMM_CL) == "prefetch(A + k0, 16);"
    assert "gemm/loop[k0]/call[barrier]#1" in calls
    assert calls["gemm/loop[k0]/loop[k]#1/call[native_exp]#0"].callee_span.of(GEMM_CL) == "native_exp"
    literals = [(x.type, [a.text for a in x.arguments]) for x in gemm.literals]
    assert ("float2", ["q.x", "-r.y"]) in literals and ("float8", ["0.0f"]) in literals
    changes = [(a.name, a.operator) for a in gemm.assignments]
    assert changes == [("i", "++"), ("k0", "+="), ("k", "++"), ("q", "="), ("k", "-=")]


def test_calls_cuda() -> None:
    gemm = kernel(GEMM_CU, "cuda")
    assert [c.callee for c in gemm.calls] == ["__ldg", "std::max", "__syncthreads", "dot"]
    outer, inner = gemm.walk_loops()
    assert outer.induction is not None and outer.induction.type is None and outer.induction.step == "BK"
    assert inner.induction is not None and inner.induction.step == "-1"
    assert [(h.name, h.argument) for h in outer.hints] == [("unroll", None)]
    cast = next(a for a in gemm.accesses if a.cast)
    assert (cast.base, cast.cast, cast.origin[0].text) == ("A", "float4 *", "k0")


def test_macros() -> None:
    found = view(GEMM_CL, "opencl")
    assert [(m.name, m.shape) for m in found.macros] == [
        ("BM", "value"),
        ("BK", "value"),
        ("IDX", "value"),
        ("LDG4", "code"),
    ]
    assert found.macros[2].parameters == ("r", "c") and found.macros[1].body.text == "(BM * 2)"
    use = next(u for u in found.macro_uses if u.name == "IDX")
    assert use.arguments is not None and [a.text for a in use.arguments] == ["lid", "k0"] and not use.opaque
    assert not found.opaque
    assert [m.name for m in found.macros_that_mention("K")] == ["IDX"]


@pytest.mark.parametrize(
    ("define", "shape"),
    [
        ("X", "empty"),
        ("X 8", "value"),
        ("X (1 << 4)", "value"),
        ("X float4", "value"),
        ("X unsigned int", "value"),
        ("X (float4)(0.f, 1.f, 2.f, 3.f)", "value"),
        ("X(a, b) ((a) < (b) ? (a) : (b))", "value"),
        ("X(a) \\\n  ((a) + 1) /* why */", "value"),
        ("X barrier(CLK_LOCAL_MEM_FENCE)", "code"),
        ("X(i) A[i]", "code"),
        ("X(p) *p", "code"),
        ("X(a) a += 1", "code"),
        ("X a) + (b", "code"),
        ("X a, b", "code"),
        ("X __local", "code"),
        ("X for (;;) {", "code"),
        ("X(a, b) a ## b", "code"),
        ("float half", "code"),
        ("X Y\n#define Y g()", "code"),
        ("X(a) Y(a)\n#define Y(b) ((b) + 1)", "value"),
    ],
)
def test_macro_shape(define: str, shape: str) -> None:
    assert view(f"#define {define}\n", "opencl").macros[0].shape == shape


def test_occurrences() -> None:
    found = cl('float a; // a\na = s.a + A[a]; /* a */ g("a", aa);\n#define Z a\n')
    assert [s.of(found.text) for s in found.occurrences("a")] == ["a"] * 3
    assert len(found.occurrences("a", Span(0, found.text.index(";")))) == 1


# qualifiers


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("__global float *p", ("float *", "global", False, False)),
        ("global float *p", ("float *", "global", False, False)),
        ("float global *p", ("float *", "global", False, False)),
        ("local const float4 *restrict p", ("float4 *", "local", True, True)),
        ("__constant float * __restrict p", ("float *", "constant", False, True)),
        ("__global float * const __restrict__ p", ("float *", "global", False, True)),
        ("__global const unsigned int *p", ("unsigned int *", "global", True, False)),
        ("__global float *local", ("float *", "global", False, False)),
        ("__global float *p __attribute__((aligned(16)))", ("float *", "global", False, False)),
        ("__read_only image2d_t p", ("image2d_t", "private", False, False)),
        ("float *p", ("float *", "generic", False, False)),
        ("int global", ("int", "private", False, False)),
    ],
)
def test_parameter(parameter: str, expected: tuple[object, ...]) -> None:
    found = cl("", f"int a, {parameter}, int z")
    p = found.entries[0].parameters[1]
    assert (p.type, p.address_space, p.const, p.restrict) == expected
    assert p.span.of(found.text) == parameter
    assert not found.opaque


def test_qualifier_removal() -> None:
    found = view(GEMM_CL, "opencl")
    b = found.entries[0].parameter("B")
    assert b is not None
    edits = [TextEdit.replace(q.removal, "") for q in b.qualifiers if q.kind in ("const", "restrict")]
    text, _ = apply_edits(GEMM_CL, edits)
    assert "global float *B," in text
    again = view(text, "opencl")
    assert again.anchors() == found.anchors() and not again.entries[0].parameters[1].restrict


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("__attribute__((opencl_unroll_hint(4)))", ""),
        ("__attribute__((opencl_unroll_hint(4), other))", "__attribute__((other))"),
        ("__attribute__((other, opencl_unroll_hint(4)))", "__attribute__((other))"),
    ],
)
def test_attribute_removal(text: str, removed: str) -> None:
    found = cl(f"{text} for (int i = 0; i < n; i++) A[i] = 0;")
    hint = next(h for h in found.entries[0].loops[0].hints if h.argument == "4")
    assert apply_edits(found.text, [TextEdit.replace(hint.removal, "")])[0].startswith(
        f"__kernel void f(__global float *A, int n)\n{{\n{removed}"
    )


@pytest.mark.parametrize(
    "code",
    [
        "#pragma unroll\nfor (int i = 0; i < n; i++) A[i] = 0;",
        "if (n)\n#pragma unroll\nfor (int i = 0; i < n; i++) A[i] = 0;",
        "for (int i = 0; i < n; i++)\n#pragma unroll\n{ A[i] = 0; }",
        "for (int i = 0; i < n; i++) __attribute__((unroll)) { A[i] = 0; }",
        '_Pragma("unroll") for (int i = 0; i < n; i++) A[i] = 0;',
        "#pragma clang loop unroll(full)\n__attribute__((x))\nfor (int i = 0; i < n; i++) A[i] = 0;",
    ],
)
def test_hint_places(code: str) -> None:
    found = cl(code)
    assert not found.opaque
    assert found.entries[0].loops[0].hints[0].name == "unroll"


@pytest.mark.parametrize(
    "code",
    [
        "/* __local global */ // local float x",
        'const char *s = "__local float";',
        "int local = 3; local = local * 2; A[local] = s.global + p->private;",
        "float kernel[9]; kernel[0] = global_size + my__local;",
        "#define LP __local float\n",
    ],
)
def test_words_that_are_no_qualifiers(code: str) -> None:
    found = cl(code)
    assert [q.text for q in found.qualifiers if q.kind in ("address_space", "kernel")] == [
        "__kernel",
        "__global",
    ]
    assert not found.opaque


def test_vector_casts_are_no_arithmetic() -> None:
    found = cl("float4 y; y = (float4)-y; y = (float4)*A; uint u = (uint)-1; y = (R)(1, 2);\nint z = (R)-n;")
    gemm = found.entries[0]
    assert [a.base for a in gemm.accesses] == ["A"]
    assert [x.type for x in gemm.literals] == ["R"]
    assert [(o.reason, o.span.of(found.text)) for o in found.opaque] == [("cast", "(R)-n")]


def test_a_cast_to_an_array_is_a_difference() -> None:
    difference = "(-(b[(n + 1) * 2 + i]) - (a[216 + i] - a[208 + i]) * 2)"
    found = view(f"void f(float *a, float *b, int n, int i) {{ a[0] = {difference} * 3; }}", "opencl")
    assert [o.reason for o in found.opaque] == ["cast"]
    assert not view("void f(float *p) { g((float (*)[4])p); }", "opencl").opaque


def test_tree_and_words() -> None:
    text = "__kernel void f(__global float4 *A, int n) { if (n < 2) *(__global const  float4 *)A /* x */ = 0; }"
    found = view(text, "opencl")
    assert found.tree is found.tree and found.tree.span.end == len(text)
    assert found.tree.children[0].type == "function_definition"
    start = text.index("__global const")
    assert found.words(Span(start, text.index(")A"))) == "float4 *"


def test_comparisons_are_no_templates() -> None:
    code = "for (int i = 0; i < n && A[i] > (3); i++) {} for (int i = 0; i < n; i++) A[i << 2] = i <= (n) > (2);"
    found = cl(code)
    assert not found.opaque and not found.entries[0].calls
    assert [bool(x.induction) for x in found.entries[0].loops] == [False, True]
    cuda = view("__global__ void f(int i, int n) { if (i < n && n > (3)) g<4>(n); int y = g<2>(n); }", "cuda")
    (opaque,) = cuda.opaque
    assert opaque.reason == "syntax" and opaque.span.of(cuda.text).startswith("if")


def test_names_that_cxx_reserves() -> None:
    found = cl("int new = 3, class = new; A[this] = new;")
    assert not found.opaque and [v.name for v in found.entries[0].variables] == ["new", "class"]


# what is declined


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("#define SYNC barrier(1)\n__kernel void f() { SYNC; int a; }", "macro", "SYNC;"),
        ("#define SYNC barrier(1);\n__kernel void f() { SYNC int a; }", "macro", "SYNC int"),
        ("#define ROF(i) for (int i = 0;;)\n__kernel void f() { ROF(i) { int a; } }", "macro", "ROF(i) {"),
        ("#define K(T) __kernel void k(T a) {}\nK(float)\n__kernel void f() {}", "macro", "K(float)\n"),
        ("__kernel void f() { FOR(i) { int a; } }", "macro", "FOR(i)"),
        ("__kernel void f(__global int *A) { SYNC\n A[0] = 1; int a; }", "declarator", "A[0]"),
        ("__kernel void f() { UNROLL for (int i = 0; i < 3; i++) { g(); } int a; }", "syntax", "i < 3"),
        ("__kernel void f() { int b = ; int a; }", "syntax", "int b"),
        ("__kernel void f() { int b = 1 int a; }", "syntax", "int b"),
        ("__kernel void f() { int b = 'x; int a; }", "syntax", "int b"),
        ("__kernel void f() { int a; ", "syntax", "int a"),
        ("__kernel void f();\n", "syntax", "__kernel"),
        ("__kernel void f() {\n#if X\nint b;\n#endif\nint a; }", "conditional", "int b"),
        ("#if X\n__kernel void f() {}\n#else\n__kernel void f() {}\n#endif\n", "conditional", "__kernel"),
        ("__kernel void f() { int a; /* open", "syntax", "/* open"),
        # read as the expression int(*p)[4]
        ("__kernel void f() { int (*p)[4]; int a; }", "pointer", "int (*p)"),
        ("__kernel void f(int (*p)[4]) { int a; }", "declarator", "int (*p)"),
    ],
)
def test_opaque(text: str, reason: str, place: str) -> None:
    found = view(text, "opencl")
    start = text.rindex(place)
    assert found.is_opaque(Span(start, start + len(place)))
    assert reason in {o.reason for o in found.opaque}


def test_opaque_cuda() -> None:
    found = view(GEMM_CU, "cuda")
    assert [(o.reason, o.span.of(GEMM_CU)[:5]) for o in found.opaque] == [("assembly", "asm v")]
    lambdas = view("__global__ void f(int *a) { auto g = [&](int i) { return a[i]; }; }", "cuda")
    assert {o.reason for o in lambdas.opaque} == {"lambda"}


@pytest.mark.parametrize(
    "text",
    [
        "#ifndef TM\n#define TM 8\n#endif\n__kernel void f() { int a; }",
        "#ifndef GUARD\n#define GUARD\n__kernel void f() { int a; }\n#endif\n",
        "__kernel void f() {\n#undef X\n int a; }",
    ],
)
def test_harmless_preprocessor_lines(text: str) -> None:
    found = view(text, "opencl")
    assert not found.opaque and names(found)[-2:] == ["f", "f/var[a]"]


def test_macro_under_if_is_conditional() -> None:
    found = view("#if A\n#define W 4\n#else\n#define W 8\n#endif\n", "opencl")
    assert [(str(m.anchor), m.conditional) for m in found.macros] == [
        ("::/macro[W]", True),
        ("::/macro[W]#1", True),
    ]


@pytest.mark.parametrize("text", ["", "\n", "\x00", "\ud800", "/*", "#", "#if", '"', "}", "\\", "__kernel", "a" * 99])
@pytest.mark.parametrize("surface", ["opencl", "cuda"])
def test_degenerate_text(text: str, surface: Surface) -> None:
    assert view(text, surface).entries == ()


@pytest.mark.parametrize(
    "body",
    [
        "= 1; A[0] = ; [i] = 2;",
        "for (int = 0; i < n; i++) {}",
        "__attribute__((, x y)) for (;;) {}",
        "int x<3>::y = 1; A.x<3>[0] = 1;",
    ],
)
def test_missing_names(body: str) -> None:
    check_invariants(cl(body))
    check_invariants(view(f"__global__ void f(float *A) {{ {body} }}", "cuda"))


def test_deep_nesting_does_not_recurse() -> None:
    deep = 1200
    view("__kernel void f() { x = " + "(" * deep + "a" + ")" * deep + "; }", "opencl")
    view("__kernel void f() " + "{ for (;;) " * deep + "}" * deep, "opencl")


# texts that differ, places that do not


def test_crlf_gives_the_same_view() -> None:
    found = view(GEMM_CL.replace("\n", "\r\n"), "opencl")
    assert found.anchors() == view(GEMM_CL, "opencl").anchors() and not found.opaque
    hint = next(x for x in found.entries[0].walk_loops() if x.hints).hints[0]
    assert hint.removal.of(found.text).endswith("product\r\n")


def test_offsets_behind_non_ascii_text() -> None:
    for function in view(GEMM_CL, "opencl").functions:
        for access in function.accesses:
            assert access.base_span.of(GEMM_CL) == access.base
        for variable in (*function.variables, *function.parameters):
            assert variable.name_span is not None and variable.name_span.of(GEMM_CL) == variable.name
    found = cl("float é = 1; /* 🙂 */ é += A[n];")
    assert found.entries[0].variables[0].name == "é" and found.entries[0].accesses[0].span.of(found.text) == "A[n]"


UNRELATED: list[tuple[str, str]] = [
    (r"(?m)^ +#pragma unroll.*\n", ""),
    (r"__attribute__\(\(opencl_unroll_hint\(2\)\)\)", ""),
    (r" ?restrict", ""),
    (r"const ", ""),
    (r"//.*", ""),
    (r"\n", "\n\n"),
    (r"  +", "\t"),
    (r";", "; /* ü local for (int k = 0;;) */"),
    (
        r"inline float8 mad8",
        "float other(int i) { for (int k = 0; k < i; k++) i++; return i; }\ninline float8 mad8",
    ),
    (r"prefetch\(A \+ k0, 16\);", ""),
    (r"BM \* 2", "BM * 4"),
    (r"barrier\(CLK_LOCAL_MEM_FENCE\);", "if (K) { barrier(CLK_LOCAL_MEM_FENCE); }"),
]


@pytest.mark.parametrize(("pattern", "replacement"), UNRELATED)
def test_anchors_are_stable(pattern: str, replacement: str) -> None:
    changed = re.sub(pattern, replacement, GEMM_CL)
    assert changed != GEMM_CL
    gone = re.compile(r"hint\[|call\[prefetch\]")
    before = [a for a in names(view(GEMM_CL, "opencl")) if a.startswith("gemm") and not gone.search(a)]
    after = [a for a in names(view(changed, "opencl")) if a.startswith("gemm") and not gone.search(a)]
    assert before == after and len(before) > 50


@pytest.mark.parametrize(("text", "surface"), [(GEMM_CL, "opencl"), (GEMM_CU, "cuda")])
def test_anchor_round_trip(text: str, surface: Surface) -> None:
    found = view(text, surface)
    for anchor in found.anchors():
        node = found.find(anchor)
        assert node is not None and node.anchor == anchor
        assert found.find(Anchor.parse(str(anchor))) is node
    for function in found.functions:
        assert found.find(function.anchor) is function
        for access in function.accesses:
            assert found.find(access.anchor) is access
            around = found.parent(access)
            assert isinstance(around, Function | Loop) and around.span.contains(access.span)
    assert found.find(Anchor("nothing")) is None


def test_anchors_of_overloads_and_shadows() -> None:
    found = view("void g(int a) { { int x; } { int x; } }\nvoid g(float b) {}", "cuda")
    assert names(found) == ["g", "g/param[a]", "g/var[x]", "g/var[x]#1", "g#1", "g#1/param[b]"]
    node = found.find(Anchor.parse("g/var[x]#1"))
    assert isinstance(node, Variable) and node.span.start > found.text.index("}")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("gemm", "gemm"),
        ("gemm#0", "gemm"),
        ("gemm#2/loop[k]#0", "gemm#2/loop[k]"),
        ("gemm/loop[k0]/access[Asub]", "gemm/loop[k0]/access[Asub]#0"),
        ("::/macro[TM]", "::/macro[TM]"),
        ("ns::f/call[std::max]#1", "ns::f/call[std::max]#1"),
    ],
)
def test_anchor_text(text: str, canonical: str) -> None:
    assert str(Anchor.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "gemm/",
        "3",
        "a b",
        "gemm/loop",
        "gemm/loop[]",
        "gemm/loop[k]#",
        "gemm/lop[k]",
        "::#1",
        "gemm/12",
    ],
)
def test_anchor_text_refused(text: str) -> None:
    with pytest.raises(ValueError, match="anchor"):
        Anchor.parse(text)


LABELS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:]{0,8}", fullmatch=True)
STEPS = st.lists(st.tuples(st.sampled_from(StepKind), LABELS, st.integers(0, 99)), max_size=4)


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), st.integers(0, 9), STEPS)
def test_any_anchor_reads_back(root: str, ordinal: int, steps: list[tuple[StepKind, str, int]]) -> None:
    anchor = Anchor(root, ordinal)
    for kind, label, number in steps:
        anchor = anchor.child(kind, label, number)
    assert Anchor.parse(str(anchor)) == anchor


# edits


@given(st.text(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.text(max_size=4)), max_size=8), st.data())
def test_the_inverse_gives_the_text_back(text: str, cuts: list[tuple[int, str]], data: st.DataObject) -> None:
    places = sorted(min(place, len(text)) for place, _ in cuts)
    edits = []
    for (start, end), (_, new) in zip(pairwise(places), cuts, strict=False):
        if data.draw(st.booleans()):
            edits.append(TextEdit(start, data.draw(st.integers(start, end)), new))
    changed, inverse = apply_edits(text, data.draw(st.permutations(edits)))
    assert apply_edits(changed, inverse)[0] == text
    again, _ = apply_edits(text, apply_edits(changed, inverse)[1])
    assert again == changed


def test_edits() -> None:
    text, inverse = apply_edits("abcdef", [TextEdit(4, 5, "X"), TextEdit(0, 2, ""), TextEdit(2, 2, "++")])
    assert text == "++cdXf" and apply_edits(text, inverse)[0] == "abcdef"


@pytest.mark.parametrize(
    "edits",
    [
        [TextEdit(0, 3, ""), TextEdit(2, 4, "")],
        [TextEdit(0, 3, ""), TextEdit(1, 1, "x")],
        [TextEdit(-1, 1, "")],
        [TextEdit(3, 2, "")],
        [TextEdit(0, 7, "")],
    ],
)
def test_edits_refused(edits: list[TextEdit]) -> None:
    with pytest.raises(ValueError, match="TextEdit"):
        apply_edits("abcdef", edits)


# any text


FRAGMENTS = st.sampled_from(
    [
        *re.findall(r"\w+|\s+|[^\w\s]", GEMM_CL),
        "#if X\n",
        "#else\n",
        "#endif\n",
        "/*",
        '"',
        "'",
        "\\\n",
        "é",
        "\x00",
    ]
)


def check_invariants(found: SourceView) -> None:
    size = len(found.text)
    for function in found.functions:
        assert 0 <= function.span.start <= function.body.start <= function.body.end <= size
        for access in function.accesses:
            assert function.body.contains(access.span) and access.base_span.of(found.text) == access.base
        for loop in function.walk_loops():
            assert function.body.contains(loop.span) and loop.span.contains(loop.body)
            assert all(loop.span.contains(child.span) for child in loop.children)
    for anchor in found.anchors():
        node = found.find(Anchor.parse(str(anchor)))
        assert node is not None and node.anchor == anchor
    assert all(0 <= o.span.start <= o.span.end <= size for o in found.opaque)


@settings(max_examples=60, deadline=None)
@given(st.lists(FRAGMENTS, max_size=60).map("".join) | st.text(max_size=60), st.sampled_from(["opencl", "cuda"]))
def test_any_text_has_a_view(text: str, surface: Surface) -> None:
    check_invariants(view(text, surface))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(GEMM_CL)), st.integers(0, 40), st.lists(FRAGMENTS, max_size=3).map("".join))
def test_a_damaged_kernel_has_a_view(start: int, length: int, junk: str) -> None:
    check_invariants(view(GEMM_CL[:start] + junk + GEMM_CL[start + length :], "opencl"))
