"""The parent's end of a worker: requests, deadlines, output caps, and how it died.

Nothing that a worker says decides a verdict by itself: an answer must carry the request's nonce, arrive in time and
be of the shape that was asked for, else it counts as tampering.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from experts.verdict import Isolation, Status
from tasks.gate import sandbox, serving
from tasks.gate.sandbox import Grant, start
from tasks.gate.strays import end_strays, strays

MAX_ANSWER_BYTES = 4 << 20
MAX_PRINTED_BYTES = 1 << 20
SEND_SECONDS = 30.0
_SHORTEST, _LONGEST = 1e-9, 1e6
_KEPT_BYTES = 16 * 1024
_LONGEST_WAIT = 0.25
"""Seconds between looks at what else may have happened to a worker that is waited for."""
_DYING_SECONDS = 3.0
_END_SECONDS = 10.0
_FAULTS = ("memory", "build", "logic", "runtime", "missing", "worker")

T = TypeVar("T", int, float, str, list[Any], dict[str, Any])


class Rejected(Exception):
    """The candidate is at fault: a status of the closed set, a one-line reason, and what was printed."""

    def __init__(self, status: Status, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.log = status, reason, log


class Fault(Exception):
    """The runtime refused a request: `memory`, `build`, `logic`, `runtime`, `missing`; or `worker`: our own fault."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


class Stopped(Exception):
    """`kill_all` ended the worker: nothing is known of the candidate."""


