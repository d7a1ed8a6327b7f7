"""Probes on the device: each kernel fails exactly where it must, and nowhere else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experts.kernel import Kernel
from experts.platform import env_id, environment
from tasks.evidence import Evidence, Roots, journal
from tasks.gate import sandbox
from tasks.gate.cache import Cache
from tasks.gate.launches import plan
from tasks.gate.opencl import OCLGRIND, OpenCLProcess
from tasks.gate.pages import Pages, layout
from tasks.gate.pool import Pool
from tasks.gate.prepare import device_of
from tasks.probe.copies import without_require
from tasks.probe.prober import Finding, Stand, probe
from tasks.probe.report import ProbeReport
from tasks.probe.run import Job, opened, run
from tasks.probe.shapes import Shape
from tasks.runs import Busy
from tests.probe import kernels
from tests.probe.kernels import job

KILLED_AT = (1, 9)
"""Rows."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def stand(cache: Path) -> Stand:
    settings = kernels.settings(cache)
    device = device_of(settings.platform, None, Cache(cache))
    environ = env_id(environment(settings.platform, device.facts))
    return Stand(settings.platform, sandbox.isolation(), device, environ, Pool(), Cache(cache))


def _found(kernel: Kernel, shapes: list[Shape], stand: Stand) -> dict[Shape, Finding]:
    found = {each.shape: each for each in probe(without_require(kernel), kernels.case(), shapes, stand)}
    assert set(found) == set(shapes)
    return found


def _sized(*sizes: tuple[int, int], tier: str = "default") -> list[Shape]:
    return [Shape({"R": rows, "N": columns}, tier=tier) for rows, columns in sizes]  # type: ignore[arg-type]


def test_a_tail_that_runs_over_the_end_is_seen_though_its_values_are_right(stand: Stand) -> None:
    sizes = [(rows, columns) for rows in (1, 3) for columns in (1, 15, 16, 17, 63, 64, 72, 80)]
    for shape, finding in _found(kernels.WIDE, _sized(*sizes), stand).items():
        assert finding.status == ("ok" if shape.dims["N"] % 16 == 0 else "out_of_bounds"), finding
        assert finding.stage == "correctness" and (finding.reason is None) == finding.passed
        assert finding.clean is None


def test_a_tail_that_is_never_computed_is_no_reason_for_a_fresh_process(stand: Stand) -> None:
    sizes = [(3, columns) for columns in (64, 65, 66, 68, 72, 80)]
    statuses = {s.dims["N"]: f.status for s, f in _found(kernels.WHOLE_GROUPS, _sized(*sizes), stand).items()}
    assert statuses == {n: "ok" if n % 16 == 0 else "unwritten_output" for _, n in sizes}


def test_misaligned_casts_fail_exactly_off_their_alignment(stand: Stand) -> None:
    shapes = [Shape({"R": 3, "N": 64}, tensor, offset) for tensor in "XY" for offset in (4, 8, 16, 32, 60)]
    for shape, finding in _found(kernels.CAST, [*shapes, Shape({"R": 3, "N": 64})], stand).items():
        assert finding.status == ("ok" if shape.offset_bytes % 32 == 0 else "crash"), finding
    assert {finding.status for finding in _found(kernels.SCALAR, shapes, stand).values()} == {"ok"}
    assert {finding.status for finding in _found(kernels.WIDE, shapes, stand).values()} == {"ok"}


def test_the_sanitizer_sees_misaligned_casts_too(stand: Stand) -> None:
    shapes = [Shape({"R": 3, "N": 64}, tensor, offset, "sanitize") for tensor in "XY" for offset in (16, 32)]
    for shape, finding in _found(kernels.CAST, shapes, stand).items():
        assert finding.clean == (shape.offset_bytes == 32), finding
        assert finding.passed or "not aligned" in (finding.reason or "")
    assert all(finding.clean and finding.passed for finding in _found(kernels.SCALAR, shapes, stand).values())


def test_an_array_of_its_own_that_overflows_is_seen_in_the_sanitizer(stand: Stand) -> None:
    sizes = [(3, 129), (3, 128), (2, 64), (1, 512), (3, 65)]
    for shape, finding in _found(kernels.TILED, _sized(*sizes, tier="sanitize"), stand).items():
        small = shape.dims["N"] <= 128
        assert (finding.status, finding.clean) == (("ok", True) if small else ("out_of_bounds", False)), finding


def test_a_read_past_the_end_is_seen_in_the_sanitizer_alone(stand: Stand) -> None:
    sizes = [(3, 64), (2, 7)]
    assert all(finding.passed for finding in _found(kernels.READS_ON, _sized(*sizes), stand).values())
    for finding in _found(kernels.READS_ON, _sized(*sizes, tier="sanitize"), stand).values():
        assert (finding.status, finding.clean) == ("out_of_bounds", False)


def test_what_does_not_end_is_a_finding_and_costs_one_process(stand: Stand) -> None:
    found = _found(kernels.ENDLESS, _sized((2, 6), (2, 7), (2, 8)), replace(stand, seconds=3.0))
    assert [finding.status for finding in found.values()] == ["ok", "timeout", "ok"]
    assert [finding.stage for finding in found.values()] == ["correctness", "launch", "correctness"]


def test_a_launch_that_cannot_be_is_a_finding(stand: Stand) -> None:
    text = kernels.SCALAR.text.replace('grid = ["R"]', 'grid = ["R // 2"]').replace("block = [1]", 'block = ["2"]')
    halved = kernels.parse(text, surface="opencl")
    found = _found(halved, _sized((1, 64), (2, 64), (3, 64)), stand)
    assert [(finding.stage, finding.status) for finding in found.values()] == [
        ("launch", "invalid_kernel"),
        ("correctness", "ok"),
        ("correctness", "unwritten_output"),
    ]


