"""An expert against another implementation on the same cores, in alternating processes.

Libraries go on spinning in their threads after a call, so that the two never share a process. A round is one process of
each, in random order; each warms up for a quarter of a second and reports the median of its calls over as long again.
The ratio is t(peer) / t(expert), pair by pair; its interval runs between order statistics (95 %).

A benchmark is a module that calls `rounds` and that, run with `--role`, prints the seconds of one role, and behind
them what is to be told of the peer.
"""

from __future__ import annotations

import csv
import os
import random
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

SECONDS = 0.25
EXPERT = "expert"

# Threads or code paths that were forced from outside would make the comparison unfair.
_FORCED = ("OPENBLAS", "OMP_", "MKL_", "KMP_", "ATEN_")


@dataclass(frozen=True)
class Compared:
    """What the rounds gave."""

    ratio: float
    """t(peer) / t(expert), the median of the rounds."""
    low: float
    high: float
    seconds: Mapping[str, float]
    """The median by role."""
    told: str
    """What the peer said of itself."""
    machine: str
    """CPU model and threads, in words."""


def rounds(commands: Mapping[str, Sequence[str]], size: int, count: int, out: Path) -> Compared:
    """Run the rounds and write a row for each. `commands` has the expert's command line and the peer's.

    Raises CalledProcessError where a role fails.
    """
    from experts.platform import cpu_model, cpus
    from tasks.gate.statistics import estimate

    (peer,) = set(commands) - {EXPERT}
    out.parent.mkdir(parents=True, exist_ok=True)
    ratios: list[float] = []
    seconds: dict[str, list[float]] = {role: [] for role in commands}
    told = ""
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("round", "size", "first", "expert_us", f"{peer}_us", "ratio", "load"))
        for number in range(count):
            order = random.sample((EXPERT, peer), 2)
            found = {}
            for role in order:
                figure, *rest = _child(commands[role])
                found[role] = float(figure)
                told = " ".join(rest) if role == peer else told
                seconds[role].append(found[role])
            ratios.append(found[peer] / found[EXPERT])
            figures = (f"{found[EXPERT] * 1e6:.2f}", f"{found[peer] * 1e6:.2f}", f"{ratios[-1]:.4f}")
            writer.writerow((number, size, order[0], *figures, f"{os.getloadavg()[0]:.2f}"))
            file.flush()
    found_ratio = estimate(ratios, 0.05)
    medians = {role: median(values) for role, values in seconds.items()}
    machine = f"{cpu_model()}, {len(cpus())} threads"
    return Compared(found_ratio.ratio, found_ratio.low, found_ratio.high, medians, told, machine)


def expert_seconds(name: str) -> float:
    """Median seconds of a call of the OpenCL expert of the case `name`, without a sandbox."""
    import numpy as np

    from experts import catalog, platform
    from experts.kernel import load
    from tasks.gate.launches import plan
    from tasks.gate.opencl import OpenCLProcess
    from tasks.gate.pages import Pages, layout

    case = catalog.find(name, "opencl", catalog.roots())
    kernel = load(Path(__file__).parents[1] / "experts" / case.workload.name / "expert.cl")
    chosen = platform.select("opencl", None)
    assert chosen.opencl_name is not None
    with Pages(64 << 20, 0) as pages, OpenCLProcess(chosen.opencl_name, pages) as process:
        device = process.device()
        planned = plan(kernel, case, device.limits, chosen.warp)
        placed = layout({**{tensor.name: tensor.nbytes for tensor in case.tensors}, **planned.workspace})
        for tensor, array in case.draw(np.random.default_rng(0), case.timed_distribution).items():
            pages.write(placed.spans[tensor][0], array)
        process.build(kernel)
        process.open_pages()
        process.bind("it", kernel, planned, placed)
        return median_seconds(lambda: float(process.run(["it"], 30)["seconds"][0]))


def median_seconds(call: Callable[[], float]) -> float:
    """Median of what `call` returns, after a warm-up."""
    samples: list[float] = []
    for counted in (False, True):
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until or (counted and not samples):
            seconds = call()
            if counted:
                samples.append(seconds)
    return median(samples)


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _child(command: Sequence[str]) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_FORCED)}
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
