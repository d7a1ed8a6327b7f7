"""One checked call: poison the outputs, run, and look at guards, inputs and outputs on the parent's own copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experts.case import NUMPY_TYPES, Arrays, BoundTensor, Case, CaseError
from experts.judge import Judgement
from experts.verdict import Status
from tasks.gate.pages import Layout, Pages
from tasks.gate.pool import Member
from tasks.gate.workers import Rejected

POISONS = (0x7FA5A5A5, 0x7A5A5A5A)
"""32-bit patterns: as fp32 a signalling NaN, which no arithmetic gives, and a large finite number (2.8e35)."""


@dataclass(frozen=True)
class Slot:
    """A case's tensors in the pages: tensor name to (offset, bytes)."""

    spans: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, case: Case, layout: Layout, prefix: str = "") -> Slot:
        """The tensors that the layout holds under `prefix`."""
        return cls({tensor.name: layout.spans[prefix + tensor.name] for tensor in case.tensors})


def fill(pages: Pages, slot: Slot, member: Member) -> None:
    """Write the inputs."""
    for name, array in member.inputs.items():
        pages.write(slot.spans[name][0], array)


def poison(pages: Pages, case: Case, slot: Slot, pattern: int) -> None:
    """Fill the pure outputs with a pattern; what is both input and output keeps its content."""
    for tensor in case.tensors:
        if tensor.role == "out":
            pages.write(slot.spans[tensor.name][0], poisoned(tensor.nbytes, pattern))


def poison_span(pages: Pages, span: tuple[int, int], pattern: int) -> None:
    """Fill one buffer with a pattern."""
    pages.write(span[0], poisoned(span[1], pattern))


def check_guards(pages: Pages, layout: Layout) -> None:
    """Raises Rejected (out_of_bounds) where a guard zone changed."""
    breach = pages.breached(layout.guards)
    if breach is not None:
        zone, at = breach
        names = [name for name, _ in sorted(layout.spans.items(), key=lambda item: item[1])]
        where = f"behind {names[zone - 1].rpartition(':')[2]}" if zone else f"before {names[0].rpartition(':')[2]}"
        raise Rejected(Status.OUT_OF_BOUNDS, f"wrote outside its buffers: the guard zone {where} changed, byte {at}")


def check_inputs(pages: Pages, case: Case, slot: Slot, member: Member) -> None:
    """Raises Rejected (input_mutated) where a pure input changed."""
    for tensor in case.tensors:
        if tensor.role == "in":
            before = np.ascontiguousarray(member.inputs[tensor.name]).reshape(-1).view(np.uint8)
            if not np.array_equal(pages.read(*slot.spans[tensor.name]), before):
                raise Rejected(Status.INPUT_MUTATED, f"the input {tensor.name} was changed")


def read_outputs(pages: Pages, case: Case, slot: Slot) -> Arrays:
    """The outputs, copied out."""
    return {tensor.name: typed(pages.read(*slot.spans[tensor.name]), tensor) for tensor in case.outputs}


def judge(case: Case, outputs: Arrays, member: Member, pattern: int, where: str) -> Judgement:
    """The judgement where it is right. Raises Rejected (unwritten_output or wrong_value) where not."""
    judgement = case.workload.judge(outputs, member.expected)
    if judgement.correct and not 0 <= judgement.error <= 1:
        raise CaseError(f"the judge of {case.name} calls an error of {judgement.error} times its bound correct")
    if judgement.correct:
        return judgement
    for tensor in case.outputs:
        left = _unwritten(outputs[tensor.name], pattern) if tensor.role == "out" else 0
        if left:
            total = outputs[tensor.name].size
            raise Rejected(Status.UNWRITTEN_OUTPUT, f"{where}: {left} of {total} elements of {tensor.name} not written")
    raise Rejected(Status.WRONG_VALUE, f"{where}: {judgement.worst}")


def typed(data: NDArray[np.uint8], tensor: BoundTensor) -> NDArray[np.generic]:
    """A tensor's bytes as an array of its shape and type."""
    return data.view(NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)


def poisoned(nbytes: int, pattern: int) -> NDArray[np.uint8]:
    """Bytes that hold a pattern all over."""
    return np.full(-(-nbytes // 4), pattern, "<u4").view(np.uint8)[:nbytes]


def _unwritten(output: NDArray[np.generic], pattern: int) -> int:
    data = np.ascontiguousarray(output).reshape(-1).view(np.uint8)
    same = (data == poisoned(data.size, pattern)).reshape(-1, output.dtype.itemsize)
    return int(same.all(axis=1).sum())
