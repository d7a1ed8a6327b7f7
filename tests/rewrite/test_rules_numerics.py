"""Rules on arithmetic and padding: exact texts, what is needed to be sure, what is declined."""

from __future__ import annotations

import pytest

from experts.kernel import Kernel, parse
from tasks.rewrite.rules import apply, rule_named

FUSE, NATIVE, PAD = rule_named("fuse-call"), rule_named("native-function"), rule_named("pad-array")
HEAD = """/* klineage
format = 1
workload = "gemm"
[const]
T = 8
PAD = 1
[[launch]]
entry = "gemm"
grid = [1]
block = ["T", 4]
args = ["A", "B", "C", "M", "N", "K"]
*/
"""
OPEN = """__kernel void gemm(__global float *A, __global float4 *B, __global float *C, int M, int N, int K)
{
    float a = 0, b = 0, c = 0;
    float4 v = 0, w = 0;
"""


def kernel(statements: str, above: str = "") -> Kernel:
    return parse(f"{HEAD}{above}{OPEN}    {statements}\n}}\n", surface="opencl")


def inside(of: Kernel) -> str:
    return of.text[of.text.index(OPEN) + len(OPEN) :].removesuffix("\n}\n").strip()


def removed(rule_name: str, statements: str, callee: str, above: str = "") -> str:
    before, rule = kernel(statements, above), rule_named(rule_name)
    edit = next(e for e in rule.removable(before).edits if e.anchor == f"gemm/call[{callee}]#0")
    after, back = apply(before, edit)
    assert apply(after, back)[0].text == before.text
    return inside(after)


def reason(rule_name: str, statements: str, above: str = "") -> str:
    places = rule_named(rule_name).removable(kernel(statements, above))
    assert not places.edits and len(places.declined) == 1
    return places.declined[0].reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c = mad(a, b, c);", "c = a * b + c;"),
        ("c = mad( a,b , /* c */ c );", "c = a * b + c;"),
        ("c = mad(a + 1.0f, b - c, a ? b : c);", "c = (a + 1.0f) * (b - c) + (a ? b : c);"),
        ("c = mad(a * b, b * c, c * c);", "c = a * b * (b * c) + c * c;"),
        ("c = mad(-a, -b, -c);", "c = -a * -b + -c;"),
        ("c = mad(a, b, c + a);", "c = a * b + (c + a);"),
        ("c = mad((a), (b + c), (c));", "c = (a) * (b + c) + (c);"),
        ("c = a - mad(a, b, c);", "c = a - (a * b + c);"),
        ("c = a + mad(a, b, c);", "c = a + (a * b + c);"),
        ("c = mad(a, b, c) + a;", "c = a * b + c + a;"),
        ("c = mad(a, b, c) * a;", "c = (a * b + c) * a;"),
        ("c = -mad(a, b, c);", "c = -(a * b + c);"),
        ("c = (mad(a, b, c));", "c = (a * b + c);"),
        ("c = (mad(a, b, c)) * 2.0f;", "c = (a * b + c) * 2.0f;"),
        ("c = mad(v, w, v).x;", "c = (v * w + v).x;"),
        ("c = (int)mad(a, b, c);", "c = (int)(a * b + c);"),
        ("c = mad(a, b, c) < a ? mad(b, b, a) : a;", "c = a * b + c < a ? b * b + a : a;"),
        ("c = mad(a, b, mad(b, c, mad(c, a, b)));", "c = a * b + (b * c + (c * a + b));"),
        ("c = mad(mad(a, b, c), mad(b, c, a), c);", "c = (a * b + c) * (b * c + a) + c;"),
        ("c = f(mad(a, b, c), mad(b, c, a));", "c = f(a * b + c, b * c + a);"),
        ("v = mad((float4)(a, b, c, a), B[0], w);", "v = (float4)(a, b, c, a) * B[0] + w;"),
        ("c = a * b + mad(a, b, c) + b * c + a;", "c = a * b + (a * b + c) + b * c + a;"),
        ("c = mad(a,\n            b, // of B\n            c);", "c = a * b + c;"),
        ("c = mad(b, TWO, TWO);", "c = b * (TWO) + (TWO);"),
        ("c = SQUARE(mad(a, b, c));", "c = SQUARE((a * b + c));"),
        ("c = mad(a, SQUARE(b), c);", "c = a * (SQUARE(b)) + c;"),
        ("c = mad(a, T, c);", "c = a * T + c;"),
    ],
)
def test_fused_calls(before: str, after: str) -> None:
    above = "#define TWO 1.0f + 1.0f\n#define SQUARE(x) x * x\n"
    assert removed("fuse-call", before, "mad", above) == after


