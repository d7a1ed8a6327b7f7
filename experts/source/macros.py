"""Macros, their uses, and code under #if. The preprocessor is described, never evaluated."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .anchors import FILE, Anchor, StepKind
from .edits import Span
from .lexer import Token, closing, logical_text, split_commas, tokenize
from .model import Expr, Macro, MacroShape, MacroUse
from .shadow import Shadow, Surface, cast_shadow
from .syntax import Syntax, parse

_DIRECTIVE = re.compile(r"#\s*(\w+)")
_DEFINE = re.compile(r"#\s*define\s+([^\W\d]\w*)(\(([^)]*)\))?")
# an expression of these alone neither touches memory nor calls nor assigns
_VALUE_NODES = frozenset(
    {
        "identifier",
        "number_literal",
        "char_literal",
        "string_literal",
        "string_content",
        "character",
        "true",
        "false",
        "null",
        "binary_expression",
        "unary_expression",
        "parenthesized_expression",
        "conditional_expression",
        "cast_expression",
        "field_expression",
        "field_identifier",
        "type_descriptor",
        "type_identifier",
        "primitive_type",
        "sized_type_specifier",
        "sizeof_expression",
        "comma_expression",
        "call_expression",
        "argument_list",
    }
)
_BREAKERS = frozenset({"#", "##", ";", "{", "}"})
_TYPE_NODES = frozenset({"primitive_type", "sized_type_specifier", "type_identifier"})
_KEYWORDS = frozenset(
    {
        "if",
        "else",
        "for",
        "while",
        "do",
        "switch",
        "case",
        "default",
        "break",
        "continue",
        "return",
        "goto",
        "struct",
        "union",
        "enum",
        "typedef",
        "sizeof",
        "int",
        "float",
        "double",
        "char",
        "short",
        "long",
        "unsigned",
        "signed",
        "void",
        "half",
        "bool",
        "static",
        "inline",
        "extern",
    }
)


@dataclass(frozen=True, slots=True)
class Conditional:
    """An `#if ... #endif`; an open one runs to the end of the text."""

    span: Span
    branches: int
    closed: bool


def conditionals(directives: Iterable[Token], end: int) -> tuple[tuple[Conditional, ...], tuple[Span, ...]]:
    """The #if blocks, and the directives that belong to none."""
    found: list[Conditional] = []
    stray: list[Span] = []
    stack: list[tuple[int, int]] = []
    for token in directives:
        match = _DIRECTIVE.match(token.text)
        name = match[1] if match else ""
        if name in ("if", "ifdef", "ifndef"):
            stack.append((token.span.start, 1))
        elif name in ("elif", "else", "elifdef", "elifndef", "endif"):
            if not stack:
                stray.append(token.span)
                continue
            start, branches = stack.pop()
            if name == "endif":
                found.append(Conditional(Span(start, token.span.end), branches, True))
            else:
                stack.append((start, branches + 1))
    found += [Conditional(Span(start, end), branches, False) for start, branches in stack]
    return tuple(sorted(found, key=lambda c: c.span)), tuple(stray)


def definitions(shadow: Shadow, blocks: Iterable[Conditional], surface: Surface, text: str) -> tuple[Macro, ...]:
    """Every #define, with its shape: `value` only where all it mentions is known to be one."""
    blocks = tuple(blocks)
    found: list[Macro] = []
    count: Counter[str] = Counter()
    for token in shadow.directives:
        logical = logical_text(token.text)
        match = _DEFINE.match(logical)
        if match is None:
            continue
        name = match[1]
        rest = logical[match.end() :]
        start = token.span.start + match.end() + len(rest) - len(rest.lstrip())
        span = Span(start, max(start, token.span.start + len(logical.rstrip())))
        parameters = None if match[2] is None else tuple(p.strip() for p in match[3].split(",") if p.strip())
        anchor = Anchor(FILE).child(StepKind.MACRO, name, count[name])
        count[name] += 1
        shape: MacroShape = "code" if name in _KEYWORDS else _shape(rest.strip(), surface)
        conditional = any(block.span.contains(token.span) for block in blocks)
        found.append(Macro(anchor, name, parameters, Expr(span.of(text), span), shape, conditional, token.span))
    # a qualifier that is redefined is blanked though it may mean something else
    qualifiers = {q.text for q in shadow.qualifiers}
    found = [replace(m, shape="code") if m.name in qualifiers else m for m in found]
    return _settle(found)


