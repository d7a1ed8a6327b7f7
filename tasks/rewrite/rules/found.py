"""What the rules share: gathering places, and cutting text out so that it can be put back."""

from __future__ import annotations

from experts.kernel import Kernel
from experts.source import Anchor, SourceView, Span
from tasks.rewrite.edit import Action, Declined, Edit, NotApplicable, Places, Scalar
from tasks.rewrite.text import source

_BLANKS = " \t"


class Found:
    """Gathers what a rule finds, in the order in which it is told."""

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self._edits: list[Edit] = []
        self._declined: list[Declined] = []

    def edit(self, action: Action, intent: str, anchor: Anchor, params: dict[str, Scalar] | None = None) -> None:
        """A place where the rule can act."""
        self._edits.append(Edit(self._rule, action, intent, str(anchor), sorted_params(params or {})))

    def decline(self, intent: str, anchor: Anchor, reason: str) -> None:
        """A place that it leaves alone."""
        self._declined.append(Declined(self._rule, intent, str(anchor), reason))

    def places(self) -> Places:
        """All of them."""
        return Places(tuple(self._edits), tuple(self._declined))


def sorted_params(values: dict[str, Scalar]) -> tuple[tuple[str, Scalar], ...]:
    """Parameters by name; unlike `params` it takes names that are no identifiers."""
    return tuple(sorted(values.items()))


def inverse(edit: Edit, params: dict[str, Scalar] | None = None) -> Edit:
    """The edit of the other direction at the same place."""
    action: Action = "add" if edit.action == "remove" else "remove"
    return Edit(edit.rule, action, edit.intent, edit.anchor, sorted_params(params or {}))


def opencl(kernel: Kernel) -> SourceView | None:
    """The view of an OpenCL kernel; None for other surfaces, where these rules list nothing."""
    return source(kernel) if kernel.surface == "opencl" else None


def needed(kernel: Kernel) -> SourceView:
    """The view of an OpenCL kernel. Raises NotApplicable for other surfaces."""
    found = opencl(kernel)
    if found is None:
        raise NotApplicable(f"this rule knows OpenCL only, not {kernel.surface}")
    return found


def anchor_of(edit: Edit) -> Anchor:
    """The place of an edit. Raises NotApplicable for a text that is no anchor."""
    try:
        return Anchor.parse(edit.anchor)
    except ValueError as error:
        raise NotApplicable(str(error)) from None


def text_param(edit: Edit, name: str, default: str = "") -> str:
    """A parameter that is a text. Raises NotApplicable for another kind."""
    value = dict(edit.params).get(name, default)
    if not isinstance(value, str):
        raise NotApplicable(f"parameter {name!r} is no text")
    return value


def int_param(edit: Edit, name: str, default: int | None = None) -> int:
    """A parameter that is a whole number. Raises NotApplicable where it is missing or of another kind."""
    value = dict(edit.params).get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotApplicable(f"parameter {name!r} is no whole number")
    return value


def require(holds: object, reason: str) -> None:
    """Raise NotApplicable where it does not hold."""
    if not holds:
        raise NotApplicable(reason)


def not_understood(view: SourceView, span: Span) -> str | None:
    """The reason to decline an edit of that span; None where all of it is understood."""
    why = view.why_opaque(span)
    return f"code that is not understood ({why})" if why is not None else None


def tidy(text: str, span: Span) -> Span:
    """A deletion with the blanks before it, where none would be wanted after it: at a line's end, before `;`."""
    start = span.start
    behind = text[span.end : span.end + 1]
    if behind in ("", "\n", ";", ",", ")") and text[span.start : span.end][-1:] != "\n":
        while start > 0 and text[start - 1] in _BLANKS:
            start -= 1
    return Span(start, span.end)


def line_start(text: str, offset: int) -> int:
    """Where the line of `offset` starts."""
    return text.rfind("\n", 0, offset) + 1


def indentation(text: str, offset: int) -> str | None:
    """The blanks between the start of the line and `offset`; None where anything else stands there."""
    lead = text[line_start(text, offset) : offset]
    return lead if not lead.strip(_BLANKS) else None
