"""Declarations: what tree-sitter's declarators and the remembered qualifiers say about a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .anchors import Anchor, StepKind, is_label
from .edits import Span
from .model import AddressSpace, Expr, Qualifier, Variable
from .shadow import Shadow, Surface
from .syntax import Syntax

Scope = Literal["file", "body", "entry", "helper"]  # the latter two: parameters of a kernel, of another function

_NAMES = frozenset({"identifier", "field_identifier", "type_identifier", "qualified_identifier"})
_WRAPPERS = frozenset({"init_declarator", "parenthesized_declarator", "attributed_declarator"})
_POINTERS = frozenset({"pointer_declarator", "abstract_pointer_declarator"})
_ARRAYS = frozenset({"array_declarator", "abstract_array_declarator"})
_REFERENCES = frozenset({"reference_declarator", "abstract_reference_declarator"})


@dataclass(frozen=True, slots=True)
class Context:
    """What the readers of one text share."""

    text: str
    shadow: Shadow
    surface: Surface

    def expr(self, node: Syntax) -> Expr:
        """The expression of a node, as written in the kernel text."""
        return Expr(node.span.of(self.text), node.span)


@dataclass(frozen=True, slots=True)
class Declarator:
    """A declarator taken apart."""

    name: Syntax | None
    pointer_depth: int
    dims: tuple[Syntax | None, ...]
    is_reference: bool
    is_function: bool
    plain: bool
    """False for pointers to functions or arrays and for what has no single name."""


def read_declarator(node: Syntax | None) -> Declarator:
    """Take a declarator apart, from its outside to the name."""
    depth = 0
    dims: list[Syntax | None] = []
    reference = function = False
    plain = True
    while node is not None and node.type not in _NAMES:
        if node.type in _POINTERS:
            depth += 1
            plain = plain and not dims and not function
        elif node.type in _ARRAYS:
            dims.append(node.get("size"))
        elif node.type in _REFERENCES:
            reference = True
        elif node.type == "function_declarator":
            plain = plain and not function
            function = True
        elif node.type not in _WRAPPERS:
            return Declarator(None, depth, tuple(reversed(dims)), reference, function, False)
        inner = node.get("declarator")
        if inner is None:  # references and parentheses do not name the field
            inner = next((c for c in node.named if c.type.endswith("declarator") or c.type in _NAMES), None)
        node = inner
    return Declarator(node, depth, tuple(reversed(dims)), reference, function, plain)


def read_variables(node: Syntax, context: Context, scope: Scope, owner: Anchor) -> tuple[list[Variable], list[Span]]:
    """The variables of a declaration or parameter, and the declarators that are not understood.

    Anchors are those under `owner` with ordinal 0: loops and ordinals are not known yet. Function
    declarations give neither.
    """
    shadow = context.shadow
    lead = shadow.lead(node.span.start)
    parameter = scope in ("entry", "helper")
    whole = Span(lead, shadow.trail(node.span.end) if parameter else node.span.end)
    type_node = node.get("type")
    declarators: list[Syntax | None] = list(node.all("declarator"))
    if not declarators and parameter:
        declarators = [None]
    if type_node is None:
        return [], [whole]
    base = type_node.span
    heads = [d.span.start for d in declarators if d is not None]
    specifiers = Span(lead, min(heads, default=whole.end))
    common = [q for q in shadow.qualifiers if specifiers.contains(q.span)]
    storage = tuple(
        c.span.of(context.text)
        for c in node.children
        if c.type == "storage_class_specifier"
        or (c.type == "type_qualifier" and c.span.of(context.text) == "constexpr")
    )
    variables: list[Variable] = []
    unclear: list[Span] = []
    for declarator in declarators:
        read = read_declarator(declarator)
        if read.is_function and read.plain:
            continue
        span = declarator.span if declarator is not None else Span(whole.end, whole.end)
        label = read.name.span.of(context.text) if read.name else "_"
        if not read.plain or (read.name is None and not parameter) or not is_label(label):
            unclear.append(whole)
            continue
        name = read.name
        value = declarator.get("value") if declarator is not None and declarator.type == "init_declarator" else None
        value = value or node.get("default_value")
        if read.dims and value is not None and value.type not in ("initializer_list", "string_literal"):
            unclear.append(whole)  # `NAME A[0] = x;` with NAME a macro from elsewhere
        own = Span(span.start, name.span.end if name else whole.end)
        qualifiers = (*common, *(q for q in shadow.qualifiers if own.contains(q.span)))
        attributes = tuple(
            a for a in shadow.attributes if whole.contains(a.span) and not (value and value.span.contains(a.span))
        )
        variables.append(
            Variable(
                anchor=owner.child(StepKind.PARAM if parameter else StepKind.VAR, label),
                name=name.span.of(context.text) if name else None,
                base_type=shadow.words(base),
                pointer_depth=read.pointer_depth,
                dims=tuple(context.expr(d) if d else None for d in read.dims),
                address_space=_space(read, qualifiers, context.surface, scope),
                is_reference=read.is_reference,
                qualifiers=qualifiers,
                attributes=attributes,
                storage=storage,
                initializer=context.expr(value) if value else None,
                span=whole,
                type_span=base,
                name_span=name.span if name else None,
                declarator=span,
                alone=len(declarators) == 1,
            )
        )
    return variables, unclear


def _space(read: Declarator, qualifiers: tuple[Qualifier, ...], surface: Surface, scope: Scope) -> AddressSpace:
    """The address space of what the declared name holds or leads to."""
    stated = [q for q in qualifiers if q.space is not None]
    # parameters of array type are pointers
    points = (read.pointer_depth > 0 and not read.dims) or (bool(read.dims) and scope in ("entry", "helper"))
    if surface == "cuda":
        # CUDA's qualifiers say where the variable itself lies
        if points:
            return "global" if scope == "entry" else "generic"
        return next((q.space for q in reversed(stated) if q.space), "private")
    of_pointer = bool(read.dims) and read.pointer_depth > 0
    space = next((q.space for q in reversed(stated) if q.on_pointer == of_pointer and q.space), None)
    if space is not None:
        return space
    if points:
        return "generic"
    return "global" if scope == "file" else "private"
