"""The one evaluator of launch and requirement expressions.

An **expression** is an integer, or a text over integers and named symbols: `+ - * // %`, comparisons (chains
too), `and or not`, `x if c else y`, and the functions `min`, `max` (two or more arguments), `cdiv(a, b)`
(division rounded up) and `up(a, b)` (a rounded up to a multiple of b). It has no strings, calls of anything else,
attributes, powers or shifts, and its values stay within 64 bits: evaluating a text from outside is safe and quick.
Division and remainder are Python's (towards minus infinity).
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal

MAX_LENGTH = 512
_MAX_DEPTH = 40
_LIMIT = 1 << 63

_SOURCE = "<candidate>"
# What the parser warns of in a text from outside ("\\d", `1if x`) is nobody's business here. By file name and for good:
# `catch_warnings` changes state that other threads use.
warnings.filterwarnings("ignore", module=re.escape(_SOURCE))

Scalar = int | float


class ExpressionError(ValueError):
    """An expression that cannot be read, names nothing, or has no value; the message is one line."""


def syntax_tree(text: str, mode: Literal["eval", "exec"]) -> ast.AST:
    """Python's tree of a text from outside, without its warnings.

    Raises SyntaxError, ValueError, MemoryError or RecursionError.
    """
    return ast.parse(text, _SOURCE, mode)


def _cdiv(a: Scalar, b: Scalar) -> Scalar:
    return -(-a // b)


def _up(a: Scalar, b: Scalar) -> Scalar:
    return -(-a // b) * b


_BINARY: dict[type[ast.operator], Callable[[Scalar, Scalar], Scalar]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_RELATION: dict[str, Callable[[Scalar, Scalar], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FUNCTIONS: dict[str, tuple[int, int | None, Callable[..., Scalar]]] = {
    "min": (2, None, min),
    "max": (2, None, max),
    "cdiv": (2, 2, _cdiv),
    "up": (2, 2, _up),
}
FUNCTION_NAMES = frozenset(_FUNCTIONS)


class Expression:
    """A checked expression. Frozen, equal and hashed by its text.

    Raises ExpressionError on construction for anything outside the grammar above.
    """

    __slots__ = ("__dict__", "_tree", "text")

    def __init__(self, text: str | int) -> None:
        if isinstance(text, int) and abs(text) >= _LIMIT:
            raise ExpressionError(f"number beyond 64 bits: it has {text.bit_length()}")
        self.text = str(text)
        if len(self.text) > MAX_LENGTH:
            raise ExpressionError(f"expression of {len(self.text)} characters; at most {MAX_LENGTH} are read")
        try:
            tree = syntax_tree(self.text.strip(), "eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise ExpressionError(f"cannot read expression {self.text!r}") from None
        assert isinstance(tree, ast.Expression)
        _check(tree.body, self.text, 0)
        self._tree = tree.body

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """The symbols it needs."""
        called = {id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        return frozenset(
            node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and id(node) not in called
        )

    def evaluate(self, symbols: Mapping[str, Scalar]) -> Scalar:
        """Its value. Raises ExpressionError where a symbol is unknown, a divisor is 0 or a value leaves 64 bits."""
        try:
            return _value(self._tree, symbols)
        except _Fault as fault:
            raise ExpressionError(f"{fault} in {self.text!r}") from None

    def integer(self, symbols: Mapping[str, Scalar]) -> int:
        """Its value as an integer (a comparison gives 0 or 1). Raises ExpressionError for a fraction too."""
        value = self.evaluate(symbols)
        if isinstance(value, float) and not value.is_integer():
            raise ExpressionError(f"{self.text!r} is {value}, not a whole number")
        return int(value)

    def holds(self, symbols: Mapping[str, Scalar]) -> bool:
        """Whether its value is not zero."""
        return bool(self.evaluate(symbols))


class _Fault(Exception):
    pass


def _check(node: ast.AST, text: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ExpressionError(f"expression {text!r} is nested too deeply")
    match node:
        case ast.Constant(value=value) if type(value) is int:
            if abs(value) >= _LIMIT:
                raise ExpressionError(f"number beyond 64 bits in {text!r}")
            children: list[ast.AST] = []
        case ast.Name():
            if node.id in _FUNCTIONS:
                raise ExpressionError(f"function {node.id} without arguments in {text!r}")
            children = []
        case ast.BinOp(op=op) if type(op) in _BINARY:
            children = [node.left, node.right]
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            children = [node.operand]
        case ast.BoolOp():
            children = list(node.values)
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            children = [node.left, *node.comparators]
        case ast.IfExp():
            children = [node.test, node.body, node.orelse]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            least, most, _ = _FUNCTIONS[name]
            if len(node.args) < least or (most is not None and len(node.args) > most):
                raise ExpressionError(f"{name} takes {least if most else f'{least} or more'} arguments in {text!r}")
            children = list(node.args)
        case ast.BinOp(op=ast.Div()):
            raise ExpressionError(f"'/' is not an operator here (use //) in {text!r}")
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            raise ExpressionError(f"{name} takes no keyword arguments in {text!r}")
        case ast.Call(func=ast.Name(id=name)):
            raise ExpressionError(f"unknown function {name!r} in {text!r}; there are {', '.join(sorted(_FUNCTIONS))}")
        case _:
            raise ExpressionError(f"{type(node).__name__} is not allowed in expression {text!r}")
    for child in children:
        _check(child, text, depth + 1)


def _value(node: ast.AST, symbols: Mapping[str, Scalar]) -> Scalar:
    match node:
        case ast.Constant():
            value: Scalar = node.value  # type: ignore[assignment]
        case ast.Name():
            if node.id not in symbols:
                raise _Fault(f"unknown name {node.id!r}")
            value = symbols[node.id]
        case ast.BinOp():
            left, right = _value(node.left, symbols), _value(node.right, symbols)
            value = _apply(_BINARY[type(node.op)], left, right)
        case ast.UnaryOp(op=ast.USub()):
            value = -_value(node.operand, symbols)
        case ast.UnaryOp():
            value = int(not _value(node.operand, symbols))
        case ast.BoolOp(op=ast.And()):
            value = int(all(_value(child, symbols) for child in node.values))
        case ast.BoolOp():
            value = int(any(_value(child, symbols) for child in node.values))
        case ast.Compare():
            value = int(_chain(node, symbols))
        case ast.IfExp():
            value = _value(node.body if _value(node.test, symbols) else node.orelse, symbols)
        case ast.Call(func=ast.Name(id=name)):
            value = _apply(_FUNCTIONS[name][2], *(_value(argument, symbols) for argument in node.args))
        case _:
            raise AssertionError(f"unchecked node {node!r}")
    if abs(value) >= _LIMIT:
        raise _Fault("a value beyond 64 bits")
    return value


def _chain(node: ast.Compare, symbols: Mapping[str, Scalar]) -> bool:
    """As in Python, what stands behind the first comparison that is false has no value."""
    left = _value(node.left, symbols)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = _value(comparator, symbols)
        if not _RELATION[_COMPARE[type(op)]](left, right):
            return False
        left = right
    return True


def _apply(function: Callable[..., Scalar], *values: Scalar) -> Scalar:
    try:
        return function(*values)
    except ZeroDivisionError:
        raise _Fault("division by zero") from None
