"""Each halt is reached, the command or the change that its fix names is carried out, and every record is there once.

``exit_of`` names the entry of the catalogue; ``tests/unit/errors/test_exits.py`` asserts that each halt has such a test,
here or elsewhere.
"""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.cli.verify import read_report
from chsink.embedded.stack import Stack
from chsink.embedded.topics import delete_records
from chsink.errors import ChsinkError, HaltError
from chsink.ports import StoredRow, Swap
from chsink.statemachine.ranges import OffsetRange
from chsink.verify.route import Selection
from tests.integration.exits.commands import command_of, follow, halted
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.doubt import announce, edit, insert, quietly_connected, run
from tests.support.job import Job, await_query, command, select
from tests.support.kafka import read_all
from tests.support.told import option_of, says, statements_of

pytestmark = pytest.mark.slow
_NEW_CHECKPOINT = ("start with a new checkpoint (set sink.checkpoint to a new folder)",)
_RESUME = (
    "(set sink.checkpoint to a new folder; if the sink has landed nothing at all yet, also set kafka.starting_offsets"
)


@pytest.fixture
def half(make_job: MakeJob) -> Job:
    """Two partitions: [0, 10) landed, [10, 25) in doubt.  The rows of it are in the table for partition 0 only."""
    return half_landed(make_job(partitions=2))


def half_landed(job: Job) -> Job:
    for n, end in ((0, 25), (1, 10)):
        job.send(n, 25)
        insert(job, n, range(end))
    announce(job, {0: (10, 25), 1: (10, 25)})
    return job


def decide_both(job: Job, error: ChsinkError) -> None:
    """What the fix offers: the rows of partition 0 are there, those of 1 are not."""
    for other, verdict in (("1", "--landed"), ("0", "--resend")):
        words = command_of(error, job.topic, "0", "1", verdict)
        words.remove(other)
        result = run(job, *words, "--yes", *(["--senders-gone"] if verdict == "--resend" else []))
        assert result.exit_code == 0, result.output


def forgotten(job: Job) -> None:
    """The tokens of the ranges in doubt may be forgotten, and nobody can be sending them any more."""
    edit(job, seen={"before_at": 1, "marks": ()})


def delete(job: Job, said: Result) -> None:
    """Run the statement that a refusal names."""
    [statement] = statements_of(said, "DELETE FROM")
    command(job.shards[0], f"{statement} SETTINGS lightweight_deletes_sync = 2")


