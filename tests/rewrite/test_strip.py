"""The rule `strip-mine`: what it writes, what it leaves alone, and that its edits come back."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from experts.kernel import Kernel, load, parse
from skill_library.intents import INTENTS
from tasks.rewrite.edit import Edit, NotApplicable, Places, edit_of, params
from tasks.rewrite.rules import apply, rule_named
from tasks.rewrite.rules.lanes import VectorLanes
from tasks.rewrite.rules.strip import StripMine

RULE = StripMine()
LANES = VectorLanes()
EXPERTS = Path(__file__).parents[2] / "experts"
HEAD = """/* klineage
format = 1
workload = "gemm"
[const]
W = 16
V = 4
SIX = 6
[[launch]]
entry = "f"
grid = [1]
block = [1]
args = ["A", "B", "C", "M", "N", "K"]
*/
enum { LANES = 16 };
#define EIGHT 8
float own(float v) { return v + 1.0f; }
__kernel void f(__global const float *x, __global float *y, __global float *z, int M, int N, int K)
{
"""


def kernel_of(body: str) -> Kernel:
    return parse(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n}\n", surface="opencl")


def body_of(kernel: Kernel) -> str:
    assert kernel.text.startswith(HEAD) and kernel.text.endswith("\n}\n")
    return textwrap.dedent(kernel.text[len(HEAD) : -len("\n}\n")]) + "\n"


def added(kernel: Kernel) -> Kernel:
    """With every addition, each checked to come back letter for letter."""
    for edit in RULE.addable(kernel).edits:
        kernel = checked(kernel, edit)
    return kernel


def removed(kernel: Kernel) -> Kernel:
    for edit in RULE.removable(kernel).edits:
        kernel = checked(kernel, edit)
    return kernel


def checked(kernel: Kernel, edit: Edit) -> Kernel:
    assert edit.intent in INTENTS
    assert edit_of(edit.record()) == edit
    changed, back = RULE.apply(kernel, edit)
    assert changed.text != kernel.text
    assert (back.place, back.intent) == (edit.place, edit.intent) and back.action != edit.action
    again, there = RULE.apply(changed, back)
    assert again.text == kernel.text
    assert RULE.apply(again, there)[0].text == changed.text
    listed = RULE.removable(changed) if edit.action == "add" else RULE.addable(changed)
    assert edit.place in [each.place for each in listed.edits], "the way back is found without memory"
    return changed


def reasons(places: Places) -> list[str]:
    return [declined.reason for declined in places.declined]


# what the rule writes, and takes out again
FORMS = {
    "elements": (
        """
        for (int j = 0; j < N; j++)
            y[j] = exp(x[j] - x[N]) / 2.0f;
        """,
        """
        for (int j = 0; j < N; j += 16)
            for (int lane = 0; lane < 16; lane++)
                y[j + lane] = exp(x[j + lane] - x[N]) / 2.0f;
        """,
        "strip-mine-loop",
    ),
    "a sum": (
        """
        float sum = 0.0f;
        // of all
        for (int j = M; j < min(N, K); j++) {
            sum += x[j] * x[K + j];
        }
        y[M] = sum;
        """,
        """
        float sum = 0.0f;
        // of all
        float sum_part[16];
        for (int lane = 0; lane < 16; lane++)
            sum_part[lane] = 0.0f;
        for (int j = M; j < min(N, K); j += 16) {
            for (int lane = 0; lane < 16; lane++)
                sum_part[lane] += x[j + lane] * x[K + j + lane];
        }
        sum += (((sum_part[0] + sum_part[8]) + (sum_part[4] + sum_part[12])) +
            ((sum_part[2] + sum_part[10]) + (sum_part[6] + sum_part[14]))) +
            (((sum_part[1] + sum_part[9]) + (sum_part[5] + sum_part[13])) +
            ((sum_part[3] + sum_part[11]) + (sum_part[7] + sum_part[15])));
        y[M] = sum;
        """,
        "split-accumulator",
    ),
    "a maximum": (
        """
        float m = -INFINITY;
        for (int j = 0; j < N; j++)
            m = fmax(x[j], m);
        y[M] = m;
        """,
        """
        float m = -INFINITY;
        float m_part[16];
        for (int lane = 0; lane < 16; lane++)
            m_part[lane] = m;
        for (int j = 0; j < N; j += 16)
            for (int lane = 0; lane < 16; lane++)
                m_part[lane] = fmax(x[j + lane], m_part[lane]);
        m = fmax(m,
            fmax(fmax(fmax(fmax(m_part[0], m_part[8]), fmax(m_part[4], m_part[12])),
            fmax(fmax(m_part[2], m_part[10]), fmax(m_part[6], m_part[14]))),
            fmax(fmax(fmax(m_part[1], m_part[9]), fmax(m_part[5], m_part[13])),
            fmax(fmax(m_part[3], m_part[11]), fmax(m_part[7], m_part[15])))));
        y[M] = m;
        """,
        "split-accumulator",
    ),
    "several statements": (
        """
        double total = 1.0, most = 0.0;
        for (int j = 0; j < N; j++) {
            const float d = x[j] - x[j + 1];  // a step
            double square;
            square = d * d;
            total = total + square - 1.0;
            y[j] = d;
        }
        """,
        """
        double total = 1.0, most = 0.0;
        double total_part[8];
        for (int lane = 0; lane < 8; lane++)
            total_part[lane] = 0.0;
        for (int j = 0; j < N; j += 8) {
            float d[8];
            for (int lane = 0; lane < 8; lane++)
                d[lane] = x[j + lane] - x[j + 1 + lane];  // a step
            double square[8];
            for (int lane = 0; lane < 8; lane++)
                square[lane] = d[lane] * d[lane];
            for (int lane = 0; lane < 8; lane++)
                total_part[lane] = total_part[lane] + square[lane] - 1.0;
            for (int lane = 0; lane < 8; lane++)
                y[j + lane] = d[lane];
        }
        total += ((total_part[0] + total_part[4]) + (total_part[2] + total_part[6])) +
            ((total_part[1] + total_part[5]) + (total_part[3] + total_part[7]));
        """,
        "split-accumulator",
    ),
    "two sums, in one line": (
        "int n = 0, least = 9; { for (int j = 0; j < N; ++j) { n += j; least = min(least, j / 2); } } "
        "y[0] = n + least;",
        "int n = 0, least = 9; { int n_part[16]; for (int lane = 0; lane < 16; lane++) n_part[lane] = 0; "
        "int least_part[16]; for (int lane = 0; lane < 16; lane++) least_part[lane] = least; "
        "for (int j = 0; j < N; j += 16) { for (int lane = 0; lane < 16; lane++) n_part[lane] += j + lane; "
        "for (int lane = 0; lane < 16; lane++) least_part[lane] = min(least_part[lane], (j + lane) / 2); } "
        "n += (((n_part[0] + n_part[8]) + (n_part[4] + n_part[12])) +\n"
        "    ((n_part[2] + n_part[10]) + (n_part[6] + n_part[14]))) +\n"
        "    (((n_part[1] + n_part[9]) + (n_part[5] + n_part[13])) +\n"
        "    ((n_part[3] + n_part[11]) + (n_part[7] + n_part[15]))); "
        "least = min(least,\n"
        "    min(min(min(min(least_part[0], least_part[8]), min(least_part[4], least_part[12])),\n"
        "    min(min(least_part[2], least_part[10]), min(least_part[6], least_part[14]))),\n"
        "    min(min(min(least_part[1], least_part[9]), min(least_part[5], least_part[13])),\n"
        "    min(min(least_part[3], least_part[11]), min(least_part[7], least_part[15]))))); } y[0] = n + least;",
        "split-accumulator",
    ),
    "indices": (
        """
        __local float t[64][20];
        if (M > 0)
            for (int j = 0; j < N; j++)
                t[K][j + 4] = x[M * N + (K + j) - 2] * z[M - j] + x[2 * j] + (float)j * x[(int)x[j] + M];
        for (int j = 0; j < 32; j++)
            t[2 * j + M][3] += (float)(j % 2) + -j;
        for (int j = 0; j < N; j++)
            y[V * j + 1] = j == 3 ? x[j * j] : fma(x[j], 2.0f, (float)get_global_id(0));
        """,
        """
        __local float t[64][20];
        if (M > 0)
            for (int j = 0; j < N; j += 16)
                for (int lane = 0; lane < 16; lane++)
                    t[K][j + 4 + lane] = x[M * N + (K + j) - 2 + lane] * z[M - (j + lane)] + x[2 * (j + lane)] + (float)(j + lane) * x[(int)x[j + lane] + M];
        for (int j = 0; j < 32; j += 16)
            for (int lane = 0; lane < 16; lane++)
                t[2 * (j + lane) + M][3] += (float)((j + lane) % 2) + -(j + lane);
        for (int j = 0; j < N; j += 16)
            for (int lane = 0; lane < 16; lane++)
                y[V * (j + lane) + 1] = j + lane == 3 ? x[(j + lane) * (j + lane)] : fma(x[j + lane], 2.0f, (float)get_global_id(0));
        """,  # noqa: E501
        "strip-mine-loop",
    ),
    "names that are taken": (
        """
        int lane = 3, sum_part = 4;
        float sum = lane + sum_part;
        #pragma unroll 4
        for (int j = 0; j < N; j++)
            sum = mad(x[j], 2.0f, sum);
        y[0] = sum;
        """,
        """
        int lane = 3, sum_part = 4;
        float sum = lane + sum_part;
        float sum_part2[16];
        for (int lane1 = 0; lane1 < 16; lane1++)
            sum_part2[lane1] = 0.0f;
        #pragma unroll 4
        for (int j = 0; j < N; j += 16)
            for (int lane1 = 0; lane1 < 16; lane1++)
                sum_part2[lane1] = mad(x[j + lane1], 2.0f, sum_part2[lane1]);
        sum += (((sum_part2[0] + sum_part2[8]) + (sum_part2[4] + sum_part2[12])) +
            ((sum_part2[2] + sum_part2[10]) + (sum_part2[6] + sum_part2[14]))) +
            (((sum_part2[1] + sum_part2[9]) + (sum_part2[5] + sum_part2[13])) +
            ((sum_part2[3] + sum_part2[11]) + (sum_part2[7] + sum_part2[15])));
        y[0] = sum;
        """,
        "split-accumulator",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_put_in(name: str) -> None:
    before, after, intent = FORMS[name]
    kernel, expected = kernel_of(before), kernel_of(after)
    places = RULE.addable(kernel)
    assert not places.declined
    assert {edit.intent for edit in places.edits} == {intent}
    assert body_of(added(kernel)) == body_of(expected)
    found = RULE.removable(expected)
    assert [e.place for e in found.edits] == [e.place for e in places.edits]
    assert not found.declined and not RULE.addable(expected).edits
    for edit in found.edits:
        checked(expected, edit)


def test_fold_is_short_for_few_lanes() -> None:
    kernel = kernel_of("float s = 0.0f; for (int j = 0; j < N; j++) s += x[j];")
    edit = RULE.addable(kernel).edits[0]
    narrow = Edit(edit.rule, edit.action, edit.intent, edit.anchor, params(width=4))
    changed = checked(kernel, narrow)
    assert "s += (s_part[0] + s_part[2]) + (s_part[1] + s_part[3]);" in changed.text
    for width in (3, 32):
        with pytest.raises(NotApplicable):
            RULE.apply(kernel, Edit(edit.rule, edit.action, edit.intent, edit.anchor, params(width=width)))


KEPT = {
    "if (x[j] > 0.0f) y[j] = x[j];": "its body has a choice",
    "{ y[j] = x[j]; { z[j] = x[j]; } }": "its body has a block of its own",
    "{ y[j] = x[j]; if (j == M) break; }": "it is left by break",
    "y[j] = own(x[j]);": "a call of own()",
    "barrier(CLK_LOCAL_MEM_FENCE);": "a call of something with an effect",
    "vstore4(vload4(j, x), j, y);": "a call of something with an effect",
    "*(__global float4 *)(y + j) = *(__global const float4 *)(x + j);": "memory is accessed through an expression",
    "y[j] = *(x + j);": "memory is accessed through an expression",
    "y[j] = M++;": "an effect inside an expression",
    "y[j + 1] = y[j];": "an iteration may touch what another one writes",
    "{ y[2 * j] = x[j]; y[2 * j + 1] = x[j]; }": "an iteration may touch what another one writes",
    "y[M] = x[j];": "iterations may write one element",
    "y[j / 2] = x[j];": "it is not certain that iterations write different elements",
    "y[j * K] = x[j];": "it is not certain that iterations write different elements",
    "y[j - j] = x[j];": "iterations may write one element",
    "y[(int)x[j]] = x[j];": "it is not certain that iterations write different elements",
    "x += 4;": "x moves on with each iteration",
    "{ s += x[j]; y[j] = s; }": "s is used otherwise than as a sum or an extreme",
    "s = x[j] - s;": "s is used otherwise than as a sum or an extreme",
    "s *= x[j];": "s is used otherwise than as a sum or an extreme",
    "s = x[j];": "s is used otherwise than as a sum or an extreme",
    "n += x[j];": "what comes to n has another type",
    "{ float a = x[j], b = a; y[j] = b; }": "several names in one declaration of its body",
    "{ float t[2]; t[0] = x[j]; y[j] = t[0]; }": "t is more than a number",
    "{ float4 v = 0.0f; y[j] = v.x; }": "it computes with vectors already",
    "acc[2] += x[j] * acc[1];": "it computes with vectors already",
    "y[j] = UNKNOWN(x[j]);": "a call of UNKNOWN()",
    "y[j] = SQUARE(x[j]);": "code that is not understood (macro)",
    '{ _Pragma("unroll") y[j] = x[j]; }': "a hint stands in the loop",
    ";": "its body is more than assignments",
    "{ float d = x[j]; d = d + 1.0f; }": "it neither writes nor sums up anything",
}


@pytest.mark.parametrize("body", KEPT)
def test_what_is_left_alone(body: str) -> None:
    before = "#define SQUARE(v) own((v) * (v))\nfloat s = 0.0f; int n = 0; float4 acc[4];\n"
    places = RULE.addable(kernel_of(f"{before}for (int j = 0; j < N; j++)\n    {body}"))
    assert not places.edits
    assert reasons(places) == [KEPT[body]]


HEADERS = {
    "for (int j = 0; j < n; j++) { n += 1; y[j] = 0.0f; }": "n is used otherwise than as a sum or an extreme",
    "for (int j = 0; j < (int)y[0]; j++) y[j] = 0.0f;": "its bound may change in the loop",
    "for (int j = 0; j < 20; j++) y[j] = 0.0f;": "it always runs 20 times, which makes no blocks of 16",
    "for (int j = 0; j < SIX; j++) y[j] = 0.0f;": "it always runs 6 times, which makes no blocks of 16",
    "if (N) for (int j = 0; j < N; j++) n += 1;": "the loop is no statement of a block",
    "for (int j = 0; j < N; j++) y[V2 + j] = 0.0f;": "it is not certain that iterations write different elements",
}


@pytest.mark.parametrize("loop", HEADERS)
def test_loops_that_make_no_blocks(loop: str) -> None:
    kernel = kernel_of(f"int n = 0;\n#define V2 j\n{loop}" if "V2" in loop else f"int n = 0;\n{loop}")
    found = reasons(RULE.addable(kernel))
    assert found == (["a macro mentions j"] if "V2" in loop else [HEADERS[loop]])


@pytest.mark.parametrize(
    "loop",
    [
        "for (int j = 0; j < N; j += 2) y[j] = 0.0f;",
        "for (int j = 0; j <= N; j++) y[j] = 0.0f;",
        "for (int j = N; j > 0; j--) y[j] = 0.0f;",
        "for (size_t j = 0; j < N; j++) y[j] = 0.0f;",
        "int j; for (j = 0; j < N; j++) y[j] = 0.0f;",
        "for (int j = 0; j < 16; j++) y[j] = 0.0f;",
        "for (int j = 0; j < LANES; j++) y[j] = 0.0f;",
        "int j = 0; while (j < N) { y[j] = 0.0f; j++; }",
    ],
)
def test_other_loops_are_no_places(loop: str) -> None:
    kernel = kernel_of(loop)
    assert RULE.addable(kernel) == RULE.removable(kernel) == Places()


# what people write, and the plain loop
WRITTEN = {
    "lanes put together by a loop": (
        """
        float m = -1.0f;
        float parts[16];
        for (int l = 0; l < 16; l++) parts[l] = -INFINITY;
        for (int j = 0; j < N; j += W)
            for (int l = 0; l < W; l++) {
                parts[l] = fmax(parts[l], x[j + l]);
            }

        // once
        for (int l = 0; l < 16; l++) m = fmax(m, parts[l]);
        y[0] = m;
        """,
        """
        float m = -1.0f;
        for (int j = 0; j < N; j++)
            m = fmax(m, x[j]);

        // once
        y[0] = m;
        """,
    ),
    "lanes in a chain, set by a list": (
        """
        float part[EIGHT] = {0.0f};
        int row = M; float s = 2.0f;
        for (int j = M * 2; j < N; j += EIGHT)
            for (int i = 0; i < 8; i++)
                part[i] += x[row + (j + i)];
        row = 2;
        s += part[0] + part[1] + part[2] + part[3];
        s = part[7] + s + (part[6] + part[5]) + part[4];
        y[row] = s;
        """,
        """
        int row = M; float s = 2.0f;
        for (int j = M * 2; j < N; j++)
            s += x[row + j];
        row = 2;
        y[row] = s;
        """,
    ),
    "one loop over lanes for several statements": (
        """
        for (int j = 0; j < N; j += LANES) {
            for (int l = 0; l < LANES; l++) {
                // the value
                float v = x[l + j];
                y[M + j + l] = v * (float)(j + l);
            }
        }
        """,
        """
        for (int j = 0; j < N; j++) {
                // the value
                float v = x[j];
                y[M + j] = v * (float)j;
            }
        """,
    ),
    "a loop over lanes that sums up itself": (
        """
        float s = 0.0f;
        for (int j = 0; j < N; j += 4)
            for (int l = 0; l < 4; l++)
                s += x[j + l];
        """,
        """
        float s = 0.0f;
        for (int j = 0; j < N; j++)
            s += x[j];
        """,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_people_wrote(name: str) -> None:
    before, after = WRITTEN[name]
    kernel = kernel_of(before)
    assert not RULE.removable(kernel).declined
    assert body_of(removed(kernel)) == body_of(kernel_of(after))


SPLIT = """
float s = 1.0f;
float p[4];
for (int l = 0; l < 4; l++)
    p[l] = 0.0f;
for (int j = 0; j < N; j += 4)
    for (int l = 0; l < 4; l++)
        p[l] += x[j + l];
s += (p[0] + p[1]) + (p[2] + p[3]);
y[0] = s;
"""
SPOILED = (
    ("p[l] = 0.0f", "p[l] = 1.0f", "the lanes of p do not start from nothing"),
    ("p[l] = 0.0f", "p[l] = x[l]", "p is used between its declaration and the loop"),
    ("p[l] = 0.0f;", "p[l] = 0.0f;\np[0] = 2.0f;", "p is used between its declaration and the loop"),
    ("(p[0] + p[1])", "(p[0] + p[0])", "p is used otherwise than to put its lanes together"),
    ("(p[0] + p[1]) + ", "p[0] + ", "s is used before all lanes are in it"),
    ("(p[0] + p[1])", "(p[0] * p[1])", "p is used otherwise than to put its lanes together"),
    ("y[0] = s", "y[0] = s + p[0]", "p is used otherwise than to put its lanes together"),
    ("s += (p", "y[1] = s;\ns += (p", "s is used before all lanes are in it"),
    ("p[l] += x[j + l]", "p[l] += x[j + l] * s", "s is used before all lanes are in it"),
    ("p[l] += x[j + l]", "p[l] += x[j + l] + p[0]", "p is indexed by something else than the lane"),
    ("p[l] += x[j + l]", "p[l] += x[j + l] * x[l]", "an index does not move with j alone"),
    ("p[l] += x[j + l]", "p[l] += x[j * K + l]", "an index does not move with j alone"),
    ("p[l] += x[j + l]", "p[l] += x[2 * j + l]", "an index does not move with j alone"),
    ("p[l] += x[j + l]", "p[l] += x[j - l]", "an index does not move with j alone"),
    ("p[l] += x[j + l]", "p[l] += x[j + l] * x[j]", "the start of a block, j, is used by itself"),
    ("p[l] += x[j + l]", "p[l] -= x[j + l]", "s is used otherwise than as a sum or an extreme"),
    ("p[l] += x[j + l]", "p[l] = fmax(p[l], x[j + l])", "the lanes of p are put together otherwise"),
    ("j += 4)", "j += 4) {\ny[M] = 0.0f;", "its body is more than loops over lanes"),
    ("float p[4]", "double p[4]", "the lanes of p do not start from nothing"),
    ("        p", "        // a comment\n        p", "a comment stands in the loop"),
    ("j += 4)", "j += 4)\n    #pragma unroll", "a hint stands in the loop"),
    ("s += (p[0]", "y[1] = (p[0]", "p is used otherwise than to put its lanes together"),
)  # fmt: skip


def test_a_split_sum_comes_out() -> None:
    text = body_of(removed(kernel_of(SPLIT)))
    assert text == "float s = 1.0f;\nfor (int j = 0; j < N; j++)\n    s += x[j];\ny[0] = s;\n"


@pytest.mark.parametrize(("old", "new", "reason"), SPOILED)
def test_a_split_sum_that_is_not_quite_one(old: str, new: str, reason: str) -> None:
    assert SPLIT.count(old) == 1
    text = SPLIT.replace(old, new)
    text = text.replace("x[j + l];\ns +=", "x[j + l];\n}\ns +=") if "{" in new else text
    places = RULE.removable(kernel_of(text))
    assert not places.edits
    assert reasons(places) == [reason]


BLOCKS = {
    "y[j + l] = y[j + l + 1];": "an iteration may touch what another one writes",
    "y[j * 16 + l] = x[j + l];": "an index does not move with j alone",
    "y[j + l] = own(x[j + l]);": "a call of own()",
}


@pytest.mark.parametrize("body", BLOCKS)
def test_blocks_whose_order_matters(body: str) -> None:
    kernel = kernel_of(f"for (int j = 0; j < N; j += 16)\n    for (int l = 0; l < 16; l++)\n        {body}")
    places = RULE.removable(kernel)
    assert (places.edits, reasons(places)) == ((), [BLOCKS[body]])


def test_lanes_that_are_vectors_come_first() -> None:
    kernel = kernel_of("float s = 0.0f;\nfor (int j = 0; j < N; j++)\n    s += x[j] * x[j];\ny[0] = s;")
    blocks = added(kernel)
    edit = LANES.addable(blocks).edits[0]
    vectors, out = apply(blocks, edit)
    assert "float16 s_part = 0.0f;\n    for (int j = 0; j < N; j += 16)\n        s_part += " in vectors.text
    places = RULE.removable(vectors)
    assert reasons(places) == ["its lanes are vectors"] and not places.edits
    declined, listed = places.declined[0], RULE.removable(blocks).edits[0]
    assert (declined.rule, declined.anchor, declined.intent) == (*listed.place, listed.intent)
    with pytest.raises(NotApplicable, match="its lanes are vectors"):
        RULE.apply(vectors, listed)
    assert removed(apply(vectors, out)[0]).text == kernel.text


def test_casts_can_be_asked_for() -> None:
    blocks = added(kernel_of("for (int j = 0; j < N; j++)\n    y[j] = x[j] + x[j + M];"))
    (edit,) = LANES.addable(blocks).edits
    wanted = Edit(edit.rule, edit.action, edit.intent, edit.anchor, params(**{**dict(edit.params), "forms": "C"}))
    vectors, out = LANES.apply(blocks, wanted)
    source = "*(__global const float16 *)"
    assert body_of(vectors).split("\n")[1] == (
        f"    *(__global float16 *)(y + j) = {source}(x + j) + {source}(x + j + M);"
    )
    again, back = LANES.apply(vectors, out)
    assert (again.text, back.param("forms")) == (blocks.text, "ccc")


def without_vectors(name: str) -> Kernel:
    kernel = load(EXPERTS / name)
    while edits := LANES.removable(kernel).edits:
        kernel, _ = LANES.apply(kernel, edits[0])
    return kernel


def test_gemm() -> None:
    expert = load(EXPERTS / "gemm" / "expert.cl")
    stage, pack = "gemm/loop[k0]/loop[i]/loop[k]", "pack_b/loop[k]/loop[j]"
    assert {d.anchor: d.reason for d in RULE.removable(expert).declined} == {
        stage: "its lanes are vectors",
        pack: "its lanes are vectors",
    }
    places = RULE.removable(without_vectors("gemm/expert.cl"))
    assert [(e.anchor, e.intent) for e in places.edits] == [(stage, "strip-mine-loop")]
    assert [(d.anchor, d.reason) for d in places.declined] == [(pack, "an index does not move with j alone")]
    changed, back = RULE.apply(without_vectors("gemm/expert.cl"), places.edits[0])
    assert "for (int k = 0; k < kc; k++)\n                dst[k] = src[k];" in changed.text
    assert back.params == params(step="NR", width=16), "no text is kept: the rule writes it so"


@pytest.mark.parametrize("name", ["gemm/expert.cl", "fmha/expert.cl"])
def test_experts_come_back(name: str) -> None:
    kernel = without_vectors(name)
    edits = RULE.removable(kernel).edits
    assert len(edits) == 1
    checked(kernel, edits[0])


def test_another_edit_inside_spoils_the_kept_text_only() -> None:
    kernel = kernel_of(SPLIT.replace("for (int j", "#pragma unroll\nfor (int j").replace("y[0] = s", "\ny[0] = s"))
    plain, back = RULE.apply(kernel, RULE.removable(kernel).edits[0])
    assert "text" in dict(back.params)
    hint = rule_named("unroll-hint").removable(plain).edits[0]
    bare, _ = apply(plain, hint)
    again, _ = RULE.apply(bare, back)
    assert "#pragma" not in again.text and "float p[4];" in again.text
    assert RULE.removable(again).edits


@pytest.mark.parametrize(
    "edit",
    [
        Edit("strip-mine", "add", "strip-mine-loop", "f/loop[k]", params(width=16)),
        Edit("strip-mine", "remove", "strip-mine-loop", "f/loop[j]"),
        Edit("strip-mine", "add", "strip-mine-loop", "f/loop[j]", params(width=16, step="V")),
        Edit("strip-mine", "add", "strip-mine-loop", "f", params(width=16)),
        Edit("strip-mine", "add", "strip-mine-loop", "f/loop[", params(width=16)),
        Edit("unroll-hint", "add", "strip-mine-loop", "f/loop[j]", params(width=16)),
    ],
    ids=str,
)
def test_edits_that_do_not_apply(edit: Edit) -> None:
    with pytest.raises(NotApplicable):
        RULE.apply(kernel_of("for (int j = 0; j < N; j++) y[j] = 0.0f;"), edit)
