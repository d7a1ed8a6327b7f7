"""Where a skill would act: the loop, the variable and the accesses that an anchor is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from experts.case import Case
from experts.kernel import Kernel, Launch
from experts.source import (
    Access,
    Anchor,
    Attribute,
    Function,
    Hint,
    Loop,
    Node,
    SourceView,
    Span,
    StepKind,
    Surface,
    Variable,
    view,
)
from experts.symbolic import Address, Frame, Range, Scopes, Unclear, Value, address_of, number_at

Scalar = str | int | bool

_LANES = (2, 4, 8, 16)
_KEPT = 64


@dataclass(frozen=True)
class Place:
    """Where a skill would act."""

    kernel: Kernel
    anchor: str
    """Of the forward edit, as text."""
    params: Mapping[str, Scalar]
    """Of the forward edit: `width`, `value`."""


class Source:
    """A parsed text, with the scopes of its functions."""

    def __init__(self, view: SourceView) -> None:
        self.view = view
        self._scopes: dict[Span, Scopes] = {}

    def scopes(self, function: Function) -> Scopes:
        """The scopes of a function of the view."""
        if function.span not in self._scopes:
            self._scopes[function.span] = Scopes(self.view, function)
        return self._scopes[function.span]


@dataclass(frozen=True)
class Site:
    """A place in one function, in one of its launches."""

    frame: Frame
    node: Node
    loop: Loop | None
    """The loop that the place is about. A loop over the lanes of a block counts as part of the loop around it."""
    regions: tuple[Span, ...]
    """The code that the place is about."""
    width: int | None
    """Elements of a block, where the edit says."""

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses of the code that the place is about."""
        return tuple(a for a in self.frame.function.accesses if any(r.contains(a.span) for r in self.regions))

    @property
    def variable(self) -> Variable | None:
        """The variable at the anchor."""
        return self.node if isinstance(self.node, Variable) else None

    def lane(self, loop: Loop) -> Range | None:
        """The range of a loop over the lanes of a block; None for others."""
        return lane_range(self.frame, loop, self.width)


def sites(place: Place, case: Case) -> tuple[Site, ...]:
    """One for each launch of the function at the anchor; one without a launch for what no launch names.

    Empty for anchors of the file, for text that no view exists of, and for functions that are not understood. An
    anchor of something that does not stand there (yet) is about the loop or function that it would stand in.
    """
    source = source_of(place.kernel)
    try:
        anchor: Anchor | None = Anchor.parse(place.anchor)
    except ValueError:
        return ()
    node = None
    while source is not None and anchor is not None and node is None:
        node = source.view.find(anchor)
        anchor = anchor.parent
    function = (
        next((f for f in source.view.functions if node is not None and _belongs(f, node)), None) if source else None
    )
    if source is None or node is None or function is None:
        return ()
    width = place.params.get("width")
    width = width if type(width) is int and width > 0 else None
    found = []
    for frame in frames(place.kernel, source, function, case):
        try:
            found.append(_site(frame, node, width))
        except (Unclear, RecursionError):
            return ()
    return tuple(found)


def frames(kernel: Kernel, source: Source, function: Function, case: Case) -> tuple[Frame, ...]:
    """One for each launch of a function; one without a launch where there is none."""
    launches: list[Launch | None] = [launch for launch in kernel.manifest.launch if launch.entry == function.name]
    scopes = source.scopes(function)
    try:
        return tuple(Frame(kernel, source.view, function, launch, case, scopes) for launch in launches or [None])
    except Unclear:
        return ()


def source_of(kernel: Kernel) -> Source | None:
    """The parsed text of a kernel; None where its surface has no view."""
    return _source(kernel.text, kernel.surface) if kernel.surface in ("opencl", "cuda") else None


@lru_cache(maxsize=_KEPT)
def _source(text: str, surface: Surface) -> Source:
    return Source(view(text, surface))


