"""The evaluator of expressions: grammar, limits, refusals, values."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from experts.expressions import MAX_LENGTH, Expression, ExpressionError

SYMBOLS = {"M": 512, "N": 300, "K": 7, "zero": 0, "alpha": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (3, 3),
        ("3", 3),
        ("0x10", 16),
        ("1_000", 1000),
        ("  M  ", 512),
        ("-K", -7),
        ("--K", 7),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("-7 // 2", -4),
        ("-7 % 2", 1),
        ("7 % -2", -1),
        ("100 // 7 * 7", 98),
        ("-2 * -3", 6),
        ("M % 64 == 0", 1),
        ("1 < 2 < 3", 1),
        ("1 < 3 < 2", 0),
        ("3 > 2 == 2", 1),
        ("1 == 1 != 2 <= 2 >= 1", 1),
        ("not 0", 1),
        ("not M", 0),
        ("not 1 == 2", 1),
        ("0 or 3 and 0", 0),
        ("0 or 3", 1),
        ("2 and 3", 1),
        ("1 or 1 // zero", 1),
        ("0 and 1 // zero", 0),
        ("M if K else 1 // zero", 512),
        ("1 // zero if not K else N", 300),
        ("1 if 0 else 2 if 0 else 3", 3),
        ("min(M, N)", 300),
        ("max(1, 2, 3, K)", 7),
        ("cdiv(N, 64)", 5),
        ("cdiv(256, 64)", 4),
        ("cdiv(-1, 64)", 0),
        ("up(N, 64)", 320),
        ("up(320, 64)", 320),
        ("cdiv(up(N, 64), 64) == cdiv(N, 64)", 1),
        ("(1\n + 2)", 3),
        ("alpha * 4", 2),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775807", 1 - (1 << 63)),
    ],
)
def test_values(text: str | int, value: int) -> None:
    found = Expression(text).integer(SYMBOLS)
    assert found == value
    assert type(found) is int


REFUSED = {
    "": "cannot read",
    "   ": "cannot read",
    "1 +": "cannot read",
    "M N": "cannot read",
    "1; 2": "cannot read",
    "x = 1": "cannot read",
    "import os": "cannot read",
    "08": "cannot read",
    "\0": "cannot read",
    "(" * 250 + "1" + ")" * 250: "cannot read",
    "M / 2": "'/' is not an operator here (use //)",
    "M ** 2": "BinOp is not allowed",
    "M << 2": "BinOp is not allowed",
    "M >> 2": "BinOp is not allowed",
    "M & 2": "BinOp is not allowed",
    "M | 2": "BinOp is not allowed",
    "M ^ 2": "BinOp is not allowed",
    "M @ N": "BinOp is not allowed",
    "+M": "UnaryOp is not allowed",
    "~M": "UnaryOp is not allowed",
    "1.5": "Constant is not allowed",
    "1e3": "Constant is not allowed",
    "2j": "Constant is not allowed",
    "True": "Constant is not allowed",
    "None": "Constant is not allowed",
    "...": "Constant is not allowed",
    "'a'": "Constant is not allowed",
    "b'a'": "Constant is not allowed",
    "f'{M}'": "JoinedStr is not allowed",
    "M.real": "Attribute is not allowed",
    "M[0]": "Subscript is not allowed",
    "(M, N)": "Tuple is not allowed",
    "M,": "Tuple is not allowed",
    "[M]": "List is not allowed",
    "{M}": "Set is not allowed",
    "{M: N}": "Dict is not allowed",
    "[M for M in N]": "ListComp is not allowed",
    "lambda: M": "Lambda is not allowed",
    "(M := 1)": "NamedExpr is not allowed",
    "await M": "Await is not allowed",
    "(yield)": "Yield is not allowed",
    "M is N": "Compare is not allowed",
    "M in N": "Compare is not allowed",
    "M not in N": "Compare is not allowed",
    "min(*M)": "min takes 2 or more arguments",
    "min(M, *N)": "Starred is not allowed",
    "min(M)": "min takes 2 or more arguments",
    "max()": "max takes 2 or more arguments",
    "cdiv(1)": "cdiv takes 2 arguments",
    "up(1, 2, 3)": "up takes 2 arguments",
    "min": "function min without arguments",
    "min + 1": "function min without arguments",
    "abs(M)": "unknown function 'abs'; in",
    "__import__('os')": "unknown function '__import__'",
    "M.f()": "Call is not allowed",
    "min(1, 2)(3)": "Call is not allowed",
    "9223372036854775808": "number beyond 64 bits",
    "-9223372036854775809": "number beyond 64 bits",
    "not " * 60 + "1": "is nested too deeply",
    "-" * 400 + "1": "is nested too deeply",
    "+".join("1" * 60): "is nested too deeply",
    "1" * (MAX_LENGTH + 1): f"at most {MAX_LENGTH}",
}
REFUSED["abs(M)"] = "unknown function 'abs' in 'abs(M)'; there are cdiv, max, min, up"


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_one_line(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    message = str(caught.value)
    assert REFUSED[text] in message
    assert len(message.splitlines()) == 1
    assert len(message) < 3 * MAX_LENGTH


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_not_an_integer(value: bool) -> None:
    with pytest.raises(ExpressionError):
        Expression(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q + 1", "unknown name 'Q' in 'Q + 1'"),
        ("M // zero", "division by zero in 'M // zero'"),
        ("M % zero", "division by zero in 'M % zero'"),
        ("cdiv(M, zero)", "division by zero in 'cdiv(M, zero)'"),
        ("up(M, zero)", "division by zero in 'up(M, zero)'"),
        ("alpha // zero", "division by zero in 'alpha // zero'"),
        ("9223372036854775807 + 1", "a value beyond 64 bits in '9223372036854775807 + 1'"),
        ("-9223372036854775807 - 2", "a value beyond 64 bits in '-9223372036854775807 - 2'"),
        ("4294967296 * 4294967296 // 4294967296", "a value beyond 64 bits"),
        ("up(9223372036854775807, 64)", "a value beyond 64 bits"),
    ],
)
def test_no_value(text: str, message: str) -> None:
    expression = Expression(text)
    with pytest.raises(ExpressionError) as caught:
        expression.evaluate(SYMBOLS)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, 1e300, 10**30])
def test_a_symbol_beyond_64_bits_is_refused(bad: float) -> None:
    with pytest.raises(ExpressionError, match="beyond 64 bits"):
        Expression("x").evaluate({"x": bad})


@pytest.mark.parametrize("bad", [0.5, math.nan])
def test_integer_refuses_fractions(bad: float) -> None:
    with pytest.raises(ExpressionError, match="not a whole number"):
        Expression("x").integer({"x": bad})


def test_integer_takes_whole_floats() -> None:
    assert Expression("x * 2").integer({"x": 1.5}) == 3


def test_names_are_symbols_without_functions() -> None:
    assert Expression("min(M, cdiv(N, TM)) if K > 0 else M").names == {"M", "N", "TM", "K"}
    assert Expression(7).names == frozenset()


def test_equal_and_hashed_by_text() -> None:
    assert Expression("M") == Expression("M") and hash(Expression("M")) == hash(Expression("M"))
    assert Expression(4) == Expression("4")
    assert Expression("M") != Expression("N")
    assert Expression("M") != "M"


_ATOMS = st.sampled_from(["M", "N", "K", "zero"]) | st.integers(0, 1 << 40).map(str)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!="])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})"),
        # Without parentheses, so that precedence is Python's too.
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(" ".join),
        inner.map(lambda part: f"-{part}"),
        inner.map(lambda part: f"(not {part})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda part: f"(not not ({part[0]} {part[1]} {part[2]}))"
        ),
        st.tuples(inner, inner, inner).map(lambda part: f"({part[0]} if {part[1]} else {part[2]})"),
        st.tuples(st.sampled_from(["min", "max", "cdiv", "up"]), inner, inner).map(
            lambda part: f"{part[0]}({part[1]}, {part[2]})"
        ),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(_ATOMS, _grown, max_leaves=10))
@example("N - K % M // 2 * -3")
def test_evaluation_is_pythons(text: str) -> None:
    whole = {name: value for name, value in SYMBOLS.items() if name != "alpha"}
    functions = {"min": min, "max": max, "cdiv": lambda a, b: -(-a // b), "up": lambda a, b: -(-a // b) * b}
    try:
        wanted = int(eval(text, {"__builtins__": {}}, {**whole, **functions}))
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match=r"division by zero|beyond 64 bits"):
            Expression(text).integer(whole)
        return
    try:
        found = Expression(text).integer(whole)
    except ExpressionError as error:
        assert "beyond 64 bits" in str(error) or "nested too deeply" in str(error) or len(text) > MAX_LENGTH
    else:
        assert found == wanted


def test_a_chain_of_comparisons_stops_where_python_stops() -> None:
    assert Expression("0 > 1 > 1 // zero").integer(SYMBOLS) == 0
    assert Expression("0 < 1 > 2 < unknown < 1 // zero").integer(SYMBOLS) == 0
    with pytest.raises(ExpressionError, match="division by zero"):
        Expression("0 < 1 < 1 // zero").integer(SYMBOLS)


@pytest.mark.parametrize("number", [1 << 100_000, -(1 << 100_000), 1 << 63], ids=["huge", "negative", "least"])
def test_a_huge_integer_is_an_expression_error(number: int) -> None:
    with pytest.raises(ExpressionError, match="number beyond 64 bits"):
        Expression(number)


@pytest.mark.parametrize("text", ["min(M, key=N)", "min(M, N, key=N)", "cdiv(**M)"])
def test_keyword_arguments_are_named_as_the_fault(text: str) -> None:
    with pytest.raises(ExpressionError, match="takes no keyword arguments"):
        Expression(text)


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=MAX_LENGTH + 8) | st.text("()-+*/%<>=!~.,:[]{}'\"\\\n not and or if else M1", max_size=MAX_LENGTH)
)
def test_any_text_gives_a_value_or_an_expression_error(text: str) -> None:
    try:
        Expression(text).evaluate(SYMBOLS)
    except ExpressionError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "-" * MAX_LENGTH,
        "not " * (MAX_LENGTH // 4),
        "[" * MAX_LENGTH,
        "1" * 10_000_000,
        "9" * MAX_LENGTH,
        "9**" * 150 + "9",
        "f'" * 200,
        "lambda:" * 70 + "1",
        "\ud800",
        "M if " * 100,
        "*".join(["9223372036854775807"] * 25),
        "'" * 3 + "\n" * 100,
        "\\\n" * 200,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_texts_end_at_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ExpressionError) as caught:
        Expression(text).evaluate(SYMBOLS)
    assert "\n" not in str(caught.value)
    # A hundredfold of what it takes; exponential behaviour would be far beyond.
    assert time.process_time() - begun < 2
