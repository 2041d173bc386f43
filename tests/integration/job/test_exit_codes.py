"""``chsink run`` on bad input: what it says and how it exits, on real services, before the first record.

The command runs in this process, in the session of all tests; only the end of that session is held back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.embedded.base.ports import free_port
from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.integration.job.conftest import MakeJob
from tests.support.job import DATABASE, Job, command
from tests.support.told import says

Run = Callable[..., Result]


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run(job, {"dotted.key": value})``: ``chsink run -c job.toml --set …``."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)

    def invoke(job: Job, overrides: Mapping[str, Any] | None = None) -> Result:
        chosen = {**job.settings, **(overrides or {})}
        sets = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
        return CliRunner().invoke(app, ["run", "-c", str(job.file()), *sets])

    return invoke


_OF_A_SERVER = re.compile(r"-{40}\nException occurred during processing of request.*?-{40}\n", re.DOTALL)
"""A thread of pyspark's that serves the Spark of an earlier test says that its client is gone."""


def refused(result: Result, code: int, id: str, *named: str) -> None:
    """It exits with the code, and says the id, what is wrong and the fix; no traceback."""
    said = result.output
    assert result.exit_code == code, said
    assert f"error {id} " in said
    assert "  fix: " in said
    assert "Traceback" not in _OF_A_SERVER.sub("", said)
    for name in named:
        assert name in said


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """A sink that is right as it is, with a record waiting."""
    job = make_job(partitions=1)
    job.send(0, 3)
    return job


def test_what_is_wrong_is_said_and_then_it_runs(job: Job, run: Run) -> None:
    """Every refusal leaves the sink as it was; put right, the same job lands everything and exits with 0."""
    topic, table = job.topic, job.tables[job.topic]
    nobody = f"127.0.0.1:{free_port()}"
    taken = int(job.shards[0].rsplit(":", 1)[1])
    wrong: list[tuple[dict[str, Any], int, str, list[str]]] = [
        ({"kafka.bootstrap": nobody, "kafka.timeout_s": 3}, 5, "CHS-702", [nobody, "kafka.bootstrap"]),
        ({"clickhouse.endpoints": f'["http://{nobody}"]', "state.timeout_s": 2}, 5, "CHS-701", [nobody]),
        (
            {
                "clickhouse.endpoints": f'["http://{nobody}"]',
                "state.url": job.shards[0],
                "clickhouse.retry_for_s": 1,
            },
            5,
            "CHS-709",
            [nobody],
        ),
        ({"trigger.mode": "continuous"}, 2, "CHS-104", ["trigger.mode", "continuous processing has no micro-batches"]),
        ({"trigger.mode": "real_time"}, 2, "CHS-104", ["trigger.mode", "real-time mode"]),
        ({"kafka.options.minPartitions": 4}, 2, "CHS-105", ["minPartitions", "splits"]),
        ({"observe.metrics_port": taken}, 2, "CHS-235", [str(taken), "observe.metrics_port"]),
        ({"clickhouse.user": "nobody"}, 2, "CHS-232", ["nobody", "clickhouse.user"]),
        ({"clickhouse.database": "nowhere"}, 2, "CHS-220", ["CREATE DATABASE `nowhere`"]),
        ({"kafka.bootstap": "x:1"}, 2, "CHS-102", ["kafka.bootstap", "bootstrap"]),
    ]
    for overrides, code, what, named in wrong:
        refused(run(job, overrides), code, what, *named)

    job.tables = {f"{topic}-missing": table}
    refused(run(job), 2, "CHS-201", f"{topic}-missing", f"did you mean '{topic}'?")
    job.tables = {topic: f"{DATABASE}.nowhere"}
    missing = run(job)
    refused(missing, 2, "CHS-202", f"{DATABASE}.nowhere")
    assert "Spark is up" not in missing.output
    job.tables = {topic: table}

    assert job.landed() == []
    done = run(job)
    assert done.exit_code == 0
    begins = [done.output.index(said) for said in ("starting Spark", "Spark is up", "claimed", "landed", "] ended ")]
    assert begins == sorted(begins)
    job.check()


def test_tables_that_cannot_carry_the_promise(job: Job, run: Run) -> None:
    window = "SETTINGS non_replicated_deduplication_window"
    table = job.tables[job.topic]
    for suffix, columns, engine, what, named in (
        ("_log", "", "ENGINE = Log", "CHS-203", "Log"),
        ("_off", "", f"ENGINE = MergeTree ORDER BY tuple() {window} = 0", "CHS-210", window.split()[1]),
        (
            "_now",
            "id UInt64, text String, at DateTime DEFAULT now()",
            f"ENGINE = MergeTree PARTITION BY toDate(at) ORDER BY tuple() {window} = 100",
            "CHS-206",
            "at",
        ),
        ("_agg", "id UInt64, n AggregateFunction(sum, UInt64)", "", "CHS-214", "n"),
    ):
        made = job.make_table(job.topic, columns=columns, engine=engine, suffix=suffix)
        refused(run(job), 2, what, made, named)
    job.tables[job.topic] = table
    assert job.landed() == []


@pytest.mark.soak
def test_server_without_keeper_map(job: Job, run: Run, tmp_path: Path) -> None:
    with EmbeddedClickHouse(tmp_path / "alone") as server:
        command(server.url, f"CREATE DATABASE {DATABASE}")
        job.shards = [server.url]
        job.make_table(job.topic)
        refused(run(job), 2, "CHS-220", "state")
        assert job.landed() == []


def test_bad_value_exits_with_3(job: Job, run: Run) -> None:
    job.send_values(0, [{"id": "none of your business", "text": "x"}])
    result = run(job)
    refused(result, 3, "CHS-501", f"topic '{job.topic}' partition 0 offset 3", "'id'", "on_bad_value")
    assert "none of your business" not in result.output


@pytest.mark.soak
@pytest.mark.exit_of("CHECKPOINT_DAMAGED")
def test_damaged_checkpoint_is_named_and_a_new_one_goes_on(job: Job, run: Run) -> None:
    """Spark would fail on it at every start, without a name; nothing is claimed or read meanwhile."""
    assert run(job).exit_code == 0
    job.send(0, 4)
    assert run(job).exit_code == 0
    job.send(0, 5)
    plan = job.checkpoint / "offsets" / "1"
    whole = plan.read_text()
    plan.write_text(whole[:-9])
    refused(run(job), 3, "CHS-316", "offsets/1 cannot be read: its checksum is wrong", "sink.checkpoint")
    (plan.parent / ".1.crc").unlink()
    refused(run(job), 3, "CHS-316", "offsets/1 is cut off")
    plan.write_text(whole)
    (job.checkpoint / "metadata").unlink()
    refused(run(job), 3, "CHS-316", "its file metadata is missing")
    (job.checkpoint / ".metadata.crc").unlink()
    said = run(job)
    refused(said, 3, "CHS-316", "its file metadata is missing")
    says(said, "set sink.checkpoint to a new folder")
    job.checkpoint.rename(job.folder / "moved away")
    assert run(job).exit_code == 0
    job.check()