def lane_range(frame: Frame, loop: Loop, width: int | None) -> Range | None:
    """The range of a loop over the lanes of a block: from 0 in steps of 1, as often as `width` says.

    Without a width: 2, 4, 8 or 16 times, where the loop around it steps by as many.
    """
    try:
        counted = frame.loop(loop)
        if counted.start.number != 0 or counted.step.number != 1 or not _fixed(frame, counted.trips):
            return None
        trips = number_at(counted.trips, frame.symbols)
        if width is not None:
            return counted if trips == width else None
        outer = _around(frame, loop)
        stepped = outer is not None and number_at(frame.loop(outer).step, frame.symbols) == trips
        return counted if stepped and trips in _LANES else None
    except Unclear:
        return None


def _fixed(frame: Frame, value: Value) -> bool:
    """Whether no dimension changes it."""
    return not value.counters and value.symbols <= frame.kernel.manifest.const.keys()


def _belongs(function: Function, node: Node) -> bool:
    anchor = node.anchor
    if anchor is None:
        return False
    return (anchor.root, anchor.root_ordinal) == (function.anchor.root, function.anchor.root_ordinal)


def _around(frame: Frame, loop: Loop) -> Loop | None:
    return next((other for other in reversed(frame.scopes.loops_around(loop.span)) if other is not loop), None)


def _folded(frame: Frame, loop: Loop | None, width: int | None) -> Loop | None:
    """The loop around a loop over lanes, where that one steps from block to block; else the loop itself."""
    outer = _around(frame, loop) if loop is not None else None
    lane = lane_range(frame, loop, width) if loop is not None and outer is not None else None
    if lane is None or outer is None:
        return loop
    try:
        return outer if frame.loop(outer).step == lane.trips or _same(frame, outer, lane) else loop
    except Unclear:
        return loop


def _same(frame: Frame, outer: Loop, lane: Range) -> bool:
    return number_at(frame.loop(outer).step, frame.symbols) == number_at(lane.trips, frame.symbols)


def _site(frame: Frame, node: Node, width: int | None) -> Site:
    function = frame.function
    loop: Loop | None
    regions: tuple[Span, ...]
    match node:
        case Function():
            loop, regions = None, (node.body,)
        case Attribute():
            loop, regions = None, (function.body,)
        case Loop():
            loop, regions = node, (node.span,)
        case Hint():
            loop = next((other for other in frame.scopes.loops if node in other.hints), None)
            regions = (loop.span,) if loop is not None else ()
        case Variable() if any(p is node for p in function.parameters):
            loop, regions = None, tuple(_through(frame, node))
        case Variable():
            loop = _loop_of(frame, node)
            regions = tuple(_statements(frame, node))
            regions = (loop.span, *regions) if loop is not None else regions
        case _:
            around = frame.scopes.loops_around(node.span)
            loop = around[-1] if around else None
            regions = tuple(_together(frame, node, loop))
    return Site(frame, node, _folded(frame, loop, width), regions, width)


def _uses(frame: Frame, variable: Variable) -> Iterator[Span]:
    if variable.name is None:
        return
    for span in frame.view.occurrences(variable.name, frame.scopes.scope(variable)):
        if span != variable.name_span and frame.scopes.visible(variable.name, span.start) is variable:
            yield span


def _statements(frame: Frame, variable: Variable) -> Iterator[Span]:
    """The statements that use a variable, its declaration included."""
    yield variable.span
    for use in _uses(frame, variable):
        statement = frame.scopes.statement(use)
        if statement is not None:
            yield statement


def _through(frame: Frame, parameter: Variable) -> list[Span]:
    """The accesses of what a parameter points to, through other pointers too; none where some are not understood."""
    found: list[Span] = []
    try:
        tensor = frame.name(parameter.name or "", frame.function.body.start, 0)
        for access in frame.function.accesses:
            variable = frame.scopes.visible(access.base, access.base_span.start)
            if variable is not None and variable.address_space in ("local", "private"):
                continue
            if isinstance(tensor, Address) and address_of(frame, access).base == tensor.base:
                found.append(access.span)
    except Unclear:
        return []
    return found


