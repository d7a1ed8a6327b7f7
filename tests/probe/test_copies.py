"""Copies without [require], in all the ways TOML writes a table."""

from __future__ import annotations

import pytest

from experts.kernel import Kernel, parse
from tasks.probe.copies import without_require

_LAUNCH = '[[launch]]\nentry = "f"\ngrid = ["cdiv(N, 64)"]\nblock = [64]\nargs = ["X", "N"]\n'
_CODE = (
    "__kernel void f(__global float *X, int N) { /* [require] */ if (get_global_id(0) < N) X[get_global_id(0)] = 1; }"
)


def _kernel(before: str, after: str = "") -> Kernel:
    text = f'/* klineage\nformat = 1\nworkload = "w"\n{before}{_LAUNCH}{after}*/\n{_CODE}\n'
    return parse(text, surface="opencl")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[require]\nwhole = "N % 64 == 0"\n', ""),
        ('[require]\n# a note\nwhole = "N % 64 == 0"\n\nsmall = "N < 4096"  # why\n', ""),
        ('require.whole = "N % 64 == 0"\n"require".small = "N < 4096"\n', ""),
        ('require = { whole = "N % 64 == 0" }\n', ""),
        (
            '[const]\nW = 4\n[ "require" ]\nwhole = "N % W == 0"\n[workspace]\nt = { dtype = "f32", shape = ["N"] }\n',
            "",
        ),
        ("[const]\nW = 4\n", '[require]\nwhole = "N % W == 0"\n'),
        ('[require]\nwhole = """\\\n  N % 64 == 0"""\n', ""),
    ],
)
def test_only_the_requirements_go(before: str, after: str) -> None:
    kernel = _kernel(before, after)
    copy = without_require(kernel)
    assert kernel.manifest.require and not copy.manifest.require
    assert copy.manifest == kernel.manifest.model_copy(update={"require": {}})
    assert copy.text.partition("*/")[2] == kernel.text.partition("*/")[2]
    assert copy.kernel_id != kernel.kernel_id
    assert without_require(copy) is copy


def test_a_kernel_that_requires_nothing_is_its_own_copy() -> None:
    kernel = _kernel("[const]\nW = 4\n")
    assert without_require(kernel) is kernel
