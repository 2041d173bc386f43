"""Dead letters in a table of the real engine: each exactly once, whatever ends the job, and bit for bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.dlq.letters import create_table
from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.errors import HaltError, UnavailableError
from tests.integration.exits.commands import command_of
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.doubt import announce, insert, run
from tests.support.job import DATABASE, Job, command, select
from tests.support.kafka import Record, read_all
from tests.support.told import says, statements_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]

BAD = (b'{"id": "secret", "text": "x"}', b"\xff\x00 secret", None, b"")
HEADERS = [("trace", b"\x00\xff"), ("trace", None), ("\xe9", b"")]
WINDOW = 100


def fits(record: Record) -> list[tuple[Any, ...]]:
    """What the judge expects of a record: its row, or none."""
    if record.value in BAD:
        return []
    document = json.loads(record.value or b"{}")
    return [(document["id"], document["text"])]


def make_letters(job: Job) -> tuple[str, Mapping[str, Any]]:
    """A table of dead letters that remembers few blocks, and the settings that use it."""
    table = f"{DATABASE}.dead_{job.tables[job.topic].removeprefix(f'{DATABASE}.')}"
    statement = create_table(table).replace("window = 10000", f"window = {WINDOW}")
    job.create(statement)
    return table, {"errors.on_bad_value": "dead_letter", "dead_letters.table": table}


def others_write(job: Job, table: str) -> None:
    """Another sink's dead letters of the same offsets, until the table may have forgotten ours."""
    for n in range(WINDOW):
        command(
            job.shards[0],
            f"INSERT INTO {table} (sink, `table`, _kafka_topic, _kafka_partition, _kafka_offset) "
            f"VALUES ('other', 'o', '{job.topic}', 0, {n})",
        )


def letters(job: Job, table: str) -> list[tuple[Any, ...]]:
    """The dead letters of this sink, as Kafka's records."""
    names = "_kafka_partition, _kafka_offset, hex(key), hex(value), isNull(value), timestamp_ms"
    headers = "arrayMap(h -> (h.1, hex(h.2), isNull(h.2)), headers)"
    sql = f"SELECT {names}, {headers} FROM {table} WHERE sink = '{job.name}' FORMAT JSONCompactEachRow"
    return sorted(_frozen(json.loads(line)) for line in select(job.shards[0], sql).splitlines())


def expected(job: Job) -> list[tuple[Any, ...]]:
    """The same of what Kafka holds."""
    return sorted(
        (
            r.partition,
            r.offset,
            _hex(r.key),
            _hex(r.value),
            int(r.value is None),
            r.timestamp,
            tuple((name, _hex(value), int(value is None)) for name, value in r.headers),
        )
        for r in read_all(job.bootstrap, job.topic)
        if r.value in BAD
    )


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex().upper()


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def flags(settings: Mapping[str, Any]) -> list[str]:
    """The settings as options of a command."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def dlq(job: Job, *arguments: str) -> str:
    """What ``chsink dlq …`` prints."""
    result = CliRunner().invoke(app, ["dlq", *arguments, "-c", str(job.file())])
    assert result.exit_code == 0, result.output
    return result.stdout


def check(job: Job, table: str) -> None:
    """Every record has exactly one fate."""
    job.check(rows_of=fits)
    assert letters(job, table) == expected(job)


def check_resend_without(job: Job) -> None:
    """⚑ Once the job file keeps no dead letters, nobody deletes rows of the range: it must not be sent again."""
    refused = run(job, "resolve", job.topic, "0", "--resend", "--yes", "--set", "errors.on_bad_value=skip")
    assert "keeps no dead letters now" in refused.stderr and "DELETE FROM" not in refused.stderr
    says(refused, "as they were when the range was announced, and run the job until the range is settled")


def resend(job: Job, error: HaltError, table: str, keeps: Mapping[str, Any]) -> None:
    """Send partition 0 again, as a person who does what the refusal names.

    ⚑ If dead letters go to another place now, the command says that those of the earlier place would be there twice.
    """
    again = (*command_of(error, job.topic, "0", "--resend"), "--senders-gone")
    for statement in statements_of(run(job, *again, "--yes", *flags(keeps)), "DELETE FROM"):
        command(job.shards[0], statement)
    job.create(create_table(elsewhere := f"{table}_2"))
    said = run(job, *again, *flags({**keeps, "dead_letters.table": elsewhere}), stdin="n\n").stdout
    assert "delete them there first" in said
    assert "Let the next start send these ranges again? [y/N]" in said
    assert run(job, *again, "--yes", *flags(keeps)).exit_code == 0


def test_another_first_endpoint(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ ``ON CLUSTER`` gives the tables of all servers one UUID: a range in doubt left its dead letters on both."""
    job = make_job(partitions=1, shards=2, shard_key=["id"])
    table = f"{DATABASE}.dead_{job.tables[job.topic].removeprefix(f'{DATABASE}.')}"
    job.create(create_table(f"{table} UUID '{uuid4()}'"))
    job.settings = {**job.settings, "errors.on_bad_value": "dead_letter", "dead_letters.table": table}
    job.send_values(0, BAD)
    crash_before_after(job, spark, failpoints)
    job.shards = job.shards[::-1]
    with pytest.raises(HaltError, match="CHS-309.*changed since: dead_letters"):
        job.drain(spark)
    job.shards = job.shards[::-1]
    job.drain(spark)
    assert letters(job, table) == expected(job)
    assert select(job.shards[1], f"SELECT count() FROM {table}").strip() == "0"


