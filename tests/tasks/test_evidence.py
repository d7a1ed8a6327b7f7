"""The store: durable, read as one, compacted without loss, checked, promoted."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skill_library.records import MODELS, Dataset, KernelRow, Row, kernel_row
from skill_library.schema import arrow_schema
from tasks.evidence import Compaction, Evidence, PromotionRefused, Roots, StoreError, Wrong, compact
from tests.data import make_v1

V1 = Path(__file__).parents[1] / "data" / "v1"
REPOSITORY = Path(__file__).parents[2]
IN_V1: dict[Dataset, int] = {"kernels": 8, "attempts": 5, "transitions": 5, "probes": 5, "roundtrips": 5}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def evidence(root: Path) -> Iterator[Evidence]:
    with Evidence(Roots(root)) as opened:
        yield opened


@pytest.fixture
def now(root: Path) -> Path:
    """A user's root with the same rows, as today's code writes them."""
    make_v1.main(root)
    return root


@pytest.fixture
def v1(root: Path) -> Path:
    """A user's root with the frozen files of schema 1."""
    shutil.copytree(V1, root)
    return root


def ids(root: Path, dataset: Dataset = "attempts") -> list[str]:
    found: list[str] = Evidence(Roots(root)).table(dataset).column(MODELS[dataset].key).to_pylist()
    return found


def journals(root: Path) -> list[Path]:
    return sorted((root / "journal").iterdir())


def parquet_files(root: Path, dataset: Dataset = "attempts") -> list[Path]:
    return sorted((root / "evidence" / dataset).glob("*"))


def counts(root: Path) -> dict[Dataset, int]:
    """Rows by dataset; fails where a row is there twice."""
    found = {dataset: ids(root, dataset) for dataset in MODELS}
    assert all(len(rows) == len(set(rows)) for rows in found.values())
    return {dataset: len(rows) for dataset, rows in found.items() if rows}


