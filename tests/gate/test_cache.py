"""The cache: what is kept comes back, what is broken is a miss, what cannot be kept is no fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from experts.verdict import CompileFacts, Correctness, Domain, Stage, Status, Verdict
from tasks.gate import cache as module
from tasks.gate.cache import Cache, key
from tasks.gate.device import Artifact, Device, Entry
from tasks.gate.launches import Limits

VERDICT = Verdict(
    outcome="passed",
    stage=Stage.CORRECTNESS,
    status=Status.OK,
    kernel_id="0" * 16,
    case="gemm/512-f32",
    case_id="1" * 16,
    platform="pocl-x86-avx2",
    tier="default",
    isolation="sandlock",
    domain=Domain(checked=("512",)),
    compile=CompileFacts(binary_bytes=10),
    correctness=Correctness(error=0.125, launches=3, distributions=("normal",), repeats=3),
)
ARTIFACT = Artifact(
    files={"a/program.bc": bytes(range(256)), "empty": b""},
    entries={
        "gemm": Entry((("float*", "global"), ("int", "private")), 128, 0, (1, 1, 1)),
        "none": Entry((), 0, 0, (0, 0, 0)),
    },
    facts=CompileFacts(binary_bytes=256, local_bytes=128),
    log="a warning\n",
)
DEVICE = Device(Limits(2, 4096, (4096, 4096, 4096), 1 << 18, 1 << 33), {"name": "cpu", "driver": "3"})


def _verdict(cache: Cache, name: str) -> Verdict | None:
    return cache.verdict(name, VERDICT.kernel_id, VERDICT.case_id)


KINDS: dict[str, tuple[str, Callable[[Cache, str], None], Callable[[Cache, str], object], object]] = {
    "verdict": ("verdicts", lambda cache, name: cache.keep_verdict(name, VERDICT), _verdict, VERDICT),
    "artifact": (
        "artifacts",
        lambda cache, name: cache.keep_artifact(name, ARTIFACT),
        lambda c, n: c.artifact(n),
        ARTIFACT,
    ),
    "device": ("devices", lambda cache, name: cache.keep_device(name, DEVICE), lambda c, n: c.device(n), DEVICE),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_comes_back(tmp_path: Path, kind: str) -> None:
    _, keep, get, value = KINDS[kind]
    assert get(Cache(tmp_path / "new" / "folder"), "k") is None
    keep(Cache(tmp_path / "new" / "folder"), "k")
    assert get(Cache(tmp_path / "new" / "folder"), "k") == value
    assert get(Cache(tmp_path / "new" / "folder"), "other") is None
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_folder_keeps_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, keep, get, _ = KINDS[kind]
    keep(Cache(None), "k")
    assert get(Cache(None), "k") is None
    assert list(tmp_path.iterdir()) == []


BROKEN = {
    "empty": b"",
    "half": None,
    "other JSON": b'{"a": 1}',
    "a list": b"[1, 2]",
    "null": b"null",
    "a number": b"7",
    "a text": b'"text"',
    "not JSON": b"{",
    "not UTF-8": b"\xff\xfe{}",
    "NUL": b"\0" * 100,
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_a_miss(tmp_path: Path, kind: str, how: str) -> None:
    folder, keep, get, value = KINDS[kind]
    cache = Cache(tmp_path)
    keep(cache, "k")
    path = tmp_path / folder / "k.json"
    content = BROKEN[how]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)
    assert get(cache, "k") is None
    keep(cache, "k")
    assert get(cache, "k") == value


def _fields(name: str) -> list[str]:
    value = {"artifact": {"files", "entries", "facts", "log"}, "device": {"limits", "facts"}}[name]
    return sorted(value)


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind in ("artifact", "device") for field in _fields(kind)]
)
def test_a_file_without_a_field_is_a_miss(tmp_path: Path, kind: str, field: str) -> None:
    folder, keep, get, _ = KINDS[kind]
    keep(Cache(tmp_path), "k")
    path = tmp_path / folder / "k.json"
    value = json.loads(path.read_text())
    del value[field]
    path.write_text(json.dumps(value))
    assert get(Cache(tmp_path), "k") is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_unwritable_place_is_no_fault(tmp_path: Path, kind: str) -> None:
    _, keep, get, _ = KINDS[kind]
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "below")
    keep(cache, "k")
    assert get(cache, "k") is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_is_no_fault(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    _, keep, get, _ = KINDS[kind]
    monkeypatch.setattr("os.replace", full)
    keep(Cache(tmp_path), "k")
    assert get(Cache(tmp_path), "k") is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_key_changes_with_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"kernel": "a", "case": "b", "env": "c", "tier": "default", "isolation": "sandlock"}
    first = key(**parts)
    assert key(**dict(reversed(parts.items()))) == first
    for name in parts:
        assert key(**{**parts, name: "other"}) != first
    monkeypatch.setattr(module, "source_id", lambda: "other")
    assert key(**parts) != first


def test_the_source_of_gate_and_judges_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = ("tasks/gate/cache.py", "tasks/gate/worker.py", "tasks/gate/cuda/worker.py", "experts/judge.py")
    outside = ("tasks/other.py", "experts/source/tree.py", "experts/gemm/case.py", "experts/gemm/naive.cl")
    for name in (*inside, *outside):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "tasks/gate/cache.py"))
    source_id = module.source_id.__wrapped__
    before = source_id()
    for name in inside:
        (tmp_path / name).write_text("two")
        after = source_id()
        assert after != before
        before = after
    for name in outside:
        (tmp_path / name).write_text("two")
    assert source_id() == before
    (tmp_path / "experts/judge.py").rename(tmp_path / "experts/judges.py")
    assert source_id() != before


def test_the_source_of_this_gate_is_whole() -> None:
    root = Path(module.__file__).parents[2]
    found = set(module.sources(root))
    assert {root / "tasks/gate/worker.py", root / "experts/judge.py", root / "experts/kernel.py"} <= found
    nested = [path for path in (root / "tasks/gate").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert set(nested) <= found


@pytest.mark.parametrize("asked", [("0" * 16, "2" * 16), ("2" * 16, "1" * 16)])
def test_a_verdict_on_something_else_is_a_miss(tmp_path: Path, asked: tuple[str, str]) -> None:
    Cache(tmp_path).keep_verdict("k", VERDICT)
    assert _verdict(Cache(tmp_path), "k") == VERDICT
    assert Cache(tmp_path).verdict("k", *asked) is None


def test_a_rejection_in_the_cache_is_a_miss(tmp_path: Path) -> None:
    rejected = VERDICT.model_dump() | {
        "outcome": "rejected",
        "status": "wrong_value",
        "reason": "no",
        "correctness": None,
    }
    Cache(tmp_path).keep_verdict("k", Verdict(**rejected))
    assert _verdict(Cache(tmp_path), "k") is None
