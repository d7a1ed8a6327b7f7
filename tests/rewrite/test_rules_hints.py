"""Rules about hints: unroll, restrict, attributes, prefetch; exact texts and what is left alone."""

from __future__ import annotations

import pytest

from experts.kernel import Kernel, parse
from tasks.rewrite.edit import Edit, NotApplicable, Rule
from tasks.rewrite.rules import rule_named

HEAD = """/* klineage
format = 1
workload = "gemm"
[const]
T = 8
ONE = 1
[[launch]]
entry = "gemm"
grid = [1]
block = ["T", 2]
args = ["A", "B", "C", "M", "N", "K"]
*/
"""
SIGNATURE = (
    "__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)"
)


def kernel(code: str, head: str = HEAD) -> Kernel:
    return parse(head + code, surface="opencl")


def body(statements: str) -> Kernel:
    return kernel(f"{SIGNATURE}\n{{\n{statements}\n}}\n")


def removed(rule: Rule, before: Kernel, anchor: str) -> str:
    """The code without what stands at the anchor; the way back must give the same text."""
    edit = next(each for each in rule.removable(before).edits if each.anchor == anchor)
    after, back = rule.apply(before, edit)
    assert rule.apply(after, back)[0].text == before.text
    return after.text.removeprefix(HEAD)


def added(rule: Rule, before: Kernel, anchor: str) -> str:
    edit = next(each for each in rule.addable(before).edits if each.anchor == anchor)
    after, back = rule.apply(before, edit)
    assert rule.apply(after, back)[0].text == before.text
    return after.text.removeprefix(HEAD)


def reasons(rule: Rule, before: Kernel, direction: str = "removable") -> dict[str, str]:
    places = getattr(rule, direction)(before)
    return {declined.anchor: declined.reason for declined in places.declined}


UNROLL = rule_named("unroll-hint")
LOOP = "gemm/loop[k]/hint[unroll]"


@pytest.mark.parametrize(
    "hint",
    [
        "    #pragma unroll\n    ",
        "    #pragma unroll 4\n    ",
        "    #pragma unroll(4)\n    ",
        "#pragma   unroll /* all */ // of it\n    ",
        "    #pragma unroll \\\n        8\n    ",
        "    #pragma unroll T\n    ",
        "    #pragma GCC unroll 4\n    ",
        "    #pragma clang loop unroll(full)\n    ",
        "    #pragma unroll 2\n\n    // why\n    #pragma ivdep\n    ",
        "    #pragma ivdep\n    #pragma unroll 2\n    ",
        "    __attribute__((opencl_unroll_hint)) ",
        "    __attribute__((opencl_unroll_hint(4)))\n    ",
        "    __attribute__( (opencl_unroll_hint (4)) ) /* so */ ",
        "    __attribute__((hot, opencl_unroll_hint(4)))\n    ",
        "    __attribute__((opencl_unroll_hint(4), hot))\n    ",
        '    _Pragma("unroll 4") ',
        "    if (M > 1)\n        #pragma unroll 4\n    ",
    ],
)
def test_unroll_hints_come_out_and_back(hint: str) -> None:
    before = body(f"{hint}for (int k = 0; k < K; k++)\n        C[k] = A[k];")
    after = removed(UNROLL, before, LOOP)
    assert "unroll" not in after
    assert after.count("ivdep") == hint.count("ivdep")
    assert after.count("hot") == hint.count("hot")


def test_unroll_texts() -> None:
    before = body(
        "    for (int i = 0; i < M; i++) {\n        #pragma unroll 4 // why\n        for (int k = 0; k < K; k++)\n"
        "            C[k] = A[k];\n    }\n    #pragma unroll\n    for (int i = 0; i < M; i++)\n        C[i] = B[i];"
    )
    assert removed(UNROLL, before, "gemm/loop[i]/loop[k]/hint[unroll]") == (
        f"{SIGNATURE}\n{{\n    for (int i = 0; i < M; i++) {{\n        for (int k = 0; k < K; k++)\n"
        "            C[k] = A[k];\n    }\n"
        "    #pragma unroll\n    for (int i = 0; i < M; i++)\n        C[i] = B[i];\n}\n"
    )
    assert [edit.anchor for edit in UNROLL.removable(before).edits] == [
        "gemm/loop[i]/loop[k]/hint[unroll]",
        "gemm/loop[i]#1/hint[unroll]",
    ]
    assert added(UNROLL, before, "gemm/loop[i]/hint[unroll]").startswith(
        f"{SIGNATURE}\n{{\n    #pragma unroll\n    for (int i = 0; i < M; i++) {{\n"
    )


