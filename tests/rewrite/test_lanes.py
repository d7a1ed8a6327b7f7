"""The rule `vector-lanes`: exact results, what it declines, and the ways back."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from textwrap import dedent, indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experts.kernel import Kernel, load, parse
from experts.source import Anchor, view
from tasks.rewrite.edit import Edit, NotApplicable, edit_of
from tasks.rewrite.rules.lanes import VectorLanes
from tests.rewrite.lane_kernels import random_kernel

RULE = VectorLanes()
EXPERT, ATTENTION = (load(Path(__file__).parents[2] / "experts" / w / "expert.cl") for w in ("gemm", "fmha"))
VECTOR = re.compile(r"\b(?:float|u?int|u?char)(?:2|4|8|16)\b|\bv(?:load|store)(?:2|4|8|16)\b")
PARAMETERS = "__global const float *A, __global const float *B, __global float *C, int M, int N, int K"
ARGUMENTS = '["A", "B", "C", "M", "N", "K"]'


def kernel_of(code: str, arguments: str = ARGUMENTS) -> Kernel:
    launch = f'[[launch]]\nentry = "f"\ngrid = ["M"]\nblock = [1]\nargs = {arguments}\n'
    return parse(f'/* klineage\nformat = 1\nworkload = "gemm"\n{launch}*/\n{code}', surface="opencl")


def kernel(body: str, parameters: str = PARAMETERS, before: str = "") -> Kernel:
    written = indent(dedent(body).strip("\n"), "    ")
    return kernel_of(f"{before}__kernel void f({parameters})\n{{\n{written}\n}}\n")


def body_of(state: Kernel) -> str:
    code = state.text.split("*/\n", 1)[1]
    return dedent(code[code.index("{\n") + 2 : code.rindex("}")])


def removed(state: Kernel) -> Kernel:
    places = RULE.removable(state)
    assert places.edits and not places.declined, places
    for edit in places.edits:
        state, _ = RULE.apply(state, edit)
    return state


def added(state: Kernel) -> Kernel:
    places = RULE.addable(state)
    assert places.edits and not places.declined, places
    for edit in places.edits:
        state, _ = RULE.apply(state, edit)
    return state


def there_and_back(state: Kernel) -> Kernel:
    undo: list[Edit] = []
    for edit in RULE.removable(state).edits:
        state, back = RULE.apply(state, edit)
        undo.append(back)
    for back in reversed(undo):
        state, _ = RULE.apply(state, back)
    return state


def lanes(width: int) -> str:
    return f"for (int lane = 0; lane < {width}; lane++)"


# what a body becomes; the way back gives the body again
EXACT = {
    "a variable": (
        """
        float4 v = vload4(M, A);
        v = v * 2.0f;
        C[0] = v.x + v.w;
        """,
        f"""
        float v[4];
        {lanes(4)}
            v[lane] = A[M * 4 + lane];
        {lanes(4)}
            v[lane] = v[lane] * 2.0f;
        C[0] = v[0] + v[3];
        """,
    ),
    "a declaration before its value": (
        """
        float2 v;
        v = vload2(0, A + K);
        vstore2(v, N, C);
        """,
        f"""
        float v[2];
        {lanes(2)}
            v[lane] = A[K + lane];
        {lanes(2)}
            C[N * 2 + lane] = v[lane];
        """,
    ),
    "several declarators, const": (
        """
        const float4 v = (float4)(s), w = v + 1.0f;
        float4 u, t;
        u = w;
        vstore4(u - v, 0, C);
        """,
        f"""
        float v[4], w[4];
        {lanes(4)}
            v[lane] = s;
        {lanes(4)}
            w[lane] = v[lane] + 1.0f;
        float u[4], t[4];
        {lanes(4)}
            u[lane] = w[lane];
        {lanes(4)}
            C[lane] = u[lane] - v[lane];
        """,
    ),
    "an array": (
        """
        float8 acc[2][3] = {0.0f};
        for (int i = 0; i < 3; i++)
            acc[1][i] += vload8(i, B);
        vstore8(acc[1][M], 0, C);
        """,
        f"""
        float acc[2][3][8] = {{0.0f}};
        for (int i = 0; i < 3; i++)
            {lanes(8)}
                acc[1][i][lane] += B[i * 8 + lane];
        {lanes(8)}
            C[lane] = acc[1][M][lane];
        """,
    ),
    "single bodies, a hint": (
        """
        float4 v = 0.0f;
        if (M > 1)
            v = -v;
        else if (N > 1)
            v += 1;
        else
            v.y = 3.0f;
        #pragma unroll
        for (int i = 0; i < 4; i++)
            v *= A[i];
        C[0] = v.y;
        """,
        f"""
        float v[4];
        {lanes(4)}
            v[lane] = 0.0f;
        if (M > 1)
            {lanes(4)}
                v[lane] = -v[lane];
        else if (N > 1)
            {lanes(4)}
                v[lane] += 1;
        else
            v[1] = 3.0f;
        #pragma unroll
        for (int i = 0; i < 4; i++)
            {lanes(4)}
                v[lane] *= A[i];
        C[0] = v[1];
        """,
    ),
    "one line": (
        "if (M) { float4 v = s; vstore4(v, 0, C); }",
        f"if (M) {{ float v[4]; {lanes(4)} v[lane] = s; {lanes(4)} C[lane] = v[lane]; }}",
    ),
    "casts of pointers": (
        """
        __global float *dst = C + N;
        *(__global float16 *)(dst + M * K) = *(__global const float16 *)A;
        *(__global float16 *)dst = *(__global const float16 *)(B + M * K - 16);
        ((__global float16 *)(C + K))[M + 1] = 0.0f;
        """,
        f"""
        __global float *dst = C + N;
        {lanes(16)}
            dst[M * K + lane] = A[lane];
        {lanes(16)}
            dst[lane] = B[M * K - 16 + lane];
        {lanes(16)}
            (C + K)[(M + 1) * 16 + lane] = 0.0f;
        """,
    ),
    "rows of an array": (
        """
        __local float rows[8][N_MAX + 16];
        for (int i = 0; i < 8; i++)
            *(__local float16 *)&rows[i][M] = *(__global const float16 *)(A + i * N) * s;
        float16 v = *(__local float16 *)rows[M];
        for (int i = 0; i < 8; i++)
            v += rows[i][0] * *(__local float16 *)&rows[i][16 * M];
        *(__global float16 *)C = v;
        """,
        f"""
        __local float rows[8][N_MAX + 16];
        for (int i = 0; i < 8; i++)
            {lanes(16)}
                rows[i][M + lane] = A[i * N + lane] * s;
        float v[16];
        {lanes(16)}
            v[lane] = rows[M][lane];
        for (int i = 0; i < 8; i++)
            {lanes(16)}
                v[lane] += rows[i][0] * rows[i][16 * M + lane];
        {lanes(16)}
            C[lane] = v[lane];
        """,
    ),
    "pointers": (
        """
        __global float4 *row = (__global float4 *)(C + M * N);
        __global const float4 *from = (__global const float4 *)A;
        __global float4 *next = row + N / 4;
        for (int i = 0; i < K; i++, from++) {
            row[i] = *from;
            next[i + 1].z = from[i].x;
            *next += from[K] * from[K - 1].y;
        }
        row += 2 * M;
        *row = 0.0f;
        """,
        f"""
        __global float *row = C + M * N;
        __global const float *from = A;
        __global float *next = row + N / 4 * 4;
        for (int i = 0; i < K; i++, from += 4) {{
            {lanes(4)}
                row[i * 4 + lane] = from[lane];
            next[(i + 1) * 4 + 2] = from[i * 4];
            {lanes(4)}
                next[lane] += from[K * 4 + lane] * from[(K - 1) * 4 + 1];
        }}
        row += 2 * M * 4;
        {lanes(4)}
            row[lane] = 0.0f;
        """,
    ),
    "builtins": (
        """
        float4 v = fma(vload4(0, A), (float4)(s), (float4)(1.0f));
        v = max(mad(v, v, v), 0.0f) + native_exp(-fabs(v)) / sqrt(v);
        v = clamp(v, 0.0f, 1.0f);
        vstore4(fmin(v, vload4(1, B)), 0, C);
        """,
        f"""
        float v[4];
        {lanes(4)}
            v[lane] = fma(A[lane], s, 1.0f);
        {lanes(4)}
            v[lane] = max(mad(v[lane], v[lane], v[lane]), 0.0f) + native_exp(-fabs(v[lane])) / sqrt(v[lane]);
        {lanes(4)}
            v[lane] = clamp(v[lane], 0.0f, 1.0f);
        {lanes(4)}
            C[lane] = fmin(v[lane], B[1 * 4 + lane]);
        """,
    ),
    "integers": (
        """
        int4 i = convert_int4(vload4(0, A));
        uint4 u = as_uint4(i) & 255u;
        i = (i << 3) / 2 + i % N;
        i ^= M;
        C[0] = i.x + u.y;
        """,
        f"""
        int i[4];
        {lanes(4)}
            i[lane] = (int)A[lane];
        uint u[4];
        {lanes(4)}
            u[lane] = as_uint(i[lane]) & 255u;
        {lanes(4)}
            i[lane] = (i[lane] << 3) / 2 + i[lane] % N;
        {lanes(4)}
            i[lane] ^= M;
        C[0] = i[0] + u[1];
        """,
    ),
    "a literal": (
        """
        float4 v = (float4)(1.0f, s, A[3], M), w = { 0.0f, 1, v.x, A[0] };
        vstore4(v * w, 0, C);
        """,
        f"""
        float v[4] = {{1.0f, s, A[3], M}}, w[4] = {{ 0.0f, 1, v[0], A[0] }};
        {lanes(4)}
            C[lane] = v[lane] * w[lane];
        """,
    ),
    "only components of one": (
        """
        float4 v, w = 0.0f;
        v.x = 1.0f;
        w += v.x;
        """,
        f"""
        float v[4], w[4];
        {lanes(4)}
            w[lane] = 0.0f;
        v[0] = 1.0f;
        {lanes(4)}
            w[lane] += v[0];
        """,
    ),
    "lanes by number, local memory, a comment": (
        """
        __local float4 tile[16] __attribute__((aligned(64)));
        tile[M] = vload4(M, A);  // staged
        barrier(CLK_LOCAL_MEM_FENCE);
        C[M] = tile[0].s0 + tile[M].s3;
        """,
        f"""
        __local float tile[16][4] __attribute__((aligned(64)));
        {lanes(4)}
            tile[M][lane] = A[M * 4 + lane];  // staged
        barrier(CLK_LOCAL_MEM_FENCE);
        C[M] = tile[0][0] + tile[M][3];
        """,
    ),
    "rows of arrays": (
        """
        __local float t[8][48], u[2][3][40];
        *(__local float4 *)&t[M][N + 1] = *(__global const float4 *)(A + K) * s;
        *(__local float4 *)t[M] += *(__local float4 *)&u[1][N][K - 2];
        ((__local float4 *)t[N])[K] = 0.0f;
        """,
        f"""
        __local float t[8][48], u[2][3][40];
        {lanes(4)}
            t[M][N + 1 + lane] = A[K + lane] * s;
        {lanes(4)}
            t[M][lane] += u[1][N][K - 2 + lane];
        {lanes(4)}
            t[N][K * 4 + lane] = 0.0f;
        """,
    ),
    "rows of arrays by vload": (
        """
        __local float t[8][40];
        vstore4(vload4(0, A + N) * 2.0f, 0, &t[M][N + 1]);
        vstore4(vload4(1, t[M]), 0, C);
        vstore4(vload4(K, &t[M][1]), 1, C);
        """,
        f"""
        __local float t[8][40];
        {lanes(4)}
            t[M][N + 1 + lane] = A[N + lane] * 2.0f;
        {lanes(4)}
            C[lane] = t[M][1 * 4 + lane];
        {lanes(4)}
            C[1 * 4 + lane] = (&t[M][1])[K * 4 + lane];
        """,
    ),
    "an index that may wrap around": (
        """
        __local float t[8][40];
        uint u = N;
        *(__global float4 *)&C[u - 4] = *(__local float4 *)&t[M][u + K];
        """,
        f"""
        __local float t[8][40];
        uint u = N;
        {lanes(4)}
            C[u - 4 + lane] = t[M][u + K + lane];
        """,
    ),
    "scalars of other types": (
        """
        float4 v = 2.0;
        v = v * (float)(N) + (s ? 1.0f : 0.0f);
        int4 i = 3;
        i = i + (int)(5u);
        vstore4(v, i.x, C);
        """,
        f"""
        float v[4];
        {lanes(4)}
            v[lane] = 2.0;
        {lanes(4)}
            v[lane] = v[lane] * (float)(N) + (s ? 1.0f : 0.0f);
        int i[4];
        {lanes(4)}
            i[lane] = 3;
        {lanes(4)}
            i[lane] = i[lane] + (int)(5u);
        {lanes(4)}
            C[i[0] * 4 + lane] = v[lane];
        """,
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    before, after = (dedent(text).strip("\n") for text in EXACT[name])
    state = kernel(before, PARAMETERS + ", float s")
    result = removed(state)
    assert body_of(result).strip("\n") == after
    assert not VECTOR.search(body_of(result))
    assert there_and_back(state).text == state.text


def test_literal_in_a_statement() -> None:
    state = kernel("float4 v = 0.0f;\nv = (float4)(A[0], B[N], 1.0f, M);\nv += 1.0f;\nC[0] = v.x;")
    result = removed(state)
    assert body_of(result) == dedent(f"""\
        float v[4];
        {lanes(4)}
            v[lane] = 0.0f;
        v[0] = A[0];
        v[1] = B[N];
        v[2] = 1.0f;
        v[3] = M;
        {lanes(4)}
            v[lane] += 1.0f;
        C[0] = v[0];
        """)
    back = there_and_back(state)
    assert "v.x = A[0];\n    v.y = B[N];" in back.text and removed(back).text == result.text


# what it becomes, and what comes back: other words for the same
OTHER_WORDS = [
    ("vstore4(v, 0, &C[M]);", "C[M + lane] = v[lane];", "vstore4(v, 0, C + M);"),
    ("v = v * 2.0;", "v[lane] = v[lane] * 2.0f;", "v = v * 2.0f;"),
    ("v = v / (float4)(N);", "v[lane] = v[lane] / (float)(N);", "v = v / (float)(N);"),
    ("v = (float4)(v + 1.0f);", "v[lane] = v[lane] + 1.0f;", "v = v + 1.0f;"),
    ("v = pow(v, (float4)(N));", "v[lane] = pow(v[lane], (float)(N));", "v = pow(v, (float4)((float)(N)));"),
    ("vstore4(v, (M + 1), C);", "C[(M + 1) * 4 + lane] = v[lane];", "vstore4(v, M + 1, C);"),
    ("vstore4(v, 0, C + M - u);", "(C + M - u)[lane] = v[lane];", "vstore4(v, 0, C + M - u);"),
    ("v = (v) * (v);", "v[lane] = v[lane] * v[lane];", "v = v * v;"),
    ("v = vload4(0, t[M] + N + 1);", "v[lane] = t[M][N + 1 + lane];", "v = vload4(0, &t[M][N + 1]);"),
    ("v = vload4(K, t[M] + N);", "v[lane] = (t[M] + N)[K * 4 + lane];", "v = vload4(K, t[M] + N);"),
]


@pytest.mark.parametrize(("before", "lane", "after"), OTHER_WORDS)
def test_other_words(before: str, lane: str, after: str) -> None:
    state = kernel(f"__local float t[8][40];\nfloat4 v = 0.0f;\n{before}\nC[0] = v.x;", PARAMETERS + ", uint u")
    result = removed(state)
    assert f"\n        {lane}\n" in result.text
    back = there_and_back(state)
    assert f"\n    {after}\n" in back.text
    # settled: the same lanes again
    assert removed(back).text == result.text


DECLINED = [
    ("float4 w = v.wzyx;", "a swizzle of several components: .wzyx"),
    ("v.lo = v.hi;", "a swizzle of several components: .lo"),
    ("v = (float4)(vload2(0, A), 1.0f, 2.0f);", "vectors of several widths: 2, 4"),
    ("v = v + (float4)(1.0f, 2.0f, 3.0f, 4.0f);", "a vector literal of several values"),
    ("v = (float4)(v.y, v.x, 1.0f, s);", "it reads one lane of the vector that it writes"),
    ("if (M) v = (float4)(1.0f, 2.0f, 3.0f, s);", "a vector literal of several values as the only statement"),
    ("*(__global float4 *)C = (float4)(1.0f, 2.0f, 3.0f, s);", "a vector literal of several values that is stored"),
    ("C[0] = dot(v, v);", "v is an argument of dot()"),
    ("C[0] = length(v);", "v is an argument of length()"),
    ("v = select(v, v, (int4)(1));", "a part of a vector expression whose type is not known"),
    ("v = shuffle(v, (uint4)(0));", "a part of a vector expression whose type is not known"),
    ("if (any(isless(v, v))) C[0] = 1;", "v is an argument of isless()"),
    ("v = v > 1.0f ? v : -v;", "a comparison or choice of vectors: >"),
    ("v = M ? v : -v;", "a comparison or choice of vectors: ?:"),
    ("C[0] = helper(v);", "v is an argument of helper()"),
    ("v = helper4(1.0f);", "a call of helper4() that would happen once a lane"),
    ("v = v * helper(s);", "a call of helper() that would happen once a lane"),
    ("S t; t.v = v;", "v is used as a whole"),
    ("VEC w = v;", "v is used as a whole"),
    ("float *p = (float *)&v;", "v is used through its address"),
    ("v += A[i++];", "an effect that would happen once a lane"),
    ("vstore4(v, i++, C);", "an effect that would happen once a lane"),
    ("v = v = 1.0f;", "an effect or a choice inside a vector expression"),
    ("v++;", "v is used as a whole"),
    ("v = v * v.x;", "it reads one lane of the vector that it writes"),
    ("C[0] = sizeof(v);", "v is in a sizeof"),
    ("float4 w = {1, 2, 3}; w = v;", "w has a list of values"),
    ("float4 w[2] = {v, v}; w[0] = v;", "w has a list of values"),
    ("float4 w[1] = {1, 2, 3, 4}; w[0] = v;", "w has a list of values"),
    ("float4 w = v, *p;", "a vector and a pointer in one declaration"),
    ("volatile float4 w; w = v;", "volatile memory"),
    ("*(volatile __global float4 *)C = v;", "volatile memory"),
    ("for (float4 w = v; w.x < 1; w += v) i++;", "w is declared in a header"),
    ("float8 w = vload8(0, A); w = w * v.x;", "vectors of several widths: 4, 8"),
    ("USE(v);", "not understood: macro"),
    ("v = v + TABLE;", "a part of a vector expression whose type is not known"),
    ("v = v + lut[0];", "lut stands outside the function"),
    ("v = convert_float4_rtz((int4)(1));", "a part of a vector expression whose type is not known"),
    ("uchar4 c = convert_uchar4(v);", "a conversion from float to uchar"),
    ("uchar4 c = (uchar4)(1); c = c + c; v.x = c.x;", "arithmetic on uchar, which a scalar does in int"),
    ("int4 q = (int4)(1); q = convert_int4(v) + convert_uint4(v);", "vectors of two types in one operation"),
    ("v = vload_half4(0, (__global half *)A);", "a part of a vector expression whose type is not known"),
    ("C[0] = vload4(0, A).x + v.x;", "a component of what is no variable"),
    ('_Pragma("unroll") v = -v;', "a pragma stands right before it"),
    ("v = C[M] + vload4(0, (float *)B);", None),
    ("vstore4(v, 0, (__global float *)B);", None),
]
BEFORE = """\
#define VEC UNKNOWN_TYPE
#define TABLE ((float4)(1.0f))
#define USE(any_vector) do { (any_vector).s0 = 1; } while (0)
typedef struct { float4 v; } S;
__constant float4 lut[1] = { 0.0f };
float helper(float x) { return x; }
float4 helper4(float x) { return x; }
"""


@pytest.mark.parametrize(("statement", "reason"), [pair for pair in DECLINED if pair[1]])
def test_declined(statement: str, reason: str) -> None:
    body = f"int i = 0;\nfloat4 v = vload4(0, A);\n{statement}\nvstore4(v, 0, C);"
    state = kernel(body, PARAMETERS + ", float s", BEFORE)
    places = RULE.removable(state)
    mine = [d for d in places.declined if d.anchor.startswith("f/")]
    assert [d.reason for d in mine] == [reason]
    assert mine[0].rule == "vector-lanes" and view(state.text, "opencl").find(Anchor.parse(mine[0].anchor)) is not None
    assert not [e for e in places.edits if e.anchor.startswith("f/")]


# statements that read and write memory: the rule must know that nothing overlaps by parts
OVERLAPS = {
    "vstore4(vload4(0, C + 1), 0, C);": "what it reads may overlap what it writes",
    "vstore4(vload4(M, C), N, C);": None,
    "*(__global float4 *)C = *(__global float4 *)C * 2.0f;": None,
    "*(__global float4 *)C = *(__global float4 *)(C + 1);": "what it reads may overlap what it writes",
    "*(__global float4 *)(C + M) = *(__global float4 *)(C + N);": "what it reads may overlap what it writes",
    "*(__global float4 *)C = *(__global const float4 *)A;": None,
    "vstore4(vload4(0, A) * C[M], 0, C);": "a number that it reads may lie in the vector that it writes",
    "vstore4(vload4(0, A) * B[M], 0, C);": None,
    "vstore4(vload4(0, A), C[0], C);": "a number that it reads may lie in the vector that it writes",
    "__global float *p = C + 1; vstore4(vload4(0, p), 0, C);": "what it reads may overlap what it writes",
    "__global const float *p = A + 1; p += 3; vstore4(vload4(0, p), 0, C);": None,
    "__global float *p = C; p = M ? C : C + 4; vstore4(vload4(0, A), 0, p);": "what it writes into is not certain",
    "__local float t[64]; vstore4(vload4(0, C), 0, t);": None,
    "__local float t[4][64]; vstore4(vload4(0, C), 0, &t[M][N]);": None,
    "__local float t[4][64]; vstore4(vload4(0, &t[M][N]) * 2.0f, 0, &t[M][N]);": None,
    "__local float t[4][64]; vstore4(vload4(N, t[M]), K, t[M]);": None,
    "__local float t[4][64]; vstore4(vload4(0, &t[M][N]), 0, &t[M][K]);": "what it reads may overlap what it writes",
    "__local float t[4][64]; vstore4(vload4(0, &t[M][N]), 0, &t[K][N]);": "what it reads may overlap what it writes",
    "__local float t[4][64]; vstore4(vload4(N, t[M]), N, t[K]);": "what it reads may overlap what it writes",
    "__local float *__local p[4]; vstore4(vload4(0, &p[M][1]), 0, C);": "what it reads may overlap what it writes",
    "__local float *__local p[4]; vstore4(vload4(0, C), 0, &p[M][1]);": "what it writes into is not certain",
    "float t[64]; vstore4(vload4(0, t + 1), 0, C);": None,
    "__global float4 *p = (__global float4 *)C; p[M] = p[N] + p[0];": None,
    "__global float4 *p = (__global float4 *)C, *q = p + 1; p[M] = q[N];": "what it reads may overlap what it writes",
    "__global float *p = (__global float *)A; vstore4(vload4(0, A), 0, p);": "what it reads may overlap what it writes",
    "__global const float *p = C; *(__global float4 *)p = 0.0f;": "it writes through a pointer to const",
    "__global int *p = (__global int *)C; *(__global float4 *)p = 0.0f;": "a cast between pointers to other elements",
}


@pytest.mark.parametrize("statement", OVERLAPS)
def test_overlaps(statement: str) -> None:
    places = RULE.removable(kernel(statement))
    assert [d.reason for d in places.declined] == ([OVERLAPS[statement]] if OVERLAPS[statement] else [])
    assert len(places.edits) == (0 if OVERLAPS[statement] else 1)


def test_one_buffer_for_two_parameters() -> None:
    code = f"__kernel void f({PARAMETERS})\n{{\n    vstore4(vload4(0, A), 0, C);\n}}\n"
    assert RULE.removable(kernel_of(code)).edits
    places = RULE.removable(kernel_of(code, '["C", "B", "C", "M", "N", "K"]'))
    assert [d.reason for d in places.declined] == ["what it reads may overlap what it writes"]


def test_parameters_of_helpers_may_be_one_buffer() -> None:
    code = "void g(__global float *p, __global float *q) { vstore4(vload4(0, p), 0, q); }\n"
    code += "void h(__global float *p, __local float *q) { vstore4(vload4(0, p), 0, q); }\n"
    code += "float k(float4 v) { return v.x; }\n"
    places = RULE.removable(kernel_of(code))
    assert [e.anchor for e in places.edits] == ["h/access[q]#0"]
    assert [d.reason for d in places.declined] == [
        "what it reads may overlap what it writes",
        "v is a vector parameter that callers pass",
    ]


def test_parameter_of_pointer_type() -> None:
    before = "__global const float4 *restrict A, __global float4 *C, int n"
    state = kernel("C[n] = A[n] * A[n + 1].y;\n", before)
    result = removed(state)
    assert "(__global const float *restrict A, __global float *C, int n)" in result.text
    assert "C[n * 4 + lane] = A[n * 4 + lane] * A[(n + 1) * 4 + 1];" in result.text
    edit = RULE.removable(state).edits[0]
    assert (edit.anchor, edit.intent) == ("f/param[A]", "vectorize-arithmetic")
    assert there_and_back(state).text == state.text
    # a kernel that another one calls keeps its parameters
    called = kernel_of(f"{state.text.split('*/', 1)[1]}__kernel void g({before}) {{ f(A, C, n); }}\n")
    assert not RULE.removable(called).edits


def test_types_of_the_kernels_own() -> None:
    body = "VT v = (VT)(0.0f);\nfor (int i = 0; i < N; i++)\n    v += *(__global const VT *)(A + i * 4);\nC[0] = v.x;"
    known = kernel(body, before="#define VT float4\n")
    result = removed(known)
    assert "VT" not in body_of(result) and "v[lane] += A[i * 4 + lane];" in result.text
    assert there_and_back(known).text == known.text
    conditional = "#if W == 4\n#define VT float4\n#else\n#define VT float8\n#endif\n"
    unknown = RULE.removable(kernel(body, before=conditional))
    assert [(d.anchor, d.reason) for d in unknown.declined] == [("f/var[v]", "vectors of unknown width")]
    assert not unknown.edits
    typedef = kernel(body.replace("(VT)(0.0f)", "0.0f"), before="typedef float4 VT;\n")
    assert there_and_back(typedef).text == typedef.text


def test_intents() -> None:
    for body, intent in {
        "vstore4(vload4(0, A), 0, C);": "vectorize-copy",
        "vstore4((float4)(0.0f), 0, C);": "vectorize-store",
        "float4 v = vload4(0, A); C[0] = v.x;": "vectorize-load",
        "vstore4(vload4(0, A) * 2.0f, 0, C);": "vectorize-arithmetic",
        "float4 v = 0.0f; v += A[0]; vstore4(v, 0, C);": "vectorize-arithmetic",
    }.items():
        state = kernel(body)
        assert [e.intent for e in RULE.removable(state).edits] == [intent]
        assert [e.intent for e in RULE.addable(removed(state)).edits] == [intent]


def test_fresh_names() -> None:
    state = kernel("int lane = get_local_id(0);\nfloat4 v = A[lane];\nvstore4(v, lane, C);")
    assert "for (int lane1 = 0; lane1 < 4; lane1++)\n        C[lane * 4 + lane1] = v[lane1];" in removed(state).text
    inside = kernel(f"{lanes(4)} {{\n    float2 v = vload2(lane, A);\n    vstore2(v, lane, C);\n}}")
    assert "v[lane1] = A[lane * 2 + lane1];" in removed(inside).text


def test_scopes() -> None:
    state = kernel("float4 v = 0.0f;\n{\n    float8 v = 1.0f;\n    C[0] = v.s7;\n}\nC[1] = v.y;")
    first, second = RULE.removable(state).edits
    assert (first.param("width"), second.param("width")) == (4, 8)
    assert body_of(removed(state)) == dedent(f"""\
        float v[4];
        {lanes(4)}
            v[lane] = 0.0f;
        {{
            float v[8];
            {lanes(8)}
                v[lane] = 1.0f;
            C[0] = v[7];
        }}
        C[1] = v[1];
        """)


# loops that a person wrote
ADDED = {
    "memory without alignment": (
        f"""
        {lanes(4)}
            C[M + lane] = 2.0f * A[N * 4 + lane] + B[lane];
        """,
        "vstore4(2.0f * vload4(N, A) + vload4(0, B), 0, C + M);",
    ),
    "braces, another counter, a sum": (
        """
        for (uint l = 0; l < 8; ++l) {
            C[l + M] += A[l];
        }
        """,
        "vstore8(vload8(0, C + M) + vload8(0, A), 0, C + M);",
    ),
    "a scalar": (f"{lanes(2)} C[lane] = 1.0f;", "vstore2((float2)(1.0f), 0, C);"),
    "rows of arrays": (
        f"""
        __local float t[8][40], u[2][3][41];
        {lanes(4)}
            t[M][N + 1 + lane] = A[N + lane] * s;
        {lanes(4)}
            C[lane] = t[M][(N - 1) + lane] + t[M + 1][lane];
        {lanes(4)}
            C[4 + lane] = u[1][M][K + lane] + u[0][(int)A[0]][K * 4 + lane];
        """,
        """
        __local float t[8][40], u[2][3][41];
        vstore4(vload4(0, A + N) * s, 0, &t[M][N + 1]);
        vstore4(vload4(0, &t[M][(N - 1)]) + vload4(0, t[M + 1]), 0, C);
        vstore4(vload4(0, &u[1][M][K]) + vload4(K, u[0][(int)A[0]]), 0, C + 4);
        """,
    ),
    "an index that may wrap around": (
        f"""
        uint u = N;
        {lanes(4)}
            C[u - 4 + lane] = A[u + M * 2 + lane] + B[(u + M) + lane] + B[u * 3 + lane];
        """,
        """
        uint u = N;
        vstore4(vload4(0, &A[u + M * 2]) + vload4(0, B + (u + M)) + vload4(0, B + u * 3), 0, &C[u - 4]);
        """,
    ),
    "variables": (
        f"""
        float x[4], acc[2][4];
        {lanes(4)}
            x[lane] = fma(A[lane], s, 1.0f);
        {lanes(4)}
            acc[1][lane] = max(x[lane], s) * x[2];
        C[0] = acc[1][0] + acc[1][3];
        """,
        """
        float4 x = fma(vload4(0, A), (float4)(s), (float4)(1.0f)), acc[2];
        acc[1] = max(x, s) * x.z;
        C[0] = acc[1].x + acc[1].w;
        """,
    ),
    "integers": (
        f"""
        int q[4];
        {lanes(4)}
            q[lane] = (int)A[lane] << 2;
        {lanes(4)}
            C[lane] = (float)q[lane] / 2.0f;
        """,
        """
        int4 q = convert_int4(vload4(0, A)) << 2;
        vstore4(convert_float4(q) / 2.0f, 0, C);
        """,
    ),
}


@pytest.mark.parametrize("name", ADDED)
def test_added(name: str) -> None:
    before, after = (dedent(text).strip("\n") for text in ADDED[name])
    state = kernel(before, PARAMETERS + ", float s")
    result = added(state)
    assert body_of(result).strip("\n") == after
    for edit in RULE.addable(state).edits:
        new, back = RULE.apply(state, edit)
        again, forth = RULE.apply(new, back)
        assert back.place in {e.place for e in RULE.removable(new).edits}
        assert RULE.apply(again, forth)[0].text == new.text


FURTHER = "a sum, a cast or an address that is indexed further"
NOT_ADDED = {
    f"{lanes(4)} C[lane] = lane;": "lanes of another type are assigned",
    f"{lanes(4)} C[lane] = A[lane] * lane;": "* on lanes",
    f"{lanes(4)} C[lane] = A[lane * 2];": "an index that is no sum with the lane",
    f"{lanes(4)} C[lane] = A[lane] > 0 ? A[lane] : 0;": "a choice, a comparison or an effect on lanes",
    f"{lanes(4)} C[lane] = A[lane] * 2.0;": "lanes of another type are assigned",
    f"{lanes(4)} C[lane] = C[lane + 1];": "what it reads may overlap what it writes",
    f"{lanes(4)} C[lane] *= C[0];": "a number that it reads may lie in the vector that it writes",
    f"{lanes(4)} s += A[lane];": "what is assigned to is no lane",
    f"{lanes(4)} A[lane] = helper(B[lane]);": "a call of helper() that would happen once a lane",
    f"#pragma unroll\n{lanes(4)} C[lane] = A[lane];": "the loop has a hint",
    f"{lanes(4)} /* why */ C[lane] = A[lane];": "a comment stands in the loop",
    f"float x[4] = {{1}}; {lanes(4)} x[lane] = 0;": "x has a list of values",
    f"float x[8]; {lanes(8)} x[lane] = 0; x[M] = 1;": "x is an array that is indexed otherwise, too",
    f"float x[8]; {lanes(4)} x[lane] = 0;": "x is an array that is indexed otherwise, too",
    f"static float x[4]; {lanes(4)} x[lane] = 0;": "x is static",
    f"float x[4]; {lanes(4)} x[lane] = x[3];": "it reads one lane of the vector that it writes",
    f"uchar x[4]; {lanes(4)} x[lane] = x[lane] + 1;": "lanes of another type are assigned",
    f"__local float t[4][4]; {lanes(4)} t[lane][M] = 0; ": "an index in which the lane does not come last",
    f"__local float t[4][9]; {lanes(4)} t[M][N + lane] = t[K][N + lane];": "what it reads may overlap what it writes",
    f"volatile __local float t[4][9]; {lanes(4)} t[M][N + lane] = 0.0f;": "t is volatile",
    f"float t[4][9]; {lanes(4)} t[M][N + lane] = 0.0f;": "t is an array that is indexed otherwise, too",
    f"__local float t[4][9]; {lanes(4)} C[lane] = (t + 1)[M][N + lane];": FURTHER,
    f"__local float t[4][9]; {lanes(4)} C[lane] = (&t[M][N])[K + lane];": FURTHER,
    f"__local float t[4][9]; {lanes(4)} C[lane] = (t[M] + N)[K + lane];": FURTHER,
    f"{lanes(4)} C[lane] = (A + M)[N + lane];": FURTHER,
    f"{lanes(4)} C[lane] = ((__global float *)A)[N + lane];": FURTHER,
    f"{lanes(4)} C[lane] = A[lane]; {lanes(8)} C[lane] = A[lane]; {lanes(4)} C[lane] = A[i++];": None,
}


@pytest.mark.parametrize("body", [b for b in NOT_ADDED if NOT_ADDED[b]])
def test_not_added(body: str) -> None:
    places = RULE.addable(kernel(body, PARAMETERS + ", float s", BEFORE))
    assert [d.reason for d in places.declined] == [NOT_ADDED[body]]
    assert not places.edits


@pytest.mark.parametrize(
    "header",
    [
        "for (int lane = 0; lane < 5; lane++)",
        "for (int lane = 0; lane < N; lane++)",
        "for (int lane = 1; lane < 4; lane++)",
        "for (int lane = 0; lane <= 4; lane++)",
        "for (int lane = 0; lane < 4; lane += 2)",
    ],
)
def test_other_loops_are_no_lanes(header: str) -> None:
    places = RULE.addable(kernel(f"{header} C[lane] = A[lane];"))
    assert not places.edits and not places.declined


# the expert


def test_expert() -> None:
    places = RULE.removable(EXPERT)
    assert not places.declined
    assert [(e.intent, e.anchor, e.param("width")) for e in places.edits] == [
        ("vectorize-copy", "pack_b/loop[k]/loop[j]/access[dst]#0", 16),
        ("vectorize-copy", "gemm/loop[k0]/loop[i]/loop[k]/access[dst]#0", 16),
        ("vectorize-arithmetic", "gemm/loop[k0]/loop[j]/loop[i]/var[acc]", 16),
    ]
    result = removed(EXPERT)
    assert not VECTOR.search(re.sub(r"//.*", "", result.text.split("*/", 1)[1]))
    for line in (
        "dst[j * K + lane] = src[j + lane];",
        "dst[k + lane] = src[k + lane];",
        "float acc[MR][16];",
        "acc[r][lane] = 0.0f;",
        "bk[lane] = b[lane];",
        "acc[r][lane] += a[r * KC + k] * bk[lane];",
        "__global float *row = c + r * N;",
        "row[lane] = acc[r][lane];",
        "row[lane] += acc[r][lane];",
    ):
        assert f" {line}\n" in result.text
    left = RULE.removable(result)
    assert not left.edits and not left.declined


def test_the_expert_comes_back_in_any_order() -> None:
    edits = RULE.removable(EXPERT).edits
    results = set()
    for order in permutations(edits):
        state, undo = EXPERT, []
        for edit in order:
            state, back = RULE.apply(state, edit)
            undo.append(edit_of(back.record()))
        results.add(state.text)
        for back in undo:
            state, _ = RULE.apply(state, back)
        assert state.text == EXPERT.text
    assert len(results) == 1


def test_each_step_of_the_attention_expert_is_found_again() -> None:
    """Rows of arrays: the lanes are found as if a person had written them, and come out of that the same."""
    state, taken = ATTENTION, []
    while edits := RULE.removable(state).edits:
        above, edit = state, edits[0]
        state, back = RULE.apply(above, edit)
        taken.append(edit.anchor)
        assert RULE.apply(state, back)[0].text == above.text
        (forward,) = [e for e in RULE.addable(state).edits if e.place == back.place]
        forth, undo = RULE.apply(state, forward)
        assert undo.place in {e.place for e in RULE.removable(forth).edits}
        assert RULE.apply(forth, undo)[0].text == state.text
    assert taken == [
        "fmha/loop[i]/loop[d]/access[Qs]#0",
        "fmha/loop[j0]/loop[j]/loop[i]/var[acc]",
        "fmha/loop[j0]/loop[d]/loop[i]/var[acc]",
    ]
    for edit in RULE.addable(state).edits:
        state, _ = RULE.apply(state, edit)
    for line in (
        "vstore16(vload16(0, src + d) * scale, 0, &Qs[i][d]);",
        "float16 acc[MR];",
        "float16 kd = vload16(0, k);",
        "acc[r] += Qs[i + r][d] * kd;",
        "vstore16(acc[r], 0, &P[i + r][j]);",
    ):
        assert f" {line}\n" in state.text


def test_places_outlive_other_edits() -> None:
    text = EXPERT.text.replace("#pragma unroll 4\n", "").replace("restrict ", "").replace("MR = 6", "MR = 4")
    text = re.sub(r"__attribute__\(\(reqd_work_group_size\(1, 1, 1\)\)\)\n", "", text)
    other = parse(text, surface="opencl")
    assert [e.place for e in RULE.removable(other).edits] == [e.place for e in RULE.removable(EXPERT).edits]


def test_two_copies_in_one_loop() -> None:
    """The second one's access has another number once the first is out."""
    body = "vstore4(vload4(0, A), 0, C);\nvstore2(vload2(0, B), M, C);"
    state = kernel(body)
    first, second = RULE.removable(state).edits
    assert (first.anchor, second.anchor) == ("f/access[C]#0", "f/access[C]#1")
    one, undo_one = RULE.apply(state, first)
    both, undo_two = RULE.apply(one, second)
    other = RULE.apply(RULE.apply(state, second)[0], first)[0]
    assert both.text == other.text
    assert RULE.apply(RULE.apply(both, undo_one)[0], undo_two)[0].text == state.text


