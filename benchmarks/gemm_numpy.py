"""The GEMM expert against NumPy (OpenBLAS) on the same cores, in alternating processes.

    python -m benchmarks.gemm_numpy --size 512 --rounds 30

How the rounds are made, and what the ratio is: `benchmarks.peers`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import peers

ROLES = (peers.EXPERT, "numpy")


def main() -> None:
    """Run the rounds, or one role in a process of its own."""
    arguments = _arguments()
    if arguments.role == "numpy":
        print(*_numpy(arguments.size))
    elif arguments.role == peers.EXPERT:
        size = arguments.size
        print(peers.expert_seconds(f"gemm/M={size},N={size},K={size}-f32"))
    else:
        _rounds(arguments.size, arguments.rounds, arguments.out)


def _rounds(size: int, rounds: int, out: Path) -> None:
    command = (sys.executable, "-m", "benchmarks.gemm_numpy", "--size", str(size), "--role")
    found = peers.rounds({role: (*command, role) for role in ROLES}, size, rounds, out)
    rate = {role: 2 * size**3 / seconds / 1e9 for role, seconds in found.seconds.items()}
    print(
        f"GEMM {size}: {found.ratio:.3f}x NumPy (95 %: {found.low:.3f} to {found.high:.3f}, "
        f"{rounds} rounds); {rate['expert']:.0f} against {rate['numpy']:.0f} GFLOP/s; "
        f"{found.machine}, OpenBLAS core {found.told}"
    )


def _numpy(size: int) -> tuple[float, str]:
    import numpy as np
    from threadpoolctl import threadpool_info

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    c = np.empty((size, size), np.float32)
    found = peers.median_seconds(lambda: peers.timed(lambda: np.matmul(a, b, out=c)))
    return found, threadpool_info()[0]["architecture"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The GEMM expert against NumPy.")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gemm_numpy.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
