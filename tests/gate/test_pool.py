"""The pool of secret inputs: drawn once for each shape, fresh for timing, never the same twice."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from experts.case import Case, bind
from experts.gemm.case import WORKLOAD
from tasks.gate.pool import Member, Pool

CASE = bind(WORKLOAD, "64-f32", "opencl", "")


def test_a_member_is_drawn_once() -> None:
    pool = Pool()
    member = pool.member(CASE, "normal")
    assert pool.member(CASE, "normal") is member
    assert pool.member(bind(WORKLOAD, "M=64,N=64,K=64-f32", "opencl", ""), "normal") is member
    assert pool.member(CASE, "ties") is not member
    assert pool.member(CASE.at({"M": 7, "N": 5, "K": 3}), "normal") is not member


def test_a_member_holds_its_reference() -> None:
    member = Pool().member(CASE, "cancelling")
    wanted = WORKLOAD.reference(member.inputs, CASE)["C"]
    np.testing.assert_allclose(member.expected["C"].value, wanted.value, rtol=1e-9, atol=1e-9)


def test_two_runs_have_different_inputs() -> None:
    one, other = (Pool().member(CASE, "normal").inputs["A"] for _ in range(2))
    assert not np.array_equal(one, other)
    assert len({Pool().seed() for _ in range(4)}) == 4


def _check(member: Member, case: Case) -> None:
    wanted = WORKLOAD.reference(member.inputs, case)["C"]
    magnitude = np.abs(member.inputs["A"]).astype(np.float64) @ np.abs(member.inputs["B"])
    assert (np.abs(member.expected["C"].value - wanted.value) <= 1e-12 * magnitude).all()


def test_fresh_members_are_drawn_anew() -> None:
    pool = Pool()
    old, new = pool.fresh(CASE), pool.fresh(CASE)
    _check(new, CASE)
    # Not by a symmetry that a kernel could see through: no mantissa stays where it was.
    assert not np.array_equal(np.abs(np.frexp(old.inputs["A"])[0]), np.abs(np.frexp(new.inputs["A"])[0]))


def test_fresh_members_are_of_the_timed_distribution() -> None:
    asked: list[str] = []

    def watched(name: str):  # type: ignore[no-untyped-def]
        def draw(rng: np.random.Generator, case: Case):  # type: ignore[no-untyped-def]
            asked.append(name)
            return WORKLOAD.distributions[name](rng, case)

        return draw

    case = bind(
        replace(WORKLOAD, distributions={name: watched(name) for name in ("ties", "normal")}), "64-f32", "opencl", ""
    )
    Pool().fresh(case)
    assert asked == ["ties"]


def test_members_are_drawn_once_from_many_threads() -> None:
    pool, found = Pool(), []
    threads = [threading.Thread(target=lambda: found.append(pool.member(CASE, "ties"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({id(member) for member in found}) == 1


def test_coins_and_choices_come_out_both_ways() -> None:
    pool = Pool()
    assert {pool.coin() for _ in range(200)} == {True, False}
    assert {pool.choice(["a", "b", "c"]) for _ in range(400)} == {"a", "b", "c"}


def test_a_reference_that_leaves_out_an_output_is_refused() -> None:
    from experts.case import CaseError, Tensor

    tensors = {"f32": (*WORKLOAD.tensors["f32"], Tensor("D", "f32", ("M",), "out"))}
    case = bind(replace(WORKLOAD, tensors=tensors), "64-f32", "opencl", "")
    with pytest.raises(CaseError):
        Pool().member(case, "normal")
