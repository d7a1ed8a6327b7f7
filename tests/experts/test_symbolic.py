"""Symbolic values of kernels: exact against brute force, and unknown where the text does not tell."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import experts
from experts.case import Case, Parameter, Tensor, Workload, bind
from experts.expressions import Expression
from experts.gemm.case import WORKLOAD
from experts.judge import Expected
from experts.kernel import Kernel, load, parse
from experts.source import Access, Function, Loop, view
from experts.symbolic import (
    Frame,
    Unclear,
    Value,
    address_of,
    counter,
    divisibility_terms,
    expression_text,
    number,
    numbers_of,
    operation,
    symbol,
    term_texts,
    value_of,
)


def case_of(dims: Mapping[str, int], scalars: tuple[Parameter, ...] = ()) -> Case:
    """A case of two tensors that is never run."""
    workload = Workload(
        name="t",
        dimensions=tuple(dims),
        tensors={"f32": (Tensor("A", "f32", ("1048576",)), Tensor("C", "f32", ("1",), "out"))},
        shapes={"s": dims},
        default={"opencl": "s-f32"},
        domain=(),
        family=(),
        sanitize=dims,
        distributions={"none": lambda rng, case: {}},
        reference=lambda inputs, case: {"C": Expected(np.zeros(1), np.zeros(1))},
        one_below=lambda inputs, case: {},
        honest=lambda inputs, case: {},
        operations="1",
        scalars=scalars,
    )
    return Case(workload, "s", "f32", dims, "")


def kernel_of(
    body: str,
    *,
    parameters: str = "__global const float *A, __global float *C, int M, int N",
    args: str = '"A", "C", "M", "N"',
    const: str = "",
    grid: str = "1",
    block: str = "1",
    before: str = "",
) -> Kernel:
    return parse(
        f'/* klineage\nformat = 1\nworkload = "t"\n[const]\n{const}\n[[launch]]\nentry = "f"\n'
        f"grid = [{grid}]\nblock = [{block}]\nargs = [{args}]\n*/\n{before}\n"
        f"__kernel void f({parameters})\n{{\n{body}\n}}\n",
        surface="opencl",
    )


def frame_of(kernel: Kernel, case: Case) -> tuple[Frame, Function]:
    source = view(kernel.text, "opencl")
    function = source.entries[0]
    return Frame(kernel, source, function, kernel.manifest.launch[0], case), function


DIMS = {"M": 7, "N": 24}


def extent_of(body: str, which: int = -1, dims: Mapping[str, int] = DIMS, **more: str) -> Value:
    frame, function = frame_of(kernel_of(body, **more), case_of(dims))
    return frame.loop(list(function.walk_loops())[which]).extent


def offset_of(body: str, which: int = -1, dims: Mapping[str, int] = DIMS, **more: str) -> tuple[Value, Frame]:
    frame, function = frame_of(kernel_of(body, **more), case_of(dims))
    found: Access = function.accesses[which]
    return address_of(frame, found).offset, frame


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("for (int i = 0; i < N; i++) ;", "N"),
        ("for (int i = 2; i <= N; i += 2) ;", "N - 1"),
        ("for (int i = N; i > 0; i--) ;", "N"),
        ("for (int i = N - 1; i >= 0; i -= 3) ;", "N"),
        ("for (int i = 0; i != N; ++i) ;", "N"),
        ("int n = M * (N + 1); for (int i = 0; i < n; i++) ;", "M * N + M"),
        ("int n; n = min(N, 8); for (int i = 0; i < n; i++) ;", "min(N, 8)"),
        ("for (int i = 0; i < N / 4; i++) ;", "N // 4"),
        ("for (int i = 0; i < (N + T - 1) / T * T; i++) ;", "T * ((N + T - 1) // T)"),
        ("for (int i = 0; i < N % 5; i++) ;", "N % 5"),
        ("for (int i = 0; i < (N < 9 ? N : 9); i++) ;", "min(N, 9)"),
        ("for (int i = 0; i < (M > N ? 3 : 5); i++) ;", "(3 if N < M else 5)"),
        ("for (int i = 0; i < N << 2; i++) ;", "N * 4"),
        ("for (int i = 0; i < T; i++) ;", "T"),
        ("for (long i = 0; i < (long)N; i++) ;", "N"),
        ("int i; for (i = 0; i < N; i++) ;", "N"),
        ("int n = N; n += 8; for (int i = 0; i < n; i++) ;", "N + 8"),
        ("int n = 3; { int n = N; for (int i = 0; i < n; i++) ; }", "N"),
        ("for (int i = 0; i < get_local_size(0) * get_num_groups(0); i++) ;", "T * ((N + T - 1) // T)"),
        ("for (int i = 0; i < WIDE; i++) ;", "T * 2 + 1"),
        ("for (int i = 0; i < FOUR; i++) ;", "4"),
        ("for (int i = 0; i < blocks(N, T); i++) ;", "(N + T - 1) // T"),
        ("for (int i = 0; i < UP(N, 4); i++) ;", "((N + 3) // 4) * 4"),
        ("for (int i = 0; i < sizeof(float4); i++) ;", "16"),
        ("for (int i = 0; i < table; i++) ;", "12"),
        ("for (int i = 0; i < 010 + 0x10; i++) ;", "24"),
    ],
)
def test_extents_without_outer_loops_are_expressions(body: str, text: str) -> None:
    before = (
        "#define WIDE (2 * T + 1)\n#define UP(a, b) (((a) + (b) - 1) / (b) * (b))\n"
        "enum { THREE = 3, FOUR, };\n__constant int table = 12;\n"
        "int blocks(int n, int by) { return (n + by - 1) / by; }\n"
    )
    value = extent_of(body, const="T = 8", grid='"cdiv(N, T)"', block='"T"', before=before)
    assert expression_text(value) == text
    numbers = numbers_of(value, DIMS | {"T": 8})
    assert numbers.tolist() == [Expression(text).integer(DIMS | {"T": 8})]


@pytest.mark.parametrize(
    "body",
    [
        "int n = (int)A[0]; for (int i = 0; i < n; i++) ;",  # from memory
        "int n = N; if (M > 3) n = 4; for (int i = 0; i < n; i++) ;",
        "int n = N; if (M > 3) n += 4; for (int i = 0; i < n; i++) ;",
        "int n = N; int *p = &n; *p = 3; for (int i = 0; i < n; i++) ;",
        "int n = 0; for (int k = 0; k < M; k++) n++; for (int i = 0; i < n; i++) ;",  # behind the loop
        "int n = 0; while (n < N) n++; for (int i = 0; i < n; i++) ;",
        "for (int i = 0; i < N; i++) i++;",
        "for (int i = 0; i < N - i; i++) ;",  # its bound moves with it
        "for (float x = 0; x < N; x++) ;",
        "for (char i = 0; i < N; i++) ;",  # wraps round
        "for (uint i = N; i >= 0; i--) ;",
        "for (uint i = N; i > 0; i -= 4) ;",
        "for (int i = 0; i < N; i -= 1) ;",
        "for (int i = 0; i != N; i += 3) ;",
        "int n = (float)N; for (int i = 0; i < n; i++) ;",
        "for (int i = 0; i < other(N); i++) ;",
        "for (int i = 0; i < elsewhere; i++) ;",
        "SET(n) for (int i = 0; i < n; i++) ;",
        "int n = 3; CLEAR; for (int i = 0; i < n; i++) ;",
        "for (int i = 0; i < PICK; i++) ;",
        "for (int i = 0; i < LOOP; i++) ;",
        "for (int i = 0; i < N / 0; i++) ;",
        "for (int i = 0; i < rec(N); i++) ;",
        "int n = n; for (int i = 0; i < n; i++) ;",
        "int n = N; for (int k = 0; k < 4; k++) { if (k > 2) continue; n++; for (int i = 0; i < n; i++) ; }",
        "int n = N; for (int k = 0; k < 4; k++) { n += k; for (int i = 0; i < n; i++) ; }",
        "int n = N; for (int k = 0; k < 4; k++) for (int m = 0; m < 4; m++) { n++; for (int i = 0; i < n; i++) ; }",
        "again: for (int i = 0; i < N; i++) ; goto again;",
    ],
)
def test_what_the_text_does_not_tell_is_unknown(body: str) -> None:
    before = (
        "#define SET(x) int x = N;\n#define CLEAR n = 0\n#define LOOP LOOP + 1\n#if N > 3\n#define PICK 3\n#else\n"
        "#define PICK 4\n#endif\n__global int *elsewhere;\nint other(int n) { if (n > 3) return 1; return n; }\n"
        "int rec(int n) { return rec(n) + rec(n - 1); }\n"
    )
    with pytest.raises(Unclear):
        extent_of(body, before=before)


def test_parameters_are_what_the_launch_passes() -> None:
    swapped = {"parameters": "__global float *out, int rows, int A", "args": '"C", "N", "M"'}
    assert expression_text(extent_of("for (int i = 0; i < rows; i++) ;", **swapped)) == "N"
    assert expression_text(extent_of("for (int i = 0; i < A; i++) ;", **swapped)) == "M"
    case = case_of(DIMS, (Parameter("steps", "i32", 5), Parameter("scale", "f32", 0.5)))
    kernel = kernel_of("for (int i = 0; i < n; i++) ;", parameters="int n", args='"steps"')
    frame, function = frame_of(kernel, case)
    value = frame.loop(function.loops[0]).extent
    assert expression_text(value) == "steps" and numbers_of(value, frame.symbols).tolist() == [5]
    kernel = kernel_of("for (int i = 0; i < n; i++) ;", parameters="int n", args='"scale"')
    frame, function = frame_of(kernel, case)
    with pytest.raises(Unclear):
        frame.loop(function.loops[0])


def test_tails_of_blocks() -> None:
    body = "for (int k0 = 0; k0 < N; k0 += T) { int kc = min(T, N - k0); for (int k = 0; k < kc; k++) ; }"
    value = extent_of(body, const="T = 10")
    assert numbers_of(value, DIMS | {"T": 10}).tolist() == [4, 10]
    assert expression_text(value) is None
    assert sorted(term_texts(divisibility_terms(value)) or ()) == ["N", "T"]


def test_a_choice_that_is_not_understood_takes_both() -> None:
    body = "int n = A[0] > 0.0f ? N : 5; for (int i = 0; i < n; i++) ;"
    assert numbers_of(extent_of(body), DIMS).tolist() == [5, 24]
    assert expression_text(extent_of(body)) is None


def test_unsigned_numbers_must_not_wrap() -> None:
    body = "uint left = get_group_id(0) * 16; for (int i = 0; i < min(16u, N - left); i++) ;"
    assert numbers_of(extent_of(body, grid="2"), DIMS).tolist() == [8, 16]
    with pytest.raises(Unclear):
        numbers_of(extent_of(body, grid="3"), DIMS)
    body = "for (int i = 0; i < N - get_group_id(0) * 16; i++) ;"
    assert numbers_of(extent_of(body, grid="2"), DIMS).tolist() == [8, 24]
    with pytest.raises(Unclear):
        numbers_of(extent_of(body, grid="3"), DIMS)
    signed = "for (int i = 0; i < N - (int)get_group_id(0) * 16; i++) ;"
    assert numbers_of(extent_of(signed, grid="3"), DIMS).tolist() == [-8, 8, 24]


@pytest.mark.parametrize(
    ("body", "terms", "numbers"),
    [
        ("C[M] = A[N + 1];", ["N * 4 + 4"], [100]),
        ("int i = get_global_id(0); float x = A[i * N];", ["N * 4"], [0, 96, 192, 288]),
        ("__global const float *a = A + N; a += 2; float x = a[1];", ["N * 4 + 12"], [108]),
        ("__global const float *a = A; for (int i = 0; i < 3; i++) { float x = *a; a += N; }", ["N * 4"], [0, 96, 192]),
        ("__global const float *a = A; for (int i = 0; i < 2; i++) { a += N; float x = *a; }", ["N * 4"], [96, 192]),
        ("for (int i = 0; i < 3; i++) { float x = *A; A += 2; }", ["8"], [0, 8, 16]),
        ("for (int i = 0; i < 9; i += 4) { float4 x = *(__global const float4 *)(A + i); }", ["16"], [0, 16, 32]),
        ("float4 x = ((__global const float4 *)A)[3];", ["48"], [48]),
        ("float4 x = vload4(2, A + 1);", ["36"], [36]),
        ("float3 x = vload3(2, A);", ["24"], [24]),
        ("__global const float4 *v = (__global const float4 *)A + 2; float4 x = v[1];", ["48"], [48]),
        ("float t[3][5]; t[2][1] = A[0];", ["44"], [44]),
        ("float t[3][8]; *(float4 *)&t[1][4] = 0.0f;", ["48"], [48]),
        ("float t[3][8]; vstore4(A[0], 1, t[1]);", ["48"], [48]),
        ("__local float t[3][8]; __local float *r = t[2] + 1; C[0] = r[3];", ["80"], [80]),
        ("float t[3][8]; *(t[1] + 2) = A[0];", ["40"], [40]),
        ("float4 t[3][2]; t[1][1].x = A[0];", ["48"], [48]),
    ],
)
def test_addresses(body: str, terms: list[str], numbers: list[int]) -> None:
    stores = body.startswith(("float t", "float4 t"))
    value, frame = offset_of(body, 0 if stores else -1, block="4" if "get_global" in body else "1")
    assert numbers_of(value, frame.symbols).tolist() == numbers
    texts = term_texts(divisibility_terms(value))
    assert texts == terms


@pytest.mark.parametrize(
    "body",
    [
        "__global const float *a = M > 3 ? A : C; float x = a[0];",
        "__global const float *a = A; for (int i = 0; i < 3; i++) a += N; float x = a[0];",
        "__global const float *a = A; if (M > 3) a += N; float x = a[0];",
        "float x = A[(int)C[0]];",
        "__global const char *a = (__global const char *)A; __global const float *b = a; float x = b[0];",
        "__global const float *a = pick(A); float x = a[0];",
    ],
)
def test_addresses_that_are_not_told(body: str) -> None:
    frame, function = frame_of(kernel_of(body), case_of(DIMS))
    found = [a for a in function.accesses if a.base in ("a", "b") or body.startswith("float x")]
    with pytest.raises(Unclear):
        address_of(frame, found[-1 if body.startswith("__global") else 0])


def test_an_access_in_a_word_is_read_once() -> None:
    frame, function = frame_of(kernel_of("float x = A[N];"), case_of(DIMS))
    assert address_of(frame, function.accesses[0]) is address_of(frame, function.accesses[0])


def test_texts_that_grow_are_refused() -> None:
    lines = [f"int v{n + 1} = v{n} * v{n} + v{n};" for n in range(30)]
    with pytest.raises(Unclear):
        extent_of("int v0 = N;" + "".join(lines) + "for (int i = 0; i < v30; i++) ;")
    calls = "int g0(int n) { return n; }\n" + "".join(
        f"int g{n + 1}(int n) {{ return g{n}(n) / 3 + g{n}(n + 1) / 3; }}\n" for n in range(30)
    )
    with pytest.raises(Unclear):
        extent_of("for (int i = 0; i < g30(N); i++) ;", before=calls)
    with pytest.raises(Unclear):
        extent_of(f"for (int i = 0; i < {'(' * 3000}N{')' * 3000}; i++) ;")
    with pytest.raises(Unclear):
        extent_of(f"for (int i = 0; i < {'1 << 40 << 40'}; i++) ;")


def test_large_numbers_are_unknown_not_wrapped() -> None:
    value = symbol("N") * symbol("N") * symbol("N")
    with pytest.raises(Unclear):
        numbers_of(value, {"N": 1 << 30})
    with pytest.raises(Unclear):
        numbers_of(symbol("N"), {})


def test_many_iterations_are_seen_at_their_ends() -> None:
    outer = counter("a", number(1000))
    inner = counter("b", outer + number(1))
    numbers = numbers_of(outer * number(2000) + inner, {})
    assert {0, 2000, 2001, 4002, 998 * 2000, 999 * 2000 + 999} <= set(numbers.tolist())
    assert set(numbers_of(counter("c", number(100)), {})) == set(range(100))


def test_every_address_of_the_gemm_expert() -> None:
    kernel = load(Path(experts.__file__).parent / "gemm" / "expert.cl")
    case = bind(WORKLOAD, "M=80,N=320,K=272-f32", "opencl", "")
    source = view(kernel.text, "opencl")
    function = source.entries[1]
    frame = Frame(kernel, source, function, kernel.manifest.launch[1], case)
    m, n, k, mr, nr, mt, nt, kc = 80, 320, 272, 6, 16, 11, 16, 256
    src, panels, rows = set(), set(), set()
    for i0, j0 in itertools.product(range(0, m, mr * mt), range(0, n, nr * nt)):
        here, staged = min(mr * mt, m - i0), -(-min(mr * mt, m - i0) // mr) * mr
        for k0 in range(0, k, kc):
            steps = min(kc, k - k0)
            src |= {min(i0 + i, m - 1) * k + k0 + at for i in range(staged) for at in range(0, steps, nr)}
            for j in range(0, min(nr * nt, n - j0), nr):
                panels |= {(j0 + j) * k + k0 * nr + at * nr for at in range(steps)}
                rows |= {(i0 + i + r) * n + j0 + j for i in range(0, here, mr) for r in range(mr)}
    wanted = {"src": src, "b": panels, "row": rows}
    for access in function.accesses:
        if access.base in wanted:
            found = numbers_of(address_of(frame, access).offset, frame.symbols)
            assert set(found.tolist()) == {4 * element for element in wanted[access.base]}, access.base


# Random values against the same arithmetic in Python.

_NAMES = ("M", "N")
_LEAF = st.one_of(
    st.integers(-6, 12).map(lambda n: (number(n), str(n))),
    st.sampled_from(_NAMES).map(lambda name: (symbol(name), name)),
)


def _grown(inner: st.SearchStrategy[tuple[Value, str]]) -> st.SearchStrategy[tuple[Value, str]]:
    def both(sign: str, a: tuple[Value, str], b: tuple[Value, str]) -> tuple[Value, str]:
        if sign in ("min", "max"):
            return operation(sign, a[0], b[0]), f"{sign}({a[1]}, {b[1]})"  # type: ignore[arg-type]
        value = a[0] + b[0] if sign == "+" else a[0] - b[0] if sign == "-" else a[0] * b[0]
        return value, f"({a[1]} {sign} {b[1]})"

    def divided(sign: str, a: tuple[Value, str], by: int) -> tuple[Value, str]:
        return operation("fdiv" if sign == "//" else "fmod", a[0], number(by)), f"({a[1]} {sign} {by})"

    signs = st.sampled_from(["+", "-", "*", "min", "max"])
    return st.builds(both, signs, inner, inner) | st.builds(
        divided, st.sampled_from(["//", "%"]), inner, st.integers(1, 9)
    )


@settings(max_examples=100, deadline=None)
@given(st.recursive(_LEAF, _grown, max_leaves=6), st.integers(1, 40), st.integers(1, 40))
def test_values_are_what_their_expressions_say(made: tuple[Value, str], m: int, n: int) -> None:
    value, text = made
    symbols = {"M": m, "N": n}
    wanted = Expression(text).integer(symbols)
    assert numbers_of(value, symbols).tolist() == [wanted]
    assert numbers_of(value_of(Expression(text), symbols), symbols).tolist() == [wanted]
    written = expression_text(value)
    assert written is not None
    assert Expression(written).integer(symbols) == wanted
    terms = [Expression(t).integer(symbols) for t in term_texts(divisibility_terms(value)) or ()]
    assert all(wanted % k == 0 for k in range(1, 20) if all(t % k == 0 for t in terms))


# Random loop nests against a simulation.


@st.composite
def nests(draw: st.DrawFn) -> tuple[str, str]:
    """A nest in C, and the same as Python that notes extents and elements."""
    depth = draw(st.integers(1, 3))
    names = ["i", "j", "k"][:depth]
    c, py = [], []
    known = ["M", "N"]
    bump = draw(st.integers(0, depth - 1))
    for level, name in enumerate(names):
        pad = "    " * level
        start = draw(_affine(known))
        length = draw(st.sampled_from(["M", "N", "3", "5", *(f"{outer} + 1" for outer in names[:level])]))
        step = draw(st.integers(1, 4))
        bound = f"{start} + {length}"
        if level == depth - 1 and draw(st.booleans()):
            bound = f"min({bound}, {draw(_affine(known))})"
        if level == bump:
            c.append(f"{pad}__global const float *p = A + 1000;")
            py.append(f"{pad}p = 1000")
        c.append(f"{pad}for (int {name} = {start}; {name} < {bound}; {name} += {step}) {{")
        py += [
            f"{pad}extents[{level}].add(max({bound} - ({start}), 0))",
            f"{pad}for {name} in range({start}, {bound}, {step}):",
        ]
        if level == bump:
            by = draw(st.sampled_from(["2", "N", "M", *names[:level]]))
            before = draw(st.booleans())
            if before:
                c.append(f"{pad}    p += {by};")
                py.append(f"{pad}    p += {by}")
        known.append(name)
    index = draw(_affine(known))
    pad = "    " * depth
    c.append(f"{pad}float x = p[{index}];")
    py.append(f"{pad}elements.add(p + {index})")
    for level in reversed(range(depth)):
        inner = "    " * (level + 1)
        if level == bump and not before:
            c.append(f"{inner}p += {by};")
            py.append(f"{inner}p += {by}")
        c.append("    " * level + "}")
    return "\n".join(c), "\n".join(py)


def _affine(names: list[str]) -> st.SearchStrategy[str]:
    term = st.builds(lambda a, name: f"{a} * {name}", st.integers(0, 3), st.sampled_from(names))
    return st.builds(lambda terms, n: " + ".join([*terms, str(n)]), st.lists(term, max_size=2), st.integers(0, 5))


@settings(max_examples=50, deadline=None)
@given(nests(), st.integers(1, 6), st.integers(1, 6))
def test_loop_nests_agree_with_a_simulation(nest: tuple[str, str], m: int, n: int) -> None:
    body, simulation = nest
    dims = {"M": m, "N": n}
    extents: list[set[int]] = [set(), set(), set()]
    elements: set[int] = set()
    exec(simulation, {"M": m, "N": n, "extents": extents, "elements": elements, "min": min})
    frame, function = frame_of(kernel_of(body), case_of(dims))
    loops: list[Loop] = list(function.walk_loops())
    for loop, wanted in zip(loops, extents, strict=False):
        found = {max(int(e), 0) for e in numbers_of(frame.loop(loop).extent, dims)}
        assert found == wanted
    offset = address_of(frame, function.accesses[-1]).offset
    if elements:
        found = {int(e) for e in numbers_of(offset, dims)}
        assert {4 * e for e in elements} <= found
        # the innermost loop may be empty for some outer iterations; an offset that does not depend on it counts still
        if frame.loop(loops[-1]).counter.counters & offset.counters:
            assert found == {4 * e for e in elements}
        terms = [Expression(t).integer(dims) for t in term_texts(divisibility_terms(offset)) or ()]
        for k in itertools.chain(range(1, 9), (16, 32)):
            if all(t % k == 0 for t in terms):
                assert all(4 * e % k == 0 for e in elements)
