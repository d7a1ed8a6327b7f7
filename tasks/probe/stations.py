"""Stations: worker processes with one kernel built in them, where shapes are tried one after another.

After a verdict that may have hurt the process the next shape gets a fresh one. Once that has happened others are
started ahead, since a kernel that crashed once will crash again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol, Self

from experts.kernel import Kernel
from experts.platform import Platform
from experts.verdict import Isolation, Status
from tasks.gate import surfaces
from tasks.gate.correctness import Checker, Tried
from tasks.gate.device import Artifact, DeviceProcess
from tasks.gate.launches import Limits
from tasks.gate.pages import Pages
from tasks.gate.pool import Pool
from tasks.gate.runner import HarnessFault
from tasks.gate.workers import Rejected

SPARES = 2
HARMLESS = frozenset((Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT))
"""The call ended, and guard zones and inputs are as they were."""
_TRACELESS = frozenset((Status.OUT_OF_BOUNDS, Status.INPUT_MUTATED, Status.RACE))
"""Seen in what this call did, whatever was in the process before."""
_TRIES = 2


class Station(Protocol):
    """One worker with the kernel in it."""

    def check(self, item: Tried) -> float:
        """Judged calls: their largest error, as a share of its bound. Raises Rejected."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Binary:
    """What a kernel was compiled to, for all its stations.

    The runtime makes machine code at the first launch, which takes most of a small shape's time. What the first shape
    that passed left of it goes to later stations. By then the candidate may have written it; but only a worker of the
    same kernel gets it, where the candidate could do as it likes with its code anyway.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self._final = False

    def learn(self, process: DeviceProcess) -> None:
        """Take what is compiled by now, once."""
        if not self._final:
            self.artifact = replace(self.artifact, files=process.compiled() or self.artifact.files)
            self._final = True


class NativeStation:
    """On the platform's own device. Raises Rejected where the kernel does not build."""

    def __init__(
        self,
        kernel: Kernel,
        binary: Binary,
        nbytes: int,
        pool: Pool,
        limits: Limits,
        platform: Platform,
        isolation: Isolation | None,
        timeout: float,
    ) -> None:
        with ExitStack() as made:
            pages = made.enter_context(Pages(nbytes, pool.seed()))
            process = made.enter_context(surfaces.process(platform, pages, isolation))
            process.device()
            process.build(kernel, binary.artifact)
            process.open_pages()
            self._made = made.pop_all()
        self._checker = Checker(kernel, process, pages, pool, limits, platform.warp)
        self._process, self._binary, self._timeout = process, binary, timeout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def check(self, item: Tried) -> float:
        error = self._checker.judged(item, self._timeout)
        self._binary.learn(self._process)
        return error


class Unbuilt(Exception):
    """No station can be started with this kernel; `cause` says why."""

    def __init__(self, cause: Rejected) -> None:
        super().__init__(cause.reason)
        self.cause = cause


class Line:
    """The station in use and those that start. Use as a context manager, from one thread."""

    def __init__(self, start: Callable[[], Station], shapes: int) -> None:
        """`shapes` is how many will be tried: no more stations than that are started."""
        self._start = start
        self._left = shapes
        self._made = ExitStack()
        # Without a sandbox a worker ends with the thread that started it: these threads stay.
        self._threads = self._made.enter_context(ThreadPoolExecutor(SPARES))
        self._starting: deque[Future[Station]] = deque()
        self._station: Station | None = None
        self._hurt = False
        self._doubtful = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
            for future in self._starting:
                if not future.cancel() and future.exception() is None:
                    future.result().__exit__(None, None, None)
        finally:
            self._made.close()

    def check(self, items: Sequence[Tried]) -> float:
        """All items of one shape: the largest error. Raises Rejected at the first fault, Unbuilt, HarnessFault.

        A death in a process that another fault may have spoilt does not count: the shape is tried in a fresh one.
        """
        self._left -= 1
        for tries_left in reversed(range(_TRIES)):
            doubtful = self._doubtful
            try:
                return self._checked(items)
            except Rejected as fault:
                if fault.status is Status.HARNESS_ERROR:
                    if not tries_left:
                        raise HarnessFault(fault.reason) from None
                elif not (doubtful and tries_left) or fault.status in HARMLESS | _TRACELESS:
                    raise
        raise AssertionError("the last try returns or raises")

    def _checked(self, items: Sequence[Tried]) -> float:
        station = self._ready()
        try:
            return max(station.check(item) for item in items)
        except Rejected as fault:
            if fault.status in HARMLESS:
                self._doubtful = True
            else:
                self._hurt = True
                self._end()
            raise

    def _ready(self) -> Station:
        if self._station is None:
            try:
                self._station = (self._starting.popleft() if self._starting else self._submit()).result()
            except Rejected as fault:
                raise (fault if fault.status is Status.HARNESS_ERROR else Unbuilt(fault)) from None
            self._doubtful = False
        while self._hurt and len(self._starting) < min(SPARES, self._left):
            self._starting.append(self._submit())
        return self._station

    def _submit(self) -> Future[Station]:
        return self._threads.submit(self._start)

    def _end(self) -> None:
        if self._station is not None:
            self._station.__exit__(None, None, None)
            self._station = None
        self._doubtful = False
