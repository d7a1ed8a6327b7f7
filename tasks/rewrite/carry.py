"""What of a forward edit carries over to another kernel: how it was written, not where."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.rewrite.edit import Edit, Scalar

_KEPT: Mapping[str, tuple[str, ...]] = {
    "unroll-hint": ("kind", "name", "argument"),
    "strip-mine": ("width",),
}
"""Parameters that are a choice of the writer's; the others belong to the place."""
_CASTS = frozenset("ci")


def carried(edit: Edit) -> dict[str, Scalar]:
    """The parameters to ask for elsewhere."""
    given = dict(edit.params)
    if edit.rule == "vector-lanes":
        # Casts everywhere where the evidence has casts everywhere: they ask for alignment, vloads do not.
        forms = given.get("forms", "v")
        casts = isinstance(forms, str) and forms and set(forms) <= _CASTS
        return {"forms": "C"} if casts else {}
    return {name: given[name] for name in _KEPT.get(edit.rule, ()) if name in given}


def asked(edit: Edit, wanted: Mapping[str, Scalar]) -> Edit:
    """An edit that a rule listed, written as `carried` says."""
    params = {**dict(edit.params), **wanted}
    return Edit(edit.rule, edit.action, edit.intent, edit.anchor, tuple(sorted(params.items())))
