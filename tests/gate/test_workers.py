"""The parent's end of a worker: forged, broken, endless and missing answers each have their status."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experts.verdict import Isolation, Status
from tasks.gate import workers
from tasks.gate.sandbox import Grant, sandlock_fault
from tasks.gate.workers import Fault, Rejected, Script, Stopped, Worker, check_seconds, field, items

FAULT = sandlock_fault()
BOTH = [
    pytest.param("sandlock", marks=pytest.mark.skipif(FAULT is not None, reason=f"sandlock: {FAULT}")),
    "process",
]

HEAD = """
import json, os, sys, time, signal

def question():
    return json.loads(sys.stdin.buffer.readline())

def answer(**fields):
    os.write(1, json.dumps(fields).encode() + b"\\n")
"""

Make = Callable[[str], Worker]


@pytest.fixture(params=BOTH)
def isolation(request: pytest.FixtureRequest) -> Isolation:
    found: Isolation = request.param
    return found


@pytest.fixture
def make(tmp_path: Path, isolation: Isolation) -> Iterator[Make]:
    made: list[Worker] = []
    (tmp_path / "scratch").mkdir()

    def worker(source: str) -> Worker:
        script = tmp_path / "worker.py"
        script.write_text(HEAD + textwrap.dedent(source))
        made.append(Worker(Grant(tmp_path / "scratch"), isolation, Script(script)))
        return made[-1]

    yield worker
    for each in made:
        each.kill()


def _rejection(worker: Worker, timeout: float = 20.0, **fields: object) -> Rejected:
    with pytest.raises(Rejected) as caught:
        worker.ask("run", timeout, **fields)
    assert caught.value.reason and len(caught.value.reason.splitlines()) == 1
    return caught.value


def test_questions_and_answers(make: Make, isolation: Isolation) -> None:
    worker = make(
        """
        while True:
            asked = question()
            answer(nonce=asked["nonce"], twice=asked["number"] * 2, op=asked["op"])
        """
    )
    for number in range(3):
        found = worker.ask("run", 20, number=number)
        assert (found["twice"], found["op"]) == (2 * number, "run")
    assert worker.isolation == isolation
    worker.kill()
    worker.kill()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('question(); answer(nonce="0" * 16)', "an answer to no question"),
        ("question(); answer(seconds=[1])", "an answer to no question"),
        ('first = question(); answer(nonce=first["nonce"].upper() + " ")', "an answer to no question"),
        ("question(); os.write(1, b'seconds: 1\\n')", "an answer that is not JSON"),
        ("question(); os.write(1, b'\\n')", "an answer that is not JSON"),
        ("question(); os.write(1, b'\\xff\\xfe\\n')", "an answer that is not JSON"),
        ("question(); os.write(1, b'[' * 200000 + b'\\n')", "an answer that is not JSON"),
        ("question(); os.write(1, b'1' * 5000 + b'\\n')", "an answer that is not JSON"),
        ("question(); os.write(1, b'[1, 2]\\n')", "an answer to no question"),
        ("question(); os.write(1, b'null\\n')", "an answer to no question"),
        (
            "n = question()['nonce']; line = json.dumps({'nonce': n}).encode() + b'\\n'; os.write(1, line + line)",
            "more than one answer to a question",
        ),
        (
            "n = question()['nonce']; os.write(1, json.dumps({'nonce': n}).encode() + b'\\n{')",
            "more than one answer to a question",
        ),
    ],
)
def test_forged_answers_are_tampering(make: Make, source: str, reason: str) -> None:
    found = _rejection(make(source + "\ntime.sleep(60)"))
    assert found.status is Status.TAMPERING
    assert reason in found.reason


def test_an_answer_before_the_question_is_tampering(make: Make) -> None:
    worker = make('answer(nonce="guess"); print("x", file=sys.stderr, flush=True); time.sleep(60)')
    assert _rejection(worker).status is Status.TAMPERING


def test_the_answer_to_the_last_question_is_tampering(make: Make) -> None:
    worker = make(
        """
        first = question()["nonce"]
        answer(nonce=first)
        question()
        answer(nonce=first)
        time.sleep(60)
        """
    )
    worker.ask("run", 20)
    assert _rejection(worker).status is Status.TAMPERING


def test_an_endless_line_is_tampering(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_ANSWER_BYTES", 1 << 18)
    found = _rejection(make("question()\nwhile True: os.write(1, b'x' * 65536)"))
    assert found.status is Status.TAMPERING and "an answer without end" in found.reason


@pytest.mark.parametrize(
    "source",
    [
        "time.sleep(60)",
        "question(); time.sleep(60)",
        "question(); os.write(1, b'{'); time.sleep(60)",
        "while True: pass",
    ],
)
def test_silence_is_a_timeout(make: Make, source: str) -> None:
    worker = make(source)
    found = _rejection(worker, 0.5)
    assert found.status is Status.TIMEOUT and found.reason == "no answer within 0.5 s"
    assert not Path(f"/proc/{worker.pid}").exists()


def test_a_stopped_worker_is_a_timeout(make: Make) -> None:
    worker = make("question(); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)")
    assert _rejection(worker, 0.5).status is Status.TIMEOUT


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process died of SIGSEGV"),
        ("os.abort()", "the process died of SIGABRT"),
        ("os._exit(0)", "the process ended by itself with status 0"),
        ("os._exit(42)", "the process ended by itself with status 42"),
        ("raise KeyError", "the process ended by itself with status 1"),
    ],
)
def test_a_death_is_a_crash(make: Make, source: str, reason: str) -> None:
    found = _rejection(make(f"question(); {source}"))
    assert (found.status, found.reason) == (Status.CRASH, reason)


def test_a_kill_that_is_not_ours_is_the_limit_on_memory(make: Make) -> None:
    found = _rejection(make("question(); os.kill(os.getpid(), signal.SIGKILL)"))
    assert found.status is Status.OUT_OF_MEMORY


def test_a_worker_that_closes_its_answers_and_lives_on_is_not_out_of_memory(make: Make) -> None:
    assert _rejection(make("question(); os.close(1); time.sleep(60)")).status in (Status.CRASH, Status.TAMPERING)


def test_a_closed_pipe_is_a_crash(make: Make) -> None:
    found = _rejection(make("question(); os.close(1); os._exit(7)"))
    assert found.status is Status.CRASH


def test_a_question_to_the_dead_is_a_crash(make: Make) -> None:
    worker = make("os._exit(5)")
    with pytest.raises(Rejected) as caught:
        for _ in range(100):
            worker.ask("run", 5)
    assert caught.value.status is Status.CRASH


def test_what_was_printed_comes_along(make: Make) -> None:
    found = _rejection(make("os.write(2, b'before \\xff\\n'); question(); os._exit(1)"))
    assert found.log == "before \\xff\n"


def test_a_flood_is_a_resource_limit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _rejection(make("question()\nwhile True: os.write(2, b'y' * 65536)"))
    assert found.status is Status.RESOURCE_LIMIT and found.reason == "printed more than 1 MiB"
    assert 0 < len(found.log) <= 16 * 1024


def test_a_little_print_is_none(make: Make) -> None:
    worker = make("n = question()['nonce']; os.write(2, b'y' * 500000); answer(nonce=n); question(); time.sleep(60)")
    assert worker.ask("run", 20)["nonce"]


@pytest.mark.parametrize("kind", ["memory", "build", "logic", "runtime", "missing"])
def test_a_refusal_of_the_runtime_is_a_fault(make: Make, kind: str) -> None:
    worker = make(f"n = question()['nonce']; answer(nonce=n, fault={kind!r}, text='why\\nnot'); time.sleep(60)")
    with pytest.raises(Fault) as caught:
        worker.ask("run", 20)
    assert (caught.value.kind, caught.value.text) == (kind, "why\nnot")


def test_the_text_of_a_fault_is_text(make: Make) -> None:
    worker = make("n = question()['nonce']; answer(nonce=n, fault='runtime', text='\\ud800'); time.sleep(60)")
    with pytest.raises((Fault, Rejected)) as caught:
        worker.ask("run", 20)
    str(caught.value).encode()


def test_a_paused_worker_does_nothing_until_it_is_resumed(make: Make) -> None:
    worker = make("while True: answer(nonce=question()['nonce'])")
    worker.ask("run", 20)
    worker.pause()
    worker.send("run")
    with pytest.raises(Rejected) as caught:
        worker.receive(0.3)
    assert caught.value.status is Status.TIMEOUT
    other = make("while True: answer(nonce=question()['nonce'])")
    other.pause()
    other.send("run")
    other.resume()
    assert other.receive(20)["nonce"]
    other.kill()
    other.pause()
    other.resume()


def test_leaving_the_block_kills_it(make: Make) -> None:
    with pytest.raises(KeyboardInterrupt), make("time.sleep(60)") as worker:
        pid = worker.pid
        raise KeyboardInterrupt
    assert not Path(f"/proc/{pid}").exists()


def test_nothing_stays_open(make: Make) -> None:
    make("time.sleep(60)").kill()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        make("time.sleep(60)").kill()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_worker_that_does_not_read_is_a_timeout(make: Make) -> None:
    worker = make("time.sleep(60)")
    # Without it the parent would write until the worker's end.
    timer = threading.Timer(2.0, worker._process.kill)
    timer.start()
    try:
        found = _rejection(worker, 0.5, text="x" * (1 << 20))
    finally:
        timer.cancel()
    assert found.status is Status.TIMEOUT


def test_the_texts_of_an_answer_are_text(make: Make) -> None:
    worker = make("n = question()['nonce']; answer(nonce=n, entries={'\\ud800a': ['\\u00e9\\udfff']}); time.sleep(60)")
    assert worker.ask("run", 20)["entries"] == {"?a": ["\u00e9?"]}


@pytest.mark.parametrize("fault", ["'other'", "1", "None", "['build']", "{}"])
def test_a_fault_of_no_kind_is_tampering(make: Make, fault: str) -> None:
    assert _rejection(make(f"answer(nonce=question()['nonce'], fault={fault})")).status is Status.TAMPERING


def test_a_fault_without_text_is_tampering(make: Make) -> None:
    found = _rejection(make("answer(nonce=question()['nonce'], fault='build', text=[1]); time.sleep(60)"))
    assert found.status is Status.TAMPERING


def test_a_long_question_is_read_in_parts(make: Make) -> None:
    worker = make("time.sleep(0.2); q = question(); answer(nonce=q['nonce'], length=len(q['text'])); question()")
    assert worker.ask("run", 20, text="x" * (1 << 20))["length"] == 1 << 20


def test_a_death_while_it_is_asked_is_a_crash(make: Make) -> None:
    found = _rejection(make("time.sleep(0.2); os._exit(3)"), 20, text="x" * (1 << 20))
    assert (found.status, found.reason) == (Status.CRASH, "the process ended by itself with status 3")


def test_kill_all_stops_whoever_waits(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_stopping", False)
    worker, idle = make("time.sleep(60)"), make("time.sleep(60)")
    timer = threading.Timer(0.3, workers.kill_all)
    timer.start()
    with pytest.raises(Stopped):
        worker.ask("run", 20)
    timer.join()
    assert idle._process.ended(5.0)
    with pytest.raises(Stopped):
        idle.ask("run", 20)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Stopped):
        make("time.sleep(60)")
    assert len(os.listdir("/proc/self/fd")) == before
    assert not workers._workers


def test_a_signal_ends_workers_and_folders(tmp_path: Path, isolation: Isolation) -> None:
    script = tmp_path / "worker.py"
    script.write_text("import time; time.sleep(60)")
    source = f"""
