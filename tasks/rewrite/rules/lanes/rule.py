"""The rule `vector-lanes`: what it lists, and how an edit becomes a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from experts.kernel import Kernel
from experts.source import TextEdit
from tasks.rewrite.edit import Action, Declined, Edit, NotApplicable, Places, Scalar, params
from tasks.rewrite.text import rewritten, source

from .add import Wish, addition
from .gather import Style
from .loops import LaneRegion, lane_regions
from .memory import Memory
from .names import Scope
from .regions import Region, vector_regions
from .remove import Removal, removal
from .types import Unclear

Found = TypeVar("Found", Region, LaneRegion)
NAME = "vector-lanes"
_INTENT = "vectorize-arithmetic"
"""Of what is declined: how a region that is not understood uses its vectors is not known."""


@dataclass(frozen=True)
class _Function:
    scope: Scope
    memory: Memory


class VectorLanes:
    """Vectors as loops over lanes, and back.

    A place is a region: vector variables, arrays and pointers, and the statements that they share; statements on
    vectors in memory go together where they share a base in one loop. Its anchor is its first variable; where it has
    none, its first access (as vectors) or its first loop (as lanes).

    In a kernel that a person wrote in lanes, memory is accessed with vloadN and vstoreN, which need no alignment. The
    way back of a removal writes what stood there: pointers to vectors, or casts to them.
    """

    name = NAME

    def removable(self, kernel: Kernel) -> Places:
        """The regions of vector code."""
        edits: list[Edit] = []
        declined: list[Declined] = []
        for function in _functions(kernel):
            for region in _safely(vector_regions, function, declined):
                try:
                    found = removal(function.scope, function.memory, region, "lane")
                except (Unclear, RecursionError) as reason:
                    declined.append(_declined(region, reason))
                else:
                    edits.append(_edit("remove", found.intent, region, width=region.width))
            variables = (*function.scope.function.parameters, *function.scope.function.variables)
            unknown = [v for v in variables if v.base_type in function.scope.unsettled]
            declined += [Declined(NAME, _INTENT, str(v.anchor), "vectors of unknown width") for v in unknown]
        return Places(tuple(edits), tuple(declined))

    def addable(self, kernel: Kernel) -> Places:
        """The regions of loops over lanes."""
        edits: list[Edit] = []
        declined: list[Declined] = []
        for function in _functions(kernel):
            for found in _safely(lane_regions, function, declined):
                try:
                    made = addition(function.scope, function.memory, found, Wish())
                except (Unclear, RecursionError) as reason:
                    declined.append(_declined(found.region, reason))
                else:
                    edits.append(_edit("add", made.intent, found.region, width=found.region.width))
        return Places(tuple(edits), tuple(declined))

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """The new kernel, and the edit that takes it back. Raises NotApplicable."""
        if edit.rule != NAME:
            raise NotApplicable(f"an edit of {edit.rule}")
        try:
            return self._remove(kernel, edit) if edit.action == "remove" else self._add(kernel, edit)
        except (Unclear, RecursionError) as reason:
            raise NotApplicable(f"{edit.anchor}: {_told(reason)}") from None

    def _remove(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        regions = [(f, r) for f in _functions(kernel) for r in vector_regions(f.scope, f.memory)]
        at = _chosen([r for _, r in regions], edit)
        function, region = regions[at]
        found = removal(function.scope, function.memory, region, str(_param(edit, "lane", "lane")))
        new = rewritten(kernel, found.edits)
        offset = _moved(found.edits, region.units[0].span.start if region.units else region.start)
        back = _lanes_at(new, function.scope.function.name, region, found, offset)
        return new, _edit("add", found.intent, back, **_known(found))

    def _add(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        pointers, vectors = _names(edit, "pointers"), _names(edit, "vectors")
        wish = Wish(
            Style(
                str(_param(edit, "forms", "v")),
                bool(_param(edit, "splat", False)),
                bool(_param(edit, "digits", False)),
                str(_param(edit, "type", "")),
            ),
            _names(edit, "const"),
            _names(edit, "split"),
            _names(edit, "lists"),
        )
        regions = [(f, r) for f in _functions(kernel) for r in lane_regions(f.scope, f.memory, pointers, vectors)]
        at = _chosen([r.region for _, r in regions], edit)
        function, found = regions[at]
        made = addition(function.scope, function.memory, found, wish)
        new = rewritten(kernel, made.edits)
        offset = _moved(made.edits, found.region.start)
        places = [r for f in _functions(new) for r in vector_regions(f.scope, f.memory)]
        own = [r for r in places if r.anchor.root == found.region.anchor.root and r.width == found.region.width]
        back = next((r for r in own if r.anchor == found.region.anchor), None)
        back = back or min(own, key=lambda r: abs(r.start - offset), default=None)
        if back is None:
            raise Unclear("the result is not understood")
        lane = found.loops[0].lane.text
        known: dict[str, Scalar] = {"lane": lane} if lane != "lane" else {}
        return new, _edit("remove", made.intent, back, width=found.region.width, **known)


def _functions(kernel: Kernel) -> tuple[_Function, ...]:
    """What there is to look at; nothing for other surfaces."""
    return _read(kernel) if kernel.surface == "opencl" else ()


def _read(kernel: Kernel) -> tuple[_Function, ...]:
    """What is known about a kernel's functions; kept for the kernels seen last."""
    view = source(kernel)
    if view is None:
        return ()
    return tuple(_Function(s, Memory(s)) for s in (Scope(kernel, view, f, view.tree) for f in view.functions))


