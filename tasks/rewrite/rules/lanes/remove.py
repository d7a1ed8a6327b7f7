"""Vectors out: a region of vector code as loops over lanes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from experts.source import Span, TextEdit
from experts.source.syntax import Syntax, strip

from .memory import Memory, Traffic
from .names import Name, Scope
from .regions import Region
from .shape import fresh_lane, indent_of, nested
from .types import NARROW, Unclear
from .vectors import VectorWriter

_COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_INTEGER_ONLY = frozenset({"%=", "&=", "|=", "^=", "<<=", ">>="})
_ZERO = re.compile(r"\{\s*0(?:\.0*f?)?\s*\}")
_EQUALS = re.compile(r"\s*=\s*")


@dataclass(frozen=True)
class Removal:
    """How a region becomes loops over lanes, and what the way back has to know."""

    edits: tuple[TextEdit, ...]
    width: int
    intent: str
    lane: str
    pointers: tuple[str, ...]
    """Variables and parameters that point to vectors."""
    constants: tuple[str, ...]
    """Vectors that were const."""
    lists: tuple[str, ...]
    """Vectors that were set by `{a, b}`, not by `(float2)(a, b)`."""
    arrays: tuple[str, ...]
    """Vectors of which only components are used."""
    split: tuple[str, ...]
    """Vectors that were set by the statement behind their declaration."""
    spelling: str
    """Of the vector type, where it is a name of the kernel's own."""
    forms: str
    """`VectorWriter.forms`; a lone `v` where all are."""
    splat: bool
    """Scalars that stood for vectors were written `(float4)(x)`."""
    digits: bool
    """Components were written .s0 though they could be .x."""


def removal(scope: Scope, memory: Memory, region: Region, wanted: str) -> Removal:
    """The removal of one region. Raises Unclear."""
    if region.fault is not None:
        raise Unclear(region.fault)
    return _Remover(scope, memory, region, wanted).removal()


