"""Which name a pointer expression starts from: `*(float4 *)(A + i)` reads A."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from .declare import Context
from .edits import Span
from .model import Expr, Mode
from .syntax import Syntax, operator, strip, unwrap

_CASTS = frozenset({"reinterpret_cast", "static_cast", "const_cast"})


@dataclass(slots=True)
class Pointer:
    """A pointer expression taken apart, from the outside to the base."""

    base: Syntax
    members: tuple[str, ...]
    origin: tuple[Expr, ...]
    """The element of the base that a cast or an outer index starts from."""
    cast: str | None
    above: Expr | None
    """What is added outside the cast, in elements of the cast; without a cast, of the base."""
    by_address: bool
    """`origin` comes from `&A[i]`, so that what is added is added to it."""
    consumed: list[Syntax] = field(default_factory=list)
    """Accesses and address operators that are part of it, not accesses of their own."""


def cast_type(node: Syntax, context: Context) -> str | None:
    """The type of a cast expression or of `reinterpret_cast<T>(x)`; None for anything else."""
    if node.type == "cast_expression":
        written = node.get("type")
        return context.shadow.words(written.span) if written is not None else None
    if node.type == "call_expression":
        function = node.get("function")
        if function is not None and function.type == "template_function":
            name, arguments = function.get("name"), function.get("arguments")
            if name is not None and name.span.of(context.text) in _CASTS and arguments is not None:
                return context.shadow.words(Span(arguments.span.start + 1, arguments.span.end - 1))
    return None


def cast_value(node: Syntax) -> Syntax | None:
    """What a cast is applied to."""
    if node.type == "cast_expression":
        return node.get("value")
    arguments = node.get("arguments")
    return arguments.named[0] if arguments is not None and len(arguments.named) == 1 else None


def index_of(subscript: Syntax) -> Syntax | None:
    """The index of `a[i]`; None for `a[i, j]`, which C and C++23 read differently."""
    indices = subscript.get("indices")
    inner = indices.named if indices is not None else []
    return inner[0] if len(inner) == 1 and inner[0].type != "comma_expression" else None


def read_pointer(node: Syntax, context: Context, pointers: Collection[str]) -> Pointer | None:
    """Take the value of a pointer expression apart; `pointers` are the names known to be pointers or arrays.

    None where the base is not certain (a call, a choice, two sums, a pointer read through a pointer).
    """
    cast: str | None = None
    above: Expr | None = None
    start: tuple[Expr, ...] = ()
    members: list[str] = []
    by_address = False
    consumed: list[Syntax] = []
    while True:
        node = strip(node)
        written = cast_type(node, context)
        if written is not None:
            inner = cast_value(node)
            # only the outermost cast counts, and nothing may be added between two
            if inner is None or "*" not in written or start:
                return None
            if cast is None:
                cast = written
            node = inner
        elif node.type == "identifier":
            return Pointer(node, tuple(reversed(members)), start, cast, above, by_address, consumed)
        elif node.type == "field_expression":
            argument, name = node.get("argument"), node.get("field")
            if argument is None or name is None:
                return None
            members.append(name.span.of(context.text))
            consumed.append(node)
            node = argument
        elif node.type == "binary_expression":
            parts = _sum(node, context, pointers)
            if parts is None or start or members or (cast is None and above is not None):
                return None
            node, term = parts
            if cast is None:
                above = term
            else:
                start = (term,)
        elif node.type == "subscript_expression" or (node.type == "pointer_expression" and operator(node) == "&"):
            # `t[i].rows`: its members stand behind an index, not before
            if members:
                return None
            if node.type == "pointer_expression":
                consumed.append(node)
                target = node.get("argument")
                if target is None or start or (cast is None and above is not None):
                    return None
                by_address = True
                node = strip(target)
                if node.type != "subscript_expression":
                    continue
            elif start:
                return None
            peeled = _peel(node, context)
            if peeled is None:
                return None
            node, start, taken = peeled
            consumed += taken
        else:
            return None


def _peel(node: Syntax, context: Context) -> tuple[Syntax, tuple[Expr, ...], list[Syntax]] | None:
    """The base of `t[i][j]`, its indices, outermost first, and the subscripts."""
    indices: list[Expr] = []
    taken: list[Syntax] = []
    while node.type == "subscript_expression":
        index, base = index_of(node), node.get("argument")
        if index is None or base is None:
            return None
        indices.append(context.expr(index))
        taken.append(node)
        node = strip(base)
    return node, tuple(reversed(indices)), taken


def _sum(node: Syntax, context: Context, pointers: Collection[str]) -> tuple[Syntax, Expr] | None:
    """The pointer and what is added to it: of `p + a - b` it is `a - b`; `i + p` is read too."""
    leftmost, first = node, node
    while leftmost.type == "binary_expression" and operator(leftmost) in ("+", "-"):
        first = leftmost
        left = leftmost.get("left")
        if left is None:
            return None
        leftmost = left
    term, right = first.get("right"), node.get("right")
    if term is None or right is None or operator(first) != "+":
        return None
    if _is_pointer(leftmost, context, pointers):
        span = Span(term.span.start, right.span.end)
        return leftmost, Expr(span.of(context.text), span)
    if first is node and _is_pointer(right, context, pointers):
        return right, context.expr(leftmost)
    return None


def _is_pointer(node: Syntax, context: Context, pointers: Collection[str]) -> bool:
    while True:
        node = strip(node)
        written = cast_type(node, context)
        if written is not None:
            return "*" in written
        if node.type == "identifier":
            return node.span.of(context.text) in pointers
        if node.type == "pointer_expression":
            return operator(node) == "&"
        if node.type == "field_expression":
            name = node.get("field")
            return name is not None and name.span.of(context.text) in pointers
        inner = node.get("left") if node.type == "binary_expression" else None
        inner = node.get("argument") if node.type == "subscript_expression" else inner
        if inner is None:
            return False
        node = inner


def usage(node: Syntax, text: str) -> tuple[Mode, str | None]:
    """How an access is used, and which component of it."""
    components: list[str] = []
    parent = (node := unwrap(node)).parent
    while parent is not None and parent.type == "field_expression" and operator(parent) == ".":
        part = parent.get("field")
        components.append(part.span.of(text) if part is not None else "")
        parent = (node := unwrap(parent)).parent
    mode: Mode = "read"
    if parent is None:
        pass
    elif parent.type == "assignment_expression" and node.field == "left":
        mode = "write" if operator(parent) == "=" else "read_write"
    elif parent.type == "update_expression":
        mode = "read_write"
    elif parent.type == "pointer_expression" and operator(parent) == "&":
        mode = "address"
    elif parent.type == "init_declarator":
        declarator = parent.get("declarator")
        mode = "address" if declarator is not None and declarator.type == "reference_declarator" else "read"
    return mode, ".".join(components) or None
