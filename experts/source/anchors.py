"""Anchors: where something stands in a kernel, by structure instead of by line number.

    anchor := root { "/" step }
    root   := NAME [ "#" N ]                  a function, or "::" for the file itself
    step   := KIND "[" LABEL "]" [ "#" N ]

    gemm                                      the function gemm
    gemm/param[A]                             its parameter A
    gemm/attribute[reqd_work_group_size]      an attribute of it
    gemm/var[Asub]                            a declaration outside its loops
    gemm/loop[k0]/loop[k]                     the loop over k inside the loop over k0
    gemm/loop[while]#1                        a loop without a header variable: for, while or do
    gemm/loop[k0]/hint[unroll]                its pragma or attribute
    gemm/loop[k0]/loop[k]/access[Asub]#0      the first access of Asub directly in that loop
    gemm/loop[k0]/call[barrier]#1             the second call of barrier directly in that loop
    ::/macro[TM]   ::/var[lut]                what stands outside functions
    ::/const[TM]   ::/option[-cl-mad-enable]  what stands in the manifest

A path names loops only: an `if` or a block around something does not change its anchor. The header of a
loop belongs to the loop. N counts equal KIND[LABEL] under one parent in source order, from 0. For occurrences
(access, call, assign, literal) it is always written; elsewhere `#0` is left out. Both spellings are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

FILE = "::"


class StepKind(Enum):
    """What a step of an anchor names."""

    LOOP = "loop"  # a loop, labelled by its header variable, else for | while | do
    PARAM = "param"  # a parameter of a function
    VAR = "var"  # a declared variable or array
    ATTRIBUTE = "attribute"  # an attribute of a function
    HINT = "hint"  # a pragma or attribute attached to a loop
    MACRO = "macro"  # a macro definition
    ACCESS = "access"  # a read or write through an index or a pointer, labelled by its base
    CALL = "call"  # a call, labelled by the callee
    ASSIGN = "assign"  # an assignment to a plain variable
    LITERAL = "literal"  # an OpenCL vector literal, labelled by its type
    CONST = "const"  # a constant of the manifest
    OPTION = "option"  # a build option of the manifest


_OCCURRENCES = frozenset({StepKind.ACCESS, StepKind.CALL, StepKind.ASSIGN, StepKind.LITERAL})
_KINDS = {kind.value: kind for kind in StepKind}
_ROOT = re.compile(r"(::|[^\W\d][\w$]*(?:::~?[^\W\d][\w$]*)*)(?:#([0-9]{1,9}))?")
_LABEL = re.compile(r"[^\s/\[\]#]+")
_STEP = re.compile(r"([a-z]+)\[([^\s/\[\]#]+)\](?:#([0-9]{1,9}))?")


def is_root(name: str) -> bool:
    """Whether a function of this name can be the root of an anchor."""
    match = _ROOT.fullmatch(name)
    return match is not None and match[2] is None and name != FILE


def is_label(text: str) -> bool:
    """Whether `text` can be the label of a step."""
    return _LABEL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an anchor: the ordinal-th `kind[label]` under its parent."""

    kind: StepKind
    label: str
    ordinal: int = 0

    def __str__(self) -> str:
        written = self.ordinal or self.kind in _OCCURRENCES
        return f"{self.kind.value}[{self.label}]" + (f"#{self.ordinal}" if written else "")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in a kernel; `str()` gives the canonical form (grammar: module docstring)."""

    root: str
    root_ordinal: int = 0
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        root = self.root + (f"#{self.root_ordinal}" if self.root_ordinal else "")
        return "/".join((root, *map(str, self.steps)))

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Read an anchor. Raises ValueError that names the part which is not understood."""
        # "::" holds no slash, and labels cannot, so the parts split plainly
        head, *rest = text.split("/")
        root = _ROOT.fullmatch(head)
        if root is None or (root[1] == FILE and root[2] is not None):
            raise ValueError(f"anchor {text!r}: {head!r} is neither a function name, NAME#N nor '::'")
        steps = []
        for part in rest:
            match = _STEP.fullmatch(part)
            if match is None:
                raise ValueError(f"anchor {text!r}: step {part!r} is not KIND[LABEL] or KIND[LABEL]#N")
            if match[1] not in _KINDS:
                raise ValueError(f"anchor {text!r}: unknown kind {match[1]!r}; known: {', '.join(_KINDS)}")
            steps.append(Step(_KINDS[match[1]], match[2], int(match[3] or 0)))
        return cls(root[1], int(root[2] or 0), tuple(steps))

    @property
    def parent(self) -> Anchor | None:
        """The anchor without its last step; None for a root."""
        return Anchor(self.root, self.root_ordinal, self.steps[:-1]) if self.steps else None

    def child(self, kind: StepKind, label: str, ordinal: int = 0) -> Anchor:
        """The anchor one step below."""
        return Anchor(self.root, self.root_ordinal, (*self.steps, Step(kind, label, ordinal)))