def replan(job: Job, ends: dict[str, int]) -> None:
    """The newest batch of the checkpoint ends there, and is not finished."""
    newest = max((job.checkpoint / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
    lines = newest.read_text().splitlines()
    lines[-1] = json.dumps({job.topic: ends})
    for file in (newest.parent / f".{newest.name}.crc", job.checkpoint / "commits" / newest.name):
        file.unlink()
    (job.checkpoint / "commits" / f".{newest.name}.crc").unlink()
    newest.write_text("\n".join(lines))


def landed_twice(job: Job, spark: SparkSession) -> None:
    """Two batches, 10 and 5 records."""
    for count in (10, 5):
        job.send(0, count)
        job.drain(spark)


def from_offset(job: Job, spark: SparkSession, offset: int) -> None:
    """A query of one's own, with a new checkpoint, from there."""
    sink = job.sink()
    writer = job.stream(spark, sink, json.dumps({job.topic: {"0": offset}})).writeStream.foreachBatch(sink)
    writer = writer.option("checkpointLocation", str(job.folder / "of-its-own")).trigger(availableNow=True)
    try:
        await_query(sink, writer.start)
    finally:
        sink.close()


# --- Kafka's log and the checkpoint ----------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.exit_of("LOG_SHRANK")
def test_log_shrank(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 12)
    insert(job, 0, range(25))
    announce(job, {0: (25, 25)})
    error = halted("LOG_SHRANK", job, spark)

    says(error, "copy all rows and dead letters of these partitions to other tables")
    follow(job, error)
    says(error, "delete the rows of all offsets that Kafka holds now", *_NEW_CHECKPOINT)
    held = "_kafka_offset < 12 SETTINGS lightweight_deletes_sync = 2"
    command(job.shards[0], f"DELETE FROM {job.tables[job.topic]} WHERE {held}")
    kept = Counter(job.landed())
    job.drain(spark, {"kafka.starting_offsets": "latest"})
    verdict = job.verdict()
    assert (verdict.lost, verdict.surplus, kept.total()) == (Counter(), kept, 13), verdict
    assert not job.in_doubt()


@pytest.mark.soak
@pytest.mark.exit_of("PLAN_BEYOND_LOG")
def test_plan_beyond_the_log(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    landed_twice(job, spark)
    edit(job, start=0, end=10)
    command(job.shards[0], f"DELETE FROM {job.tables[job.topic]} WHERE _kafka_offset > 9")
    replan(job, {"0": 40})
    says(halted("PLAN_BEYOND_LOG", job, spark), _RESUME)
    job.lose_checkpoint()
    edit(job, life={"nonce": "of-another-life"})
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("TOPIC_RECREATED")
@pytest.mark.parametrize("gone", [0, 5])
def test_topic_recreated(make_job: MakeJob, spark: SparkSession, services: Stack, gone: int) -> None:
    """With a new checkpoint; where Kafka no longer holds its first records, after a reset."""
    job = make_job(partitions=1)
    job.send(0, 10)
    job.drain(spark)
    before = Counter(job.landed())
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic, 1)
    job.sent.clear()
    job.send(0, 20)
    if gone:
        delete_records(job.bootstrap, job.topic, 0, gone)
    error = halted("TOPIC_RECREATED", job, spark)

    says(error, *_NEW_CHECKPOINT)
    if gone:
        follow(job, error, "reset")
    job.lose_checkpoint()
    job.drain(spark, {"kafka.starting_offsets": "latest"} if gone else {})

    rows = Counter(job.landed()) - before
    assert sorted(offset for _, offset, *_ in rows.elements()) == [r.offset for r in read_all(job.bootstrap, job.topic)]
    assert not job.in_doubt()


@pytest.mark.soak
@pytest.mark.exit_of("SOURCE_MISSES_OFFSETS")
def test_the_source_misses_offsets(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    job = make_job(partitions=1)
    job.send(0, 10)
    job.drain(spark)
    before = Counter(job.landed())
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic, 1)
    job.sent.clear()
    job.send(0, 5)
    says(halted("SOURCE_MISSES_OFFSETS", job, spark), _RESUME)
    job.lose_checkpoint()
    job.drain(spark)
    assert sorted(o for _, o, *_ in (Counter(job.landed()) - before).elements()) == list(range(5))


@pytest.mark.soak
@pytest.mark.exit_of("GAP")
def test_a_plan_skips_offsets(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 10)
    job.drain(spark)
    job.send(0, 10)
    with pytest.raises(HaltError) as caught:
        from_offset(job, spark, 15)
    assert caught.value.name == "GAP"
    says(caught.value, *_NEW_CHECKPOINT, 'also set errors.on_gap = "record"')
    job.lose_checkpoint()
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("PASSED_OVER")
def test_a_route_that_was_removed_for_a_time(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ The topic is idle since: no batch would tell, and the table would lack the records as long as none comes."""
    job = make_job(partitions=2)
    first = job.tables[job.topic]
    second = job.make_table(job.topic, suffix="_second")
    job.tables[job.topic] = first
    routes = [{"topic": job.topic, "table": table} for table in (first, second)]
    job.settings = {"route": routes}
    job.send(0, 10)
    job.drain(spark)
    job.send(0, 30)
    job.send(1, 30)
    job.drain(spark, {"route": routes[:1]})

    error = halted("PASSED_OVER", job, spark)
    assert f"{job.topic}-0: the checkpoint is past offsets that did not land ({second} lacks [10, 40)" in error.message
    assert f"{job.topic}-1: no range is recorded for this partition" in error.message
    assert f"({second} lacks [0, 30)" in error.message
    left_out = read_report(job.config(), Selection()).as_dict()["partitions"]
    assert {(p["table"], p["partition"]): [u["range"] for u in p["unjudged"]] for p in left_out} == {
        (first, 0): [], (first, 1): [], (second, 0): [[10, 40]], (second, 1): [[0, 30]],
    }  # fmt: skip
    says(error, "chsink then lands these offsets", *_NEW_CHECKPOINT)
    job.lose_checkpoint()
    job.drain(spark)
    for table in (first, second):
        job.tables[job.topic] = table
        job.check()


@pytest.mark.soak
@pytest.mark.exit_of("OUTSIDE_PROCESSED")
def test_a_plan_of_offsets_that_never_landed(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 30)
    insert(job, 0, range(30))
    announce(job, {0: (30, 30)})
    edit(job, start=20, gaps=(OffsetRange(10, 20),))
    job.send(0, 5)
    with pytest.raises(HaltError) as caught:
        from_offset(job, spark, 15)
    assert caught.value.name == "OUTSIDE_PROCESSED"
    says(caught.value, "to continue after the recorded offsets", *_NEW_CHECKPOINT)
    job.drain(spark)
    job.check()


# --- ranges in doubt -------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.exit_of("TOPIC_ID_KNOWN_UNKNOWN")
def test_brokers_were_upgraded_while_a_range_was_in_doubt(half: Job, spark: SparkSession) -> None:
    edit(half, life={"topic_id": None})
    decide_both(half, halted("TOPIC_ID_KNOWN_UNKNOWN", half, spark))
    half.drain(spark)
    half.check()


@pytest.mark.soak
@pytest.mark.exit_of("IN_DOUBT_LOST")
@pytest.mark.exit_of("RESEND_NOT_READABLE")
def test_a_part_expired(half: Job, spark: SparkSession) -> None:
    """⚑ what Kafka still holds lands, what it does not is a gap; rows that landed before are not doubled."""
    forgotten(half)
    for n in (0, 1):
        delete_records(half.bootstrap, half.topic, n, 15)
    found = json.loads(CliRunner().invoke(app, ["doctor", "-c", str(half.file()), "--json"]).stdout)["findings"]
    expired = [f for f in found if "Kafka no longer holds all of it" in f["sentence"]]
    assert [f["id"] for f in expired] == ["CHS-227"] * 2
    assert f"`chsink state resolve {half.topic} 0 -c {half.file()}`" in expired[0]["fix"]
    error = halted("IN_DOUBT_LOST", half, spark)

    refused = run(half, "resolve", half.topic, "0", "1", "--resend", "--senders-gone", "--yes")
    assert refused.exit_code == 2
    assert "CHS-322" in refused.stderr
    follow(half, error, option_of(refused, "--expired"))
    half.drain(spark)

    assert Counter((p, o) for p, o, *_ in half.landed()) == Counter(
        [*((0, o) for o in range(25)), *((1, o) for o in (*range(10), *range(15, 25)))]
    )
    assert not half.in_doubt()


@pytest.mark.soak
@pytest.mark.exit_of("IN_DOUBT_LOST")
@pytest.mark.exit_of("EXPIRED_NOT_HELD")
def test_the_topic_of_a_range_was_recreated(half: Job, spark: SparkSession, services: Stack) -> None:
    """``--expired`` would meet the same halt again: it is refused.  ``--lost`` and a new checkpoint lead on."""
    services.kafka.delete_topic(half.topic)
    services.kafka.create_topic(half.topic, 2)
    before = Counter(half.landed())
    half.sent.clear()
    half.send(0, 7)
    error = halted("IN_DOUBT_LOST", half, spark)
    refused = run(half, "resolve", half.topic, "0", "1", "--expired", "--yes")
    assert (refused.exit_code, "CHS-322" in refused.stderr) == (2, True)

    follow(half, error, option_of(refused, "--lost"))
    half.drain(spark)

    assert sorted(o for _, o, *_ in (Counter(half.landed()) - before).elements()) == list(range(7))


@pytest.mark.soak
@pytest.mark.parametrize(("landed", "goes_back"), [(False, False), (True, True)])
def test_a_programs_filter_changed(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, *, landed: bool, goes_back: bool
) -> None:
    """⚑ The command cannot know a program's transform: the next start sends the range by its own, whichever that is."""
    job = make_job(partitions=1)
    job.send(0, 30)

    def drain(step: int) -> None:
        job.drain_sink(spark, lambda stream: stream.where(f"offset % {step} = 0"))

    failpoints.arm("driver.before_after=fail" if landed else "driver.after_before=fail")
    with pytest.raises(Exception, match=r"driver\.(before_after|after_before)"):
        drain(2)
    failpoints.disarm()
    with pytest.raises(HaltError, match="CHS-309.*transform") as caught:
        drain(3)
    words = command_of(caught.value, "--resend")
    for _ in range(3):  # it names the rows to delete, then what it needs to be told
        result = run(job, *words, "--yes")
        if result.exit_code == 0:
            break
        if "DELETE FROM" in result.stderr:
            delete(job, result)
        else:
            words += re.findall(r"again with (--[a-z-]+)", result.stderr.replace("\n", " "))
    assert "done: the next start sends these ranges again" in result.stdout
    job.send(0, 10)
    step = 2 if goes_back else 3
    drain(step)
    wanted = [o for o in range(40) if o % step == 0]
    assert [o for _, o, *_ in sorted(job.landed())] == wanted
    assert not job.in_doubt()


@pytest.mark.exit_of("PIPELINE_CHANGED")
@pytest.mark.exit_of("RESEND_WOULD_DOUBLE")
def test_the_pipeline_changed(half: Job, spark: SparkSession) -> None:
    command(half.shards[0], f"ALTER TABLE {half.tables[half.topic]} ADD COLUMN more Nullable(UInt8) FIRST")
    error = halted("PIPELINE_CHANGED", half, spark)
    refused = run(half, "resolve", half.topic, "0", "1", "--resend", "--senders-gone", "--yes")
    assert refused.exit_code == 2
    delete(half, refused)
    follow(half, error, "--resend", more=("--senders-gone",))
    half.drain(spark)
    half.check()


@pytest.mark.soak
def test_rows_are_deleted_beside_a_projection(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """ClickHouse refuses a lightweight DELETE there, with code 344."""
    job = make_job(partitions=1)
    table = job.tables[job.topic]
    command(job.shards[0], f"ALTER TABLE {table} ADD PROJECTION more (SELECT * ORDER BY _kafka_offset)")
    job.send(0, 15)
    crash_before_after(job, spark, failpoints)
    resend = (job, "resolve", job.topic, "0", "--resend", "--senders-gone", "--yes")
    refused = " ".join(run(*resend).stderr.split())
    [statement] = re.findall(r"(ALTER TABLE [^;]+ mutations_sync = 2);", refused)
    command(job.shards[0], statement)
    assert run(*resend).exit_code == 0
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("LAYOUT_LOST")
def test_a_layout_is_not_stored(half: Job, spark: SparkSession) -> None:
    edit(half, sent={"layout": "0123456789abcdef"})
    decide_both(half, halted("LAYOUT_LOST", half, spark))
    half.drain(spark)
    half.check()


@pytest.mark.soak
@pytest.mark.exit_of("NOT_ROUTED")
def test_a_route_is_gone(half: Job, spark: SparkSession) -> None:
    """One range by its command, the other by the route's return."""
    table = half.tables[half.topic]
    half.make_table(half.topic, suffix="_other")
    error = halted("NOT_ROUTED", half, spark)
    words = command_of(error, half.topic, "0", "1", "--landed")
    words.remove("1")
    resolved = run(half, *words, "--yes")
    assert resolved.exit_code == 0
    assert f"no route leads to {table}" in resolved.stdout.replace("\n", " ")
    half.tables[half.topic] = table
    half.drain(spark)
    half.check()


@pytest.mark.soak
@pytest.mark.exit_of("PIECE_INCOMPLETE")
def test_a_piece_is_there_in_part(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ And the job is started once the rows are deleted, before ``--resend``: the table remembers their token."""
    job = make_job(partitions=1)
    job.send(0, 15)
    crash_before_after(job, spark, failpoints)
    forgotten(job)
    table = job.tables[job.topic]
    command(job.shards[0], f"DELETE FROM {table} WHERE _kafka_offset = 3 SETTINGS lightweight_deletes_sync = 2")
    error = halted("PIECE_INCOMPLETE", job, spark)
    delete(job, run(job, *command_of(error, job.topic, "0", "--resend"), "--senders-gone", "--yes"))
    error = halted("PIECE_DROPPED", job, spark)
    follow(job, error, "--resend", more=("--senders-gone",))
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("PIECE_DROPPED")
def test_rows_of_a_range_in_doubt_are_deleted(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ As ``--resend`` names them; then the job is started, before ``--resend`` has succeeded.  Nothing else happened, so
    the range's tokens are trusted.
    """
    job = make_job(partitions=1)
    job.send(0, 15)
    crash_before_after(job, spark, failpoints)
    delete(job, run(job, "resolve", job.topic, "0", "--resend", "--senders-gone", "--yes"))
    follow(job, halted("PIECE_DROPPED", job, spark), "--resend", more=("--senders-gone",))
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("PIECE_STORED_AGAIN")
def test_parts_of_a_range_in_doubt_are_detached_and_attached(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ The table forgets their tokens: the first piece that is sent again is there twice."""
    job = make_job(partitions=1)
    command(job.shards[0], "SELECT sleep(2.5)")  # a table that is younger may have been altered
    job.send(0, 15)
    crash_before_after(job, spark, failpoints)
    for verb in ("DETACH", "ATTACH"):
        command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} {verb} PARTITION tuple()")
    with pytest.raises(HaltError) as caught:
        job.drain(spark)
    error = caught.value
    assert (error.name, error.exit_code, len(job.landed())) == ("PIECE_STORED_AGAIN", 3, 25)
    delete(job, run(job, *command_of(error, "--resend"), "--senders-gone", "--yes"))
    follow(job, error, "--resend", more=("--senders-gone",))
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("INSERT_REFUSED")
def test_an_insert_is_refused(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 15)
    table = job.tables[job.topic]
    view = f"CREATE MATERIALIZED VIEW {table}_view ENGINE = MergeTree ORDER BY id AS SELECT id FROM {table}"
    command(job.shards[0], f"{view} WHERE NOT throwIf(id = 12)")
    with pytest.raises(HaltError) as caught:
        job.drain(spark)
    assert caught.value.name == "INSERT_REFUSED"
    says(caught.value, "correct the views, the grants, [clickhouse.settings] or the table")
    command(job.shards[0], f"DROP VIEW {table}_view")
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("CANNOT_PROBE")
def test_a_table_that_cannot_be_searched(make_job: MakeJob, spark: SparkSession) -> None:
    engine = "ENGINE = ReplacingMergeTree ORDER BY (_kafka_partition, _kafka_offset)"
    job = half_landed(make_job(partitions=2, engine=f"{engine} SETTINGS non_replicated_deduplication_window = 1000"))
    forgotten(job)
    decide_both(job, halted("CANNOT_PROBE", job, spark))
    job.drain(spark)
    job.check()


@pytest.mark.soak
@pytest.mark.exit_of("VIEWS_DOUBTFUL")
def test_views_may_lack_rows(half: Job, spark: SparkSession) -> None:
    table = half.tables[half.topic]
    command(half.shards[0], f"CREATE TABLE {table}_copy (id UInt64, p UInt32) ENGINE = MergeTree ORDER BY id")
    reading = f"SELECT id, _kafka_partition AS p FROM {table}"
    command(half.shards[0], f"CREATE MATERIALIZED VIEW {table}_view TO {table}_copy AS {reading}")
    command(half.shards[0], f"INSERT INTO {table}_copy {reading} WHERE _kafka_offset < 10")
    forgotten(half)
    with pytest.raises(HaltError, match=f"CHS-317.*{table}_view") as caught:
        half.drain(spark)
    assert half.in_doubt() == {0}, "nothing of the other one was there: the view received it with the table"
    refused = run(half, "resolve", half.topic, "0", "--resend", "--senders-gone", "--yes")
    assert f"from the targets of its views: {table}_view" in refused.stderr.replace("\n", " ")
    command(half.shards[0], f"INSERT INTO {table}_copy {reading} WHERE _kafka_partition = 0 AND _kafka_offset >= 10")
    follow(half, caught.value)
    half.drain(spark)
    half.check()
    assert select(half.shards[0], f"SELECT count(), uniqExact(id, p) FROM {table}_copy").split() == ["50", "50"]


# --- state, values, chunks -------------------------------------------------------------------------------------------


@pytest.mark.exit_of("STATE_UNREADABLE")
def test_a_damaged_row_is_restored(half: Job, spark: SparkSession) -> None:
    forgotten(half)
    with quietly_connected(half) as opened:
        store = opened.store
        key, row = next((k, r) for k, r in store.load(half.name).items() if k.endswith(half.tables[half.topic]))
        assert store.swap([Swap(row.attempt, StoredRow(key, "damage", "{"))])
        says(halted("STATE_UNREADABLE", half, spark), "if the row is damaged, restore the state from a backup")
        assert store.swap([Swap("damage", row)])
    half.drain(spark)
    half.check()


@pytest.mark.exit_of("BAD_VALUE")
def test_a_value_does_not_fit(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=2)
    for n in (0, 1):
        job.send_values(n, [{"id": "a text", "text": "x"}])
    error = halted("BAD_VALUE", job, spark)
    command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} MODIFY COLUMN id String")
    follow(job, error, "--resend", "--senders-gone")
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("CHUNK_TOO_LARGE")
@pytest.mark.parametrize(
    ("resent", "window"), [(False, 1000), *(pytest.param(True, window, marks=pytest.mark.soak) for window in (1000, 3))]
)
def test_a_chunk_is_too_large(make_job: MakeJob, spark: SparkSession, resent: bool, window: int) -> None:
    """A range that a resend cuts into smaller chunks, also where the table remembers one chunk of a round and no more;
    or that is sent in its chunks under a higher limit.
    """
    engine = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = {window}"
    job = make_job(partitions=1, engine=engine)
    job.send_values(0, [{"id": n, "text": "x" * 200_000} for n in range(8)])
    small = {"clickhouse.max_chunk_bytes": 1 << 20}
    error = halted("CHUNK_TOO_LARGE", job, spark, small)
    says(error, "clickhouse.max_chunk_bytes")
    if resent:
        follow(job, error, "--resend", more=("--senders-gone", "--set", "clickhouse.chunk_offsets=3"))
        job.drain(spark, {**small, "clickhouse.chunk_offsets": 3})
    else:
        job.drain(spark)
    job.check()
