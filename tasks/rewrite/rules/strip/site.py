"""A function as the rule looks at it, and the values of names that are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from experts.kernel import Kernel
from experts.source import Function, Loop, SourceView
from experts.source.syntax import Syntax
from tasks.rewrite.rules.lanes.memory import Memory
from tasks.rewrite.rules.lanes.names import Name, Scope, walk
from tasks.rewrite.rules.lanes.types import INT, WIDTHS

SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "float": 4} | {
    "long": 8,
    "ulong": 8,
    "double": 8,
}
"""Bytes of the elements that lanes may have."""
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[1-9]\d*|0)[uUlL]*")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class Site:
    """One function of a kernel."""

    kernel: Kernel
    view: SourceView
    function: Function
    scope: Scope
    memory: Memory

    @classmethod
    def of(cls, kernel: Kernel, view: SourceView, function: Function) -> Site:
        """Read a function."""
        scope = Scope(kernel, view, function, view.tree)
        return cls(kernel, view, function, scope, Memory(scope))

    def node(self, loop: Loop) -> Syntax | None:
        """The statement of a `for` loop."""
        found = (n for n in self.scope.nodes if n.type == "for_statement" and n.span.start == loop.span.start)
        return next(found, None)

    def counter(self, node: Syntax) -> Name | None:
        """What the header of a loop declares."""
        initial = node.get("initializer")
        return next((n for n in self.scope.names if initial is not None and n.declaration is initial), None)

    def uses(self, name: Name, within: Syntax | None = None) -> list[Syntax]:
        """Where a name stands, in source order; not where it is declared."""
        scope = self.scope
        nodes = scope.nodes if within is None else walk(within)
        found = [n for n in nodes if n.type == "identifier" and scope.resolve(n) is name]
        return [n for n in found if not scope.declares(n)]

    def value(self, text: str) -> int | None:
        """The value of a number, a constant of the manifest, an enumerator or a macro; None for anything else."""
        return self._value(text, frozenset())

    def _value(self, text: str, seen: frozenset[str]) -> int | None:
        text = text.strip()
        while text.startswith("(") and text.endswith(")"):
            text = text[1:-1].strip()
        if (match := _NUMBER.fullmatch(text)) is not None:
            return int(match[1], 0)
        if not _WORD.fullmatch(text) or text in seen or any(n.text == text for n in self.scope.names):
            return None
        macros = [m for m in self.view.macros if m.name == text]
        if text in self.kernel.manifest.const:
            return self.kernel.manifest.const[text] if not macros else None
        if macros:
            plain = len(macros) == 1 and macros[0].parameters is None and not macros[0].conditional
            return self._value(macros[0].body.text, seen | {text}) if plain else None
        if text not in self.scope.enumerators:
            return None
        return self._enumerator(text, seen | {text})

    def _enumerator(self, text: str, seen: frozenset[str]) -> int | None:
        for node in walk(self.view.tree):
            name, value = node.get("name"), node.get("value")
            if node.type == "enumerator" and name is not None and self.scope.spelled(name) == text:
                return self._value(self.scope.spelled(value), seen) if value is not None else None
        return None

    def counted(self) -> Iterator[tuple[Loop, int]]:
        """The `for` loops over an int of their own that runs up to below a bound, with their step."""
        for loop in self.function.walk_loops():
            at = loop.induction
            if loop.kind != "for" or at is None or at.comparison != "<" or at.type is None:
                continue
            step = self.value(at.step)
            if step is not None and self.scope.read(at.type) == INT:
                yield loop, step

    def lanes(self, loop: Loop) -> int | None:
        """The number of lanes that a loop runs over; None for other loops."""
        at = loop.induction
        if loop.kind != "for" or at is None or at.comparison != "<" or at.type is None or at.start.text != "0":
            return None
        number = self.value(at.bound.text) if at.step == "1" and self.scope.read(at.type) == INT else None
        return number if number in WIDTHS else None


def sites(kernel: Kernel, view: SourceView) -> Iterator[Site]:
    """The functions that have loops."""
    return (Site.of(kernel, view, function) for function in view.functions if function.loops)
