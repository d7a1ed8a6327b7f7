"""Copies of kernels to be probed: what an author requires must not keep a probe from where the kernel fails."""

from __future__ import annotations

import re

from experts.kernel import Kernel, KernelError, parse
from tasks.rewrite.edit import NotApplicable
from tasks.rewrite.manifest import manifest_span

_HEADER = re.compile(r"[ \t]*\[")
_TABLE = re.compile(r"""[ \t]*\[[ \t]*["']?require["']?[ \t]*\]""")
_KEY = re.compile(r"""[ \t]*["']?require["']?[ \t]*[.=]""")


def without_require(kernel: Kernel) -> Kernel:
    """The copy without its [require]; the same kernel where it has none.

    Raises NotApplicable where the text does not come apart there: nothing else of the kernel may change.
    """
    if not kernel.manifest.require:
        return kernel
    end = manifest_span(kernel).end - len("*/")
    kept, inside = [], False
    for line in kernel.text[:end].splitlines(keepends=True):
        if _HEADER.match(line):
            inside = _TABLE.match(line) is not None
        if not inside and not _KEY.match(line):
            kept.append(line)
    try:
        changed = parse("".join(kept) + kernel.text[end:], surface=kernel.surface)
    except KernelError as error:
        raise NotApplicable(f"the manifest does not come apart at [require]: {error}") from None
    code = kernel.text[manifest_span(kernel).end :]
    same_code = changed.text[manifest_span(changed).end :] == code
    if not same_code or changed.manifest != kernel.manifest.model_copy(update={"require": {}}):
        raise NotApplicable("the manifest does not come apart at [require]")
    return changed
