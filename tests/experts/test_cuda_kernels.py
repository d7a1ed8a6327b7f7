"""The shipped CUDA kernels compile without spills for what they are for, and take every shape of the minimal domain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experts import catalog, platform
from experts.kernel import load
from tasks.gate import surfaces
from tasks.gate.entries import check_entries, check_fit
from tasks.gate.launches import Limits, accepts, domain_shapes, plan, symbols

ROOT = Path(catalog.__file__).parent
KERNELS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("*/*.cu"))


def _platforms(kernel: str) -> list[str]:
    only = re.search(r"_(sm\d+)\.cu$", kernel)
    return [only[1]] if only else ["sm90", "sm120"]


def _limits(on: str) -> Limits:
    gpu = platform.named(on).gpu
    assert gpu is not None
    return Limits(gpu.multiprocessors, 1024, (1024, 1024, 64), gpu.shared_bytes, 1 << 36)


@pytest.mark.parametrize(("name", "on"), [(kernel, on) for kernel in KERNELS for on in _platforms(kernel)])
def test_it_compiles_for_its_case(name: str, on: str) -> None:
    kernel = load(ROOT / name)
    artifact = surfaces.lower(kernel, platform.named(on))
    assert artifact.facts.spill_bytes == 0
    # Where a wgmma waits for the one before it, the compiler says so.
    assert "serializ" not in artifact.log
    found = plan(kernel, catalog.find(kernel.manifest.workload, "cuda", catalog.roots()), _limits(on), 32)
    check_entries(artifact, found)
    check_fit(artifact, found, _limits(on))


@pytest.mark.parametrize(("name", "on"), [(kernel, on) for kernel in KERNELS for on in _platforms(kernel)])
def test_it_takes_the_minimal_domain(name: str, on: str) -> None:
    kernel, limits = load(ROOT / name), _limits(on)
    case = catalog.find(kernel.manifest.workload, "cuda", catalog.roots())
    for shape in domain_shapes(case):
        assert accepts(kernel, symbols(kernel, shape, limits.compute_units, 32)) is None
    launched = [case, *map(case.at, (*case.workload.family, case.workload.sanitize, *case.workload.shapes.values()))]
    for shape in launched:
        if accepts(kernel, symbols(kernel, shape, limits.compute_units, 32)) is None:
            assert plan(kernel, shape, limits, 32).launches
        else:
            assert not shape.in_domain


def test_the_naive_ones_ask_for_nothing() -> None:
    for name in KERNELS:
        kernel = load(ROOT / name)
        if name.endswith("naive.cu"):
            assert kernel.manifest.require == {} and kernel.manifest.intents == ()
        else:
            assert len(set(kernel.manifest.intents)) == len(kernel.manifest.intents) >= 6
