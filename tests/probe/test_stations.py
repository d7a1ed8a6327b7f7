"""Which process a shape is tried in: with stations that are none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

import pytest

from experts.verdict import Status
from tasks.gate.correctness import Tried
from tasks.gate.runner import HarnessFault
from tasks.gate.workers import Rejected
from tasks.probe.stations import SPARES, Line, Unbuilt
from tests.probe.kernels import case

ITEM = Tried(case(), "normal")


class Plant:
    """Starts stations that answer as told: by the station's number and how many shapes it had."""

    def __init__(self, answer: Callable[[int, int], Status | None]) -> None:
        self.answer = answer
        self.started = self.ended = 0
        self.calls: list[int] = []
        self.guard = threading.Lock()

    def __call__(self) -> _Station:
        with self.guard:
            self.started += 1
            return _Station(self, self.started - 1)


class _Station:
    def __init__(self, plant: Plant, number: int) -> None:
        self.plant, self.number, self.had = plant, number, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.plant.ended += 1

    def check(self, item: Tried) -> float:
        self.plant.calls.append(self.number)
        self.had += 1
        status = self.plant.answer(len(self.plant.calls) - 1, self.had - 1)
        if status is not None:
            raise Rejected(status, str(status))
        return 0.5


def _tried(plant: Plant, shapes: int) -> list[Status]:
    found = []
    with Line(plant, shapes) as line:
        for _ in range(shapes):
            try:
                assert line.check([ITEM]) == 0.5
                found.append(Status.OK)
            except Rejected as fault:
                found.append(fault.status)
    assert plant.ended == plant.started
    return found


def test_one_process_serves_as_long_as_nothing_hurts_it() -> None:
    bad = {1: Status.WRONG_VALUE, 3: Status.UNWRITTEN_OUTPUT}
    plant = Plant(lambda call, had: bad.get(call))
    assert _tried(plant, 6) == ["ok", "wrong_value", "ok", "unwritten_output", "ok", "ok"]
    assert plant.started == 1 and set(plant.calls) == {0}


@pytest.mark.parametrize("status", [Status.CRASH, Status.OUT_OF_BOUNDS, Status.TIMEOUT, Status.INPUT_MUTATED])
def test_the_next_shape_gets_a_fresh_process(status: Status) -> None:
    plant = Plant(lambda call, had: status if call in (1, 2) else None)
    assert _tried(plant, 6) == ["ok", status, status, "ok", "ok", "ok"]
    first, second, third = plant.calls[0], plant.calls[2], plant.calls[3]
    assert len({first, second, third}) == 3 and plant.calls == [first, first, second, third, third, third]
    assert plant.started <= 3 + SPARES


def test_no_more_are_started_ahead_than_there_are_shapes() -> None:
    plant = Plant(lambda call, had: Status.CRASH)
    assert _tried(plant, 5) == ["crash"] * 5
    assert plant.started == 5


def test_a_death_after_a_wrong_value_is_looked_at_in_a_fresh_process() -> None:
    # The second shape spoils the process, and the third dies of it.
    plant = Plant(lambda call, had: {1: Status.WRONG_VALUE, 2: Status.CRASH}.get(call))
    assert _tried(plant, 4) == ["ok", "wrong_value", "ok", "ok"]
    # Here it dies by itself.
    plant = Plant(lambda call, had: {1: Status.WRONG_VALUE, 2: Status.CRASH, 3: Status.CRASH}.get(call))
    assert _tried(plant, 4) == ["ok", "wrong_value", "crash", "ok"]
    # What is seen of the call itself needs no second look.
    plant = Plant(lambda call, had: {1: Status.WRONG_VALUE, 2: Status.OUT_OF_BOUNDS}.get(call))
    assert _tried(plant, 4) == ["ok", "wrong_value", "out_of_bounds", "ok"]
    assert len(plant.calls) == 4


def test_our_own_fault_is_tried_once_more_and_never_a_finding() -> None:
    plant = Plant(lambda call, had: Status.HARNESS_ERROR if call == 1 else None)
    assert _tried(plant, 3) == ["ok", "ok", "ok"]
    broken = Plant(lambda call, had: Status.HARNESS_ERROR)
    with Line(broken, 3) as line, pytest.raises(HarnessFault):
        line.check([ITEM])
    assert len(broken.calls) == 2 and broken.ended == broken.started


def test_a_kernel_that_does_not_build_has_no_station() -> None:
    def start() -> _Station:
        raise Rejected(Status.COMPILE_ERROR, "no")

    with Line(start, 3) as line, pytest.raises(Unbuilt) as caught:
        line.check([ITEM])
    assert caught.value.cause.status == "compile_error"
