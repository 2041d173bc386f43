"""State, checkpoint and log that do not fit together: the job halts by id, and what a person then does brings it on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.topics import delete_records
from chsink.errors import ChsinkError, HaltError, PreflightError, UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, Job, await_query, command, eventually
from tests.support.kafka import read_all
from tests.support.told import says, setting_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def halts(id: str, job: Job, spark: SparkSession) -> ChsinkError:
    """The job halts with this id and exit code 3, and lands nothing."""
    before = job.landed()
    with pytest.raises(HaltError, match=id) as halted:
        job.drain(spark)
    assert halted.value.exit_code == 3
    assert job.landed() == before
    return halted.value


def test_state_lost_beside_a_checkpoint_that_has_history(make_job: MakeJob, spark: SparkSession) -> None:
    """All rows of the sink are deleted from KeeperMap: halt.  Restored, the job goes on."""
    job = make_job(partitions=1)
    job.send(0, 25)
    job.drain(spark)
    state, shard = f"{DATABASE}.chsink_state", job.shards[0]
    mine = f"key = '{job.name}' OR startsWith(key, '{job.name}/')"
    command(shard, f"CREATE TABLE {state}_backup ENGINE = MergeTree ORDER BY key AS SELECT * FROM {state} WHERE {mine}")
    command(shard, f"DELETE FROM {state} WHERE {mine}")
    assert not job.status()["partitions"]
    job.send(0, 13)
    halts("CHS-302", job, spark)
    command(shard, f"DELETE FROM {state} WHERE {mine}")
    command(shard, f"INSERT INTO {state} SELECT * FROM {state}_backup")
    command(shard, f"DROP TABLE {state}_backup")
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("REWOUND")
def test_offsets_rewound(make_job: MakeJob, spark: SparkSession) -> None:
    """A query of one's own starts at the earliest offsets, not where the sink stands: halt, or skip when told so."""
    job = make_job(partitions=2)
    for count in (30, 25, 3):
        job.send(0, count)
        job.send(1, 5)
        if count > 3:
            job.drain(spark)
    job.lose_checkpoint()
    small = {"kafka.max_offsets_per_trigger": 20}

    def from_the_start(**settings: str) -> None:
        sink = job.sink({**small, **settings})
        writer = job.stream(spark, sink, "earliest").writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True)
        try:
            await_query(sink, writer.start)
        finally:
            sink.close()

    landed = job.landed()
    with pytest.raises(HaltError, match="CHS-306") as halted:
        from_the_start()
    assert halted.value.exit_code == 3
    assert job.landed() == landed
    from_the_start(**setting_of(halted.value, "errors.on_rewind"))
    job.check()


def test_compaction_in_a_range_in_doubt(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """Offset 19, the last of a chunk, and the range's own last one are compacted away before it is settled."""
    compacting = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    job = make_job(partitions=1, topic_config=compacting)
    for key in (b"a", b"b", b"same", b"c", b"same"):
        job.send(0, 1 if key == b"same" else 9, key=key)
    job.send(0, 1, key=b"c")
    _, end = job.send(0, 1, key=b"last")
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("driver.after_before")
    failpoints.disarm()
    assert job.phases() == {0: ("BEFORE", 0, end)}

    def held() -> set[int]:
        return {record.offset for record in read_all(job.bootstrap, job.topic)}

    for key in (b"last", b"other"):
        time.sleep(0.2)
        job.send(0, 1, key=key)
    eventually("compaction", lambda: not held() & {18, end - 1})
    job.drain(spark)
    job.check()
    assert job.phases() == {0: ("AFTER", end, end + 2)}


def test_rows_of_another_sink_are_not_taken_for_its_own(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """Two sinks into one table (of two Kafkas, say): when tokens are forgotten, offsets alone prove nothing."""
    window = "ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 8"
    timeouts = {"clickhouse.insert_timeout_s": 3, "clickhouse.connect_timeout_s": 2}
    job = make_job(partitions=1, engine=window, settings=timeouts)
    job.send(0, 20)
    failpoints.arm("driver.after_before=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    for block in range(9):
        command(
            job.shards[0],
            f"INSERT INTO {job.tables[job.topic]} (id, text, _kafka_topic, _kafka_partition, _kafka_offset) "
            f"SELECT 1000 + number, 'foreign', '{job.topic}', 0, number FROM numbers({block * 10}, 10)",
        )
    with pytest.raises(
        PreflightError, match=r"CHS-229.*beyond what is recorded \(partition 0: 70 rows up to offset 89"
    ):
        job.drain(spark)
    job.settings = {**job.settings, "errors.on_existing_rows": "accept"}
    assert "that another sink" in halts("CHS-318", job, spark).message
    assert job.in_doubt() == {0}


@pytest.mark.exit_of("PLAN_NOT_HELD")
def test_unread_records_are_removed_while_the_job_is_down(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ retention: nothing is announced that cannot be read, and the named way out lands all that Kafka still holds."""
    job = make_job(partitions=2)
    for count in (20, 22):
        job.send(0, count)
        job.send(1, count)
        if count == 20:
            job.drain(spark)
    delete_records(job.bootstrap, job.topic, 0, 30)
    recording = dict[str, str]()
    for _ in range(2):
        with pytest.raises(HaltError, match=r"CHS-307.*Kafka deleted \[20, 30\) before these offsets landed") as halted:
            job.drain(spark, recording)
        recording = setting_of(halted.value, "errors.on_gap")
        says(halted.value, "and start with a new checkpoint")
        assert job.phases() == {0: ("AFTER", 0, 20), 1: ("AFTER", 0, 20)}
    job.lose_checkpoint()

    job.drain(spark, recording)

    landed = sorted((partition, offset) for partition, offset, *_ in job.landed())
    assert landed == [*((0, o) for o in (*range(20), *range(30, 42))), *((1, o) for o in range(42))]


def test_broker_away_then_back_with_a_shorter_log(make_job: MakeJob, spark: SparkSession, tmp_path: Path) -> None:
    """The broker loses a partition's segments while it is down; the topic is the same by its id."""
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        kafka.create_topic("short", 1)
        job = make_job(partitions=1, table=False)
        job.bootstrap = kafka.bootstrap
        job.make_table("short", suffix=f"_{job.name}".replace("-", "_"))
        job.send(0, 30)
        job.drain(spark)
        kafka.stop()

        began = time.monotonic()
        with pytest.raises(UnavailableError, match=f"CHS-702.*{kafka.bootstrap}") as away:
            job.drain(spark, {"kafka.timeout_s": 3})
        assert away.value.exit_code == 5
        assert time.monotonic() - began < 15

        for file in (kafka.path / "data" / "short-0").iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        kafka.start()
        job.send(0, 12)
        assert "state reset" in halts("CHS-301", job, spark).hint
        job.lose_checkpoint()
        halts("CHS-301", job, spark)
        assert len(job.landed()) == 30
