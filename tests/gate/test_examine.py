"""One checked call: poison, guards, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from experts.case import Case, Tensor, bind
from experts.gemm.case import WORKLOAD
from experts.judge import Expected
from experts.verdict import Status
from tasks.gate.examine import POISONS, Slot, check_guards, check_inputs, fill, judge, poison, poison_span, read_outputs
from tasks.gate.pages import Layout, Pages, layout
from tasks.gate.pool import Member, Pool
from tasks.gate.workers import Rejected

CASE = bind(WORKLOAD, "M=5,N=7,K=3-f32", "opencl", "")


@dataclass
class _Run:
    pages: Pages
    layout: Layout
    slot: Slot
    member: Member

    def result(self) -> np.ndarray:
        return WORKLOAD.honest(self.member.inputs, CASE)["C"].copy()

    def answer(self, output: np.ndarray) -> None:
        self.pages.write(self.slot.spans["C"][0], output)

    def judged(self, pattern: int) -> None:
        judge(CASE, read_outputs(self.pages, CASE, self.slot), self.member, pattern, "here")


@pytest.fixture
def run() -> Iterator[_Run]:
    found = layout({tensor.name: tensor.nbytes for tensor in CASE.tensors})
    with Pages(found.nbytes, 9) as pages:
        slot = Slot.of(CASE, found)
        member = Pool().member(CASE, "normal")
        pages.arm(found.guards)
        fill(pages, slot, member)
        poison(pages, CASE, slot, POISONS[0])
        yield _Run(pages, found, slot, member)


def _status(caught: pytest.ExceptionInfo[Rejected]) -> Status:
    assert len(str(caught.value).splitlines()) == 1
    return caught.value.status


def test_an_honest_answer_passes(run: _Run) -> None:
    run.answer(run.result())
    check_guards(run.pages, run.layout)
    check_inputs(run.pages, CASE, run.slot, run.member)
    run.judged(POISONS[0])


@pytest.mark.parametrize("pattern", POISONS)
@pytest.mark.parametrize("left", [1, 35])
def test_unwritten_elements_are_counted(run: _Run, pattern: int, left: int) -> None:
    poison(run.pages, CASE, run.slot, pattern)
    output = read_outputs(run.pages, CASE, run.slot)["C"].copy()
    output.flat[left:] = run.result().flat[left:]
    run.answer(output)
    with pytest.raises(Rejected) as caught:
        run.judged(pattern)
    assert _status(caught) is Status.UNWRITTEN_OUTPUT
    assert f"{left} of 35 elements of C not written" in str(caught.value)


def test_a_wrong_element_is_named(run: _Run) -> None:
    output = run.result()
    output[4, 6] += 1
    run.answer(output)
    with pytest.raises(Rejected) as caught:
        run.judged(POISONS[0])
    assert _status(caught) is Status.WRONG_VALUE
    assert str(caught.value).startswith("here: C[4,6] is ")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_class_of_its_own_is_wrong(run: _Run, value: float) -> None:
    output = run.result()
    output[0, 0] = value
    run.answer(output)
    with pytest.raises(Rejected) as caught:
        run.judged(POISONS[0])
    assert _status(caught) is Status.WRONG_VALUE


@pytest.mark.parametrize("name", ["A", "B"])
def test_a_changed_input_is_seen(run: _Run, name: str) -> None:
    offset, nbytes = run.slot.spans[name]
    for at in (0, nbytes - 1):
        run.pages.write(offset + at, run.pages.read(offset + at, 1) ^ np.uint8(128))
        with pytest.raises(Rejected) as caught:
            check_inputs(run.pages, CASE, run.slot, run.member)
        assert _status(caught) is Status.INPUT_MUTATED and f"the input {name} was changed" in str(caught.value)
        fill(run.pages, run.slot, run.member)


@pytest.mark.parametrize(
    ("name", "step", "where"),
    [
        ("A", -1, "before A"),
        ("A", 60, "behind A"),
        ("B", -1, "behind A"),
        ("C", -1, "behind B"),
        ("C", 140, "behind C"),
    ],
)
def test_a_changed_guard_is_named(run: _Run, name: str, step: int, where: str) -> None:
    offset, nbytes = run.slot.spans[name]
    assert step < 0 or step == nbytes
    run.pages.write(offset + step, run.pages.read(offset + step, 1) ^ np.uint8(1))
    with pytest.raises(Rejected) as caught:
        check_guards(run.pages, run.layout)
    assert _status(caught) is Status.OUT_OF_BOUNDS and f"the guard zone {where} changed" in str(caught.value)


@pytest.mark.parametrize("pattern", POISONS)
@pytest.mark.parametrize("nbytes", [4, 5, 7, 4096])
def test_a_span_is_poisoned_to_its_last_byte(run: _Run, pattern: int, nbytes: int) -> None:
    offset = run.slot.spans["C"][0]
    poison_span(run.pages, (offset, nbytes), pattern)
    wanted = (pattern.to_bytes(4, "little") * 1024)[:nbytes]
    assert run.pages.read(offset, nbytes).tobytes() == wanted
    check_guards(run.pages, run.layout) if nbytes <= 140 else None


def test_poisons_differ_in_class() -> None:
    values = np.array(POISONS, np.uint32).view(np.float32)
    assert np.isnan(values[0]) and np.isfinite(values[1])


@pytest.mark.parametrize("dtype", ["f64", "f16", "i8", "i32"])
def test_unwritten_elements_of_every_width(dtype: str) -> None:
    both = replace(WORKLOAD, tensors={"t": (Tensor("C", dtype, ("M", "N"), "out"),)})  # type: ignore[arg-type]
    case = bind(both, "M=5,N=7,K=1-t", "opencl", "")
    found = layout({"C": case.tensors[0].nbytes})
    with Pages(found.nbytes, 0) as pages:
        slot = Slot.of(case, found)
        poison(pages, case, slot, POISONS[1])
        outputs = read_outputs(pages, case, slot)
        assert outputs["C"].shape == (5, 7)
        member = Member({}, {"C": Expected(np.full((5, 7), 3.0), np.zeros((5, 7)))})
        with pytest.raises(Rejected) as caught:
            judge(case, outputs, member, POISONS[1], "here")
        assert "35 of 35 elements of C not written" in str(caught.value)


def test_what_is_in_and_out_keeps_its_content() -> None:
    both = replace(WORKLOAD, tensors={"f32": (Tensor("C", "f32", ("M", "N"), "inout"),)})
    case: Case = bind(both, "M=2,N=2,K=1-f32", "opencl", "")
    found = layout({"C": 16})
    with Pages(found.nbytes, 0) as pages:
        slot = Slot.of(case, found)
        member = Member({"C": np.arange(4, dtype=np.float32).reshape(2, 2)}, {})
        fill(pages, slot, member)
        poison(pages, case, slot, POISONS[0])
        assert np.array_equal(read_outputs(pages, case, slot)["C"], member.inputs["C"])
        pages.write(slot.spans["C"][0], np.zeros(4, np.float32))
        check_inputs(pages, case, slot, member)
