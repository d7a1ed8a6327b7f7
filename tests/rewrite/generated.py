"""Kernels for the tests of the rules: a tiled GEMM, valid in every combination of its optimizations and spellings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from hypothesis import strategies as st

from experts.kernel import Kernel, parse


@dataclass(frozen=True)
class Recipe:
    """What a kernel is made of."""

    tile: Literal["4", "8", "16", "0x8"] = "8"
    rows: Literal[1, 2, 4] = 2
    pad: Literal["", "1", "PAD"] = "1"
    align: Literal["", "after", "before"] = "after"
    unroll: Literal["", "full", "count", "const", "attribute", "clang", "commented", "outdented"] = "full"
    other_hint: Literal["", "nounroll", "one"] = ""
    restrict: Literal["", "restrict", "__restrict", "lines"] = "restrict"
    group: Literal["", "before", "between", "list", "hint"] = "before"
    fuse: Literal["", "mad", "fma", "spaced", "nested"] = "mad"
    scale: Literal["", "native_exp", "half_exp", "native_recip", "native_divide", "both"] = "native_exp"
    prefetch: Literal[0, 1, 2] = 1
    options: Literal["", "one", "two", "lines"] = "one"
    packed: bool = False
    """B is copied into workspace by a launch of its own."""
    macro: bool = True
    """Indices are computed by a macro."""


_PRAGMAS = {
    "full": "#pragma unroll",
    "count": "#pragma unroll 4",
    "const": "#pragma unroll U",
    "attribute": "__attribute__((opencl_unroll_hint(2)))",
    "clang": "#pragma clang loop unroll_count(4)",
}
_OPTIONS = {
    "": "",
    "one": 'options = ["-cl-mad-enable"]\n',
    "two": 'options = [\'-cl-std=CL1.2\', "-cl-mad-enable",  "-cl-no-signed-zeros"]\n',
    "lines": 'options = [\n  "-cl-fast-relaxed-math", # relaxed: "-cl-mad-enable"\n  "-cl-denorms-are-zero",\n]\n',
}
_GROUPS = {
    "before": "__attribute__((reqd_work_group_size({t}, {t}, 1)))\n__kernel void ",
    "between": "__kernel __attribute__((reqd_work_group_size({t}, {t}, 1))) void ",
    "list": "__kernel __attribute__((vec_type_hint(float4), reqd_work_group_size({t}, {t}, 1)))\nvoid ",
    "hint": "__attribute__((work_group_size_hint({t}, {t}, 1)))\n__kernel\nvoid ",
    "": "__kernel void ",
}
_POINTERS = {
    "": ("*", "*"),
    "restrict": ("*restrict ", "* restrict "),
    "__restrict": ("* __restrict ", "*__restrict "),
    "lines": ("*\n        restrict\n        ", "*restrict\n    "),
}
_SUMS = {
    "": "acc[r] += a[y * R + r][k] * bk;",
    "mad": "acc[r] = mad(a[y * R + r][k], bk, acc[r]);",
    "fma": "acc[r] = fma(a[y * R + r][k], bk, acc[r]);",
    "spaced": "acc[r] = mad( a[y * R + r][k] ,bk /* of B */, (acc[r]));",
    "nested": "acc[r] = mad(1.0f, fma(a[y * R + r][k], bk, acc[r]), mad(zero, bk, -zero));",
}
_SCALES = {
    "": "acc[r]",
    "native_exp": "acc[r] * native_exp(zero)",
    "half_exp": "acc[r] * half_exp(zero + exp(zero) - 1.0f)",
    "native_recip": "acc[r] * native_recip(1.0f + zero)",
    "native_divide": "native_divide(acc[r], zero + 1.0f)",
    "both": "native_exp(zero) * (acc[r] * native_recip(native_exp(zero)))",
}


def text_of(recipe: Recipe) -> str:
    """The kernel's text."""
    t = int(recipe.tile, 0)
    pad = f" + {recipe.pad}" if recipe.pad else ""
    aligned = "__attribute__((aligned(64)))"
    first, second = _POINTERS[recipe.restrict]
    const = f"T = {recipe.tile}\nR = {recipe.rows} # T = 3\n"
    const += "PAD = 1\n" if recipe.pad == "PAD" else ""
    const += "U = 4\n" if recipe.unroll == "const" else ""
    source, stride = ("packed", "N") if recipe.packed else ("B", "N")
    declared = f"__local float a[T * R][T{pad}]"
    declared = f"{declared} {aligned};" if recipe.align == "after" else f"{declared};"
    declared = f"{aligned} {declared}" if recipe.align == "before" else declared

    def index(row: str, column: str, length: str) -> str:
        return f"AT({row}, {column}, {length})" if recipe.macro else f"({row}) * {length} + {column}"

    hint = _PRAGMAS.get(recipe.unroll, "#pragma unroll 4 // of the product")
    lines = [f"        {hint}\n"] if recipe.unroll else []
    if recipe.unroll == "commented":
        lines.append("        // `#pragma unroll` is above\n\n")
    if recipe.unroll == "outdented":
        lines = [f"  {hint}\n"]
    if recipe.unroll == "attribute":
        lines = [f"        {hint} "]
    lead = "" if recipe.unroll == "attribute" else "        "
    other = {"": "", "nounroll": "    #pragma nounroll\n", "one": "    #pragma unroll 1\n"}[recipe.other_hint]
    early = "        prefetch(A + k0, 1);\n" if recipe.prefetch else ""
    late = f"        prefetch({source} + k0, T); // the next rows\n" if recipe.prefetch == 2 else ""
    launches = (
        '[[launch]]\nentry = "pack"\ngrid = ["K"]\nblock = [1]\nargs = ["B", "packed", "N"]\n' if recipe.packed else ""
    )
    pack = f"""
__kernel void pack(__global const float {first}B, __global float {second}packed, int N)
{{
    int k = get_group_id(0);
    for (int j = 0; j < N; j++) {{
        packed[k * N + j] = B[k * N + j];
    }}
}}
"""
    workspace = '[workspace]\npacked = { dtype = "f32", shape = ["K", "N"] }\n' if recipe.packed else ""
    define = "#define AT(r, c, n) ((r) * (n) + (c))\n" if recipe.macro else ""
    return f"""/* klineage
format = 1
workload = "gemm"
{_OPTIONS[recipe.options]}[const]
{const}{workspace}{launches}[[launch]]
entry = "gemm"
grid = ["cdiv(N, T)", "cdiv(M, T * R)"]
block = ["T", "T"]
args = ["A", "{source}", "C", "M", "N", "K"]
*/
{define}// prefetch(A, 1); mad(a, b, c); #pragma unroll
{pack if recipe.packed else ""}
{_GROUPS[recipe.group].format(t=t)}gemm(__global const float {first}A, __global const float {second}{source},
    __global float {first}C, int M, int N, int K)
{{
    {declared}
    __local float b[T][T{pad}];
    float acc[R];
    float zero = 0.0f;
    int x = get_local_id(0), y = get_local_id(1);
    int col = get_group_id(0) * T + x;
    int row = (get_group_id(1) * T + y) * R;
    for (int r = 0; r < R; r++)
        acc[r] = zero;
{other}    for (int k0 = 0; k0 < K; k0 += T) {{
{early}        for (int r = 0; r < R; r++)
            a[y * R + r][x] = row + r < M && k0 + x < K ? A[{index("row + r", "k0 + x", "K")}] : zero;
        b[y][x] = col < N && k0 + y < K ? {source}[{index("k0 + y", "col", stride)}] : zero;
        barrier(CLK_LOCAL_MEM_FENCE);
{late}{"".join(lines)}{lead}for (int k = 0; k < T; k++) {{
            float bk = b[k][x];
            for (int r = 0; r < R; r++)
                {_SUMS[recipe.fuse]}
        }}
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    for (int r = 0; r < R; r++)
        if (row + r < M && col < N)
            C[{index("row + r", "col", "N")}] = {_SCALES[recipe.scale]};
}}
"""


def kernel_of(recipe: Recipe) -> Kernel:
    """The kernel."""
    return parse(text_of(recipe), surface="opencl")


def recipes() -> st.SearchStrategy[Recipe]:
    """Any recipe."""
    return st.from_type(Recipe)


PLAIN = Recipe(pad="", align="", unroll="", restrict="", group="", fuse="", scale="", prefetch=0, options="")
"""Without anything that a rule takes out, but for its constants."""

SINGLE = tuple(
    Recipe(**{field.name: value})
    for field in fields(Recipe)
    for value in {
        "tile": ("4", "0x8"),
        "rows": (1, 4),
        "pad": ("", "PAD"),
        "align": ("", "before"),
        "unroll": ("", "count", "const", "attribute", "clang", "commented", "outdented"),
        "other_hint": ("nounroll", "one"),
        "restrict": ("", "__restrict", "lines"),
        "group": ("", "between", "list", "hint"),
        "fuse": ("", "fma", "spaced", "nested"),
        "scale": ("", "half_exp", "native_recip", "native_divide", "both"),
        "prefetch": (0, 2),
        "options": ("", "two", "lines"),
        "packed": (True,),
        "macro": (False,),
    }[field.name]
)
"""Recipes that differ from the default in one thing, all values covered."""
