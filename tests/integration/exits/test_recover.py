"""State and checkpoint are lost after a crash: the command that the start names, followed literally, loses nothing.

Some offsets have no row on purpose.  Of the range that the crash interrupted, some pieces are there and others are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from chsink.embedded.stack import Stack
from chsink.errors import ChsinkError, HaltError, PreflightError
from tests.integration.exits.commands import recovered
from tests.integration.job import test_dead_letters_topic as topic_of_letters
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.integration.job.test_dead_letters import BAD, make_letters
from tests.support.doubt import forget_state, insert, run
from tests.support.job import Job, Row, command, select
from tests.support.kafka import Record, read_all

pytestmark = pytest.mark.slow
MISFIT = {"id": "no number", "text": "x"}
LANDED = [*range(20), *range(30, 40)]
"""Of 50 records, one range landed.  A crash interrupted the next one: of its three chunks, the second one is there."""


def refused(job: Job, spark: SparkSession) -> ChsinkError:
    """The start names rows that the state does not know."""
    with pytest.raises(PreflightError, match="CHS-229") as caught:
        job.drain(spark)
    assert "`chsink state recover --senders-gone`" in caught.value.hint
    return caught.value


def fits(record: Record) -> Iterable[Row]:
    value = json.loads(record.value or b"null")
    return [(value["id"], value["text"])] if value and value != MISFIT else []


def interrupted(job: Job, *, bad: Iterable[int] = (), value: Any = MISFIT) -> None:
    """The records, and the rows of those that are to have one; the records at the ``bad`` offsets have none."""
    bad = set(bad)
    job.send_values(0, [value if n in bad else {"id": n, "text": f"0:{n}"} for n in range(50)])
    insert(job, 0, [n for n in LANDED if n not in bad])


@pytest.mark.parametrize("chunks", ["10", pytest.param("1000", marks=pytest.mark.soak)])
def test_what_the_crash_left_out_lands(make_job: MakeJob, spark: SparkSession, chunks: str) -> None:
    """⚑ with the chunks of the lost range, and with others since."""
    job = make_job(partitions=1, settings={"clickhouse.chunk_offsets": chunks})
    interrupted(job)

    assert recovered(job, refused(job, spark)) == []

    assert job.phases() == {0: ("BEFORE", 20, 40)}
    job.send_values(0, [{"id": n, "text": f"0:{n}"} for n in range(50, 55)])
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.parametrize("fate", ["on_bad_value", "on_tombstone"])
def test_skipped_records_are_no_reason_to_skip_others(make_job: MakeJob, spark: SparkSession, fate: str) -> None:
    """⚑ the first hole is a record that the job skips; the crash's own holes are not."""
    job = make_job(partitions=1, settings={f"errors.{fate}": "skip"})
    interrupted(job, bad=(3, 12, 25, 35), value=MISFIT if fate == "on_bad_value" else None)

    assert recovered(job, refused(job, spark)) == []

    assert job.phases() == {0: ("BEFORE", 20, 40)}
    job.drain(spark)
    job.check(rows_of=fits)


@pytest.mark.soak
def test_a_complete_table_with_skipped_records_is_not_read_again(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1, settings={"errors.on_bad_value": "skip"})
    job.send_values(0, [MISFIT if n % 7 == 3 else {"id": n, "text": f"0:{n}"} for n in range(40)])
    job.drain(spark)
    forget_state(job)
    job.lose_checkpoint()

    assert recovered(job, refused(job, spark)) == []

    assert job.phases() == {0: ("AFTER", 0, 40)}
    job.drain(spark)
    job.check(rows_of=fits)


@pytest.mark.soak
@pytest.mark.parametrize("kept", ["table", "topic"])
@pytest.mark.parametrize("at", ["task.after_insert=fail@2", "task.after_dead_letters=fail", "driver.before_after=fail"])
def test_dead_letters_explain_their_holes_and_are_there_once(
    make_job: MakeJob, services: Stack, spark: SparkSession, failpoints: Failpoints, at: str, kept: str
) -> None:
    """⚑ wherever the crash was: each record has its row or its dead letter once."""
    job = make_job(partitions=1)
    if kept == "topic":
        place = f"{job.name}-dead"
        services.kafka.create_topic(place, 1, {"retention.ms": "-1"})
        job.settings = {"errors.on_bad_value": "dead_letter", "dead_letters.topic": place}
    else:
        place, job.settings = make_letters(job)
    job.send(0, 12)
    job.send_values(0, [BAD[0]])
    job.send(0, 6)
    job.drain(spark)
    job.send_values(0, [BAD[0]])
    job.send(0, 25)
    job.send_values(0, [BAD[0]])
    topic_of_letters.crash(job, spark, failpoints, at, {})
    forget_state(job)
    job.lose_checkpoint()

    assert recovered(job, refused(job, spark)) == []
    job.send_values(0, [BAD[0]])
    job.drain(spark)

    job.check(rows_of=lambda record: [] if record.value == BAD[0] else fits(record))
    if kept == "topic":
        found = sorted(int(topic_of_letters.own(r)["chsink.offset"]) for r in read_all(job.bootstrap, place))
    else:
        sql = f"SELECT _kafka_offset FROM {place} ORDER BY ALL FORMAT TSV"
        found = list(map(int, select(job.shards[0], sql).split()))
    assert found == [12, 19, 45, 46]


