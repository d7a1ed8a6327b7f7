"""Starts a worker process held in a sandbox, and ends it.

`sandlock` (Landlock and seccomp, no root) holds the worker where the kernel allows it: it may read the interpreter,
the OpenCL libraries and the linker, write its own scratch folder and the shared pages, and nothing else; no network,
no signals or memory of other processes, an environment of a few harmless variables. Elsewhere the isolation is
`process`: an own process group and a clean environment, which every verdict then says.

The worker gets its requests on stdin and answers on stdout; what a candidate prints goes to stderr.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from experts.verdict import Isolation

MEMORY_BYTES = 4 << 30
"""What a worker may map beyond the shared pages; LLVM needs about 1 GiB of it."""
MAX_PROCESSES = 6
"""The worker, and the linker that PoCL starts for each (kernel, local size)."""
MAX_OPEN_FILES = 256

_READABLE = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/proc/cpuinfo", "/dev/urandom")
_LINKERS = ("ld", "ld.bfd", "ld.gold", "ld.lld")


class SandboxUnavailable(Exception):
    """Why this machine cannot hold a worker, in one line."""


class Held(Protocol):
    """A started worker."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    isolation: Isolation

    def kill(self) -> None:
        """SIGKILL to its process group; no error if it is gone."""

    def wait(self) -> int:
        """Its exit status as subprocess has it: the code, or minus the signal."""


@dataclass(frozen=True)
class Grant:
    """What one worker may touch."""

    scratch: Path
    """Its own folder: working folder, home and compiler cache."""
    pages: tuple[Path, ...] = ()
    """Files it may read and write in place."""
    readable: tuple[Path, ...] = ()
    environment: Mapping[str, str] | None = None
    memory_bytes: int = MEMORY_BYTES


def isolation() -> Isolation:
    """What this machine offers, found out once by starting a process in it."""
    return "sandlock" if sandlock_fault() is None else "process"


@functools.cache
def sandlock_fault() -> str | None:
    """Why sandlock cannot hold a process here; None where it can."""
    with tempfile.TemporaryDirectory(prefix="klineage-") as folder:
        probe = "import os, sys\ntry: open(sys.argv[1]).read()\nexcept OSError: os._exit(7)"
        with tempfile.NamedTemporaryFile(prefix="klineage-") as outside:
            try:
                held = _start_sandlock([sys.executable, "-I", "-S", "-c", probe, outside.name], Grant(Path(folder)))
            except SandboxUnavailable as fault:
                return str(fault)
            status = held.wait()
    return None if status == 7 else f"a file outside its folder was not kept from a sandboxed process (status {status})"


def start(command: Sequence[str], grant: Grant, required: Isolation | None = None) -> Held:
    """Start a worker under the best isolation there is, or exactly `required`. Raises SandboxUnavailable."""
    wanted = required or isolation()
    return _start_sandlock(command, grant) if wanted == "sandlock" else _Process(command, grant)


def linker() -> Path | None:
    """The linker that PoCL needs, if there is one."""
    return next((Path(found) for name in _LINKERS if (found := shutil.which(name))), None)


def _readable(grant: Grant) -> list[str]:
    paths = [*_READABLE, sys.prefix, sys.base_prefix, *map(str, grant.readable)]
    # Links are followed at each step: ld is often a link to a link in the same folder.
    for name in _LINKERS:
        found = shutil.which(name)
        while found:
            paths.append(found)
            found = os.path.join(os.path.dirname(found), os.readlink(found)) if os.path.islink(found) else None
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _environment(grant: Grant) -> dict[str, str]:
    found = linker()
    base = {
        "HOME": str(grant.scratch),
        "TMPDIR": str(grant.scratch),
        "PATH": str(found.parent) if found else "/usr/bin",
        "LANG": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return base | dict(grant.environment or {})


class _Process:
    """Isolation `process`: an own group and environment, no more."""

    isolation: Isolation = "process"

    def __init__(self, command: Sequence[str], grant: Grant) -> None:
        self._child = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(grant),
            cwd=grant.scratch,
            start_new_session=True,
        )
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self.pid = self._child.pid
        self.stdin, self.stdout, self.stderr = self._child.stdin, self._child.stdout, self._child.stderr

    def kill(self) -> None:
        _kill_group(self.pid)

    def wait(self) -> int:
        return self._child.wait()


class _Sandlocked:
    """A worker inside sandlock, whose supervisor runs on threads of this process."""

    isolation: Isolation = "sandlock"

    def __init__(self, child: object, sandbox: object) -> None:
        self._child, self._sandbox = child, sandbox
        self._lock = threading.Lock()
        self._status: int | None = None
        self.pid: int = child.pid  # type: ignore[attr-defined]
        self.stdin: IO[bytes] = child.stdin  # type: ignore[attr-defined]
        self.stdout: IO[bytes] = child.stdout  # type: ignore[attr-defined]
        self.stderr: IO[bytes] = child.stderr  # type: ignore[attr-defined]

    def kill(self) -> None:
        with self._lock:
            if self._status is None:
                _kill_group(self.pid)

    def wait(self) -> int:
        if self._status is None:
            result = self._child.wait()  # type: ignore[attr-defined]
            with self._lock:
                # It tells SIGKILL, its own included, by another field than the other signals.
                signalled = result.signal if result.signal > 0 else signal.SIGKILL if result.exit_code < 0 else 0
                self._status = -signalled or result.exit_code
        return self._status


def _start_sandlock(command: Sequence[str], grant: Grant) -> Held:
    try:
        import sandlock
    except (ImportError, OSError) as error:
        raise SandboxUnavailable(f"the package sandlock does not load: {error}") from None
    try:
        abi = sandlock.landlock_abi_version()
        if abi < sandlock.min_landlock_abi():
            raise SandboxUnavailable(
                f"this kernel has Landlock ABI {abi}; sandlock needs {sandlock.min_landlock_abi()}"
            )
        sandbox = sandlock.Sandbox(
            fs_readable=_readable(grant),
            fs_writable=[str(grant.scratch), *map(str, grant.pages), "/dev/null"],
            clean_env=True,
            env=_environment(grant),
            cwd=str(grant.scratch),
            max_memory=grant.memory_bytes,
            max_processes=MAX_PROCESSES,
            max_open_files=MAX_OPEN_FILES,
            no_coredump=True,
        )
        piped = sandlock.StdioMode.PIPED
        child = sandbox.popen(list(command), stdin=piped, stdout=piped, stderr=piped)
    except (sandlock.SandlockError, RuntimeError, OSError, ValueError) as error:
        raise SandboxUnavailable(f"sandlock cannot start a process here: {error}") from None
    return _Sandlocked(child, sandbox)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
