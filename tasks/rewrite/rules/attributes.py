"""Attributes of entries and of arrays.

`work-group-size`: `reqd_work_group_size`, `work_group_size_hint` and `vec_type_hint` of an entry, each a place of its
own. The first two are put in where every launch of the entry has the same block and it follows from `[const]` alone;
the numbers are written out. `vec_type_hint` is put in with the widest vector type that the entry declares, or
`float`.

`align-attribute`: `__attribute__((aligned(N)))` on a local or private array of scalars. It stays while something may
need it: the array is read as another type, or a pointer to it goes where this rule does not follow.

Parameters: `arguments`, as in the attribute's parentheses; `text` and `shift` only where it does not stand plainly: on
a line of its own before the entry, or right behind the array's dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator

from experts.expressions import ExpressionError
from experts.kernel import Kernel
from experts.source import Anchor, Attribute, Function, SourceView, Span, StepKind, TextEdit, Variable
from experts.source.shadow import VECTOR_TYPE
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
from tasks.rewrite.uses import seen_wider

_ENTRY_INTENTS = {
    "reqd_work_group_size": "fix-work-group",
    "work_group_size_hint": "fix-work-group",
    "vec_type_hint": "hint-vector-type",
}
ALIGN_INTENT = "align-storage"
_ALIGNMENT = "64"
_SCALARS = frozenset({"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "double"})


class WorkGroupSize:
    """See the module's docstring."""

    name = "work-group-size"

    def removable(self, kernel: Kernel) -> Places:
        """Every such attribute of an entry."""
        found, view = Found(self.name), opencl(kernel)
        for function in view.entries if view is not None else ():
            assert view is not None
            for attribute in function.attributes:
                if attribute.name not in _ENTRY_INTENTS or attribute.anchor is None:
                    continue
                fault = _twice(function, attribute.name) or not_understood(view, attribute.span)
                if fault is not None:
                    found.decline(_ENTRY_INTENTS[attribute.name], attribute.anchor, fault)
                else:
                    given: dict[str, Scalar] = {"arguments": attribute.arguments or ""}
                    found.edit("remove", _ENTRY_INTENTS[attribute.name], attribute.anchor, given)
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every entry that lacks one."""
        found, view = Found(self.name), opencl(kernel)
        for function in view.entries if view is not None else ():
            assert view is not None
            for name, intent in _ENTRY_INTENTS.items():
                if any(attribute.name == name for attribute in function.attributes):
                    continue
                place = function.anchor.child(StepKind.ATTRIBUTE, name)
                arguments, fault = _vector(function) if name == "vec_type_hint" else _block(kernel, view, function)
                fault = fault or not_understood(view, Span(function.span.start, function.body.start))
                if fault is not None or arguments is None:
                    found.decline(intent, place, fault or "")
                else:
                    found.edit("add", intent, place, {"arguments": arguments})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view = needed(kernel)
        place = anchor_of(edit)
        function = view.find(place.parent) if place.parent is not None else None
        name = place.steps[-1].label if place.steps else ""
        if not isinstance(function, Function) or not function.is_entry or name not in _ENTRY_INTENTS:
            raise NotApplicable("there is no such entry")
        there = [a for a in function.attributes if a.name == name]
        if edit.action == "remove":
            require(len(there) == 1, "there is no such attribute, or there are two")
            fault = not_understood(view, there[0].span)
            require(fault is None, fault or "")
            span = tidy(kernel.text, there[0].removal)
            removed = rewritten(kernel, [TextEdit.replace(span, "")])
            now = _function(removed, function.anchor)
            words, said = span.of(kernel.text), there[0].arguments or ""
            back: dict[str, Scalar] = {"arguments": said}
            if words != _attribute(name, said) + "\n" or span.start != now.span.start:
                back |= {"text": words, "shift": span.start - now.parameter_list.start}
            return removed, inverse(edit, back)
        require(not there, "the entry has one already")
        fault = not_understood(view, Span(function.span.start, function.body.start))
        require(fault is None, fault or "")
        arguments = text_param(edit, "arguments")
        words = text_param(edit, "text", _attribute(name, arguments) + "\n")
        at = function.span.start
        if "shift" in dict(edit.params):
            at = function.parameter_list.start + int_param(edit, "shift")
        added = rewritten(kernel, [TextEdit(at, at, words)])
        stands = [a for a in _function(added, function.anchor).attributes if a.name == name]
        require([a.arguments for a in stands] == [arguments], "the attribute does not come to stand at the entry")
        return added, inverse(edit, {"arguments": arguments})


class AlignAttribute:
    """See the module's docstring."""

    name = "align-attribute"

    def removable(self, kernel: Kernel) -> Places:
        """Every aligned array."""
        found, view = Found(self.name), opencl(kernel)
        for function, array in _arrays(view):
            assert view is not None
            if _aligned(array):
                fault = _array_fault(view, array) or seen_wider(view, function, array)
                if fault is not None:
                    found.decline(ALIGN_INTENT, array.anchor, fault)
                else:
                    given: dict[str, Scalar] = {"arguments": _aligned(array)[0].arguments or ""}
                    found.edit("remove", ALIGN_INTENT, array.anchor, given)
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every array of scalars without alignment: at 64 bytes."""
        found, view = Found(self.name), opencl(kernel)
        for _, array in _arrays(view):
            assert view is not None
            if not _aligned(array):
                fault = _array_fault(view, array)
                if fault is not None:
                    found.decline(ALIGN_INTENT, array.anchor, fault)
                else:
                    found.edit("add", ALIGN_INTENT, array.anchor, {"arguments": _ALIGNMENT})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view = needed(kernel)
        place = anchor_of(edit)
        found = next(((f, a) for f, a in _arrays(view) if a.anchor == place), None)
        if found is None:
            raise NotApplicable("there is no such array")
        function, array = found
        fault = _array_fault(view, array)
        require(fault is None, fault or "")
        if edit.action == "remove":
            require(_aligned(array), "the array is not aligned")
            fault = seen_wider(view, function, array)
            require(fault is None, fault or "")
            attribute = _aligned(array)[0]
            span = tidy(kernel.text, attribute.removal)
            removed = rewritten(kernel, [TextEdit.replace(span, "")])
            now = _array(removed, place)
            words, said = span.of(kernel.text), attribute.arguments or ""
            back: dict[str, Scalar] = {"arguments": said}
            if words != " " + _attribute("aligned", said) or span.start != _behind_dims(removed, now):
                assert now.name_span is not None
                back |= {"text": words, "shift": span.start - now.name_span.start}
            return removed, inverse(edit, back)
        require(not _aligned(array), "the array is aligned already")
        arguments = text_param(edit, "arguments")
        words = text_param(edit, "text", " " + _attribute("aligned", arguments))
        at = _behind_dims(kernel, array)
        if "shift" in dict(edit.params):
            assert array.name_span is not None
            at = array.name_span.start + int_param(edit, "shift")
        added = rewritten(kernel, [TextEdit(at, at, words)])
        stands = [a.arguments or "" for a in _aligned(_array(added, place))]
        require(stands == [arguments], "the attribute does not come to stand at the array")
        return added, inverse(edit, {"arguments": arguments})


def _attribute(name: str, arguments: str) -> str:
    return f"__attribute__(({name}({arguments})))" if arguments else f"__attribute__(({name}))"


def _function(kernel: Kernel, anchor: Anchor) -> Function:
    found = needed(kernel).find(anchor)
    if not isinstance(found, Function):
        raise NotApplicable("the entry is gone")
    return found


def _twice(function: Function, name: str) -> str | None:
    return "it stands twice" if sum(a.name == name for a in function.attributes) > 1 else None


def _block(kernel: Kernel, view: SourceView, function: Function) -> tuple[str | None, str | None]:
    """The arguments that the launches give, or why there are none."""
    if len(view.occurrences(function.name)) > 1 or view.macros_that_mention(function.name):
        return None, "other code calls it, too"
    blocks = set()
    for launch in kernel.manifest.launch:
        if launch.entry == function.name:
            try:
                sizes = [axis.integer(kernel.manifest.const) for axis in launch.block]
            except ExpressionError:
                return None, "a launch's block depends on more than constants"
            blocks.add((*sizes, *[1] * (3 - len(sizes))))
    if len(blocks) != 1:
        return None, "launches have several blocks" if blocks else "no launch says its block"
    (block,) = blocks
    return (", ".join(map(str, block)), None) if min(block) > 0 else (None, "a launch has no work-items")


def _vector(function: Function) -> tuple[str | None, str | None]:
    """The widest vector type that is declared, the first of these; else `float`, where anything is."""
    types = [v.base_type for v in (*function.parameters, *function.variables)]
    vectors = [each for each in types if VECTOR_TYPE.fullmatch(each)]
    if vectors:
        return max(vectors, key=lambda each: int(each.lstrip("abcdefghijklmnopqrstuvwxyz"))), None
    return ("float", None) if "float" in types else (None, "it declares neither vectors nor floats")


def _arrays(view: SourceView | None) -> Iterator[tuple[Function, Variable]]:
    for function in view.functions if view is not None else ():
        for array in function.arrays:
            if array.address_space in ("local", "private") and array.base_type in _SCALARS and not array.pointer_depth:
                yield function, array


def _array(kernel: Kernel, anchor: Anchor) -> Variable:
    found = needed(kernel).find(anchor)
    if not isinstance(found, Variable) or found.name_span is None:
        raise NotApplicable("the array is gone")
    return found


def _aligned(array: Variable) -> list[Attribute]:
    return [a for a in array.attributes if a.name in ("aligned", "__aligned__")]


def _array_fault(view: SourceView, array: Variable) -> str | None:
    if array.name_span is None or not array.alone:
        return "it is declared together with others"
    if any(dim is None for dim in array.dims):
        return "its size follows from its values"
    if len(_aligned(array)) > 1:
        return "it is aligned twice"
    return not_understood(view, array.span)


def _behind_dims(kernel: Kernel, array: Variable) -> int:
    last = array.dims[-1]
    assert last is not None
    return kernel.text.index("]", last.span.end) + 1
