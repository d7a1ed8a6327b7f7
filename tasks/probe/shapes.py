"""The family of shapes that a kernel is probed at: around a small aligned base, ordered so that any first part of it
looks at every dimension, at every power of two, on both sides of the base.

Nothing is drawn anew: a case has one family, and a smaller budget takes the first part of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TypeVar

from experts.case import ITEM_BYTES, Case
from experts.expressions import ExpressionError
from experts.verdict import Tier

FULL = 200
"""Shapes of the whole family."""
OFFSETS = (16, 4, 32, 8, 60)
"""Bytes that a tensor starts behind its aligned place; the first three before all else."""

_STEPS = (1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48)
_SMALL = (1, 2, 3, 4, 7, 8, 15, 16, 17, 32)
_FACTORS = (2, 3, 4, 8)
_BEYOND = (512, 1024, 2048, 4096)
"""Where tiles and local arrays tend to end."""
_CLASSES = 6
"""Of sizes: odd, even but no multiple of 4, ..., multiples of 32."""
_TOGETHER = 1024
"""No larger size but for one dimension alone."""
_OPERATIONS = 10_000_000
"""A naive kernel does them in less than 20 ms."""
_BYTES = 1 << 20
_SANITIZED_OPERATIONS = 200_000
"""The simulator does some 700,000 a second."""

T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """What one probe runs at."""

    dims: Mapping[str, int]
    offset_tensor: str | None = None
    """The tensor that starts off its alignment; None where none does."""
    offset_bytes: int = 0
    tier: Tier = "default"

    @property
    def offsets(self) -> dict[str, int]:
        """Bytes by tensor."""
        return {self.offset_tensor: self.offset_bytes} if self.offset_tensor is not None else {}

    def __hash__(self) -> int:
        return hash((tuple(self.dims.items()), self.offset_tensor, self.offset_bytes, self.tier))


def shapes(case: Case, budget: int | None = None, *, seed: int = 0) -> list[Shape]:
    """The first `budget` shapes of the case's family, all of them for None; `seed` is of its random part.

    Every workload is taken to have a meaning at every size from 1 on at which its tensors have elements.
    """
    wanted = FULL if budget is None else min(budget, FULL)
    found: dict[Shape, None] = {}
    for shape in _Family(case, seed).ordered():
        found.setdefault(shape)
        if len(found) >= wanted:
            break
    return list(found)


class _Family:
    """Candidates in their order; some come twice."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case = case
        self._base = {name: case.workload.sanitize[name] for name in case.workload.dimensions}
        self._random = random.Random(f"{seed} {case.workload.name} {case.dtype} {list(self._base.items())}")
        # A workload whose base takes longer gets nothing smaller: its kernels may not take it.
        base = case.at(self._base).mandatory_operations
        self._sanitized_operations = max(_SANITIZED_OPERATIONS, base + base // 8)
        self._tails = {name: size + 1 for name, size in self._base.items()}

    def ordered(self) -> Iterator[Shape]:
        yield Shape(self._base)
        yield from self._classes(0)
        yield from self._offset(OFFSETS[:3])
        yield from self._cheap([self._tails])
        yield from self._simulated([self._tails, *self._ends(self._sanitized_operations)])
        yield from self._cheap(self._ends(_OPERATIONS))
        yield from self._classes(1)
        yield from _turns(
            self._cheap(_turns(*(self._alone(name, self._sweep(name)) for name in self._base))),
            self._cheap(self._combined()),
            self._cheap(self._drawn()),
            self._offset(OFFSETS[3:]),
            self._simulated(self._near()),
        )

    def _classes(self, turn: int) -> Iterator[Shape]:
        """For each dimension a size of each class, above or below the base; in the other turn, on the other side."""
        for number, name in product(range(_CLASSES), self._base):
            base = self._base[name]
            sizes = [size for size in self._sweep(name) if _class(size) == number]
            above = [size for size in sizes if size > base]
            below = [size for size in sizes if size < base]
            first, second = (above, below) if number % 2 == 0 else (below, above)
            chosen = (first or second) if turn == 0 else second
            yield from islice(self._cheap(self._alone(name, chosen)), 1)

    def _ends(self, operations: int) -> Iterator[dict[str, int]]:
        """For each dimension the largest size at so much work, the others as small as that needs.

        A round one where there is one: an end is to be met for itself, not for the tail before it.
        """
        for name in self._base:
            for size in sorted(self._sweep(name), key=lambda size: (_class(size), size), reverse=True):
                others = [{other: max(1, base >> shift) for other, base in self._base.items()} for shift in range(3)]
                found = next((dims for each in others if self._fits(dims := {**each, name: size}, operations)), None)
                if found is not None:
                    yield found
                    break

    def _alone(self, name: str, sizes: Iterable[int]) -> Iterator[dict[str, int]]:
        for size in sizes:
            yield {**self._base, name: size}

    def _sweep(self, name: str) -> list[int]:
        """Sizes of one dimension, those near the base first."""
        base = self._base[name]
        near = [base + sign * step for step in _STEPS for sign in (1, -1)]
        grown = [base * factor + more for factor in _FACTORS for more in (0, 1)]
        beyond = [size + more for size in _BEYOND for more in (0, 1)]
        return [size for size in dict.fromkeys((*near, *_SMALL, *grown, *beyond)) if size >= 1 and size != base]

    def _combined(self) -> Iterator[dict[str, int]]:
        """A few sizes of every dimension with those of all others."""
        choices = []
        for base in self._base.values():
            sizes = (base, base + 1, base + 4, base + 16, base - 1, 2 * base, 1, 7)
            choices.append([size for size in dict.fromkeys(sizes) if size >= 1])
        every = [dict(zip(self._base, sizes, strict=True)) for sizes in product(*choices)]
        several = [dims for dims in every if sum(dims[name] != base for name, base in self._base.items()) > 1]
        self._random.shuffle(several)
        yield from several

    def _drawn(self) -> Iterator[dict[str, int]]:
        """Sizes of all magnitudes, half of them multiples of a power of two."""
        for _ in range(4 * FULL):
            dims = {}
            for name, base in self._base.items():
                largest = min(8 * base, _TOGETHER)
                size = round(2 ** self._random.uniform(0, largest.bit_length() - 1))
                unit = self._random.choice((1, 1, 1, 4, 16, 32))
                dims[name] = max(1, size // unit * unit)
            yield dims

    def _offset(self, offsets: Sequence[int]) -> Iterator[Shape]:
        """In the simulator: whether the device minds depends on which load the compiler chose for an access."""
        for offset, tensor in product(offsets, self._case.tensors):
            if offset % ITEM_BYTES[tensor.dtype] == 0:
                yield Shape(self._base, tensor.name, offset, "sanitize")

    def _near(self) -> Iterator[dict[str, int]]:
        """Where the simulator is to look beside the ends: around the base, and at its multiples."""
        yield self._base
        for more in (1, -1, 4, 16, 2, 8):
            for name, base in self._base.items():
                yield {**self._base, name: max(1, base + more)}
        for factor, more in product(_FACTORS, (0, 1)):
            for name, base in self._base.items():
                yield {**self._base, name: factor * base + more}

    def _cheap(self, every: Iterable[dict[str, int]]) -> Iterator[Shape]:
        for dims in every:
            if self._fits(dims, _OPERATIONS):
                yield Shape(dims)

    def _simulated(self, every: Iterable[dict[str, int]]) -> Iterator[Shape]:
        for dims in every:
            if self._fits(dims, self._sanitized_operations):
                yield Shape(dims, tier="sanitize")

    def _fits(self, dims: Mapping[str, int], operations: int) -> bool:
        case = self._case.at(dims)
        try:
            elements = [min(tensor.shape, default=1) for tensor in case.tensors]
            work = case.mandatory_operations
        except ExpressionError:
            return False
        return min(elements) >= 1 and work <= operations and sum(tensor.nbytes for tensor in case.tensors) <= _BYTES


def _class(size: int) -> int:
    """How often 2 divides it, up to 5."""
    return min((size & -size).bit_length() - 1, _CLASSES - 1)


def _turns(*each: Iterable[T]) -> Iterator[T]:
    """One of each in turn, until all have ended."""
    left = [iter(one) for one in each]
    while left:
        going = []
        for one in left:
            for value in islice(one, 1):
                going.append(one)
                yield value
        left = going
