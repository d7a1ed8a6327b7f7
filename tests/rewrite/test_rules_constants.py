"""Rules on the manifest: constants and options."""

from __future__ import annotations

import pytest

from experts.kernel import Kernel, parse
from tasks.rewrite.edit import Edit, NotApplicable
from tasks.rewrite.manifest import constant, with_constant
from tasks.rewrite.rules import apply, rule_named

SHRINK, OPTION = rule_named("shrink-constant"), rule_named("build-option")
CODE = "__kernel void gemm(__global float *A, __global float *B, __global float *C, int M, int N, int K)\n"


def kernel(
    const: str, statements: str = "", require: str = "", grid: str = "[1]", block: str = "[1]", top: str = ""
) -> Kernel:
    table = f"[const]\n{const}\n" if const else ""
    rules = f"[require]\n{require}\n" if require else ""
    return parse(
        f'/* klineage\nformat = 1\nworkload = "gemm"\n{top}{table}{rules}[[launch]]\nentry = "gemm"\ngrid = {grid}\n'
        f'block = {block}\nargs = ["A", "B", "C", "M", "N", "K"]\n*/\n{CODE}{{\n{statements}\n}}\n',
        surface="opencl",
    )


def smallest(before: Kernel, name: str) -> int | None:
    edits = [e for e in SHRINK.removable(before).edits if e.anchor == f"::/const[{name}]"]
    if not edits:
        return None
    after, back = apply(before, edits[0])
    assert after.manifest.const[name] == edits[0].param("value")
    assert {**after.manifest.const, name: 0} == {**before.manifest.const, name: 0}
    assert apply(after, back)[0].text == before.text
    assert all(e.anchor != edits[0].anchor for e in SHRINK.removable(after).edits)
    return after.manifest.const[name]


def intent(before: Kernel, name: str) -> str:
    places = SHRINK.removable(before)
    found = [each.intent for each in (*places.edits, *places.declined) if each.anchor == f"::/const[{name}]"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("require", "grid", "block", "expected"),
    [
        ("", "[1]", "[1]", 1),
        ('a = "T % 4 == 0"', "[1]", "[1]", 4),
        ('a = "T % 4 == 0"\nb = "T * U >= 24"', "[1]", "[1]", 12),
        ('a = "N % T == 0"', "[1]", "[1]", 1),
        ("", '["T - 2"]', "[1]", 3),
        ("", '["N"]', '["T // 5"]', 5),
        ('a = "100 // (T - 1) > 0"', "[1]", "[1]", 2),
        ('a = "T == 16"', "[1]", "[1]", None),
    ],
)
def test_the_smallest_that_the_manifest_allows(require: str, grid: str, block: str, expected: int | None) -> None:
    before = kernel("T = 16\nU = 2", "C[0] = T * U;", require, grid, block)
    assert smallest(before, "T") == expected


def test_large_values_are_tried_by_powers_of_two() -> None:
    assert smallest(kernel("T = 100000", "C[0] = T;", 'a = "T > 3000"'), "T") == 4096
    assert smallest(kernel("T = 100000", "C[0] = T;", 'a = "T == 99999 or T == 100000"'), "T") is None


@pytest.mark.parametrize("value", ["0x10", "+16", "1_6", "0b10000", "0o20"])
@pytest.mark.parametrize(
    "table",
    [
        "[const]\nT = {}",
        "[const]\nS = 3\n'T'   =\t{} # T = 4",
        '[const]\n"T" = {}\n# T = {}',
        "const = {{ S = 1, T = {}, U = 2 }}",
        "const.T = {}\nconst.U = 2",
    ],
)
def test_spellings_come_back(value: str, table: str) -> None:
    toml = table.format(value, value)
    top = toml if not toml.startswith("[const]") else ""
    before = kernel("" if top else toml.removeprefix("[const]\n"), "C[0] = T;", top=top + "\n" if top else "")
    assert before.manifest.const["T"] == 16
    assert smallest(before, "T") == 1


