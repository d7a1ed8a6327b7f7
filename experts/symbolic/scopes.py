"""Which declaration a name means at a place, and what changes it."""

from __future__ import annotations

from collections import defaultdict

from experts.source import Assignment, Function, Loop, SourceView, Span, Variable
from experts.source.syntax import Syntax

from .values import Unclear

_BLOCKS = frozenset({"compound_statement", "for_statement", "for_range_loop"})
_STATEMENTS = frozenset({"expression_statement", "declaration", "return_statement"})


class Scopes:
    """Names, blocks and statements of one function."""

    def __init__(self, view: SourceView, function: Function) -> None:
        self.view = view
        self.function = function
        self.loops: tuple[Loop, ...] = tuple(function.walk_loops())
        """All loops, in source order."""
        self._blocks: list[Span] = [function.span]
        self._statements: list[Syntax] = []
        for node in _inside(view.tree, function.body):
            if node.type in _BLOCKS:
                self._blocks.append(node.span)
            elif node.type in _STATEMENTS:
                self._statements.append(node)
        self._declared: dict[str, list[tuple[Span, Variable]]] = defaultdict(list)
        for variable in (*function.parameters, *function.variables):
            if variable.name is not None and variable.name_span is not None:
                is_parameter = variable in function.parameters
                scope = function.span if is_parameter else self.block(variable.name_span)
                self._declared[variable.name].append((scope, variable))
        self._known: dict[Span, tuple[Assignment, ...] | Unclear] = {}
        self._changes: dict[Span, list[Assignment]] = defaultdict(list)  # by the name's place in the declaration
        for assignment in function.assignments:
            target = self.visible(assignment.name, assignment.span.end)
            if target is not None and target.name_span is not None:
                self._changes[target.name_span].append(assignment)

    def block(self, place: Span) -> Span:
        """The innermost block or loop around a place; the function for its parameters."""
        around = [block for block in self._blocks if block.contains(place) and block != place]
        return min(around, key=lambda block: block.end - block.start, default=self.function.span)

    def scope(self, variable: Variable) -> Span:
        """Where the variable can be seen."""
        return next(scope for scope, other in self._declared[variable.name or ""] if other is variable)

    def visible(self, name: str, at: int) -> Variable | None:
        """The variable or parameter that a name means at an offset; None where the function declares none."""
        found: tuple[Span, Variable] | None = None
        for scope, variable in self._declared.get(name, ()):
            assert variable.name_span is not None
            seen = scope.start <= at <= scope.end and variable.name_span.end <= at
            if seen and (found is None or scope.start >= found[0].start):
                found = scope, variable
        return found[1] if found is not None else None

    def is_declared(self, name: str) -> bool:
        """Whether the function declares the name anywhere."""
        return name in self._declared

    def changes(self, variable: Variable) -> tuple[Assignment, ...]:
        """What changes a variable behind its declaration; its address is taken: one with the operator `&`.

        Raises Unclear where there may be more: in code that is not understood, in macros.
        """
        assert variable.name is not None and variable.name_span is not None
        known = self._known.get(variable.name_span)
        if known is None:
            known = self._known[variable.name_span] = self._all_changes(variable, variable.name, variable.name_span)
        if isinstance(known, Unclear):
            raise Unclear(*known.args)
        return known

    def _all_changes(self, variable: Variable, name: str, place: Span) -> tuple[Assignment, ...] | Unclear:
        scope = self.scope(variable)
        for macro in self.view.macros_that_mention(name):
            # what is a value changes nothing
            if macro.shape == "code" and name not in (macro.parameters or ()):
                return Unclear(f"a macro mentions {name}")
        for opaque in self.view.opaque:
            if opaque.span.overlaps(scope) and self.view.occurrences(name, opaque.span):
                return Unclear(f"{name} is used in code that is not understood")
        return tuple(self._changes.get(place, ()))

    def statement(self, place: Span) -> Span | None:
        """The innermost statement or declaration around a place."""
        around = [node.span for node in self._statements if node.span.contains(place)]
        return min(around, key=lambda span: span.end - span.start, default=None)

    def directly_in(self, place: Span, block: Span) -> bool:
        """Whether the statement around a place stands in the block itself, so that it runs whenever the block does."""
        for node in self._statements:
            if node.span.contains(place) and node.parent is not None:
                if node.parent.type == "compound_statement" and node.parent.span == block:
                    return True
                if node.span == block and node.parent.type == "for_statement":
                    return True  # a body without braces
        return False

    def loops_around(self, place: Span) -> tuple[Loop, ...]:
        """The loops whose body holds a place, outer ones first."""
        return tuple(loop for loop in self.loops if loop.body.contains(place))


def _inside(root: Syntax, body: Span) -> list[Syntax]:
    found: list[Syntax] = []
    todo = [root]
    while todo:
        node = todo.pop()
        if body.contains(node.span):
            found.append(node)
        if node.span.overlaps(body):
            todo.extend(node.children)
    return found
