"""Predicates over facts as stored trees, and whether they hold.

    {"fact": "loop.extent", "mod": {"fact": "vector.width"}, "op": "==", "value": 0}
    {"fact": "dtype", "op": "==", "value": "f32"}
    {"all": [ ... ]}   {"any": [ ... ]}

`mod` and `value` are a constant or another fact of the same place. A fact (skill_library/facts.py) is a string, a bool,
or the set of all values that a number takes at one shape: an atom about numbers holds where it holds for every
combination of them. What cannot be told is unmet as *unknown*: a missing fact, a modulus of zero, kinds that cannot be
compared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

FactValue = frozenset[int] | str | bool
Facts = Mapping[str, FactValue]

MAX_DEPTH = 6
"""Of a tree; an atom alone is 1."""
MAX_ATOMS = 32
_MAX_TEXT = 128
_LIMIT = (1 << 63) - 1
_SHOWN_VALUES = 6

Op = Literal["<", "<=", ">", ">=", "==", "!="]
_RELATION: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

FactName = Annotated[StrictStr, Field(pattern=r"^[a-z]+(\.[a-z_]+)*(\([a-z][a-z0-9_:-]*\))?$", max_length=_MAX_TEXT)]
Number = Annotated[StrictInt, Field(ge=-_LIMIT, le=_LIMIT)]


class PredicateError(ValueError):
    """A tree that is no predicate; the message is one line."""


class Unmet(BaseModel):
    """One part of a predicate that does not hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    predicate: str
    reason: Literal["false", "unknown"]
    """`unknown`: a fact that it needs is missing, or cannot be compared so."""
    values: str
    """The facts it was asked about, as far as known: `loop.extent = 7, vector.width = 4`."""

    def __str__(self) -> str:
        return f"{self.predicate} ({self.values})" if self.reason == "false" else f"{self.predicate} (unknown)"


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FactRef(_Node):
    """A fact by name, where a constant could stand."""

    fact: FactName