@pytest.mark.exit_of("TOO_MANY_BAD")
@pytest.mark.exit_of("DEAD_LETTERS_INCOMPLETE")
@pytest.mark.exit_of("RESEND_LETTERS_UNKNOWN")
@pytest.mark.exit_of("RESEND_LETTERS_DOUBLE")
def test_dead_letters_are_delivered_once(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, capsys: pytest.CaptureFixture[str]
) -> None:
    """⚑ The job halts at a bad value, is set to keep dead letters, dies between them and the rows, and its table of dead
    letters forgets their tokens before the range is settled.
    """
    job = make_job(partitions=2)
    table, keeps = make_letters(job)
    job.send(0, 12)
    job.send_values(0, BAD, key=b"\xfe", headers=HEADERS)
    job.send(0, 12)
    job.send(1, 5)
    job.send_values(1, BAD[:1])
    with pytest.raises(HaltError, match="CHS-501"):
        job.drain(spark)

    with pytest.raises(HaltError, match=r'CHS-513.*"0 per 1"') as halted:
        job.drain(spark, {**keeps, "errors.tolerance": "none"})
    assert not letters(job, table)
    says(halted.value, "to accept these records, raise errors.tolerance and start again")

    failpoints.arm("task.after_dead_letters=kill")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark, keeps)
    failpoints.assert_fired("task.after_dead_letters")
    failpoints.disarm()
    assert letters(job, table), "delivered, and the rows of the chunk are not there"

    with pytest.raises(HaltError, match="CHS-309.*dead_letters"):
        job.drain(spark, {"errors.on_bad_value": "skip"})
    check_resend_without(job)

    others_write(job, table)
    command(job.shards[0], f"DELETE FROM {table} WHERE sink = '{job.name}' AND _kafka_offset = 13")
    with pytest.raises(HaltError, match="CHS-333.*instead of") as halted:
        job.drain(spark, keeps)
    resend(job, halted.value, table, keeps)
    job.drain(spark, keeps)
    check(job, table)

    job.send_values(0, BAD, key=b"k")
    job.send(0, 3)
    failpoints.arm("driver.before_after=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark, keeps)
    failpoints.disarm()
    sink = job.drain_sink(spark, lambda stream: stream, keeps)
    check(job, table)
    count = len(expected(job))
    assert (job.status()["dead_letters"], job.status()["skipped"]) == (count, 0)
    assert sink.metrics.registry.get_sample_value(
        "chsink_dead_letters_total", {"sink": job.name, "table": job.tables[job.topic]}
    ) == len(BAD)
    listed = json.loads(dlq(job, "list", "--json", *flags(keeps)))
    assert sorted((k["partition"], k["offset"]) for k in listed) == [row[:2] for row in expected(job)]
    assert "secret" not in json.dumps(listed)
    [shown] = json.loads(dlq(job, "show", job.topic, "0", "13", *flags(keeps)))
    assert (shown["value"], shown["key"]) == ({"hex": BAD[1].hex()}, {"hex": "fe"})
    assert [name for name, _ in shown["headers"]] == [name for name, _ in HEADERS]
    said = capsys.readouterr().err
    assert "records kept as dead letters" in said and "secret" not in said


def test_offsets_that_kafka_deleted_while_they_were_in_doubt_are_listed_once(
    make_job: MakeJob, spark: SparkSession, services: Stack, failpoints: Failpoints, capsys: pytest.CaptureFixture[str]
) -> None:
    """⚑ In a table, then in a topic; the job dies between the list and AFTER.  What Kafka still holds lands once."""
    job = make_job(partitions=2)
    table, _ = make_letters(job)
    listing = {"errors.in_doubt": "dead_letter", "dead_letters.table": table}
    job.send(0, 12)
    job.send(1, 5)
    select(job.shards[0], "SELECT sleep(2.5)")  # a table that is younger may have been altered, and is looked into
    announce(job, {0: (0, 12), 1: (0, 5)})
    insert(job, 0, range(3))
    for partition, before in ((0, 7), (1, 5)):
        delete_records(job.bootstrap, job.topic, partition, before)
    failpoints.arm("driver.after_settle_inserts=fail")
    with pytest.raises(Exception, match="driver.after_settle_inserts"):
        job.drain(spark, listing)
    failpoints.disarm()
    job.drain(spark, listing)

    assert job.phases() == {0: ("AFTER", 0, 12), 1: ("AFTER", 0, 5)}
    assert sorted(row[:2] for row in job.landed()) == [(0, offset) for offset in (*range(3), *range(7, 12))]
    listed = json.loads(dlq(job, "list", "--json", *flags(listing)))
    assert [(k["partition"], k["offset"], k["error_id"]) for k in listed] == [(0, 0, "CHS-308"), (1, 0, "CHS-308")]
    assert "[0, 7)" in listed[0]["reason"] and job.status()["dead_letters"] == 2
    assert "given up" in capsys.readouterr().err
    replayed = json.loads(dlq(job, "replay", "--yes", "--json", *flags(listing)))
    assert (replayed["landed"], replayed["left"]["deleted"]) == (0, 2)

    services.kafka.create_topic(topic := f"{job.topic}-dead", 1, {"retention.ms": "-1"})
    listing = {"errors.in_doubt": "dead_letter", "dead_letters.topic": topic}
    job.send(0, 8)
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark, listing)
    failpoints.assert_fired("driver.after_before")
    failpoints.disarm()
    delete_records(job.bootstrap, job.topic, 0, 15)
    failpoints.arm("driver.after_settle_inserts=fail")
    with pytest.raises(Exception, match="driver.after_settle_inserts"):
        job.drain(spark, listing)
    failpoints.disarm()
    job.drain(spark, listing)
    [letter] = read_all(job.bootstrap, topic)
    assert (letter.value, dict(letter.headers)["chsink.last_offset"]) == (None, b"14")
    assert sorted(row[1] for row in job.landed() if row[1] >= 12) == list(range(15, 20))