def test_a_kernel_that_does_not_compile_fails_everywhere(stand: Stand) -> None:
    found = _found(kernels.rows("nonsense"), _sized((1, 64), (2, 64)), stand)
    assert {(finding.stage, finding.status) for finding in found.values()} == {("compile", "compile_error")}


@pytest.mark.parametrize("simulated", [False, True])
def test_a_kernel_gets_the_pointer_that_is_off_its_alignment(simulated: bool, stand: Stand) -> None:
    kernel = kernels.rows("y[0] = (float)((ulong)x % 128); y[1] = x[1];")
    bound = kernels.case().at({"R": 1, "N": 2})
    name = OCLGRIND if simulated else stand.platform.opencl_name
    assert name is not None
    with Pages(1 << 20, 1) as pages, OpenCLProcess(name, pages) as process:
        process.device()
        process.build(kernel)
        process.open_pages()
        for offset in (0, 4, 16, 60):
            found = layout({"X": 8, "Y": 8}, offsets={"X": offset})
            pages.write(found.spans["X"][0], np.array([1, 7], np.float32))
            process.drop()
            process.bind("it", kernel, plan(kernel, bound, stand.device.limits, stand.platform.warp), found)
            process.run(["it"], 30.0)
            assert pages.read(*found.spans["Y"]).view(np.float32).tolist() == [offset, 7.0]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    return _root(tmp_path_factory.mktemp("first"), cache)


@pytest.fixture(scope="module")
def first(root: Path) -> ProbeReport:
    return _probed(job(root))


def _root(folder: Path, cache: Path) -> Path:
    (folder / "cache").symlink_to(cache)
    return folder


def _probed(work: Job) -> ProbeReport:
    with opened(work) as desk:
        return run(work, desk)


def _rows(root: Path) -> pd.DataFrame:
    with Evidence(Roots(root)) as evidence:
        return evidence.read("probes")


def _recorded(root: Path) -> list[str]:
    """Probe ids in the journals, each as often as it was written."""
    lines = [line for path in journal.paths(root) for line in journal.read(path).rows]
    return [str(row["probe_id"]) for dataset, row in lines if dataset == "probes"]


def test_a_row_for_each_kernel_and_shape(first: ProbeReport, root: Path) -> None:
    frame = _rows(root)
    assert len(frame) == first.ran == 32
    assert frame["probe_id"].is_unique and set(frame["run_id"]) == {first.run_id}
    dims = [json.loads(text) for text in frame["dims"]]
    wide = (frame["original_id"] == kernels.WIDE.kernel_id).to_numpy()
    divisible = np.array([each["N"] % 16 == 0 for each in dims])
    passed = (frame["outcome"] == "passed").to_numpy()
    assert (passed == (divisible | ~wide)).all()
    assert frame["required"][wide].tolist() == divisible[wide].tolist()
    assert frame["required"][~wide].isna().all()
    assert set(frame["kernel_id"][wide]) == {without_require(kernels.WIDE).kernel_id}
    assert {each["R"] for each in dims} > {3}
    with Evidence(Roots(root)) as evidence:
        assert {*frame["kernel_id"], *frame["original_id"]} <= set(evidence.read("kernels")["kernel_id"])


def test_the_report_counts_and_compares(first: ProbeReport) -> None:
    assert first.simplified.counts == {"ok": 16}
    assert first.above.shapes == 16 and first.above.counts["out_of_bounds"] == len(first.differ) == first.above.refused
    assert first.above.lucky == 0 and first.simplified.refused is None
    assert all(each.dims["N"] % 16 and each.simplified == "ok" for each in first.differ)


def test_a_finished_run_is_read(first: ProbeReport, root: Path) -> None:
    assert _probed(job(root)) == first.model_copy(update={"ran": 0})
    assert len(_recorded(root)) == first.ran


def test_a_second_process_is_told(first: ProbeReport, root: Path) -> None:
    with opened(job(root)), pytest.raises(Busy, match="another process is on this probe already"):
        _probed(job(root))


def test_fresh_repeats_it(first: ProbeReport, tmp_path: Path, cache: Path) -> None:
    place = _root(tmp_path, cache)
    same = {"above": kernels.SCALAR, "simplified": kernels.SCALAR, "budget": 4}
    for repetition in range(2):
        report = _probed(job(place, fresh=True, **same))  # type: ignore[arg-type]
        assert (report.repetition, report.ran, report.differ) == (repetition, 4, ())
    with Evidence(Roots(place)) as evidence:
        evidence.compact()
    assert _probed(job(place, **same)).ran == 0  # type: ignore[arg-type]
    assert len(_rows(place)) == 8


@pytest.mark.parametrize("rows", KILLED_AT)
def test_killed_and_resumed(rows: int, first: ProbeReport, root: Path, tmp_path: Path, cache: Path) -> None:
    place = _root(tmp_path, cache)
    child = subprocess.Popen([sys.executable, "-m", "tests.probe.driver", str(place)], stdout=subprocess.DEVNULL)
    while child.poll() is None and len(_recorded(place)) < rows:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    before = _recorded(place)
    assert rows <= len(before) < first.ran
    resumed = _resumed(place)
    assert resumed.ran == first.ran - len(before)
    assert resumed == first.model_copy(update={"ran": resumed.ran})
    ids = _recorded(place)
    assert len(ids) == len(set(ids)) == first.ran
    assert sorted(ids) == sorted(_rows(root)["probe_id"])


def _resumed(root: Path) -> ProbeReport:
    # The lock goes with its holder, which the kernel may take a moment to end.
    for _ in range(50):
        try:
            return _probed(job(root))
        except Busy:
            time.sleep(0.1)
    raise AssertionError("the killed run still holds its lock")
