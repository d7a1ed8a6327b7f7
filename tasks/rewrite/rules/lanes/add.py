"""Vectors in: loops over lanes as vector code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from experts.source import TextEdit
from experts.source.syntax import Syntax, strip

from .gather import ANY_NUMBER, Style, VectorGatherer
from .loops import LaneLoop, LaneRegion
from .memory import Memory, Traffic
from .names import Name, Scope
from .shape import is_primary
from .types import NARROW, Unclear

_COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_INTEGER_ONLY = frozenset({"%=", "&=", "|=", "^=", "<<=", ">>="})
_ZERO = re.compile(r"\{\s*0(?:\.0*f?)?\s*\}")


@dataclass(frozen=True)
class Wish:
    """What the way back of a removal knows about the vector code; a human's loops have the defaults."""

    style: Style = field(default_factory=Style)
    constants: frozenset[str] = frozenset()
    split: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Addition:
    """How a region of loops becomes vector code."""

    edits: tuple[TextEdit, ...]
    intent: str


def addition(scope: Scope, memory: Memory, region: LaneRegion, wish: Wish) -> Addition:
    """The addition of one region. Raises Unclear."""
    if region.region.fault is not None:
        raise Unclear(region.region.fault)
    return _Adder(scope, memory, region, wish).addition()


