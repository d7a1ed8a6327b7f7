"""What compute-sanitizer's text log says: the first finding as a status and a line, and whether the tool saw it all.

Each message of the log opens with `========= ` and a capital letter; what belongs to it is indented, and a lone
`=========` closes it. The last message is a summary. The log is a file of the tool's own: what a kernel prints goes
to the worker's stderr, and a name that a candidate chose stands in indented lines only, so that it opens no message.

memcheck   accesses outside an allocation or its alignment, and misuse of the device heap
racecheck  shared memory accessed by two threads with nothing that orders them
initcheck  global memory read that nobody wrote
synccheck  barriers that not all threads reach, or not with the same arguments

Messages of versions 2022 to 2025 (CUDA 11.8 to 13): the place is `at f(int *)+0x90 in kernel.cu:12`, before that
`at 0x90 in kernel.cu:12:f(int *)`; severities are `Error` or `ERROR`. Pure; needs no CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from experts.verdict import Status

_OPENS = re.compile(r"^={9} (?=\S)", re.MULTILINE)
_CLOSES = re.compile(r"^={9}\s*$", re.MULTILINE)
_SEVERITY = r"(?:(?:Error|Warning|ERROR|WARNING): (?:\([\w ]+\) )?)?"
_KINDS = (
    (
        Status.OUT_OF_BOUNDS,
        re.compile(
            r"Invalid __\w+__ .*|Invalid (?:read|write|atomic|use-before-alloc).*|Access to \S+ .*|Tensor Memory .*"
            r"|Malloc/Free [Ee]rror .*"
            r"|(?:Lane|Warp|Device) (?:illegal|misaligned|Illegal|Misaligned) [Aa]ddress.*"
            r"|(?:Out-of-range|Misaligned) [Ss]hared or [Ll]ocal [Aa]ddress.*|Invalid [Aa]ddress [Ss]pace.*"
        ),
    ),
    (
        # Warnings too: they are races between threads of one warp that rely on lockstep, which no platform of ours
        # has. What changes nothing (two threads write the same value) has a level below, that is not asked for.
        Status.RACE,
        re.compile(
            _SEVERITY + r"(?:Race reported between .*|Potential (?:WAW|WAR|RAW) hazard detected .*)"
            # A block of a cluster that reaches into one that may not have begun, or may have ended.
            r"|Potential invalid __shared__ .*"
            r"|Deadlock detected .*"
        ),
    ),
    (
        # What is read is whatever was there before: the result is no function of the inputs. That is not yet a wrong
        # value, and the access is inside its buffer.
        Status.NONDETERMINISTIC,
        re.compile(r"Uninitialized (?:__\w+__ memory read|access to) .*"),
    ),
    (
        Status.RACE,
        re.compile(r"(?:Barrier|Cluster barrier|Warpgroup MMA sequence|[\w:]+ barrier) error detected.*"),
    ),
    (
        # The device stops it with or without a sanitizer.
        Status.LAUNCH_ERROR,
        re.compile(
            r"Illegal [Ii]nstruction.*|(?:User|Hardware|Device|Warp).* [Ss]tack overflow.*|Stack overflow.*"
            r"|Invalid PC.*|Invalid pc.*|Trace/breakpoint trap.*|Lane syscall error.*"
        ),
    ),
)
_BLIND = re.compile(
    r"Internal Sanitizer .*|Warning: Detected overflow of tracked .*|Target application terminated before .*"
    r"|Error: No attachable process found.*|Error: Target application .*|Error: .*not supported.*"
)
"""By which the tool says that it did not see everything, or may have seen what is not there."""
_PLACE = re.compile(r"\bin (?:[^\n\[]*[/\\])?(?P<file>[^\n/\\:\[]+):(?P<line>[1-9]\d*)(?=[:\s]|$)")
_RACE = re.compile(r"Race reported between (Read|Write|\w+) access at (.*)")
_OTHER = re.compile(r"^=========\s+and (Read|Write|\w+) access at (.*)$", re.MULTILINE)
_SUMMARY = re.compile(
    r"^={9} (?:ERROR SUMMARY: (?P<errors>\d+) errors?"
    r"|RACECHECK SUMMARY: (?P<hazards>\d+) hazards? displayed \(\d+ errors?, \d+ warnings?\))\s*$",
    re.MULTILINE,
)
_EXCERPT_CHARACTERS = 2000


@dataclass(frozen=True)
class Finding:
    """What the tool saw first: a status, one line with the source line where it is known, and the tool's own words."""

    status: Status
    reason: str
    excerpt: str


def first_finding(log: str, source: str = "") -> Finding | None:
    """The first finding of one tool's log, or None. Failed API calls are none: the runtime's answer tells of them.

    `source` is the name that the kernel was compiled under: its lines are told before those of a header.
    """
    for message in _messages(log):
        head = message.partition("\n")[0].strip()
        for status, kind in _KINDS:
            if kind.fullmatch(head):
                return Finding(status, _reason(head, message, source), message[:_EXCERPT_CHARACTERS].strip())
    return None


def doubt(log: str) -> str | None:
    """Why this log does not prove a kernel clean, in one line: the tool did not end, or saw what cannot be read here.

    None where it ended and reports nothing. Not to be asked of a log with a finding.
    """
    heads = [message.partition("\n")[0].strip() for message in _messages(log)]
    blind = next((head for head in heads if _BLIND.fullmatch(head)), None)
    if blind is not None:
        return f"the tool says: {blind[:160]}"
    summaries = list(_SUMMARY.finditer(log))
    if not summaries:
        return "the tool did not come to its end"
    counted = max(int(found["errors"] or found["hazards"]) for found in summaries)
    unsuccessful_calls = sum(head.startswith("Program hit ") for head in heads)
    if counted > unsuccessful_calls:
        return f"the tool counts {counted} errors, in words that are not known here"
    return None


def overflowed(log: str) -> bool:
    """Whether the tool lost track of the kernel's barriers, so that a race that it reports may be none."""
    return "Warning: Detected overflow of tracked " in log


def _messages(log: str) -> Iterator[str]:
    """Each message without the marks before its first line, up to the next one or the mark that closes it."""
    starts = [found.end() for found in _OPENS.finditer(log)]
    for start, following in pairwise([*starts, len(log)]):
        text = log[start:following]
        closed = _CLOSES.search(text)
        text = text[: closed.start()] if closed else text
        # What opens the next message.
        yield text.removesuffix("========= ").rstrip()


def _reason(head: str, message: str, source: str) -> str:
    race, other = _RACE.search(head), _OTHER.search(message)
    if race is not None:
        told = [f"{race[1]} access{_at(race[2], source)}"]
        if other is not None:
            told.append(f"{other[1]} access{_at(other[2], source)}")
        return f"Race reported between {' and '.join(told)}"
    misaligned = " (misaligned)" if re.search(r"Address \S+ is misaligned", message) else ""
    return f"{head.rstrip(' .:')}{misaligned}{_at(message, source)}"[:200]


def _at(text: str, source: str) -> str:
    places = [(found["file"], found["line"]) for found in _PLACE.finditer(text)]
    own = [line for file, line in places if file == source] or [line for _, line in places]
    return f", line {own[0]}" if own else ""
