"""Temporary folders that carry their owner's name, so that what a killed process left behind can be removed.

A name is klineage-<kind>-<pid>-<pid namespace>-<random>: two containers that share a folder do not know each other's
processes, and leave each other's folders alone.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(r"klineage-[a-z]+-(?P<pid>\d+)-(?P<namespace>\d+)-\w+")


def scratch_folder(kind: str, parent: Path | None = None) -> Path:
    """A new private folder, in the temporary folder unless told where; `kind` in small letters. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=prefix(kind), dir=parent))


def prefix(kind: str) -> str:
    """What the name of a folder of this process begins with, for `tempfile`."""
    _sweep_once()
    return f"klineage-{kind}-{os.getpid()}-{_namespace()}-"


def remove(folder: Path) -> None:
    """Remove a folder, also one in which a candidate forbade it; no error if something stays."""
    for root, names, _ in os.walk(folder):
        for name in names:
            path = Path(root, name)
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove this user's folders whose owners have ended."""
    for parent in (SHARED_MEMORY, Path(tempfile.gettempdir())):
        with suppress(OSError):
            for entry in os.scandir(parent):
                found = _NAME.fullmatch(entry.name)
                if (
                    found
                    and entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
                    and found["namespace"] == _namespace()
                    and not _lives(int(found["pid"]))
                ):
                    remove(Path(entry.path))


@functools.cache
def _sweep_once() -> None:
    sweep()


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
