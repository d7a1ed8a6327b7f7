"""Where a pointer leads, and which places cannot overlap."""

from __future__ import annotations

from dataclasses import dataclass

from experts.source.syntax import Syntax, operator, strip

from .names import Name, Scope
from .types import Unclear

Roots = frozenset[Name] | None
"""The arrays and parameters that a pointer may lead into; None where they are not known."""


@dataclass(frozen=True, slots=True)
class Element:
    """The lane-th element of a vector in memory: `base[index * width + lane]`, or `base[index + lane]`."""

    base: str
    index: str
    """Without the lane; may be empty."""
    scaled: bool
    """The index counts whole vectors."""
    roots: Roots
    constant: bool = False
    """Its base is declared const."""

    def text(self, lane: str, width: int) -> str:
        """The expression."""
        if not self.index:
            return f"{self.base}[{lane}]"
        return f"{self.base}[{self.index}{f' * {width}' if self.scaled else ''} + {lane}]"

    @property
    def whole(self) -> bool:
        """Whether it starts a whole number of vectors behind its base."""
        return self.scaled or not self.index


class Memory:
    """What a function's pointers lead to."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._assigned: dict[Name, list[Syntax | None]] = {}
        for node in scope.nodes:
            if node.type == "assignment_expression" and operator(node) == "=":
                self._note(node.get("left"), node.get("right"))
            elif node.type == "pointer_expression" and operator(node) == "&":
                self._note(node.get("argument"), None)

    def _note(self, target: Syntax | None, value: Syntax | None) -> None:
        name = self.scope.resolve(strip(target)) if target is not None else None
        if name is not None:
            self._assigned.setdefault(name, []).append(value)

    def base(self, node: Syntax) -> Name | None:
        """The variable that a pointer expression starts from."""
        node = strip(node)
        if node.type == "identifier":
            return self.scope.resolve(node)
        cast = self.scope.cast(node)
        if cast is not None:
            return self.base(cast.operand)
        if node.type in ("subscript_expression", "pointer_expression"):
            inner = node.get("argument")
            return self.base(inner) if inner is not None else None
        if node.type == "binary_expression" and operator(node) in ("+", "-"):
            sides = [s for s in (node.get("left"), node.get("right")) if s is not None]
            leading = [s for s in sides if self.scope.type_of(s).depth]
            return self.base(leading[0]) if len(leading) == 1 else None
        return None

    def roots(self, node: Syntax) -> Roots:
        """What a pointer expression leads into."""
        name = self.base(node)
        return self._roots(name, frozenset()) if name is not None else None

    def _roots(self, name: Name, seen: frozenset[Name]) -> Roots:
        if name in seen:
            return frozenset()
        changes = self._assigned.get(name, [])
        # an array of pointers leads elsewhere
        numbers = name.variable.is_array and not name.variable.pointer_depth
        if numbers or (name.type.width > 1 and name.type.depth == 0):
            return frozenset({name})
        if not name.variable.is_pointer or name.type.depth != 1:
            return None
        found: frozenset[Name] = frozenset({name}) if name.parameter else frozenset()
        values = list(changes) if name.parameter else [name.value, *changes] if name.value else list(changes)
        if not (values or name.parameter):
            return None
        for value in values:
            start = self.base(value) if value is not None else None
            inner = self._roots(start, seen | {name}) if start is not None else None
            if inner is None:
                return None
            found |= inner
        return found

    def distinct(self, one: Roots, other: Roots) -> bool:
        """Whether no memory is in both, for certain."""
        return bool(one and other) and all(self._apart(a, b) for a in one or () for b in other or ())

    def _apart(self, one: Name, other: Name) -> bool:
        if one is other:
            return False
        spaces = [self._space(one), self._space(other)]
        if None not in spaces and spaces[0] != spaces[1]:
            return True
        if not (one.parameter or other.parameter):
            return True
        function = self.scope.function
        mine = self.scope.view.occurrences(function.name)
        if not function.is_entry or len(mine) != 1:
            # a parameter of a function may be what the caller likes, but not an array of its own
            return any(not n.parameter and n.declarator is not None for n in (one, other))
        return not (one.parameter and other.parameter) or self._other_buffers(one, other)

    @staticmethod
    def _space(name: Name) -> str | None:
        space = name.variable.address_space
        # one buffer can be passed as both
        return None if space == "generic" else "global" if space == "constant" else space

    def _other_buffers(self, one: Name, other: Name) -> bool:
        """Whether every launch passes two buffers: those are disjoint."""
        function = self.scope.function
        places = [function.parameters.index(n.variable) for n in (one, other)]
        launches = [x for x in self.scope.kernel.manifest.launch if x.entry == function.name]
        return bool(launches) and all(
            len(x.args) > max(places) and x.args[places[0]] != x.args[places[1]] for x in launches
        )


class Traffic:
    """What one statement reads and writes."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.target: Element | None = None
        self.written: Name | None = None
        """The vector variable that is written."""
        self._vectors: list[Element] = []
        self._scalars: list[Roots] = []
        self._lanes: list[Name] = []

    def read_vector(self, element: Element) -> None:
        """A vector is read from memory."""
        self._vectors.append(element)

    def read_scalar(self, roots: Roots) -> None:
        """A number is read from memory."""
        self._scalars.append(roots)

    def read_lane(self, name: Name) -> None:
        """One lane of a vector variable is read."""
        self._lanes.append(name)

    def check(self) -> None:
        """Whether reading everything before writing and going lane by lane are the same. Raises Unclear."""
        if self.written is not None and self.written in self._lanes:
            raise Unclear("it reads one lane of the vector that it writes")
        target = self.target
        if target is None:
            return
        if target.roots is None:
            raise Unclear("what it writes into is not certain")
        for roots in (*self._scalars, *(frozenset({n}) for n in self._lanes)):
            if not self.memory.distinct(target.roots, roots):
                raise Unclear("a number that it reads may lie in the vector that it writes")
        for vector in self._vectors:
            same = vector.base == target.base and (
                (vector.index, vector.scaled) == (target.index, target.scaled) or (vector.whole and target.whole)
            )
            if not same and not self.memory.distinct(target.roots, vector.roots):
                raise Unclear("what it reads may overlap what it writes")
