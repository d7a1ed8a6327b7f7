"""What a parent knows stays with it: its environment and files, from a compiler that includes and from a worker."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest

from experts import platform
from experts.kernel import parse
from tasks.gate import folders, sandbox, surfaces
from tasks.gate.sandbox import Grant
from tasks.gate.workers import Rejected

HEAD = """/* klineage
format = 1
workload = "gemm"
[[launch]]
entry = "gemm"
grid = [1]
block = [1]
args = ["C"]
*/
"""
NAME = "KLINEAGE_TEST_KEY"


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    value = f"sk-{secrets.token_hex(12)}"
    monkeypatch.setenv(NAME, value)
    return value


def _told(code: str, surface: str) -> str:
    """All that comes back of compiling: the reason, the log, what was compiled."""
    kernel = parse(HEAD + code, surface="cuda" if surface == "cuda" else "opencl")
    chosen = platform.named("sm90") if surface == "cuda" else platform.select("opencl", None)
    try:
        artifact = surfaces.lower(kernel, chosen)
    except Rejected as fault:
        return f"{fault.reason} {fault.log}"
    return artifact.log + " ".join(content.decode("latin-1") for content in artifact.files.values())


ENTRY = {
    "cuda": 'extern "C" __global__ void gemm(float *C) { C[0] = 1; }\n',
    "opencl": "__kernel void gemm(__global float *C) { C[0] = 1; }\n",
}


@pytest.mark.skipif(sandbox.isolation() != "sandlock", reason="isolation is process: files are not kept from it")
@pytest.mark.parametrize("surface", ["cuda", "opencl"])
def test_no_compiler_reads_the_parent(secret: str, tmp_path: Path, surface: str) -> None:
    file = tmp_path / "key.h"
    file.write_text(f"#define KEY {secret}\n#error {secret}\n")
    for path in (file, Path(f"/proc/{os.getpid()}/environ"), Path("/proc/self/environ"), Path("/etc/passwd")):
        told = _told(f'#include "{path}"\n{ENTRY[surface]}', surface)
        assert secret not in told
        assert "root:" not in told
    # The compiler does not even say whether there is such a file.
    probe = f'#if __has_include("{file}")\n#error THERE\n#endif\n{ENTRY["cuda"]}'
    if surface == "cuda":
        assert "THERE" not in _told(probe, surface)


def test_a_readable_file_would_be_seen(tmp_path: Path, secret: str) -> None:
    """The test above looks in the right places: what the compiler may read does come back."""
    kernel = parse(f"{HEAD}#error {secret}\n{ENTRY['cuda']}", surface="cuda")
    with pytest.raises(Rejected) as caught:
        surfaces.lower(kernel, platform.named("sm90"))
    assert secret in caught.value.reason + caught.value.log


def test_a_worker_s_environment_has_nothing_of_the_parent_s(secret: str) -> None:
    folder = folders.scratch_folder("worker")
    command = [sys.executable, "-I", "-S", "-c", "import os; print(dict(os.environ))"]
    try:
        for isolation in {sandbox.isolation(), "process"}:
            held = sandbox.start(command, Grant(folder), isolation)  # type: ignore[arg-type]
            told = held.stdout.read().decode()
            held.wait(10)
            for stream in (held.stdin, held.stdout, held.stderr):
                stream.close()
            assert "'HOME'" in told
            assert NAME not in told
            assert secret not in told
    finally:
        folders.remove(folder)
