"""⚑ What messages ask for destroys no last copy of a record, and lands nothing twice: a state that is too old, rows of
records that Kafka lost, rows and dead letters of an earlier topic.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.errors import ChsinkError, HaltError, PreflightError
from tests.integration.exits.commands import command_of, follow, settings_of
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.integration.job.test_dead_letters import BAD, fits, letters, make_letters
from tests.support.doubt import announce, edit, forget_state, insert, run
from tests.support.job import Job, command, select
from tests.support.kafka import produce
from tests.support.told import says, statements_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
FRESH = [{"id": 1000 + n, "text": "new"} for n in range(20)]


def ids(job: Job) -> Counter[int]:
    return Counter(map(int, select(job.shards[0], f"SELECT id FROM {job.tables[job.topic]} FORMAT TSV").split()))


def refused(job: Job, spark: SparkSession, kind: type[ChsinkError], id_: str) -> ChsinkError:
    with pytest.raises(kind, match=id_) as caught:
        job.drain(spark)
    return caught.value


def made_anew(job: Job, services: Stack) -> None:
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic, 1)
    produce(job.bootstrap, job.topic, 0, FRESH)


def test_an_older_backup_of_the_state_and_a_batch_of_dead_letters(make_job: MakeJob, spark: SparkSession) -> None:
    """No row lies beyond the recorded end: only the checkpoint tells."""
    job = make_job(partitions=1)
    place, job.settings = make_letters(job)
    job.send(0, 10)
    job.drain(spark)
    stored = select(job.shards[0], "SELECT * FROM job.chsink_state FORMAT JSONEachRow")
    job.send_values(0, [BAD[0]] * 3)
    job.drain(spark)
    forget_state(job)
    command(job.shards[0], f"INSERT INTO job.chsink_state FORMAT JSONEachRow\n{stored}")
    error = refused(job, spark, HaltError, "CHS-307")

    done = run(job, *command_of(error, "--replace"), "--yes", *settings_of(job))
    assert done.exit_code == 0, done.output
    job.send(0, 5)
    job.drain(spark)

    job.check(rows_of=fits)
    assert [row[1] for row in letters(job, place)] == [10, 11, 12]


def test_all_rows_of_a_range_are_there_and_its_dead_letters_are_not(make_job: MakeJob, spark: SparkSession) -> None:
    """Its last chunk has bad records only: recorded as landed, they would be nowhere."""
    job = make_job(partitions=1)
    place, job.settings = make_letters(job)
    job.send(0, 20)
    job.send_values(0, [BAD[0]] * 5)
    insert(job, 0, range(20))
    announce(job, {0: (10, 25)})
    edit(job, life={"topic_id": None})
    error = refused(job, spark, HaltError, "CHS-304")
    says(error, "with --landed if all rows and dead letters of the range are there, each once; with --resend to send")

    words = [*command_of(error, "--resend"), "--senders-gone", "--yes", *settings_of(job)]
    [statement] = statements_of(run(job, *words), "DELETE FROM")
    command(job.shards[0], statement)
    assert run(job, *words).exit_code == 0
    job.drain(spark)

    job.check(rows_of=fits)
    assert [row[1] for row in letters(job, place)] == [*range(20, 25)]


def test_rows_that_a_person_inserts_are_those_of_the_whole_range(make_job: MakeJob, spark: SparkSession) -> None:
    """The message is about one piece; what comes behind it was not sent either."""
    job = make_job(partitions=1)
    job.send(0, 45)
    insert(job, 0, range(14))
    announce(job, {0: (10, 45)})
    edit(job, seen={"before_at": 1, "marks": ()})
    error = refused(job, spark, HaltError, r"CHS-314.* \[10, 20\)")
    says(error, "all missing rows and dead letters of the range in doubt yourself, including those of its other pieces")

    _, _, end = job.phases()[0]
    insert(job, 0, range(14, end))
    assert run(job, "resolve", job.topic, "0", "--landed", "--yes").exit_code == 0
    job.drain(spark)

    job.check()


def test_rows_of_records_that_kafka_lost(make_job: MakeJob, spark: SparkSession) -> None:
    """Producers went on before the job looked: new records have offsets of lost ones."""
    job = make_job(partitions=1)
    job.send(0, 12)
    insert(job, 0, range(25))
    announce(job, {0: (25, 25)})
    produce(job.bootstrap, job.topic, 0, FRESH[:8])
    error = refused(job, spark, HaltError, "CHS-301")
    says(error, "copy all rows and dead letters of these partitions to other tables")
    [url], table = job.shards, job.tables[job.topic]
    command(url, f"CREATE TABLE {table}_copy ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM {table}")
    follow(job, error)
    says(error, "delete the rows of all offsets that Kafka holds now")
    command(url, f"DELETE FROM {table} WHERE _kafka_offset < 20")
    job.drain(spark)
    says(error, "look at what you deleted", "at whose offset Kafka holds no record, or one with another timestamp")
    deleted = f"SELECT * FROM {table}_copy WHERE _kafka_offset < 20"
    command(
        url, f"INSERT INTO {table} {deleted} AND (_kafka_offset, id) NOT IN (SELECT _kafka_offset, id FROM {table})"
    )

    assert ids(job) == Counter([*range(25), *range(1000, 1008)])


@pytest.mark.exit_of("RESEND_MAY_DOUBLE")
@pytest.mark.exit_of("RESEND_LETTERS_DOUBLE")
def test_rows_and_dead_letters_of_an_earlier_topic(
    make_job: MakeJob, spark: SparkSession, services: Stack, failpoints: Failpoints
) -> None:
    job = make_job(partitions=1)
    place, job.settings = make_letters(job)
    table = job.tables[job.topic]
    job.send(0, 12)
    job.send_values(0, [BAD[0]])
    job.drain(spark)
    made_anew(job, services)
    job.lose_checkpoint()
    crash_before_after(job, spark, failpoints)
    command(job.shards[0], f"ALTER TABLE {table} MODIFY COLUMN text LowCardinality(String)")
    error = refused(job, spark, HaltError, "CHS-309")

    words = [*command_of(error, "--resend"), "--senders-gone", "--yes", *settings_of(job)]
    said = " ".join(run(job, *words).stderr.split())
    assert said.count("copy") == 2, said
    for name, old in ((table, "id < 1000"), (place, f"sink = '{job.name}'")):
        command(
            job.shards[0],
            f"CREATE TABLE {name}_copy ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM {name} WHERE {old}",
        )
    for statement in re.findall(r"DELETE FROM [^;]+", said):
        command(job.shards[0], statement)
    assert run(job, *words).exit_code == 0
    job.drain(spark)
    assert said.count("once the range has landed, insert the copied") == 2, said
    for name in (table, place):
        command(job.shards[0], f"INSERT INTO {name} SELECT * FROM {name}_copy")

    assert ids(job) == Counter([*range(12), *range(1000, 1020)])
    assert len(letters(job, place)) == 1


def test_a_topic_made_anew_and_lost_state(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    """Its records land in a new table."""
    job = make_job(partitions=1)
    job.send(0, 30)
    job.drain(spark)
    made_anew(job, services)
    forget_state(job)
    job.lose_checkpoint()
    error = refused(job, spark, PreflightError, "CHS-229")
    assert "if the topic was deleted and created again, name a new table in its [[route]]" in error.hint

    job.make_table(job.topic, suffix="_new")
    job.drain(spark)

    assert ids(job) == Counter(range(1000, 1020))


@pytest.mark.parametrize("expired", [False, True])
def test_a_table_that_was_made_anew_its_view_and_replayed_dead_letters(
    make_job: MakeJob, spark: SparkSession, *, expired: bool
) -> None:
    """⚑ Its view still had the older rows, and got them again.  Replay marks outlived the dead letters: the same records
    became dead letters again, counted as replayed, and stayed in no table.  ``expired``: Kafka deleted these records.
    """
    job = make_job(partitions=1, columns="id UInt8, text String")
    place, job.settings = make_letters(job)
    table, url = job.tables[job.topic], job.shards[0]
    filled = "(id UInt64, text String) ENGINE = MergeTree ORDER BY id SETTINGS"
    job.create(f"CREATE TABLE {table}_filled {filled} non_replicated_deduplication_window = 1000")
    view = f"CREATE MATERIALIZED VIEW {table}_view TO {table}_filled AS SELECT id, text FROM {table}"
    job.everywhere(view)
    job.send(0, 10)
    job.send_values(0, [{"id": 1000 + n, "text": "x"} for n in range(6)])
    job.drain(spark)
    widened = f"ALTER TABLE {table} MODIFY COLUMN id UInt64"
    command(url, widened)
    assert dlq(job, "replay", "--yes").exit_code == 0
    job.everywhere(f"DROP TABLE {table}_view SYNC")
    job.everywhere(f"DROP TABLE {table} SYNC")
    job.make_table(job.topic, columns="id UInt8, text String")
    job.everywhere(view)
    job.send(0, 2)
    if expired:
        delete_records(job.bootstrap, job.topic, 0, 16)

    said = " ".join(CliRunner().invoke(app, ["doctor", "-c", str(job.file()), *settings_of(job)]).stdout.split())
    again = said.partition("land again what Kafka still holds")[2]
    [reset] = re.findall(r"`chsink state (reset \S+ --table \S+)", again)
    done = run(job, *reset.split(), "--yes", *settings_of(job))
    assert done.exit_code == 0
    assert "of each record that Kafka still holds, delete the rows in" in again
    assert "and in the targets of its views, however old" in again
    assert (
        "and the dead letters that this sink wrote of these records for these tables, with their replay marks" in again
    )
    [which] = re.findall(r"have (sink IN \(.*?\) AND `table` = '[^']+')", " ".join(done.output.split()))
    if expired:
        assert "delete the replay mark, and what the targets of the table's views hold of them" in again
        which += " AND endsWith(sink, '~replay')"
    held = "id BETWEEN 10 AND 11 OR id >= 1000" if expired else "1"
    for place_, rows in ((place, which), (table, "1"), (f"{table}_filled", held)):
        command(url, f"DELETE FROM {place_} WHERE {rows} SETTINGS lightweight_deletes_sync = 2")
    job.lose_checkpoint()
    job.drain(spark, {"kafka.starting_offsets": "latest"})
    command(url, widened)
    assert dlq(job, "replay", "--yes").exit_code == 0

    assert ids(job) == Counter([*range(10 if expired else 0, 12), *range(1000, 1006)])
    assert len(select(url, f"SELECT id FROM {table}_filled FORMAT TSV").split()) == 18


def dlq(job: Job, *words: str) -> Result:
    return CliRunner().invoke(app, ["dlq", *words, "-c", str(job.file()), *settings_of(job)])
