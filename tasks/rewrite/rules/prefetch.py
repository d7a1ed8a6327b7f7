"""`prefetch-call`: statements `prefetch(p, n);`, which change nothing but when memory arrives.

A place is a loop or function and the prefetches directly in it, `gemm/loop[k]/call[prefetch]#0`: one edit takes them
all. Each must be a statement of a block, on lines of its own, whose arguments change and call nothing.
Put in, at the head of a `for` loop's block, is a prefetch of the first element of a global buffer that every iteration
reads: where its index can be computed there, no iteration asks for an address that it does not use anyway.

Parameters, of what is put in: `text:N`, the lines of the Nth statement; `line:N`, where they go, counted from the line
where the loop's or function's block opens.
"""

from __future__ import annotations

import re

from experts.kernel import Kernel
from experts.source import Access, Anchor, Call, Function, Loop, SourceView, Span, StepKind, TextEdit
from experts.source.syntax import Syntax, operator
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
from tasks.rewrite.roles import words
from tasks.rewrite.rules.found import (
    Found,
    anchor_of,
    indentation,
    int_param,
    inverse,
    line_start,
    needed,
    not_understood,
    opencl,
    require,
    sorted_params,
    text_param,
)
from tasks.rewrite.text import rewritten
from tasks.rewrite.tree import nodes

INTENT = "prefetch-data"
_CALLEE = "prefetch"
_HARMLESS = re.compile(r"get_\w+|min|max")
_PASSED = frozenset(
    {
        "expression_statement",
        "declaration",
        "init_declarator",
        "assignment_expression",
        "parenthesized_expression",
        "argument_list",
        "call_expression",
        "unary_expression",
        "cast_expression",
        "field_expression",
    }
)
"""What always evaluates the expressions in it."""
_CHOOSES = ("&&", "||")
Scope = Loop | Function


