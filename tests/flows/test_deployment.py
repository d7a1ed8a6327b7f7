"""The deployments, as a new user runs them: server, work pool, `deploy --all`, worker, runs; and commands beside."""

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

import jsonschema
import pandas as pd
import pytest

from flows.commands import schemas

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
    server.call("--no-prompt", "deploy", "--all")
    deployed = {each["name"]: each for each in server.ask("deployments/filter")}
    assert set(deployed) == {
        "extract-lineage",
        "probe-lineage",
        "induce-skills",
        "validate-roundtrips",
        "optimize-kernel",
    }
    (nightly,) = deployed["validate-roundtrips"]["schedules"]
    assert (nightly["schedule"]["cron"], nightly["active"]) == ("0 3 * * *", False)
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


def test_optimize_runs_as_a_deployment(server: Server, tmp_path: Path) -> None:
    given = ["kernel=experts/softmax/naive.cl", "attempts=1", "pairs=20", f"data={tmp_path}"]
    parameters = [part for each in given for part in ("-p", each)]
    server.call("deployment", "run", "optimize-kernel/optimize-kernel", *parameters, "--watch", timeout=RUN_SECONDS)
    attempts = pd.read_parquet(tmp_path / "evidence" / "attempts")
    assert set(attempts["purpose"]) == {"optimize"}
    assert (tmp_path / "optimized" / "softmax-naive.cl").read_text().startswith("/* klineage")
    keys = {artifact["key"] for artifact in server.ask("artifacts/filter", limit=200)}
    assert "softmax-naive-optimize" in keys


def test_inducing_what_is_known_changes_no_card(server: Server, tmp_path: Path) -> None:
    found = _answer(server, "induce", "--probe", "none", "--data", str(tmp_path))
    assert len(found["skills"]) >= 3
    assert not any(skill["changed"] for skill in found["skills"])
    assert not (tmp_path / "skills").exists()


def test_a_skill_is_decided_again_here(server: Server, tmp_path: Path) -> None:
    name = "split-accumulator"
    found = _answer(server, "roundtrip", name, "--pairs", "20", "--data", str(tmp_path))
    (decision,) = found["decisions"]
    # Elsewhere than where the card was measured it claims nothing, and waits.
    assert decision["standing"] in ("admitted", "waiting"), decision["reason"]
    trials = pd.read_parquet(tmp_path / "evidence" / "roundtrips")
    assert set(trials["skill"]) == {name}
    assert (trials[trials["trial"] == "negative"]["result"] == "failed_as_stated").all()
    card = json.loads((tmp_path / "skills" / name / "card.json").read_text())
    assert card["verification"]["standing"] == decision["standing"]


def test_the_run_graph_follows_the_chain(server: Server) -> None:
    (run,) = (each for each in server.ask("flow_runs/filter") if each["name"] == "walk/planted")
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


def _answer(server: Server, command: str, *arguments: str) -> Any:
    """A command's JSON, which has its schema."""
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", command, *arguments, "--json"],
        cwd=CHECKOUT,
        env=server.environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((schemas.FOLDER / f"{command}.json").read_text()))
    return found


def _walk(server: Server, kernel: Path, data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", "walk", str(kernel), "--case", "gemm/64-f32", "--data", str(data)]
    return subprocess.run(
        command, cwd=CHECKOUT, env=server.environment, capture_output=True, text=True, timeout=RUN_SECONDS
    )
