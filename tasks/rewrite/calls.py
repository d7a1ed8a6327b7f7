"""Calls of built-in functions that have another spelling with operators, both ways: `mad(a, b, c)`, `a * b + c`.

Sites are numbered in source order among all places of a function that have the form. Parentheses appear where an
operand or the surroundings need them, and only there; going back, exactly those are dropped again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from experts.kernel import Kernel
from experts.source import Function, SourceView, Span, TextEdit
from experts.source.lexer import tokenize
from experts.source.syntax import Syntax, operator
from tasks.rewrite.edit import NotApplicable
from tasks.rewrite.text import rewritten, source
from tasks.rewrite.tree import PRODUCT, SUM, UNARY, binding, inside, slot

Shape = Literal["multiply-add", "reciprocal", "quotient"]


@dataclass(frozen=True)
class Form:
    """An expression of operators that a call stands for."""

    shape: Shape
    binds: int
    operands: tuple[int, ...]
    """How tightly each operand must hold together."""

    def spelled(self, operands: list[str]) -> str:
        """The expression of these operands."""
        match self.shape:
            case "multiply-add":
                return "{} * {} + {}".format(*operands)
            case "reciprocal":
                return "1.0f / {}".format(*operands)
            case "quotient":
                return "{} / {}".format(*operands)

    def parts(self, node: Syntax, text: str) -> list[Syntax] | None:
        """The operands of a node of this form; None for any other node."""
        left, right = node.get("left"), node.get("right")
        if node.type != "binary_expression" or left is None or right is None:
            return None
        sign = operator(node)
        if self.shape == "multiply-add":
            if sign != "+" or left.type != "binary_expression" or operator(left) != "*":
                return None
            first, second = left.get("left"), left.get("right")
            return [first, second, right] if first is not None and second is not None else None
        if sign != "/":
            return None
        if self.shape == "reciprocal":
            return [right] if left.span.of(text) == "1.0f" else None
        return [left, right]


MULTIPLY_ADD = Form("multiply-add", SUM, (PRODUCT, UNARY, PRODUCT))
RECIPROCAL = Form("reciprocal", PRODUCT, (UNARY,))
QUOTIENT = Form("quotient", PRODUCT, (PRODUCT, UNARY))


@dataclass(frozen=True)
class Opened:
    """A kernel whose calls became operators, and what puts them back."""

    kernel: Kernel
    sites: tuple[int, ...]
    texts: tuple[str, ...]
    """The outermost calls as they were written; empty where they follow from the operators."""


def calls(kernel: Kernel, function: Function, callee: str) -> list[Syntax]:
    """The calls of a name in a function, as nodes."""
    spans = {call.span for call in function.calls if call.callee == callee}
    found = inside(kernel, function) if spans else ()
    return [node for node in found if node.type == "call_expression" and node.span in spans]


def places(kernel: Kernel, function: Function, form: Form) -> list[Syntax]:
    """The expressions of a form in a function, in source order."""
    return [node for node in inside(kernel, function) if form.parts(node, kernel.text) is not None]


def fault_of(kernel: Kernel, view: SourceView, node: Syntax) -> str | None:
    """Why a place is not understood; None where it is."""
    why = view.why_opaque(node.span)
    if why is not None:
        return f"code that is not understood ({why})"
    if any(token.kind == "directive" for token in tokenize(node.span.of(kernel.text))):
        return "a preprocessor line stands inside"
    return None


def opened(kernel: Kernel, function: Function, callee: str, form: Form) -> Opened:
    """The calls written with operators. Raises NotApplicable."""
    view = _view(kernel)
    sites = calls(kernel, function, callee)
    if not sites:
        raise NotApplicable(f"{callee} is not called")
    chosen: dict[int, list[Syntax]] = {}
    for site in sites:
        arguments = site.get("arguments")
        operands = arguments.named if arguments is not None else []
        fault = fault_of(kernel, view, site)
        if fault is not None or len(operands) != len(form.operands):
            raise NotApplicable(fault or f"a call of {callee} has another number of arguments")
        chosen[id(site)] = operands

    def spell(node: Syntax, render: _Render) -> tuple[str, str, str]:
        operands = []
        for operand, level in zip(chosen[id(node)], form.operands, strict=True):
            tight = form.binds if id(operand) in chosen else binding(operand, view)
            written = render(operand, free=True)
            operands.append(f"({written})" if tight < level else written)
        open_, close = ("(", ")") if slot(node, view) > form.binds else ("", "")
        return open_, form.spelled(operands), close

    marked = _Marked(kernel.text, chosen, spell)
    changes = [TextEdit.replace(n.span, marked.render(n)) for n in sites if not _under(n, chosen)]
    plain = rewritten(kernel, [TextEdit(c.start, c.end, _unmarked(c.replacement)) for c in changes])
    now = _same(plain, function)
    wanted = _spans(changes)
    found = places(plain, now, form)
    numbers = tuple(number for number, node in enumerate(found) if node.span in wanted)
    if len(numbers) != len(sites):
        raise NotApplicable(f"a call of {callee} does not read the same with operators")
    if closed(plain, now, callee, form, numbers).text == kernel.text:
        return Opened(plain, numbers, ())
    nodes = [found[number] for number in numbers]
    texts = []
    for node, change in zip(_outermost(nodes), changes, strict=True):
        # What closes drops brackets that are needed; where they were there before, they belong to the text.
        region = _region(node, form, _view(plain))
        kept = region != node.span and not change.replacement.startswith("(")
        text = Span(change.start, change.end).of(kernel.text)
        texts.append(f"({text})" if kept else text)
    return Opened(plain, numbers, tuple(texts))


def closed(
    kernel: Kernel,
    function: Function,
    callee: str,
    form: Form,
    sites: Collection[int],
    texts: tuple[str, ...] = (),
) -> Kernel:
    """The numbered expressions written as calls. Raises NotApplicable."""
    view, found = _view(kernel), places(kernel, function, form)
    if not sites or any(not 0 <= site < len(found) for site in sites):
        raise NotApplicable("an expression is gone")
    nodes = [found[site] for site in sorted(sites)]
    chosen: dict[int, list[Syntax]] = {}
    for node in nodes:
        fault = fault_of(kernel, view, node)
        parts = form.parts(node, kernel.text)
        if fault is not None or parts is None:
            raise NotApplicable(fault or "an expression is gone")
        chosen[id(node)] = parts

    def spell(node: Syntax, render: _Render) -> tuple[str, str, str]:
        operands = []
        for operand, level in zip(chosen[id(node)], form.operands, strict=True):
            inner = operand.named[0] if _bracketed(operand) else operand
            operands.append(render(inner if binding(inner, view) < level else operand, free=True))
        return "", f"{callee}({', '.join(operands)})", ""

    def drops(node: Syntax) -> Syntax | None:
        """The chosen expression in brackets that only it needs."""
        if not _bracketed(node) or id(node.named[0]) not in chosen:
            return None
        return node.named[0] if slot(node, view) > form.binds else None

    marked = _Marked(kernel.text, chosen, spell, drops)
    outer = _outermost(nodes)
    if texts and len(texts) != len(outer):
        raise NotApplicable("the calls stood elsewhere")
    changes = []
    for number, node in enumerate(outer):
        region = _region(node, form, view)
        changes.append(TextEdit.replace(region, texts[number] if texts else _unmarked(marked.render(node))))
    return rewritten(kernel, changes)


_OPEN, _CLOSE = "\ue000", "\ue001"
"""Marks around what was rewritten; taken out before anybody sees the text."""


class _Render:
    def __init__(self, marked: _Marked) -> None:
        self.marked = marked

    def __call__(self, node: Syntax, free: bool = False) -> str:
        return self.marked.render(node, free)


class _Marked:
    """Writes a node with what is chosen inside it rewritten, innermost too."""

    def __init__(
        self,
        text: str,
        chosen: Mapping[int, list[Syntax]],
        spell: Callable[[Syntax, _Render], tuple[str, str, str]],
        drops: Callable[[Syntax], Syntax | None] = lambda node: None,
    ) -> None:
        self.text, self.chosen, self.spell, self.drops = text, chosen, spell, drops

    def render(self, node: Syntax, free: bool = False) -> str:
        """`free`: the caller sees to brackets around it."""
        if id(node) in self.chosen:
            before, written, behind = self.spell(node, _Render(self))
            whole = f"{_OPEN}{written}{_CLOSE}"
            return whole if free else f"{before}{whole}{behind}"
        dropped = self.drops(node)
        if dropped is not None:
            return self.render(dropped, free=True)
        out, at = "", node.span.start
        for child in node.children:
            out += self.text[at : child.span.start] + self.render(child)
            at = child.span.end
        return out + self.text[at : node.span.end]


def _unmarked(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def _spans(changes: list[TextEdit]) -> set[Span]:
    """Where the marked pieces stand in the text after the changes."""
    spans: set[Span] = set()
    moved = 0
    for change in changes:
        at, open_ = change.start + moved, []
        for letter in change.replacement:
            if letter == _OPEN:
                open_.append(at)
            elif letter == _CLOSE:
                spans.add(Span(open_.pop(), at))
            else:
                at += 1
        moved = at - change.end
    return spans


def _under(node: Syntax, chosen: Mapping[int, list[Syntax]]) -> bool:
    return node.inside(lambda above: id(above) in chosen) is not None


def _outermost(nodes: list[Syntax]) -> list[Syntax]:
    ids: dict[int, list[Syntax]] = {id(node): [] for node in nodes}
    return [node for node in nodes if not _under(node, ids)]


def _bracketed(node: Syntax) -> bool:
    return node.type == "parenthesized_expression" and len(node.named) == 1


def _region(node: Syntax, form: Form, view: SourceView) -> Span:
    """The expression, with the brackets around it that it needs where it stands."""
    parent = node.parent
    if parent is not None and _bracketed(parent) and slot(parent, view) > form.binds:
        return parent.span
    return node.span


def _view(kernel: Kernel) -> SourceView:
    found = source(kernel)
    assert found is not None
    return found


def _same(kernel: Kernel, function: Function) -> Function:
    now = _view(kernel).find(function.anchor)
    if not isinstance(now, Function):
        raise NotApplicable("the function is gone")
    return now