@pytest.mark.parametrize("hint", ["nounroll", "unroll 1", "unroll ONE", "clang loop unroll(disable)", "ivdep"])
def test_other_hints_are_no_unrolling(hint: str) -> None:
    before = body(f"    #pragma {hint}\n    for (int k = 0; k < K; k++)\n        C[k] = A[k];")
    assert not UNROLL.removable(before).edits
    assert len(UNROLL.addable(before).edits) == (hint == "ivdep")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("#ifdef U\n#pragma unroll\n#endif\n    for (int k = 0; k < K; k++) C[k] = A[k];", "conditional"),
        ("#pragma unroll\n#pragma unroll 4\n    for (int k = 0; k < K; k++) C[k] = A[k];", "several"),
        ("    for (int k = 0; k < K; k++)\n#pragma unroll\n    { C[k] = A[k]; }", "behind the loop's header"),
        (
            "#pragma clang loop unroll_count(4) vectorize(enable)\n    for (int k = 0; k < K; k++) C[k] = A[k];",
            "more than unrolling",
        ),
    ],
)
def test_unroll_declines(code: str, reason: str) -> None:
    before = body(code)
    assert not UNROLL.removable(before).edits
    assert reason in reasons(UNROLL, before)[LOOP]


def test_unroll_is_not_added_where_it_cannot_stand() -> None:
    before = body("    if (M) for (int k = 0; k < K; k++) C[k] = A[k];\n    while (M) M--;")
    assert reasons(UNROLL, before, "addable") == {LOOP: "the loop does not start its line"}
    assert not UNROLL.addable(before).edits


RESTRICT = rule_named("restrict-pointer")


def test_restrict_texts() -> None:
    before = kernel(
        "void f(__global float *restrict p) { p[0] = 1.0f; }\n"
        "__kernel void gemm(__global const float *restrict A, __global const float* __restrict /* b */ B,\n"
        "    __global float *\n    restrict\n    C, int M, int N, int K)\n{\n    f(C);\n}\n"
    )
    assert removed(RESTRICT, before, "gemm") == (
        "void f(__global float *restrict p) { p[0] = 1.0f; }\n"
        "__kernel void gemm(__global const float *A, __global const float* /* b */ B,\n"
        "    __global float *\n    C, int M, int N, int K)\n{\n    f(C);\n}\n"
    )
    assert removed(RESTRICT, before, "f").startswith("void f(__global float *p)")


def test_restrict_is_added_where_arguments_are_distinct() -> None:
    before = kernel(f"{SIGNATURE} {{}}\n")
    assert added(RESTRICT, before, "gemm") == (
        "__kernel void gemm(__global const float *restrict A, __global const float *restrict B, "
        "__global float *restrict C, int M, int N, int K) {}\n"
    )


@pytest.mark.parametrize(
    ("code", "head", "reason"),
    [
        (f"{SIGNATURE} {{}}\n", HEAD.replace('"A", "B"', '"A", "A"'), "one buffer twice"),
        (f"{SIGNATURE} {{}}\n", HEAD.replace('"A", "B"', '"A"'), "another number"),
        (f"{SIGNATURE} {{}}\n", HEAD.replace('"gemm"\ngrid', '"other"\ngrid'), "no launch"),
        (f"{SIGNATURE} {{}}\n__kernel void g(__global float *q) {{ gemm(q, q, q, 1, 1, 1); }}\n", HEAD, "calls it"),
        (f"{SIGNATURE} {{}}\n#define RUN gemm(0, 0, 0, 1, 1, 1)\n", HEAD, "calls it"),
        (
            f"{SIGNATURE} {{}}\n",
            HEAD.replace("*/", '[[launch]]\nentry = "gemm"\ngrid = [1]\nblock = [1]\n'
                         'args = ["A", "C", "C", "M", "N", "K"]\n*/'),
            "one buffer twice",
        ),
    ],
)  # fmt: skip
def test_restrict_is_not_added_without_proof(code: str, head: str, reason: str) -> None:
    before = kernel(code, head)
    assert all(edit.anchor != "gemm" for edit in RESTRICT.addable(before).edits)
    assert reason in reasons(RESTRICT, before, "addable")["gemm"]


GROUP = rule_named("work-group-size")
TAIL = "void gemm(__global float *A, __global float *B, __global float *C, int M, int N, int K) { float8 v; }\n"


