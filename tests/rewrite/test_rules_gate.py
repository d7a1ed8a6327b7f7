"""The real gate on what the rules write: kernels with everything taken out, and with everything put in."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated import PLAIN, Recipe, kernel_of

from experts import catalog, platform
from experts.kernel import Kernel, load, parse
from tasks.gate.runner import Settings, gate
from tasks.rewrite.edit import Edit
from tasks.rewrite.rules import RULES, apply

SIMPLE = tuple(rule for rule in RULES if rule.name != "vector-lanes")
GEMM = Path(catalog.__file__).parent / "gemm"
RECIPES = (
    Recipe(),
    Recipe(tile="16", rows=4, pad="PAD", unroll="const", group="list", fuse="nested", scale="both", prefetch=2),
    Recipe(tile="0x8", align="before", unroll="attribute", restrict="lines", fuse="spaced", options="lines"),
    Recipe(tile="4", rows=1, unroll="clang", other_hint="nounroll", group="between", fuse="fma", scale="native_divide"),
    Recipe(packed=True, restrict="__restrict", unroll="outdented", scale="native_recip", options="two", macro=False),
    Recipe(pad="", align="", unroll="commented", other_hint="one", group="hint", scale="half_exp", fuse=""),
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(platform=platform.select("opencl", None), profile=False, cache=tmp_path_factory.mktemp("cache"))


def accept(kernel: Kernel, settings: Settings) -> None:
    verdict = gate(kernel, catalog.find("gemm/64-f32", "opencl", catalog.roots()), settings).verdict
    assert verdict.status == "ok", f"{verdict.status} at {verdict.stage}: {verdict.reason}\n{kernel.text}"


def without_all(kernel: Kernel) -> tuple[Kernel, list[Edit]]:
    """The kernel with every removal that is found, until none is left; and what was removed."""
    taken: list[Edit] = []
    while edits := [edit for rule in SIMPLE for edit in rule.removable(kernel).edits]:
        kernel, _ = apply(kernel, edits[0])
        taken.append(edits[0])
    return kernel, taken


@pytest.mark.parametrize("recipe", RECIPES, ids=map(str, range(len(RECIPES))))
def test_everything_taken_out(recipe: Recipe, settings: Settings) -> None:
    kernel = kernel_of(recipe)
    accept(kernel, settings)
    bare, taken = without_all(kernel)
    assert len({edit.rule for edit in taken}) >= 5
    accept(bare, settings)


@pytest.mark.parametrize("source", ["naive.cl", "generated"])
def test_everything_put_in(source: str, settings: Settings) -> None:
    """But what has a precondition.

    With a larger block the numbers of `reqd_work_group_size` would have to change, too; blocks of lanes have no tail.
    """
    kernel = load(GEMM / source) if source.endswith(".cl") else kernel_of(PLAIN)
    put: list[Edit] = []
    for rule in SIMPLE:
        if rule.name in ("shrink-constant", "strip-mine"):
            continue
        # One may leave nothing for the next: `native_exp` for `half_exp`.
        for place in [edit.place for edit in rule.addable(kernel).edits]:
            for edit in [edit for edit in rule.addable(kernel).edits if edit.place == place]:
                kernel, _ = apply(kernel, edit)
                put.append(edit)
    assert len({edit.rule for edit in put}) >= 4
    accept(kernel, settings)


@pytest.mark.parametrize(("constant", "status"), [("VW", "unwritten_output"), ("T", "ok")])
def test_a_constant_that_the_code_needs(constant: str, status: str, settings: Settings) -> None:
    """A number that the code holds to a vector's width may not shrink; the rule cannot know, the gate does."""
    kernel = parse(COUPLED, surface="opencl")
    edit = next(e for rule in SIMPLE for e in rule.removable(kernel).edits if e.anchor == f"::/const[{constant}]")
    accept(kernel, settings)
    verdict = gate(apply(kernel, edit)[0], catalog.find("gemm/64-f32", "opencl", catalog.roots()), settings).verdict
    assert verdict.status == status, verdict.reason


COUPLED = """/* klineage
format = 1
workload = "gemm"
[const]
VW = 4
T = 4
[require]
whole = "N % 4 == 0"
[[launch]]
entry = "gemm"
grid = ["cdiv(N, T * 4)", "M"]
block = ["T"]
args = ["A", "B", "C", "M", "N", "K"]
*/
__kernel void gemm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)
{
    int col = get_global_id(0) * VW, row = get_global_id(1);
    if (col < N) {
        float4 sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += A[row * K + k] * vload4(0, B + k * N + col);
        vstore4(sum, 0, C + row * N + col);
    }
}
"""
