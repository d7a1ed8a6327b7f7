"""What a worker leaves running: found in /proc, killed and reaped.

A worker's descendants are told by their parent, their process group or their session. An orphan has none of these;
it becomes a child of this process, which adopts the orphans of its descendants (PR_SET_CHILD_SUBREAPER), and is told
by its seccomp filter, by the worker's home in its environment, or by having been seen as a descendant before.

Processes are listed while the guard is held, and workers start and end under it: no worker is half known.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_END_SECONDS = 2.0
_DEAD = frozenset("ZXx")


@dataclass(frozen=True)
class _Row:
    """One process, as /proc/N/stat has it."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int
    """In clock ticks since boot: with the pid, it names the process for good."""


@dataclass
class _Live:
    """A worker of this process that has not been reaped."""

    home: bytes
    seen: set[tuple[int, int]] = field(default_factory=set)
    """(pid, started) of all descendants met so far."""


_guard = threading.RLock()
_live: dict[int, _Live] = {}


@contextmanager
def starting() -> Iterator[Callable[[int, Path], None]]:
    """Start a worker in this block, and say its pid and home by the function that it gives."""
    with _guard:
        _adopt_orphans(os.getpid())
        yield lambda pid, home: _live.update({pid: _Live(os.fsencode(home))})


@contextmanager
def ending(pid: int) -> Iterator[None]:
    """Reap a worker in this block: its pid may be another's from then on."""
    with _guard:
        yield
        _live.pop(pid, None)


def strays(worker_pid: int) -> tuple[int, ...]:
    """Processes that this worker left running; none for an honest worker that is idle.

    An orphan in a sandbox that cannot be told to be another live worker's counts for any worker that is asked about.
    """
    with _guard:
        return tuple(row.pid for row in _left(worker_pid) if row.state not in _DEAD)


def end_strays(worker_pid: int) -> None:
    """Kill and reap them. Descendants that lost their parent since are known if `strays` was called before."""
    deadline = time.monotonic() + _END_SECONDS
    while True:
        with _guard:
            # The dead whose parent lives are the parent's to reap.
            left = [row for row in _left(worker_pid) if row.state not in _DEAD or row.parent == os.getpid()]
            for row in left:
                with suppress(OSError):
                    if row.state in _DEAD:
                        os.waitpid(row.pid, os.WNOHANG)
                    else:
                        os.kill(row.pid, signal.SIGKILL)
        if not left or time.monotonic() > deadline:
            return
        time.sleep(0.001)


@functools.cache
def _adopt_orphans(pid: int) -> None:
    """Once for each process: a fork does not inherit it. Without it (no such call) orphans are init's."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _left(worker_pid: int) -> list[_Row]:
    """Everything of this worker but itself, the dead included."""
    live = _live.get(worker_pid)
    table = [row for row in _table() if row.pid not in _live and row.pid != os.getpid()]
    known = live.seen if live else set()
    found = {
        row.pid: row
        for row in table
        if (live and worker_pid in (row.parent, row.group, row.session))
        or (row.pid, row.started) in known
        or (row.parent == os.getpid() and _is_orphan(row.pid, live))
    }
    grown = True
    while grown:
        more = {row.pid: row for row in table if row.parent in found and row.pid not in found}
        found |= more
        grown = bool(more)
    if live:
        live.seen = {(row.pid, row.started) for row in found.values()}
    return list(found.values())


def _is_orphan(pid: int, live: _Live | None) -> bool:
    """Whether a child of this process that is no worker comes from this one, or from some sandbox."""
    home = _home(pid)
    if any(home == other.home for other in _live.values()):
        return live is not None and home == live.home
    return _filters(pid) > _filters(os.getpid())


def _home(pid: int) -> bytes | None:
    """HOME as it was at the start; a process can overwrite it."""
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(b"HOME="):
                return variable[5:]
    return None


def _filters(pid: int) -> int:
    """How many seccomp filters hold a process. In a container this process has some of its own."""
    found = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            name, _, value = line.partition(b":")
            found[name] = value.strip()
    mode = found.get(b"Seccomp", b"0")
    return int(found.get(b"Seccomp_filters", b"1" if mode == b"2" else b"0"))


def _table() -> list[_Row]:
    rows = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                # The name in parentheses may hold anything.
                stat = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                parent, group, session, started = (int(stat[index]) for index in (1, 2, 3, 19))
                rows.append(_Row(int(name), stat[0].decode(), parent, group, session, started))
    return rows
