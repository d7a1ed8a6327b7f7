"""What happens in a function body: loops, accesses, calls, assignments, declarations, vector literals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from .anchors import Anchor, StepKind, is_label
from .declare import Context, read_variables
from .loops import Draft, nest, read_loops
from .model import (
    Access,
    AccessForm,
    Assignment,
    Call,
    Expr,
    Hint,
    Loop,
    Opaque,
    OpaqueReason,
    Variable,
    VectorLiteral,
)
from .pointers import Pointer, cast_type, index_of, read_pointer, usage
from .shadow import VECTOR_TYPE
from .syntax import Syntax, commas, lone_statement, operator, strip

Occurrence = TypeVar("Occurrence", Variable, Access, Call, Assignment, VectorLiteral)
_VECTOR_MEMORY = re.compile(r"v(load|store)a?(?:_half)?(2|3|4|8|16)?(?:_rt[ezpn])?")
_NO_ARGUMENT = frozenset({"&&", "||", "&", "|", "^", "==", "!=", "<", "<=", ">="})
_HIDDEN: dict[str, OpaqueReason] = {
    "gnu_asm_expression": "assembly",
    "lambda_expression": "lambda",
    "function_definition": "macro",  # `FOR_EACH(i, n) { ... }` inside a function
    "structured_binding_declarator": "declarator",
}


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything found in one function body, in source order."""

    loops: tuple[Loop, ...]
    variables: tuple[Variable, ...]
    accesses: tuple[Access, ...]
    calls: tuple[Call, ...]
    assignments: tuple[Assignment, ...]
    literals: tuple[VectorLiteral, ...]


