"""Durable files: folders, whole files and locks that survive a crash or say that they did not."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_NAME = "evidence.lock"
TEMPORARY = ".tmp-"
"""Opens the name of a file in the making; readers, pandas included, pass over names with a leading dot."""


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, each durable in its parent. Raises OSError."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything: a disk that fills up, or a size limit, first shortens a write and then refuses one.

    Raises OSError.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_temporary(target: Path, data: bytes) -> Path:
    """A durable file beside `target`, under a name that readers pass over. Raises OSError and leaves nothing then."""
    temporary = target.with_name(f"{TEMPORARY}{os.getpid()}-{target.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return temporary


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a finished file over `target`, durably. Raises OSError."""
    os.replace(temporary, target)
    sync_folder(target.parent)


@contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Hold a root's lock alone; waits for whoever holds it. It falls with the process. Raises OSError."""
    descriptor = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def shared(root: Path) -> Iterator[None]:
    """Keep compaction away while reading. Without a lock file nothing was ever compacted there. Raises OSError."""
    try:
        descriptor = os.open(root / LOCK_NAME, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
