"""`pad-array`: elements added to the rows of a local array of two or more dimensions.

Taken out is the last summand of the last dimension, `tile[T][T + PAD]` -> `tile[T][T]`, where it is a number, a
constant of `[const]` or a macro for one, not below 1. Every use of the array must be a full subscript, and the last
subscript must be known to stay below the length without it: what reaches into the summand is a halo, no padding.
Put in is `+ 1`, where every use is a full subscript. A constant that is left without uses stays in `[const]`.

Parameters: `pad`, the summand; `text`, only where it is not spelled ` + PAD`.
"""

from __future__ import annotations

from collections.abc import Iterator

from experts.kernel import Kernel
from experts.source import Function, SourceView, Span, TextEdit, Variable
from experts.source.lexer import tokenize
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
from tasks.rewrite.ranges import Ranges
from tasks.rewrite.rules.found import Found, anchor_of, inverse, needed, not_understood, opencl, require, text_param
from tasks.rewrite.text import rewritten
from tasks.rewrite.uses import subscripted_only

INTENT = "pad-array"
_ADDED = "1"
_SUMS = frozenset("+-*/%()")


class PadArray:
    """See the module's docstring."""

    name = "pad-array"

    def removable(self, kernel: Kernel) -> Places:
        """Every padded array."""
        found, view = Found(self.name), opencl(kernel)
        for function, array in _arrays(view):
            assert view is not None
            padding = _padding(array)
            if padding is None:
                continue
            fault = _fault(view, function, array) or _halo(kernel, view, function, array, padding)
            if fault is not None:
                found.decline(INTENT, array.anchor, fault)
            else:
                found.edit("remove", INTENT, array.anchor, {"pad": padding[1]})
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every such array without padding."""
        found, view = Found(self.name), opencl(kernel)
        for function, array in _arrays(view):
            assert view is not None
            if _padding(array) is not None:
                continue
            fault = _fault(view, function, array)
            if fault is not None:
                found.decline(INTENT, array.anchor, fault)
            else:
                found.edit("add", INTENT, array.anchor, {"pad": _ADDED})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        view = needed(kernel)
        place = anchor_of(edit)
        found = next(((f, a) for f, a in _arrays(view) if a.anchor == place), None)
        if found is None:
            raise NotApplicable("there is no such array")
        function, array = found
        fault = _fault(view, function, array)
        require(fault is None, fault or "")
        padding, last = _padding(array), array.dims[-1]
        assert last is not None
        if edit.action == "remove":
            if padding is None:
                raise NotApplicable("the array is not padded")
            fault = _halo(kernel, view, function, array, padding)
            require(fault is None, fault or "")
            span = Span(last.span.start + len(padding[0]), last.span.end)
            back: dict[str, Scalar] = {"pad": padding[1]}
            if span.of(kernel.text) != f" + {padding[1]}":
                back["text"] = span.of(kernel.text)
            return rewritten(kernel, [TextEdit.replace(span, "")]), inverse(edit, back)
        require(padding is None, "the array is padded already")
        pad = text_param(edit, "pad")
        change = TextEdit(last.span.end, last.span.end, text_param(edit, "text", f" + {pad}"))
        added = rewritten(kernel, [change])
        now = needed(added).find(place)
        stands = _padding(now) if isinstance(now, Variable) else None
        require(stands == (last.text, pad), "the summand does not come to stand in the array's dimension")
        return added, inverse(edit, {"pad": pad})


def takes_out(kernel: Kernel, pad: str) -> bool:
    """Whether the rule can take a summand out of every array that it pads."""
    able = {edit.anchor for edit in PadArray().removable(kernel).edits}
    padded = [
        array for _, array in _arrays(opencl(kernel)) if (found := _padding(array)) is not None and found[1] == pad
    ]
    return all(str(array.anchor) in able for array in padded)


def _arrays(view: SourceView | None) -> Iterator[tuple[Function, Variable]]:
    for function in view.functions if view is not None else ():
        for array in function.arrays:
            if array.address_space == "local" and len(array.dims) > 1 and all(array.dims):
                yield function, array


def _padding(array: Variable) -> tuple[str, str] | None:
    """The row's length without its last summand, as it is written, and that summand; None where there is none."""
    last = array.dims[-1]
    return _last_summand(last.text) if last is not None else None


def _last_summand(length: str) -> tuple[str, str] | None:
    tokens = [t for t in tokenize(length) if t.kind != "comment"]
    if len(tokens) < 3 or tokens[-2].text != "+" or tokens[-1].kind not in ("word", "number"):
        return None
    # An operator that binds less than the sum would take the summand for itself.
    rest = tokens[:-2]
    if not all(t.kind in ("word", "number") or t.text in _SUMS for t in rest) or rest[-1].text in "+-*/%(":
        return None
    return length[: rest[-1].span.end], tokens[-1].text


def _fault(view: SourceView, function: Function, array: Variable) -> str | None:
    last = array.dims[-1]
    assert last is not None
    if not all(t.kind in ("word", "number", "comment") or t.text in _SUMS for t in tokenize(last.text)):
        return "the length of its rows is more than a sum of products"
    if array.initializer is not None:
        return "it has an initializer"
    return not_understood(view, array.span) or subscripted_only(view, function, array)


def _halo(
    kernel: Kernel, view: SourceView, function: Function, array: Variable, padding: tuple[str, str]
) -> str | None:
    """Why a subscript may need the summand; None where none does."""
    if _last_summand(padding[0]) is not None:
        return "several summands end the length of its rows"
    ranges = Ranges(kernel, view, function)
    length, pad = ranges.of(padding[0], array.span), ranges.of(padding[1], array.span)
    if length is None or pad is None or length[0] != length[1]:
        return "the length of its rows is not known"
    if pad[0] < 1:
        return "what is added is not positive"
    for access in function.accesses:
        if access.base != array.name:
            continue
        index = access.indices[-1]
        reach = ranges.of(index.text, index.span)
        if reach is None:
            return "how far its last subscript reaches is not known"
        if reach[0] < 0 or reach[1] >= length[0]:
            return "its last subscript may reach into what is added"
    return None
