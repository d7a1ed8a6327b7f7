"""From a kernel to its parsed view, and from text edits to a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from experts.kernel import Kernel, KernelError, parse
from experts.source import SourceView, Surface, TextEdit, apply_edits, view
from tasks.rewrite.edit import NotApplicable

_KEPT = 256


def source(kernel: Kernel) -> SourceView | None:
    """The view of a kernel; None where its surface has none (Python)."""
    if kernel.surface not in ("opencl", "cuda"):
        return None
    return _view(kernel.text, kernel.surface)


def rewritten(kernel: Kernel, edits: Iterable[TextEdit]) -> Kernel:
    """The kernel with its text changed; offsets refer to `kernel.text`. Raises NotApplicable where it is none."""
    try:
        text, _ = apply_edits(kernel.text, edits)
        return parse(text, surface=kernel.surface)
    except (KernelError, ValueError) as error:
        raise NotApplicable(str(error)) from None


@lru_cache(maxsize=_KEPT)
def _view(text: str, surface: Surface) -> SourceView:
    return view(text, surface)