def _settle(macros: list[Macro]) -> tuple[Macro, ...]:
    """Turn into code what mentions code, or calls what is not a macro, until nothing changes."""
    mentioned = [{t.text for t in tokenize(logical_text(m.body.text)) if t.kind == "word"} for m in macros]
    called = [set(re.findall(r"([^\W\d]\w*)\s*\(", logical_text(m.body.text))) for m in macros]
    function_like = {m.name for m in macros if m.parameters is not None}
    users: defaultdict[str, list[int]] = defaultdict(list)
    for index, words in enumerate(mentioned):
        for word in words:
            users[word].append(index)
    code = {i for i, m in enumerate(macros) if m.shape == "code"}
    code |= {i for i, m in enumerate(macros) if m.shape == "value" and not called[i] <= function_like | {"sizeof"}}
    todo = list(code)
    while todo:
        for user in users[macros[todo.pop()].name]:
            if user not in code:
                code.add(user)
                todo.append(user)
    return tuple(replace(m, shape="code") if i in code else m for i, m in enumerate(macros))


def _shape(body: str, surface: Surface) -> MacroShape:
    """The shape of one body by itself; calls in it are settled later."""
    if not body:
        return "empty"
    shadow = cast_shadow(body, surface)
    if shadow.qualifiers or shadow.attributes or shadow.pragmas or _BREAKERS & {t.text for t in shadow.code}:
        return "code"
    wrapped = f"int m = ({shadow.text});"
    as_value = parse(wrapped, surface)
    whole = Span(wrapped.index("("), len(wrapped) - 1)
    # one node from bracket to bracket: `a) + (b` is none, and `a, b` would be two arguments
    value = next((n for n in as_value if n.span == whole and n.type == "parenthesized_expression"), None)
    if _sound(as_value) and value is not None and value.named[0].type != "comma_expression":
        inside = [n for n in as_value if n.is_named and whole.contains(n.span)]
        if all(n.type in _VALUE_NODES for n in inside):
            return "value"
    as_type = parse(f"{shadow.text} m;", surface)
    declared = [n for n in as_type if n.is_named][1:]
    types = {n.type for n in declared[1:-1]}
    declares = len(as_type[0].named) == 1 and bool(declared) and declared[0].type == "declaration"
    # the type alone, and the name `m`
    if _sound(as_type) and declares and types and types <= _TYPE_NODES and declared[-1].type == "identifier":
        return "value"
    return "code"


def _sound(nodes: list[Syntax]) -> bool:
    return not any(n.is_error or n.is_missing for n in nodes)


def uses(shadow: Shadow, macros: Iterable[Macro], text: str) -> tuple[MacroUse, ...]:
    """Where macros are used in code, uses among the arguments of others included."""
    defined: defaultdict[str, list[Macro]] = defaultdict(list)
    for macro in macros:
        defined[macro.name].append(macro)
    found: list[MacroUse] = []
    code = shadow.code
    for index, token in enumerate(code):
        if token.kind != "word" or token.text not in defined or (index and code[index - 1].text in (".", "->")):
            continue
        same = defined[token.text]
        opaque = any(m.shape == "code" for m in same)
        called = index + 1 < len(code) and code[index + 1].text == "("
        if called and any(m.parameters is not None for m in same):
            end = closing(code, index + 1)
            if end is None:
                found.append(MacroUse(token.text, (), True, Span(token.span.start, len(text))))
                continue
            spans = split_commas(code, index + 1, end)
            arguments = tuple(Expr(s.of(text), s) for s in spans)
            found.append(MacroUse(token.text, arguments, opaque, Span(token.span.start, code[end].span.end)))
        elif any(m.parameters is None for m in same):
            found.append(MacroUse(token.text, None, opaque, token.span))
    return tuple(found)