@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        (
            f"__attribute__((reqd_work_group_size(8, 2, 1)))\n__kernel {TAIL}",
            "reqd_work_group_size",
            f"__kernel {TAIL}",
        ),
        (
            f"__kernel __attribute__((reqd_work_group_size(8, 2, 1)))\n{TAIL}",
            "reqd_work_group_size",
            f"__kernel\n{TAIL}",
        ),
        (
            f"__kernel __attribute__((vec_type_hint(float8), /* so */ reqd_work_group_size(T, 2, 1)))\n{TAIL}",
            "reqd_work_group_size",
            f"__kernel __attribute__((vec_type_hint(float8)))\n{TAIL}",
        ),
        (
            f"__kernel __attribute__((vec_type_hint(float8), reqd_work_group_size(8, 2, 1)))\n{TAIL}",
            "vec_type_hint",
            f"__kernel __attribute__((reqd_work_group_size(8, 2, 1)))\n{TAIL}",
        ),
        (
            f"__attribute__((work_group_size_hint(8, 2, 1)))\n// of gemm\n__kernel {TAIL}",
            "work_group_size_hint",
            f"// of gemm\n__kernel {TAIL}",
        ),
    ],
)
def test_group_texts(code: str, name: str, expected: str) -> None:
    assert removed(GROUP, kernel(code), f"gemm/attribute[{name}]") == expected


def test_group_is_added_with_the_blocks_numbers() -> None:
    before = kernel(f"__kernel {TAIL}")
    assert added(GROUP, before, "gemm/attribute[reqd_work_group_size]") == (
        f"__attribute__((reqd_work_group_size(8, 2, 1)))\n__kernel {TAIL}"
    )
    assert added(GROUP, before, "gemm/attribute[vec_type_hint]") == (
        f"__attribute__((vec_type_hint(float8)))\n__kernel {TAIL}"
    )


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (HEAD.replace('"T", 2', '"min(N, 8)"'), "more than constants"),
        (HEAD.replace("*/", '[[launch]]\nentry = "gemm"\ngrid = [1]\nblock = [1]\nargs = ["A"]\n*/'), "several"),
        (HEAD.replace('"gemm"\ngrid', '"other"\ngrid'), "no launch"),
        (HEAD.replace('"T", 2', '"T - 8"'), "no work-items"),
    ],
)
def test_group_is_not_added_without_one_block(head: str, reason: str) -> None:
    before = kernel(f"__kernel {TAIL}", head)
    assert reason in reasons(GROUP, before, "addable")["gemm/attribute[reqd_work_group_size]"]


ALIGN = rule_named("align-attribute")


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("__local float t[8] __attribute__((aligned(64)));", "__local float t[8];"),
        ("__local float t[8][4]  __attribute__ (( aligned( 16 ) )) ;", "__local float t[8][4];"),
        ("__attribute__((aligned(64))) __local float t[8];", "__local float t[8];"),
        ("float t[2] __attribute__((aligned(16))) = {0.0f, 1.0f};", "float t[2] = {0.0f, 1.0f};"),
        ("float t[8] __attribute__((unused, aligned(16)));", "float t[8] __attribute__((unused));"),
    ],
)
def test_align_texts(declaration: str, expected: str) -> None:
    after = removed(ALIGN, body(f"    {declaration}\n    C[0] = t[0];"), "gemm/var[t]")
    assert after == f"{SIGNATURE}\n{{\n    {expected}\n    C[0] = t[0];\n}}\n"


def test_align_is_added_behind_the_dimensions() -> None:
    before = body("    float t[2] = {0.0f, 1.0f};\n    C[0] = t[0];")
    assert "float t[2] __attribute__((aligned(64))) = {0.0f, 1.0f};" in added(ALIGN, before, "gemm/var[t]")


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ("*(__local float4 *)t = 0.0f;", "another type"),
        ("*(__local float4 *)&t[4] = 0.0f;", "another type"),
        ("((__local float4 *)t)[1] = 0.0f;", "another type"),
        ("__local float *p = t + 4; *(__local float4 *)p = 0.0f;", "another type"),
        ("__local float *p = &t[4]; __local float *q; q = p + 1; *(__local float4 *)q = 0.0f;", "another type"),
        ("__local float4 *p = (__local float4 *)t; p[0] = 0.0f;", "goes elsewhere"),
        ("f(t);", "goes elsewhere"),
        ("ulong n = (ulong)t;", "goes elsewhere"),
    ],
)
def test_align_stays_while_something_may_need_it(use: str, reason: str) -> None:
    before = body(f"    __local float t[8] __attribute__((aligned(64)));\n    {use}")
    assert not ALIGN.removable(before).edits
    assert reason in reasons(ALIGN, before)["gemm/var[t]"]


