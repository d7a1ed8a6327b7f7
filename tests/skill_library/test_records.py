"""Row models, their ids and schema, and what is scrubbed from them."""

from __future__ import annotations

import io
import json
import string
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from experts.verdict import GateReport, Stage, Status, Verdict
from skill_library.records import (
    MODELS,
    AttemptRow,
    Dataset,
    KernelRow,
    attempt_id,
    attempt_row,
    kernel_row,
    run_id,
)
from skill_library.schema import arrow_schema, arrow_type
from skill_library.scrub import Machine, machine_paths, scrub, scrub_json, scrub_paths
from tests.data import make_v1

MACHINE = Machine(("gpu-box-7", "gpu-box-7.corp.example"), ("alice",), ("/home/alice", "/srv/My Home/alice"))


class TestSchema:
    @pytest.mark.parametrize("dataset", MODELS)
    def test_has_a_flat_column_for_each_field(self, dataset: Dataset) -> None:
        schema = arrow_schema(dataset)
        assert schema.names == list(MODELS[dataset].model_fields)
        assert not any(
            pa.types.is_null(field.type) or pa.types.is_nested(field.type)
            for field in schema
            if field.type not in _LISTS
        )

    @pytest.mark.parametrize("dataset", MODELS)
    def test_columns_of_nulls_survive_plain_pandas(self, dataset: Dataset) -> None:
        schema = arrow_schema(dataset)
        frame = _through_pandas(pa.Table.from_pylist([{MODELS[dataset].key: "0" * 16}], schema=schema))
        assert list(frame.columns) == schema.names
        again = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
        assert again.schema.equals(schema)
        assert sum(column.null_count for column in again.columns) == len(schema) - 1

    def test_plain_pandas_keeps_whole_numbers_and_truth_values(self) -> None:
        rows = [make_v1.attempt(1).model_dump(), make_v1.attempt(2).model_dump()]
        frame = _through_pandas(pa.Table.from_pylist(rows, schema=arrow_schema("attempts")))
        assert frame["pairs"].dtype == "Int64"
        assert frame["pairs"].tolist() == [3, pd.NA]
        assert frame["clean"].dtype == "boolean"
        assert str(frame["created"].dtype) == "datetime64[us, UTC]"
        assert list(frame["candidate_samples_us"][0]) == [811.0, 812.5, 815.25]

    @pytest.mark.parametrize("annotation", [dict[str, int], Literal["a", 1], int | str, tuple[int, str], object])
    def test_refuses_what_has_no_column(self, annotation: object) -> None:
        with pytest.raises(TypeError, match="no flat column"):
            arrow_type(annotation)


class TestIds:
    def test_every_row_is_named_by_its_fields(self) -> None:
        for row in make_v1.rows(range(1, 3)):
            assert getattr(row, row.key) == row.derived_id(row.model_dump())

    def test_a_row_with_another_id_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="attempt_id is not the hash"):
            AttemptRow.model_validate(make_v1.attempt(1).model_dump() | {"repetition": 1})
        with pytest.raises(ValidationError, match="kernel_id is not the hash"):
            KernelRow(kernel_id="0" * 16, surface="opencl", text="x\n", workload="gemm")

    def test_each_part_counts(self) -> None:
        base = dict(parent_id="a", kernel_id="b", baseline_id="c", case_id="d", purpose="chain", repetition=0)
        other = dict(parent_id=None, kernel_id="x", baseline_id="x", case_id="x", purpose="forward", repetition=1)
        ids = {attempt_id("r", **base | {name: value}) for name, value in other.items()}  # type: ignore[arg-type]
        assert len(ids | {attempt_id("r", **base), attempt_id("q", **base)}) == len(other) + 2  # type: ignore[arg-type]

    def test_configuration_is_part_of_a_run(self) -> None:
        def run(configuration: dict[str, object]) -> str:
            return run_id("walk", kernel_id="a", case_id="b", env_id="c", gate_version=1, configuration=configuration)

        assert run({"x": 1, "y": 2}) == run({"y": 2, "x": 1}) != run({"x": 1})


