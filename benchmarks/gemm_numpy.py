"""The GEMM expert against NumPy (OpenBLAS) on the same cores, in alternating processes.

    python -m benchmarks.gemm_numpy --size 512 --rounds 30

OpenBLAS threads go on spinning after a product, so that the two never share a process. A round is one process of each,
in random order; each warms up for a quarter of a second and reports the median of its calls over as long again. The
ratio is t(numpy) / t(expert), pair by pair; its interval runs between order statistics (95 %).
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

SECONDS = 0.25
ROLES = ("expert", "numpy")


def main() -> None:
    """Run the rounds, or one role in a process of its own."""
    arguments = _arguments()
    if arguments.role == "numpy":
        print(*_numpy(arguments.size))
    elif arguments.role == "expert":
        print(_expert(arguments.size))
    else:
        _rounds(arguments.size, arguments.rounds, arguments.out)


def _rounds(size: int, rounds: int, out: Path) -> None:
    from experts.platform import cpu_model, cpus
    from tasks.gate.statistics import estimate

    out.parent.mkdir(parents=True, exist_ok=True)
    ratios: list[float] = []
    seconds: dict[str, list[float]] = {role: [] for role in ROLES}
    core = ""
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("round", "size", "first", "expert_us", "numpy_us", "ratio", "load"))
        for number in range(rounds):
            order = random.sample(ROLES, 2)
            found = {}
            for role in order:
                told = _child(role, size)
                found[role] = float(told[0])
                core = told[1] if role == "numpy" else core
                seconds[role].append(found[role])
            ratios.append(found["numpy"] / found["expert"])
            figures = (f"{found['expert'] * 1e6:.2f}", f"{found['numpy'] * 1e6:.2f}", f"{ratios[-1]:.4f}")
            writer.writerow((number, size, order[0], *figures, f"{os.getloadavg()[0]:.2f}"))
            file.flush()
    found_ratio = estimate(ratios, 0.05)
    rate = {role: 2 * size**3 / median(values) / 1e9 for role, values in seconds.items()}
    print(
        f"GEMM {size}: {found_ratio.ratio:.3f}x NumPy (95 %: {found_ratio.low:.3f} to {found_ratio.high:.3f}, "
        f"{rounds} rounds); {rate['expert']:.0f} against {rate['numpy']:.0f} GFLOP/s; "
        f"{cpu_model()}, {len(cpus())} threads, OpenBLAS core {core}"
    )


def _child(role: str, size: int) -> list[str]:
    # A kernel that was forced on OpenBLAS from outside would make the comparison unfair.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS")}
    command = [sys.executable, "-m", "benchmarks.gemm_numpy", "--size", str(size), "--role", role]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()


def _numpy(size: int) -> tuple[float, str]:
    import numpy as np
    from threadpoolctl import threadpool_info

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    c = np.empty((size, size), np.float32)
    found = _median_seconds(lambda: _timed(lambda: np.matmul(a, b, out=c)))
    return found, threadpool_info()[0]["architecture"]


def _expert(size: int) -> float:
    import numpy as np

    from experts import catalog, platform
    from experts.kernel import load
    from tasks.gate.launches import plan
    from tasks.gate.opencl import DeviceProcess
    from tasks.gate.pages import Pages, layout

    case = catalog.find(f"gemm/M={size},N={size},K={size}-f32", "opencl", catalog.roots())
    kernel = load(Path(__file__).parents[1] / "experts/gemm/expert.cl")
    chosen = platform.select("opencl", None)
    assert chosen.opencl_name is not None
    with Pages(64 << 20, 0) as pages, DeviceProcess(chosen.opencl_name, pages) as process:
        device = process.device()
        planned = plan(kernel, case, device.limits, chosen.warp)
        placed = layout({**{tensor.name: tensor.nbytes for tensor in case.tensors}, **planned.workspace})
        for name, array in case.draw(np.random.default_rng(0), case.timed_distribution).items():
            pages.write(placed.spans[name][0], array)
        process.build(kernel)
        process.open_pages()
        process.bind("it", planned, placed)
        return _median_seconds(lambda: float(process.run(["it"], 30)["seconds"][0]))


def _median_seconds(call: Callable[[], float]) -> float:
    samples = []
    for counted in (False, True):
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            seconds = call()
            if counted:
                samples.append(seconds)
    return median(samples)


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The GEMM expert against NumPy.")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gemm_numpy.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
