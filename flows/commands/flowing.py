"""What the commands share that call a flow: quiet Prefect, and faults as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from experts.case import CaseError
from experts.kernel import KernelError
from experts.platform import PlatformError
from flows.commands.failure import Failure
from flows.display import WalkProgress
from flows.jobs import BadRequest
from skill_library.ladder import LadderError
from skill_library.store import LibraryError
from tasks.evidence import StoreError
from tasks.gate.lock import LockError
from tasks.gate.runner import GateUnavailable, HarnessFault
from tasks.runs import Busy

_QUIET = {
    # What the flow and a server of its own have to say is in the UI.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Read by Prefect when it is imported; a user's own settings stand."""


def not_valid(file: str, what: str, fault: Exception) -> None:
    """Say on stderr that a kernel is not valid: a verdict, and no failure."""
    told = f"invalid_kernel at parse: {fault}" if isinstance(fault, KernelError) else str(fault)
    sys.stderr.write(f"klineage: {file}: the {what} is not valid: {told}\n")


def quiet() -> None:
    """Call before Prefect is imported."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)


def waiting() -> str:
    """What a flow waits for before it starts."""
    if "prefect" in sys.modules:
        return "starting the flow"
    return "starting Prefect (the first time on a machine it sets up its database: up to 20 s)"


@contextmanager
def watched() -> Iterator[WalkProgress]:
    """Progress on stderr, told of each trial as it ends; flows are imported inside."""
    quiet()
    with WalkProgress() as progress:
        progress.note(waiting())
        from flows.gating import LISTENER

        token = LISTENER.set(progress)
        try:
            yield progress
        finally:
            LISTENER.reset(token)


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Turn what a run cannot go on from into a Failure; `what` is the file that a nameless OSError is about."""
    try:
        yield
    except (
        BadRequest,
        CaseError,
        PlatformError,
        GateUnavailable,
        StoreError,
        LibraryError,
        LadderError,
        LockError,
        Busy,
        HarnessFault,
    ) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{error.filename or what}: {error.strerror or error}") from None
