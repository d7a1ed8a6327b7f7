"""What changes between two kernels, to be read."""

from __future__ import annotations

import difflib

from experts.kernel import Kernel


def difference(before: Kernel, after: Kernel, *, around: int = 2, most: int | None = None) -> tuple[str, ...]:
    """The lines of a unified diff without file names, `around` lines of context; cut after `most`, which is said."""
    lines = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), lineterm="", n=around)
    shown = tuple(lines)[2:]
    if most is None or len(shown) <= most:
        return shown
    return (*shown[:most], f"... {len(shown) - most} more lines")
