"""`unroll-hint`: the pragma or attribute that asks for a loop to be written out.

The place is `.../loop[k]/hint[unroll]`, however the hint is spelled: a loop has one or none. Hints that ask for the
contrary (`nounroll`, `unroll 1`, `unroll(disable)`) and others (`ivdep`) are none of this rule's business.

Parameters: `kind`, `name` and `argument` say which hint; `text`, `indent`, `lines` and `shift` appear only where the
hint does not stand as `#pragma unroll ARGUMENT` on a line of its own right above its loop, indented like it.
"""

from __future__ import annotations

from collections.abc import Iterator

from experts.kernel import Kernel
from experts.source import Anchor, Function, Hint, Loop, SourceView, Span, StepKind, TextEdit
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
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
    text_param,
    tidy,
)
from tasks.rewrite.text import rewritten

INTENT = "unroll-loop"
_NAMES = frozenset({"unroll", "unroll_count", "opencl_unroll_hint"})
_CONTRARY = frozenset({"disable", "0", "1"})


class UnrollHint:
    """See the module's docstring."""

    name = "unroll-hint"

    def removable(self, kernel: Kernel) -> Places:
        """Every loop with an unroll hint."""
        found, view = Found(self.name), opencl(kernel)
        for loop in _loops(view):
            assert view is not None
            hints = asking(kernel, loop)
            if not hints:
                continue
            fault = _fault(view, loop, hints)
            if fault is not None:
                found.decline(INTENT, _place(loop), fault)
            else:
                found.edit("remove", INTENT, _place(loop), _said(hints[0]))
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every `for` loop that has no say on unrolling yet and starts a line: `#pragma unroll`, in full."""
        found, view = Found(self.name), opencl(kernel)
        for loop in _loops(view):
            assert view is not None
            if loop.kind != "for" or any(_about_unrolling(hint) for hint in loop.hints):
                continue
            fault = not_understood(view, loop.header)
            if fault is None and indentation(kernel.text, loop.span.start) is None:
                fault = "the loop does not start its line"
            if fault is not None:
                found.decline(INTENT, _place(loop), fault)
            else:
                found.edit("add", INTENT, _place(loop), {"kind": "pragma", "name": "unroll", "argument": ""})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view = needed(kernel)
        loop = _loop(view, edit)
        hints = asking(kernel, loop)
        if edit.action == "remove":
            require(hints, "the loop has no unroll hint")
            fault = _fault(view, loop, hints)
            require(fault is None, fault or "")
            return _removed(kernel, edit, loop, hints[0])
        require(not any(_about_unrolling(hint) for hint in loop.hints), "the loop has such a hint already")
        fault = not_understood(view, loop.header)
        require(fault is None, fault or "")
        return _added(kernel, edit, loop)


def asking(kernel: Kernel, loop: Loop) -> list[Hint]:
    """The hints of a loop that ask for unrolling."""
    return [hint for hint in loop.hints if hint.name in _NAMES and not _contrary(kernel, hint)]


def _about_unrolling(hint: Hint) -> bool:
    # `clang loop vectorize(enable) unroll(full)` has another name, and says it too
    return hint.name in _NAMES or hint.name == "nounroll" or "unroll" in (hint.argument or "")


def _contrary(kernel: Kernel, hint: Hint) -> bool:
    argument = hint.argument or ""
    return hint.name == "nounroll" or str(kernel.manifest.const.get(argument, argument)) in _CONTRARY


def _loops(view: SourceView | None) -> Iterator[Loop]:
    functions: tuple[Function, ...] = view.functions if view is not None else ()
    return (loop for function in functions for loop in function.walk_loops())


def _place(loop: Loop) -> Anchor:
    return loop.anchor.child(StepKind.HINT, "unroll")


def _loop(view: SourceView, edit: Edit) -> Loop:
    above = anchor_of(edit).parent
    loop = view.find(above) if above is not None else None
    if not isinstance(loop, Loop):
        raise NotApplicable("there is no such loop")
    return loop


def _said(hint: Hint) -> dict[str, Scalar]:
    return {"kind": hint.kind, "name": hint.name, "argument": hint.argument or ""}


def _fault(view: SourceView, loop: Loop, hints: list[Hint]) -> str | None:
    hint = hints[0]
    if len(hints) > 1 or sum(_about_unrolling(each) for each in loop.hints) > 1:
        return "the loop has several such hints"
    if hint.span.start > loop.span.start:
        return "the hint stands behind the loop's header"
    if not _balanced(hint.argument or ""):
        return "the hint says more than unrolling"
    return not_understood(view, Span(min(hint.removal.start, hint.span.start), loop.header.end))


def _balanced(argument: str) -> bool:
    """Whether no bracket closes that was not opened: of `unroll_count(4) vectorize(enable)` the view keeps both."""
    depth = 0
    for letter in argument:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return True


def _written(said: dict[str, Scalar]) -> str:
    """The plain spelling of a hint."""
    name, argument = said["name"], said["argument"]
    if said["kind"] == "attribute":
        return f"__attribute__(({name}({argument})))" if argument else f"__attribute__(({name}))"
    if name == "unroll_count":
        return f"#pragma clang loop unroll_count({argument})"
    return f"#pragma {name} {argument}".rstrip()


def _removed(kernel: Kernel, edit: Edit, loop: Loop, hint: Hint) -> tuple[Kernel, Edit]:
    text, span, keyword = kernel.text, tidy(kernel.text, hint.removal), loop.span.start
    removed, said = span.of(text), _said(hint)
    lead = indentation(text, keyword)
    whole = removed.endswith("\n") and line_start(text, span.start) == span.start
    if whole and lead is not None:
        words = removed[:-1].lstrip(" \t")
        indent = removed[: len(removed) - 1 - len(words)]
        lines = text.count("\n", span.end, keyword)
        if words != _written(said):
            said["text"] = words
        if indent != lead:
            said["indent"] = indent
        if lines:
            said["lines"] = lines
    else:
        said |= {"text": removed, "shift": span.end - keyword}
    return rewritten(kernel, [TextEdit.replace(span, "")]), inverse(edit, said)


def _added(kernel: Kernel, edit: Edit, loop: Loop) -> tuple[Kernel, Edit]:
    text, keyword, given = kernel.text, loop.span.start, dict(edit.params)
    said: dict[str, Scalar] = {name: text_param(edit, name) for name in ("kind", "name", "argument")}
    require(said["kind"] in ("pragma", "attribute") and said["name"] in _NAMES, "no unroll hint is asked for")
    words = text_param(edit, "text", _written(said))
    if "shift" in given:
        at = keyword + int_param(edit, "shift")
        require(0 <= at <= keyword, "there is no room for the hint")
        change = TextEdit(at, at, words)
    else:
        lead = indentation(text, keyword)
        require(lead is not None, "the loop does not start its line")
        at = line_start(text, keyword)
        for _ in range(int_param(edit, "lines", 0)):
            at = line_start(text, max(at - 1, 0))
        change = TextEdit(at, at, f"{text_param(edit, 'indent', lead or '')}{words}\n")
    added = rewritten(kernel, [change])
    now = needed(added).find(loop.anchor)
    hints = asking(added, now) if isinstance(now, Loop) else []
    require([_said(hint) for hint in hints] == [said], "the hint does not come to stand at the loop")
    return added, inverse(edit, said)