@pytest.mark.parametrize(
    "use",
    [
        "float4 v = vload4(0, t);",
        "__local float u[2][8]; vstore4(vload4(0, &u[1][M]) + vload4(1, u[0] + 2), 0, t);",
        "__local float *p = t + 2; p[1] = p[0]; p += 4; *p = 1.0f;",
        "event_t e = async_work_group_copy(t, A, 8, 0); wait_group_events(1, &e);",
    ],
)
def test_align_goes_where_elements_are_enough(use: str) -> None:
    before = body(f"    __local float t[8] __attribute__((aligned(64)));\n    {use}")
    assert "aligned" not in removed(ALIGN, before, "gemm/var[t]")


PREFETCH = rule_named("prefetch-call")


def test_prefetch_texts() -> None:
    before = body(
        "    prefetch(B, 4); // first\n    for (int k = 0; k < K; k++) {\n        prefetch(A + k + 16, 1);\n"
        "        C[k] = A[k];\n        {\n            prefetch(B + k,\n                     2);\n        }\n    }"
    )
    loop = "    for (int k = 0; k < K; k++) {\n        C[k] = A[k];\n        {\n        }\n    }\n"
    after = removed(PREFETCH, before, "gemm/loop[k]/call[prefetch]#0")
    assert after == f"{SIGNATURE}\n{{\n    prefetch(B, 4); // first\n{loop}}}\n"
    assert "first" not in removed(PREFETCH, before, "gemm/call[prefetch]#0")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("if (M) prefetch(A, 4);", "statement of a block"),
        ("prefetch(A, 4); M++;", "lines to itself"),
        ("prefetch(A + M++, 4);", "change a variable"),
        ("prefetch(A + f(M), 4);", "call a function"),
        ("M = 0, prefetch(A, 4);", "statement of a block"),
    ],
)
def test_prefetch_declines(statement: str, reason: str) -> None:
    before = body(f"    {statement}")
    assert not PREFETCH.removable(before).edits
    assert reason in reasons(PREFETCH, before)["gemm/call[prefetch]#0"]


def test_prefetch_is_added_for_what_is_read_anyway() -> None:
    before = body("    for (int k = 0; k < K; k++) {\n        float a = 2.0f * A[k * N];\n        C[k] = a;\n    }")
    assert "k++) {\n        prefetch(A + (k * N), 1);\n        float a" in added(
        PREFETCH, before, "gemm/loop[k]/call[prefetch]#0"
    )
    for other in (
        "        if (k < M) C[k] = A[k];",
        "        float a = k < M ? A[k] : 0.0f;",
        "        int n = k;\n        C[k] = A[n];",
        "        M++;\n        C[k] = A[M];",
        "        if (k == M) break;\n        C[k] = A[k];",
    ):
        assert not PREFETCH.addable(body(f"    for (int k = 0; k < K; k++) {{\n{other}\n    }}")).edits, other


@pytest.mark.parametrize("rule", ["unroll-hint", "restrict-pointer", "work-group-size", "align-attribute"])
@pytest.mark.parametrize("anchor", ["gone", "gemm/loop[x]/hint[unroll]", "not an anchor[", "::", "gemm/var[x]"])
@pytest.mark.parametrize("action", ["remove", "add"])
def test_what_is_gone_does_not_apply(rule: str, anchor: str, action: str) -> None:
    before = body("    float t[8];\n    C[0] = t[0];")
    edit = Edit(rule, action, "x", anchor)  # type: ignore[arg-type]
    with pytest.raises(NotApplicable):
        rule_named(rule).apply(before, edit)


def test_two_kernels_in_a_file() -> None:
    head = HEAD.replace("*/", '[[launch]]\nentry = "second"\ngrid = [1]\nblock = [4]\nargs = ["A", "C"]\n*/')
    second = "__kernel void second(__global float *restrict A, __global float *restrict C) { C[0] = A[0]; }\n"
    before = kernel(f"{SIGNATURE} {{}}\n{second}", head)
    assert [edit.anchor for edit in RESTRICT.removable(before).edits] == ["second"]
    assert [edit.anchor for edit in RESTRICT.addable(before).edits] == ["gemm"]
    assert "reqd_work_group_size(4, 1, 1)))\n__kernel void second" in added(
        GROUP, before, "second/attribute[reqd_work_group_size]"
    )


def test_line_ends_are_normalised() -> None:
    text = body("    #pragma unroll\n    for (int k = 0; k < K; k++)\n        C[k] = A[k];").text
    before = parse(text.replace("\n", " \r\n"), surface="opencl")
    assert "unroll" not in removed(UNROLL, before, LOOP)