def test_look_alikes_are_left_alone() -> None:
    before = kernel("T = 4 # T = 4\nTT = 4\nT_ = 4", "C[0] = T; // T = 4", 'T = "T == T"', grid='["T"]')
    place = constant(before, "T")
    assert place is not None and before.text[: place.span.start].endswith("[const]\nT = ")
    assert with_constant(before, "T", 8).text == before.text.replace("[const]\nT = 4", "[const]\nT = 8", 1)


def test_what_nothing_uses_is_declined() -> None:
    before = kernel("T = 4\nU = 1\nZ = 0", "C[0] = U + Z; // T\n/* T */")
    reasons = {each.anchor: each.reason for each in SHRINK.removable(before).declined}
    # U and Z are as small as they get: there is nothing to take out, and nothing to decline.
    assert reasons == {"::/const[T]": "nothing uses it"}
    assert not SHRINK.removable(before).edits


def test_uses_that_count() -> None:
    for statements in ("#if T > 2\nC[0] = 1;\n#endif", "#define S (T + 1)", "#pragma unroll T\nfor (;;) {}"):
        assert smallest(kernel("T = 4", statements), "T") == 1, statements
    assert smallest(kernel("T = 4", grid='["T"]'), "T") == 1


LOOP = "for (int k = 0; k < K; k += {}) C[k] = 1.0f;"


@pytest.mark.parametrize(
    ("statements", "grid", "block", "expected"),
    [
        ("float acc[T];", "[1]", "[1]", "tile-registers"),
        ("float acc[4]; for (int r = 0; r < T; r++) acc[r] = 0.0f;", "[1]", "[1]", "tile-registers"),
        ("#define TT (T * 4)\nfloat acc[TT];", "[1]", "[1]", "tile-registers"),
        (
            "float acc[4][8]; for (int r = 0; r < T; r++) vstore4(0.0f, 0, &acc[r][4]);",
            "[1]",
            "[1]",
            "tile-registers",
        ),
        ("__local float t[T];", "[1]", "[1]", "block-loop"),
        (LOOP.format("T"), "[1]", "[1]", "block-loop"),
        ("for (int k = 0; k < T * 2; k++) C[k] = 1.0f;", "[1]", "[1]", "block-loop"),
        ("C[get_global_id(0)] = T;", '["cdiv(N, T)"]', '["T"]', "tune-constant"),
        ("C[get_global_id(0)] = T;", '["cdiv(N, T)"]', "[1]", "coarsen-work"),
        ("__local float t[8][8 + T];", "[1]", "[1]", "pad-array"),
        ("__local float t[8 * (8 + T)]; t[x * (8 + T)] = 0.0f;", "[1]", "[1]", "pad-array"),
        ("__local float t[8][8 + T]; C[0] = T;", "[1]", "[1]", "block-loop"),
        ("#pragma unroll T\nfor (int k = 0; k < K; k++) C[k] = 1.0f;", "[1]", "[1]", "unroll-loop"),
        ("C[0] = T;", "[1]", "[1]", "tune-constant"),
    ],
)
def test_intent_by_structure(statements: str, grid: str, block: str, expected: str) -> None:
    assert intent(kernel("T = 4", statements, grid=grid, block=block), "T") == expected


def test_padding_goes_down_to_zero() -> None:
    flat = kernel("PAD = 3", "__local float t[8 * (8 + PAD)]; t[(8 + PAD) * N] = 0.0f;")
    assert smallest(flat, "PAD") == 0
    halo = kernel("PAD = 3", "__local float t[8][8 + PAD], u[8][8 + PAD]; u[0][0] = 0.0f; t[0][N] = 0.0f;")
    assert smallest(halo, "PAD") == 0, "pad-array takes one of the two only: the gate decides"
    rows = kernel("PAD = 3", "__local float t[8][8 + PAD]; t[0][0] = 0.0f;")
    assert smallest(rows, "PAD") is None
    assert "pad-array" in SHRINK.removable(rows).declined[0].reason


