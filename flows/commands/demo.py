"""`klineage demo`: the whole story so far on this machine, with neither a GPU nor a language model."""

from __future__ import annotations

from pathlib import Path

import experts
from flows.commands import options
from flows.commands.walk import show, walked
from flows.jobs import WalkRequest

KERNEL = Path(experts.__file__).parent / "gemm" / "expert.cl"
CASE = "gemm/256-f32"
"""Small enough that a walk takes a minute, large enough that every block of the expert is in use."""


def command(data: options.Data = None) -> int:
    """Walk the GEMM expert backward and show the ladder."""
    roots = options.roots(data)
    report = walked(WalkRequest(str(KERNEL), CASE, data=str(roots.user)))
    if report is None:
        return 1
    show(report, roots)
    return 0