class TestAppendAndRead:
    def test_nothing_there_is_an_empty_frame_with_every_column(self, evidence: Evidence, root: Path) -> None:
        frame = evidence.read("attempts")
        assert list(frame.columns) == arrow_schema("attempts").names
        assert len(frame) == 0
        assert not root.exists()

    def test_a_row_is_readable_at_once_by_everybody(self, evidence: Evidence, root: Path) -> None:
        row = make_v1.attempt(1)
        evidence.append(row)
        assert ids(root) == [row.attempt_id]
        found = Evidence(Roots(root)).table("attempts").to_pylist()[0]
        assert found == json.loads(json.dumps(row.model_dump(), default=str)) | {"created": row.created}

    def test_a_row_is_the_same_from_the_journal_and_from_parquet(self, evidence: Evidence) -> None:
        evidence.append(*make_v1.rows(range(1, 4)))
        before = {dataset: evidence.table(dataset) for dataset in MODELS}
        evidence.compact()
        assert all(evidence.table(dataset).equals(before[dataset]) for dataset in MODELS)

    def test_readers_see_each_row_once(self, evidence: Evidence, root: Path) -> None:
        with Evidence(Roots(root)) as other:
            for writer in (evidence, other):
                writer.append(make_v1.attempt(1), kernel_row(make_v1.kernel(1)))
        assert counts(root) == {"attempts": 1, "kernels": 1}

    def test_kernels_are_written_once(self, evidence: Evidence, root: Path) -> None:
        row = kernel_row(make_v1.kernel(1))
        evidence.append(row, row)
        evidence.append(row)
        assert len(journals(root)[0].read_text().splitlines()) == 1
        evidence.compact()
        evidence.append(row)
        assert journals(root) == []

    def test_shipped_rows_are_read_and_never_written(self, tmp_path: Path, root: Path) -> None:
        shipped = tmp_path / "shipped"
        shutil.copytree(V1 / "evidence", shipped / "evidence")
        before = {path: path.read_bytes() for path in shipped.rglob("*.parquet")}
        with Evidence(Roots(root, shipped)) as evidence:
            evidence.append(make_v1.attempt(1), make_v1.attempt(9))
            assert len(evidence.read("attempts")) == 4
            evidence.compact()
            assert len(evidence.read("attempts")) == 4
        assert {path: path.read_bytes() for path in shipped.rglob("*") if path.is_file()} == before

    def test_repetitions_count_the_rows_of_a_run(self, evidence: Evidence) -> None:
        assert evidence.repetitions(make_v1.RUN) == 0
        evidence.append(make_v1.attempt(1))
        evidence.compact()
        assert evidence.repetitions(make_v1.RUN) == 1
        evidence.append(make_v1.attempt(1, repetition=1))
        assert evidence.repetitions(make_v1.RUN) == 2
        assert evidence.repetitions("0" * 16) == 0

    def test_threads_share_a_writer(self, evidence: Evidence, root: Path) -> None:
        rows = [make_v1.attempt(number) for number in range(40)]
        threads = [
            threading.Thread(target=lambda part: [evidence.append(r) for r in part], args=(rows[i::4],))
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(ids(root)) == {row.attempt_id for row in rows}
        assert len(journals(root)) == 1

    def test_a_forked_child_has_a_journal_of_its_own(self, root: Path) -> None:
        subprocess.run([sys.executable, "-c", _FORKS, str(root)], cwd=REPOSITORY, check=True)
        assert len(journals(root)) == 2
        assert len(ids(root)) == 3

    def test_no_machine_is_named_in_what_is_stored(self, evidence: Evidence, root: Path) -> None:
        texts = {
            "reason": "cannot open /nfs/people/bob/x.cl",
            "log": "/home/bob/.cache/pocl/k.cl:3:1: error: expected ';'",
            "environment": '{"cache":"/home/bob/cache","driver":"3.0"}',
            "writer": '{"prompt":"/home/bob/prompts/p.txt"}',
        }
        # model_copy validates nothing, so the store must.
        evidence.append(make_v1.attempt(2).model_copy(update=texts))
        evidence.compact()
        row = pd.read_parquet(root / "evidence" / "attempts").iloc[0]
        assert row["log"] == "<path>/k.cl:3:1: error: expected ';'"
        for name in texts:
            assert "<path>" in row[name]
            assert "bob" not in row[name]
        assert not any(b"/home/" in path.read_bytes() for path in parquet_files(root))


class TestFirstSchema:
    def test_todays_code_reads_the_frozen_files(self, v1: Path) -> None:
        evidence = Evidence(Roots(v1))
        assert counts(v1) == IN_V1
        frame = evidence.read("attempts")
        assert frame["status"].tolist() == ["ok", "wrong_value", "ok", "ok", "wrong_value"]
        assert frame["ratio"].notna().tolist() == [True, False, True, True, False]
        assert {finding.wrong for finding in evidence.check()} == {Wrong.WRONG_SCHEMA}
        assert evidence.read("transitions")["prior"].isna().all(), "older rows do not know it"

    def test_compacting_brings_them_up_to_date(self, v1: Path) -> None:
        evidence = Evidence(Roots(v1))
        evidence.compact()
        assert evidence.check() == ()
        assert counts(v1) == IN_V1
        assert evidence.compact() == Compaction({}, 0, ())

    @pytest.mark.parametrize("dataset", MODELS)
    def test_plain_pandas_reads_every_dataset(self, v1: Path, dataset: Dataset) -> None:
        Evidence(Roots(v1)).compact()
        frame = pd.read_parquet(v1 / "evidence" / dataset)
        assert list(frame.columns) == arrow_schema(dataset).names
        assert len(frame) == IN_V1[dataset]
        again = pa.Table.from_pandas(frame, schema=arrow_schema(dataset), preserve_index=False)
        assert again.equals(Evidence(Roots(v1)).table(dataset))

    @pytest.mark.parametrize(
        ("dataset", "column"),
        [
            ("attempts", "clean"),
            ("attempts", "pairs"),
            ("attempts", "attempt_id"),
            ("kernels", "kernel_id"),
            ("probes", "dims"),
            ("transitions", "standing"),
            ("roundtrips", "created"),
        ],
    )
    def test_a_file_without_a_column_is_read_and_rewritten(self, now: Path, dataset: Dataset, column: str) -> None:
        (path,) = parquet_files(now, dataset)
        pq.write_table(pq.read_table(path).drop_columns([column]), path)
        evidence = Evidence(Roots(now))
        assert evidence.table(dataset).schema.equals(arrow_schema(dataset))
        assert len(evidence.read(dataset)) == IN_V1[dataset]
        assert Wrong.WRONG_SCHEMA in {finding.wrong for finding in evidence.check()}
        evidence.compact()
        (path,) = parquet_files(now, dataset)
        assert pq.read_schema(path).equals(arrow_schema(dataset))
        assert pq.read_schema(path).metadata == arrow_schema(dataset).metadata
        frame = pd.read_parquet(now / "evidence" / dataset)
        assert list(frame.columns) == arrow_schema(dataset).names
        assert len(frame) == IN_V1[dataset]
        if column == MODELS[dataset].key:
            assert evidence.check() == ()

    def test_a_journal_line_without_a_field_is_read(self, v1: Path) -> None:
        (path,) = journals(v1)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["row"].pop("clean", None)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        Evidence(Roots(v1)).compact()
        assert counts(v1) == IN_V1

    @pytest.mark.parametrize("dataset", MODELS)
    def test_a_column_of_a_newer_schema_is_not_dropped(self, v1: Path, dataset: Dataset) -> None:
        (path,) = parquet_files(v1, dataset)
        table = pq.read_table(path)
        pq.write_table(table.append_column("novel", pa.array(["x"] * len(table))), path)
        before = path.read_bytes()
        left = Evidence(Roots(v1)).compact().left
        assert left == (f"evidence/{dataset}/{path.name}: of a newer schema",)
        assert path.read_bytes() == before
        assert counts(v1) == IN_V1


class TestCompaction:
    def test_journals_become_one_file_for_each_dataset(self, evidence: Evidence, root: Path) -> None:
        for number in range(3):
            evidence.append(*make_v1.rows(range(number, number + 1)))
            done = evidence.compact()
        assert done.rows == {"kernels": 6, "attempts": 3, "transitions": 3, "probes": 3, "roundtrips": 3}
        assert journals(root) == []
        assert all(len(parquet_files(root, dataset)) == 1 for dataset in MODELS)
        assert evidence.compact() == Compaction({}, 0, ())

    def test_many_small_files_become_one(self, evidence: Evidence, root: Path) -> None:
        evidence.append(*make_v1.rows(range(1, 4)))
        evidence.compact()
        (path,) = parquet_files(root)
        for number in range(20):
            shutil.copy(path, path.with_name(f"{number:02}.parquet"))
        evidence.compact()
        assert parquet_files(root) == [path]
        assert len(pd.read_parquet(path)) == 3

    def test_the_journal_of_a_living_writer_stays(self, evidence: Evidence, root: Path) -> None:
        evidence.append(make_v1.attempt(1))
        assert compact(root).left == (f"journal/{journals(root)[0].name}: its writer lives",)
        evidence.append(make_v1.attempt(2))
        assert len(ids(root)) == 2
        evidence.close()
        assert compact(root).journals == 1
        assert len(ids(root)) == 2

    def test_one_that_waits_finds_the_work_done(self, now: Path) -> None:
        done: list[Compaction] = []
        threads = [threading.Thread(target=lambda: done.append(compact(now))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(len(found.rows) for found in done) == [0, 0, 0, 5]
        assert counts(now) == IN_V1

    def test_readers_see_every_row_all_the_time(self, now: Path) -> None:
        stop = threading.Event()
        seen: set[int] = set()

        def look() -> None:
            while not stop.is_set():
                seen.add(len(ids(now)))

        reader = threading.Thread(target=look)
        reader.start()
        with Evidence(Roots(now)) as evidence:
            for _ in range(8):
                evidence.append(make_v1.attempt(1))
                evidence.compact()
        stop.set()
        reader.join()
        assert seen == {5}

    def test_a_torn_end_is_passed_over_and_goes(self, now: Path) -> None:
        (path,) = journals(now)
        with path.open("ab") as file:
            file.write(b'{"format":1,"dataset":"attempts","row":{"attempt')
        assert [finding.wrong for finding in Evidence(Roots(now)).check()] == [Wrong.TORN_LINE]
        assert counts(now) == IN_V1
        Evidence(Roots(now)).compact()
        assert journals(now) == []
        assert counts(now) == IN_V1

    @pytest.mark.parametrize(
        "line",
        [
            b"garbage",
            b'{"format":3,"dataset":"attempts","row":{}}',
            b'{"format":1,"dataset":"attempts","row":{"pairs":"many"}}',
            b'{"format":1,"dataset":"attempts","row":{"novel":1}}',
            b'{"format":1,"dataset":"novels","row":{}}',
            b"[]",
        ],
    )
    def test_a_journal_with_damage_is_read_and_stays(self, now: Path, line: bytes) -> None:
        (path,) = journals(now)
        path.write_bytes(line + b"\n" + path.read_bytes())
        assert [finding.wrong for finding in Evidence(Roots(now)).check()] == [Wrong.DAMAGED_LINE]
        for _ in range(2):
            Evidence(Roots(now)).compact()
            assert journals(now) == [path]
            assert counts(now) == IN_V1

    def test_a_file_that_cannot_be_read_stays_and_is_named(self, now: Path) -> None:
        (path,) = parquet_files(now)
        path.write_bytes(b"PAR1 no more PAR1")
        evidence = Evidence(Roots(now))
        with pytest.raises(StoreError, match=r"attempts/attempts.parquet cannot be read"):
            evidence.read("attempts")
        assert Wrong.UNREADABLE_FILE in {finding.wrong for finding in evidence.check()}
        assert evidence.compact().left == ("evidence/attempts/attempts.parquet: cannot be read",)
        assert path.read_bytes() == b"PAR1 no more PAR1"
        path.unlink()
        assert len(ids(now)) == 2


class TestKilled:
    def test_acknowledged_rows_outlive_sigkill(self, root: Path) -> None:
        acknowledged: list[str] = []
        for _ in range(3):
            writer = subprocess.Popen(
                [sys.executable, "-c", _APPENDS, str(root), str(len(acknowledged))],
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert writer.stdout is not None
            acknowledged.append(writer.stdout.readline().strip())
            time.sleep(random.uniform(0, 0.08))
            writer.kill()
            acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
            writer.wait()
            if len(acknowledged) % 2:
                compact(root)
        compact(root)
        found = ids(root)
        assert len(found) == len(set(found))
        assert set(acknowledged) <= set(found)
        # One row at most for each kill was durable and not yet acknowledged.
        assert len(found) <= len(acknowledged) + 3
        assert Evidence(Roots(root)).read("kernels")["kernel_id"].is_unique

    def test_a_compaction_killed_at_any_step_loses_and_doubles_nothing(self, now: Path, tmp_path: Path) -> None:
        (now / "evidence/attempts/old.parquet").write_bytes((now / "evidence/attempts/attempts.parquet").read_bytes())
        shutil.copytree(now, tmp_path / "dry")
        steps: list[str] = []
        compact(tmp_path / "dry", step=steps.append)
        assert len(steps) == 14
        subprocess.run(
            [sys.executable, "-c", _COMPACTS_AND_IS_KILLED, str(now), str(tmp_path), str(len(steps))],
            cwd=REPOSITORY,
            check=True,
        )
        for number in range(len(steps)):
            killed = tmp_path / f"killed{number}"
            assert counts(killed) == IN_V1, steps[number]
            compact(killed)
            assert journals(killed) == []
            for dataset in MODELS:
                assert [path.name for path in parquet_files(killed, dataset)] == [f"{dataset}.parquet"], steps[number]
                assert len(pd.read_parquet(killed / "evidence" / dataset)) == IN_V1[dataset]

    def test_a_second_writer_is_not_disturbed_by_compactions(self, root: Path) -> None:
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", _APPENDS, str(root), str(start), "60"],
                cwd=REPOSITORY,
                stdout=subprocess.PIPE,
                text=True,
            )
            for start in (0, 1000)
        ]
        while any(writer.poll() is None for writer in writers):
            compact(root)
            time.sleep(0.01)
        acknowledged = [line.strip() for writer in writers for line in writer.stdout or ()]
        assert len(acknowledged) == 120
        compact(root)
        assert sorted(ids(root)) == sorted(acknowledged)


class TestUnwritable:
    def test_a_file_where_the_root_should_be(self, root: Path) -> None:
        root.write_text("")
        with pytest.raises(StoreError, match="a file stands where a folder should be") as raised:
            Evidence(Roots(root)).append(make_v1.attempt(1))
        assert str(root) not in str(raised.value)
        assert len(Evidence(Roots(root)).read("attempts")) == 0

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_root_without_permission(self, root: Path) -> None:
        root.mkdir(mode=0o500)
        with pytest.raises(StoreError, match="permission denied"):
            Evidence(Roots(root)).append(make_v1.attempt(1))

    @pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EROFS, errno.EIO])
    def test_what_the_disk_says_becomes_one_error(
        self, evidence: Evidence, root: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        evidence.append(make_v1.attempt(1))
        sync = os.fsync

        def fails(descriptor: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(StoreError, match="cannot keep a row"):
            evidence.append(make_v1.attempt(2))
        monkeypatch.setattr(os, "fsync", sync)
        assert len(ids(root)) == 1
        evidence.append(make_v1.attempt(3))
        evidence.compact()
        assert len(ids(root)) == 2

    def test_a_limit_in_the_middle_of_a_line(self, root: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-c", _FILLS_UP, str(root)], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        *acknowledged, error, error_of_compaction = done.stdout.splitlines()
        assert error == "evidence store: cannot keep a row: the limit on file size is reached"
        assert error_of_compaction == "evidence store: cannot compact: the limit on file size is reached"
        assert ids(root) == acknowledged
        assert {finding.wrong for finding in Evidence(Roots(root)).check()} == {Wrong.MISSING_KERNEL}
        compact(root)
        assert ids(root) == acknowledged
        assert journals(root) == []

    def test_a_compaction_that_cannot_write_loses_nothing(self, now: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(descriptor: int, data: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StoreError, match="cannot compact: no space left"):
            compact(now)
        monkeypatch.undo()
        assert counts(now) == IN_V1
        assert len(parquet_files(now, "kernels")) == 1


class TestCheck:
    def test_a_whole_store_has_no_findings(self, evidence: Evidence) -> None:
        evidence.append(*make_v1.rows(range(1, 4)))
        assert evidence.check() == ()

    @pytest.mark.parametrize(
        ("column", "value", "wrong"),
        [
            ("repetition", 7, Wrong.WRONG_ID),
            ("kernel_id", "0" * 16, Wrong.MISSING_KERNEL),
            ("log", "see /home/bob/x.cl", Wrong.MACHINE_PATH),
            ("case", "/nfs/bob/case", Wrong.MACHINE_PATH),
            ("error", 0.5, Wrong.DUPLICATE_ID),
        ],
    )
    def test_finds_a_row_that_was_tampered_with(self, now: Path, column: str, value: object, wrong: Wrong) -> None:
        (path,) = parquet_files(now)
        rows = pq.read_table(path).to_pylist()
        changed = pa.Table.from_pylist([rows[0] | {column: value}], schema=arrow_schema("attempts"))
        pq.write_table(changed, path.with_name("more.parquet"))
        findings = Evidence(Roots(now)).check()
        assert wrong in {finding.wrong for finding in findings}
        assert {finding.where for finding in findings} == {"user/evidence/attempts/more.parquet"}

    def test_finds_a_row_twice_in_one_file(self, now: Path) -> None:
        (path,) = parquet_files(now)
        table = pq.read_table(path)
        pq.write_table(pa.concat_tables([table, table]), path)
        assert {finding.wrong for finding in Evidence(Roots(now)).check()} == {Wrong.DUPLICATE_ID}

    def test_finds_a_path_in_a_kernel(self, evidence: Evidence) -> None:
        evidence.append(_with_path())
        assert [finding.wrong for finding in evidence.check()] == [Wrong.MACHINE_PATH]


class TestPromote:
    def test_copies_rows_with_their_kernels(self, now: Path, tmp_path: Path) -> None:
        shipped = tmp_path / "shipped"
        evidence = Evidence(Roots(now, shipped))
        assert evidence.promote(runs=["0" * 16]) == dict.fromkeys(MODELS, 0)
        assert evidence.promote(runs=[make_v1.RUN]) == IN_V1
        assert evidence.promote() == dict.fromkeys(MODELS, 0)
        assert {dataset: len(pd.read_parquet(shipped / "evidence" / dataset)) for dataset in MODELS} == IN_V1
        assert evidence.check() == ()
        assert counts(now) == IN_V1

    def test_refuses_a_kernel_with_a_path(self, now: Path, tmp_path: Path) -> None:
        with Evidence(Roots(now, tmp_path / "shipped")) as evidence:
            evidence.append(_with_path())
            with pytest.raises(PromotionRefused, match="column text holds a path of a machine"):
                evidence.promote()
        assert not (tmp_path / "shipped").exists()

    def test_refuses_a_row_without_its_kernel(self, evidence: Evidence, root: Path, tmp_path: Path) -> None:
        evidence.append(make_v1.attempt(1))
        with pytest.raises(PromotionRefused, match="not stored"):
            Evidence(Roots(root, tmp_path / "shipped")).promote()

    def test_needs_somewhere_to_ship_to(self, evidence: Evidence) -> None:
        with pytest.raises(StoreError, match="no shipped root"):
            evidence.promote()


class TestRoots:
    def test_the_nearer_word_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        environ = {"KLINEAGE_DATA": "env"}
        assert Roots.find(environ={}).user == tmp_path / ".klineage"
        assert Roots.find(environ=environ).user == tmp_path / "env"
        assert Roots.find(data=Path("given"), environ=environ).user == tmp_path / "given"

    def test_shipped_is_the_checkouts_or_the_given_folder(self, tmp_path: Path) -> None:
        assert Roots.find().shipped in (REPOSITORY / "data", None)
        assert Roots.find(shipped=tmp_path).shipped == tmp_path
        with pytest.raises(StoreError, match="--shipped"):
            Roots.find(shipped=tmp_path / "none")

    def test_readers_can_say_that_nothing_is_shipped(self, tmp_path: Path) -> None:
        assert "--shipped" in (Roots(tmp_path).note or "")
        assert Roots(tmp_path, tmp_path).note is None


def _with_path() -> Row:
    text = make_v1.kernel(1).text + '#include "/home/bob/fast.h"\n'
    return KernelRow(kernel_id=KernelRow.derived_id({"text": text}), surface="opencl", text=text, workload="gemm")


_APPENDS = """
import itertools, sys
from pathlib import Path
from skill_library.records import kernel_row
from tasks.evidence import Evidence, Roots
from tests.data import make_v1
root, start, count = Path(sys.argv[1]), int(sys.argv[2]), int((*sys.argv, 10**6)[3])
evidence = Evidence(Roots(root))
for number in range(start, start + count):
    row = make_v1.attempt(number)
    evidence.append(kernel_row(make_v1.kernel(1)), row)
    print(row.attempt_id, flush=True)
"""
"""Acknowledges each row on its output."""

_FORKS = """
import os, sys
from pathlib import Path
from tasks.evidence import Evidence, Roots
from tests.data import make_v1
evidence = Evidence(Roots(Path(sys.argv[1])))
evidence.append(make_v1.attempt(1))
child = os.fork()
if child == 0:
    evidence.append(make_v1.attempt(2))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
evidence.append(make_v1.attempt(3))
"""

_COMPACTS_AND_IS_KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from tasks.evidence import compact
for number in range(int(sys.argv[3])):
    root = shutil.copytree(sys.argv[1], Path(sys.argv[2]) / f"killed{number}")
    child = os.fork()
    if child == 0:
        steps = []
        def step(name):
            steps.append(name)
            if len(steps) > number:
                os.kill(os.getpid(), signal.SIGKILL)
        compact(Path(root), step=step)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""

_FILLS_UP = """
import resource, sys
from pathlib import Path
from tasks.evidence import Evidence, Roots, StoreError, compact
from tests.data import make_v1
root = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))
evidence = Evidence(Roots(root))
try:
    for number in range(1000):
        row = make_v1.attempt(number)
        evidence.append(row)
        print(row.attempt_id)
except StoreError as error:
    print(error)
evidence.close()
try:
    compact(root)
except StoreError as error:
    print(error)
"""