class Atom(_Node):
    """`fact [% mod] op value`."""

    fact: FactName
    mod: Annotated[StrictInt, Field(ge=1, le=_LIMIT)] | FactRef | None = None
    op: Op
    value: StrictBool | Number | Annotated[StrictStr, Field(max_length=_MAX_TEXT)] | FactRef

    @model_validator(mode="after")
    def _comparable(self) -> Atom:
        if isinstance(self.value, bool | str):
            if self.op not in ("==", "!="):
                raise ValueError(f"{self.op} compares numbers")
            if self.mod is not None:
                raise ValueError("a remainder is a number")
        return self

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name != "mod" or value is not None}

    def __str__(self) -> str:
        mod = "" if self.mod is None else f" % {_shown(self.mod)}"
        return f"{self.fact}{mod} {self.op} {_shown(self.value)}"

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that it needs, each once."""
        others = (part.fact for part in (self.mod, self.value) if isinstance(part, FactRef))
        return tuple(dict.fromkeys((self.fact, *others)))


class All(_Node):
    """Every part holds."""

    all: Annotated[tuple[Predicate, ...], Field(min_length=1, max_length=MAX_ATOMS)]

    @model_validator(mode="after")
    def _bounded(self) -> All:
        _check_size(self)
        return self

    def __str__(self) -> str:
        return " and ".join(map(_grouped, self.all))


class AnyOf(_Node):
    """At least one part holds."""

    any: Annotated[tuple[Predicate, ...], Field(min_length=1, max_length=MAX_ATOMS)]

    @model_validator(mode="after")
    def _bounded(self) -> AnyOf:
        _check_size(self)
        return self

    def __str__(self) -> str:
        return " or ".join(map(_grouped, self.any))


def _kind(value: object) -> str:
    if isinstance(value, BaseModel):
        return type(value).__name__
    if isinstance(value, Mapping):
        return "All" if "all" in value else "AnyOf" if "any" in value else "Atom"
    return "Atom"


Predicate = Annotated[
    Annotated[Atom, Tag("Atom")] | Annotated[All, Tag("All")] | Annotated[AnyOf, Tag("AnyOf")], Discriminator(_kind)
]

All.model_rebuild()
AnyOf.model_rebuild()
_PREDICATE: TypeAdapter[Atom | All | AnyOf] = TypeAdapter(Predicate)


def parse_predicate(tree: object) -> Predicate:
    """The predicate of a JSON text or of JSON values. Raises PredicateError, one line, for what is none."""
    try:
        if isinstance(tree, str | bytes):
            return _PREDICATE.validate_json(tree)
        return _PREDICATE.validate_python(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"] if part not in ("Atom", "All", "AnyOf"))
        message = " ".join(first["msg"].split())[:200]
        raise PredicateError(f"no predicate: {path + ': ' if path else ''}{message}") from None
    except RecursionError:
        raise PredicateError("no predicate: nested too deeply") from None


def parts(predicate: All | AnyOf) -> tuple[Predicate, ...]:
    """What it is made of."""
    return predicate.all if isinstance(predicate, All) else predicate.any


def atoms(predicate: Predicate) -> tuple[Atom, ...]:
    """Its atoms, in order."""
    if isinstance(predicate, Atom):
        return (predicate,)
    return tuple(atom for part in parts(predicate) for atom in atoms(part))


def holds(predicate: Predicate, facts: Facts) -> bool:
    """Whether it is known to hold."""
    if isinstance(predicate, Atom):
        return bool(_truth(predicate, facts))
    verdicts = (holds(part, facts) for part in parts(predicate))
    return all(verdicts) if isinstance(predicate, All) else any(verdicts)


def is_false(predicate: Predicate, facts: Facts) -> bool:
    """Whether it is known not to hold: not knowing is no evidence."""
    return any(fault.reason == "false" for fault in unmet(predicate, facts))


def unmet(predicate: Predicate, facts: Facts) -> tuple[Unmet, ...]:
    """What keeps it from holding; empty where it holds. An `any` without a part that holds is one entry."""
    if isinstance(predicate, Atom):
        return _atom_unmet(predicate, facts)
    if isinstance(predicate, All):
        return tuple(fault for part in predicate.all for fault in unmet(part, facts))
    faults = [unmet(part, facts) for part in predicate.any]
    if not all(faults):
        return ()
    # It is false only where every part is: one that is unknown might hold.
    told = all(any(fault.reason == "false" for fault in part) for part in faults)
    names = dict.fromkeys(name for atom in atoms(predicate) for name in atom.facts)
    return (Unmet(predicate=str(predicate), reason="false" if told else "unknown", values=_values(names, facts)),)


def _atom_unmet(atom: Atom, facts: Facts) -> tuple[Unmet, ...]:
    verdict = _truth(atom, facts)
    if verdict:
        return ()
    reason: Literal["false", "unknown"] = "unknown" if verdict is None else "false"
    return (Unmet(predicate=str(atom), reason=reason, values=_values(atom.facts, facts)),)


def _truth(atom: Atom, facts: Facts) -> bool | None:
    """None: unknown."""
    left = facts.get(atom.fact)
    right = _resolved(atom.value, facts)
    if left is None or right is None:
        return None
    relation = _RELATION[atom.op]
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        mods = frozenset({0}) if atom.mod is None else _resolved(atom.mod, facts)
        if not left or not right or not isinstance(mods, frozenset) or not mods:
            return None
        if atom.mod is not None:
            if 0 in mods:
                return None
            left = frozenset(value % mod for value in left for mod in mods)
        return all(relation(one, other) for one in left for other in right)
    # `True == 1` would be one in Python, and is two kinds here.
    if atom.mod is not None or atom.op not in ("==", "!=") or type(left) is not type(right):
        return None
    return relation(left, right)


def _resolved(part: bool | int | str | FactRef, facts: Facts) -> FactValue | None:
    if isinstance(part, FactRef):
        return facts.get(part.fact)
    return part if isinstance(part, bool | str) else frozenset({part})


def _check_size(predicate: All | AnyOf) -> None:
    if _depth(predicate) > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if len(atoms(predicate)) > MAX_ATOMS:
        raise ValueError(f"more than {MAX_ATOMS} atoms")


def _depth(predicate: Predicate) -> int:
    return 1 if isinstance(predicate, Atom) else 1 + max(map(_depth, parts(predicate)))


def _grouped(part: Predicate) -> str:
    return str(part) if isinstance(part, Atom) else f"({part})"


def _shown(part: bool | int | str | FactRef) -> str:
    if isinstance(part, FactRef):
        return part.fact
    return str(part).lower() if isinstance(part, bool) else str(part)


def _values(names: Iterable[str], facts: Facts) -> str:
    return ", ".join(f"{name} {_value(facts[name])}" for name in names if name in facts)


def _value(value: FactValue) -> str:
    if not isinstance(value, frozenset):
        return f"= {_shown(value)}"
    if len(value) == 1:
        return f"= {min(value)}"
    shown = [str(number) for number in sorted(value)]
    more = ["..."] if len(shown) > _SHOWN_VALUES else []
    return f"in {{{', '.join(shown[:_SHOWN_VALUES] + more)}}}"
