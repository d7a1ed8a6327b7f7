"""Symbolic whole numbers: polynomials with integer coefficients over symbols, counters and operations on these.

A **symbol** is a number that a case fixes: a dimension, a scalar, a `[const]`. A **counter** runs over 0, 1, ...
trip - 1: the iterations of a loop, the ids of work-items. So the variable of a loop is `start + step * counter`.
An **operation** is what is no polynomial: min, max, division, remainder, a choice by a comparison. Equal polynomials
are equal values; operations are equal where their arguments are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal

OperationName = Literal[
    "min",
    "max",
    "div",  # of C: rounded towards zero
    "mod",
    "fdiv",  # rounded towards minus infinity, as in the manifest's language
    "fmod",
    "if<",  # (a, b, x, y): x where a < b, else y
    "if<=",
    "if==",
    "unsigned",  # the argument, which has no value where it is negative: it would wrap round
]
_MAX_TERMS = 64
_MAX_DEGREE = 12
_MAX_BITS = 62
_MAX_KEY = 4000
_MAX_DEPTH = 24


class Unclear(ValueError):
    """A number that the text does not tell, or that is out of reach; never guessed. The message is one line."""


class Symbol:
    """A number that a case fixes."""

    __slots__ = ("key", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Counter:
    """Runs over 0, 1, ... trip - 1. Counters of one key are the same: one loop of one function in one launch."""

    __slots__ = ("key", "trip")

    def __init__(self, key: str, trip: Value) -> None:
        self.key = f"[{key}]"
        self.trip = trip
        """Nothing where it is not positive. May depend on other counters."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Operation:
    """What is no polynomial."""

    __slots__ = ("arguments", "depth", "key", "name")

    def __init__(self, name: OperationName, arguments: tuple[Value, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.key = f"{name}({', '.join(a.key for a in arguments)})"
        self.depth = 1 + max(a.depth for a in arguments)
        if len(self.key) > _MAX_KEY or self.depth > _MAX_DEPTH:
            raise Unclear("an expression of too many parts")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


Atom = Symbol | Counter | Operation
Monomial = tuple[Atom, ...]
"""A product, sorted by key; empty for 1."""


class Value:
    """A polynomial. Frozen; equal where the terms are."""

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        kept = {monomial: factor for monomial, factor in terms.items() if factor}
        if len(kept) > _MAX_TERMS or any(len(m) > _MAX_DEGREE for m in kept):
            raise Unclear("an expression of too many parts")
        if any(factor.bit_length() > _MAX_BITS for factor in kept.values()):
            raise Unclear("a number beyond 62 bits")
        ordered = sorted(kept.items(), key=lambda item: [atom.key for atom in item[0]])
        self.terms: tuple[tuple[Monomial, int], ...] = tuple(ordered)

    @cached_property
    def key(self) -> str:
        """One spelling for equal values."""
        parts = ("*".join([str(factor), *(atom.key for atom in monomial)]) for monomial, factor in self.terms)
        return " + ".join(parts) or "0"

    def __repr__(self) -> str:
        return f"Value({self.key})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and other.terms == self.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Value) -> Value:
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor
        return Value(terms)

    def __neg__(self) -> Value:
        return Value({monomial: -factor for monomial, factor in self.terms})

    def __sub__(self, other: Value) -> Value:
        return self + -other

    def __mul__(self, other: Value) -> Value:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                product = tuple(sorted((*left, *right), key=lambda atom: atom.key))
                terms[product] = terms.get(product, 0) + a * b
        return Value(terms)

    @property
    def number(self) -> int | None:
        """The number that it is; None where it depends on anything."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @cached_property
    def depth(self) -> int:
        """How deep operations are nested."""
        return max((atom.depth for atom in self.atoms() if isinstance(atom, Operation)), default=0)

    def atoms(self) -> Iterator[Atom]:
        """Its atoms, those inside operations and trips not included; may repeat."""
        for monomial, _ in self.terms:
            yield from monomial

    @cached_property
    def counters(self) -> frozenset[Counter]:
        """The counters that it depends on, those inside operations included; trips are not looked into."""
        found: set[Counter] = set()
        for atom in self.atoms():
            if isinstance(atom, Counter):
                found.add(atom)
            elif isinstance(atom, Operation):
                for argument in atom.arguments:
                    found |= argument.counters
        return frozenset(found)

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The symbols that it depends on, those inside operations included; trips are not looked into."""
        found: set[str] = set()
        for atom in self.atoms():
            if isinstance(atom, Symbol):
                found.add(atom.name)
            elif isinstance(atom, Operation):
                for argument in atom.arguments:
                    found |= argument.symbols
        return frozenset(found)

    def operations(self) -> Iterator[Operation]:
        """Every operation inside, outer ones first; may repeat."""
        for atom in self.atoms():
            if isinstance(atom, Operation):
                yield atom
                for argument in atom.arguments:
                    yield from argument.operations()


def number(value: int) -> Value:
    """A number as a value."""
    return Value({(): value})


def symbol(name: str) -> Value:
    """A symbol as a value."""
    return Value({(Symbol(name),): 1})


def counter(key: str, trip: Value) -> Value:
    """A counter as a value: 0 where it has one iteration."""
    return number(0) if trip.number == 1 else Value({(Counter(key, trip),): 1})


def operation(name: OperationName, *arguments: Value) -> Value:
    """The value of an operation, as simple as it is easily made. Raises Unclear for a division by zero."""
    if name in ("min", "max"):
        return _extreme(name, arguments)
    if name in ("div", "mod", "fdiv", "fmod"):
        return _division(name, *arguments)
    if name == "unsigned":
        known = arguments[0].number
        if known is not None and known < 0:
            raise Unclear("an unsigned number below zero")
        return arguments[0] if known is not None else Value({(Operation(name, arguments),): 1})
    left, right, then, otherwise = arguments
    if then == otherwise:
        return then
    a, b = left.number, right.number
    if a is not None and b is not None:
        holds = a < b if name == "if<" else a <= b if name == "if<=" else a == b
        return then if holds else otherwise
    if name != "if==" and {left, right} == {then, otherwise}:
        return operation("min" if left == then else "max", left, right)
    return Value({(Operation(name, arguments),): 1})


def cdiv(value: Value, divisor: Value) -> Value:
    """Division rounded up."""
    return operation("fdiv", value + divisor - number(1), divisor)


def _extreme(name: Literal["min", "max"], arguments: Iterable[Value]) -> Value:
    pick = min if name == "min" else max
    numbers: list[int] = []
    others: dict[str, Value] = {}
    for argument in arguments:
        if argument.number is None:
            others[argument.key] = argument
        else:
            numbers.append(argument.number)
    kept = [others[key] for key in sorted(others)]
    if numbers:
        kept.append(number(pick(numbers)))
    return kept[0] if len(kept) == 1 else Value({(Operation(name, tuple(kept)),): 1})


def _division(name: Literal["div", "mod", "fdiv", "fmod"], value: Value, divisor: Value) -> Value:
    by = divisor.number
    if by == 0:
        raise Unclear("a division by zero")
    whole = quotient(value, divisor)
    if whole is not None:
        return whole if name in ("div", "fdiv") else number(0)
    known = value.number
    if known is not None and by is not None:
        if name in ("fdiv", "fmod"):
            return number(known // by if name == "fdiv" else known % by)
        towards_zero = abs(known) // abs(by) * (1 if (known < 0) == (by < 0) else -1)
        return number(towards_zero if name == "div" else known - towards_zero * by)
    return Value({(Operation(name, (value, divisor)),): 1})


def quotient(value: Value, divisor: Value) -> Value | None:
    """The exact quotient by a divisor of one term; None where some term is not divisible."""
    if len(divisor.terms) != 1:
        return None
    (common, by), terms = divisor.terms[0], {}
    for monomial, factor in value.terms:
        rest = list(monomial)
        for atom in common:
            if atom not in rest:
                return None
            rest.remove(atom)
        if factor % by:
            return None
        terms[tuple(rest)] = factor // by
    return Value(terms)


def substituted(value: Value, replacement: Mapping[Counter, Value]) -> Value:
    """The value with counters replaced; trips are left as they are."""
    if value.counters.isdisjoint(replacement):
        return value
    total = number(0)
    for monomial, factor in value.terms:
        product = number(factor)
        for atom in monomial:
            if isinstance(atom, Counter) and atom in replacement:
                product *= replacement[atom]
            elif isinstance(atom, Operation):
                product *= operation(atom.name, *(substituted(a, replacement) for a in atom.arguments))
            else:
                product *= Value({(atom,): 1})
        total += product
    return total


def not_negative(value: Value, positive: Collection[str]) -> bool:
    """Whether it is certain to be 0 or more; `positive` names the symbols that are 1 or more."""
    # With every such symbol written as 1 + something that is not negative, no coefficient is below zero.
    total = number(0)
    for monomial, factor in value.terms:
        product = number(factor)
        for atom in monomial:
            if isinstance(atom, Symbol) and atom.name not in positive:
                return False
            if isinstance(atom, Operation) and not _operation_not_negative(atom, positive):
                return False
            own = Value({(atom,): 1})
            product *= own + number(1) if isinstance(atom, Symbol) else own
        total += product
    return all(factor >= 0 for _, factor in total.terms)


def _operation_not_negative(found: Operation, positive: Collection[str]) -> bool:
    if found.name == "unsigned":
        return True
    needed = found.arguments[2:] if found.name.startswith("if") else found.arguments
    results = [not_negative(argument, positive) for argument in needed]
    return any(results) if found.name == "max" else all(results)
