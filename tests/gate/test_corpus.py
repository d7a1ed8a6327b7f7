"""Every kernel of the corpus gets the verdict that corpus.toml gives it; every file is listed.

CUDA kernels are gated whole where there is a GPU (marker `gpu`), and everywhere as far as the compile stage.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from experts import catalog, platform
from experts.verdict import Effect, Tier, Verdict
from tasks.gate import sandbox
from tasks.gate.report import gate_files
from tasks.gate.runner import Settings

HERE = Path(__file__).parent
OPENCL = tomllib.loads((HERE / "corpus.toml").read_text())
CUDA = tomllib.loads((HERE / "corpus_cuda.toml").read_text())
ANYWHERE = sorted(
    name for name, entry in CUDA["exploits"].items() if entry["where"] == "anywhere" and not entry.get("slow")
)
MARKER = "klineage-canary"
CALL_SECONDS = 4.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLINEAGE_TEST_MARKER", MARKER)


@pytest.fixture
def gpu() -> None:
    if platform.gpu() is None:
        pytest.skip("nvidia-smi shows no CUDA device")


def _gate(path: Path, entry: dict[str, Any], tier: Tier, cache: Path) -> Verdict:
    surface = "cuda" if path.suffix == ".cu" else "opencl"
    case = catalog.find(entry["case"], surface, catalog.roots())
    baseline = entry.get("baseline")
    named = "sm90" if tier == "compile" else None
    settings = Settings(
        platform=platform.select(surface, named, compile_only=tier == "compile"),
        tier=tier,
        timeout=CALL_SECONDS,
        cache=cache,
        # Timing is asked for where the attack is on the clock, or shows only after many calls.
        profile=baseline is not None or entry.get("kind") == "timing" or "profile" in entry.get("stage", ""),
    )
    gated = gate_files(path, case, settings, HERE / "honest" / baseline if baseline else None, None)
    return gated.report.verdict


def _told(verdict: Verdict) -> str:
    return f"{verdict.status} at {verdict.stage}: {verdict.reason}"


def _check_exploit(name: str, entry: dict[str, Any], cache: Path) -> None:
    if entry["isolation"] == "sandbox" and sandbox.isolation() != "sandlock":
        pytest.skip(f"needs the sandbox: {sandbox.sandlock_fault()}")
    path = HERE / "exploits" / name
    verdict = _gate(path, entry, entry["tier"], cache)
    expected = ["ok", *entry.get("status", [])] if entry.get("contained") else entry["status"]
    assert verdict.status in expected, _told(verdict)
    if "stage" in entry and not entry.get("contained"):
        assert verdict.stage == entry["stage"], _told(verdict)
    if "effect" in entry and verdict.profile is not None:
        assert verdict.profile.effect in [Effect(effect) for effect in entry["effect"]], verdict.profile
    if "default_status" in entry:
        assert _gate(path, entry, "default", cache).status in entry["default_status"]
    if "log_never" in entry:
        assert entry["log_never"] not in verdict.model_dump_json()


@pytest.mark.parametrize("name", sorted(OPENCL["exploits"]))
def test_exploit(name: str, cache: Path) -> None:
    _check_exploit(name, OPENCL["exploits"][name], cache)


@pytest.mark.parametrize("name", sorted(OPENCL["honest"]))
def test_honest(name: str, cache: Path) -> None:
    verdict = _gate(HERE / "honest" / name, OPENCL["honest"][name], "sanitize", cache)
    assert verdict.status == "ok", _told(verdict)
    assert verdict.clean


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", sorted(CUDA["exploits"]))
def test_cuda_exploit(name: str, cache: Path) -> None:
    _check_exploit(name, CUDA["exploits"][name], cache)


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", sorted(CUDA["honest"]))
def test_cuda_honest(name: str, cache: Path) -> None:
    entry = CUDA["honest"][name]
    verdict = _gate(HERE / "honest" / name, entry, entry.get("tier", "sanitize"), cache)
    assert verdict.status == "ok", _told(verdict)
    assert verdict.clean is (True if entry.get("tier", "sanitize") == "sanitize" else None)


@pytest.mark.parametrize("name", ANYWHERE)
def test_cuda_exploit_that_needs_no_gpu(name: str, cache: Path) -> None:
    entry = CUDA["exploits"][name]
    verdict = _gate(HERE / "exploits" / name, entry, "compile", cache)
    assert verdict.status in entry["status"], _told(verdict)
    assert verdict.outcome == "rejected"
    if "log_never" in entry:
        assert entry["log_never"] not in verdict.model_dump_json()


@pytest.mark.parametrize("name", sorted(CUDA["honest"]))
def test_cuda_honest_as_far_as_the_compile_stage(name: str, cache: Path) -> None:
    verdict = _gate(HERE / "honest" / name, CUDA["honest"][name], "compile", cache)
    assert (verdict.status, verdict.stage) == ("ok", "compile"), _told(verdict)


def test_every_file_is_listed() -> None:
    for kind in ("exploits", "honest"):
        assert {path.name for path in (HERE / kind).iterdir()} == {*OPENCL[kind], *CUDA[kind]}
        assert not set(OPENCL[kind]) & set(CUDA[kind])
    assert len(OPENCL["exploits"]) + len(CUDA["exploits"]) >= 60
    assert len(OPENCL["honest"]) + len(CUDA["honest"]) >= 25
