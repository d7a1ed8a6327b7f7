"""The sandbox: what a worker can and cannot do, tried by scripts of our own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experts.verdict import Isolation
from tasks.gate import sandbox
from tasks.gate.sandbox import Grant, Held, SandboxUnavailable, sandlock_fault, start
from tasks.gate.strays import end_strays, strays

FAULT = sandlock_fault()
sandlocked = pytest.mark.skipif(FAULT is not None, reason=f"sandlock: {FAULT}")
BOTH = [pytest.param("sandlock", marks=sandlocked), "process"]


class _Box:
    """Runs one script; what it prints comes back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.started: list[Held] = []

    def start(self, source: str, isolation: Isolation, *arguments: str, **grant: object) -> Held:
        script = self.folder / f"script{len(self.started)}.py"
        script.write_text("import os, sys, time, socket, signal, mmap\n" + textwrap.dedent(source))
        given = Grant(self.scratch, readable=(script,), **grant)  # type: ignore[arg-type]
        held = start([sys.executable, "-I", "-S", str(script), *arguments], given, isolation)
        self.started.append(held)
        return held

    def says(self, source: str, isolation: Isolation, *arguments: str, **grant: object) -> list[str]:
        held = self.start(source, isolation, *arguments, **grant)
        lines = held.stdout.read().decode().splitlines()
        held.wait()
        return lines


@pytest.fixture
def box(tmp_path: Path) -> Iterator[_Box]:
    found = _Box(tmp_path)
    yield found
    for held in found.started:
        held.kill()
        held.wait()
        for stream in (held.stdin, held.stdout, held.stderr):
            stream.close()


@sandlocked
def test_files_outside_cannot_be_read_listed_or_written(box: _Box) -> None:
    (box.folder / "secret").write_text("secret")
    lines = box.says(
        """
        for what in (
            lambda: open(sys.argv[1]).read(),
            lambda: os.listdir(os.path.dirname(sys.argv[1])),
            lambda: open(sys.argv[1], "a"),
            lambda: open(os.path.dirname(sys.argv[1]) + "/new", "w"),
            lambda: os.unlink(sys.argv[1]),
            lambda: os.rename(sys.argv[1], "here"),
            lambda: (os.symlink(sys.argv[1], "link"), open("link").read()),
            lambda: (os.link(sys.argv[1], "hard"), open("hard").read()),
            lambda: open("/etc/passwd").read(),
            lambda: open("/proc/1/environ").read(),
            lambda: open(f"/proc/{os.getppid()}/environ").read(),
            lambda: open(f"/proc/{os.getppid()}/mem", "rb"),
            lambda: open("/dev/shm/new", "w"),
            lambda: os.listdir("/home"),
        ):
            try:
                print("done", what())
            except OSError as error:
                print("refused")
        """,
        "sandlock",
        str(box.folder / "secret"),
    )
    assert lines == ["refused"] * 14
    assert (box.folder / "secret").read_text() == "secret"
    assert not Path("/dev/shm/new").exists()


