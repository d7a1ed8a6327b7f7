"""`restrict-pointer`: the promise that pointers do not alias, on a function's parameters; one place a function.

It is taken out of any function. It is put in where the manifest proves it: an entry that no other function calls, and
whose launches give every pointer a buffer of its own; buffers never overlap (docs/kernel-format.md).

Parameters: `parameters`, their names; `text:NAME` and `shift:NAME` only where the word does not stand as `restrict `
right before the name.
"""

from __future__ import annotations

from experts.kernel import Kernel
from experts.source import Function, SourceView, TextEdit, Variable
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
from tasks.rewrite.rules.found import (
    Found,
    anchor_of,
    int_param,
    inverse,
    needed,
    not_understood,
    opencl,
    require,
    text_param,
    tidy,
)
from tasks.rewrite.text import rewritten

INTENT = "hint-restrict"
_PLAIN = "restrict "


class RestrictPointer:
    """See the module's docstring."""

    name = "restrict-pointer"

    def removable(self, kernel: Kernel) -> Places:
        """Every function with restrict parameters."""
        found, view = Found(self.name), opencl(kernel)
        for function in view.functions if view is not None else ():
            assert view is not None
            held = [p for p in function.parameters if p.restrict]
            if not held:
                continue
            fault = _fault(view, function, held)
            if fault is not None:
                found.decline(INTENT, function.anchor, fault)
            else:
                found.edit("remove", INTENT, function.anchor, {"parameters": ",".join(p.name or "" for p in held)})
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every entry whose pointers are proven to be distinct, and are not all restrict."""
        found, view = Found(self.name), opencl(kernel)
        for function in view.entries if view is not None else ():
            assert view is not None
            lacking = [p for p in function.parameters if p.is_pointer and not p.restrict]
            if not lacking:
                continue
            fault = _fault(view, function, lacking) or _aliases(kernel, view, function)
            if fault is not None:
                found.decline(INTENT, function.anchor, fault)
            else:
                found.edit("add", INTENT, function.anchor, {"parameters": ",".join(p.name or "" for p in lacking)})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view = needed(kernel)
        function = view.find(anchor_of(edit))
        if not isinstance(function, Function):
            raise NotApplicable("there is no such function")
        names = text_param(edit, "parameters").split(",")
        chosen = [p for name in names if (p := function.parameter(name)) is not None]
        require(len(chosen) == len(names), "a parameter is gone")
        fault = _fault(view, function, chosen)
        require(fault is None, fault or "")
        if edit.action == "remove":
            return _removed(kernel, edit, chosen)
        return _added(kernel, edit, function, chosen)


def _fault(view: SourceView, function: Function, chosen: list[Variable]) -> str | None:
    if any(p.name is None or p.name_span is None for p in chosen):
        return "a parameter has no name"
    if any(not p.is_pointer or p.pointer_depth > 1 for p in chosen):
        return "a parameter is no plain pointer"
    if any(sum(q.kind == "restrict" for q in p.qualifiers) > 1 for p in chosen):
        return "a parameter is restrict twice"
    return not_understood(view, function.parameter_list)


def _aliases(kernel: Kernel, view: SourceView, function: Function) -> str | None:
    """Why two pointers of an entry could be one buffer; None where they cannot."""
    if len([f for f in view.functions if f.name == function.name]) > 1:
        return "there are two functions of that name"
    inside = len(view.occurrences(function.name))
    if inside > 1 or view.macros_that_mention(function.name):
        return "other code calls it, too"
    launches = [launch for launch in kernel.manifest.launch if launch.entry == function.name]
    if not launches:
        return "no launch says what its arguments are"
    for launch in launches:
        if len(launch.args) != len(function.parameters):
            return "a launch gives another number of arguments"
        pointed = [name for name, p in zip(launch.args, function.parameters, strict=True) if p.is_pointer]
        if len(set(pointed)) < len(pointed):
            return "a launch gives one buffer twice"
    return None


def _removed(kernel: Kernel, edit: Edit, chosen: list[Variable]) -> tuple[Kernel, Edit]:
    back: dict[str, Scalar] = {"parameters": text_param(edit, "parameters")}
    cuts = []
    for parameter in chosen:
        word = next((q for q in parameter.qualifiers if q.kind == "restrict"), None)
        if word is None or parameter.name_span is None:
            raise NotApplicable(f"{parameter.name} is not restrict")
        span = tidy(kernel.text, word.removal)
        cuts.append(TextEdit.replace(span, ""))
        name = parameter.name_span
        if span.of(kernel.text) != _PLAIN or span.end != name.start:
            before = span.start < name.start
            back[f"text:{parameter.name}"] = span.of(kernel.text)
            back[f"shift:{parameter.name}"] = (span.end if before else span.start) - name.start
    return rewritten(kernel, cuts), inverse(edit, back)


def _added(kernel: Kernel, edit: Edit, function: Function, chosen: list[Variable]) -> tuple[Kernel, Edit]:
    require(not any(p.restrict for p in chosen), "a parameter is restrict already")
    changes = []
    for parameter in chosen:
        assert parameter.name_span is not None
        at = parameter.name_span.start + int_param(edit, f"shift:{parameter.name}", 0)
        require(function.parameter_list.start < at < function.parameter_list.end, "there is no room for the word")
        changes.append(TextEdit(at, at, text_param(edit, f"text:{parameter.name}", _PLAIN)))
    added = rewritten(kernel, changes)
    now = needed(added).find(function.anchor)
    restricted = [p.name for p in now.parameters if p.restrict] if isinstance(now, Function) else []
    wanted = [p.name for p in function.parameters if p.restrict or p in chosen]
    require(restricted == wanted, "the word does not come to stand at the parameter")
    return added, inverse(edit, {"parameters": text_param(edit, "parameters")})
