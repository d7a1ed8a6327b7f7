"""Which changes of a variable have run before a place: those that ran once, and the one that runs in each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experts.source import Assignment, Loop, Span, Variable

from .scopes import Scopes
from .values import Unclear

_MOVES = frozenset({"+=", "-=", "++", "--"})


@dataclass(frozen=True)
class History:
    """What happened to a variable since its declaration."""

    start: Assignment | None
    """Where it got its first value, if not where it was declared."""
    once: tuple[Assignment, ...]
    """`+=` and the like that ran once."""
    repeated: tuple[Loop, Assignment] | None
    """The one that runs once in each iteration of a loop around the place."""


def before(scopes: Scopes, variable: Variable, changes: Sequence[Assignment], at: int) -> History:
    """The history of a variable at an offset. Raises Unclear where it depends on more than counters of loops."""
    function = scopes.function
    is_parameter = any(p is variable for p in function.parameters)
    block = function.body if is_parameter else scopes.scope(variable)
    declared = () if is_parameter else scopes.loops_around(variable.span)
    around = scopes.loops_around(Span(at, at))
    others = [loop for loop in scopes.loops if loop not in declared]
    start: Assignment | None = None
    once: list[Assignment] = []
    repeated: tuple[Loop, Assignment] | None = None
    for change in sorted(changes, key=lambda c: c.span):
        if change.operator == "&":
            raise Unclear(f"the address of {variable.name} is taken")
        loops = scopes.loops_around(change.span)[len(declared) :]
        shared = any(loop.span.contains(change.span) and loop.span.contains(Span(at, at)) for loop in others)
        if change.span.end > at and not shared:
            continue  # it has not run yet
        if change.component is not None or change.statement is None:
            raise Unclear(f"{variable.name} changes")
        if not loops and change.operator == "=" and scopes.directly_in(change.span, block):
            if once or start is not None or variable.initializer is not None or is_parameter:
                raise Unclear(f"{variable.name} changes")
            start = change
        elif not loops and change.operator in _MOVES and scopes.directly_in(change.span, block):
            once.append(change)
        elif _each_time(scopes, change, loops) and loops[0] in around and repeated is None:
            repeated = loops[0], change
        else:
            raise Unclear(f"{variable.name} changes where it is not certain")
    if repeated is not None and any(move.span.start > repeated[0].span.start for move in once):
        raise Unclear(f"{variable.name} changes in and around a loop")
    if start is not None and any(move.span.start < start.span.start for move in once):
        raise Unclear(f"{variable.name} changes before it has a value")
    return History(start, tuple(once), repeated)


def _each_time(scopes: Scopes, change: Assignment, loops: Sequence[Loop]) -> bool:
    """Whether it runs once in each iteration of the only loop around it, declared loops aside."""
    if len(loops) != 1 or change.operator not in _MOVES:
        return False
    return "continue" not in loops[0].exits and scopes.directly_in(change.span, loops[0].body)