def test_not_applicable() -> None:
    edit = RULE.removable(EXPERT).edits[-1]
    state, back = RULE.apply(EXPERT, edit)
    with pytest.raises(NotApplicable, match=r"var\[acc\]: no such region"):
        RULE.apply(state, edit)
    with pytest.raises(NotApplicable, match="no such region"):
        RULE.apply(EXPERT, back)
    # a later state reads more than the vector code did
    twice = parse(state.text.replace("bk[lane] = b[lane];", "bk[lane] = b[lane] + panel[lane];"), surface="opencl")
    assert twice.text != state.text
    for forms, reason in (
        ("cv", None),
        ("v", None),
        ("cvv", "less often than it did"),
        ("c", "more often than it did"),
    ):
        values = tuple((name, forms if name == "forms" else value) for name, value in back.params)
        edit = Edit(back.rule, back.action, back.intent, back.anchor, values)
        if reason is None:
            assert RULE.apply(twice, edit)[0].text != twice.text
        else:
            with pytest.raises(NotApplicable, match=reason):
                RULE.apply(twice, edit)
    with pytest.raises(NotApplicable, match="an edit of other"):
        RULE.apply(EXPERT, Edit("other", "remove", edit.intent, edit.anchor))


def test_other_surfaces() -> None:
    cuda = parse(EXPERT.text.replace('options = ["-cl-std=CL1.2", "-cl-mad-enable"]\n', ""), surface="cuda")
    assert RULE.removable(cuda) == RULE.addable(cuda)
    assert not RULE.removable(cuda).edits and not RULE.removable(cuda).declined


