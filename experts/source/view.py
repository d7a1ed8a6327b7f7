"""The parsed view of a kernel's code."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from .anchors import FILE, Anchor, StepKind, is_label, is_root
from .body import BodyReader
from .declare import Context, Scope, read_declarator, read_variables
from .edits import Span
from .loops import read_hints
from .macros import Conditional, conditionals, definitions, uses
from .model import (
    Attribute,
    Expr,
    Function,
    Hint,
    Macro,
    MacroUse,
    Node,
    Opaque,
    OpaqueReason,
    Qualifier,
    Variable,
)
from .shadow import Pragma, Shadow, Surface, cast_shadow
from .syntax import Syntax, parse

_STATEMENTS = ("_statement", "declaration", "_definition", "for_range_loop")


@dataclass(frozen=True)
class SourceView:
    """What is known about a kernel text. Made by `view`."""

    text: str
    surface: Surface
    functions: tuple[Function, ...]
    """All functions with a body, kernels included, in source order."""
    variables: tuple[Variable, ...]
    """What is declared outside functions: constant tables."""
    macros: tuple[Macro, ...]
    macro_uses: tuple[MacroUse, ...]
    qualifiers: tuple[Qualifier, ...]
    """Every qualifier in the text, those of casts included."""
    pragmas: tuple[Pragma, ...]
    """Every pragma; those of loops are `Loop.hints`, too."""
    opaque: tuple[Opaque, ...]
    """What is not understood, in source order; may overlap."""
    _nodes: dict[Anchor, Node] = field(repr=False, compare=False)
    _shadow: Shadow = field(repr=False, compare=False)

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels."""
        return tuple(f for f in self.functions if f.is_entry)

    @property
    def helpers(self) -> tuple[Function, ...]:
        """The functions that are no kernels."""
        return tuple(f for f in self.functions if not f.is_entry)

    def entry(self, name: str) -> Function | None:
        """The kernel of that name."""
        return next((f for f in self.entries if f.name == name), None)

    def is_opaque(self, span: Span) -> bool:
        """Whether any of the span is not understood. A rule that touches it must decline."""
        return self.why_opaque(span) is not None

    def why_opaque(self, span: Span) -> OpaqueReason | None:
        """Why the span is not understood; None where it is. An empty span asks about the place it is at."""
        probe = span if span.end > span.start else Span(span.start, span.start + 1)
        return next((o.reason for o in self.opaque if o.span.overlaps(probe)), None)

    def anchors(self) -> tuple[Anchor, ...]:
        """The anchors of everything that has one: file, then functions in source order."""
        return tuple(self._nodes)

    def find(self, anchor: Anchor) -> Node | None:
        """What stands at an anchor: `find(node.anchor) is node`."""
        return self._nodes.get(anchor)

    def parent(self, node: Node) -> Node | None:
        """The loop or function around a node; None for functions and what stands outside them."""
        above = node.anchor.parent if node.anchor is not None else None
        return self._nodes.get(above) if above is not None else None

    def occurrences(self, name: str, within: Span | None = None) -> tuple[Span, ...]:
        """Where an identifier stands in code: not in comments, strings, preprocessor lines, nor as a member.

        By spelling: shadowing is not looked at.
        """
        within = within or Span(0, len(self.text))
        code = self._shadow.code
        first, end = self._shadow.index_at(within.start), self._shadow.index_at(within.end)
        return tuple(
            code[i].span
            for i in range(first, end)
            if code[i].text == name and code[i].kind == "word" and not (i and code[i - 1].text in (".", "->"))
        )

    @cached_property
    def tree(self) -> Syntax:
        """The root of the syntax tree; spans are offsets into `text`.

        Of a stand-in text: comments, preprocessor lines, attributes and OpenCL's qualifiers are missing, OpenCL's types
        have other names, and its `<` is a `>`. So read names and operators through spans.
        """
        return parse(self._shadow.text, self.surface)[0]

    def words(self, span: Span) -> str:
        """The code of `span` in one spelling, without qualifiers: `float4 *` for `__global const float4*`."""
        return self._shadow.words(span)

    def macros_that_mention(self, name: str) -> tuple[Macro, ...]:
        """The macros whose body holds the word: occurrences that `occurrences` does not see."""
        return tuple(m for m in self.macros if name in _words(m.body))


def _words(body: Expr) -> set[str]:
    return {t.text for t in cast_shadow(body.text, "cuda").code if t.kind == "word"}


