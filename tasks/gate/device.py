"""Devices behind the gate: what they say of themselves, what is compiled for them, and a worker that drives one.

One subclass of `DeviceProcess` for each surface; everything that a worker answers is checked here, at the edge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as declared
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from experts.kernel import Kernel
from experts.verdict import CompileFacts, Isolation, Status
from tasks.gate import folders
from tasks.gate.launches import Limits, Plan
from tasks.gate.pages import Layout, Pages
from tasks.gate.sandbox import Grant
from tasks.gate.workers import Fault, Rejected, Script, Worker, field, items

START_SECONDS = 30.0
COMPILE_SECONDS = 60.0


class DeviceMissing(Exception):
    """A device cannot be used here; one line with the remedy."""


@dataclass(frozen=True)
class Device:
    """What the runtime says of itself before any candidate is in the process."""

    limits: Limits
    facts: Mapping[str, str]
    """For the environment: name, driver, runtime."""


@dataclass(frozen=True)
class Entry:
    """A kernel function as compiled: for each argument its type and address space, and static memory in bytes.

    CUDA keeps no types in what it compiles: there a type is a size, `8 bytes`, and the space is `param`.
    """

    arguments: tuple[tuple[str, str], ...]
    local_bytes: int
    private_bytes: int
    group: tuple[int, ...] = (0, 0, 0)
    """reqd_work_group_size, or zeros."""
    cluster: tuple[int, ...] = (0, 0, 0)
    """__cluster_dims__, or zeros."""


@dataclass(frozen=True)
class Artifact:
    """A lowered kernel: compiled files by relative path, its entries, the compiler's figures and what it said."""

    files: Mapping[str, bytes] = declared(repr=False)
    entries: Mapping[str, Entry]
    facts: CompileFacts
    log: str


class DeviceProcess(ABC):
    """A worker with one device open. Use as a context manager.

    Subclasses say which script runs, what it may touch, and what its words mean.
    """

    joint = False
    """Whether two kernels that are timed against each other share this process, since neither can touch the host."""
    warm_seconds = 1.0
    """Most that calls before the first sample may take, by the parent's clock."""

    def __init__(
        self,
        script: Script,
        grant: Grant,
        pages: Pages | None,
        isolation: Isolation | None,
        opening: Mapping[str, Any],
        *,
        spare: bool = False,
    ) -> None:
        """`spare` leaves the device for `open` to be opened."""
        self._folder, self._pages = grant.scratch, pages
        self._device: Device | None = None
        try:
            self.worker = Worker(grant, isolation, script)
        except BaseException:
            folders.remove(self._folder)
            raise
        self._opening = opening
        if not spare:
            try:
                self.open()
            except BaseException:
                self.__exit__(None, None, None)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.worker.kill()
        finally:
            folders.remove(self._folder)

    @property
    def scratch(self) -> Path:
        """The worker's own folder; what is in it is the candidate's to write."""
        return self._folder

    def open(self) -> None:
        """Have the device opened; `device` waits for it. Raises Rejected where the worker has ended."""
        self.worker.send("device", **self._opening)

    def device(self) -> Device:
        """Wait for the device to open. Raises DeviceMissing: no candidate is in the process yet."""
        if self._device is None:
            self._device = self._wait()
        return self._device

    def _wait(self) -> Device:
        try:
            return self._opened(self.worker.receive(START_SECONDS))
        except Fault as fault:
            raise DeviceMissing(f"{fault.text}; run klineage doctor") from None
        except Rejected as death:
            last = death.log.strip().splitlines()[-1:] or [""]
            reason = f"the device does not open ({death.reason}; {last[0]}); run klineage doctor"
            raise DeviceMissing(reason) from None

    @abstractmethod
    def build(self, kernel: Kernel, artifact: Artifact | None = None) -> None:
        """Make a kernel ready to be bound: from what `lower` compiled, where it is given. Raises Rejected."""

    def compiled(self) -> dict[str, bytes]:
        """What the runtime compiled further by now; nothing where `lower` left it no more to do."""
        return {}

    def open_pages(self) -> None:
        """Map the shared pages."""
        assert self._pages is not None
        self.worker.ask("pages", START_SECONDS, path=str(self._pages.path), nbytes=self._pages.nbytes)

    def bind(self, name: str, kernel: Kernel, plan: Plan, layout: Layout) -> None:
        """Make buffers, kernels and arguments for one shape, under a name for `run`. Raises Rejected."""
        self._ask(
            "bind",
            START_SECONDS,
            plan=name,
            kernel=kernel.kernel_id,
            buffers={key: list(span) for key, span in layout.spans.items()},
            launches=self._wired(plan),
            zero=list(plan.zero),
            maps={each.name: each.wire() for each in plan.maps},
        )

    def overhead(self) -> float | None:
        """Seconds that are measured of a command that does next to nothing; None where nobody asks."""
        return None

    def drop(self) -> None:
        """Forget all plans."""
        self._ask("drop", START_SECONDS)

    def run(self, names: Sequence[str], timeout: float, extent: int | None = None) -> dict[str, Any]:
        """Run plans one after another, each to its end; `timeout` in seconds for all. Raises Rejected.

        `extent` is how many bytes of the pages matter, all by default, for a device with memory of its own.
        """
        assert self._pages is not None
        return self._ask("run", timeout, plans=list(names), extent=extent or self._pages.nbytes)

    def _opened(self, answer: dict[str, Any]) -> Device:
        """The device from its answer. Raises Rejected where the answer is none."""
        limits = Limits(
            compute_units=field(answer, "compute_units", int),
            max_group=field(answer, "max_group", int),
            max_items=items(answer, "max_items", int),
            local_bytes=field(answer, "local_bytes", int),
            alloc_bytes=field(answer, "alloc_bytes", int),
        )
        return Device(limits, {key: field(answer, key, str) for key in ("name", "version", "driver", "runtime")})

    @abstractmethod
    def _wired(self, plan: Plan) -> list[dict[str, object]]:
        """The launches as the worker's script takes them."""

    def _ask(self, operation: str, timeout: float, **fields: object) -> dict[str, Any]:
        try:
            return self.worker.ask(operation, timeout, **fields)
        except Fault as fault:
            status = _STATUS_OF_FAULT.get(fault.kind, Status.LAUNCH_ERROR)
            raise Rejected(status, " ".join(fault.text.split())[:200], self.worker.printed) from None


@contextmanager
def compiling() -> Iterator[None]:
    """What goes wrong in a compiler, in this block, as a Rejected. The compiler's own words are the caller's."""
    try:
        yield
    except Fault as fault:
        if fault.kind == "memory":
            raise Rejected(Status.OUT_OF_MEMORY, "the compiler ran out of memory", fault.text) from None
        raise Rejected(Status.HARNESS_ERROR, f"the runtime refused a query: {fault.text}") from None
    except Rejected as death:
        if death.status is Status.CRASH:
            raise Rejected(Status.COMPILE_ERROR, f"the compiler crashed: {death.reason}", death.log) from None
        if death.status is Status.TIMEOUT:
            raise Rejected(Status.TIMEOUT, f"not compiled within {COMPILE_SECONDS:.0f} s", death.log) from None
        raise


_STATUS_OF_FAULT = {"memory": Status.OUT_OF_MEMORY, "worker": Status.HARNESS_ERROR}