@pytest.mark.soak
def test_a_filter_of_a_program_is_applied_by_the_program(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ The command knows no transform.  So all that it leaves out is in doubt, and the next start decides."""

    def even(stream: DataFrame) -> DataFrame:
        return stream.where("offset % 2 = 0")

    job = make_job(partitions=1)
    job.send(0, 50)
    insert(job, 0, [n for n in LANDED if n % 2 == 0])
    with pytest.raises(PreflightError, match="CHS-229") as caught:
        job.drain_sink(spark, even)

    assert recovered(job, caught.value) == []

    job.drain_sink(spark, even)
    job.check(rows_of=lambda record: fits(record) if record.offset % 2 == 0 else [])


@pytest.mark.soak
def test_a_transform_that_makes_bad_records_good(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ This command's decoder takes them for records that the job skips; rows show that the job did not."""

    def without_first(stream: DataFrame) -> DataFrame:
        return stream.selectExpr("topic", "partition", "offset", "CAST(substring(value, 2) AS BINARY) AS value")

    job = make_job(partitions=1, settings={"errors.on_bad_value": "skip"})
    job.send_values(0, [f'X{{"id": {n}, "text": "0:{n}"}}' for n in range(50)])
    insert(job, 0, LANDED)
    with pytest.raises(PreflightError, match="CHS-229") as caught:
        job.drain_sink(spark, without_first)

    assert recovered(job, caught.value) == []

    job.drain_sink(spark, without_first)
    job.check(rows_of=lambda record: [tuple(json.loads((record.value or b"")[1:]).values())])


@pytest.mark.soak
def test_tables_that_records_name(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ Records of other tables explain holes.  One table has no row yet: its records are before the other's last row."""
    job = make_job(partitions=1, table=False)
    names = job.create_for({"a": "id Int64", "b": "id Int64"})
    job.settings = {"route": [{"topic": job.name, "table_by": {"field": "$.t", "tables": names}}]}
    values = [{"id": n, "t": "b" if n in (21, 25, 33) else "a"} for n in range(50)]
    job.send_values(0, values)
    rows = ", ".join(f"({n}, '{job.name}', 0, {n})" for n in LANDED if values[n]["t"] == "a")
    command(job.shards[0], f"INSERT INTO {names['a']} VALUES {rows}")

    assert recovered(job, refused(job, spark)) == []
    job.send_values(0, [{"id": 50, "t": "b"}, {"id": 51, "t": "a"}])
    job.drain(spark)

    for kind, table in names.items():
        found = select(job.shards[0], f"SELECT id FROM {table} WHERE id = _kafka_offset ORDER BY id FORMAT TSV")
        wanted = [*(n for n in range(50) if values[n]["t"] == kind), 50 if kind == "b" else 51]
        assert list(map(int, found.split())) == wanted, kind
    assert {p["phase"] for p in job.status()["partitions"]} == {"AFTER"}

    anew = {**names, "b": names["b"] + "_anew"}
    rename, undo = (f"RENAME TABLE {old['b']} TO {new['b']}" for old, new in ((names, anew), (anew, names)))
    before, after = ({"route": [{"topic": job.name, "table_by": {"field": "$.t", "tables": m}}]} for m in (names, anew))
    job.everywhere(rename)
    job.settings = after
    assert recovered(job, refused(job, spark)) == []
    job.send_values(0, [{"id": 52, "t": "b"}])
    with pytest.raises(HaltError, match=r"CHS-309.*\[51, 52\)") as halted:  # the other table has passed one record more
        job.drain(spark)
    assert halted.value.hint.startswith("undo the change, run the job until a batch has landed in all tables")
    job.settings = before
    job.everywhere(undo)
    job.drain(spark)
    job.settings = after
    job.everywhere(rename)
    with pytest.raises(PreflightError, match="CHS-229") as stale:
        job.drain(spark)
    assert recovered(job, stale.value) == []
    job.send_values(0, [{"id": 53, "t": "b"}])
    job.drain(spark)
    found = select(job.shards[0], f"SELECT id FROM {anew['b']} WHERE id = _kafka_offset ORDER BY id FORMAT TSV")
    assert list(map(int, found.split())) == [21, 25, 33, 50, 52, 53]


@pytest.mark.soak
def test_rows_on_a_shard_that_was_removed(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ nothing said that they are looked for on the configured shards only: the next start inserted them again."""
    job = make_job(partitions=1, shards=2, shard_key=["id"])
    job.send(0, 60)
    job.drain(spark)
    both, job.shards, job.weights, job.shard_key = job.shards, job.shards[:1], [1], []
    job.send(0, 20)
    job.drain(spark)
    forget_state(job)
    words = ["recover", "--senders-gone"]
    asked = run(job, *words, stdin="n\n")
    said = "if shards that still hold rows were removed from clickhouse.endpoints, change nothing and run this command"
    [line] = [line for line in asked.stdout.splitlines() if line.startswith("looking for rows")]
    assert job.shards[0] in line and both[1] not in line and said in line
    assert asked.output.count(said) == 2, "and where offsets have no row"
    assert not job.phases()

    all_shards = ["--set", f"clickhouse.endpoints={json.dumps(both)}", "--set", 'clickhouse.shard_key=["id"]']
    found = run(job, *words, "--yes", *all_shards)
    assert found.exit_code == 0, found.output
    assert job.phases() == {0: ("AFTER", 0, 80)}

    job.send(0, 20)
    job.drain(spark)
    job.shards, job.weights, job.shard_key = both, [1, 1], ["id"]
    job.check()