class _Adder:
    def __init__(self, scope: Scope, memory: Memory, region: LaneRegion, wish: Wish) -> None:
        self.scope = scope
        self.memory = memory
        self.region = region.region
        self.loops = {id(x.node): x for x in region.loops}
        self.wish = wish
        self.arrays = frozenset(n for n in self.region.names if n not in region.pointers)
        self.width = self.region.width
        self.writer = VectorGatherer(scope, memory, self.width, self.arrays, region.pointers, wish.style)
        self.edits: list[TextEdit] = []
        self.merged: set[int] = set()
        """Loops that became the value of a declaration."""

    def addition(self) -> Addition:
        """All edits of the region."""
        writer = self.writer
        for name in self.region.names:
            if name.parameter:
                self.edits.append(TextEdit.replace(name.variable.type_span, writer.type_name(name.type.element)))
        for unit in self.region.units:
            loop = self.loops.get(id(unit))
            writer.loop, writer.traffic = None, None
            if loop is not None:
                if id(unit) not in self.merged:
                    self._loop(loop)
            elif unit.type == "declaration":
                self._declaration(unit)
            else:
                self.edits.append(TextEdit.replace(unit.span, writer.scalar(unit)))
        forms = self.wish.style.forms
        if forms not in ANY_NUMBER and writer.used != len(forms):
            raise Unclear("it accesses memory less often than it did")
        arithmetic = writer.computes or not (writer.loads or writer.stores)
        moves = "copy" if writer.loads and writer.stores else "load" if writer.loads else "store"
        return Addition(tuple(self.edits), f"vectorize-{'arithmetic' if arithmetic else moves}")

    def _loop(self, loop: LaneLoop) -> None:
        """The statement of a loop, as it is without the loop."""
        text, inside = self.scope.text, loop.expression.span
        self._clear(loop)
        written = self._statement(loop)
        before = text[loop.statement.span.start : inside.start]
        behind = text[inside.end : loop.statement.span.end]
        self.edits.append(TextEdit.replace(loop.loop.span, before + written + behind))

    def _clear(self, loop: LaneLoop) -> None:
        """Whether nothing would be lost with the loop. Raises Unclear."""
        scope, text = self.scope, self.scope.text
        if loop.loop.hints:
            raise Unclear("the loop has a hint")
        between = text[loop.loop.header.end : loop.statement.span.start]
        behind = text[loop.statement.span.end : loop.loop.span.end]
        if (between + behind).strip(" \t\n{}"):
            raise Unclear("a comment stands in the loop")
        start = loop.node.span.start
        for pragma in scope.view.pragmas:
            near = pragma.span.end <= start and not text[pragma.span.end : start].strip()
            if near or loop.node.span.contains(pragma.span):
                raise Unclear("the loop has a hint")

    def _assignment(self, loop: LaneLoop) -> tuple[Syntax, str, Syntax]:
        node = loop.expression
        left, right, sign = node.get("left"), node.get("right"), self.scope.operator(node)
        if node.type != "assignment_expression" or left is None or right is None:
            raise Unclear("what is done for each lane is no assignment")
        if sign != "=" and sign not in _COMPOUND:
            raise Unclear("what is done for each lane is no assignment")
        return strip(left), sign, right

    def _statement(self, loop: LaneLoop) -> str:
        writer, scope = self.writer, self.scope
        left, sign, right = self._assignment(loop)
        writer.loop = loop
        traffic = writer.traffic = Traffic(self.memory)
        target = writer.target(left)
        value = self._value(left, sign, right)
        if sign != "=":
            writer.computes = True
            writer.loads += traffic.target is not None
        traffic.check()
        element = scope.type_of(left).element
        if target.startswith("vload"):
            place = target[target.index("(") :]
            if not writer.varies(right):
                value = writer.splatted(right, element)
            if sign != "=":
                value = f"{target} {sign[:-1]} {value if is_primary(right) else f'({value})'}"
            return f"vstore{self.width}({value}, {place[1:]}"
        between = scope.text[left.span.end : right.span.start]
        return f"{target}{between}{value}"

    def _value(self, left: Syntax, sign: str, right: Syntax) -> str:
        """The right side. Raises Unclear where its type is not the left's."""
        writer, scope = self.writer, self.scope
        element = scope.type_of(left).element
        if sign != "=" and (element in NARROW or (sign in _INTEGER_ONLY and element in ("float", "double"))):
            raise Unclear(f"{sign} on lanes of {element}")
        if writer.varies(right):
            if scope.type_of(right).element != element:
                raise Unclear("lanes of another type are assigned")
            return writer.vector(right)
        if not scope.type_of(right).scalar:
            raise Unclear("a part whose type is not known")
        if sign in ("<<=", ">>="):
            return writer.scalar(right)
        if sign != "=":
            return writer.beside(right, element)
        return writer.splatted(right, element) if self.wish.style.splat else writer.scalar(right)

    # declarations

    def _declaration(self, unit: Syntax) -> None:
        writer = self.writer
        names = [n for n in self.region.names if n.declaration is unit]
        if not names:
            self.edits.append(TextEdit.replace(unit.span, writer.scalar(unit)))
            return
        if len(unit.all("declarator")) != len(names) or any(n.variable.const and n in self.arrays for n in names):
            raise Unclear(f"{names[0].text} is declared with something else, or const")
        names.sort(key=lambda n: n.variable.declarator.start)
        if any(n in self.arrays for n in names) and not all(n in self.arrays for n in names):
            raise Unclear("a vector and a pointer in one declaration")
        arrays = [n for n in names if n in self.arrays]
        settings = self._settings(unit, arrays)
        whole = all(n in settings and n.text in self.wish.constants for n in names)
        kind = ("const " if whole else "") + writer.type_name(names[0].type.element)
        self.edits.append(TextEdit.replace(names[0].variable.type_span, kind))
        for name in names:
            value = name.value
            if name in self.arrays:
                self._array(name, settings.get(name))
            elif value is not None:
                self.edits.append(TextEdit.replace(value.span, writer.pointer(value, name)))
        if settings:
            last = max(x.loop.span.end for x in settings.values())
            self.edits.append(TextEdit(unit.span.end, last, ""))

    def _array(self, name: Name, loop: LaneLoop | None) -> None:
        """The declarator of a vector or an array of them, with what the loop behind the declaration sets it to."""
        node = name.declarator
        assert node is not None
        if node.type == "init_declarator":
            node = node.get("declarator") or node
        inner = node.get("declarator")
        if node.type != "array_declarator" or inner is None:
            raise Unclear(f"the declarator of {name.text}")
        written = ""
        if loop is not None:
            self._clear(loop)
            left, sign, right = self._assignment(loop)
            self.writer.loop, self.writer.traffic = loop, Traffic(self.memory)
            written = f" = {self._value(left, sign, right)}"
            self.writer.loop = self.writer.traffic = None
            self.merged.add(id(loop.node))
        self.edits.append(TextEdit(inner.span.end, node.span.end, written))
        value = name.value
        if value is not None and len(name.variable.dims) == 1:
            self._literal(name, value)
        elif value is not None and not _ZERO.fullmatch(self.scope.spelled(value)):
            raise Unclear(f"{name.text} has a list of values")

    def _settings(self, unit: Syntax, names: list[Name]) -> dict[Name, LaneLoop]:
        """The loops right behind a declaration that set its vectors, in their order."""
        found: dict[Name, LaneLoop] = {}
        siblings = unit.parent.named if unit.parent is not None else []
        at, end = siblings.index(unit) + 1, unit.span.end
        for index, name in enumerate(names):
            loop = self.loops.get(id(siblings[at])) if at < len(siblings) else None
            if loop is None or self.scope.text[end : loop.loop.span.start].strip():
                break
            if self._sets(loop, name, names[index:]):
                found[name] = loop
                at, end = at + 1, loop.loop.span.end
        return found

    def _sets(self, loop: LaneLoop, name: Name, undeclared: list[Name]) -> bool:
        """Whether a loop sets a whole vector, to what is known where it is declared."""
        node = loop.expression
        left, right = node.get("left"), node.get("right")
        if self.scope.operator(node) != "=" or left is None or right is None or name.value is not None:
            return False
        if len(name.variable.dims) != 1 or name.text in self.wish.split:
            return False
        return self.memory.base(strip(left)) is name and not any(_mentions(self.scope, right, n) for n in undeclared)

    def _literal(self, name: Name, value: Syntax) -> None:
        """`(float4)(a, b, c, d)` for `{a, b, c, d}`."""
        spelled = self.scope.spelled(value)
        parts = value.named
        if _ZERO.fullmatch(spelled):
            text = spelled
        elif value.type == "initializer_list" and len(parts) == self.width:
            if not all(self.scope.type_of(p).scalar for p in parts):
                raise Unclear(f"{name.text} has a list of values")
            if name.text in self.wish.lists:
                text = self.writer.scalar(value)
            else:
                listed = ", ".join(self.writer.scalar(p) for p in parts)
                text = f"({self.writer.type_name(name.type.element)})({listed})"
        else:
            raise Unclear(f"{name.text} has a list of values")
        self.edits.append(TextEdit.replace(value.span, text))


def _mentions(scope: Scope, node: Syntax, name: Name) -> bool:
    todo = [node]
    while todo:
        inner = todo.pop()
        if inner.type == "identifier" and scope.resolve(inner) is name:
            return True
        todo.extend(inner.children)
    return False
