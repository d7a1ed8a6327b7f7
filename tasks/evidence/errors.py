"""What goes wrong with the store.

StoreError            a root cannot be read or written; what was stored before is still there
  PromotionRefused    rows that may not be shipped, with the reason for each
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

_REASONS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the limit on file size is reached",
    errno.ENOTDIR: "a file stands where a folder should be",
    errno.EEXIST: "a file stands where a folder should be",
    errno.EIO: "the device failed",
    errno.EMFILE: "too many open files",
    errno.ENOENT: "a folder of it was removed",
}


class StoreError(Exception):
    """The evidence cannot be read or kept; the message is one line without a path."""


class PromotionRefused(StoreError):
    """Rows that may not be shipped; `reasons` has a line for each."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        super().__init__(f"not promoted: {reasons[0]}{more}")
        self.reasons = reasons


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn an OSError into a StoreError that says what could not be done, and why, without its path."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"error {errno.errorcode.get(error.errno or 0, 'unknown')}")
        raise StoreError(f"evidence store: cannot {doing}: {reason}") from error