class TestAttemptRow:
    def test_takes_over_the_whole_verdict(self) -> None:
        row = make_v1.attempt(1)
        assert (row.outcome, row.stage, row.status, row.effect) == ("passed", "profile", "ok", "faster")
        assert (row.ratio, row.pairs, row.binary_bytes, row.error) == (1.2, 3, 20480, 0.031)
        assert row.domain_refused == ("M=1,N=1,K=1",)
        assert row.baseline_samples_us == (974.0, 975.0, 981.0)
        assert (row.baseline_id, row.baseline_outcome, row.baseline_status) == (row.parent_id, "passed", "ok")
        assert json.loads(row.environment) == make_v1.ENVIRONMENT
        assert row.workload == "gemm"

    def test_what_was_not_measured_is_none(self) -> None:
        row = make_v1.attempt(2)
        assert row.status is Status.WRONG_VALUE
        assert (row.ratio, row.candidate_samples_us, row.registers, row.clean, row.cost_usd) == (None,) * 5

    def test_a_text_that_is_no_kernel_has_a_row(self) -> None:
        verdict = Verdict(
            outcome="rejected",
            stage=Stage.PARSE,
            status=Status.INVALID_KERNEL,
            reason="no manifest",
            kernel_id="f" * 16,
            case=make_v1.CASE,
            case_id=make_v1.CASE_ID,
            platform=make_v1.PLATFORM,
            tier="default",
        )
        report = GateReport(verdict=verdict, environment={}, env_id=make_v1.ENV_ID, kept="kept")
        row = attempt_row(report, run_id=make_v1.RUN, purpose="gate")
        assert (row.kernel_id, row.baseline_id, row.seconds, row.domain_checked) == ("f" * 16, None, "{}", None)

    def test_created_is_in_utc(self) -> None:
        moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
        row = AttemptRow.model_validate(make_v1.attempt(1).model_dump() | {"created": moment})
        assert row.created == moment
        assert row.created.tzinfo is UTC

    def test_fields_are_closed_and_frozen(self) -> None:
        row = make_v1.attempt(1)
        with pytest.raises(ValidationError):
            AttemptRow.model_validate(row.model_dump() | {"speed": 1})
        with pytest.raises(ValidationError):
            row.reason = "x"  # type: ignore[misc]