def test_deep_nesting_is_declined() -> None:
    deep = "(" * 3000 + "v.x" + ")" * 3000
    places = RULE.removable(kernel(f"float4 v = 0.0f;\nC[0] = {deep};"))
    assert [d.reason for d in places.declined] == ["nested too deeply"]


EXPECTED = {"no statement is about whole vectors", "it reads one lane of the vector that it writes"}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1_000_000))
def test_generated(seed: int) -> None:
    state = random_kernel(seed)
    places = RULE.removable(state)
    assert places == RULE.removable(state)
    assert {d.reason for d in places.declined} <= EXPECTED
    for edit in places.edits:
        result, back = RULE.apply(state, edit)
        left = RULE.removable(result)
        assert edit.place not in [e.place for e in left.edits] and len(left.edits) == len(places.edits) - 1
        again, forth = RULE.apply(result, back)
        assert again.text == state.text or RULE.apply(again, forth)[0].text == result.text
    forward = backward = state
    for edit in places.edits:
        forward, _ = RULE.apply(forward, edit)
    for edit in reversed(places.edits):
        backward, _ = RULE.apply(backward, edit)
    assert forward.text == backward.text
    assert places.declined or not VECTOR.search(body_of(forward))
    # what a removal left, anybody may put vectors into
    found = RULE.addable(forward)
    assert places.declined or (len(found.edits) >= len(places.edits) and not found.declined)
    for edit in found.edits:
        RULE.apply(forward, edit)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1_000_000), st.integers(0, 2000), st.integers(0, 12), st.text("v[]().;=x4+*& ", max_size=4))
def test_damaged_kernels_raise_nothing(seed: int, start: int, length: int, junk: str) -> None:
    text = random_kernel(seed).text
    head = text.index("*/") + 3
    at = head + start % (len(text) - head)
    damaged = parse(text[:at] + junk + text[at + length :], surface="opencl")
    for places in (RULE.removable(damaged), RULE.addable(damaged)):
        for edit in places.edits:
            RULE.apply(damaged, edit)
