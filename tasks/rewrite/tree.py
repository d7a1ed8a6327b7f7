"""The syntax tree of a kernel's code, and what binds how tightly: when an expression needs parentheses."""

from __future__ import annotations

from functools import lru_cache

from experts.kernel import Kernel
from experts.source import Function, SourceView, Span, Surface
from experts.source.shadow import cast_shadow
from experts.source.syntax import Syntax, operator, parse

_KEPT = 64
SUM, PRODUCT, UNARY, POSTFIX = 12, 13, 14, 15
ANY, ALONE = 0, 17
"""What takes every expression, and what takes none without parentheses."""
_BINARY = {
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("<<", ">>"), 11),
    **dict.fromkeys(("<", ">", "<=", ">="), 10),
    **dict.fromkeys(("==", "!="), 9),
    "&": 8,
    "^": 7,
    "|": 6,
    "&&": 5,
    "||": 4,
}
_OTHER = {
    "number_literal": 16,
    "parenthesized_expression": 16,
    "subscript_expression": POSTFIX,
    "field_expression": POSTFIX,
    "unary_expression": UNARY,
    "pointer_expression": UNARY,
    "cast_expression": UNARY,
    "conditional_expression": 3,
    "assignment_expression": 2,
    "comma_expression": 1,
}


def nodes(kernel: Kernel) -> tuple[Syntax, ...]:
    """Every node of a C-family kernel, in pre-order. Spans are those of its text."""
    assert kernel.surface in ("opencl", "cuda")
    return _nodes(kernel.text, kernel.surface)


@lru_cache(maxsize=_KEPT)
def _nodes(text: str, surface: Surface) -> tuple[Syntax, ...]:
    return tuple(parse(cast_shadow(text, surface).text, surface))


def inside(kernel: Kernel, function: Function) -> tuple[Syntax, ...]:
    """The nodes of a function's body."""
    assert kernel.surface in ("opencl", "cuda")
    return _inside(kernel.text, kernel.surface, function.body)


@lru_cache(maxsize=_KEPT)
def _inside(text: str, surface: Surface, body: Span) -> tuple[Syntax, ...]:
    return tuple(node for node in _nodes(text, surface) if body.contains(node.span))


def binding(node: Syntax, view: SourceView) -> int:
    """How tightly an expression holds together; what a macro stands for may hold loosely."""
    if node.type == "binary_expression":
        return _BINARY.get(operator(node), ANY)
    if node.type in ("identifier", "call_expression"):
        uses = Span(node.span.start, node.span.end)
        return ANY if any(use.span == uses for use in view.macro_uses) else 16
    return _OTHER.get(node.type, ANY)


def slot(node: Syntax, view: SourceView) -> int:
    """How tightly an expression must hold together to stand where `node` stands, without parentheses."""
    parent = node.parent
    if parent is None:
        return ANY
    if parent.type == "binary_expression":
        level = _BINARY.get(operator(parent), ALONE)
        return level if node.field == "left" else level + 1
    if parent.type in ("unary_expression", "pointer_expression", "cast_expression"):
        return UNARY
    if parent.type in ("field_expression", "subscript_expression", "call_expression", "update_expression"):
        return POSTFIX
    if parent.type == "argument_list" and parent.parent is not None:
        return ALONE if binding(parent.parent, view) == ANY else ANY
    return ANY
