"""Whether two kernels differ in hints only, so that no fact of a shape can make one wrong and not the other."""

from __future__ import annotations

from experts.kernel import Kernel
from experts.source.lexer import tokenize
from experts.source.shadow import cast_shadow

REASON = "it changes hints to the compiler only: accesses, loops, arrays, calls and launches stay the same"
_HINTS = frozenset(
    {
        "reqd_work_group_size",
        "work_group_size_hint",
        "vec_type_hint",
        "aligned",
        "opencl_unroll_hint",
        "always_inline",
    }
)
NO_OVERLAP = "; it promises that buffers do not overlap, and those of a case never do"


def differ_in_hints_only(one: Kernel, other: Kernel) -> bool:
    """Whether all that differs is pragmas, known attributes, and the qualifiers restrict, const and inline.

    Both must be OpenCL.
    """
    if one.surface != "opencl" or other.surface != "opencl":
        return False
    first, second = one.manifest, other.manifest
    told = {"intents": ()}
    return first.model_copy(update=told) == second.model_copy(update=told) and _code(one) == _code(other)


def reason(one: Kernel, other: Kernel) -> str:
    """Why nothing can be false, for two that differ in hints only."""
    promised = [sum(q.kind == "restrict" for q in cast_shadow(k.text, "opencl").qualifiers) for k in (one, other)]
    return REASON + (NO_OVERLAP if promised[0] != promised[1] else "")


def _code(kernel: Kernel) -> tuple[list[str], list[str], list[str]]:
    """The code without what is a hint: words, address spaces, other directives than pragmas."""
    shadow = cast_shadow(kernel.text, "opencl")
    words = [token.text for token in tokenize(shadow.text) if token.kind != "comment"]
    spaces = [
        f"{q.space}{q.on_pointer}" for q in shadow.qualifiers if q.kind in ("address_space", "kernel", "volatile")
    ]
    spaces += [f"{each.name}({each.arguments})" for each in shadow.attributes if each.name not in _HINTS]
    directives = [
        " ".join(token.text.split())
        for token in tokenize(kernel.text)
        if token.kind == "directive" and not token.text.lstrip("# \t").startswith("pragma")
    ]
    return words, spaces, directives
