"""Trials as Prefect task runs: one for each gate, named for kernel and step; states say Accepted or Rejected."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from flows.artifacts import keep_step
from tasks.trials import Desk, Trial, Tried
from tasks.walk.walk import Pending

Listener = Callable[[Tried], None]
LISTENER: ContextVar[Listener | None] = ContextVar("LISTENER", default=None)
"""Told of each trial as it ends, in the thread that ran it; the command line sets it."""
RUNNER: Any = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 2)


class GateTasks:
    """Runs trials as Prefect tasks; futures of earlier trials become edges of the run graph."""

    def __init__(self, name: str, desk: Desk) -> None:
        self._name, self._desk = name, desk
        self._listener = LISTENER.get()

    def __call__(self, trial: Trial, after: Sequence[Pending] = ()) -> Pending:
        edit = trial.edit.record() if trial.edit else None
        return _pending(
            self._task(trial).submit(
                step=trial.label,
                purpose=trial.purpose,
                edit=edit,
                kernel_id=trial.kernel.kernel_id,
                baseline_id=trial.baseline.kernel_id if trial.baseline else None,
                wait_for=[each for each in after if isinstance(each, PrefectFuture)],
            )
        )

    def _task(self, trial: Trial) -> Any:
        # The trial travels in the closure: Prefect looks through every parameter, and shows them.
        @task(
            name="gate",
            task_run_name=f"{self._name}/{trial.label}",
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=0,
        )
        def gate_step(
            step: str, purpose: str, edit: dict[str, Any] | None, kernel_id: str, baseline_id: str | None
        ) -> State[Tried]:
            tried = self._desk.try_out(trial)
            if self._listener is not None:
                self._listener(tried)
            keep_step(self._name, tried)
            state = "Accepted" if tried.accepted else "Rejected"
            return Completed(name=state, message=tried.told, data=tried)

        return gate_step


def _pending(future: Any) -> Pending:
    found: Pending = future
    return found
