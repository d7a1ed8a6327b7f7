"""The deployment extract-lineage, as a new user runs it: a server, a work pool, `deploy --all`, a worker, a run."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

CHECKOUT = Path(__file__).parents[2]
PREFECT = Path(sys.executable).with_name("prefect")
START_SECONDS = 120
RUN_SECONDS = 300


class Server:
    """A Prefect server of its own, with an empty home, and what talks to it."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        self.environment = os.environ | {
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": self.url,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_CLI_COLORS": "false",
        }
        self._children: list[subprocess.Popen[bytes]] = []
        self.start("server", "start", "--host", "127.0.0.1", "--port", str(port), log=home / "server.log")
        until = time.monotonic() + START_SECONDS
        while not self._healthy():
            assert time.monotonic() < until, (home / "server.log").read_text()[-2000:]
            time.sleep(0.3)

    def start(self, *arguments: str, log: Path) -> None:
        """A command of Prefect that goes on."""
        with log.open("wb") as file:
            child = subprocess.Popen(
                [PREFECT, *arguments],
                cwd=CHECKOUT,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children.append(child)

    def call(self, *arguments: str, timeout: float = 120) -> str:
        """A command of Prefect that ends well; what it printed."""
        done = subprocess.run(
            [PREFECT, *arguments],
            cwd=CHECKOUT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def ask(self, path: str, **body: object) -> Any:
        """One POST to the API."""
        request = urllib.request.Request(
            f"{self.url}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def close(self) -> None:
        """End everything that was started, by process group: a worker that lost its server waits for it."""
        for child in reversed(self._children):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("prefect"))
    try:
        yield found
    finally:
        found.close()


def test_runs_to_completed(server: Server, tmp_path: Path) -> None:
    server.call("work-pool", "create", "klineage", "--type", "process")
    assert "extract-lineage" in server.call("--no-prompt", "deploy", "--all")
    server.start("worker", "start", "--pool", "klineage", log=tmp_path / "worker.log")
    parameters = ["kernel=tests/walk/planted.cl", "case=gemm/64-f32", "pairs=20", f"data={tmp_path / 'data'}"]
    given = [part for each in parameters for part in ("-p", each)]
    server.call("deployment", "run", "extract-lineage/extract-lineage", *given, "--watch", timeout=RUN_SECONDS)

    (run,) = server.ask("flow_runs/filter")
    assert (run["name"], run["state"]["name"]) == ("walk/planted", "Completed")
    gates = server.ask("task_runs/filter", limit=200)
    attempts = pd.read_parquet(tmp_path / "data" / "evidence" / "attempts")
    assert len(gates) == len(attempts), "one task run for a gate"
    states = {gate["name"].partition("/")[2]: gate["state"]["name"] for gate in gates}
    assert {name.partition("/")[2] for name in states} >= {"expert", "chain-01 hint-restrict", "chain-04 unroll-loop"}
    assert sum(state == "Rejected" for state in states.values()) == (~attempts["accepted"].astype(bool)).sum() > 0
    assert set(states.values()) == {"Accepted", "Rejected"}

    keys = {artifact["key"] for artifact in server.ask("artifacts/filter", limit=200)}
    assert {"walk-planted-ladder", "walk-planted-plot", "walk-planted-refused"} <= keys
    assert sum("-diff-chain-" in key for key in keys if key) == 4


def test_the_run_graph_follows_the_chain(server: Server) -> None:
    (run,) = server.ask("flow_runs/filter")
    with urllib.request.urlopen(f"{server.url}/flow_runs/{run['id']}/graph-v2", timeout=30) as answer:
        nodes = {node["label"].partition("/")[2].partition("/")[2]: node for _, node in json.load(answer)["nodes"]}
    ids = {node["id"]: label for label, node in nodes.items()}
    parents = {label: {ids[each["id"]] for each in node["parents"]} for label, node in nodes.items()}
    chain = sorted(label for label in parents if label.startswith("chain-"))
    assert parents[chain[0]] == {"expert"}
    assert all(above in parents[below] for above, below in itertools.pairwise(chain))
    assert all(parents[label] == {"expert"} for label in parents if label.startswith("from-expert-"))


def test_an_expert_that_is_not_valid_is_one_line_and_code_1(server: Server, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.cl"
    wrong.write_text((CHECKOUT / "experts/gemm/naive.cl").read_text().replace("sum += A", "sum -= A"))
    done = _walk(server, wrong, tmp_path / "data")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("klineage: ")]
    assert "the expert is not valid: wrong_value at correctness" in line
    assert "Traceback" not in done.stderr


def test_a_root_that_cannot_be_written_stops_the_walk(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _walk(server, CHECKOUT / "tests/walk/planted.cl", tmp_path / "file")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("klineage: evidence store: cannot keep a row")
    assert "Traceback" not in done.stderr


def _walk(server: Server, kernel: Path, data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", "walk", str(kernel), "--case", "gemm/64-f32", "--data", str(data)]
    return subprocess.run(
        command, cwd=CHECKOUT, env=server.environment, capture_output=True, text=True, timeout=RUN_SECONDS
    )
