"""The lock on a device: shared for compile and correctness, exclusive for timing.

An flock on a file that all users of the machine share, wherever their temporary folders are; the kernel frees it when
its holder dies. On a CPU platform the device is the CPU.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

FOLDER = Path("/tmp/klineage-locks")
"""One for the machine. Sticky: nobody can replace another user's file."""
_TRIES = 100


class LockError(OSError):
    """The lock's file cannot be made or opened; one line."""


@contextmanager
def held(
    device: str, mode: Literal["shared", "exclusive"], waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the lock for the block; `waiting` is called once if somebody else has it. Raises LockError."""
    descriptor = _locked(_path(device), fcntl.LOCK_SH if mode == "shared" else fcntl.LOCK_EX, waiting)
    try:
        yield
    finally:
        os.close(descriptor)


def _locked(path: Path, operation: int, waiting: Callable[[], None] | None) -> int:
    for left in reversed(range(_TRIES)):
        try:
            descriptor = _opened(path)
        except OSError as error:
            # Another user may be about to make the folder or the file, and open it to all.
            if left and isinstance(error, FileNotFoundError | PermissionError):
                time.sleep(0.001)
                continue
            raise LockError(f"cannot open the lock {path}: {os.strerror(error.errno or 0)}") from None
        with ExitStack() as failed:
            failed.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is not None:
                    waiting()
                    waiting = None
                fcntl.flock(descriptor, operation)
            # While we waited, somebody may have cleared the folder: then others lock a newer file.
            if _same(descriptor, path):
                failed.pop_all()
                return descriptor
    raise LockError(f"cannot lock {path}: it is replaced again and again")


def _opened(path: Path) -> int:
    """A lock needs no more than reading, so that a file of another user's serves whatever its mode."""
    with suppress(FileExistsError):
        path.parent.mkdir()
        path.parent.chmod(0o1777)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.fchmod(descriptor, 0o666)
        return descriptor
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _path(device: str) -> Path:
    return FOLDER / f"{device}.lock"