def test_fma_and_mad_are_places_of_their_own() -> None:
    text = "c = mad(a, fma(b, c, a), b); a = fma(a, b, c);"
    assert removed("fuse-call", text, "mad") == "c = a * fma(b, c, a) + b; a = fma(a, b, c);"
    assert removed("fuse-call", text, "fma") == "c = mad(a, b * c + a, b); a = a * b + c;"


@pytest.mark.parametrize(
    ("statements", "above", "expected"),
    [
        ("M = mad(M, N, K);", "", "floating-point"),
        ("c = mad(unknown, other, c);", "", "floating-point"),
        ("c = mad(a, b, c);", "float mad(float x, float y, float z) { return x; }\n", "of its own"),
        ("c = mad(a, b, c);", "#define mad(x, y, z) ((x) + (y) + (z))\n", "of its own"),
        ("c = mad(a, b);", "", "number of arguments"),
        ("c = mad(TWO, b, c);", "#define TWO 2.0f\n", "not understood"),  # `(TWO) * b` could be a cast of `*b`
        ("c = mad(SQUARE(a), SQUARE(b), c);", "#define SQUARE(x) x * x\n", "floating-point"),
        ("#ifdef X\nc = mad(a, b, c);\n#endif", "", "conditional"),
        ("c = mad(a,\n#pragma x\nb, c);", "", "preprocessor"),
        ("RUN(c = mad(a, b, c));", "#define RUN(x) x;\n", "macro"),
    ],
)
def test_fused_calls_that_stay(statements: str, above: str, expected: str) -> None:
    assert expected in reason("fuse-call", statements, above)


def test_other_functions_are_none() -> None:
    text = "M = mad24(M, N, K); M = mad_hi(M, N, K); // mad(a, b, c)"
    assert not FUSE.removable(kernel(text)).edits and not FUSE.removable(kernel(text)).declined


@pytest.mark.parametrize(
    ("before", "sites", "after"),
    [
        ("c = a * b + c;", "0", "c = mad(a, b, c);"),
        ("c += a * b;", None, ""),
        ("M = M * N + K; c = a * b + c;", "1", "M = M * N + K; c = mad(a, b, c);"),
        ("v = a * w + v;", None, ""),
        ("v = B[0] * w + v * (w + v);", "0", "v = mad(B[0], w, v * (w + v));"),
        ("c = (a + b) * (b * c + a) + c;", "0,1", "c = mad(a + b, mad(b, c, a), c);"),
        ("c = x * b + c;", None, ""),
        ("c = a * 2 + c;", None, ""),
        ("c = a * b + 1.0;", None, ""),
        (
            "float t[4][8]; v = vload4(0, &t[M][4]) * w + vload4(1, t[N]);",
            "0",
            "float t[4][8]; v = mad(vload4(0, &t[M][4]), w, vload4(1, t[N]));",
        ),
        ("float t[4][4][8]; v = vload4(0, t[M]) * w + v;", None, ""),
        ("c = A[M] * A[N] + C[K];", "0", "c = mad(A[M], A[N], C[K]);"),
    ],
)
def test_what_is_fused(before: str, sites: str | None, after: str) -> None:
    state = kernel(before)
    found = [e for e in FUSE.addable(state).edits if e.anchor == "gemm/call[mad]#0"]
    assert [edit.param("sites") for edit in found] == ([] if sites is None else [sites])
    for edit in found:
        fused, back = apply(state, edit)
        assert inside(fused) == after
        assert apply(fused, back)[0].text == state.text


@pytest.mark.parametrize(
    ("before", "callee", "after"),
    [
        ("c = native_exp(a) * exp(b);", "native_exp", "c = exp(a) * exp(b);"),
        ("c = exp(b) * native_exp(native_exp(a));", "native_exp", "c = exp(b) * exp(exp(a));"),
        ("c = half_powr(a, b);", "half_powr", "c = powr(a, b);"),
        ("c = native_recip(a + b) * c;", "native_recip", "c = 1.0f / (a + b) * c;"),
        ("c = c / native_recip(a);", "native_recip", "c = c / (1.0f / a);"),
        ("c = 1.0f / a + native_recip( a );", "native_recip", "c = 1.0f / a + 1.0f / a;"),
        ("v = native_recip(native_recip(v));", "native_recip", "v = 1.0f / (1.0f / v);"),
        ("c = native_divide(a * b, b * c);", "native_divide", "c = a * b / (b * c);"),
        ("c = a * half_divide(a, b);", "half_divide", "c = a * (a / b);"),
    ],
)
def test_native_functions(before: str, callee: str, after: str) -> None:
    assert removed("native-function", before, callee) == after


@pytest.mark.parametrize(
    ("statements", "above", "expected"),
    [
        ("c = native_divide(M, N);", "", "floating-point"),
        ("c = native_exp(a);", "float native_exp(float x) { return x; }\n", "of its own"),
        ("c = native_exp(a);", "#define exp(x) (x)\n", "of its own"),
        ("float exp = 1.0f; c = native_exp(exp);", "", "of its own"),
    ],
)
def test_native_functions_that_stay(statements: str, above: str, expected: str) -> None:
    assert expected in reason("native-function", statements, above)


