"""Shared pages: one file in memory that holds every buffer of a run, with guard zones between them.

The parent reads and writes through `pread` and `pwrite` only: a worker that truncates the file then gives a short
read here, not a SIGBUS. Whatever is judged is the parent's own copy of the bytes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.gate import folders

GUARD_BYTES = 64 * 1024
_ALIGN = 4096

Bytes = NDArray[np.uint8]


class PagesError(Exception):
    """The pages cannot be made or written; one line."""


class PagesCut(Exception):
    """Somebody made the file shorter."""


@dataclass(frozen=True)
class Layout:
    """Where each buffer starts, and its length; guard zones fill everything between."""

    spans: Mapping[str, tuple[int, int]]
    """Name to (offset, bytes)."""
    nbytes: int

    @property
    def guards(self) -> tuple[tuple[int, int], ...]:
        """(offset, bytes) of the zones, in order: before, between and behind the buffers."""
        zones, at = [], 0
        for offset, nbytes in sorted(self.spans.values()):
            zones.append((at, offset - at))
            at = offset + nbytes
        return (*zones, (at, self.nbytes - at))


def layout(sizes: Mapping[str, int], guard: int = GUARD_BYTES, offsets: Mapping[str, int] | None = None) -> Layout:
    """Buffers in the given order, page-aligned, with at least `guard` bytes on both sides; sizes in bytes.

    `offsets` has those that start so many bytes behind their aligned place.
    """
    spans, at = {}, guard
    for name, nbytes in sizes.items():
        start = at + (offsets or {}).get(name, 0)
        spans[name] = (start, nbytes)
        at = -(-(start + nbytes + guard) // _ALIGN) * _ALIGN
    return Layout(spans, at)


class Pages:
    """A file of `nbytes` in /dev/shm where it fits, else in the temporary folder. Use as a context manager."""

    def __init__(self, nbytes: int, guard_seed: int) -> None:
        self.nbytes = nbytes
        with contextlib.ExitStack() as made:
            try:
                self._folder = folders.scratch_folder("pages", _memory_folder(nbytes))
                made.callback(folders.remove, self._folder)
                self.path = self._folder / "pages"
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                made.callback(os.close, self._descriptor)
                os.truncate(self._descriptor, nbytes)
            except OSError as error:
                raise PagesError(_cannot_make(nbytes, os.strerror(error.errno or 0))) from None
            except OverflowError:
                raise PagesError(_cannot_make(nbytes, "more than a file can have")) from None
            self._made = made.pop_all()
        self._pattern = np.random.default_rng(guard_seed).integers(0, 256, 4 * GUARD_BYTES, np.uint8)

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def resize(self, nbytes: int) -> None:
        """Make the file so long. Raises PagesError, also where pages of that size would lie in another folder."""
        if (_memory_folder(nbytes) or Path(tempfile.gettempdir())) != self._folder.parent:
            raise PagesError(_cannot_make(nbytes, "no room"))
        try:
            os.truncate(self._descriptor, nbytes)
        except OSError as error:
            raise PagesError(_cannot_make(nbytes, os.strerror(error.errno or 0))) from None
        self.nbytes = nbytes

    def write(self, offset: int, data: NDArray[np.generic]) -> None:
        """Copy an array in."""
        view = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
        while view:
            try:
                written = os.pwrite(self._descriptor, view, offset)
            except OSError as error:
                raise PagesError(f"cannot write shared pages: {os.strerror(error.errno or 0)}") from None
            view, offset = view[written:], offset + written

    def read(self, offset: int, nbytes: int) -> Bytes:
        """Copy bytes out. Raises PagesCut where the file has become shorter."""
        data = np.empty(nbytes, np.uint8)
        at = 0
        while at < nbytes:
            got = os.preadv(self._descriptor, [data.data[at:]], offset + at)
            if got == 0:
                raise PagesCut("the shared pages were cut short")
            at += got
        return data

    def arm(self, zones: Sequence[tuple[int, int]]) -> None:
        """Fill guard zones with this run's secret pattern."""
        for offset, nbytes in zones:
            self.write(offset, self._expected(offset, nbytes))

    def breached(self, zones: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """The first changed byte in a guard zone, as (zone's number, offset within it), or None."""
        for number, (offset, nbytes) in enumerate(zones):
            differs = self.read(offset, nbytes) != self._expected(offset, nbytes)
            if differs.any():
                return number, int(np.argmax(differs))
        return None

    def _expected(self, offset: int, nbytes: int) -> Bytes:
        turned = np.roll(self._pattern, -(offset % self._pattern.size))
        return np.resize(turned, nbytes)


def _cannot_make(nbytes: int, why: str) -> str:
    return f"cannot make {nbytes} bytes of shared pages: {why}"


def _memory_folder(nbytes: int) -> Path | None:
    try:
        room = os.statvfs(folders.SHARED_MEMORY)
    except OSError:
        return None
    free = room.f_bavail * room.f_frsize
    return folders.SHARED_MEMORY if free > 2 * nbytes and os.access(folders.SHARED_MEMORY, os.W_OK) else None
