"""Skills and steps for tests."""

from __future__ import annotations

from typing import Any

from skill_library.abstraction import Step, lift
from skill_library.learning import Learned
from skill_library.predicates import Atom, FactRef
from skill_library.skill import Skill, Verification

WHOLE = Atom(fact="loop.extent", mod=FactRef(fact="vector.width"), op="==", value=0)


def ident(number: int) -> str:
    """An id."""
    return f"{number:016x}"


def step(number: int = 1, **other: Any) -> Step:
    """A step of a lineage that made a GEMM-like kernel three times as fast."""
    row = {
        "transition_id": ident(number),
        "lineage_id": ident(100 + number),
        "run_id": ident(200),
        "step": 0,
        "intent": "split-accumulator",
        "workload": "gemv",
        "case": "gemv/512-f32",
        "platform": "pocl-x86-avx512",
        "env_id": ident(300),
        "standing": ["hint-restrict"],
        "prior": ["unroll-loop"],
        "written_by": "rule",
        "attempt_id": ident(400 + number),
        "effect": "faster",
        "ratio": 3.0,
        "low": 2.8,
        "high": 3.2,
        "pairs": 60,
        "forward": "identical",
        **other.pop("row", {}),
    }
    given: dict[str, Any] = {
        "transition": row,
        "edit": {"rule": "strip-mine", "anchor": "gemv/loop[row]/loop[k]"},
        "carried": {"width": 16},
        "sketch": "-a\n+b",
        "surface": "opencl",
        "dtype": "f32",
        "alone": None,
        "others": ("hint-restrict", "unroll-loop"),
        "refused": (),
        "probes": (),
    }
    return Step(**{**given, **other})


def recovered(**other: Any) -> Learned:
    """A condition with its probes."""
    given: dict[str, Any] = {
        "kind": "recovered",
        "predicate": WHOLE,
        "passed": 20,
        "failed": 9,
        "for_ids": (ident(1), ident(2)),
        "against_ids": (ident(3),),
        "reason": "it separates 29 shapes exactly",
    }
    return Learned(**{**given, **other})


def skill(name: str = "split-accumulator", standing: str = "admitted", **row: Any) -> Skill:
    """A card."""
    found = lift(name, [step(row=row)], recovered())
    return found.model_copy(update={"verification": Verification.model_validate({"standing": standing})})
