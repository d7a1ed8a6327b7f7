"""The numbers that a value takes at given symbols, over all its counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from .values import Counter, Operation, Symbol, Unclear, Value

EXHAUSTIVE = 1 << 14
"""Up to so many combinations of counters are all looked at; else the first three and last two values of each."""
_MAX_ROWS = 1 << 17
_MAX_COUNTERS = 16
_LIMIT = 1 << 62

Column = npt.NDArray[np.int64]


def numbers_of(value: Value, symbols: Mapping[str, int]) -> Column:
    """Every number that the value takes, sorted; empty where its counters never run.

    With more than EXHAUSTIVE combinations of counters, those at the ends of their ranges stand for the others. Raises
    Unclear where a symbol is missing, a divisor is 0 or a number leaves 62 bits.
    """
    known = value.number
    if known is not None:
        return np.array([known], np.int64)
    ordered = _ordered(value.counters)
    rows = _rows(ordered, symbols, whole=True)
    if rows is None:
        rows = _rows(ordered, symbols, whole=False)
    if rows is None:
        raise Unclear("too many combinations of loops and work-items")
    return np.unique(_evaluated(value, symbols, rows))


def number_at(value: Value, symbols: Mapping[str, int]) -> int:
    """The number of a value without counters. Raises Unclear as `numbers_of`, and where it has some."""
    if value.counters:
        raise Unclear("it depends on a loop or a work-item")
    return int(numbers_of(value, symbols)[0])


def _ordered(counters: Iterable[Counter]) -> list[Counter]:
    """These and all that their trips depend on, each behind what it depends on."""
    ordered: dict[Counter, None] = {}
    path: set[Counter] = set()

    def visit(counter: Counter) -> None:
        if counter in ordered:
            return
        if counter in path or len(ordered) >= _MAX_COUNTERS:
            raise Unclear("loops that depend on each other")
        path.add(counter)
        for needed in sorted(counter.trip.counters, key=lambda c: c.key):
            visit(needed)
        path.remove(counter)
        ordered[counter] = None

    for counter in sorted(counters, key=lambda c: c.key):
        visit(counter)
    return list(ordered)


class _Rows:
    """Combinations of counters: a column for each, all of one length."""

    def __init__(self) -> None:
        self.columns: dict[Counter, Column] = {}
        self.length = 1


def _rows(ordered: list[Counter], symbols: Mapping[str, int], *, whole: bool) -> _Rows | None:
    """All combinations, or those at the ends; None where there are too many."""
    rows = _Rows()
    for counter in ordered:
        trips = np.maximum(_evaluated(counter.trip, symbols, rows), 0)
        counts = trips if whole else np.minimum(trips, 5)
        # As Python's integers: the sum itself may be too large.
        if not counts.size:
            length = 0
        elif int(counts.max()) > _MAX_ROWS:
            return None
        else:
            length = int(counts.sum())
        if length > (EXHAUSTIVE if whole else _MAX_ROWS):
            return None
        first = np.repeat(np.cumsum(counts) - counts, counts)
        own = np.arange(length, dtype=np.int64) - first
        if not whole:
            ends = np.repeat(trips, counts)
            own = np.where((own >= 3) & (ends > 5), ends - 5 + own, own)
        rows.columns = {known: np.repeat(column, counts) for known, column in rows.columns.items()}
        rows.columns[counter] = own
        rows.length = length
    return rows


def _evaluated(value: Value, symbols: Mapping[str, int], rows: _Rows) -> Column:
    total = np.zeros(rows.length, np.int64)
    reach = 0
    for monomial, factor in value.terms:
        product: Column | int = factor
        most = abs(factor)
        for atom in monomial:
            part: Column | int
            if isinstance(atom, Symbol):
                if atom.name not in symbols:
                    raise Unclear(f"{atom.name} has no value here")
                part = symbols[atom.name]
                most *= abs(part)
            else:
                part = rows.columns[atom] if isinstance(atom, Counter) else _operated(atom, symbols, rows)
                most *= int(np.abs(part).max(initial=0))
            if most >= _LIMIT:
                raise Unclear("a number beyond 62 bits")
            product = product * part
        reach += most
        if reach >= _LIMIT:
            raise Unclear("a number beyond 62 bits")
        total = total + product
    return total


def _operated(found: Operation, symbols: Mapping[str, int], rows: _Rows) -> Column:
    arguments = [_evaluated(argument, symbols, rows) for argument in found.arguments]
    if found.name in ("min", "max"):
        pick = np.minimum if found.name == "min" else np.maximum
        result: Column = pick.reduce(arguments)
        return result
    if found.name.startswith("if"):
        left, right, then, otherwise = arguments
        holds = left < right if found.name == "if<" else left <= right if found.name == "if<=" else left == right
        picked: Column = np.where(holds, then, otherwise)
        return picked
    if found.name == "unsigned":
        if (arguments[0] < 0).any():
            raise Unclear("an unsigned number below zero")
        return arguments[0]
    value, divisor = arguments
    if not divisor.all():
        raise Unclear("a division by zero")
    if found.name == "fdiv":
        return value // divisor
    if found.name == "fmod":
        return value % divisor
    towards_zero: Column = np.abs(value) // np.abs(divisor) * np.sign(value) * np.sign(divisor)
    return towards_zero if found.name == "div" else value - towards_zero * divisor
