"""Each refusal of ``chsink state`` is met, what its fix names is done, and the command, or the job, goes on."""

from __future__ import annotations

import re
from functools import partial

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.errors import PreflightError
from chsink.recovery.accepted import Accepted
from chsink.recovery.change import carry_out
from chsink.recovery.decide import plan_resolve
from chsink.recovery.recover import write
from chsink.recovery.survey import survey
from tests.integration.job.conftest import MakeJob
from tests.support.doubt import announce, edit, insert, quietly_connected, run
from tests.support.job import Job, command, select
from tests.support.told import option_of, says, words_of

pytestmark = pytest.mark.slow


def resolve(job: Job, *more: str) -> Result:
    return run(job, "resolve", job.topic, "0", "--yes", *more)


def refused(result: Result, *said: str) -> None:
    assert result.exit_code == 2, result.output
    for words in said:
        assert words in result.stderr.replace("\n", " ")


def done(result: Result) -> None:
    assert result.exit_code == 0, result.output


@pytest.mark.soak
@pytest.mark.exit_of("NO_STATE")
def test_a_sink_without_state(doubtful: Job) -> None:
    name, doubtful.name = doubtful.name, "another"
    said = resolve(doubtful, "--landed")
    refused(said, "CHS-320", "sink 'another' has no state")
    says(said, "check sink.name and [state] in the job file")
    doubtful.name = name
    done(resolve(doubtful, "--landed"))


@pytest.mark.soak
@pytest.mark.exit_of("SENDERS_MAY_LIVE")
@pytest.mark.exit_of("RESEND_NOT_ROUTED")
def test_resend_without_a_route_and_without_a_word_on_senders(doubtful: Job, spark: SparkSession) -> None:
    table = doubtful.tables[doubtful.topic]
    doubtful.make_table(doubtful.topic, suffix="_other")
    said = resolve(doubtful, "--resend", "--senders-gone")
    refused(said, "CHS-322", f"no route leads to {table}")
    says(said, "restore the [[route]] from this topic to the table, then run the command again")
    doubtful.tables[doubtful.topic] = table
    said = resolve(doubtful, "--resend")
    refused(said, "CHS-321", f"{doubtful.topic}-0 [10, 25)")
    done(resolve(doubtful, "--resend", option_of(said, "--senders-gone")))
    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.soak
def test_a_table_that_forgot_all_tokens(doubtful: Job, spark: SparkSession) -> None:
    """⚑ With its window set again, it looks as if it remembered them: the range is resolved before."""
    setting = f"ALTER TABLE {doubtful.tables[doubtful.topic]} MODIFY SETTING {doubtful.window} = "
    insert(doubtful, 0, range(10, 25))
    command(doubtful.shards[0], f"{setting}0")
    with pytest.raises(PreflightError, match=r"CHS-210(?s:.*)chsink state resolve"):
        doubtful.drain(spark)
    done(resolve(doubtful, "--landed"))
    command(doubtful.shards[0], f"{setting}10000")
    doubtful.send(0, 5)
    doubtful.drain(spark)
    doubtful.check()


@pytest.mark.soak
@pytest.mark.parametrize(("metadata", "there"), [("", False), (None, True)])
def test_a_window_of_zero_with_a_range_in_doubt(
    make_job: MakeJob, spark: SparkSession, metadata: str | None, *, there: bool
) -> None:
    """⚑ The verdict, and only then the ALTER, as the start says.  Also where the table shows no offsets."""
    job = make_job(partitions=1, metadata=metadata)
    table, [shard] = job.tables[job.topic], job.shards
    job.send(0, 25)

    def store(offsets: range) -> None:
        if metadata is None:
            insert(job, 0, offsets)
        else:
            rows = ", ".join(f"({n}, '0:{n}')" for n in offsets)
            command(shard, f"INSERT INTO {table} VALUES {rows}")

    store(range(25 if there else 10))
    announce(job, {0: (10, 25)})
    command(shard, f"ALTER TABLE {table} MODIFY SETTING {job.window} = 0")
    with pytest.raises(PreflightError, match="CHS-210") as caught:
        job.drain(spark)
    first, _, then = caught.value.hint.partition("resolve what is in doubt before you run this statement: ")
    verdict = "--landed" if there else "--resend"
    assert "run `chsink state resolve TOPIC PARTITION` before the next start" in then and verdict in then
    [alter] = re.findall(r"ALTER TABLE \S+ MODIFY SETTING \w+ = \d+", first)

    done(resolve(job, verdict, *(() if there else ("--senders-gone",))))
    command(shard, alter)
    job.send(0, 5)
    job.drain(spark)

    ids = select(shard, f"SELECT id FROM {table} ORDER BY id FORMAT TSV").split()
    assert list(map(int, ids)) == list(range(30))