@pytest.mark.parametrize(
    ("value", "require", "expected"),
    [
        (4, "", 8),
        (3, 'a = "T % 3 == 0"', 6),
        (1, 'a = "T == 1 or T == 8"', 8),
        (4, 'a = "T <= 4"', None),
        (-1, "", None),
    ],
)
def test_growing(value: int, require: str, expected: int | None) -> None:
    before = kernel(f"T = {value}", "C[0] = T;", require)
    edits = SHRINK.addable(before).edits
    assert [edit.param("value") for edit in edits] == ([] if expected is None else [expected])
    for edit in edits:
        after, back = apply(before, edit)
        assert apply(after, back)[0].text == before.text


@pytest.mark.parametrize(("action", "value"), [("remove", 4), ("remove", 9), ("add", 4), ("add", 1 << 40)])
def test_values_that_do_not_apply(action: str, value: int) -> None:
    edit = Edit("shrink-constant", action, "x", "::/const[T]", (("value", value),))  # type: ignore[arg-type]
    with pytest.raises(NotApplicable):
        apply(kernel("T = 4", "C[0] = T;"), edit)


@pytest.mark.parametrize(
    ("options", "option", "expected"),
    [
        ('options = ["-cl-mad-enable"]\n', "-cl-mad-enable", "options = []\n"),
        ("options=[ '-cl-mad-enable' , ]\n", "-cl-mad-enable", "options=[  , ]\n"),
        ('options = ["-cl-std=CL1.2", "-cl-mad-enable"]\n', "-cl-mad-enable", 'options = ["-cl-std=CL1.2"]\n'),
        ('options = ["-cl-mad-enable", "-cl-std=CL1.2"]\n', "-cl-mad-enable", 'options = ["-cl-std=CL1.2"]\n'),
        (
            'options = [\n  "-cl-no-signed-zeros", # "-cl-mad-enable"]\n  "-cl-mad-enable",\n]\n',
            "-cl-mad-enable",
            'options = [\n  "-cl-no-signed-zeros",\n]\n',
        ),
    ],
)
def test_option_texts(options: str, option: str, expected: str) -> None:
    before = kernel("", top=options)
    found = {edit.anchor: edit for edit in OPTION.removable(before).edits}
    if expected == "options=[  , ]\n":  # a comma alone is no TOML
        assert f"::/option[{option}]" not in found
        return
    after, back = apply(before, found[f"::/option[{option}]"])
    assert after.text == before.text.replace(options, expected)
    assert apply(after, back)[0].text == before.text


def test_options_are_listed_with_their_intents() -> None:
    before = kernel("", top='options = ["-cl-std=CL2.0", "-cl-fast-relaxed-math", "-cl-mad-enable"]\n')
    assert [(edit.anchor, edit.intent) for edit in OPTION.removable(before).edits] == [
        ("::/option[-cl-fast-relaxed-math]", "relax-math"),
        ("::/option[-cl-mad-enable]", "fuse-multiply-add"),
    ]
    assert [edit.anchor for edit in OPTION.addable(before).edits] == [
        "::/option[-cl-no-signed-zeros]",
        "::/option[-cl-denorms-are-zero]",
    ]


def test_a_list_is_made_and_goes_again() -> None:
    before = kernel("")
    edit = OPTION.addable(before).edits[0]
    after, back = apply(before, edit)
    assert 'workload = "gemm"\noptions = ["-cl-mad-enable"]\n[[launch]]' in after.text
    assert apply(after, back)[0].text == before.text


def test_an_option_comes_back_where_its_neighbours_are_gone() -> None:
    before = kernel("", top='options = ["-cl-mad-enable" , "-cl-no-signed-zeros"]\n')
    mad, zeros = OPTION.removable(before).edits
    one, back = apply(before, zeros)
    none, _ = apply(one, mad)
    assert none.manifest.options == ()
    assert apply(none, back)[0].manifest.options == ("-cl-no-signed-zeros",)