def _together(frame: Frame, node: Node, loop: Loop | None) -> Iterator[Span]:
    """The statement of something; of an access, those of its base in the same loop too."""
    assert not isinstance(node, Hint | Attribute)
    same = [node.span]
    if isinstance(node, Access) and node.anchor.parent is not None:
        alike = (a for a in frame.function.accesses if a.base == node.base and a.anchor.parent == node.anchor.parent)
        same += [a.span for a in alike]
    for span in dict.fromkeys(same):
        yield frame.scopes.statement(span) or span


def _loop_of(frame: Frame, variable: Variable) -> Loop | None:
    """The loop that a variable is about.

    Of a loop's own variable, that loop. Of one that a loop carries on (a sum, a maximum, a pointer that moves on): the
    outermost loop inside the variable's scope that does, the first in source order. Else the innermost loop around
    all uses, its first value included where that is more than a constant.
    """
    loops = list(frame.scopes.loops)
    own = next((loop for loop in loops if loop.header.contains(variable.span)), None)
    if own is not None:
        return own
    declared = len(frame.scopes.loops_around(variable.span))
    for update in updates(frame, Span(frame.function.body.start, frame.function.body.end)):
        if update.variable is variable:
            inner = frame.scopes.loops_around(update.span)[declared:]
            if inner and update.carried_by(frame, inner[0]):
                return inner[0]
    spans = list(_uses(frame, variable))
    if variable.initializer is not None and any(c.isalpha() for c in variable.initializer.text):
        spans.append(variable.initializer.span)
    around = [loop for loop in loops if spans and all(loop.span.contains(span) for span in spans)]
    return around[-1] if around else None


@dataclass(frozen=True)
class Update:
    """A statement that makes a variable or element from what it was before."""

    variable: Variable
    """Which variable, or the array or pointer in which."""
    span: Span
    access: Access | None
    """The element that is changed; None for a whole variable."""

    def carried_by(self, frame: Frame, loop: Loop) -> bool:
        """Whether each iteration goes on with what the last one left. Raises Unclear."""
        if not loop.body.contains(self.span):
            return False
        if self.access is None:
            return not loop.span.contains(self.variable.span)
        if loop.span.contains(self.variable.span) and not self.variable.is_pointer:
            return False
        counted = frame.loop(loop)
        return not address_of(frame, self.access).offset.counters & counted.counter.counters


def updates(frame: Frame, within: Span) -> Iterator[Update]:
    """The updates inside a span, in source order: `x += y`, `x = max(x, y)`, `a[i] += y`, `a[i] = a[i] + y`."""
    found: list[Update] = []
    text = frame.view.text
    for change in frame.function.assignments:
        variable = frame.scopes.visible(change.name, change.span.start)
        if variable is None or not within.contains(change.span) or change.operator == "&":
            continue
        mentioned = change.value is not None and frame.view.occurrences(change.name, change.value.span)
        if change.operator != "=" or mentioned:
            found.append(Update(variable, change.span, None))
    for access in frame.function.accesses:
        variable = frame.scopes.visible(access.base, access.span.start)
        if variable is None or not within.contains(access.span) or access.mode not in ("write", "read_write"):
            continue
        statement = frame.scopes.statement(access.span)
        written = access.span.of(text)
        again = statement is not None and any(
            other.mode == "read" and statement.contains(other.span) and other.span.of(text) == written
            for other in frame.function.accesses
        )
        if access.mode == "read_write" or again:
            found.append(Update(variable, access.span, access))
    yield from sorted(found, key=lambda update: update.span)


def file_label(place: Place, kind: StepKind) -> str | None:
    """The label of an anchor `::/KIND[LABEL]`; None for others."""
    try:
        anchor = Anchor.parse(place.anchor)
    except ValueError:
        return None
    if anchor.root != "::" or len(anchor.steps) != 1 or anchor.steps[0].kind is not kind:
        return None
    return anchor.steps[0].label