def view(text: str, surface: Surface) -> SourceView:
    """Parse a kernel text. Any text has a view: what is not understood is in `opaque`."""
    shadow = cast_shadow(text, surface)
    context = Context(text, shadow, surface)
    nodes = parse(shadow.text, surface)
    blocks, strays = conditionals(shadow.directives, len(text))
    macros = definitions(shadow, blocks, surface, text)
    used = uses(shadow, macros, text)
    opaque = [Opaque(span, "syntax") for span in shadow.stray]
    opaque += [Opaque(span, "conditional") for span in strays]
    opaque += [Opaque(use.span, "macro") for use in used if use.opaque]
    opaque += _errors(nodes)

    reader = _FileReader(context, nodes, {m.name for m in macros})
    reader.read()
    opaque += reader.opaque
    opaque += _branches(blocks, reader.functions, shadow)
    opaque += _lost_kernels(shadow, reader.functions)
    found: dict[Anchor, Node] = {}
    found.update((macro.anchor, macro) for macro in macros)
    found.update((variable.anchor, variable) for variable in reader.variables)
    for function in reader.functions:
        found.update(_nodes_of(function))
    return SourceView(
        text,
        surface,
        tuple(reader.functions),
        tuple(reader.variables),
        macros,
        used,
        shadow.qualifiers,
        shadow.pragmas,
        tuple(sorted(set(opaque), key=lambda o: (o.span, o.reason))),
        found,
        shadow,
    )


class _FileReader:
    """Reads what stands at file level; functions after variables, which they use."""

    def __init__(self, context: Context, nodes: list[Syntax], macros: set[str]) -> None:
        self.context = context
        self.nodes = nodes
        self.macros = macros
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.opaque: list[Opaque] = []

    def read(self) -> None:
        """Fill functions, variables and opaque."""
        count: Counter[str] = Counter()
        bodies: list[Syntax] = []
        covered = 0
        for node in self.nodes:
            if node.span.start < covered:
                continue
            if node.type == "function_definition":
                bodies.append(node)
                covered = node.span.end
            elif node.type == "declaration":
                self._declare(node, count)
                covered = node.span.end
        names = {n.span.of(self.context.text) for b in bodies if (n := _function_name(b)) is not None}
        hints = read_hints(self.context)
        roots: Counter[str] = Counter()
        starts = [n.span.start for n in self.nodes]
        for node in bodies:
            # the nodes of a definition are neighbours in pre-order
            first = bisect_left(starts, node.span.start)
            end = bisect_left(starts, node.span.end)
            function = self._function(node, self.nodes[first:end], names, hints, roots)
            if function is not None:
                self.functions.append(function)

    def _declare(self, node: Syntax, count: Counter[str]) -> None:
        variables, unclear = read_variables(node, self.context, "file", Anchor(FILE))
        for variable in variables:
            label = variable.anchor.steps[-1].label
            anchor = Anchor(FILE).child(StepKind.VAR, label, count[label])
            count[label] += 1
            self.variables.append(replace(variable, anchor=anchor))
        self.opaque += [Opaque(span, "declarator") for span in unclear]

    def _function(
        self,
        node: Syntax,
        nodes: list[Syntax],
        names: set[str],
        hints: list[tuple[int, Hint]],
        roots: Counter[str],
    ) -> Function | None:
        context, shadow = self.context, self.context.shadow
        named, body, written = _function_name(node), node.get("body"), node.get("type")
        declarator = _function_declarator(node)
        listed = declarator.get("parameters") if declarator is not None else None
        name = shadow.words(named.span) if named is not None else ""
        if body is None or written is None or listed is None or not is_root(name) or name in self.macros:
            self.opaque.append(Opaque(node.span, "macro"))  # `DEFINE_GEMM(float) { ... }` and constructors
            return None
        anchor = Anchor(name, roots[name])
        roots[name] += 1
        start = shadow.lead(node.span.start)
        around = (Span(start, listed.span.start), Span(listed.span.end, body.span.start))
        qualifiers = tuple(q for q in shadow.qualifiers if any(s.contains(q.span) for s in around))
        entry = any(q.kind == "kernel" for q in qualifiers)
        count: Counter[str] = Counter()
        attributes: list[Attribute] = []
        for attribute in shadow.attributes:
            if any(s.contains(attribute.span) for s in around):
                label = attribute.name if is_label(attribute.name) else "_"
                place = anchor.child(StepKind.ATTRIBUTE, label, count[label])
                attributes.append(replace(attribute, anchor=place))
                count[label] += 1
        parameters = self._parameters(listed, anchor, "entry" if entry else "helper")
        known = (*self.variables, *parameters)
        reader = BodyReader(context, anchor, known, names)
        contents = reader.read([n for n in nodes if body.span.contains(n.span)], hints)
        self.opaque += reader.opaque
        return Function(
            anchor,
            name,
            entry,
            shadow.words(written.span),
            Span(start, node.span.end),
            body.span,
            parameters,
            listed.span,
            qualifiers,
            tuple(attributes),
            contents.loops,
            contents.variables,
            contents.accesses,
            contents.calls,
            contents.assignments,
            contents.literals,
        )

    def _parameters(self, listed: Syntax, owner: Anchor, scope: Scope) -> tuple[Variable, ...]:
        count: Counter[str] = Counter()
        parameters: list[Variable] = []
        for node in listed.named:
            if node.type not in ("parameter_declaration", "optional_parameter_declaration"):
                self.opaque.append(Opaque(node.span, "declarator"))
                continue
            found, unclear = read_variables(node, self.context, scope, owner)
            self.opaque += [Opaque(span, "declarator") for span in unclear]
            for variable in found:
                if variable.base_type == "void" and not variable.pointer_depth and variable.name is None:
                    continue
                label = variable.anchor.steps[-1].label
                anchor = owner.child(StepKind.PARAM, label, count[label])
                count[label] += 1
                parameters.append(replace(variable, anchor=anchor))
        return tuple(parameters)


