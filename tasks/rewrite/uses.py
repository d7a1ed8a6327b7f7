"""Where a function uses one of its arrays, and whether all of it is understood."""

from __future__ import annotations

from dataclasses import dataclass

from experts.source import Access, Function, SourceView, Span, Variable
from tasks.rewrite.roles import words

_ELEMENTWISE = frozenset({"async_work_group_copy", "async_work_group_strided_copy", "prefetch", "wait_group_events"})


@dataclass(frozen=True)
class Uses:
    """The uses of a name in its function."""

    accesses: tuple[Access, ...]
    bare: tuple[Span, ...]
    """Where the name stands by itself: passed on, assigned, measured."""
    unclear: str | None
    """Why these may not be all, or may not mean this variable."""


def uses(view: SourceView, function: Function, name: str) -> Uses:
    """Every use of a name that the function declares."""
    accesses = tuple(a for a in function.accesses if a.base == name)
    read = {a.base_span for a in accesses}
    declared = [v.name_span for v in (*function.parameters, *function.variables) if v.name == name]
    spans = [span for span in view.occurrences(name, function.span) if span not in declared]
    bare = tuple(span for span in spans if span not in read)
    unclear = None
    if len(declared) != 1:
        unclear = "its name is declared more than once"
    elif view.macros_that_mention(name):
        unclear = "a macro mentions it"
    elif any(view.is_opaque(span) for span in spans) or any(view.is_opaque(a.span) for a in accesses):
        unclear = "it is used in code that is not understood"
    return Uses(accesses, bare, unclear)


def subscripted_only(view: SourceView, function: Function, array: Variable) -> str | None:
    """Why an array is used otherwise than element by element, with all its subscripts; None where it is not."""
    if array.name is None:
        return "it has no name"
    found = uses(view, function, array.name)
    if found.unclear is not None:
        return found.unclear
    if found.bare:
        return "it is used as a whole, or as a pointer"
    for access in found.accesses:
        if access.mode == "address":
            return "its address is taken"
        plain = access.form == "subscript" and access.cast is None and not access.origin and not access.members
        if not plain or len(access.indices) != len(array.dims):
            return "it is read through a pointer"
    return None


def seen_wider(view: SourceView, function: Function, array: Variable) -> str | None:
    """Why some access may need more alignment than an element has; None where none does.

    Follows pointers that are made from the array, to other elements of the same type only.
    """
    todo, done = [array.name or ""], set()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        found = uses(view, function, name)
        if found.unclear is not None:
            return found.unclear
        if any(a.cast is not None and a.cast.removesuffix("*").strip() != array.base_type for a in found.accesses):
            return "it is read as another type"
        addresses = [a.span for a in found.accesses if a.mode == "address"]
        for span in (*found.bare, *addresses):
            reached = _reached(function, span, array.base_type)
            if reached is None:
                return "a pointer to it goes elsewhere"
            todo += reached
    return None


def _reached(function: Function, span: Span, base_type: str) -> list[str] | None:
    """The pointer that takes what stands at `span`; empty where nothing keeps it, None where that is unclear."""
    for call in function.calls:
        if call.callee in _ELEMENTWISE and any(a.span.contains(span) for a in call.arguments):
            return []
    pointers = {v.name: v for v in function.variables if v.is_pointer and v.pointer_depth == 1}
    target = None
    for variable in function.variables:
        if variable.initializer is not None and variable.initializer.span.contains(span):
            target = pointers.get(variable.name), variable.initializer.text
    for assignment in function.assignments:
        if assignment.value is not None and assignment.value.span.contains(span):
            target = pointers.get(assignment.name), assignment.value.text
        elif assignment.span.contains(span) and assignment.operator in ("++", "--", "+=", "-=", "="):
            # `p += n`: p itself moves on
            return []
    if target is None or target[0] is None or target[0].base_type != base_type:
        return None
    if "(" in target[1] and words(target[1]) & _POINTER_TYPES:
        return None
    return [target[0].name or ""]


_POINTER_TYPES = frozenset({"void", "__local", "local", "__private", "private", "__global", "global"})
"""Words of a cast: what is cast on its way is not followed."""