@sandlocked
def test_the_network_is_closed(box: _Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = box.says(
            """
            for family, address in ((socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), (socket.AF_UNIX, "\\0klineage")):
                try:
                    socket.socket(family, socket.SOCK_STREAM).connect(address)
                    print("connected")
                except OSError:
                    print("refused")
            try:
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(sys.argv[1])))
                print("sent")
            except OSError:
                print("refused")
            """,
            "sandlock",
            str(server.getsockname()[1]),
        )
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()
    assert lines[0] == "refused" and lines[2] == "refused"


@pytest.mark.parametrize("isolation", BOTH)
def test_the_environment_is_clean(box: _Box, isolation: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLINEAGE_TEST_SECRET", "s3cret")
    monkeypatch.setenv("LD_PRELOAD", "")
    lines = box.says(
        """
        for name in sorted(os.environ):
            print(name)
        try:
            print("s3cret" in open("/proc/self/environ").read())
        except OSError:
            print("False")
        """,
        isolation,
        environment={"GIVEN": "1"},
    )
    assert lines.pop() == "False"
    assert set(lines) - {"LC_CTYPE", "PWD"} <= {"HOME", "TMPDIR", "PATH", "LANG", "OPENBLAS_NUM_THREADS", "GIVEN"}
    assert "GIVEN" in lines


@pytest.mark.parametrize("isolation", BOTH)
def test_no_descriptor_of_ours_is_inherited(box: _Box, isolation: Isolation) -> None:
    secret = box.folder / "open"
    secret.write_text("x")
    with secret.open() as file, socket.create_server(("127.0.0.1", 0)):
        lines = box.says(
            """
            for number in range(3, 256):
                try:
                    os.fstat(number)
                    print(number)
                except OSError:
                    pass
            """,
            isolation,
        )
        assert file.fileno() > 2
    assert lines == []


@sandlocked
def test_no_signal_reaches_the_parent_or_a_neighbour(box: _Box) -> None:
    neighbour = box.start("time.sleep(60)", "sandlock")
    got: list[int] = []
    old = signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    try:
        lines = box.says(
            """
            for pid in map(int, sys.argv[1:]):
                for target in (pid, -pid):
                    try:
                        os.kill(target, signal.SIGUSR1)
                        print("sent")
                    except OSError:
                        print("refused")
            """,
            "sandlock",
            str(os.getpid()),
            str(neighbour.pid),
        )
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert lines == ["refused"] * 4 and got == []
    assert Path(f"/proc/{neighbour.pid}").exists()


@sandlocked
def test_memory_is_limited(box: _Box) -> None:
    lines = box.says(
        """
        try:
            kept = mmap.mmap(-1, 64 << 20)
            print("small", flush=True)
            kept = mmap.mmap(-1, 2 << 30)
            print("large")
        except (OSError, MemoryError, ValueError):
            print("refused")
        """,
        "sandlock",
        memory_bytes=1 << 30,
    )
    assert lines[:1] == ["small"] and "large" not in lines


@sandlocked
def test_processes_are_limited(box: _Box) -> None:
    lines = box.says(
        """
        born = 0
        try:
            for _ in range(40):
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                born += 1
        except OSError:
            pass
        os.write(1, b"%d\\n" % born)
        os.kill(0, signal.SIGKILL)
        """,
        "sandlock",
    )
    assert 0 <= int(lines[0]) <= sandbox.MAX_PROCESSES


@pytest.mark.parametrize("isolation", BOTH)
def test_scratch_and_pages_are_writable(box: _Box, isolation: Isolation) -> None:
    (box.folder / "pages").mkdir()
    pages = box.folder / "pages" / "file"
    pages.write_bytes(bytes(8192))
    lines = box.says(
        """
        open("made", "w").write("x")
        os.mkdir("folder")
        os.unlink("made")
        print(os.getcwd() == os.environ["HOME"] == os.environ["TMPDIR"])
        descriptor = os.open(sys.argv[1], os.O_RDWR)
        mapped = mmap.mmap(descriptor, 8192)
        mapped[8191] = 7
        print(len(mapped))
        """,
        isolation,
        str(pages),
        pages=(pages,),
    )
    assert lines == ["True", "8192"]
    assert pages.read_bytes()[8191] == 7
    assert (box.scratch / "folder").is_dir()


def _gone(pid: int, seconds: float = 2.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


_FAMILY = """
r, w = os.pipe()
if os.fork() == 0:
    if sys.argv[1] == "setsid":
        os.setsid()
    os.write(w, b"%d" % os.getpid())
    while True:
        pass
print(os.read(r, 20).decode(), flush=True)
while True:
    time.sleep(1)
"""


def _killed_with_child(box: _Box, isolation: Isolation, how: str) -> bool:
    held = box.start(_FAMILY, isolation, how)
    child = int(held.stdout.readline())
    assert strays(held.pid) == (child,)
    held.kill()
    assert held.ended(5.0)
    end_strays(held.pid)
    assert held.wait() == -signal.SIGKILL
    if _gone(child):
        return True
    os.kill(child, signal.SIGKILL)
    return False


@pytest.mark.parametrize("isolation", BOTH)
def test_killed_with_a_child_that_spins(box: _Box, isolation: Isolation) -> None:
    assert _killed_with_child(box, isolation, "plain")


@sandlocked
def test_killed_with_a_child_in_a_session_of_its_own(box: _Box) -> None:
    assert _killed_with_child(box, "sandlock", "setsid")


def test_without_sandlock_a_child_in_a_session_of_its_own_is_killed_too(box: _Box) -> None:
    assert _killed_with_child(box, "process", "setsid")


@sandlocked
def test_a_worker_that_changed_its_group_is_killed(box: _Box) -> None:
    held = box.start(
        """
        r, w = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.write(w, b"x")
            time.sleep(60)
            os._exit(0)
        os.read(r, 1)
        os.setpgid(0, child)
        print("moved", flush=True)
        time.sleep(60)
        """,
        "sandlock",
    )
    assert held.stdout.readline() == b"moved\n"
    held.signal(signal.SIGSTOP)
    assert _state(held.pid) == "T"
    held.kill()
    gone = _gone(held.pid, 1.0)
    # Whatever became of it, nothing may be left for the teardown to wait for.
    for pid in (held.pid, *_children(held.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    assert gone


def _state(pid: int, seconds: float = 1.0) -> str:
    """Stopping takes a moment."""
    deadline = time.monotonic() + seconds
    while True:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "T" or time.monotonic() > deadline:
            return state
        time.sleep(0.01)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.mark.parametrize("isolation", BOTH)
@pytest.mark.parametrize(
    ("source", "status"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV), ("os.abort()", -signal.SIGABRT)],
)
def test_how_it_ended(box: _Box, isolation: Isolation, source: str, status: int) -> None:
    held = box.start(source, isolation)
    assert held.wait() == status
    assert held.wait() == status
    held.kill()


@pytest.mark.parametrize("isolation", BOTH)
def test_a_stopped_worker_is_killed(box: _Box, isolation: Isolation) -> None:
    held = box.start("os.kill(os.getpid(), signal.SIGSTOP)", isolation)
    time.sleep(0.1)
    held.kill()
    done: list[int | None] = []
    thread = threading.Thread(target=lambda: done.append(held.wait()), daemon=True)
    thread.start()
    thread.join(5)
    assert done == [-signal.SIGKILL]


def test_isolation_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "sandlock_fault", lambda: None)
    assert sandbox.isolation() == "sandlock"
    monkeypatch.setattr(sandbox, "sandlock_fault", lambda: "no Landlock here")
    assert sandbox.isolation() == "process"


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sandlock", None)
    with pytest.raises(SandboxUnavailable) as caught:
        start([sys.executable, "-c", ""], Grant(tmp_path), "sandlock")
    assert "the package sandlock does not load" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("isolation", BOTH)
def test_a_worker_ends_with_its_parent(tmp_path: Path, isolation: Isolation) -> None:
    spin = "import runpy, sys; runpy.run_path(sys.argv[1])['end_with_parent'](int(sys.argv[2]))\n"
    spin = (spin if isolation == "process" else "") + "print(flush=True)\nwhile True: pass"
    source = f"""
import os, sys
from pathlib import Path
from tasks.gate.sandbox import Grant, start
worker = Path("tasks/gate/serving.py").resolve()
command = [sys.executable, "-I", "-c", {spin!r}, str(worker), str(os.getpid())]
held = start(command, Grant(Path({str(tmp_path)!r})), {isolation!r})
held.stdout.readline()
print(held.pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    gone = _gone(pid, 2.0)
    if not gone:
        os.kill(pid, signal.SIGKILL)
    assert gone


def test_a_worker_whose_parent_has_ended_already_ends() -> None:
    source = "import runpy, sys; runpy.run_path(sys.argv[1])['end_with_parent'](1 << 30)"
    worker = Path(sandbox.__file__).with_name("serving.py")
    assert subprocess.run([sys.executable, "-I", "-c", source, str(worker)]).returncode == 1


@pytest.mark.parametrize("isolation", BOTH)
def test_the_wait_for_an_end_is_bounded(box: _Box, isolation: Isolation) -> None:
    held = box.start("time.sleep(60)", isolation)
    begun = time.monotonic()
    assert not held.ended(0.1)
    assert held.wait(0.1) is None
    assert time.monotonic() - begun < 2.0
    held.kill()
    assert held.ended(5.0)
    assert held.wait(5.0) == -signal.SIGKILL
    assert held.ended(0.0)