def _function_declarator(node: Syntax) -> Syntax | None:
    declarator = node.get("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.get("declarator")
        declarator = inner or next((c for c in declarator.named if c.type.endswith("declarator")), None)
    return declarator


def _function_name(node: Syntax) -> Syntax | None:
    declarator = _function_declarator(node)
    read = read_declarator(declarator)
    return read.name if read.plain and read.is_function else None


def _nodes_of(function: Function) -> Iterator[tuple[Anchor, Node]]:
    yield function.anchor, function
    for attribute in function.attributes:
        if attribute.anchor is not None:
            yield attribute.anchor, attribute
    loops = tuple(function.walk_loops())
    hints = (hint for loop in loops for hint in loop.hints)
    inner: tuple[Node, ...] = (
        *function.parameters,
        *function.variables,
        *loops,
        *hints,
        *function.accesses,
        *function.calls,
        *function.assignments,
        *function.literals,
    )
    for node in inner:
        if node.anchor is not None:
            yield node.anchor, node


def _errors(nodes: list[Syntax]) -> Iterator[Opaque]:
    """What the parser did not understand, and the statement around it: the tree near an error may be off."""
    for node in nodes:
        if not (node.is_error or node.is_missing):
            continue
        around = node.inside(lambda n: n.type.endswith(_STATEMENTS) and n.type != "compound_statement")
        block = node.inside(lambda n: n.type in ("compound_statement", "translation_unit", "declaration_list"))
        outer = around
        if around is None or (block is not None and around.span.contains(block.span)):
            outer = None
        if outer is not None and (not node.is_error or outer.type == "function_definition"):
            yield Opaque(outer.span, "syntax")
            continue
        # between statements: the neighbours belong to it as likely as not
        unit = outer or node
        siblings = unit.parent.children if unit.parent is not None else [unit]
        at = siblings.index(unit)
        first = siblings[max(at - 1, 0)].span
        last = siblings[min(at + 1, len(siblings) - 1)].span
        yield Opaque(Span(min(first.start, unit.span.start), max(last.end, unit.span.end)), "syntax")


def _branches(blocks: tuple[Conditional, ...], functions: list[Function], shadow: Shadow) -> Iterator[Opaque]:
    """Code under #if: inside a function, or with an alternative, it may stand or not."""
    for block in blocks:
        first, end = shadow.index_at(block.span.start), shadow.index_at(block.span.end)
        if first == end and not any(block.span.contains(p.span) for p in shadow.pragmas):
            continue
        cut = any(block.span.overlaps(f.span) and not block.span.contains(f.span) for f in functions)
        if cut or block.branches > 1 or not block.closed:
            yield Opaque(block.span, "conditional")


def _lost_kernels(shadow: Shadow, functions: list[Function]) -> Iterator[Opaque]:
    """`__kernel` without a function that has a body: a prototype, or a definition that was not understood."""
    for qualifier in shadow.qualifiers:
        if qualifier.kind == "kernel" and not any(f.span.contains(qualifier.span) for f in functions):
            yield Opaque(qualifier.span, "syntax")