import signal, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tasks.gate import folders, workers
from tasks.gate.pages import Pages
from tasks.gate.sandbox import Grant

def stop(number, frame):
    workers.kill_all()
    raise SystemExit(128 + number)

def wait():
    folder = folders.scratch_folder("worker")
    try:
        script = workers.Script(Path({str(script)!r}))
        with Pages(4096, 0) as pages, workers.Worker(Grant(folder), {isolation!r}, script) as worker:
            print(worker.pid, pages.path.parent, folder, flush=True)
            worker.receive(60)
    finally:
        folders.remove(folder)

signal.signal(signal.SIGTERM, stop)
with ThreadPoolExecutor(1) as threads:
    threads.submit(wait).result()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    gate = subprocess.Popen([sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE, text=True)
    assert gate.stdout is not None
    pid, *made = gate.stdout.readline().split()
    assert len(made) == 2 and all(map(os.path.exists, made))
    gate.terminate()
    assert gate.wait(10) == 128 + signal.SIGTERM
    gate.communicate()
    assert not any(map(os.path.exists, (f"/proc/{pid}", *made)))


def test_fields_of_an_answer() -> None:
    answer = {"count": 3, "share": 0.5, "name": "x", "sizes": [1, 2], "entries": {"a": {"n": 1}}}
    assert field(answer, "count", int) == 3
    assert field(answer, "share", float) == 0.5 and isinstance(field(answer, "count", float), float)
    assert field(answer, "name", str) == "x"
    assert items(answer, "sizes", int) == (1, 2)
    assert field(field(field(answer, "entries", dict), "a", dict), "n", int) == 1


@pytest.mark.parametrize("kind", [int, float, str, list, dict])
@pytest.mark.parametrize("answer", [{}, {"it": None}, {"it": True}, {"it": 10**400}, {"it": b""}, None, [1], "it"])
def test_a_field_that_is_none_is_tampering(answer: object, kind: type[int]) -> None:
    with pytest.raises(Rejected) as caught:
        field(answer, "it", kind)
    assert caught.value.status is Status.TAMPERING and caught.value.reason == "the worker gave no proper 'it'"


@pytest.mark.parametrize("found", [[1, "2"], [1, 2.0], [True], [[1]], {"0": 1}, "12", None])
def test_items_that_are_none_are_tampering(found: object) -> None:
    with pytest.raises(Rejected):
        items({"it": found}, "it", int)


def test_times() -> None:
    assert check_seconds({"seconds": [1e-9, 2, 0.5]}, 3) == [1e-9, 2.0, 0.5]


@pytest.mark.parametrize(
    "seconds",
    [
        None, 1.0, "1", {}, {"0": 1.0}, [], [1.0], [1.0, 1.0, 1.0], [1.0, 0.0], [1.0, 1e-10], [1.0, -1.0], [1.0, True],
        [1.0, "1"], [1.0, None], [1.0, [1.0]], [1.0, float("nan")], [1.0, float("inf")], [1.0, 1e6],
    ],
)  # fmt: skip
def test_times_that_are_none_are_tampering(seconds: Any) -> None:
    with pytest.raises(Rejected) as caught:
        check_seconds({"seconds": seconds} if seconds is not None else {}, 2)
    assert caught.value.status is Status.TAMPERING
    assert re.fullmatch(r"the worker gave times .*", caught.value.reason)


def test_a_time_of_four_hundred_digits_is_tampering() -> None:
    try:
        check_seconds({"seconds": [10**400]}, 1)
    except Rejected as caught:
        assert caught.status is Status.TAMPERING
    except OverflowError:
        pytest.fail("OverflowError")
