"""Starts a worker process held in a sandbox, and ends it.

`sandlock` (Landlock and seccomp, no root) holds the worker where the kernel allows it: it may read the interpreter,
the OpenCL libraries and the linker, write its own scratch folder and the shared pages, and nothing else; no network,
no signals or memory of other processes, an environment of a few harmless variables. Elsewhere the isolation is
`process`: an own process group and a clean environment, which every verdict then says.

The worker gets its requests on stdin and answers on stdout; what a candidate prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from experts.verdict import Isolation
from tasks.gate import folders, strays

MEMORY_BYTES = 4 << 30
"""What a worker may map beyond the shared pages; LLVM needs about 1 GiB of it."""
MAX_PROCESSES = 6
"""The worker, and the linker that PoCL starts for each (kernel, local size)."""
MAX_OPEN_FILES = 256
_GPU_FILES = ("/dev", "/proc", "/sys")
"""What NVIDIA's driver opens for writing. Landlock keeps other processes' /proc from a sandboxed one all the same."""
_GPU_PROCESSES = 64
"""The driver's threads count, too."""
_PROBE_SECONDS = 20.0

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

    def signal(self, number: int) -> None:
        """A signal to it and to its process group, which it may have left; no error if it is gone."""

    def kill(self) -> None:
        """SIGKILL to the same."""

    def ended(self, seconds: float | None = None) -> bool:
        """Wait so long (None: for good) for its end, and leave it unreaped: its pid stays its own."""

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait so long for its end, and reap it: its exit status as subprocess has it, the code or minus the signal.

        None where it has not ended.
        """


@dataclass(frozen=True)
class Grant:
    """What one worker may touch."""

    scratch: Path
    """Its own folder: working folder, home and compiler cache."""
    pages: tuple[Path, ...] = ()
    """Files it may read and write in place."""
    readable: tuple[Path, ...] = ()
    environment: Mapping[str, str] | None = None
    memory_bytes: int | None = MEMORY_BYTES
    """Address space; None for no limit, where a driver reserves more than it uses."""
    gpu: bool = False
    """The first CUDA device."""


def isolation() -> Isolation:
    """What this machine offers, found out once by starting a process in it."""
    return "sandlock" if sandlock_fault() is None else "process"


@functools.cache
def sandlock_fault() -> str | None:
    """Why sandlock cannot hold a process here; None where it can."""
    with tempfile.TemporaryDirectory(prefix=folders.prefix("probe")) as folder:
        probe = "import os, sys\ntry: open(sys.argv[1]).read()\nexcept OSError: os._exit(7)"
        with tempfile.NamedTemporaryFile(prefix="klineage-") as outside:
            try:
                held = _start_sandlock([sys.executable, "-I", "-S", "-c", probe, outside.name], Grant(Path(folder)))
            except SandboxUnavailable as fault:
                return str(fault)
            status = held.wait(_PROBE_SECONDS)
            held.kill()
            held.wait(_PROBE_SECONDS)
            for stream in (held.stdin, held.stdout, held.stderr):
                stream.close()
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


class _Started:
    """What both isolations have in common."""

    isolation: Isolation
    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def __init__(self) -> None:
        # A handler of a signal may kill while this thread kills.
        self._lock = threading.RLock()
        self._status: int | None = None

    def signal(self, number: int) -> None:
        with self._lock:
            if self._status is None:
                for send in (os.kill, os.killpg):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        send(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def ended(self, seconds: float | None = None) -> bool:
        options = os.WEXITED | os.WNOWAIT | (0 if seconds is None else os.WNOHANG)
        deadline = time.monotonic() + (seconds or 0.0)
        pause = 0.0005
        try:
            while self._status is None and os.waitid(os.P_PID, self.pid, options) is None:
                if time.monotonic() > deadline:
                    return False
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
        except ChildProcessError:
            return True
        return True

    def wait(self, seconds: float | None = None) -> int | None:
        if not self.ended(seconds):
            return None
        if self._status is None:
            with strays.ending(self.pid), self._lock:
                if self._status is None:
                    self._status = self._reap()
        return self._status

    def _reap(self) -> int:
        raise NotImplementedError


class _Process(_Started):
    """Isolation `process`: an own group and environment, no more."""

    isolation: Isolation = "process"

    def __init__(self, command: Sequence[str], grant: Grant) -> None:
        super().__init__()
        with strays.starting() as started:
            self._child = subprocess.Popen(
                list(command),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(grant),
                cwd=grant.scratch,
                start_new_session=True,
            )
            started(self._child.pid, grant.scratch)
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self.pid = self._child.pid
        self.stdin, self.stdout, self.stderr = self._child.stdin, self._child.stdout, self._child.stderr

    def _reap(self) -> int:
        return self._child.wait()


class _Sandlocked(_Started):
    """A worker inside sandlock, whose supervisor runs on threads of this process."""

    isolation: Isolation = "sandlock"

    def __init__(self, child: Any, sandbox: object) -> None:
        super().__init__()
        self._child, self._sandbox = child, sandbox
        self.pid = child.pid
        self.stdin, self.stdout, self.stderr = child.stdin, child.stdout, child.stderr

    def _reap(self) -> int:
        result = self._child.wait()
        # It tells SIGKILL, its own included, by another field than the other signals.
        signalled = result.signal if result.signal > 0 else signal.SIGKILL if result.exit_code < 0 else 0
        return int(-signalled or result.exit_code)


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
            fs_writable=[str(grant.scratch), *map(str, grant.pages), "/dev/null", *(_GPU_FILES if grant.gpu else ())],
            clean_env=True,
            env=_environment(grant),
            cwd=str(grant.scratch),
            max_memory=grant.memory_bytes,
            max_processes=_GPU_PROCESSES if grant.gpu else MAX_PROCESSES,
            gpu_devices=[0] if grant.gpu else None,
            max_open_files=MAX_OPEN_FILES,
            no_coredump=True,
            no_randomize_memory=True,
        )
        piped = sandlock.StdioMode.PIPED
        with strays.starting() as started:
            child = sandbox.popen(list(command), stdin=piped, stdout=piped, stderr=piped)
            started(child.pid, grant.scratch)
    except (sandlock.SandlockError, RuntimeError, OSError, ValueError) as error:
        raise SandboxUnavailable(f"sandlock cannot start a process here: {error}") from None
    return _Sandlocked(child, sandbox)
