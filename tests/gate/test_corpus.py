"""Every kernel of the corpus gets the verdict that corpus.toml gives it; every file is listed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from experts import catalog, platform
from experts.verdict import Effect, Verdict
from tasks.gate import sandbox
from tasks.gate.report import gate_files
from tasks.gate.runner import Settings

HERE = Path(__file__).parent
CORPUS = tomllib.loads((HERE / "corpus.toml").read_text())
MARKER = "klineage-canary"
CALL_SECONDS = 4.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLINEAGE_TEST_MARKER", MARKER)


def _gate(path: Path, entry: dict[str, Any], tier: str, cache: Path) -> Verdict:
    case = catalog.find(entry["case"], "opencl", catalog.roots())
    baseline = entry.get("baseline")
    settings = Settings(
        platform=platform.select("opencl", None),
        tier="sanitize" if tier == "sanitize" else "default",
        timeout=CALL_SECONDS,
        cache=cache,
        # Timing is asked for where the attack is on the clock, or shows only after many calls.
        profile=baseline is not None or entry.get("kind") == "timing" or "profile" in entry.get("stage", ""),
    )
    gated = gate_files(path, case, settings, HERE / "honest" / baseline if baseline else None, None)
    return gated.report.verdict


@pytest.mark.parametrize("name", sorted(CORPUS["exploits"]))
def test_exploit(name: str, cache: Path) -> None:
    entry = CORPUS["exploits"][name]
    if entry["isolation"] == "sandbox" and sandbox.isolation() != "sandlock":
        pytest.skip(f"needs the sandbox: {sandbox.sandlock_fault()}")
    verdict = _gate(HERE / "exploits" / name, entry, entry["tier"], cache)
    told = f"{verdict.status} at {verdict.stage}: {verdict.reason}"
    expected = ["ok", *entry.get("status", [])] if entry.get("contained") else entry["status"]
    assert verdict.status in expected, told
    if "stage" in entry and not entry.get("contained"):
        assert verdict.stage == entry["stage"], told
    if "effect" in entry and verdict.profile is not None:
        assert verdict.profile.effect in [Effect(effect) for effect in entry["effect"]], verdict.profile
    if "default_status" in entry:
        assert _gate(HERE / "exploits" / name, entry, "default", cache).status in entry["default_status"]
    if "log_never" in entry:
        assert entry["log_never"] not in verdict.model_dump_json()


@pytest.mark.parametrize("name", sorted(CORPUS["honest"]))
def test_honest(name: str, cache: Path) -> None:
    entry = CORPUS["honest"][name]
    verdict = _gate(HERE / "honest" / name, entry, "sanitize", cache)
    assert verdict.status == "ok", f"{verdict.status} at {verdict.stage}: {verdict.reason}"
    assert verdict.clean


def test_every_file_is_listed() -> None:
    for kind in ("exploits", "honest"):
        assert {path.name for path in (HERE / kind).iterdir()} == set(CORPUS[kind])
    assert len(CORPUS["exploits"]) >= 25
    assert len(CORPUS["honest"]) >= 10
