"""The shadow of a kernel text: equally long, ASCII, and nothing in it but C++ that tree-sitter understands.

Comments, preprocessor lines, pragmas, address-space and function qualifiers and attributes become blanks and
are remembered. Since the shadow is ASCII and keeps every offset, tree-sitter's byte offsets into it are
character offsets into the text: there is no conversion, and non-ASCII comments cannot shift anything.

OpenCL's built-in types become C++ types of the same length (`float4` -> `double`): only then is
`(float4)(a, b, c, d)` a cast of a comma expression and `(float4)-x` or `(float4)*p` not a subtraction or a
product. A `<` becomes a `>`, which binds alike: C++ would take `i < n && j > (m)` for a call of a template.
What only C++ reserves (`new`, `class`) becomes an ordinary name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from .edits import Span
from .lexer import Token, closing, split_commas, tokenize
from .model import AddressSpace, Attribute, Qualifier, QualifierKind

Surface = Literal["opencl", "cuda"]

_SPACES_CL: dict[str, AddressSpace] = {
    "global": "global",
    "local": "local",
    "constant": "constant",
    "private": "private",
    "generic": "generic",
}
_SPACES_CU: dict[str, AddressSpace] = {
    "__shared__": "local",
    "__constant__": "constant",
    "__managed__": "global",
    "__device__": "global",  # of a variable; on a function it says where the function runs
}
_ACCESS_CL = ("read_only", "write_only", "read_write")
_COMMON: dict[str, QualifierKind] = {
    "restrict": "restrict",
    "__restrict": "restrict",
    "__restrict__": "restrict",
    "const": "const",
    "volatile": "volatile",
    "__inline": "function",
    "__inline__": "function",
    "__forceinline": "function",
}
_CUDA: dict[str, QualifierKind] = {
    "__global__": "kernel",
    "__host__": "function",
    "__forceinline__": "function",
    "__noinline__": "function",
    "__grid_constant__": "access",
    **dict.fromkeys(_SPACES_CU, "address_space"),
}
# what C++ knows stays for the parser
_KEPT = frozenset({"const", "volatile"})
_CALLED = frozenset({"__attribute__", "_Pragma"})
_CALLED_CU = _CALLED | frozenset(
    {"__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__align__", "alignas"}
)
# words that a plain `local` cannot qualify, though they look like the name of a type before it
_NO_TYPE = frozenset({"return", "case", "goto", "sizeof", "else", "do", "in"})
VECTOR_TYPE = re.compile(r"(?:u?char|u?short|u?int|u?long|float|double|half|bool)(?:2|3|4|8|16)")
_SCALAR_TYPE = re.compile(r"u(?:char|short|int|long)|half")
_CXX_ONLY = frozenset(
    {
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "bitand",
        "bitor",
        "catch",
        "class",
        "compl",
        "concept",
        "const_cast",
        "consteval",
        "constexpr",
        "constinit",
        "co_await",
        "co_return",
        "co_yield",
        "decltype",
        "delete",
        "dynamic_cast",
        "explicit",
        "export",
        "final",
        "friend",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "nullptr",
        "operator",
        "or",
        "or_eq",
        "override",
        "private",
        "protected",
        "public",
        "reinterpret_cast",
        "requires",
        "static_assert",
        "static_cast",
        "template",
        "this",
        "thread_local",
        "throw",
        "try",
        "typeid",
        "typename",
        "using",
        "virtual",
        "wchar_t",
        "xor",
        "xor_eq",
    }
)
_STAND_IN = {4: "bool", 5: "float", 6: "double", 7: "int16_t", 8: "uint32_t"}


@dataclass(frozen=True, slots=True)
class Pragma:
    """`#pragma BODY` or `_Pragma("BODY")`."""

    body: str
    span: Span


@dataclass(frozen=True)
class Shadow:
    """The shadow text and what was blanked from it."""

    text: str
    code: tuple[Token, ...]
    """Every token but comments and preprocessor lines: blanked qualifiers included."""
    blanked: frozenset[int]
    """The starts of those code tokens that the parser does not see."""
    directives: tuple[Token, ...]
    qualifiers: tuple[Qualifier, ...]
    attributes: tuple[Attribute, ...]
    pragmas: tuple[Pragma, ...]
    stray: tuple[Span, ...]
    """Text that is no token of C."""

    def index_at(self, offset: int) -> int:
        """The index of the first code token that starts at or behind `offset`."""
        return bisect_left(self.code, offset, key=lambda token: token.span.start)

    def lead(self, start: int) -> int:
        """The start of the blanked qualifiers and attributes right before `start`, else `start`."""
        index = self.index_at(start)
        while index > 0 and self.code[index - 1].span.start in self.blanked:
            index -= 1
            start = self.code[index].span.start
        return start

    def trail(self, end: int) -> int:
        """The end of the blanked qualifiers and attributes right behind `end`, else `end`."""
        index = self.index_at(end)
        while index < len(self.code) and self.code[index].span.start in self.blanked:
            end = self.code[index].span.end
            index += 1
        return end

    def next_code(self, offset: int) -> int | None:
        """The start of the first token at or behind `offset` that the parser sees."""
        for index in range(self.index_at(offset), len(self.code)):
            if self.code[index].span.start not in self.blanked:
                return self.code[index].span.start
        return None

    def words(self, span: Span) -> str:
        """The text of `span` in one spelling: no comments, no blanked words, no `const`; single blanks."""
        out = ""
        for token in self.code[self.index_at(span.start) : self.index_at(span.end)]:
            if token.span.start in self.blanked or token.text in _KEPT:
                continue
            wordy = token.kind == "word" and (out[-1:].isalnum() or out[-1:] == "_")
            out += (" " if wordy or (token.text == "*" and out[-1:] not in ("", "*")) else "") + token.text
        return out


def removal(text: str, span: Span) -> Span:
    """What to delete for `span` to be gone: its lines if it fills them, else the blanks behind it too."""
    start, end = span.start, span.end
    while end < len(text) and text[end] in " \t":
        end += 1
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    fills = (start == 0 or text[start - 1] in "\r\n") and (end == len(text) or text[end] in "\r\n")
    if not fills:
        return Span(span.start, end)
    if text.startswith("\r\n", end):
        return Span(start, end + 2)
    return Span(start, min(end + 1, len(text)))


def cast_shadow(text: str, surface: Surface) -> Shadow:
    """The shadow of any text."""
    tokens = tokenize(text)
    code = tuple(t for t in tokens if t.kind not in ("comment", "directive"))
    stray = [t.span for t in tokens if t.kind == "stray"]
    stray += [t.span for t in tokens if t.kind == "comment" and t.text[1] == "*" and not _closed(t.text)]
    blanked: set[int] = set()
    qualifiers: list[Qualifier] = []
    attributes: list[Attribute] = []
    pragmas = [
        Pragma(match[1].strip(), t.span)
        for t in tokens
        if t.kind == "directive" and (match := re.match(r"#[ \t]*pragma\b([^\r\n]*)", t.text))
    ]
    skip = 0
    for index, token in enumerate(code):
        if index < skip or token.kind != "word":
            continue
        before = code[index - 1].text if index else ""
        if before in (".", "->"):
            continue
        behind = code[index + 1].text if index + 1 < len(code) else ""
        called = behind == "(" and token.text in (_CALLED_CU if surface == "cuda" else _CALLED)
        if called and (end := closing(code, index + 1)) is not None:
            if token.text == "_Pragma":
                span = Span(token.span.start, code[end].span.end)
                pragmas.append(Pragma(code[end - 1].text.strip('"').strip(), span))
            else:
                attributes += _attributes(text, code, index, end)
            skip = end + 1
            blanked.update(t.span.start for t in code[index:skip])
            continue
        found = _qualifier(code, index, surface)
        if found is not None:
            kind, space = found
            stars = index > 0 and _behind_star(code, index)
            span = token.span
            qualifiers.append(Qualifier(kind, token.text, space, stars, span, removal(text, span)))
            if token.text not in _KEPT:
                blanked.add(token.span.start)
    pragmas.sort(key=lambda p: p.span)
    return Shadow(
        _write(text, code, blanked, surface),
        code,
        frozenset(blanked),
        tuple(t for t in tokens if t.kind == "directive"),
        tuple(qualifiers),
        tuple(attributes),
        tuple(pragmas),
        tuple(stray),
    )


def _closed(comment: str) -> bool:
    return len(comment) >= 4 and comment.endswith("*/")


def _qualifier(
    code: tuple[Token, ...], index: int, surface: Surface
) -> tuple[QualifierKind, AddressSpace | None] | None:
    """What kind of qualifier code[index] is; None where it is an ordinary word."""
    word = code[index].text
    if word in _COMMON:
        return _COMMON[word], None
    if surface == "cuda":
        return (_CUDA[word], _SPACES_CU.get(word)) if word in _CUDA else None
    plain = word.removeprefix("__")
    if plain not in _SPACES_CL and plain not in _ACCESS_CL and plain != "kernel":
        return None
    if plain == word and not _qualifies(code, index):
        return None
    if plain in _SPACES_CL:
        return "address_space", _SPACES_CL[plain]
    return ("kernel", None) if plain == "kernel" else ("access", None)


def _qualifies(code: tuple[Token, ...], index: int) -> bool:
    """Whether a plain word such as `local` is a qualifier here and not somebody's variable.

    A qualifier stands before a word (`local float`, `* local p`) or between type and star (`float local *`).
    """
    if index + 1 == len(code):
        return False
    behind = code[index + 1]
    if behind.kind == "word":
        return True
    before = code[index - 1] if index else None
    return behind.text == "*" and before is not None and before.kind == "word" and before.text not in _NO_TYPE


def _behind_star(code: tuple[Token, ...], index: int) -> bool:
    """Whether a `*` of the same declarator stands before code[index]: it qualifies the pointer itself."""
    while index > 0 and code[index - 1].kind == "word":
        index -= 1
    return index > 0 and code[index - 1].text == "*"


def _attributes(text: str, code: tuple[Token, ...], index: int, end: int) -> list[Attribute]:
    """The attributes of `__attribute__((a, b(1)))` or `__launch_bounds__(256)`: code[index] .. code[end]."""
    whole = Span(code[index].span.start, code[end].span.end)
    if code[index].text != "__attribute__":
        arguments = text[code[index + 1].span.end : code[end].span.start].strip()
        return [Attribute(code[index].text, arguments, whole, removal(text, whole))]
    inner = index + 2
    if inner >= end or code[inner].text != "(" or closing(code, inner) != end - 1:
        return [Attribute("__attribute__", None, whole, removal(text, whole))]
    spans = split_commas(code, inner, end - 1)
    found = []
    for place, span in enumerate(spans):
        name, _, rest = span.of(text).partition("(")
        own = whole
        if len(spans) > 1:  # with the comma that leads to its neighbour
            own = Span(span.start, spans[1].start) if place == 0 else Span(spans[place - 1].end, span.end)
        inside = rest.rstrip()[:-1].strip() if rest else None
        deletion = removal(text, own) if own == whole else own
        found.append(Attribute(name.strip().strip("_") or name, inside, span, deletion))
    return found


def _write(text: str, code: tuple[Token, ...], blanked: set[int], surface: Surface) -> str:
    out = [c if c in "\r\n" else " " for c in text]
    for token in code:
        start, end = token.span.start, token.span.end
        if start in blanked:
            continue
        written = token.text
        if token.kind == "string":
            written = '"' + "x" * (len(written) - 2) + '"'
        elif token.kind == "stray":
            written = "@"  # in no grammar: becomes an ERROR
        elif surface == "opencl" and (VECTOR_TYPE.fullmatch(written) or _SCALAR_TYPE.fullmatch(written)):
            written = _STAND_IN[len(written)]
        elif surface == "opencl" and written in _CXX_ONLY:
            written = "x" * len(written)
        elif surface == "opencl" and written == "<":
            beside = text[max(start - 1, 0) : end + 1]
            written = "<" if "<<" in beside or "<=" in beside else ">"
        elif not written.isascii():
            written = "".join(c if c.isascii() else "x" for c in written)
        out[start:end] = written
    return "".join(out)
