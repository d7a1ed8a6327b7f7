"""Loops: their headers, their nest and the hints attached to them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from .anchors import Anchor, StepKind, is_label
from .declare import Context, read_declarator
from .edits import Span
from .model import Assignment, Expr, Hint, Induction, Loop
from .shadow import removal
from .syntax import Syntax, operator, strip

LoopKind = Literal["for", "while", "do", "range"]
Comparison = Literal["<", "<=", ">", ">=", "!="]

_KINDS: dict[str, LoopKind] = {
    "for_statement": "for",
    "while_statement": "while",
    "do_statement": "do",
    "for_range_loop": "range",
}
_EXITS = {
    "break_statement": "break",
    "continue_statement": "continue",
    "return_statement": "return",
    "goto_statement": "goto",
}
_FLIPPED: dict[str, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
_COMPARISONS: dict[str, Comparison] = {c: c for c in get_args(Comparison)}


@dataclass(frozen=True, slots=True)
class Draft:
    """A loop without its place in the nest."""

    kind: LoopKind
    label: str
    span: Span
    header: Span
    body: Span
    init: Expr | None
    condition: Expr | None
    update: Expr | None
    induction: Induction | None
    exits: tuple[str, ...]


def read_loops(nodes: Sequence[Syntax], context: Context, assignments: Sequence[Assignment]) -> list[Draft]:
    """The loops among nodes (in pre-order), outer before inner. Loops without a body are left out."""
    exits: defaultdict[int, list[str]] = defaultdict(list)
    for node in nodes:
        if node.type in _EXITS:
            _leave(node, exits)
    changed: defaultdict[str, list[int]] = defaultdict(list)
    for assignment in assignments:
        changed[assignment.name].append(assignment.span.start)
    drafts = []
    for node in nodes:
        body = node.get("body")
        if node.type in _KINDS and body is not None:
            drafts.append(_draft(node, body, context, changed, tuple(dict.fromkeys(exits[id(node)]))))
    return drafts


def _leave(node: Syntax, exits: defaultdict[int, list[str]]) -> None:
    """Note a jump at the loops that it leaves or shortens."""
    name = _EXITS[node.type]
    around = node.parent
    while around is not None and around.type not in ("function_definition", "lambda_expression"):
        if around.type in _KINDS:
            exits[id(around)].append(name)
        stops = around.type in _KINDS or (around.type == "switch_statement" and name == "break")
        if stops and name in ("break", "continue"):
            return
        around = around.parent


def _draft(
    node: Syntax, body: Syntax, context: Context, changed: dict[str, list[int]], exits: tuple[str, ...]
) -> Draft:
    kind = _KINDS[node.type]
    init, condition, update = node.get("initializer"), node.get("condition"), node.get("update")
    name = _header_name(node)
    label = name.span.of(context.text) if name is not None else ""
    if not is_label(label):
        label = "for" if kind == "range" else kind
    induction = None
    if kind == "for" and init is not None and condition is not None and update is not None:
        induction = _induction(init, condition, update, context)
    if induction is not None:
        allowed = update.span if update is not None else body.span
        others = [
            at
            for at in changed.get(induction.name, ())
            if node.span.start <= at < node.span.end and not allowed.start <= at < allowed.end
        ]
        # `i = 0` of the header itself is the init
        others = [at for at in others if init is None or not init.span.start <= at < init.span.end]
        if others or _redeclares(node, body, induction.name, context):
            induction = None
    header = Span(node.span.start, node.span.start + 2)
    if kind != "do":
        ends = [c.span.end for c in node.children if c is not body and c.span.end <= body.span.start]
        header = Span(node.span.start, max(ends, default=node.span.start))
    return Draft(
        kind,
        label,
        node.span,
        header,
        body.span,
        _part(init, context),
        _part(condition, context),
        _part(update, context),
        induction,
        exits,
    )


def _part(node: Syntax | None, context: Context) -> Expr | None:
    """A part of a header, without the `;` of an init and the parentheses of a condition."""
    if node is None:
        return None
    if node.type == "declaration":
        text = node.span.of(context.text).removesuffix(";").rstrip()
        return Expr(text, Span(node.span.start, node.span.start + len(text)))
    if node.type in ("condition_clause", "parenthesized_expression") and node.named:
        span = Span(node.named[0].span.start, node.named[-1].span.end)
        return Expr(span.of(context.text), span)
    return context.expr(node)


def _header_name(node: Syntax) -> Syntax | None:
    """The one variable that the header declares or sets first, else the one that its update changes."""
    if node.type == "for_range_loop":
        return read_declarator(node.get("declarator")).name
    init, update = node.get("initializer"), node.get("update")
    if init is not None and init.type == "declaration":
        declarators = init.all("declarator")
        return read_declarator(declarators[0]).name if len(declarators) == 1 else None
    if init is not None:
        left = init.get("left") if init.type == "assignment_expression" else None
        return left if left is not None and left.type == "identifier" else None
    if update is not None:
        target = update.get("argument") or update.get("left")
        return target if target is not None and target.type == "identifier" else None
    return None


def _induction(init: Syntax, condition: Syntax, update: Syntax, context: Context) -> Induction | None:
    kind = None
    if init.type == "declaration":
        declarators, written = init.all("declarator"), init.get("type")
        if len(declarators) != 1 or declarators[0].type != "init_declarator" or written is None:
            return None
        kind = context.shadow.words(written.span)
        name, start = declarators[0].get("declarator"), declarators[0].get("value")
    elif init.type == "assignment_expression" and operator(init) == "=":
        name, start = init.get("left"), init.get("right")
    else:
        return None
    if name is None or name.type != "identifier" or start is None or start.type == "initializer_list":
        return None
    variable = name.span.of(context.text)
    condition = strip(condition)
    left, right = condition.get("left"), condition.get("right")
    if condition.type != "binary_expression" or left is None or right is None:
        return None
    sign_node = next((c for c in condition.children if not c.is_named), condition)
    sign_text = sign_node.span.of(context.text)  # the shadow writes `>` for `<`
    comparison, bound = _COMPARISONS.get(sign_text), right
    if not _is(left, variable, context):
        comparison, bound = _FLIPPED.get(sign_text), left
        if not _is(right, variable, context):
            return None
    step = _step(strip(update), variable, context)
    if comparison is None or step is None:
        return None
    sign, text, span = step
    if (sign < 0) == comparison.startswith("<") and comparison != "!=":
        return None  # runs away from its bound
    if _mentions(bound.span, variable, context) or _mentions(span, variable, context, text):
        return None
    if sign < 0:
        text = f"-{text}" if text.isalnum() else f"-({text})"
    return Induction(variable, kind, context.expr(start), comparison, context.expr(bound), text, span)


def _step(update: Syntax, variable: str, context: Context) -> tuple[int, str, Span] | None:
    """The sign, the text and the place of what an update adds."""
    sign = operator(update)
    if update.type == "update_expression":
        target = update.get("argument")
        if target is None or not _is(target, variable, context):
            return None
        return (1 if sign == "++" else -1), "1", update.span
    left, right = update.get("left"), update.get("right")
    if update.type != "assignment_expression" or left is None or right is None or not _is(left, variable, context):
        return None
    if sign in ("+=", "-="):
        return (1 if sign == "+=" else -1), right.span.of(context.text), right.span
    if sign != "=" or right.type != "binary_expression" or operator(right) not in ("+", "-"):
        return None
    first, second = right.get("left"), right.get("right")
    if first is None or second is None:
        return None
    if _is(first, variable, context):
        return (1 if operator(right) == "+" else -1), second.span.of(context.text), second.span
    if _is(second, variable, context) and operator(right) == "+":
        return 1, first.span.of(context.text), first.span
    return None


def _is(node: Syntax, name: str, context: Context) -> bool:
    return node.type == "identifier" and node.span.of(context.text) == name


def _mentions(span: Span, name: str, context: Context, text: str = "") -> bool:
    shadow = context.shadow
    if text == "1":  # of i++, whose span holds the variable
        return False
    return any(t.text == name for t in shadow.code[shadow.index_at(span.start) : shadow.index_at(span.end)])


def _redeclares(node: Syntax, body: Syntax, name: str, context: Context) -> bool:
    """Whether the body declares the name anew, so that what happens to it there is unclear."""
    todo = [body]
    while todo:
        inner = todo.pop()
        if inner.type == "declaration" and inner.parent is not node:
            declared = [read_declarator(d).name for d in inner.all("declarator")]
            if any(d is not None and _is(d, name, context) for d in declared):
                return True
        todo.extend(inner.children)
    return False


def nest(
    drafts: Sequence[Draft], function: Anchor, hints: Sequence[tuple[int, Hint]]
) -> tuple[tuple[Loop, ...], list[Anchor]]:
    """The outermost loops with their children, and the anchor of every draft.

    A hint goes to the loop whose keyword or body starts at its offset, a keyword first.
    """
    parents: list[int | None] = []
    anchors: list[Anchor] = []
    count: Counter[tuple[Anchor, str]] = Counter()
    stack: list[int] = []
    for index, draft in enumerate(drafts):
        while stack and drafts[stack[-1]].span.end <= draft.span.start:
            stack.pop()
        parent = stack[-1] if stack else None
        above = anchors[parent] if parent is not None else function
        anchors.append(above.child(StepKind.LOOP, draft.label, count[above, draft.label]))
        count[above, draft.label] += 1
        parents.append(parent)
        stack.append(index)
    owner = {draft.body.start: index for index, draft in enumerate(drafts)}
    owner |= {draft.span.start: index for index, draft in enumerate(drafts)}
    attached: defaultdict[int, list[Hint]] = defaultdict(list)
    hints_of: Counter[tuple[int, str]] = Counter()
    for offset, hint in hints:
        if offset in owner:
            index = owner[offset]
            label = hint.name if is_label(hint.name) else "_"
            anchor = anchors[index].child(StepKind.HINT, label, hints_of[index, label])
            hints_of[index, label] += 1
            attached[index].append(replace(hint, anchor=anchor))
    children: defaultdict[int | None, list[Loop]] = defaultdict(list)
    for index in range(len(drafts) - 1, -1, -1):  # inner loops exist before the loops around them
        draft = drafts[index]
        inside = tuple(reversed(children[index]))
        loop = Loop(
            anchors[index],
            draft.kind,
            draft.span,
            draft.header,
            draft.body,
            draft.init,
            draft.condition,
            draft.update,
            draft.induction,
            tuple(attached[index]),
            draft.exits,
            inside,
        )
        children[parents[index]].append(loop)
    return tuple(reversed(children[None])), anchors


def read_hints(context: Context) -> list[tuple[int, Hint]]:
    """Pragmas and attributes that could belong to a loop, each with the offset of the code behind it."""
    found: list[tuple[int, Hint]] = []
    unplaced = Anchor("::")
    shadow, text = context.shadow, context.text
    for pragma in shadow.pragmas:
        name, argument = _pragma(pragma.body)
        at = shadow.next_code(pragma.span.end)
        if at is not None and name:
            deletion = removal(text, pragma.span)
            found.append((at, Hint("pragma", name, argument, pragma.span, deletion, unplaced)))
    for attribute in shadow.attributes:
        at = shadow.next_code(attribute.span.end)
        # of `__attribute__((a, b))`, step over what closes it: blanked, so next_code did
        if at is not None:
            hint = Hint("attribute", attribute.name, attribute.arguments, attribute.span, attribute.removal, unplaced)
            found.append((at, hint))
    return sorted(found, key=lambda pair: pair[1].span)


def _pragma(body: str) -> tuple[str, str | None]:
    """The name and the argument of `unroll 4`, `unroll(4)`, `clang loop unroll_count(4)`, `GCC unroll 4`."""
    words = body.split("//")[0].split("/*")[0].replace("(", " ( ").split()
    for vendor in (["clang", "loop"], ["GCC"]):
        if words[: len(vendor)] == vendor:
            words = words[len(vendor) :]
    if not words or not words[0].isidentifier():
        return "", None
    argument = " ".join(words[1:]).strip()
    if argument.startswith("(") and argument.endswith(")"):
        argument = argument[1:-1].strip()
    return words[0], argument or None