class _Remover:
    def __init__(self, scope: Scope, memory: Memory, region: Region, wanted: str) -> None:
        self.scope = scope
        self.memory = memory
        self.region = region
        self.width = region.width
        self.lane = fresh_lane(scope, region.units, wanted)
        self.writer = VectorWriter(scope, memory, region.width, self.lane)
        self.edits: list[TextEdit] = []
        self.constants: list[str] = []
        self.lists: list[str] = []
        self.looped = False

    def removal(self) -> Removal:
        """All edits of the region."""
        for name in self.region.names:
            if name.parameter:
                self.edits.append(TextEdit.replace(name.variable.type_span, name.type.element))
        for unit in self.region.units:
            if unit.type == "declaration":
                self._declaration(unit)
            else:
                self._statement(unit)
        writer = self.writer
        if not self.looped:
            raise Unclear("no statement is about whole vectors")
        arithmetic = writer.computes or not (writer.loads or writer.stores)
        moves = "copy" if writer.loads and writer.stores else "load" if writer.loads else "store"
        forms = "".join(writer.forms)
        pointers = {n.text for n in self.region.names if n.variable.is_pointer}
        spelled = {n.variable.base_type for n in self.region.names}
        usual = {f"{n.type.element}{self.width}" for n in self.region.names}
        own = next(iter(spelled)) if len(spelled) == 1 and spelled != usual else ""
        return Removal(
            tuple(self.edits),
            self.width,
            f"vectorize-{'arithmetic' if arithmetic else moves}",
            self.lane,
            tuple(sorted(pointers)),
            tuple(sorted(self.constants)),
            tuple(sorted(self.lists)),
            tuple(sorted({n.text for n in self.region.names} - pointers - writer.whole)),
            tuple(sorted(self._split())),
            own,
            "v" if set(forms) == {"v"} else forms,
            bool(writer.splats) and all(writer.splats),
            "digit" in writer.components and self.width <= 4,
        )

    def _split(self) -> set[str]:
        """Vectors whose declaration without a value stands right before the statement that sets them."""
        found = set()
        for name in self.region.names:
            declaration = name.declaration
            if declaration is None or name.value is not None or name.variable.dims:
                continue
            behind = _next(declaration)
            expression = behind.named[0] if behind is not None and behind.named else None
            left = expression.get("left") if expression is not None else None
            if left is not None and self.scope.resolve(strip(left)) is name:
                found.add(name.text)
        return found

    # statements

    def _statement(self, unit: Syntax) -> None:
        scope = self.scope
        expression = strip(unit.named[0]) if unit.type == "expression_statement" and unit.named else None
        if expression is not None:
            left = expression.get("left") if expression.type == "assignment_expression" else None
            if left is not None and scope.type_of(left).vector:
                if self._by_components(unit, expression, strip(left)):
                    return
                self._lanes(unit, self._assignment(expression, left), expression.span)
                return
            call = scope.memory_call(expression)
            if call is not None and call[0]:
                self._lanes(unit, self._vstore(expression), expression.span)
                return
        self.writer.traffic = None
        self.edits.append(TextEdit.replace(unit.span, self.writer.scalar(unit)))

    def _by_components(self, unit: Syntax, node: Syntax, left: Syntax) -> bool:
        """`v = (float4)(a, b, c, d);` as one statement for each lane; whether it was one."""
        scope, writer, text = self.scope, self.writer, self.scope.text
        right = node.get("right")
        literal = scope.cast(strip(right)) if right is not None else None
        if literal is None or not literal.type.vector or len(literal.arguments) == 1 or scope.operator(node) != "=":
            return False
        traffic = writer.traffic = Traffic(self.memory)
        target = self._target(left, False, traffic)
        if traffic.target is not None or literal.type != scope.type_of(left):
            raise Unclear("a vector literal of several values that is stored")
        if unit.parent is None or unit.parent.type != "compound_statement":
            raise Unclear("a vector literal of several values as the only statement")
        values = self._values(literal.arguments)
        traffic.check()
        place = target.removesuffix(f"[{self.lane}]")
        lead = indent_of(text, unit.span.start)
        gap = " " if lead is None else f"\n{lead}"
        written = gap.join(f"{place}[{lane}] = {value};" for lane, value in enumerate(values))
        self.edits.append(TextEdit.replace(unit.span, written))
        return True

    def _lanes(self, unit: Syntax, text: str, inside: Span) -> None:
        """Put a loop around a statement whose expression is now `text`."""
        whole = self.scope.text
        for pragma in self.scope.view.pragmas:
            if pragma.span.end <= unit.span.start and not whole[pragma.span.end : unit.span.start].strip():
                raise Unclear("a pragma stands right before it")
        statement = whole[unit.span.start : inside.start] + text + whole[inside.end : unit.span.end]
        self.looped = True
        replacement = nested(whole, unit.span.start, statement, self.lane, self.width)
        self.edits.append(TextEdit.replace(unit.span, replacement))

    def _assignment(self, node: Syntax, left: Syntax) -> str:
        scope, writer = self.scope, self.writer
        right, sign = node.get("right"), scope.operator(node)
        kind = scope.type_of(left)
        if right is None or (sign != "=" and sign not in _COMPOUND) or kind.width != self.width:
            raise Unclear("an assignment that is not understood")
        if kind.element == "half":
            raise Unclear("half vectors")
        traffic = writer.traffic = Traffic(self.memory)
        target = self._target(left, sign != "=", traffic)
        other = scope.type_of(right)
        if other.vector and other != kind:
            raise Unclear("vectors of two types in one operation")
        if sign == "=":
            text = writer.value(right)
        else:
            writer.computes = True
            if kind.element in NARROW or (sign in _INTEGER_ONLY and kind.element in ("float", "double")):
                raise Unclear(f"arithmetic on {kind.element}, which a scalar does otherwise")
            if sign in ("<<=", ">>="):
                text = writer.vector(right) if other.vector else writer.scalar(right)
            else:
                text = writer.vector(right) if other.vector else writer.coerced(right, kind.element)
        traffic.check()
        between = scope.text[left.span.end : right.span.start]
        return target + between + text

    def _target(self, left: Syntax, reads: bool, traffic: Traffic) -> str:
        writer = self.writer
        place = writer.element(left)
        if isinstance(place, str):
            traffic.written = self.memory.base(strip(left))
            return f"{place}[{self.lane}]"
        writer.stores += 1
        writer.loads += reads
        traffic.target = place
        if place.constant:
            raise Unclear("it writes through a pointer to const")
        return place.text(self.lane, self.width)

    def _vstore(self, node: Syntax) -> str:
        scope, writer = self.scope, self.writer
        traffic = writer.traffic = Traffic(self.memory)
        arguments = scope.arguments(node)
        target = self._target(node, False, traffic)
        stored = scope.type_of(arguments[0])
        if stored.element != scope.type_of(arguments[2]).element or not stored.vector:
            raise Unclear("a vstore of something else than its vector")
        text = writer.value(arguments[0])
        traffic.check()
        return f"{target} = {text}"

    # declarations

    def _declaration(self, unit: Syntax) -> None:
        names = sorted(
            (n for n in self.region.names if n.declaration is unit), key=lambda n: n.variable.declarator.start
        )
        self.writer.traffic = None
        if not names:
            self.edits.append(TextEdit.replace(unit.span, self.writer.scalar(unit)))
            return
        self.edits.append(TextEdit.replace(names[0].variable.type_span, names[0].type.element))
        alone = len(names) == 1
        if not alone and any(n.variable.is_pointer for n in names) and not all(n.variable.is_pointer for n in names):
            raise Unclear("a vector and a pointer in one declaration")
        loops = ""
        dropped: set[Span] = set()
        for name in names:
            value = name.value
            if name.variable.is_pointer:
                if value is not None:
                    self.edits.append(TextEdit.replace(value.span, self.writer.pointer(value, name)))
                continue
            if name.variable.address_space not in ("private", "local"):
                raise Unclear(f"{name.text} lies in {name.variable.address_space} memory")
            node = self._bare_declarator(name)
            self.writer.traffic = None
            for dimension in name.variable.dims:
                if dimension is None:
                    raise Unclear(f"{name.text} is an array of unknown length")
            self.edits.append(TextEdit(node.span.end, node.span.end, f"[{self.width}]"))
            if value is not None:
                loops += self._initializer(unit, name, node, value, alone, dropped)
        if loops:
            self.edits.append(TextEdit(unit.span.end, unit.span.end, loops))

    def _bare_declarator(self, name: Name) -> Syntax:
        node = name.declarator
        assert node is not None
        if node.type == "init_declarator" and (inner := node.get("declarator")) is not None:
            node = inner
        if node.type not in ("identifier", "array_declarator"):
            raise Unclear(f"the declarator of {name.text}")
        return node

    def _initializer(
        self, unit: Syntax, name: Name, node: Syntax, value: Syntax, alone: bool, dropped: set[Span]
    ) -> str:
        """Set the lanes behind the declaration; what is to stand there where others are declared, too."""
        scope, writer, text = self.scope, self.writer, self.scope.text
        if value.type == "initializer_list":
            if not _ZERO.fullmatch(scope.spelled(value)):
                if len(value.named) != self.width or name.variable.dims:
                    raise Unclear(f"{name.text} has a list of values")
                if not all(scope.type_of(v).scalar for v in value.named):
                    raise Unclear(f"{name.text} has a list of vectors")
                self.edits.append(TextEdit.replace(value.span, writer.scalar(value)))
                self.lists.append(name.text)
            return ""
        if not _EQUALS.fullmatch(text[node.span.end : value.span.start]):
            raise Unclear(f"something stands between {name.text} and its value")
        literal = scope.cast(strip(value))
        writer.traffic = Traffic(self.memory)
        if literal is not None and literal.type.vector and len(literal.arguments) > 1:
            if name.variable.dims:
                raise Unclear("a vector literal of several values")
            values = ", ".join(self._values(literal.arguments))
            self.edits.append(TextEdit.replace(value.span, f"{{{values}}}"))
            return ""
        if scope.type_of(value).vector and scope.type_of(value) != name.type:
            raise Unclear("vectors of two types in one operation")
        written = f"{name.text}[{self.lane}] = {writer.value(value)};"
        for qualifier in name.variable.qualifiers:
            if qualifier.kind == "const" and qualifier.removal not in dropped:
                dropped.add(qualifier.removal)
                self.edits.append(TextEdit.replace(qualifier.removal, ""))
        if name.variable.const:
            self.constants.append(name.text)
        self.looped = True
        writer.whole.add(name.text)
        lead = indent_of(text, unit.span.start)
        gap = " " if lead is None else f"\n{lead}"
        loop = nested(text, unit.span.start, written, self.lane, self.width)
        if not alone:
            self.edits.append(TextEdit(node.span.end, value.span.end, ""))
            return gap + loop
        if unit.span.end != value.span.end + 1:
            raise Unclear(f"something stands behind the value of {name.text}")
        self.edits.append(TextEdit(node.span.end, unit.span.end, f";{gap}{loop}"))
        return ""

    def _values(self, arguments: tuple[Syntax, ...]) -> list[str]:
        """The values of a vector literal of scalars. Raises Unclear for others."""
        if len(arguments) != self.width or not all(self.scope.type_of(a).scalar for a in arguments):
            raise Unclear("a vector literal of several vectors")
        return [self.writer.scalar(a) for a in arguments]


def _next(node: Syntax) -> Syntax | None:
    above = node.parent
    siblings = above.named if above is not None else []
    at = siblings.index(node)
    return siblings[at + 1] if at + 1 < len(siblings) else None
