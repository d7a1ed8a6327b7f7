"""Which values an integer expression of a kernel can take: an interval, where the text tells.

Known are `[const]`, macros that are values, variables of one assignment, loop variables, and the ids of work-items
where the launches' blocks follow from `[const]`. Whatever else stands in an expression has no known value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experts.expressions import ExpressionError
from experts.kernel import Kernel
from experts.source import Function, Loop, SourceView, Span
from experts.source.lexer import Token, tokenize

_MAX_DEPTH = 24
_TYPES = frozenset({"int", "uint", "long", "size_t", "short", "ushort", "char", "uchar", "unsigned int"})
Interval = tuple[int, int]
"""The least and the greatest value."""


class _Unknown(Exception):
    pass


@dataclass(frozen=True)
class Ranges:
    """Intervals of expressions in one function."""

    kernel: Kernel
    view: SourceView
    function: Function

    def of(self, text: str, at: Span) -> Interval | None:
        """The interval of an expression that stands at `at`; None where it is not known."""
        try:
            return _Reader(self, at, 0).read(text)
        except _Unknown:
            return None

    def block(self, axis: int) -> int:
        """The greatest number of work-items of a group along an axis. Raises _Unknown."""
        sizes, const = [], self.kernel.manifest.const
        for launch in self.kernel.manifest.launch:
            if launch.entry == self.function.name:
                try:
                    sizes.append(launch.block[axis].integer(const) if axis < len(launch.block) else 1)
                except ExpressionError:
                    raise _Unknown from None
        if not sizes or not self.function.is_entry:
            raise _Unknown
        return max(sizes)


class _Reader:
    """Reads one expression of C: `+ - * / %`, brackets, names, `get_local_id`, `min` and `max`."""

    def __init__(self, ranges: Ranges, at: Span, depth: int) -> None:
        self.ranges, self.at, self.depth = ranges, at, depth
        self.tokens: Sequence[Token] = ()
        self.next = 0

    def read(self, text: str) -> Interval:
        if self.depth > _MAX_DEPTH:
            raise _Unknown
        self.tokens = [t for t in tokenize(text) if t.kind != "comment"]
        value = self._sum()
        if self.next < len(self.tokens):
            raise _Unknown
        return value

    def _peek(self) -> str:
        return self.tokens[self.next].text if self.next < len(self.tokens) else ""

    def _take(self, wanted: str | None = None) -> Token:
        if self.next >= len(self.tokens) or (wanted is not None and self._peek() != wanted):
            raise _Unknown
        self.next += 1
        return self.tokens[self.next - 1]

    def _sum(self) -> Interval:
        value = self._product()
        while self._peek() in ("+", "-"):
            sign = self._take().text
            low, high = self._product()
            value = (value[0] + low, value[1] + high) if sign == "+" else (value[0] - high, value[1] - low)
        return value

    def _product(self) -> Interval:
        value = self._atom()
        while self._peek() in ("*", "/", "%"):
            sign = self._take().text
            other = self._atom()
            if sign == "*":
                ends = [a * b for a in value for b in other]
                value = min(ends), max(ends)
            elif value[0] < 0 or other[0] <= 0:
                raise _Unknown  # C rounds towards zero
            elif sign == "/":
                value = value[0] // other[1], value[1] // other[0]
            else:
                value = (0, min(value[1], other[1] - 1))
        return value

    def _atom(self) -> Interval:
        token = self._take()
        if token.text == "(":
            value = self._sum()
            self._take(")")
            return value
        if token.text == "-":
            low, high = self._atom()
            return -high, -low
        if token.kind == "number":
            try:
                number = int(token.text.rstrip("uUlL"), 0)
            except ValueError:
                raise _Unknown from None
            return number, number
        if token.kind != "word":
            raise _Unknown
        return self._call(token.text) if self._peek() == "(" else self._name(token.text)

    def _call(self, name: str) -> Interval:
        if any(f.name == name for f in self.ranges.view.functions) or any(
            m.name == name for m in self.ranges.view.macros
        ):
            raise _Unknown
        self._take("(")
        arguments = [self._sum()]
        while self._peek() == ",":
            self._take()
            arguments.append(self._sum())
        self._take(")")
        if name == "get_local_id" and len(arguments) == 1 and arguments[0][0] == arguments[0][1]:
            return 0, max(self.ranges.block(arguments[0][0]) - 1, 0) if 0 <= arguments[0][0] < 3 else 0
        if name in ("min", "max") and len(arguments) == 2:
            pick = min if name == "min" else max
            return pick(arguments[0][0], arguments[1][0]), pick(arguments[0][1], arguments[1][1])
        raise _Unknown

    def _name(self, name: str) -> Interval:
        ranges, function = self.ranges, self.ranges.function
        declared = [v for v in (*function.parameters, *function.variables) if v.name == name]
        macros = [m for m in ranges.view.macros if m.name == name]
        if not declared:
            if name in ranges.kernel.manifest.const and not macros:
                return (ranges.kernel.manifest.const[name],) * 2
            if len(macros) == 1 and macros[0].shape == "value" and macros[0].parameters is None:
                if macros[0].conditional:
                    raise _Unknown
                return self._elsewhere(macros[0].body.text, self.at)
            raise _Unknown
        changes = [a for a in function.assignments if a.name == name]
        loop = self._loop(name)
        if loop is not None:
            return self._counted(loop)
        if len(declared) == 1 and not changes and declared[0].base_type in _TYPES and not declared[0].dims:
            value = declared[0].initializer
            if value is not None and not declared[0].pointer_depth:
                return self._elsewhere(value.text, value.span)
        raise _Unknown

    def _elsewhere(self, text: str, at: Span) -> Interval:
        return _Reader(self.ranges, at, self.depth + 1).read(text)

    def _loop(self, name: str) -> Loop | None:
        """The innermost loop over that variable whose body holds this place; its header must declare it."""
        around = [
            loop
            for loop in self.ranges.function.walk_loops()
            if loop.body.contains(self.at) and loop.induction is not None and loop.induction.name == name
        ]
        return around[-1] if around and around[-1].induction and around[-1].induction.type is not None else None

    def _counted(self, loop: Loop) -> Interval:
        counter = loop.induction
        if counter is None or counter.comparison not in ("<", "<="):
            raise _Unknown
        start = self._elsewhere(counter.start.text, counter.start.span)
        bound = self._elsewhere(counter.bound.text, counter.bound.span)
        last = bound[1] - (counter.comparison == "<")
        return start[0], max(last, start[0])
