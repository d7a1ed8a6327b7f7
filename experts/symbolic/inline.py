"""Helper functions that only compute a whole number: `int blocks(int n) { return (n + 15) / 16; }`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experts.source import Expr, Function, SourceView, Span
from experts.source.lexer import tokenize

from .parts import Part
from .reader import Names


def returned(view: SourceView, function: Function) -> Expr | None:
    """What a function returns, where that is all that it does."""
    if view.is_opaque(function.span):
        return None
    body = function.body.of(view.text)
    tokens = [t for t in tokenize(body) if t.kind != "comment"]
    texts = [t.text for t in tokens]
    if len(tokens) < 5 or texts[:2] != ["{", "return"] or texts[-2:] != [";", "}"] or texts.count(";") != 1:
        return None
    first, last = tokens[2].span.start, tokens[-3].span.end
    start = function.body.start + first
    return Expr(body[first:last], Span(start, start + last - first))


class Inlined:
    """The names inside such a function, with its arguments in place."""

    def __init__(self, outer: Names, known: Mapping[str, Part]) -> None:
        self.outer = outer
        self.known = known
        self.positive = outer.positive
        self.label = f"{outer.label} {dict(known)}"

    def macro(self, name: str) -> tuple[tuple[str, ...] | None, str] | None:
        """See Names."""
        return self.outer.macro(name)

    def name(self, name: str, at: int, depth: int) -> Part:
        """See Names."""
        return self.known[name] if name in self.known else self.outer.name(name, at, depth)

    def call(self, name: str, arguments: Sequence[Part], depth: int) -> Part:
        """See Names."""
        return self.outer.call(name, arguments, depth)

    def member(self, name: str, member: str) -> Part:
        """See Names."""
        return self.outer.member(name, member)