def _safely(find: Callable[[Scope, Memory], list[Found]], function: _Function, declined: list[Declined]) -> list[Found]:
    """What there is in a function; nothing where it is nested so deeply that it cannot be read."""
    try:
        return find(function.scope, function.memory)
    except RecursionError as reason:
        declined.append(Declined(NAME, _INTENT, str(function.scope.function.anchor), _told(reason)))
        return []


def _declined(region: Region, reason: Exception) -> Declined:
    return Declined(NAME, _INTENT, str(region.anchor), _told(reason))


def _told(reason: Exception) -> str:
    return str(reason) if isinstance(reason, Unclear) else "nested too deeply"


def _edit(action: Action, intent: str, region: Region, **values: Scalar) -> Edit:
    return Edit(NAME, action, intent, str(region.anchor), params(base=region.label, **values))


def _chosen(regions: list[Region], edit: Edit) -> int:
    """The region that an edit is about.

    Where others went before it in the same loop, its ordinal may have changed: its base in that loop still names it.
    """
    width, base = _param(edit, "width", 0), _param(edit, "base", "")
    fit = [i for i, r in enumerate(regions) if r.width == width and r.label == base]
    same = [i for i in fit if str(regions[i].anchor) == edit.anchor]
    near = [i for i in fit if str(regions[i].anchor.parent) == edit.anchor.rpartition("/")[0]]
    for choice in (same, near):
        if len(choice) == 1:
            return choice[0]
    raise NotApplicable(f"{edit.anchor}: no such region")


def _param(edit: Edit, name: str, default: Scalar) -> Scalar:
    return dict(edit.params).get(name, default)


def _names(edit: Edit, name: str) -> frozenset[str]:
    return frozenset(filter(None, str(_param(edit, name, "")).split(",")))


def _known(found: Removal) -> dict[str, Scalar]:
    """What the way back has to know, without what is usual."""
    values: dict[str, Scalar] = {
        "pointers": ",".join(found.pointers),
        "const": ",".join(found.constants),
        "vectors": ",".join(found.arrays),
        "lists": ",".join(found.lists),
        "split": ",".join(found.split),
        "forms": found.forms,
        "type": found.spelling,
        "splat": found.splat,
        "digits": found.digits,
    }
    return {"width": found.width, **{name: value for name, value in values.items() if value}}


def _moved(edits: tuple[TextEdit, ...], offset: int) -> int:
    """Where a place is after edits before it."""
    return offset + sum(len(e.replacement) - (e.end - e.start) for e in edits if e.end <= offset and e.start < offset)


def _lanes_at(kernel: Kernel, function: str, region: Region, found: Removal, offset: int) -> Region:
    """The region of loops that a removal made. Raises Unclear where there is none."""
    pointers, vectors = frozenset(found.pointers), frozenset(found.arrays)
    regions: list[LaneRegion] = []
    for other in _functions(kernel):
        if other.scope.function.name == function:
            regions += lane_regions(other.scope, other.memory, pointers, vectors)
    exact = [r.region for r in regions if r.region.anchor == region.anchor]
    if exact and region.names:
        return exact[0]
    at = [r.region for r in regions if any(x.loop.span.start == offset for x in r.loops)]
    if not at:
        raise Unclear("the result is not understood")
    return at[0]
