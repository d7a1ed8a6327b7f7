"""Expressions of a kernel's manifest as values."""

from __future__ import annotations

import ast
from collections.abc import Collection

from experts.expressions import Expression, syntax_tree

from .parts import Comparison
from .values import Unclear, Value, cdiv, number, operation, symbol

_OPERATIONS = {ast.FloorDiv: "fdiv", ast.Mod: "fmod"}
_RELATIONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def value_of(expression: Expression, known: Collection[str]) -> Value:
    """The value of an expression over the symbols `known`. Raises Unclear for truth values and unknown names."""
    tree = syntax_tree(expression.text.strip(), "eval")
    assert isinstance(tree, ast.Expression)
    return _value(tree.body, known)


def _value(node: ast.expr, known: Collection[str]) -> Value:
    match node:
        case ast.Constant(value=int(value)):
            return number(value)
        case ast.Name(id=name) if name in known:
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, known), _value(right, known)
            if isinstance(op, ast.Add):
                return a + b
            if isinstance(op, ast.Sub):
                return a - b
            if isinstance(op, ast.Mult):
                return a * b
            return operation(_OPERATIONS[type(op)], a, b)  # type: ignore[arg-type]
        case ast.Call(func=ast.Name(id=name), args=arguments):
            values = [_value(argument, known) for argument in arguments]
            if name in ("min", "max"):
                return operation(name, *values)  # type: ignore[arg-type]
            rounded = cdiv(*values)
            return rounded * values[1] if name == "up" else rounded
        case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right]), body=body, orelse=orelse):
            relation = _RELATIONS[type(op)]
            condition = Comparison(relation, _value(left, known), _value(right, known))  # type: ignore[arg-type]
            return condition.choose(_value(body, known), _value(orelse, known))
        case _:
            raise Unclear("an expression that is not understood")
