"""The parsed view of a kernel's source: `view(text, surface)`; see `view.SourceView`, `model`, `anchors`."""

from .anchors import FILE, Anchor, Step, StepKind
from .edits import Span, TextEdit, apply_edits
from .model import (
    Access,
    AddressSpace,
    Assignment,
    Attribute,
    Call,
    Expr,
    Function,
    Hint,
    Induction,
    Loop,
    Macro,
    MacroUse,
    Node,
    Opaque,
    OpaqueReason,
    Qualifier,
    Variable,
    VectorLiteral,
)
from .shadow import Pragma, Surface
from .view import SourceView, view

__all__ = [
    "FILE",
    "Access",
    "AddressSpace",
    "Anchor",
    "Assignment",
    "Attribute",
    "Call",
    "Expr",
    "Function",
    "Hint",
    "Induction",
    "Loop",
    "Macro",
    "MacroUse",
    "Node",
    "Opaque",
    "OpaqueReason",
    "Pragma",
    "Qualifier",
    "SourceView",
    "Span",
    "Step",
    "StepKind",
    "Surface",
    "TextEdit",
    "Variable",
    "VectorLiteral",
    "apply_edits",
    "view",
]
