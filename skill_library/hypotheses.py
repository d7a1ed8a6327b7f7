"""The atoms that learning may propose, in order of preference, with how much each claims.

The space is small on purpose: a place offers some twenty facts, and with enough atoms any handful of shapes can be
separated by accident. Facts are compared with facts where that means something (elements with elements, bytes with
bytes), and with constants only where no such relation separates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from skill_library.predicates import Atom, FactRef, Facts, FactValue, holds

RELATION, MULTIPLE, BOUND, EQUAL = range(4)
"""Ranks: a relation between facts of the place before a power of two, before a bound, before a name."""

_RELATIONS = (
    ("loop.extent", "%", "vector.width"),
    ("loop.extent", "%", "const.value"),
    ("tile.extent", "%", "const.value"),
    ("tile.extent", "%", "vector.width"),
    ("loop.step", "%", "vector.width"),
    ("const.value", "%", "vector.width"),
    ("tile.elements", "%", "vector.width"),
    ("access.stride", "%", "vector.width"),
    ("access.align", "%", "vector.bytes"),
    ("tile.bytes", "%", "vector.bytes"),
    ("reduction.extent", "%", "vector.width"),
    ("reduction.extent", "%", "const.value"),
    ("loop.extent", "<=", "tile.elements"),
    ("loop.extent", "<=", "const.value"),
    ("tile.extent", "<=", "tile.elements"),
    ("const.value", "<=", "tile.elements"),
    ("group.size", "<=", "tile.elements"),
    ("reduction.extent", "<=", "tile.elements"),
    ("loop.extent", ">=", "vector.width"),
    ("loop.extent", ">=", "const.value"),
    ("tile.extent", ">=", "const.value"),
    ("reduction.extent", ">=", "vector.width"),
    ("tile.bytes", "<=", "platform.local_bytes"),
    ("compile.local_bytes", "<=", "platform.local_bytes"),
)
"""Pairs that mean something, elements with elements and bytes with bytes: with what the edit makes, or has to fit.
`reduction.extent` comes after `loop.extent`, which it equals where it exists: what is known of a loop then also serves
loops that reduce nothing."""
_SURROUNDINGS = (
    ("loop.extent", "%", "loop.step"),
    ("loop.extent", "%", "group.size"),
    ("tile.extent", "%", "group.size"),
    ("group.size", "%", "platform.warp"),
    ("reduction.extent", "%", "loop.step"),
    ("loop.extent", "<=", "group.size"),
    ("reduction.extent", "<=", "group.size"),
    ("loop.extent", ">=", "loop.step"),
)
"""Pairs with what stood there before the edit. They come after all others: a group of 16 work-items and a vector of 16
elements meet by chance, and in the next kernel the group has one, which divides everything."""

_POWERS = tuple(1 << power for power in range(1, 13))
_EXACT = ("access.stride", "loop.step")
"""Numbers for which one value is a kind of its own (neighbours, plain loops)."""

_GRID: dict[str, tuple[int, ...]] = {
    "vector.width": (2, 4, 8, 16),
    "vector.bytes": (8, 16, 32, 64),
    "access.align": tuple(1 << power for power in range(13)),
    "access.stride": (0, 1, 2, 4, 16, 100),
    "loop.step": (1, 2, 4, 8, 16),
    "const.value": (1, 2, 3, 4, 6, 8, 16, 32, 64),
    "group.size": (1, 16, 32, 64, 128, 256),
    "tile.elements": (16, 64, 100, 256, 1024, 4096),
    "tile.bytes": (64, 256, 1024, 4096, 16384, 65536),
    "platform.local_bytes": (32768, 49152, 65536, 1 << 18),
    "platform.warp": (1, 32, 64),
    "compile.local_bytes": (0, 1024, 16384, 32768, 65536),
}
"""Conceivable values of facts, to see how much an atom claims."""
_DERIVED = {
    "reduction.extent": ("loop.extent", 1),
    "vector.bytes": ("vector.width", 4),
    "tile.bytes": ("tile.elements", 4),
}
"""Facts that follow from another one, and by what factor (of 4-byte elements)."""
_NUMBERS = (*range(1, 66), 96, 100, 127, 128, 129, 192, 250, 255, 256, 257, 384, 500, 512, 768, 1000, 1024, 2048, 4096)


@dataclass(frozen=True)
class Hypothesis:
    """An atom that learning may propose."""

    atom: Atom
    rank: int
    surrounding: bool
    """A relation with what the edit did not make."""
    order: int
    """Within its rank, where nothing else decides."""

    @property
    def claim(self) -> float:
        """The share of conceivable values for which it holds: the smaller, the less it claims."""
        return _claim(self.atom)

    @property
    def preference(self) -> tuple[int, bool, float, int]:
        """Sorts the simplest first, among them the one that claims least."""
        return self.rank, self.surrounding, self.claim, self.order


def hypotheses(passes: Sequence[Facts], fails: Sequence[Facts], names: Collection[str]) -> list[Hypothesis]:
    """All atoms that may separate these samples, in order of preference. Constants come from what passed."""
    ordered = sorted(names)
    ranked = [
        *((RELATION, False, atom) for atom in _relations(_RELATIONS, names)),
        *((RELATION, True, atom) for atom in _relations(_SURROUNDINGS, names)),
        *((MULTIPLE, False, atom) for name in ordered for atom in _multiples(name, passes)),
        *((BOUND, False, atom) for name in ordered for atom in _bounds(name, passes, fails)),
        *((EQUAL, False, atom) for name in ordered for atom in _equalities(name, passes, fails)),
    ]
    found = [Hypothesis(atom, rank, outer, order) for order, (rank, outer, atom) in enumerate(ranked)]
    return sorted(found, key=lambda each: each.preference)


def relations_of_edit(names: Collection[str]) -> tuple[Atom, ...]:
    """The relations between facts of the place and what the edit makes, of the facts that are there."""
    return tuple(_relations(_RELATIONS, names))


def implies(one: Atom, other: Atom) -> bool:
    """Whether `other` holds at all conceivable values for which `one` does."""
    if {_base(name) for name in one.facts}.isdisjoint(map(_base, other.facts)):
        return _claim(other) == 1.0
    return all(holds(other, point) for point in _points((one, other)) if holds(one, point))


@lru_cache(maxsize=4096)
def _claim(atom: Atom) -> float:
    if isinstance(atom.value, str | bool):
        return 0.5  # its values are names: nothing to count
    verdicts = [holds(atom, point) for point in _points((atom,))]
    return sum(verdicts) / len(verdicts)


def _points(atoms: Sequence[Atom]) -> Iterator[Facts]:
    """All combinations of conceivable values of their facts."""
    names = list(dict.fromkeys(name for atom in atoms for name in atom.facts))
    # What follows from another fact there takes its value from it.
    free = [name for name in names if _base(name) == name or _base(name) not in names]
    for point in product(*(_GRID.get(name, _NUMBERS) for name in free)):
        values = dict(zip(free, point, strict=True))
        values |= {name: values[_base(name)] * _DERIVED[name][1] for name in names if name not in values}
        yield {name: frozenset({value}) for name, value in values.items()}


def _base(name: str) -> str:
    return _DERIVED[name][0] if name in _DERIVED else name


def _relations(table: Sequence[tuple[str, str, str]], names: Collection[str]) -> Iterator[Atom]:
    for fact, how, other in table:
        if fact in names and other in names:
            yield _remainder(fact, FactRef(fact=other)) if how == "%" else _compared(fact, how, FactRef(fact=other))


def _multiples(name: str, passes: Sequence[Facts]) -> Iterator[Atom]:
    numbers = _numbers(name, passes)
    for power in _POWERS:
        if numbers and all(number % power == 0 for number in numbers):
            yield _remainder(name, power)


def _bounds(name: str, passes: Sequence[Facts], fails: Sequence[Facts]) -> Iterator[Atom]:
    """At the edge of what passed."""
    numbers = _numbers(name, passes)
    if numbers and _numbers(name, fails):
        yield _compared(name, "<=", max(numbers))
        yield _compared(name, ">=", min(numbers))
        if name in _EXACT and len(numbers) == 1:
            yield _compared(name, "==", min(numbers))


def _equalities(name: str, passes: Sequence[Facts], fails: Sequence[Facts]) -> Iterator[Atom]:
    """Names and truths, where they vary."""
    passed = {_plain(facts.get(name)) for facts in passes}
    if len(passed) == 1 and passed.isdisjoint(_plain(facts.get(name)) for facts in fails):
        value = passed.pop()
        if value is not None:
            yield Atom(fact=name, op="==", value=value)


def _plain(value: FactValue | None) -> str | bool | None:
    return None if isinstance(value, frozenset) else value


def _numbers(name: str, samples: Sequence[Facts]) -> set[int]:
    """All values of a fact; empty where it is no number or somewhere unknown."""
    found: set[int] = set()
    for facts in samples:
        value = facts.get(name)
        if not isinstance(value, frozenset) or not value:
            return set()
        found |= value
    return found


def _remainder(fact: str, mod: int | FactRef) -> Atom:
    return Atom(fact=fact, mod=mod, op="==", value=0)


def _compared(fact: str, op: str, value: int | FactRef) -> Atom:
    return Atom.model_validate({"fact": fact, "op": op, "value": value})
