"""Device workers that have started before they are asked for: booting takes as long as a small kernel's whole gate.

Only a process that gates a second kernel keeps some: it is likely to gate a third. A spare has loaded what it needs and
has no context yet, so that it does not disturb what is timed. It serves one kernel in one gate, as any worker.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import ExitStack

from experts.verdict import Isolation
from tasks.gate import sandbox
from tasks.gate.cuda.process import CudaProcess
from tasks.gate.pages import Pages, PagesError
from tasks.gate.workers import Rejected

MOST = 3
"""What one gate takes: two kernels are checked and timed together."""


class Spare:
    """A worker, and pages of no length yet that it may map."""

    def __init__(self, isolation: Isolation, seed: int) -> None:
        self.isolation = isolation
        with ExitStack() as made:
            self.pages = made.enter_context(Pages(0, seed))
            self.process = made.enter_context(CudaProcess(self.pages, isolation, spare=True))
            self._made = made.pop_all()

    def close(self) -> None:
        """End it."""
        self._made.close()


_lock = threading.Lock()
_spares: list[Spare] = []
_taken = 0
_refills = 0


def take(nbytes: int, isolation: Isolation | None) -> Spare | None:
    """A spare whose pages have so many bytes now; None where there is none."""
    global _taken
    wanted = isolation or sandbox.isolation()
    with _lock:
        _taken += 1
        found = next((spare for spare in _spares if spare.isolation == wanted), None)
        if found is None:
            return None
        _spares.remove(found)
    try:
        found.pages.resize(nbytes)
        found.process.open()
        return found
    except (PagesError, Rejected):
        found.close()
        return None


def refill(seed: int, isolation: Isolation | None) -> None:
    """Start as many as were asked for since the last call, if there was one. Raises SandboxUnavailable, PagesError."""
    global _taken, _refills
    wanted = isolation or sandbox.isolation()
    with _lock:
        missing = min(_taken, MOST) - len(_spares) if _refills else 0
        _taken, _refills = 0, _refills + 1
    for number in range(missing):
        spare = Spare(wanted, seed + number)
        with _lock:
            _spares.append(spare)


@atexit.register
def close() -> None:
    """End all."""
    with _lock:
        ended, _spares[:] = tuple(_spares), []
    for spare in ended:
        spare.close()
