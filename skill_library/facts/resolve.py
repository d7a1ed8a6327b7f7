"""The facts of a place: their names, their values at a case's dimensions, and as expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import gcd
from types import MappingProxyType

import numpy as np

from experts.case import Case
from experts.platform import Platform
from experts.symbolic import (
    Unclear,
    Value,
    expression_text,
    number,
    numbers_of,
    term_texts,
)
from experts.symbolic import (
    divisibility_terms as terms_of,
)
from experts.verdict import CompileFacts
from skill_library.facts.measures import Measures, measures
from skill_library.facts.site import Place
from skill_library.predicates import Facts, FactValue

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "loop.extent": "how far the loop runs: from its start to its bound, in steps of 1",
        "loop.step": "what each iteration adds to the loop's variable",
        "reduction.extent": "loop.extent of a loop that carries a sum, a maximum or the like",
        "vector.width": "elements of the vector or block that the edit makes, else of the vectors there",
        "vector.bytes": "bytes of that vector or block",
        "access.align": "bytes: the largest power of two, at most 128, that divides the address of every block of "
        "vector.width elements in global memory",
        "access.stride": "elements between neighbouring iterations of the innermost loop around each global access",
        "tile.elements": "elements of the array, lane by lane; or the size of its dimension that the loop indexes",
        "tile.bytes": "bytes of that array",
        "tile.extent": "what a [const] divides: extents of loops that step by it, D of cdiv(D, X) and D / X",
        "const.value": "the value of a [const] after the edit",
        "group.size": "work-items of a group",
        "dtype": "the case's element type: f32",
        "platform.arch": "the instruction set or device generation: avx512, sm90",
        "platform.local_bytes": "bytes of local memory that a group can have",
        "platform.warp": "work-items that run in lockstep",
        "compile.registers": "registers of a work-item, as the compiler says",
        "compile.spill_bytes": "bytes of registers that the compiler put into memory",
        "compile.local_bytes": "bytes of local memory, as the compiler says",
        "prior(x)": "whether an optimization of intent x stands in the kernel",
    }
)
"""Every fact: meaning and unit. `prior(x)` stands for one fact of each intent x."""

TENSOR_ALIGNMENT = 128
"""Tensors start at a multiple of so many bytes."""
_LOCAL_BYTES = {"sm90": 232448, "sm120": 101376}
"""Shared memory that a block can ask for; on a CPU it is the runtime's to say."""


def facts_at(
    place: Place,
    case: Case,
    platform: Platform,
    *,
    offsets: Mapping[str, int] = MappingProxyType({}),
    report: CompileFacts | None = None,
    standing: Collection[str] = (),
) -> Facts:
    """The facts of a place at a case's dimensions; what cannot be told is absent.

    `offsets`: by tensor, the bytes that its start is behind a multiple of 128. `standing`: the intents of which a rule
    finds a place in the kernel.
    """
    found = measures(place, case)
    symbols = _symbols(place, case) | {"WARP": platform.warp}
    facts: dict[str, FactValue] = {}
    for name, values in found.values.items():
        numbers = _numbers(values, symbols)
        if numbers:
            facts[name] = numbers
    aligned = _alignment(found, symbols, offsets)
    if aligned is not None:
        facts["access.align"] = frozenset({aligned})
    facts["dtype"] = case.dtype
    facts["platform.arch"] = platform.isa or platform.name
    facts["platform.warp"] = frozenset({platform.warp})
    if platform.name in _LOCAL_BYTES:
        facts["platform.local_bytes"] = frozenset({_LOCAL_BYTES[platform.name]})
    if report is not None:
        told = {"registers": report.registers, "spill_bytes": report.spill_bytes, "local_bytes": report.local_bytes}
        facts.update({f"compile.{name}": frozenset({n}) for name, n in told.items() if n is not None})
    facts.update({f"prior({intent})": True for intent in standing})
    return facts


def expressions_at(place: Place, case: Case) -> dict[str, str | None]:
    """Each number of a place that follows from the kernel, as an expression over dimensions and [const].

    None where it has none: it has several values, or depends on loops or work-items around.
    """
    found = measures(place, case)
    allowed = {*case.dims, *place.kernel.manifest.const}
    texts: dict[str, str | None] = {}
    for name, values in found.values.items():
        sayable = len(values) == 1 and values[0].symbols <= allowed
        texts[name] = expression_text(values[0]) if sayable else None
    if found.blocks:
        texts["access.align"] = None
    return texts


def divisibility_terms(place: Place, case: Case, fact: str) -> list[str] | None:
    """Expressions over dimensions and [const] such that what divides all of them divides every value of the fact.

    Of `access.align`: with tensors that start at a multiple of 128 bytes. An empty list: the fact is 0. None where the
    fact is unknown or there are no such expressions.
    """
    found = measures(place, case)
    if fact == "access.align":
        values = [block.start for block in found.blocks]
        values += [number(TENSOR_ALIGNMENT)] if values else []
    else:
        values = list(found.values.get(fact, ()))
    allowed = {*case.dims, *place.kernel.manifest.const}
    terms = tuple(dict.fromkeys(term for value in values for term in terms_of(value)))
    if not values or any(not term.symbols <= allowed for term in terms):
        return None
    return term_texts(terms)


def _symbols(place: Place, case: Case) -> dict[str, int]:
    scalars = {s.name: s.value for s in case.workload.scalars if isinstance(s.value, int)}
    return {**case.dims, **scalars, **place.kernel.manifest.const}


def _numbers(values: Collection[Value], symbols: Mapping[str, int]) -> frozenset[int]:
    """All numbers; empty where one is unknown or nothing is ever reached."""
    found: set[int] = set()
    try:
        for value in values:
            found.update(int(n) for n in numbers_of(value, symbols))
    except Unclear:
        return frozenset()
    return frozenset(found)


def _alignment(found: Measures, symbols: Mapping[str, int], offsets: Mapping[str, int]) -> int | None:
    common, reached = TENSOR_ALIGNMENT, False
    try:
        for block in found.blocks:
            starts = numbers_of(block.start, symbols)
            reached = reached or bool(starts.size)
            if starts.size:
                common = gcd(common, int(np.gcd.reduce(starts + offsets.get(block.base, 0))))
    except Unclear:
        return None
    return common & -common if reached else None
