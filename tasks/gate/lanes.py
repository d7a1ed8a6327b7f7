"""A kernel on its way through timing, and whose fault it is when that ends early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from experts.kernel import Kernel
from experts.verdict import Status
from tasks.gate.device import DeviceProcess
from tasks.gate.launches import Plan
from tasks.gate.pages import PagesCut
from tasks.gate.workers import Rejected


@dataclass
class Lane:
    """One verified kernel on its way through timing."""

    label: str
    process: DeviceProcess
    kernel: Kernel
    plan: Plan
    samples: list[float] = field(default_factory=list)
    """Seconds of one call: the lower quartile of each sample's calls, since waiting for a thread only adds time."""
    reported: list[float] = field(default_factory=list)
    """Seconds of all calls of a sample, by the worker's word."""
    elapsed: list[float] = field(default_factory=list)
    """Seconds of the request, by the parent's clock."""

    def name(self, slot: int) -> str:
        """What its plan for this slot is called; lanes may share a process."""
        return f"{self.label}:{slot}"

    def pause(self) -> None:
        """While it is idle it must not use the device; one process for both lanes is never idle."""
        if not self.process.joint:
            self.process.worker.pause()

    def resume(self) -> None:
        if not self.process.joint:
            self.process.worker.resume()


class LaneFault(Exception):
    """Which of the kernels a rejection during timing belongs to."""

    def __init__(self, lane: Lane, cause: Rejected) -> None:
        super().__init__(cause.reason)
        self.lane, self.cause = lane, cause


@contextmanager
def blame(lane: Lane) -> Iterator[None]:
    """Turns a Rejected inside the block into a LaneFault of this lane."""
    try:
        yield
    except Rejected as fault:
        raise LaneFault(lane, fault) from None
    except PagesCut as cut:
        raise LaneFault(lane, Rejected(Status.TAMPERING, str(cut))) from None
