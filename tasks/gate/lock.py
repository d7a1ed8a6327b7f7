"""The lock on a device: shared for compile and correctness, exclusive for timing.

An flock on a file that all users of the machine share; the kernel frees it when its holder dies. On a CPU platform the
device is the CPU.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

_FOLDER = "klineage-locks"


@contextmanager
def held(
    device: str, mode: Literal["shared", "exclusive"], waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the lock for the block; `waiting` is called once if somebody else has it. Raises OSError without a file."""
    descriptor = os.open(_path(device), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    operation = fcntl.LOCK_SH if mode == "shared" else fcntl.LOCK_EX
    try:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def _path(device: str) -> Path:
    folder = Path(tempfile.gettempdir()) / _FOLDER
    with suppress(FileExistsError):
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    path = folder / f"{device}.lock"
    if not path.exists():
        with suppress(FileExistsError), path.open("x"):
            path.chmod(0o666)
    return path
