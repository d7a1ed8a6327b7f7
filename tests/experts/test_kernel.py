"""Kernel texts: format 1, its faults in one line each, normalisation and identity."""
# ruff: noqa: E501 (tables with one case a line)

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from experts.expressions import Expression
from experts.ids import text_id
from experts.kernel import MAX_BYTES, Kernel, KernelError, Surface, load, normalise, parse

HEAD = """/* klineage
format = 1
workload = "gemm"
intents = ["stage-tile", "new:odd-one"]
options = ["-cl-std=CL2.0", "-cl-mad-enable"]
[const]
TM = 8
LOW = -2147483648
[require]
whole = "M % (TM * 4) == 0"
[workspace]
packed = { dtype = "f32", shape = ["K", "up(N, 16)"], zero = true }
[[launch]]
entry = "pack"
grid = ["cdiv(M, TM)", 2]
block = [64]
args = ["A", "packed", "M"]
[[launch]]
entry = "gemm"
grid = [1, 1, "K"]
block = ["TM", 1, 1]
args = ["packed", "C", "K"]
*/
"""
CODE = "__kernel void pack() {}\n"
OPENCL = HEAD + CODE

CUDA = """/* klineage
format = 1
workload = "gemm"
options = ["--use_fast_math", "--fmad=false", "--maxrregcount=128"]
[maps]
a = { tensor = "A", box = [64, "TM"], swizzle = 128, l2 = 256, oob = "nan" }
b = { tensor = "A", mode = "im2col", lower = [0], upper = [1], channels = 8, pixels = "N" }
[const]
TM = 8
[[launch]]
entry = "gemm"
grid = ["cdiv(M, TM)"]
block = [128]
shared = "TM * 64"
cluster = [2]
args = ["map:a", "C"]
*/
__global__ void gemm() {}
"""

TRITON = '''"""klineage
format = 1
workload = "gemm"
surface = "triton"
[const]
BM = 64
[[launch]]
entry = "gemm"
grid = ["cdiv(M, BM)"]
block = [1]
args = ["A", "C"]
num_warps = 4
num_stages = 3
"""
import triton
'''


def _surface(text: str) -> Surface | None:
    return None if text.startswith('"""') else "cuda" if "__global__" in text else "opencl"


def _parse(text: str) -> Kernel:
    return parse(text, surface=_surface(text))


def _fault(text: str, surface: Surface | Literal["by text"] | None = "by text") -> str:
    with pytest.raises(KernelError) as caught:
        parse(text, surface=_surface(text) if surface == "by text" else surface)
    message = str(caught.value)
    assert message and len(message.splitlines()) == 1 and len(message) < 600
    assert caught.value.text == normalise(text)
    return message


def test_every_field_of_an_opencl_kernel() -> None:
    kernel = _parse(OPENCL)
    manifest = kernel.manifest
    assert kernel.surface == "opencl" and kernel.text == OPENCL and kernel.kernel_id == text_id(OPENCL)
    assert manifest.workload == "gemm" and manifest.intents == ("stage-tile", "new:odd-one")
    assert manifest.const == {"TM": 8, "LOW": -(1 << 31)}
    assert kernel.defines == ("-DTM=8", "-DLOW=-2147483648")
    assert kernel.options == ("-cl-std=CL2.0", "-cl-mad-enable")
    assert manifest.require == {"whole": Expression("M % (TM * 4) == 0")}
    space = manifest.workspace["packed"]
    assert (space.dtype, space.shape, space.zero) == ("f32", (Expression("K"), Expression("up(N, 16)")), True)
    first, second = manifest.launch
    assert (first.entry, first.grid, first.block) == (
        "pack",
        (Expression("cdiv(M, TM)"), Expression(2)),
        (Expression(64),),
    )
    assert (second.entry, second.args) == ("gemm", ("packed", "C", "K"))