class PrefetchCall:
    """See the module's docstring."""

    name = "prefetch-call"

    def removable(self, kernel: Kernel) -> Places:
        """Every loop or function with prefetches directly in it."""
        found, view = Found(self.name), opencl(kernel)
        for function in view.functions if view is not None else ():
            assert view is not None
            scopes: tuple[Scope, ...] = (function, *function.walk_loops())
            for scope in scopes:
                if not _calls(function, scope):
                    continue
                try:
                    _statements(kernel, view, function, scope)
                except NotApplicable as error:
                    found.decline(INTENT, _place(scope), str(error))
                else:
                    found.edit("remove", INTENT, _place(scope))
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every `for` loop without one that reads a global buffer in each iteration."""
        found, view = Found(self.name), opencl(kernel)
        for function in view.entries if view is not None else ():
            assert view is not None
            for loop in function.walk_loops():
                if not _calls(function, loop) and (given := _proposal(kernel, view, function, loop)) is not None:
                    found.edit("add", INTENT, _place(loop), given)
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view, place = needed(kernel), anchor_of(edit)
        function, scope = _scope(view, place)
        if edit.action == "add":
            require(not _calls(function, scope), "it has prefetches already")
            return _added(kernel, edit, place), inverse(edit)
        spans = _statements(kernel, view, function, scope)
        back: dict[str, Scalar] = {}
        first = kernel.text.count("\n", 0, scope.body.start)
        for number, span in enumerate(spans):
            back[f"text:{number}"] = span.of(kernel.text).removesuffix("\n")
            back[f"line:{number}"] = kernel.text.count("\n", 0, span.start) - first
        return rewritten(kernel, [TextEdit.replace(span, "") for span in spans]), inverse(edit, back)


def _place(scope: Scope) -> Anchor:
    return scope.anchor.child(StepKind.CALL, _CALLEE)


def _calls(function: Function, scope: Scope) -> list[Call]:
    return [c for c in function.calls if c.callee == _CALLEE and c.anchor.parent == scope.anchor]


def _scope(view: SourceView, place: Anchor) -> tuple[Function, Scope]:
    scope = view.find(place.parent) if place.parent is not None else None
    function = view.find(Anchor(place.root, place.root_ordinal))
    if not isinstance(scope, Loop | Function) or not isinstance(function, Function):
        raise NotApplicable("there is no such loop or function")
    return function, scope


def _statements(kernel: Kernel, view: SourceView, function: Function, scope: Scope) -> list[Span]:
    """The lines of each prefetch in a scope. Raises NotApplicable."""
    require(not any(f.name == _CALLEE for f in view.functions), "the kernel has a prefetch of its own")
    require(not any(m.name == _CALLEE for m in view.macros), "the kernel has a prefetch of its own")
    calls, spans = _calls(function, scope), []
    require(calls, "there is no prefetch")
    in_blocks = {
        n.span for n in nodes(kernel) if n.parent is not None and n.parent.type == "compound_statement" and n.is_named
    }
    for call in calls:
        require(call.statement is not None and call.statement in in_blocks, "it is no statement of a block")
        assert call.statement is not None
        fault = not_understood(view, call.statement)
        require(fault is None, fault or "")
        others = [c for c in function.calls if call.span.contains(c.span) and c.span != call.span]
        require(all(_HARMLESS.fullmatch(c.callee) for c in others), "its arguments call a function")
        require(not any(call.span.contains(a.span) for a in function.assignments), "its arguments change a variable")
        spans.append(_lines(kernel.text, call.statement))
    require(len(set(spans)) == len(spans), "two stand in one line")
    return spans


def _lines(text: str, statement: Span) -> Span:
    """The lines that a statement fills, with a comment behind it. Raises NotApplicable."""
    end = text.find("\n", statement.end) + 1
    behind = text[statement.end : end].strip()
    alone = indentation(text, statement.start) is not None and (not behind or behind.startswith("//"))
    require(alone and end > 0, "it does not have its lines to itself")
    return Span(line_start(text, statement.start), end)


def _added(kernel: Kernel, edit: Edit, place: Anchor) -> Kernel:
    given = dict(edit.params)
    count = sum(name.startswith("text:") for name in given)
    require(count, "no statement is given")
    state = kernel
    for number in range(count):
        # Line by line: a later one is counted with those before it in place.
        _, scope = _scope(needed(state), place)
        at = line_start(state.text, scope.body.start)
        for _ in range(int_param(edit, f"line:{number}")):
            at = state.text.find("\n", at) + 1
            require(0 < at <= scope.body.end, "there is no such line")
        state = rewritten(state, [TextEdit(at, at, text_param(edit, f"text:{number}") + "\n")])
    view = needed(state)
    require(len(view.opaque) == len(needed(kernel).opaque), "the statement does not read back")
    require(len(_statements(state, view, *_scope(view, place))) == count, "the statement does not read back")
    return state


def _proposal(kernel: Kernel, view: SourceView, function: Function, loop: Loop) -> dict[str, Scalar] | None:
    text = kernel.text
    line_end = text.find("\n", loop.body.start)
    head = text[loop.body.start : line_end]
    if loop.kind != "for" or loop.induction is None or loop.exits or head != "{" or view.is_opaque(loop.span):
        return None
    by_span = {node.span: node for node in nodes(kernel)}
    for access in function.accesses:
        if access.anchor.parent == loop.anchor and loop.body.contains(access.span):
            node = by_span.get(access.span)
            if node is not None and _always_read(function, loop, access, node):
                first = re.match(r"[ \t]*", text[line_end + 1 :])
                assert first is not None
                words_ = f"{first[0]}prefetch({access.base} + ({access.indices[0].text}), 1);"
                given: dict[str, Scalar] = {"text:0": words_, "line:0": 1}
                probe = Edit("prefetch-call", "add", INTENT, str(_place(loop)), sorted_params(given))
                try:
                    _added(kernel, probe, _place(loop))
                except NotApplicable:
                    continue
                return given
    return None


def _always_read(function: Function, loop: Loop, access: Access, node: Syntax) -> bool:
    """Whether each iteration reads that element, at an address that is known where the loop's block opens."""
    base = function.parameter(access.base)
    if base is None or base.address_space != "global" or base.pointer_depth != 1 or access.mode != "read":
        return False
    plain = access.form == "subscript" and access.cast is None and not access.origin and not access.members
    if not plain or len(access.indices) != 1 or "\n" in access.indices[0].text:
        return False
    names = {access.base, *words(access.indices[0].text)}
    inside = {v.name for v in function.variables if loop.body.contains(v.span)}
    changed = {a.name for a in function.assignments if loop.body.contains(a.span)}
    called = any(access.span.contains(c.span) for c in function.calls)
    nested = any(a.span != access.span and access.span.contains(a.span) for a in function.accesses)
    if names & (inside | changed) or called or nested:
        return False
    above = node.parent
    while above is not None and (
        above.type in _PASSED or (above.type == "binary_expression" and operator(above) not in _CHOOSES)
    ):
        above = above.parent
    return above is not None and above.type == "compound_statement" and above.span == loop.body
