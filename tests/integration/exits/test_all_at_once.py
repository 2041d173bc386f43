"""Several partitions need a person: all are named by one start, and nothing else waits for them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.batch.model import Ack
from chsink.cli.main import app
from chsink.errors import HaltError
from chsink.spark.runner import _of_ranges
from tests.integration.exits.commands import command_of, follow
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, edit, insert, run
from tests.support.job import Job, command
from tests.support.kafka import produce
from tests.support.told import statements_of, words_of

pytestmark = pytest.mark.slow


@pytest.fixture
def doubtful(make_job: MakeJob) -> Job:
    """Partition 0 can be settled, 1 and 2 cannot be told from an earlier life's, 3 was announced by another pipeline."""
    job = make_job(partitions=4)
    for n in range(4):
        job.send(n, 25)
        insert(job, n, range(10))
    announce(job, dict.fromkeys(range(4), (10, 25)))
    edit(job, 0, 1, 2, seen={"before_at": 1, "marks": ()})
    edit(job, 1, 2, life={"incarnation": 1, "older_end": 25})
    edit(job, 3, sent={"pipeline": "columns=another"})
    return job


@pytest.mark.soak
@pytest.mark.exit_of("FOREIGN_ROWS")
def test_one_start_settles_what_it_can_and_names_all_others(doubtful: Job, spark: SparkSession) -> None:
    """⚑ one partition that needs a person must not hold up the others, nor hide the next one that does."""
    with pytest.raises(HaltError) as halted:
        doubtful.drain(spark)

    assert [part.id for part in halted.value.parts] == ["CHS-309", "CHS-318"]
    assert halted.value.exit_code == 3
    assert command_of(halted.value, "--landed") == ["resolve", doubtful.topic, "1", "2", "--landed"]
    assert command_of(halted.value, "--resend") == ["resolve", doubtful.topic, "3", "--resend"]
    assert doubtful.in_doubt() == {1, 2, 3}
    assert len(doubtful.landed()) == 55

    for n in (1, 2):
        insert(doubtful, n, range(10, 25))
    follow(doubtful, halted.value, "--landed")
    follow(doubtful, halted.value, "--resend", more=("--senders-gone",))
    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.soak
def test_a_batch_settles_what_it_can_and_names_all_others(doubtful: Job, spark: SparkSession) -> None:
    """As before, by a sink that was not started: the ranges in doubt meet its first batch."""
    with pytest.raises(HaltError) as halted:
        doubtful.drain_foreach(spark)

    assert [part.id for part in halted.value.parts] == ["CHS-309", "CHS-318"]
    assert doubtful.in_doubt() == {1, 2, 3}


@pytest.mark.soak
def test_what_landed_beside_a_halt_of_a_task_is_not_sent_again(make_job: MakeJob, spark: SparkSession) -> None:
    """Bad values in two partitions: both are named; the third is done."""
    job = make_job(partitions=3)
    job.send(0, 15)
    for n in (1, 2):
        job.send_values(n, [{"id": "no number", "text": "x"}])

    with pytest.raises(HaltError, match="CHS-501") as halted:
        job.drain(spark)

    assert all(f"partition {n} offset 0" in halted.value.message for n in (1, 2))
    assert command_of(halted.value, "--resend") == ["resolve", job.topic, "1", "2", "--resend", "--senders-gone"]
    assert job.phases() == {0: ("AFTER", 0, 15), 1: ("BEFORE", 0, 1), 2: ("BEFORE", 0, 1)}
    job.drain(spark, {"errors.on_bad_value": "skip"})
    assert not job.in_doubt()
    assert len(job.landed()) == 15


@pytest.mark.soak
@pytest.mark.exit_of("RESEND_MAY_DOUBLE")
def test_resend_names_all_rows_in_one_statement(doubtful: Job, spark: SparkSession) -> None:
    edit(doubtful, 3, life={"incarnation": 1, "older_end": 25})
    for n in range(1, 4):
        insert(doubtful, n, range(10, 20))

    refused = run(doubtful, "resolve", doubtful.topic, "1", "2", "3", "--resend", "--yes", "--senders-gone")

    assert refused.exit_code == 2
    assert "cannot tell" in refused.stderr.replace("\n", " ")
    assert all(f"{doubtful.topic}-{n} [10, 25)" in refused.stderr for n in (1, 2, 3))
    [delete] = statements_of(refused, "DELETE FROM")
    command(doubtful.shards[0], f"{delete} SETTINGS lightweight_deletes_sync = 2")
    assert len(doubtful.landed()) == 40
    done = run(doubtful, "resolve", doubtful.topic, "1", "2", "3", "--resend", "--yes", "--senders-gone", "--json")
    assert done.exit_code == 0, done.output
    assert [r["partition"] for r in json.loads(done.stdout)["after"]] == [1, 2, 3]
    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.exit_of("NO_STATE_OF")
@pytest.mark.exit_of("NOTHING_IN_DOUBT")
def test_a_partition_that_is_not_in_doubt_is_named(doubtful: Job) -> None:
    assert run(doubtful, "resolve", doubtful.topic, "0", "--landed", "--yes").exit_code == 0
    refused = run(doubtful, "resolve", doubtful.topic, "0", "1", "9", "--landed", "--yes")
    assert "CHS-320" in refused.stderr
    assert "partition 9" in refused.stderr
    shown = run(doubtful, *words_of(refused, "show")[1:], "--json")
    assert [record["partition"] for record in json.loads(shown.stdout)["records"]] == [0, 1, 2, 3]
    refused = run(doubtful, "resolve", doubtful.topic, "0", "1", "--landed", "--yes")
    assert f"{doubtful.topic}-0 has no range in doubt" in refused.stderr
    assert re.search(rf"{doubtful.topic} +0 +job\.\w+ +AFTER", run(doubtful, *words_of(refused, "show")[1:]).stdout)
    asked = CliRunner().invoke(app, ["state", "resolve", doubtful.topic, "1", "--landed", "--json"])
    assert (asked.exit_code, doubtful.in_doubt()) == (2, {1, 2, 3})


@pytest.mark.soak
def test_many_small_ranges_share_tasks_and_one_that_halts_stops_no_other(
    make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ a task that reads several ranges lands each by itself; of one range there is no record to read."""
    job, tasks = make_job(partitions=12), []
    for n in range(12):
        job.send(n, 10)
        insert(job, n, range(10))
        if n == 5:
            produce(
                job.bootstrap,
                job.topic,
                n,
                ({"id": 0, "text": "never"} for _ in range(14)),
                transactional=job.topic,
                abort=True,
            )
        elif n == 7:
            job.send_values(n, [{"id": "a text", "text": "x"}] * 15)
        else:
            job.send(n, 15)
    announce(job, dict.fromkeys(range(12), (10, 25)))

    def counted(acks: Sequence[Ack], task_count: int, ranges: int) -> list[Ack]:
        tasks.append((task_count, ranges))
        return _of_ranges(acks, task_count, ranges)

    monkeypatch.setattr("chsink.spark.runner._of_ranges", counted)
    with pytest.raises(HaltError, match="CHS-501"):
        job.drain(spark)

    assert tasks == [(4, 12)]
    assert job.in_doubt() == {7}
    assert len(job.landed()) == 10 * 25 + 2 * 10
    job.drain(spark, {"errors.on_bad_value": "skip"})
    assert not job.in_doubt()
    assert len(set(job.landed())) == len(job.landed()) == 10 * 25 + 2 * 10