def test_every_field_of_a_cuda_kernel() -> None:
    manifest = _parse(CUDA).manifest
    (launch,) = manifest.launch
    assert launch.shared == Expression("TM * 64") and launch.cluster == (Expression(2),)
    tiled, im2col = manifest.maps["a"], manifest.maps["b"]
    assert (tiled.tensor, tiled.mode, tiled.swizzle, tiled.l2, tiled.oob) == ("A", "tiled", 128, 256, "nan")
    assert tiled.box == (Expression(64), Expression("TM"))
    assert (im2col.channels, im2col.pixels) == (Expression(8), Expression("N"))


def test_every_field_of_a_triton_kernel() -> None:
    kernel = _parse(TRITON)
    (launch,) = kernel.manifest.launch
    assert kernel.surface == "triton" and launch.num_warps == 4 and launch.num_stages == 3


@pytest.mark.parametrize("surface", ["opencl", "cuda"])
def test_the_default_standard_is_for_opencl(surface: Surface) -> None:
    text = OPENCL.replace('options = ["-cl-std=CL2.0", "-cl-mad-enable"]\n', "")
    assert parse(text, surface=surface).options == (("-cl-std=CL1.2",) if surface == "opencl" else ())


@pytest.mark.parametrize(
    "option", ["-cl-std=CL1.2", "-cl-fast-relaxed-math", "-cl-no-signed-zeros", "-cl-denorms-are-zero"]
)
def test_allowed_options(option: str) -> None:
    text = OPENCL.replace('"-cl-std=CL2.0", "-cl-mad-enable"', f'"{option}"')
    assert option in _parse(text).options


def _with(old: str, new: str, text: str = OPENCL) -> str:
    assert old in text
    return text.replace(old, new, 1)