class BodyReader:
    """Reads one body; `opaque` gathers what it does not understand."""

    def __init__(self, context: Context, anchor: Anchor, known: Iterable[Variable], functions: Collection[str]):
        self.context = context
        self.anchor = anchor
        self.functions = functions
        self.pointers = {v.name for v in known if v.name and _leads_somewhere(v)}
        self.names = {v.name for v in known if v.name}
        self.variables: list[Variable] = []
        self.accesses: list[Access] = []
        self.calls: list[Call] = []
        self.assignments: list[Assignment] = []
        self.literals: list[VectorLiteral] = []
        self.opaque: list[Opaque] = []
        self.consumed: set[int] = set()  # id() of nodes that are part of an access seen already

    def read(self, nodes: Sequence[Syntax], hints: Sequence[tuple[int, Hint]]) -> Contents:
        """The contents of a body: its nodes in pre-order, and hints with the offset that each precedes."""
        for node in nodes:
            if node.type == "declaration":
                self._declare(node)
        for node in nodes:
            self._visit(node)
        drafts = read_loops(nodes, self.context, self.assignments)
        loops, anchors = nest(drafts, self.anchor, hints)
        return Contents(
            loops,
            self._place(self.variables, drafts, anchors),
            self._place(self.accesses, drafts, anchors),
            self._place(self.calls, drafts, anchors),
            self._place(self.assignments, drafts, anchors),
            self._place(self.literals, drafts, anchors),
        )

    def _declare(self, node: Syntax) -> None:
        variables, unclear = read_variables(node, self.context, "body", self.anchor)
        for variable in variables:
            self.variables.append(variable)
            if variable.name:
                self.names.add(variable.name)
                if _leads_somewhere(variable):
                    self.pointers.add(variable.name)
        self.opaque += [Opaque(span, "declarator") for span in unclear]

    def _visit(self, node: Syntax) -> None:
        if node.type in _HIDDEN:
            self.opaque.append(Opaque(node.span, _HIDDEN[node.type]))
        elif node.type in ("template_function", "template_method"):
            self._template(node)
        elif node.type == "call_expression":
            self._call(node)
        elif node.type in ("cast_expression", "compound_literal_expression"):
            self._literal(node)
            self._array_cast(node)
        elif node.type == "subscript_expression":
            if id(node) not in self.consumed:
                self._access(node)
        elif node.type == "pointer_expression":
            if id(node) in self.consumed:
                return
            if operator(node) == "*":
                self._access(node)
            else:
                self._assign(node, node.get("argument"), "&", None)
        elif node.type == "field_expression":
            if id(node) not in self.consumed and operator(node) == "->":
                self._member(node)
        elif node.type == "assignment_expression":
            self._assign(node, node.get("left"), operator(node), node.get("right"))
        elif node.type == "update_expression":
            self._assign(node, node.get("argument"), operator(node), None)
        elif node.type == "binary_expression":
            self._unclear_cast(node)

    def _array_cast(self, node: Syntax) -> None:
        """`-(b[i]) - (c - d) * e` may read as a cast to an array `b[i]`, which no language here has."""
        written = node.get("type") if node.type == "cast_expression" else None
        declarator = written.get("declarator") if written is not None else None
        # `(T (*)[4])p` has one, inside
        if (
            declarator is not None
            and declarator.type == "abstract_array_declarator"
            and not declarator.get("declarator")
        ):
            self.opaque.append(Opaque(node.span, "cast"))

    def _unclear_cast(self, node: Syntax) -> None:
        """`(REAL) - x` and `(REAL) * p` read as a subtraction and a product."""
        left = node.get("left")
        if left is None or left.type != "parenthesized_expression" or operator(node) not in ("+", "-", "*", "&"):
            return
        name = strip(left)
        if name.type == "identifier" and name.span.of(self.context.text) not in self.names:
            self.opaque.append(Opaque(node.span, "cast"))

    def _template(self, node: Syntax) -> None:
        """`i < n && j > (m)` reads as a call of the template i."""
        name, arguments = node.get("name"), node.get("arguments")
        inner = arguments.named if arguments is not None else []
        compares = any(a.type == "binary_expression" and operator(a) in _NO_ARGUMENT for a in inner)
        named = name is not None and node.type == "template_function"
        if compares or (named and name is not None and name.span.of(self.context.text) in self.names):
            around = node.inside(lambda n: n.type.endswith("statement") or n.type == "declaration")
            self.opaque.append(Opaque((around or node).span, "syntax"))

    def _assign(self, node: Syntax, target: Syntax | None, sign: str, value: Syntax | None) -> None:
        if target is None:
            return
        target = strip(target)
        component = None
        while target.type == "field_expression":
            name, argument = target.get("field"), target.get("argument")
            if name is None or argument is None or operator(target) == "->":
                return
            component = name.span.of(self.context.text) + ("." + component if component else "")
            target = strip(argument)
        if target.type != "identifier" or target.is_missing:
            return
        label = target.span.of(self.context.text)
        anchor = self.anchor.child(StepKind.ASSIGN, label)
        written = self.context.expr(value) if value is not None else None
        self.assignments.append(Assignment(anchor, label, component, sign, written, lone_statement(node), node.span))

    def _call(self, node: Syntax) -> None:
        function, arguments = node.get("function"), node.get("arguments")
        if function is None or arguments is None:
            return
        if function.type in ("primitive_type", "sized_type_specifier") or cast_type(node, self.context) is not None:
            return  # float(x), static_cast<float>(x)
        texts = tuple(self.context.expr(a) for a in arguments.named)
        inner = strip(function)
        if function is not inner and inner.type == "identifier":
            name = inner.span.of(self.context.text)
            if name not in self.names | set(self.functions):  # (REAL4)(a, b, c, d)
                self._add_literal(name, texts, node)
                return
        while inner.type == "template_function" and (named := inner.get("name")) is not None:
            inner = named
        if inner.type == "field_expression":
            self.consumed.add(id(inner))
        callee = re.sub(r"<.*>|\s", "", self.context.shadow.words(inner.span), flags=re.DOTALL)
        plain = inner.type in ("identifier", "qualified_identifier", "field_expression", "template_method")
        if not plain or not is_label(callee) or "(" in callee:
            self.opaque.append(Opaque(node.span, "name"))
            return
        anchor = self.anchor.child(StepKind.CALL, callee)
        self.calls.append(Call(anchor, callee, function.span, texts, lone_statement(node), node.span))
        memory = _VECTOR_MEMORY.fullmatch(callee) if self.context.surface == "opencl" else None
        if memory is not None and callee not in self.functions:
            self._vector_access(node, arguments.named, memory)

    def _vector_access(self, node: Syntax, arguments: list[Syntax], match: re.Match[str]) -> None:
        loads = match[1] == "load"
        pointer = None
        if len(arguments) == (2 if loads else 3):
            pointer = read_pointer(arguments[-1], self.context, self.pointers)
        origin = pointer.origin if pointer is not None else ()
        if pointer is not None and pointer.above is not None:
            origin = (*origin, pointer.above)
        if pointer is None or (pointer.above is not None and not _adds_up(pointer)):
            self.opaque.append(Opaque(node.span, "pointer"))
            return
        form: AccessForm = "vload" if loads else "vstore"
        indices = (self.context.expr(arguments[-2]),)
        self._add_access(node, form, pointer, origin, indices, int(match[2] or 1))

    def _literal(self, node: Syntax) -> None:
        written, value = node.get("type"), node.get("value")
        if written is None or value is None or self.context.surface != "opencl":
            return
        name = self.context.shadow.words(written.span)
        if value.type == "initializer_list":
            arguments = value.named
        elif value.type == "parenthesized_expression" and VECTOR_TYPE.fullmatch(name):
            arguments = commas(value.named)
        else:
            return
        self._add_literal(name, tuple(self.context.expr(a) for a in arguments), node)

    def _add_literal(self, name: str, arguments: tuple[Expr, ...], node: Syntax) -> None:
        if not is_label(name):
            self.opaque.append(Opaque(node.span, "name"))
            return
        anchor = self.anchor.child(StepKind.LITERAL, name)
        self.literals.append(VectorLiteral(anchor, name, arguments, node.span))

    def _access(self, node: Syntax) -> None:
        """An access through `*p` or `a[i][j]`, of which `node` is the outermost subscript."""
        indices: list[Expr] = []
        inner = node
        while inner.type == "subscript_expression":
            self.consumed.add(id(inner))
            index, base = index_of(inner), inner.get("argument")
            if index is None or base is None:
                self.opaque.append(Opaque(node.span, "pointer"))
                return
            indices.insert(0, self.context.expr(index))
            inner = strip(base)
        subscript = bool(indices)
        if not subscript:
            target = node.get("argument")
            if target is None:
                return
            inner = target
        pointer = read_pointer(inner, self.context, self.pointers)
        if pointer is None:
            self.opaque.append(Opaque(node.span, "pointer"))
            return
        origin, above = pointer.origin, pointer.above
        if subscript:
            if above is not None:
                clear = _adds_up(pointer)
                origin = (*origin, above)
            else:
                clear = not origin or pointer.by_address or pointer.cast is not None
        else:
            added = (above,) if above is not None else ()
            # without a cast, `*t[i]` reads through t[i]
            clear = pointer.cast is not None or pointer.by_address or bool(added) or not origin
            indices = list(added if pointer.cast is not None else (*origin, *added))
            origin = origin if pointer.cast is not None else ()
        if not clear:
            self.opaque.append(Opaque(node.span, "pointer"))
            return
        self._add_access(node, "subscript" if subscript else "pointer", pointer, origin, tuple(indices), None)

    def _member(self, node: Syntax) -> None:
        """`p->x`: a member behind a pointer."""
        argument = node.get("argument")
        pointer = read_pointer(argument, self.context, self.pointers) if argument is not None else None
        if pointer is None or pointer.origin or pointer.above or pointer.cast:
            self.opaque.append(Opaque(node.span, "pointer"))
            return
        self._add_access(node, "pointer", pointer, (), (), None)

    def _add_access(
        self,
        node: Syntax,
        form: AccessForm,
        pointer: Pointer,
        origin: tuple[Expr, ...],
        indices: tuple[Expr, ...],
        width: int | None,
    ) -> None:
        self.consumed.update(map(id, pointer.consumed))
        base = pointer.base.span.of(self.context.text)
        label = ".".join((base, *pointer.members))
        if pointer.base.is_missing or not is_label(label):
            self.opaque.append(Opaque(node.span, "name"))
            return
        mode, component = usage(node, self.context.text)
        if width is not None:
            mode, component = ("read" if form == "vload" else "write"), None
        elif node.type == "field_expression" and (name := node.get("field")) is not None:
            component = ".".join(filter(None, (name.span.of(self.context.text), component)))
        self.accesses.append(
            Access(
                anchor=self.anchor.child(StepKind.ACCESS, label),
                form=form,
                mode=mode,
                base=base,
                base_span=pointer.base.span,
                members=pointer.members,
                origin=origin,
                cast=pointer.cast,
                indices=indices,
                component=component,
                width=width,
                span=node.span,
            )
        )

    def _place(
        self, found: list[Occurrence], drafts: Sequence[Draft], anchors: Sequence[Anchor]
    ) -> tuple[Occurrence, ...]:
        """Give everything its anchor: the innermost loop around it and its number there, in source order."""
        count: Counter[tuple[Anchor, str]] = Counter()
        placed: list[Occurrence] = []
        # pre-order already, but for declarations of several names and vector accesses
        stack: list[int] = []
        following = 0
        for item in sorted(found, key=lambda i: (_at(i), -i.span.end)):
            at = _at(item)
            while following < len(drafts) and drafts[following].span.start <= at:
                stack.append(following)
                following += 1
            while stack and drafts[stack[-1]].span.end <= at:
                stack.pop()
            scope = anchors[stack[-1]] if stack else self.anchor
            step = item.anchor.steps[-1]
            key = (scope, step.label)
            placed.append(replace(item, anchor=scope.child(step.kind, step.label, count[key])))
            count[key] += 1
        return tuple(placed)


def _at(item: Variable | Access | Call | Assignment | VectorLiteral) -> int:
    return item.declarator.start if isinstance(item, Variable) else item.span.start


def _adds_up(pointer: Pointer) -> bool:
    """Whether what is added outside is an index of the base of its own, behind those of the origin: `t[i] + j`.

    Outside a cast it counts elements of the cast; to `&t[i]` it is added where `i` is, not behind it.
    """
    return pointer.cast is None and not pointer.by_address


def _leads_somewhere(variable: Variable) -> bool:
    return variable.pointer_depth > 0 or bool(variable.dims) or variable.base_type == "auto"
