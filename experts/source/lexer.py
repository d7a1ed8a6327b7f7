"""Tokens of C-family text: enough to tell code from comments, strings and preprocessor lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .edits import Span

TokenKind = Literal[
    "word",  # an identifier or a keyword
    "number",
    "string",  # with its prefix; raw strings too
    "char",
    "punct",  # one character, or one of -> :: ##
    "comment",
    "directive",  # a preprocessor line: splices and comments in it included, its line end not
    "stray",  # what C has no token for: an open quote, a control or an exotic character
]

_NEWLINE = r"(?:\r\n|\n|\r)"
_SPLICE = rf"\\{_NEWLINE}"
_LINE_COMMENT = rf"//(?:{_SPLICE}|[^\r\n])*"
# an open comment runs to the end of the text
_BLOCK_COMMENT = r"/\*(?s:.*?\*/|.*)"
_STRING = rf'"(?:\\{_NEWLINE}|\\[^\r\n]|[^"\\\r\n])*"'
_CHAR = rf"'(?:\\{_NEWLINE}|\\[^\r\n]|[^'\\\r\n])*'"
_TOKEN = re.compile(
    rf"(?P<space>(?:[ \t\r\n\f\v]|{_SPLICE})+)"
    rf"|(?P<comment>{_LINE_COMMENT}|{_BLOCK_COMMENT})"
    r'|(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\((?s:.*?)\)(?P=mark)")'
    rf"|(?P<string>(?:u8|[uUL])?{_STRING})"
    rf"|(?P<char>(?:u8|[uUL])?{_CHAR})"
    r"|(?P<word>[^\W\d][\w$]*|\$[\w$]*)"
    r"|(?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z]|[0-9A-Za-z_.])*)"
    r"|(?P<punct>->|::|\#\#|[!\#%&()*+,\-./:;<=>?\[\]^{|}~])"
    r"|(?P<stray>(?s:.))"
)
_DIRECTIVE = re.compile(rf"\#(?:{_SPLICE}|{_LINE_COMMENT}|{_BLOCK_COMMENT}|{_STRING}|{_CHAR}|[^\r\n])*")


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place."""

    kind: TokenKind
    text: str
    span: Span


def tokenize(text: str) -> tuple[Token, ...]:
    """All tokens of `text` but white space, in order. Any text has tokens: nothing is raised."""
    tokens: list[Token] = []
    line_start = True  # only white space and comments since the line began
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, "the last alternative matches any character"
        kind = match.lastgroup
        if kind == "space":
            line_start = line_start or any(c in "\r\n" for c in re.sub(_SPLICE, "", match[0]))
            at = match.end()
            continue
        if line_start and text[at] == "#":
            match = _DIRECTIVE.match(text, at)
            assert match is not None
            kind = "directive"
        tokens.append(Token(_KINDS.get(kind or "", "stray"), match[0], Span(at, match.end())))
        line_start = line_start and kind == "comment"
        at = match.end()
    return tuple(tokens)


_KINDS: dict[str, TokenKind] = {
    "comment": "comment",
    "raw": "string",
    "mark": "string",
    "string": "string",
    "char": "char",
    "word": "word",
    "number": "number",
    "punct": "punct",
    "directive": "directive",
}


def logical_text(directive: str) -> str:
    """A preprocessor line with splices and comments replaced by blanks of the same length."""

    def blank(match: re.Match[str]) -> str:
        kept = match[0][0] in "\"'"
        return match[0] if kept else " " * len(match[0])

    return re.sub(rf"{_STRING}|{_CHAR}|{_SPLICE}|{_LINE_COMMENT}|{_BLOCK_COMMENT}", blank, directive)


def closing(tokens: Sequence[Token], opening: int) -> int | None:
    """The index of the bracket that closes tokens[opening]; None where it stays open or is crossed."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    stack: list[str] = []
    for index in range(opening, len(tokens)):
        token = tokens[index]
        if token.kind != "punct":
            continue
        if token.text in pairs:
            stack.append(pairs[token.text])
        elif token.text in (")", "]", "}"):
            if not stack or stack.pop() != token.text:
                return None
            if not stack:
                return index
    return None


def split_commas(tokens: Sequence[Token], opening: int, end: int) -> tuple[Span, ...]:
    """The spans between the commas of tokens[opening + 1 : end] that stand in no inner bracket."""
    spans: list[Span] = []
    depth = 0
    first: Token | None = None
    last: Token | None = None
    for token in tokens[opening + 1 : end]:
        if token.kind == "punct" and token.text == "," and depth == 0:
            here = token.span.start
            spans.append(Span(first.span.start, last.span.end) if first and last else Span(here, here))
            first = last = None
            continue
        if token.kind == "punct":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        first, last = first or token, token
    if first and last:
        spans.append(Span(first.span.start, last.span.end))
    return tuple(spans)