@pytest.mark.soak
@pytest.mark.exit_of("NO_TABLE")
def test_a_table_that_was_dropped_with_its_rows(make_job: MakeJob, services: Stack, spark: SparkSession) -> None:
    """⚑ Created again, it lacks what the state says has landed, of all topics that lead to it."""
    job = make_job(partitions=2)
    other = f"{job.topic}-other"
    services.kafka.create_topic(other, 1)
    job.tables[other] = job.tables[job.topic]
    job.send(0, 60)
    job.send(1, 60)
    job.send(0, 30, topic=other)
    job.drain(spark)
    job.everywhere(f"DROP TABLE {job.tables[job.topic]} SYNC")
    job.send(0, 5)
    with pytest.raises(PreflightError, match="CHS-202") as caught:
        job.drain(spark)

    job.make_table(job.topic)
    done(run(job, *words_of(caught.value, "reset")[1:], "--yes"))
    says(caught.value, "start with a new checkpoint")
    job.lose_checkpoint()
    job.drain(spark)
    job.check()
    job.check(other)


@pytest.mark.soak
@pytest.mark.exit_of("TABLE_IS_EMPTY")
def test_a_table_that_was_created_again_without_a_word(
    make_job: MakeJob, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """⚑ The start cannot know that its rows were not removed on purpose, and goes on.  It says what to do if not: some
    of the rows that landed meanwhile are the only copies.
    """
    job = make_job(partitions=2)
    job.send(0, 60)
    job.send(1, 60)
    job.drain(spark)
    job.everywhere(f"DROP TABLE {job.tables[job.topic]} SYNC")
    job.make_table(job.topic)
    job.send(0, 5)
    capsys.readouterr()
    job.drain(spark)
    said = capsys.readouterr().err
    assert "CHS-266" in said
    assert "offsets of " + job.topic + " landed in it: 120" in said

    delete_records(job.bootstrap, job.topic, 0, 62)
    again = said.partition("land again what Kafka still holds")[2]
    done(run(job, *words_of(again, "reset")[1:], "--yes"))
    says(again, "keep all rows and dead letters of other records")
    assert "DELETE FROM" not in again
    table, held = job.tables[job.topic], "_kafka_offset >= 62 SETTINGS lightweight_deletes_sync = 2"
    command(job.shards[0], f"DELETE FROM {table} WHERE {held}")
    says(again, "start with a new checkpoint")
    job.lose_checkpoint()
    job.drain(spark, {"kafka.starting_offsets": "latest"})
    rows = select(job.shards[0], f"SELECT _kafka_partition, _kafka_offset FROM {table} ORDER BY ALL FORMAT TSV")
    assert rows.split("\n")[:-1] == [f"0\t{n}" for n in range(60, 65)] + [f"1\t{n}" for n in range(60)]


@pytest.mark.exit_of("SEVERAL_IN_DOUBT")
def test_ranges_for_several_tables(doubtful: Job) -> None:
    first = doubtful.tables[doubtful.topic]
    second = doubtful.make_table(doubtful.topic, suffix="_other")
    announce(doubtful, {0: (0, 25)})
    said = resolve(doubtful, "--landed")
    refused(said, "CHS-320", first, second)
    for table in (first, second):
        done(resolve(doubtful, "--landed", option_of(said, "--table"), table))
    assert not doubtful.in_doubt()


@pytest.mark.exit_of("CHANGED_MEANWHILE")
def test_a_record_that_changed_after_it_was_shown(doubtful: Job) -> None:
    with quietly_connected(doubtful) as opened:
        ports = opened.clickhouse, opened.store, opened.kafka
        decide = partial(plan_resolve, *ports, doubtful.topic, [0], "landed", pipeline=str)
        change = decide()
        edit(doubtful, start=5)
        with pytest.raises(PreflightError, match="CHS-323.*changed before the decision was written") as caught:
            carry_out(opened.clickhouse, opened.store, change, "resolve")
        says(caught.value, "nothing was written; stop the running job, then run the command again")
        assert doubtful.in_doubt() == {0}
        carry_out(opened.clickhouse, opened.store, decide(), "resolve")
    assert not doubtful.in_doubt()


@pytest.mark.exit_of("ROWS_CHANGED")
def test_rows_that_came_after_they_were_counted(doubtful: Job) -> None:
    with quietly_connected(doubtful) as opened:
        ports = opened.clickhouse, opened.store, opened.kafka
        decide = partial(plan_resolve, *ports, doubtful.topic, [0], "landed", pipeline=str)
        insert(doubtful, 0, range(10, 20))
        change = decide()
        insert(doubtful, 0, range(20, 25))
        with pytest.raises(PreflightError, match="CHS-323.*held 10 rows.*now holds 15 rows") as caught:
            carry_out(opened.clickhouse, opened.store, change, "resolve")
        says(caught.value, "nothing was written; check the table again, then run the command again")
        assert doubtful.in_doubt() == {0}
        carry_out(opened.clickhouse, opened.store, decide(), "resolve")
    assert not doubtful.in_doubt()


@pytest.mark.soak
@pytest.mark.exit_of("RECORDED_MEANWHILE")
def test_state_that_was_recorded_after_the_survey(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 25)
    insert(job, 0, range(20))
    with quietly_connected(job) as opened:
        found = survey(opened.clickhouse, opened.store, opened.kafka, lambda _: None, Accepted(senders_gone=True))
        announce(job, {0: (20, 20)})
        with pytest.raises(PreflightError, match="CHS-323") as caught:
            write(opened.clickhouse, opened.store, found)
    says(caught.value, "nothing was written; run the command again")
    assert "nothing to recover" in run(job, "recover", "--yes").stdout
    job.drain(spark)
    job.check()
