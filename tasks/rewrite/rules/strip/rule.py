"""The rule `strip-mine`: what it lists, and how an edit becomes a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from experts.kernel import Kernel
from experts.source import Anchor, Loop, SourceView, Span, TextEdit
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar, params
from tasks.rewrite.rules.found import Found, anchor_of, int_param, inverse, needed, opencl, require, text_param
from tasks.rewrite.rules.lanes.types import WIDTHS, Unclear
from tasks.rewrite.text import rewritten

from .add import Wish, blocked, usual_part
from .blocks import BlockedLoop, blocked_loop, blocked_loops, carries_vectors
from .plain import PlainLoop, hinted, plain_loop, plain_loops
from .remove import plain_edits
from .site import Site, sites

NAME = "strip-mine"
STRIPS = "strip-mine-loop"
SPLITS = "split-accumulator"
_VECTORS = "its lanes are vectors"


@dataclass(frozen=True)
class _Result:
    """A kernel with the loop in its other form."""

    kernel: Kernel
    region: Span
    """What changed, in the text before."""
    wish: dict[str, Scalar]
    """Parameters of the form with blocks."""
    intent: str


class StripMine:
    """A plain loop as one over blocks of as many elements as a vector has, with loops over the lanes inside; and back.

    A sum or an extreme that the loop carries becomes one for each lane, and these come together behind the loop.
    There is no tail: an addition is right where the loop's extent is a multiple of the width, which is a
    precondition that a caller has to check (only constants are looked at here). A removal has no precondition: a
    kernel with blocks accepts only such extents, or else went past the end, where the plain loop does not.

    The place is the loop over `j`, before and after. Parameters of what is put in: `width`; `lane`, `step` and `parts`
    where names are not the usual ones; and `text`, what the way back writes where it would come out otherwise, with
    `before` and `behind`, how many characters around the loop it is for. It is used only while it comes to the same.
    """

    name = NAME

    def removable(self, kernel: Kernel) -> Places:
        """Every loop over blocks of lanes; declined while its lanes are vectors."""
        found, view = Found(NAME), opencl(kernel)
        for site in sites(kernel, view) if view is not None else ():
            try:
                candidates = list(blocked_loops(site))
            except (Unclear, RecursionError) as error:
                found.decline(STRIPS, site.function.anchor, _told(error))
                continue
            for loop, width, vectors in candidates:
                if vectors:
                    intent = SPLITS if carries_vectors(site, loop) else STRIPS
                    found.decline(intent, loop.anchor, _VECTORS)
                    continue
                try:
                    result = _plain(site, loop, width)
                except (Unclear, NotApplicable, RecursionError) as error:
                    found.decline(STRIPS, loop.anchor, _told(error))
                else:
                    found.edit("remove", result.intent, loop.anchor)
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every innermost plain loop whose iterations could be lanes."""
        found, view = Found(NAME), opencl(kernel)
        for site in sites(kernel, view) if view is not None else ():
            for loop in plain_loops(site):
                try:
                    plain = plain_loop(site, loop)
                    wanted = Edit(NAME, "add", _intent(plain), str(loop.anchor), params(width=plain.width))
                    self.apply(kernel, wanted)  # it must come out again
                except (Unclear, NotApplicable, RecursionError) as error:
                    found.decline(STRIPS, loop.anchor, _told(error))
                else:
                    found.edit("add", wanted.intent, loop.anchor, {"width": plain.width})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract; an addition is right for extents that are multiples of the width."""
        require(edit.rule == NAME, f"an edit of {edit.rule}")
        view, anchor = needed(kernel), anchor_of(edit)
        text = text_param(edit, "text")
        try:
            if edit.action == "add":
                return self._add(kernel, view, anchor, edit, text)
            return self._remove(kernel, view, anchor, edit, text)
        except (Unclear, RecursionError) as error:
            raise NotApplicable(_told(error)) from None

    def _add(self, kernel: Kernel, view: SourceView, anchor: Anchor, edit: Edit, text: str) -> tuple[Kernel, Edit]:
        result = _blocked(kernel, view, anchor, edit)
        made = result.kernel
        region = result.region
        if text:
            wide = Span(region.start - int_param(edit, "before", 0), region.end + int_param(edit, "behind", 0))
            other = _with(kernel, wide, text)
            back = _plain_at(other, anchor) if other is not None else None
            if other is not None and back is not None and back.kernel.text == kernel.text:
                made, region = other, wide
        back = _plain_at(made, anchor)
        if back is None:
            raise Unclear("the result is not understood")
        known: dict[str, Scalar] = {}
        if back.kernel.text != kernel.text:
            known["text"] = region.of(kernel.text)
        return made, inverse(edit, known)

    def _remove(self, kernel: Kernel, view: SourceView, anchor: Anchor, edit: Edit, text: str) -> tuple[Kernel, Edit]:
        result = _plain_at(kernel, anchor)
        if result is None:
            result = _plain(*_blocks(kernel, view, anchor))  # for the reason
        made, wish = result.kernel, result.wish
        if text:
            other = _with(kernel, result.region, text)
            if other is not None and _forth(other, anchor, edit, wish) == kernel.text:
                made = other
        known = dict(wish)
        if _forth(made, anchor, edit, wish) != kernel.text:
            region, (_, loop) = result.region, _site_of(made, needed(made), anchor)
            known["text"] = region.of(kernel.text)
            end = len(made.text) - (len(kernel.text) - region.end)
            around = {"before": hinted(loop) - region.start, "behind": end - loop.span.end}
            known |= {name: count for name, count in around.items() if count}
        return made, inverse(edit, known)


def _intent(plain: PlainLoop) -> str:
    return SPLITS if plain.reductions else STRIPS


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, Unclear | NotApplicable) else "nested too deeply"


def _with(kernel: Kernel, region: Span, text: str) -> Kernel | None:
    """The kernel with other text in a region; None where that is none."""
    if not 0 <= region.start <= region.end <= len(kernel.text):
        return None
    try:
        return rewritten(kernel, [TextEdit.replace(region, text)])
    except NotApplicable:
        return None


def _site_of(kernel: Kernel, view: SourceView, anchor: Anchor) -> tuple[Site, Loop]:
    loop = view.find(anchor)
    function = next((f for f in view.functions if f.anchor == Anchor(anchor.root, anchor.root_ordinal)), None)
    if not isinstance(loop, Loop) or function is None:
        raise NotApplicable("there is no such loop")
    return Site.of(kernel, view, function), loop


# blocks in


def _blocked(kernel: Kernel, view: SourceView, anchor: Anchor, edit: Edit) -> _Result:
    """The kernel with blocks. Raises Unclear, NotApplicable."""
    site, loop = _site_of(kernel, view, anchor)
    require(any(loop is each for each in plain_loops(site)), "it is no plain loop")
    width = int_param(edit, "width", plain_loop(site, loop).width)
    require(width in WIDTHS, f"there are no vectors of {width}")
    step, lane, parts = text_param(edit, "step"), text_param(edit, "lane", "lane"), text_param(edit, "parts")
    require(not step or site.value(step) == width, f"{step} is not {width}")
    plain = plain_loop(site, loop, width)
    names = dict(pair.split("=", 1) for pair in parts.split(",") if "=" in pair)
    edits = blocked(site, plain, Wish(width, lane, step, names))
    return _Result(rewritten(kernel, edits), Span(hinted(loop), loop.span.end), {}, _intent(plain))


def _forth(kernel: Kernel, anchor: Anchor, edit: Edit, wish: dict[str, Scalar]) -> str | None:
    """The text of a kernel with blocks at the place; None where they cannot be put in."""
    try:
        return _blocked(kernel, needed(kernel), anchor, inverse(edit, wish)).kernel.text
    except (Unclear, NotApplicable, RecursionError):
        return None


# blocks out


def _blocks(kernel: Kernel, view: SourceView, anchor: Anchor) -> tuple[Site, Loop, int]:
    site, loop = _site_of(kernel, view, anchor)
    for each, width, vectors in blocked_loops(site):
        if each is loop:
            require(not vectors, _VECTORS)
            return site, loop, width
    raise NotApplicable("it is no loop over blocks of lanes")


def _plain_at(kernel: Kernel, anchor: Anchor) -> _Result | None:
    """The kernel without blocks at a place; None where they cannot come out."""
    try:
        return _plain(*_blocks(kernel, needed(kernel), anchor))
    except (Unclear, NotApplicable, RecursionError):
        return None


def _plain(site: Site, loop: Loop, width: int) -> _Result:
    """The kernel without blocks. Raises Unclear, NotApplicable.

    That lanes may run one after the other, all of an iteration at once, is judged by the plain loop.
    """
    blocks = blocked_loop(site, loop, width)
    made = rewritten(site.kernel, plain_edits(site, blocks))
    after, now = _site_of(made, needed(made), loop.anchor)
    require(any(now is each for each in plain_loops(after)), "the result is not understood")
    plain = plain_loop(after, now, width)
    kinds = {r.name.text: r.kind for r in plain.reductions}
    for part in blocks.parts:
        require(kinds.get(part.total.text) == part.kind, f"the lanes of {part.name.text} are put together otherwise")
    return _Result(made, blocks.region, _wish(after, plain, blocks), _intent(plain))


def _wish(site: Site, plain: PlainLoop, blocks: BlockedLoop) -> dict[str, Scalar]:
    """The parameters of the blocks that were there."""
    lane = blocks.lanes[0].lane.text
    names = {r.name.text: usual_part(site, r.name) for r in plain.reductions}
    parts = [f"{p.total.text}={p.name.text}" for p in blocks.parts if names.get(p.total.text) != p.name.text]
    wish: dict[str, Scalar] = {"width": blocks.width}
    if lane != "lane":
        wish["lane"] = lane
    if blocks.step != str(blocks.width):
        wish["step"] = blocks.step
    if parts:
        wish["parts"] = ",".join(parts)
    return wish
