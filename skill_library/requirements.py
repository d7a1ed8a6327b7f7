"""Predicates over facts as a kernel's [require]: expressions over dimensions and [const]."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from experts.expressions import Expression, ExpressionError
from skill_library.predicates import All, Atom, FactRef, Facts, Predicate, parts, unmet


def state_as_requirement(
    predicate: Predicate,
    expressions: Mapping[str, str | None],
    constants: Facts | None = None,
    terms: Mapping[str, Sequence[str] | None] | None = None,
) -> list[str] | None:
    """The predicate as expressions of the manifest's language that all have to hold, for a kernel's [require].

    `expressions`: facts over dimensions and [const]; None where a fact has none. `constants`: facts that no dimension
    changes, by value. `terms`: by fact, expressions such that whatever divides all of them divides the fact; used for
    `fact % k == 0` where the fact itself has no expression. An empty list: it holds at every shape. None: it cannot
    be stated, or holds at no shape.
    """
    known = _Known(expressions, constants or {}, terms or {})
    stated = known.stated(predicate)
    return None if stated is None else list(dict.fromkeys(stated))


class _Known:
    """What is known of the facts at a place, as texts."""

    def __init__(
        self,
        expressions: Mapping[str, str | None],
        constants: Facts,
        terms: Mapping[str, Sequence[str] | None],
    ) -> None:
        self._expressions, self._constants, self._terms = expressions, constants, terms

    def stated(self, predicate: Predicate) -> list[str] | None:
        if isinstance(predicate, Atom):
            return self._atom(predicate)
        stated = [self.stated(part) for part in parts(predicate)]
        if isinstance(predicate, All):
            whole = [part for part in stated if part is not None]
            return [text for part in whole for text in part] if len(whole) == len(stated) else None
        possible = [part for part in stated if part is not None]
        if not all(possible):
            return []  # a part holds at every shape
        if not possible:
            return None
        # A part that cannot be stated is left out: what is left claims less.
        return _checked([" or ".join(" and ".join(f"({text})" for text in part) for part in possible)])

    def _atom(self, atom: Atom) -> list[str] | None:
        if all(name in self._constants and self._expressions.get(name) is None for name in atom.facts):
            return [] if not unmet(atom, self._constants) else None
        mods = [None] if atom.mod is None else self._texts(atom.mod)
        values = self._texts(atom.value)
        if atom.mod is not None and atom.op == "==" and atom.value == 0 and atom.value is not False:
            lefts = self._texts(FactRef(fact=atom.fact)) or list(self._terms.get(atom.fact) or ())
        else:
            lefts = self._texts(FactRef(fact=atom.fact))
        texts = []
        for left, mod, value in itertools.product(lefts, mods, values):
            whole = _operand(left) if mod is None else f"{_operand(left)} % {_operand(mod)}"
            texts.append(f"{whole} {atom.op} {_operand(value)}")
        return _checked(texts) if texts else None

    def _texts(self, part: bool | int | str | FactRef) -> list[str]:
        """Of a number; empty where it has none."""
        if isinstance(part, FactRef):
            text = self._expressions.get(part.fact)
            if text is not None:
                return [text]
            value = self._constants.get(part.fact)
            return [str(number) for number in sorted(value)] if isinstance(value, frozenset) else []
        return [] if isinstance(part, bool | str) else [str(part)]


def _checked(texts: Iterable[str]) -> list[str] | None:
    """Without those that hold anyway. None where one never holds, or is no expression."""
    left = []
    for text in texts:
        try:
            expression = Expression(text)
            if expression.names:
                left.append(text)
            elif not expression.holds({}):
                return None
        except ExpressionError:
            return None
    return left


def _operand(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"