def test_only_float_arguments_are_approximated() -> None:
    state = kernel("double d = exp((double)a); c = exp(a) + exp(x); v = exp(v) / w; half h = sqrt((half)a);")
    found = {edit.anchor: edit for edit in NATIVE.addable(state).edits}
    assert set(found) == {f"gemm/call[{n}]#0" for n in ("native_exp", "half_exp", "native_divide", "half_divide")}
    changed, _ = apply(state, found["gemm/call[native_exp]#0"])
    assert inside(changed) == (
        "double d = exp((double)a); c = native_exp(a) + exp(x); v = native_exp(v) / w; half h = sqrt((half)a);"
    )
    changed, _ = apply(state, found["gemm/call[native_divide]#0"])
    assert "v = native_divide(exp(v), w);" in inside(changed)


TILE = "__local float t[T][{}]; int x = get_local_id(0), y = get_local_id(1); {}"


@pytest.mark.parametrize(
    ("length", "after"),
    [
        ("T + 1", "T"),
        ("T + PAD", "T"),
        ("T+1", "T"),
        ("T /* row */ + /* pad */ 3", "T"),
        ("T * 2 + ONE", "T * 2"),
        ("(T + 1) - 1 + 4", "(T + 1) - 1"),
    ],
)
def test_padding_texts(length: str, after: str) -> None:
    before = kernel(
        TILE.format(length, "t[y][x] = 0.0f; for (int k = 0; k < T; k++) t[k][x] = t[y][k];"), "#define ONE 1\n"
    )
    edit = PAD.removable(before).edits[0]
    out, back = apply(before, edit)
    assert f"t[T][{after}];" in inside(out)
    assert apply(out, back)[0].text == before.text
    assert not PAD.removable(out).edits


@pytest.mark.parametrize(
    ("length", "use", "expected"),
    [
        ("T + 1 + 1", "t[y][x] = 0.0f;", "several summands"),
        ("T + 1", "t[y][x + 1] = 0.0f;", "may reach"),
        ("T + 1", "t[y][T] = 0.0f;", "may reach"),
        ("T + 1", "for (int k = 0; k <= T; k++) t[y][k] = 0.0f;", "may reach"),
        ("T + 1", "t[y][x - 1] = 0.0f;", "may reach"),
        ("T + 1", "t[y][M] = 0.0f;", "not known"),
        ("T + 1", "x++; t[y][x] = 0.0f;", "not known"),
        ("T + 1", "__local float *p = t[0]; p[x] = 0.0f;", "pointer"),
        ("T + 1", "__local float *p = &t[0][0]; p[x] = 0.0f;", "address"),
        ("T + 1", "(*t)[x] = 0.0f;", ""),
        ("T + 1", "t[0][0] = sizeof(t);", "as a whole"),
        ("T + 1", "*(__local float4 *)&t[y][0] = 0.0f;", "pointer"),
        ("T + 1", "vstore4(v, 0, &t[y][x]);", "pointer"),
        ("T + 1", "vstore4(v, 1, t[y]);", "pointer"),
        ("T + 1", "v = vload4(0, t[y] + x);", "pointer"),
        ("T + 1", "USE;", "macro"),
        ("T + M", "t[y][x] = 0.0f;", "not known"),
        ("T + ZERO", "t[y][x] = 0.0f;", "not positive"),
        ("T / 2 + 1", "t[y][x] = 0.0f;", "may reach"),
    ],
)
def test_padding_that_stays(length: str, use: str, expected: str) -> None:
    above = "#define ZERO 0\n" + ("#define USE t[0][0] = 0.0f\n" if use == "USE;" else "")
    places = PAD.removable(kernel(TILE.format(length, use), above))
    assert not places.edits
    assert any(each.anchor == "gemm/var[t]" and expected in each.reason for each in places.declined), places


@pytest.mark.parametrize("use", ["t[y][x % T] = 0.0f;", "t[y][min(x, 3)] = 0.0f;", "t[y][(x * 2 + 1) / 2] = 0.0f;"])
def test_reach_is_computed(use: str) -> None:
    assert PAD.removable(kernel(TILE.format("T + 1", use))).edits


def test_padding_is_added_to_rows() -> None:
    state = kernel(TILE.format("T", "t[y][M] = 0.0f; __local float u[T * T], w[2][T << 1];"))
    assert [edit.anchor for edit in PAD.addable(state).edits] == ["gemm/var[t]"]
    padded, back = apply(state, PAD.addable(state).edits[0])
    assert "t[T][T + 1];" in inside(padded)
    # The way back is not sure of M.
    assert not PAD.removable(padded).edits and back.action == "remove"
