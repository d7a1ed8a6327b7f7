"""Kernels that double the rows of a matrix, one work-item a row: right everywhere, or wrong in one known way."""

from __future__ import annotations

from pathlib import Path

from experts import catalog, platform
from experts.case import Case
from experts.kernel import Kernel, parse
from tasks.evidence import Roots
from tasks.gate.runner import Settings
from tasks.probe.run import Job

WIDE_REQUIRE = '[require]\nwhole = "N % 16 == 0"\n'


def rows(body: str, require: str = "") -> Kernel:
    """A kernel whose rows x and y of N elements the body goes over."""
    text = f"""/* klineage
format = 1
workload = "rows"
{require}[[launch]]
entry = "rows"
grid = ["R"]
block = [1]
args = ["X", "Y", "N"]
*/
__kernel void rows(__global const float *X, __global float *Y, int N)
{{
    __global const float *x = X + get_global_id(0) * N;
    __global float *y = Y + get_global_id(0) * N;
    {body}
}}
"""
    return parse(text, surface="opencl")


SCALAR = rows("for (int j = 0; j < N; j++) y[j] = 2 * x[j];")
WIDE = rows("for (int j = 0; j < N; j += 16) vstore16(2 * vload16(0, x + j), 0, y + j);", WIDE_REQUIRE)
"""Fails where N is no multiple of 16: its values are right even then, and run over the end."""
CAST = rows("for (int j = 0; j < N; j += 8) *(__global float8 *)(y + j) = 2 * *(__global const float8 *)(x + j);")
"""Fails where a row is off its alignment, too. Eight: AVX2 and AVX-512 both load them at once."""
WHOLE_GROUPS = rows("for (int j = 0; j + 16 <= N; j += 16) vstore16(2 * vload16(0, x + j), 0, y + j);")
"""Leaves the tail unwritten, and touches nothing else."""
TILED = rows(
    "float tile[128]; for (int j = 0; j < N; j++) tile[j] = x[j]; for (int j = 0; j < N; j++) y[j] = 2 * tile[j];"
)
"""Runs over its own array where N is above 128."""
READS_ON = rows("for (int j = 0; j < N; j++) y[j] = (x[N] == 1.0e30f ? 3 : 2) * x[j];")
"""Reads one element past a row, and is right all the same."""
ENDLESS = rows("for (int j = 0; j != N; j += N == 7 ? 0 : 1) y[j] = 2 * x[j];")
"""Never ends where N is 7."""


def case() -> Case:
    """Rows at their default size."""
    return catalog.find("rows", "opencl", [Path(__file__).parent / "experts"])


def settings(cache: Path) -> Settings:
    """The platform of this machine."""
    return Settings(platform=platform.select("opencl", None), cache=cache)


def job(root: Path, above: Kernel = WIDE, simplified: Kernel = SCALAR, budget: int = 16, fresh: bool = False) -> Job:
    """Two kernels over the first shapes of the family."""
    return Job(above, simplified, case(), settings(root / "cache"), Roots(root), budget=budget, fresh=fresh)
