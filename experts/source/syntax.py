"""The syntax tree of a shadow, as plain Python nodes with parents, in source order."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tree_sitter_cpp
import tree_sitter_cuda
from tree_sitter import Language, Parser

from .edits import Span
from .shadow import Surface


class Syntax:
    """A node of tree-sitter's tree. `nodes` of a parse are in pre-order: a node before what is inside it."""

    __slots__ = ("children", "field", "is_error", "is_missing", "is_named", "parent", "span", "type")

    def __init__(self, type_: str, span: Span, field: str | None, parent: Syntax | None, is_named: bool) -> None:
        self.type = type_
        self.span = span
        self.field = field
        self.parent = parent
        self.is_named = is_named
        self.is_error = type_ == "ERROR"
        self.is_missing = False
        self.children: list[Syntax] = []

    def get(self, field: str) -> Syntax | None:
        """The first child in that field."""
        return next((c for c in self.children if c.field == field), None)

    def all(self, field: str) -> list[Syntax]:
        """The children in that field."""
        return [c for c in self.children if c.field == field and c.is_named]

    @property
    def named(self) -> list[Syntax]:
        """The children that are no punctuation."""
        return [c for c in self.children if c.is_named]

    def inside(self, test: Callable[[Syntax], bool]) -> Syntax | None:
        """The nearest ancestor that passes the test."""
        node = self.parent
        while node is not None and not test(node):
            node = node.parent
        return node


@cache
def _parser_language(surface: Surface) -> Language:
    grammar = tree_sitter_cuda if surface == "cuda" else tree_sitter_cpp
    return Language(grammar.language())


def parse(shadow: str, surface: Surface) -> list[Syntax]:
    """All nodes in pre-order; the first is the root. `shadow` must be ASCII: its bytes are its characters."""
    cursor = Parser(_parser_language(surface)).parse(shadow.encode("ascii")).walk()
    nodes: list[Syntax] = []
    parent: Syntax | None = None
    while True:
        raw = cursor.node
        assert raw is not None
        node = Syntax(raw.type, Span(raw.start_byte, raw.end_byte), cursor.field_name, parent, raw.is_named)
        node.is_missing = raw.is_missing
        nodes.append(node)
        if parent is not None:
            parent.children.append(node)
        if cursor.goto_first_child():
            parent = node
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return nodes
            parent = parent.parent if parent is not None else None


def strip(node: Syntax) -> Syntax:
    """The expression inside parentheses."""
    while node.type == "parenthesized_expression" and len(node.named) == 1:
        node = node.named[0]
    return node


def unwrap(node: Syntax) -> Syntax:
    """The outermost expression that is `node` in parentheses."""
    while node.parent is not None and node.parent.type == "parenthesized_expression":
        node = node.parent
    return node


def operator(node: Syntax) -> str:
    """The operator of a unary, binary or assignment expression: the type of its unnamed child."""
    return next((c.type for c in node.children if not c.is_named and c.type not in "()"), "")


def commas(nodes: list[Syntax]) -> list[Syntax]:
    """The parts of a comma expression, which nests to the right."""
    while nodes and nodes[-1].type == "comma_expression":
        nodes = [*nodes[:-1], *nodes[-1].named]
    return nodes


def lone_statement(node: Syntax) -> Span | None:
    """The statement that consists of this expression alone, if there is one."""
    whole = unwrap(node)
    parent = whole.parent
    return parent.span if parent is not None and parent.type == "expression_statement" else None
