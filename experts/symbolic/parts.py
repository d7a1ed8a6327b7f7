"""What an expression of C can stand for: a whole number, or a place in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .types import Element
from .values import Unclear, Value, number, operation

Relation = Literal["<", "<=", ">", ">=", "==", "!="]


@dataclass(frozen=True)
class Integer:
    """A whole number of 32 or 64 bits."""

    value: Value
    unsigned: bool = False

    @property
    def checked(self) -> Value:
        """The value for what is no sum or product: of an unsigned number that must not have wrapped round."""
        if not self.unsigned:
            return self.value
        return self.value if self.value.number == 0 else operation("unsigned", self.value)


@dataclass(frozen=True)
class Address:
    """A place in memory."""

    base: str
    """The name of a tensor or workspace as a launch passes it; of an array, its anchor."""
    space: Literal["global", "constant", "local", "private"]
    offset: Value
    """From the start of the base, in bytes."""
    element: Element
    """What it is read or written as."""
    dims: tuple[Value, ...] = ()
    """What an index steps over: the sizes of the array's dimensions behind this one."""

    def moved(self, count: Value) -> Address:
        """`count` elements further; for an address of rows, rows."""
        step = count * number(self.element.size)
        for size in self.dims:
            step *= size
        return replace(self, offset=self.offset + step)

    def row(self) -> Address:
        """The same place, seen as the first element of the row there. Raises Unclear for what has no rows."""
        if not self.dims:
            raise Unclear("an index more than there are dimensions")
        return replace(self, dims=self.dims[1:])

    def seen_as(self, element: Element) -> Address:
        """Through a cast."""
        return replace(self, element=element, dims=())


@dataclass(frozen=True)
class Cell:
    """What stands in memory at an address: its value is not known, its address is."""

    address: Address


@dataclass(frozen=True)
class Comparison:
    """A condition that can be told."""

    relation: Relation
    left: Value
    right: Value

    def choose(self, then: Value, otherwise: Value) -> Value:
        """One value or the other."""
        if self.relation in ("<", "<=", "=="):
            return operation(f"if{self.relation}", self.left, self.right, then, otherwise)  # type: ignore[arg-type]
        if self.relation == "!=":
            return operation("if==", self.left, self.right, otherwise, then)
        return operation("if<" if self.relation == ">" else "if<=", self.right, self.left, then, otherwise)


Part = Integer | Address | Cell | Comparison