class TestScrub:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("/tmp/pocl_cache/AB/x/program.cl:12:3: error: no 'foo'", "<path>/program.cl:12:3: error: no 'foo'"),
            ("cc -I/home/alice/inc -L/nfs/a/lib", "cc -I<path> -L<path>"),
            ('File "/home/John Smith/a b.py", line 3', 'File "<path>/a b.py", line 3'),
            ("/usr/bin/ld: cannot find -lOpenCL", "<path>/ld: cannot find -lOpenCL"),
            ("in /home/alice, /home/bob/ and file:///home/q/x.cl", "in <path>, <path> and <path>/x.cl"),
            ("/srv/My Home/alice/x.cl", "<path>/x.cl"),
            ("\x1b[1m/nfs/p/kern.cl\x1b[0m:1", "<path>/kern.cl:1"),
            ("PATH=/a/b:/c/d", "PATH=<path>:<path>"),
            (r"C:\Users\bob\x.cl", "<path>/x.cl"),
            ("gpu-box-7.corp.example: GPU-BOX-7 alice_cache", "<host>: <host> <user>_cache"),
            ("alicex malice", "alicex malice"),
            ("from 10.1.2.3:80, fe80::1, aa:bb:cc:dd:ee:ff", "from <address>:80, <address>, <address>"),
            ("version 12.4.5.8, cublas-12.4.5.8, 550.54.15", "version 12.4.5.8, cublas-12.4.5.8, 550.54.15"),
            ("GPU-550e8400-e29b-41d4-a716-446655440000", "GPU-<uuid>"),
            ("tmpab12_cde tmp.Xy1234567 tmp_value", "<tmp> <tmp> tmp_value"),
        ],
    )
    def test_takes_out(self, text: str, expected: str) -> None:
        assert scrub(text, MACHINE) == expected
        assert scrub(expected, MACHINE) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "ratio = t(baseline) / t(candidate), rows/cols, gemm/M=512,N=300,K=64-f32",
            "x = a /b; y = c/d/e; // see ./x/y ../z/w ~/u",
            "https://github.com/pocl/pocl/issues/1",
            "expected '/' or '/*' in 'a/b'",
            'printf("%d:\\n\\t")',
            "std::max(a::b, c)",
            "error: use of undeclared identifier 'get_global_size'; 3.5e-7 of 1.0",
        ],
    )
    def test_leaves_alone(self, text: str) -> None:
        assert scrub(text, MACHINE) == text

    def test_short_and_generic_names_stay(self) -> None:
        machine = Machine(("vm", "localhost"), ("root", "al", "ubuntu"), ("/", ""))
        assert scrub("vm localhost root al ubuntu", machine) == "vm localhost root al ubuntu"
        assert machine.words is None

    def test_json_is_scrubbed_inside(self) -> None:
        text = json.dumps({"driver": "9.1.0.70", "log": ["a\n/home/alice/x/y.cl"], "n": 1, "alice": None})
        assert json.loads(scrub_json(text, MACHINE)) == {
            "driver": "9.1.0.70",
            "log": ["a\n<path>/y.cl"],
            "n": 1,
            "<user>": None,
        }

    def test_source_code(self) -> None:
        source = '#include "/nfs/x.h"\n#include </a/b>\nq = x/tmp/y + a/home/b; y = z /c/d; // from /proj/al/x.cu\n'
        assert machine_paths(source, MACHINE) == ("/nfs/x.h", "/a/b", "/proj/al/x.cu")
        assert machine_paths("float q = a/b; // https://a.example/b/c/d\n/* a */ x = *p / *q;", MACHINE) == ()

    @given(st.text(st.sampled_from(string.printable + "é\x1b<>~ /alicegpu-box7"), max_size=60))
    def test_twice_is_once(self, text: str) -> None:
        once = scrub(text, MACHINE)
        assert scrub(once, MACHINE) == once
        assert scrub_paths(once, MACHINE) == once

    @given(st.lists(st.sampled_from([*" ab/.\"'<>:-~\n", "/home/", "tmp", "alice", "tmpa1b2c3d4", "//"]), max_size=30))
    def test_twice_is_once_near_paths(self, pieces: list[str]) -> None:
        once = scrub("".join(pieces), MACHINE)
        assert scrub(once, MACHINE) == once

    @given(
        st.lists(
            st.text(string.ascii_letters + string.digits + "._-+=@é", min_size=1, max_size=12), min_size=2, max_size=6
        ),
        st.sampled_from(["", "error: ", "(", '"', "x=", " -I", "a:", "\n", "\x1b[31m", "[", "'", "ü "]),
        st.sampled_from(["", ": no such file", ")", '"', "\n", ",", "'", " and", "\x1b[0m"]),
    )
    def test_no_path_survives(self, parts: list[str], before: str, after: str) -> None:
        path = "/" + "/".join(f"d{part}" for part in parts)
        clean = scrub(before + path + after, MACHINE)
        assert "/".join(f"d{part}" for part in parts[:-1]) + "/" not in clean.removeprefix("<path>")
        assert path not in clean
        assert "<path>" in clean

    @given(
        st.sampled_from(["alice", "gpu-box-7", "ALICE"]),
        st.sampled_from(["", " ", "@", "_", "-", "(", ".", "\n"]),
        st.sampled_from(["", " ", "@", "_", "-", ")", ".", "'s"]),
    )
    def test_no_name_survives(self, name: str, before: str, after: str) -> None:
        assert name not in scrub(f"x{before and ' '}{before}{name}{after}" if before else name + after, MACHINE)

    @given(st.text(string.ascii_lowercase + string.digits + " .,;:()+*=_\n", max_size=80))
    def test_text_that_names_nothing_is_unchanged(self, text: str) -> None:
        if "tmp" not in text and "alice" not in text and text.count(".") < 3 and text.count(":") < 2:
            assert scrub(text, MACHINE) == text

    def test_what_is_not_utf8_can_be_stored(self) -> None:
        assert scrub("a\udc80b", MACHINE) == "a?b"


def test_free_texts_are_scrubbed_in_the_row_and_the_kernel_text_is_not() -> None:
    row = AttemptRow.model_validate(
        make_v1.attempt(2).model_dump()
        | {
            "reason": "cannot open /nfs/people/bob/x.cl",
            "log": "/tmp/tmpab12cd34/k.cl:3: error",
            "environment": '{"cache": "/var/cache/pocl/"}',
            "writer": '{"prompt": "/nfs/people/bob/p.txt"}',
        }
    )
    assert row.reason == "cannot open <path>/x.cl"
    assert row.log == "<path>/k.cl:3: error"
    assert row.environment == '{"cache":"<path>"}'
    assert row.writer == '{"prompt":"<path>/p.txt"}'
    kernel = make_v1.kernel(1)
    text = kernel.text + "// from /home/bob/x/gemm.cl\n"
    assert kernel_row(kernel.model_copy(update={"text": text})).text == text


_LISTS = (pa.list_(pa.string()), pa.list_(pa.float64()))


def _through_pandas(table: pa.Table) -> pd.DataFrame:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    sink.seek(0)
    return pd.read_parquet(sink)
