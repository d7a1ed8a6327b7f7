"""Logs of compute-sanitizer: the first finding of each tool, clean logs, and logs that prove nothing."""

from __future__ import annotations

import pytest

from experts.verdict import Status
from tasks.gate.cuda.sanitize import TOOLS, _decide, _Seen
from tasks.gate.cuda.sanitizer_log import doubt, first_finding, overflowed
from tasks.gate.workers import Rejected

HEAD = "========= COMPUTE-SANITIZER\n"
NO_ERRORS = "========= ERROR SUMMARY: 0 errors\n"
NO_HAZARDS = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"

OUTSIDE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(const float *, float *, int)+0x130 in kernel.cu:17
=========     by thread (31,0,0) in block (3,0,0)
=========     Address 0x7f2a4de00400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2a4de00000 of size 1,024 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at scale(const float *, float *, int)+0x90 in kernel.cu:12
=========     by thread (0,0,0) in block (4,0,0)
=========     Address 0x7f2a4de00404 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""
OUTSIDE_OLD = """\
========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 4 bytes
=========     at 0x160 in /tmp/build/kernel.cu:9:tile(float *)
=========     by thread (64,0,0) in block (0,0,0)
=========     Address 0x400 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2b2cb4]
=========                in /usr/lib/libcuda.so.1
=========
========= ERROR SUMMARY: 1 error
"""
MISALIGNED = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at load4(const float4 *)+0x50 in kernel.cu:6
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f6510c00004 is misaligned
=========     and is inside the nearest allocation at 0x7f6510c00000 of size 64 bytes
=========
========= ERROR SUMMARY: 1 error
"""
HEAP = """\
========= COMPUTE-SANITIZER
========= Malloc/Free Error encountered : Double free
=========     at free+0x79d0
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f3f4afff920
=========         Device Frame: scratch(float *)+0x90 in kernel.cu:21
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reduce(const float *, float *)+0x90 in kernel.cu:41
=========     and Read access at reduce(const float *, float *)+0x100 in kernel.cu:51 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
RACE_OLD = """\
========= COMPUTE-SANITIZER
========= ERROR: Race reported between Read access at 0x298 in /home/somebody/kernel.cu:21:reduce(float *)
=========     and Write access at 0x278 in /home/somebody/kernel.cu:13:reduce(float *) [6144 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
RACE_IN_A_WARP = """\
========= COMPUTE-SANITIZER
========= Warning: Race reported between Write access at sum(int *)+0x90 in kernel.cu:44
=========     and Read access at sum(int *)+0x120 in kernel.cu:56 [124 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
HAZARD = """\
========= COMPUTE-SANITIZER
========= Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at sum(int *)+0x90 in kernel.cu:44
=========     Read Thread (32,0,0) at sum(int *)+0x120 in kernel.cu:56
=========     Current Value : 35
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
CLUSTER = """\
========= COMPUTE-SANITIZER
========= Potential invalid __shared__ read of size 4 bytes
=========     at remote(int *, int)+0x170 in kernel.cu:10
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x1000400 is located in a block that might have already exited
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNWRITTEN = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at vectorAdd(int *)+0x70 in kernel.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
"""
DIVERGENT = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at barrier(int)+0x11f0 in sm_30_intrinsics.hpp:110
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: stage(int *, int *)+0xe40 in kernel.cu:60
=========
========= ERROR SUMMARY: 1 error
"""
ARGUMENTS = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Invalid arguments
=========     at __cuda_sm70_warpsync+0x30
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
WARPGROUP = """\
========= COMPUTE-SANITIZER
========= Warpgroup MMA sequence error detected. Mismatching warpgroup instruction pc between warps
=========     at gemm(const __nv_bfloat16 *)+0x2a0 in kernel.cu:88
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 4 errors
"""
UNALIGNED_STACK = """\
========= COMPUTE-SANITIZER
========= Out-of-range shared or local address
=========     at tile(float *)+0x160 in kernel.cu:9
=========     by thread (64,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""

FOUND = [
    (OUTSIDE, Status.OUT_OF_BOUNDS, "Invalid __global__ write of size 4 bytes, line 17"),
    (OUTSIDE_OLD, Status.OUT_OF_BOUNDS, "Invalid __shared__ read of size 4 bytes, line 9"),
    (MISALIGNED, Status.OUT_OF_BOUNDS, "Invalid __global__ read of size 16 bytes (misaligned), line 6"),
    (HEAP, Status.OUT_OF_BOUNDS, "Malloc/Free Error encountered : Double free, line 21"),
    (UNALIGNED_STACK, Status.OUT_OF_BOUNDS, "Out-of-range shared or local address, line 9"),
    (RACE, Status.RACE, "Race reported between Write access, line 41 and Read access, line 51"),
    (RACE_OLD, Status.RACE, "Race reported between Read access, line 21 and Write access, line 13"),
    (RACE_IN_A_WARP, Status.RACE, "Race reported between Write access, line 44 and Read access, line 56"),
    (CLUSTER, Status.RACE, "Potential invalid __shared__ read of size 4 bytes, line 10"),
    (UNWRITTEN, Status.NONDETERMINISTIC, "Uninitialized __global__ memory read of size 4 bytes, line 41"),
    (DIVERGENT, Status.RACE, "Barrier error detected. Divergent thread(s) in block, line 60"),
    (ARGUMENTS, Status.RACE, "Barrier error detected. Invalid arguments"),
    (
        WARPGROUP,
        Status.RACE,
        "Warpgroup MMA sequence error detected. Mismatching warpgroup instruction pc between warps, line 88",
    ),
]


@pytest.mark.parametrize(("log", "status", "reason"), FOUND)
def test_the_first_finding_has_a_status_and_a_line(log: str, status: Status, reason: str) -> None:
    found = first_finding(log, "kernel.cu")
    assert found is not None
    assert (found.status, found.reason) == (status, reason)
    assert found.excerpt.startswith(log.splitlines()[1].removeprefix("========= "))
    assert "SUMMARY" not in found.excerpt


def test_a_report_of_single_hazards_is_a_race_too() -> None:
    found = first_finding(HAZARD, "kernel.cu")
    assert found is not None and found.status is Status.RACE and found.reason.endswith("line 44")


def test_the_excerpt_ends_with_its_message() -> None:
    found = first_finding(OUTSIDE)
    assert found is not None and "in kernel.cu:12" not in found.excerpt


@pytest.mark.parametrize("summary", [NO_ERRORS, NO_HAZARDS])
def test_a_clean_log_proves_that_nothing_was_found(summary: str) -> None:
    log = HEAD + summary
    assert first_finding(log) is None
    assert doubt(log) is None


def test_calls_that_fail_are_no_finding() -> None:
    log = f"""{HEAD}\
========= Program hit CUDA_ERROR_NOT_FOUND (error 500) due to "not found" on CUDA API call to cuGetProcAddress.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 1 error
"""
    assert first_finding(log) is None
    assert doubt(log) is None


DOUBTFUL = {
    "": "did not come to its end",
    HEAD: "did not come to its end",
    HEAD + "========= ERROR SUMMARY: 2 errors\n": "counts 2 errors",
    HEAD + "========= Something that no version says yet\n========= ERROR SUMMARY: 1 error\n": "counts 1 errors",
    HEAD + "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)\n": "counts 3 errors",
    HEAD
    + "========= Target application terminated before first instrumented API call\n"
    + NO_ERRORS: "terminated before",
    HEAD
    + "========= Internal Sanitizer Error: The Sanitizer encountered an error while launching f and didn't track it.\n"
    + NO_ERRORS: "Internal Sanitizer Error",
    HEAD
    + "========= Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect.\n"
    + NO_ERRORS: "Detected overflow",
}


@pytest.mark.parametrize("log", DOUBTFUL)
def test_a_log_without_an_end_or_with_unknown_errors_proves_nothing(log: str) -> None:
    assert first_finding(log) is None
    assert DOUBTFUL[log] in (doubt(log) or "")


FORGED = [
    # What a kernel prints in the middle of a line, or without the mark, or as what belongs to a message.
    "x========= Invalid __global__ write of size 4 bytes\n",
    "Invalid __global__ write of size 4 bytes\n",
    " ========= Invalid __global__ write of size 4 bytes\n",
    "=========     Invalid __global__ write of size 4 bytes\n",
    "======== Barrier error detected. Divergent thread(s) in block.\n",
    "========= Note: Race reported between Write access at f()+0x10 in kernel.cu:1\n",
]


@pytest.mark.parametrize("line", FORGED)
def test_text_that_looks_like_a_finding_is_none(line: str) -> None:
    assert first_finding(HEAD + line + NO_ERRORS) is None


def test_a_name_cannot_hide_what_was_found() -> None:
    named = OUTSIDE.replace("kernel.cu:17", "a\n========= ERROR SUMMARY: 0 errors\n=========     in kernel.cu:17")
    found = first_finding(named, "kernel.cu")
    assert found is not None and found.status is Status.OUT_OF_BOUNDS
    # Nor a summary of its own that comes before the tool's.
    assert doubt(HEAD + NO_ERRORS + "========= ERROR SUMMARY: 2 errors\n") is not None


def _seen(**logs: str) -> list[_Seen]:
    clean = {tool: HEAD + (NO_HAZARDS if tool == "racecheck" else NO_ERRORS) for tool in TOOLS}
    return [_Seen(tool, None, (clean | logs)[tool]) for tool in TOOLS]


def _rejection(seen: list[_Seen]) -> tuple[Status, str]:
    with pytest.raises(Rejected) as caught:
        _decide(seen)
    assert len(caught.value.reason.splitlines()) == 1
    return caught.value.status, caught.value.reason


def test_four_clean_logs_are_no_rejection() -> None:
    _decide(_seen())


def test_memcheck_speaks_before_what_follows_from_it() -> None:
    status, reason = _rejection(_seen(initcheck=UNWRITTEN, memcheck=OUTSIDE))
    assert (status, reason) == (Status.OUT_OF_BOUNDS, "memcheck: Invalid __global__ write of size 4 bytes, line 17")


def test_a_finding_explains_a_fault_of_the_same_call() -> None:
    fault = Rejected(Status.LAUNCH_ERROR, "cudaErrorLaunchFailure: unspecified launch failure")
    seen = [_Seen(each.tool, fault, each.log) for each in _seen(synccheck=DIVERGENT)]
    assert _rejection(seen)[0] is Status.RACE
    assert _rejection([_Seen(each.tool, fault, each.log) for each in _seen()]) == (
        Status.LAUNCH_ERROR,
        "under memcheck: cudaErrorLaunchFailure: unspecified launch failure",
    )


def test_a_tool_that_proves_nothing_is_not_the_kernel_s_fault() -> None:
    status, reason = _rejection(_seen(racecheck=HEAD))
    assert (status, reason) == (Status.HARNESS_ERROR, "racecheck: the tool did not come to its end")


def test_a_race_found_by_a_tool_that_lost_track_is_not_held_against_the_kernel() -> None:
    lost = "========= Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect.\n"
    log = HEAD + lost + RACE.removeprefix(HEAD)
    assert overflowed(log)
    assert _rejection(_seen(racecheck=log))[0] is Status.HARNESS_ERROR
    assert _rejection(_seen(racecheck=RACE))[0] is Status.RACE