@dataclass(frozen=True)
class Script:
    """What a worker runs: a Python file that stands alone, under another program where `under` names its command."""

    path: Path
    under: tuple[str, ...] = ()
    server: Path | None = None
    """What the file serves, where it is `serving`."""

    @classmethod
    def serving(cls, server: Path, under: tuple[str, ...] = ()) -> Script:
        """The frame of the gate's own workers around a file with a class `Server`."""
        return cls(Path(serving.__file__), under, server)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file, and what it takes."""
        return (self.path,) if self.server is None else (self.path, self.server)


class Worker:
    """One worker process. Use as a context manager: leaving it kills the worker and all that it left running.

    Without a sandbox it also ends with the thread that made it.
    """

    def __init__(self, grant: Grant, isolation: Isolation | None, script: Script) -> None:
        wanted = isolation or sandbox.isolation()
        ends = [str(os.getpid())] if wanted == "process" and not script.under else []
        command = [*script.under, sys.executable, "-I", "-B", *map(str, script.files), *ends]
        held = replace(grant, readable=(*grant.readable, *script.files))
        self._process = start(command, held, wanted)
        os.set_blocking(self._process.stdin.fileno(), False)
        self._buffer = b""
        self._printed = bytearray()
        self._printed_bytes = 0
        self._flooded = False
        self._over = False
        self._drain = threading.Thread(target=self._drain_printed, daemon=True)
        self._drain.start()
        _workers.add(self)
        if _stopping:
            self.kill()
            raise Stopped("no worker is started any more")

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def isolation(self) -> Isolation:
        """How it is held."""
        return self._process.isolation

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's."""
        return self._process.pid

    @property
    def printed(self) -> str:
        """The first part of what came on stderr: text of the candidate's making, never parsed."""
        return bytes(self._printed).decode(errors="backslashreplace")

    def kill(self) -> None:
        """End it and its strays, whatever they do."""
        if not self._over:
            strays(self.pid)
            self._process.kill()
            self._process.ended(_END_SECONDS)
            # Until it is reaped, its group and session are no other's.
            end_strays(self.pid)
            self._process.wait(0)
            self._over = True
            _workers.discard(self)
            self._drain.join(timeout=5)
            self._process.stdin.close()
            self._process.stdout.close()
            # A descriptor that is still read must not become another file's.
            if not self._drain.is_alive():
                self._process.stderr.close()

    def finish(self, seconds: float) -> bool:
        """End its requests, after which it ends by itself; whether it does so in time."""
        self._process.stdin.close()
        return self._process.ended(seconds)

    def pause(self) -> None:
        """Stop all its threads, so that an idle worker cannot use the device."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.signal(signal.SIGCONT)

    def ask(self, operation: str, timeout: float, **fields: object) -> dict[str, Any]:
        """One request and its answer; `timeout` in seconds for both.

        Raises Rejected for a dead, silent, flooding or forging worker, Fault where the runtime refused, Stopped.
        """
        deadline = time.monotonic() + timeout
        self.send(operation, timeout, **fields)
        return self._receive(deadline, timeout)

    def send(self, operation: str, timeout: float = SEND_SECONDS, **fields: object) -> None:
        """The first half of `ask`. Raises Rejected where the worker is gone or does not read, Stopped."""
        deadline = time.monotonic() + timeout
        self._nonce = secrets.token_hex(8)
        request = {"op": operation, "nonce": self._nonce, **fields}
        line = memoryview(json.dumps(request).encode() + b"\n")
        descriptor = self._process.stdin.fileno()
        while line:
            self._wait(descriptor, select.POLLOUT, deadline, f"a request not read within {timeout:.3g} s")
            try:
                line = line[os.write(descriptor, line) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._death() from None

    def receive(self, timeout: float) -> dict[str, Any]:
        """The second half of `ask`."""
        return self._receive(time.monotonic() + timeout, timeout)

    def _receive(self, deadline: float, timeout: float) -> dict[str, Any]:
        line = self._line(deadline, f"no answer within {timeout:.3g} s")
        try:
            answer = json.loads(line)
            if b"\\u" in line:
                # Half a surrogate pair is no text: it could not be written into a verdict.
                answer = json.loads(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))
        except (ValueError, RecursionError):
            raise self._forged("an answer that is not JSON") from None
        if not isinstance(answer, dict) or answer.get("nonce") != self._nonce:
            raise self._forged("an answer to no question")
        if "fault" in answer:
            kind, text = answer["fault"], answer.get("text", "")
            if kind not in _FAULTS or not isinstance(text, str):
                raise self._forged("a fault that is none")
            raise Fault(kind, text)
        return answer

    def _line(self, deadline: float, late: str) -> bytes:
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_ANSWER_BYTES:
                raise self._forged("an answer without end")
            self._wait(descriptor, select.POLLIN, deadline, late)
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise self._death()
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        if self._buffer:
            raise self._forged("more than one answer to a question")
        return line

    def _wait(self, descriptor: int, event: int, deadline: float, late: str) -> None:
        """Until a pipe is ready or broken. Raises Rejected (a timeout, with the reason `late`) or as `_death`."""
        poll = select.poll()
        poll.register(descriptor, event)
        while True:
            left = deadline - time.monotonic()
            if left > 0 and poll.poll(min(left, _LONGEST_WAIT) * 1e3):
                return
            # A stray can hold the pipes of a worker that has ended.
            if self._flooded or _stopping or self._process.ended(0):
                raise self._death()
            if left <= 0:
                self.kill()
                raise Rejected(Status.TIMEOUT, late, self.printed)

    def _forged(self, what: str) -> Rejected:
        self.kill()
        return Rejected(Status.TAMPERING, f"the worker gave {what}", self.printed)

    def _death(self) -> Rejected | Stopped:
        """How it ended. What we killed it for is told before the signal."""
        # Its streams are closed, so it is dying by itself; a moment later its own status is known.
        ended = self._process.ended(0 if self._flooded or _stopping else _DYING_SECONDS)
        self.kill()
        status = self._process.wait(0)
        if _stopping:
            return Stopped("the worker was stopped with its gate")
        if self._flooded:
            return Rejected(Status.RESOURCE_LIMIT, f"printed more than {MAX_PRINTED_BYTES >> 20} MiB", self.printed)
        if not ended or status is None:
            return Rejected(Status.TAMPERING, "the worker closed its pipes and lived on", self.printed)
        if status == -signal.SIGKILL:
            reason = "the process was killed: it asked for more memory than it may have, or killed itself"
            return Rejected(Status.OUT_OF_MEMORY, reason, self.printed)
        if status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
            return Rejected(Status.CRASH, f"the process died of {name}", self.printed)
        return Rejected(Status.CRASH, f"the process ended by itself with status {status}", self.printed)

    def _drain_printed(self) -> None:
        descriptor = self._process.stderr.fileno()
        while True:
            try:
                chunk = os.read(descriptor, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            self._printed_bytes += len(chunk)
            self._printed += chunk[: _KEPT_BYTES - len(self._printed)]
            if self._printed_bytes > MAX_PRINTED_BYTES:
                self._flooded = True
                self._process.kill()
                return


_workers: set[Worker] = set()
_stopping = False


def kill_all() -> None:
    """Kill every live worker of this process, and start no more: the process is ending.

    Whoever waits for one gets Stopped, and leaves its contexts. May be called from a signal's handler.
    """
    global _stopping
    _stopping = True
    for worker in tuple(_workers):
        worker._process.kill()


def field(answer: object, name: str, kind: type[T]) -> T:
    """One field of an answer, or of an object within it. Raises Rejected (tampering) where it is missing or no `kind`.

    A whole number has 63 bits at the most; a float may be written as one.
    """
    value = answer.get(name) if isinstance(answer, dict) else None
    return _checked(value, name, kind)


def items(answer: object, name: str, kind: type[T]) -> tuple[T, ...]:
    """A list of an answer, all of whose elements are a `kind`. Raises Rejected (tampering)."""
    return tuple(_checked(value, name, kind) for value in field(answer, name, list))


def _checked(value: object, name: str, kind: type[T]) -> T:
    if isinstance(value, int):
        fits = not isinstance(value, bool) and -(2**63) <= value < 2**63
        value = float(value) if fits and kind is float else value if fits else None
    if not isinstance(value, kind):
        raise Rejected(Status.TAMPERING, f"the worker gave no proper {name!r}")
    return value


def check_seconds(answer: dict[str, Any], count: int) -> list[float]:
    """The times of a `run` answer. Raises Rejected (tampering) where they are not `count` possible times."""
    seconds: Sequence[object] = answer.get("seconds", ())
    if not isinstance(seconds, list) or len(seconds) != count:
        raise Rejected(Status.TAMPERING, "the worker gave times that were not asked for")
    numbers = [value for value in seconds if isinstance(value, int | float) and not isinstance(value, bool)]
    # Before they become floats: an int may be too large for one.
    if len(numbers) != count or not all(_SHORTEST <= value < _LONGEST for value in numbers):
        raise Rejected(Status.TAMPERING, "the worker gave times that are no times")
    return [float(value) for value in numbers]
