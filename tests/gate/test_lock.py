"""The lock on a device, between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from tasks.gate import lock

ROOT = Path(__file__).parents[2]
_HOLD = """
import sys
from pathlib import Path
from tasks.gate import lock
lock.FOLDER = Path(sys.argv[3])
with lock.held(sys.argv[1], sys.argv[2], lambda: print("waiting", flush=True)):
    print("held", flush=True)
    sys.stdin.readline()
print("freed", flush=True)
"""


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lock, "FOLDER", tmp_path / "locks")


@contextmanager
def _holder(mode: str, device: str = "cpu") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, device, mode, str(lock.FOLDER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _release(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


class _Waited(Exception):
    pass


def _taken(mode: Literal["shared", "exclusive"], device: str = "cpu") -> bool:
    """Whether somebody keeps us from it now."""

    def waiting() -> None:
        raise _Waited

    try:
        with lock.held(device, mode, waiting):
            return False
    except _Waited:
        return True


@pytest.mark.parametrize(
    ("theirs", "ours", "taken"),
    [
        ("shared", "shared", False),
        ("shared", "exclusive", True),
        ("exclusive", "shared", True),
        ("exclusive", "exclusive", True),
    ],
)
def test_between_processes(theirs: str, ours: Literal["shared", "exclusive"], taken: bool) -> None:
    with _holder(theirs) as process:
        assert _says(process) == "held"
        assert _taken(ours) is taken
        assert not _taken(ours, "another device")
        _release(process)
        assert _says(process) == "freed"
        assert not _taken(ours)


def test_within_one_process() -> None:
    with lock.held("cpu", "shared"):
        assert not _taken("shared")
        assert _taken("exclusive")
    with lock.held("cpu", "exclusive"):
        assert _taken("shared")
    assert not _taken("exclusive")


def test_one_that_waits_says_so_once_and_gets_it_when_it_is_freed() -> None:
    with _holder("exclusive") as first:
        assert _says(first) == "held"
        with _holder("exclusive") as second:
            assert _says(second) == "waiting"
            _release(first)
            assert _says(first) == "freed"
            assert _says(second) == "held"
            _release(second)
            assert _says(second) == "freed"


def test_freed_by_sigkill() -> None:
    with _holder("exclusive") as process:
        assert _says(process) == "held"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not _taken("exclusive")


def test_freed_by_an_exception() -> None:
    with pytest.raises(KeyboardInterrupt), lock.held("cpu", "exclusive"):
        raise KeyboardInterrupt
    assert not _taken("exclusive")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with lock.held("cpu", "shared"):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_waiting_is_not_called_where_it_is_free() -> None:
    calls: list[int] = []
    with lock.held("cpu", "exclusive", lambda: calls.append(1)):
        pass
    assert calls == []


def test_a_child_does_not_inherit_it() -> None:
    with lock.held("cpu", "exclusive"):
        child = subprocess.Popen(
            [sys.executable, "-c", "print(); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
        )
        # Its descriptors are closed at exec, a moment after Popen is back.
        assert child.stdout is not None and child.stdout.readline()
    try:
        assert not _taken("exclusive")
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_others_of_the_machine_may_use_the_file(umask: int) -> None:
    old = os.umask(umask)
    try:
        with lock.held("cpu", "shared"):
            (file,) = lock.FOLDER.iterdir()
            assert lock.FOLDER.stat().st_mode & 0o7777 == 0o1777
            assert file.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(old)


def test_a_file_of_another_user_is_enough() -> None:
    with lock.held("cpu", "shared"):
        pass
    lock._path("cpu").chmod(0o444)
    with lock.held("cpu", "exclusive"):
        assert _taken("shared")


def test_the_lock_does_not_move_with_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        paths.add(lock._path("cpu"))
    assert len(paths) == 1


def test_a_folder_that_was_cleared_while_we_waited() -> None:
    with _holder("exclusive") as first:
        assert _says(first) == "held"
        with _holder("exclusive") as second:
            assert _says(second) == "waiting"
            lock._path("cpu").unlink()
            lock.FOLDER.rmdir()
            _release(first)
            assert _says(second) == "held"
            assert _taken("exclusive")


def test_without_a_file_it_is_a_lock_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    lock.FOLDER.mkdir()
    lock._path("link").symlink_to(tmp_path / "elsewhere")
    (lock.FOLDER / "file").write_text("")
    before = len(os.listdir("/proc/self/fd"))
    for device in ("link", "file/in a file", "x" * 300):
        with pytest.raises(lock.LockError) as caught, lock.held(device, "shared"):
            pass
        assert len(str(caught.value).splitlines()) == 1 and str(caught.value).startswith("cannot open the lock")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_error_of_the_block_is_the_blocks_own() -> None:
    with pytest.raises(FileNotFoundError), lock.held("cpu", "shared"):
        Path("/none/none").read_text()
