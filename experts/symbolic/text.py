"""Values as texts of the manifest's expression language (experts/expressions.py)."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from experts.expressions import MAX_LENGTH

from .values import Atom, Counter, Monomial, Operation, Symbol, Value, number, quotient

_INFIX = {"fdiv": "//", "fmod": "%"}
_RELATIONS = {"if<": "<", "if<=": "<=", "if==": "=="}


def expression_text(value: Value) -> str | None:
    """The value as an expression over symbols; None where it depends on a counter or the language cannot say it."""
    text = _sum(value)
    return text if text is not None and len(text) <= MAX_LENGTH else None


def divisibility_terms(value: Value) -> tuple[Value, ...]:
    """Values over symbols: what divides all of them divides the value, whatever its counters are.

    What depends on no counter is one term; of a counter, its coefficient; of a minimum or maximum, the terms of each
    side; any other operation on counters counts as a number of which nothing is known.
    """
    if not value.counters:
        return (value,) if value.terms else ()
    fixed = number(0)
    found: list[Value] = []
    for monomial, factor in value.terms:
        own = Value({monomial: factor})
        if not own.counters:
            fixed += own
            continue
        free = tuple(a for a in monomial if not _counts(a))
        coefficient = Value({free: factor})
        sides = next((_sides(a) for a in monomial if _counts(a) and _sides(a)), None)
        if sides is None:
            found.append(coefficient)
        else:
            found += [coefficient * term for side in sides for term in divisibility_terms(side)]
    return needed([*divisibility_terms(fixed), *found])


def needed(terms: Iterable[Value]) -> tuple[Value, ...]:
    """The terms without signs, and without those that are multiples of others."""
    plain = dict.fromkeys(-term if all(factor < 0 for _, factor in term.terms) else term for term in terms)
    kept: list[Value] = []
    for term in sorted(plain, key=_size):
        if not any(quotient(term, other) is not None for other in kept):
            kept.append(term)
    return tuple(term for term in plain if term in kept)


def term_texts(terms: tuple[Value, ...]) -> list[str] | None:
    """Terms as texts, their numbers as one; None where one has no text. An empty list: the value is 0."""
    known = [term.number for term in terms]
    common = gcd(*(n for n in known if n is not None))
    texts = [expression_text(term) for term, n in zip(terms, known, strict=True) if n is None]
    if common:
        texts.append(str(common))
    found = [text for text in texts if text is not None]
    return found if len(found) == len(texts) else None


def _counts(atom: Atom) -> bool:
    """Whether a counter decides it."""
    return isinstance(atom, Counter) or (isinstance(atom, Operation) and any(a.counters for a in atom.arguments))


def _sides(found: Atom) -> tuple[Value, ...]:
    """What an operation picks one of."""
    if not isinstance(found, Operation):
        return ()
    if found.name.startswith("if"):
        return found.arguments[2:]
    return found.arguments if found.name in ("min", "max", "unsigned") else ()


def _size(term: Value) -> tuple[int, int, int]:
    """Small where it can divide others."""
    return len(term.terms), max(len(m) for m, _ in term.terms), max(abs(factor) for _, factor in term.terms)


def _sum(value: Value) -> str | None:
    text = ""
    # Higher terms first, what is subtracted and the number last.
    ordered = sorted(value.terms, key=lambda term: (term[1] < 0, not term[0], -len(term[0])))
    for monomial, factor in ordered:
        part = _product(monomial, abs(factor))
        if part is None:
            return None
        if not text:
            text = part if factor > 0 else f"-({part})" if " " in part else f"-{part}"
        else:
            text += f" - {part}" if factor < 0 else f" + {part}"
    return text or "0"


def _product(monomial: Monomial, factor: int) -> str | None:
    parts: list[str] = []
    for atom in monomial:
        if isinstance(atom, Symbol):
            parts.append(atom.name)
            continue
        part = _operation(atom) if isinstance(atom, Operation) else None
        if not isinstance(atom, Operation) or part is None:
            return None
        alone = len(monomial) == 1 and factor == 1 and atom.name not in _RELATIONS
        parts.append(part if alone or atom.name in ("min", "max") else f"({part})")
    if factor != 1 or not parts:
        parts.append(str(factor))
    return " * ".join(parts)


def _operation(found: Operation) -> str | None:
    texts = [_sum(argument) for argument in found.arguments]
    parts = [text for text in texts if text is not None]
    if len(parts) < len(texts):
        return None
    if found.name in ("min", "max"):
        return f"{found.name}({', '.join(parts)})"
    wrapped = [f"({part})" if " " in part or part.startswith("-") else part for part in parts]
    if found.name in _INFIX:
        return f"{wrapped[0]} {_INFIX[found.name]} {wrapped[1]}"
    if found.name in _RELATIONS:
        left, right, then, otherwise = wrapped
        return f"{then} if {left} {_RELATIONS[found.name]} {right} else {otherwise}"
    return None