FAULTS = {
    # The frame.
    "no comment": (CODE, "no manifest: the file must open with a comment whose first line is '/* klineage'"),
    "line comment": ("// klineage\n" + OPENCL, "no manifest"),
    "other word": (_with("klineage", "lineage"), "no manifest"),
    "not alone": (_with("/* klineage\n", "/* klineage format = 1\n"), "no manifest"),
    "empty": ("", "no manifest"),
    "open": (_with("*/", ""), "the manifest comment is never closed"),
    "nul": (OPENCL + "\0", "a NUL byte in line 25"),
    "large": (OPENCL + "//" + "x" * MAX_BYTES, "larger than 256 KiB"),
    "large in bytes": (OPENCL + "//" + "ü" * (MAX_BYTES // 2), "larger than 256 KiB"),
    # TOML, with the file's own line numbers.
    "no value": (_with("TM = 8", "TM ="), "manifest is not TOML: Invalid value (line 7)"),
    "twice": (_with("TM = 8", "TM = 8\nTM = 9"), "manifest is not TOML: Cannot overwrite a value (line 8)"),
    "garbage": (_with("[const]", "[const"), "(line 6)"),
    "last line": (_with('args = ["packed", "C", "K"]', "args = ['"), "(at end of document)"),
    "table twice": (_with("[require]", "[const]"), "(line 9)"),
    "bad date": (_with("TM = 8", "TM = 2024-13-01"), "(line 7)"),
    "deep list": (_with("TM = 8", "TM = " + "[" * 5000), "manifest is not TOML: nested too deeply"),
    # Format and workload.
    "no format": (_with("format = 1\n", ""), "missing field 'format'; this is format 1"),
    "format 2": (_with("format = 1", "format = 2"), "format 2 is not known; this is format 1"),
    "format text": (_with("format = 1", 'format = "1"'), "format '1' is not known"),
    "format true": (_with("format = 1", "format = true"), "format True is not known"),
    "no workload": (_with('workload = "gemm"\n', ""), "missing field 'workload'"),
    "bad workload": (_with('"gemm"', '"Gemm"'), "workload: string should match"),
    "workload newline": (_with('"gemm"', '"gemm\\n"'), "workload: string should match"),
    "workload path": (_with('"gemm"', '"../gemm"'), "workload: string should match"),
    # Keys.
    "typo": (_with("intents =", "intent ="), "unknown field 'intent'; did you mean 'intents'?"),
    "typo in launch": (_with("shared =", "sharde =", CUDA), "unknown field 'launch[0].sharde'; did you mean 'shared'?"),
    "typo in workspace": (_with("zero =", "zeros ="), "unknown field 'workspace.packed.zeros'; did you mean 'zero'?"),
    "strange key": (_with("workload =", "qqqqqqqq = 1\nworkload ="), "unknown field 'qqqqqqqq'"),
    "surface in C": (_with("intents", 'surface = "opencl"\nintents'), "'surface' is for Python files"),
    # Intents and options.
    "intent": (_with('"stage-tile"', '"Stage tile"'), "intent 'Stage tile' is not in kebab-case"),
    "intent type": (_with('"stage-tile"', "5"), "intents[0]: input should be a valid string, not 5"),
    "option": (_with('"-cl-mad-enable"', '"-I/etc"'), "option '-I/etc' is not on the allow-list of opencl"),
    "option with space": (_with('"-cl-mad-enable"', '"-cl-mad-enable "'), "is not on the allow-list"),
    "option newline": (_with('"-cl-mad-enable"', '"-cl-mad-enable\\n-I/"'), "is not on the allow-list"),
    "option of cuda": (_with('"-cl-mad-enable"', '"--use_fast_math"'), "is not on the allow-list of opencl"),
    "option twice": (_with('"-cl-std=CL2.0"', '"-cl-mad-enable"'), "an option stands twice"),
    "two standards": (_with('"-cl-mad-enable"', '"-cl-std=CL1.2"'), "two -cl-std options"),
    "option of opencl": (_with('"--fmad=false"', '"-cl-mad-enable"', CUDA), "is not on the allow-list of cuda"),
    "registers": (_with("=128", "=0128", CUDA), "is not on the allow-list of cuda"),
    # Constants.
    "const text": (_with("TM = 8", 'TM = "8"'), "const.TM: expected a whole number, not '8'"),
    "const float": (_with("TM = 8", "TM = 8.0"), "const.TM: expected a whole number, not 8.0"),
    "const true": (_with("TM = 8", "TM = true"), "const.TM: expected a whole number, not True"),
    "const high": (_with("TM = 8", "TM = 2147483648"), "const.TM: 2147483648 does not fit 32 bits"),
    "const low": (_with("TM = 8", "TM = -2147483649"), "const.TM: -2147483649 does not fit 32 bits"),
    "const name": (_with("TM = 8", '"T M" = 8'), "const.T M: 'T M' is not an identifier"),
    "const letters": (_with("TM = 8", '"größe" = 8'), "is not an identifier"),
    "const SMS": (_with("TM = 8", "SMS = 8"), "the name 'SMS' is taken by the expression language"),
    "const WARP": (_with("TM = 8", "WARP = 8"), "is taken by the expression language"),
    "const min": (_with("TM = 8", "min = 8"), "is taken by the expression language"),
    "const and": (_with("TM = 8", "and = 8"), "is taken by the expression language"),
    "both": (_with("packed =", "TM ="), "'TM' is in both [const] and [workspace]"),
    # Expressions.
    "require": (_with("M % (TM * 4) == 0", "M %"), "require.whole: cannot read expression 'M %'"),
    "require power": (_with("M % (TM * 4) == 0", "M ** 2"), "require.whole: BinOp is not allowed"),
    "require type": (_with('"M % (TM * 4) == 0"', "true"), "require.whole: expected an expression"),
    "grid float": (_with('"cdiv(M, TM)"', "1.5"), "launch[0].grid[0]: expected an expression"),
    "grid slash": (_with('"cdiv(M, TM)"', '"M / TM"'), "launch[0].grid[0]: '/' is not an operator here (use //)"),
    "grid large": (_with('"cdiv(M, TM)"', "9223372036854775808"), "launch[0].grid[0]: number beyond 64 bits"),
    "four axes": (_with("block = [64]", "block = [1, 1, 1, 1]"), "launch[0].block: "),
    "no axis": (_with("block = [64]", "block = []"), "launch[0].block: "),
    "axis bare": (_with("block = [64]", "block = 64"), "launch[0].block: "),
    # Workspace, launches.
    "dtype": (_with('"f32"', '"float"'), "workspace.packed.dtype: input should be 'f64', 'f32'"),
    "no shape": (_with(', shape = ["K", "up(N, 16)"]', ""), "missing field 'workspace.packed.shape'"),
    "empty shape": (_with('["K", "up(N, 16)"]', "[]"), "workspace.packed.shape: "),
    "nine axes": (_with('["K", "up(N, 16)"]', "[1,1,1,1,1,1,1,1,1]"), "workspace.packed.shape: "),
    "no entry": (_with('entry = "pack"\n', ""), "missing field 'launch[0].entry'"),
    "entry": (_with('"pack"', '"pack()"'), "launch[0].entry: 'pack()' is not an identifier"),
    "no launch": (HEAD.partition("[[launch]]")[0] + "*/\n" + CODE, "missing field 'launch'"),
    "launch empty": (_with('intents = ["stage-tile", "new:odd-one"]', "launch = []").partition("[[launch]]")[0] + "*/\n", "launch: "),
    "launch table": (HEAD.partition("[[launch]]")[0] + '[launch]\nentry = "a"\n*/\n', "launch: "),
    "many": (HEAD.partition("[[launch]]")[0] + '[[launch]]\nentry="a"\ngrid=[1]\nblock=[1]\nargs=[]\n' * 65 + "*/\n", "launch: "),
    "args": (_with('"A", "packed"', '"A b"'), "launch[0].args: 'A b' is not a name"),
    "args type": (_with('"A", "packed"', "1"), "launch[0].args[0]: "),
    "map": (_with('"A", "packed"', '"map:A"'), "launch[0].args: 'map:A' names no map"),
    "map of nothing": (_with('"A", "packed"', '"map:"'), "launch[0].args: 'map:' is not a name"),
    "shared": (_with("block = [64]", "block = [64]\nshared = 4"), "launch[0]: 'shared' is for CUDA kernels; declare"),
    "cluster": (_with("block = [64]", "block = [64]\ncluster = [2]"), "launch[0]: 'cluster' is for CUDA kernels"),
    "warps": (_with("block = [64]", "block = [64]\nnum_warps = 4"), "launch[0]: 'num_warps' and 'num_stages' are for Triton"),
    "maps": (_with("[const]", '[maps]\na = { tensor = "A", box = [1] }\n[const]'), "[maps] is for CUDA kernels"),
    # Maps.
    "no box": (_with('box = [64, "TM"], ', "", CUDA), "maps.a: mode 'tiled' needs box"),
    "im2col box": (_with('mode = "im2col"', 'mode = "im2col", box = [1]', CUDA), "maps.b: mode 'im2col' has no box"),
    "no pixels": (_with(', pixels = "N"', "", CUDA), "maps.b: mode 'im2col' needs pixels"),
    "shape alone": (_with("swizzle = 128", "shape = [1]", CUDA), "maps.a: shape and strides come together"),
    "swizzle": (_with("swizzle = 128", "swizzle = 96", CUDA), "maps.a.swizzle: input should be 0, 32, 64 or 128, not 96"),
    "typo in map": (_with("swizzle", "swizle", CUDA), "unknown field 'maps.a.swizle'; did you mean 'swizzle'?"),
    # Python.
    "not Python": ('"""klineage\n"""\ndef (', "not Python: "),
    "no docstring": ('"""other"""\n', "no manifest: the module docstring must open with the line 'klineage'"),
    "deep Python": (TRITON + "(" * 5000, "not Python: "),
    "no surface": (_with('surface = "triton"\n', "", TRITON), 'a Python kernel declares surface = "triton" or "tilelang"'),
    "other surface": (_with('"triton"', '"opencl"', TRITON), 'a Python kernel declares surface = "triton" or "tilelang"'),
    "shared in Triton": (_with("num_warps = 4", "shared = 4", TRITON), "the compiler sizes it"),
    "Triton option": (_with("[const]", 'options = ["-cl-mad-enable"]\n[const]', TRITON), "allow-list of triton"),
    "three warps": (_with("num_warps = 4", "num_warps = 3", TRITON), "launch[0].num_warps: input should be 1, 2, 4"),
    "no stage": (_with("num_stages = 3", "num_stages = 0", TRITON), "launch[0].num_stages: "),
    "Python TOML": (_with("BM = 64", "BM = ", TRITON), "manifest is not TOML: Invalid value (line 6)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_that_names_the_place(name: str) -> None:
    text, message = FAULTS[name]
    assert message in _fault(text)


@pytest.mark.parametrize(
    ("old", "new"), [("workload =", "worklaod ="), ("grid =", "gird ="), ("entry =", "entyr ="), ("dtype =", "dtpye =")]
)
def test_a_typo_in_a_needed_field_is_shown(old: str, new: str) -> None:
    assert f"did you mean {old.split()[0]!r}" in _fault(_with(old, new))


@pytest.mark.parametrize("blank", ["", "\n", "\n\n  \n"])
def test_line_numbers_count_from_the_top_of_the_file(blank: str) -> None:
    text = blank + _with("TM = 8", "TM = ")
    assert f"(line {7 + blank.count(chr(10))})" in _fault(text)


def test_line_numbers_in_python_count_from_the_top_of_the_file() -> None:
    text = "# a comment\n\n" + _with("BM = 64", "BM = ", TRITON)
    with pytest.raises(KernelError, match=r"\(line 8\)"):
        parse(text, surface=None)


@pytest.mark.parametrize("head", ["intents = []\\\n\n", "intents = []\\n\n"], ids=["continued line", "escape"])
def test_no_line_number_where_escapes_make_it_another(head: str) -> None:
    text = _with("[const]", head + "[const]", TRITON)
    text = _with("BM = 64", "BM = ", text)
    assert _fault(text, None) == "manifest is not TOML: Invalid value"


def test_no_line_number_in_joined_strings() -> None:
    text = '("""klineage\n"""\n\n"""format = \n""")\n'
    assert _fault(text, None) == "manifest is not TOML: Invalid value"
    text = '(\n\nr"""klineage\n# \\d\nformat = \n""")\n'
    assert _fault(text, None) == "manifest is not TOML: Invalid value (line 5)"


HUGE = {
    "a decimal of 5000 digits": _with("TM = 8", "TM = " + "1" * 5000),
    "a huge format": _with("format = 1", "format = 0x" + "1" * 5000),
    "a huge intent": _with('"stage-tile"', "0x" + "1" * 5000),
    "a key of 3000 parts": _with("TM = 8", ".".join("a" * 3000) + " = 1"),
    "a key of 90000 parts": _with("TM = 8", ".".join("a" * 90_000) + " = 1"),
    "a key of 90000 parts in a list": _with("TM = 8", 'TM = ["""\n#""", {' + ".".join("a" * 90_000) + " = 1}]"),
    "a header of 90000 parts": _with("TM = 8", "[" + " . ".join("a" * 90_000) + "]"),
    "a huge constant": _with("TM = 8", "TM = 0x" + "1" * 5000),
    "a huge expression": _with("block = [64]", "block = [0x" + "1" * 5000 + "]"),
    "a number of warps": _with("num_warps = 4", "num_warps = 0x" + "1" * 5000, TRITON),
    "a list of huge numbers": _with('"stage-tile"', "[[[[[[[[0x" + "1" * 5000 + "]]]]]]]]"),
    "a long key": _with("[const]", "[const]\n'" + "ü " * 50_000 + "' = 1"),
    "a long field": _with("[const]", "a" * 100_000 + " = 1\n[const]"),
    "a long intent": _with('"stage-tile"', '"' + "A" * 100_000 + '"'),
    "a long option": _with('"-cl-mad-enable"', '"' + "A" * 100_000 + '"'),
    "a long argument": _with('"A", "packed"', '"' + "A " * 50_000 + '"'),
    "a long key twice": _with("TM = 8", f"[{'a' * 100_000}]\n[{'a' * 100_000}]"),
    "a surrogate in a docstring": _with("[const]", "# \\ud800\n[const]", TRITON),
    "a decimal in Python": TRITON + "x = " + "1" * 5000 + "\n",
    "long Python": TRITON + "def f(" + "a" * 100_000 + ", *): pass\n",
}


@pytest.mark.parametrize("name", HUGE)
def test_hostile_toml_is_a_kernel_error(name: str) -> None:
    begun = time.process_time()
    _fault(HUGE[name])
    assert time.process_time() - begun < 2


def test_dots_in_comments_and_texts_are_no_matter() -> None:
    line = f"# {'.' * 200} a.b. c ... {'x' * 200}.\n"
    assert _parse(_with("[const]", line + "[const]")).manifest == _parse(OPENCL).manifest
    message = _fault(_with("[const]", "a." * 65 + "a = 1\n[const]"))
    assert message == "manifest: more than 64 dots in a line (line 6)"


@pytest.mark.parametrize("place", ["[const]\n", "[require]\n", "[workspace]\n"])
def test_a_key_with_a_newline_gives_one_line(place: str) -> None:
    assert "a\\nb" in _fault(_with(place, place + '"a\\nb" = "1"\n'))
    assert "a\\u2028b" in _fault(_with(place, place + '"a\\u2028b" = "1"\n'))


def test_a_field_with_a_newline_gives_one_line() -> None:
    assert _fault(_with("[const]", '"a\\nb" = 1\n[const]')) == "unknown field 'a\\nb'"


def test_a_text_that_is_not_unicode_is_a_kernel_error() -> None:
    with pytest.raises(KernelError, match="not Unicode text") as caught:
        parse(OPENCL + "// \ud800\n", surface="opencl")
    assert caught.value.text == OPENCL + "// \\ud800\n"


def test_warnings_of_a_text_are_not_shown() -> None:
    text = TRITON + "x = '\\d'\ny = 1if 2 else 3\n"
    script = f"""
from experts.expressions import Expression, ExpressionError
from experts.kernel import parse
parse({text!r}, surface=None)
Expression("1if M else 2")
try:
    Expression("'\\\\d'")
except ExpressionError:
    pass
"""
    for option in ("-Walways", "-Werror"):
        done = subprocess.run([sys.executable, option, "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


LOOSE = {
    "zero = 1": _with("zero = true", "zero = 1"),
    "zero as text": _with("zero = true", 'zero = "yes"'),
    "stages as text": _with("num_stages = 3", 'num_stages = "3"', TRITON),
    "stages true": _with("num_stages = 3", "num_stages = true", TRITON),
    "warps true": _with("num_warps = 4", "num_warps = true", TRITON),
    "warps as float": _with("num_warps = 4", "num_warps = 4.0", TRITON),
    "stages as float": _with("num_stages = 3", "num_stages = 3.0", TRITON),
    "swizzle as float": _with("swizzle = 128", "swizzle = 128.0", CUDA),
    "interleave false": _with("swizzle = 128", "interleave = false", CUDA),
    "format 1.0": _with("format = 1", "format = 1.0"),
}


@pytest.mark.parametrize("name", LOOSE)
def test_a_value_of_another_type_is_refused(name: str) -> None:
    _fault(LOOSE[name])


@pytest.mark.parametrize("text", [OPENCL, CUDA, TRITON], ids=["opencl", "cuda", "triton"])
@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("\n", " \t\n"),
        lambda text: text.replace("\n", "\f\v \n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n\n \r\n\t\n",
    ],
    ids=["CRLF", "CR", "trailing space", "form feeds", "BOM", "no last newline", "blank end"],
)
def test_the_same_kernel_however_it_was_saved(text: str, changed: object) -> None:
    again = parse(changed(text), surface=_surface(text))  # type: ignore[operator]
    assert again.text == text
    assert again.kernel_id == _parse(text).kernel_id
    assert again == _parse(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TM = 8", "TM = 16"),
        ("TM = 8", "TM =  8"),
        ("void pack", "void  pack"),
        ('"stage-tile", ', ""),
        ("{}", "{} //"),
    ],
)
def test_any_other_edit_is_another_kernel(old: str, new: str) -> None:
    assert _parse(_with(old, new)).kernel_id != _parse(OPENCL).kernel_id


def test_nothing_else_is_altered() -> None:
    code = "\n\n \tint a;  /*\u2028 ü \u00a0*/ \u00a0\n\\\n\x85x\n"
    assert normalise(OPENCL + code) == OPENCL + code
    assert normalise("a \u00a0\n") == "a \u00a0\n"


_SCRAPS = st.text(st.sampled_from("ab\\\ufeff \t\f\v\r\n\u2028\x85\x1c"), max_size=12)


@given(_SCRAPS)
def test_normalise_leaves_lines_and_ends_with_one_newline(text: str) -> None:
    once = normalise(text)
    assert once.endswith("\n") and not once.endswith("\n\n") and "\r" not in once
    for line in once.split("\n"):
        assert line == line.rstrip(" \t\f\v")
    visible = str.maketrans("", "", " \t\f\v\r\n")
    assert once.translate(visible) == text.lstrip("\ufeff").translate(visible)


@given(_SCRAPS)
@example("\ufeff\ufeffa")
def test_normalise_is_idempotent(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


_PIECES = st.sampled_from(
    [
        *OPENCL.split("\n"), *TRITON.split("\n"), "*/", "/*", '"', "'''", '"""', "[", "]", "{", "}", "[[launch]]", "\0",
        "\\", "\n", "= ", "\x85", "true", "nan", "1e9", "2024-01-01", "0x", "[const]", "[[const]]", "a.b.c=1", "\ufeff", "-1",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([OPENCL, CUDA, TRITON]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), _PIECES | st.text(max_size=4)), min_size=1, max_size=5),
    st.sampled_from(["opencl", "cuda", None]),
)
@example(OPENCL, [(0.0, 0, "")], "opencl")
def test_a_mutated_text_is_a_kernel_or_a_kernel_error(
    text: str, edits: list[tuple[float, int, str]], surface: Surface | None
) -> None:
    for where, cut, piece in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + cut :]
    try:
        kernel = parse(text, surface=surface)
    except KernelError as error:
        assert str(error)
        assert error.text == normalise(text)
    else:
        assert kernel.kernel_id == text_id(normalise(text))
        assert parse(kernel.text, surface=surface) == kernel


@pytest.mark.parametrize(
    ("suffix", "text", "surface"), [(".cl", OPENCL, "opencl"), (".cu", CUDA, "cuda"), (".py", TRITON, "triton")]
)
def test_the_surface_follows_the_extension(tmp_path: Path, suffix: str, text: str, surface: str) -> None:
    path = tmp_path / f"kernel{suffix}"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert load(path).surface == surface
    assert load(path) == _parse(text)


@pytest.mark.parametrize("name", ["kernel.c", "kernel", "kernel.CL", "kernel.cl.txt"])
def test_other_extensions_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(OPENCL)
    with pytest.raises(KernelError, match=r"unknown extension '.*'; a kernel file ends in \.cl, \.cu, \.py"):
        load(path)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cl"
    path.write_bytes(OPENCL.encode() + b"// \xff\xfe \n")
    with pytest.raises(KernelError, match=rf"^not UTF-8 text: byte {len(OPENCL) + 3} is 0xff$") as caught:
        load(path)
    assert caught.value.text is not None and "\\xff\\xfe\n" in caught.value.text


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cl"
    for size in (MAX_BYTES - 1, MAX_BYTES):
        path.write_bytes(OPENCL.encode().ljust(size, b"x"))
        kernel = load(path)
        assert len(kernel.text) == size + 1
        path.write_bytes(kernel.text.encode())
        assert load(path) == kernel == parse(kernel.text, surface="opencl")
    path.write_bytes(OPENCL.encode().ljust(MAX_BYTES + 1, b"x"))
    with pytest.raises(KernelError, match=r"^larger than 256 KiB$") as caught:
        load(path)
    assert caught.value.text is not None and caught.value.text.startswith("/* klineage\n")


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        load(tmp_path / "kernel.cl")
    (tmp_path / "folder.cl").mkdir()
    with pytest.raises(OSError):
        load(tmp_path / "folder.cl")
