"""The parent's end of a worker: requests, deadlines, output caps, and how it died.

Nothing that a worker says decides a verdict by itself: an answer must carry the request's nonce, arrive in time and
be of the shape that was asked for, else it counts as tampering.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experts.verdict import Isolation, Status
from tasks.gate.sandbox import Grant, start

MAX_ANSWER_BYTES = 4 << 20
MAX_PRINTED_BYTES = 1 << 20
_KEPT_BYTES = 16 * 1024
_WORKER = Path(__file__).with_name("worker.py")


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


class Worker:
    """One worker process. Use as a context manager: leaving it kills the process group."""

    def __init__(self, grant: Grant, isolation: Isolation | None = None) -> None:
        command = [sys.executable, "-I", "-B", str(_WORKER)]
        readable = (*grant.readable, _WORKER)
        held = Grant(grant.scratch, grant.pages, readable, grant.environment, grant.memory_bytes)
        self._process = start(command, held, isolation)
        self._buffer = b""
        self._printed = bytearray()
        self._printed_bytes = 0
        self._flooded = False
        self._over = False
        self._drain = threading.Thread(target=self._drain_printed, daemon=True)
        self._drain.start()

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
        """End it, whatever it does."""
        if not self._over:
            self._over = True
            self._process.kill()
            self._process.wait()
            self._drain.join(timeout=5)
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()

    def pause(self) -> None:
        """Stop all its threads, so that an idle worker cannot use the device."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def ask(self, operation: str, timeout: float, **fields: object) -> dict[str, Any]:
        """One request and its answer; `timeout` in seconds.

        Raises Rejected for a dead, silent, flooding or forging worker, Fault where the runtime refused.
        """
        self.send(operation, **fields)
        return self.receive(timeout)

    def send(self, operation: str, **fields: object) -> None:
        """The first half of `ask`. Raises Rejected where the worker is gone."""
        self._nonce = secrets.token_hex(8)
        line = json.dumps({"op": operation, "nonce": self._nonce, **fields}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._death() from None

    def receive(self, timeout: float) -> dict[str, Any]:
        """The second half of `ask`."""
        deadline = time.monotonic() + timeout
        line = self._line(deadline, timeout)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            raise self._forged("an answer that is not JSON") from None
        if not isinstance(answer, dict) or answer.get("nonce") != self._nonce:
            raise self._forged("an answer to no question")
        if "fault" in answer:
            raise Fault(str(answer["fault"]), str(answer.get("text", "")))
        return answer

    def _line(self, deadline: float, timeout: float) -> bytes:
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_ANSWER_BYTES:
                raise self._forged("an answer without end")
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([descriptor], [], [], min(left, 0.25))[0]
            if ready:
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    raise self._death()
                self._buffer += chunk
            elif self._flooded:
                raise self._death()
            elif left <= 0:
                self.kill()
                raise Rejected(Status.TIMEOUT, f"no answer within {timeout:.3g} s", self.printed)
        line, _, self._buffer = self._buffer.partition(b"\n")
        if self._buffer:
            raise self._forged("more than one answer to a question")
        return line

    def _forged(self, what: str) -> Rejected:
        self.kill()
        return Rejected(Status.TAMPERING, f"the worker gave {what}", self.printed)

    def _death(self) -> Rejected:
        """How it ended. A flood is told before a signal: the flood is why it was killed."""
        if not self._flooded:
            # Its streams are closed, so it is dying by itself; a moment later its own status is known.
            timer = threading.Timer(2.0, self._process.kill)
            timer.start()
            status = self._process.wait()
            timer.cancel()
        self.kill()
        if self._flooded:
            return Rejected(Status.RESOURCE_LIMIT, f"printed more than {MAX_PRINTED_BYTES >> 20} MiB", self.printed)
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


def check_seconds(answer: dict[str, Any], count: int) -> list[float]:
    """The times of a `run` answer. Raises Rejected (tampering) where they are not `count` positive numbers."""
    seconds: Sequence[object] = answer.get("seconds", ())
    if not isinstance(seconds, list) or len(seconds) != count:
        raise Rejected(Status.TAMPERING, "the worker gave times that were not asked for")
    times = [float(value) for value in seconds if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(times) != count or not all(0 < value < 1e6 for value in times):
        raise Rejected(Status.TAMPERING, "the worker gave times that are no times")
    return times
