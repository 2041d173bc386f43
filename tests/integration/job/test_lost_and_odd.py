"""Lost checkpoints, lost answers, odd logs and a second driver: every record is there once, or the job halts by id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from typer.testing import CliRunner

from chsink import failpoints as failpoints_module
from chsink.cli.main import app
from chsink.driver.ledger import Ledger
from chsink.embedded.stack import Stack
from chsink.errors import FencedError, HaltError, PreflightError, UnavailableError
from chsink.spark.sink import Sink, kafka_stream
from chsink.statemachine.records import StateKey
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.doubt import run
from tests.support.job import Job, Row, await_query, command, select
from tests.support.kafka import Record
from tests.support.proxies import HttpFault, HttpProxy

pytestmark = pytest.mark.slow


def exploded(stream: DataFrame) -> DataFrame:
    """0..N rows a record: ``id % 3`` of them."""
    read = f.from_json(stream.value.cast("string"), "id long, text string")
    rows = stream.select("topic", "partition", "offset", read.alias("r")).where("r.id % 3 > 0")
    return rows.select("topic", "partition", "offset", f.explode(f.expr("sequence(1, r.id % 3)")).alias("id"), "r.text")


def rows_of(record: Record) -> Iterable[Row]:
    """What ``exploded`` makes of a record."""
    value = json.loads(record.value or b"{}")
    return [(n, value["text"]) for n in range(1, value["id"] % 3 + 1)]


def in_doubt(job: Job, spark: SparkSession, failpoints: Failpoints, step: str = "task.after_insert=kill@2") -> None:
    failpoints.arm(step)
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired(step.partition("=")[0])
    failpoints.disarm()
    assert job.in_doubt()


def test_lost_checkpoint_other_batch_size_and_a_doubtful_partition_without_new_records(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    job = make_job(partitions=2)
    job.send(0, 45)
    job.send(1, 33)
    in_doubt(job, spark, failpoints)
    job.lose_checkpoint()
    job.send(1, 21)
    job.drain(spark, {"kafka.max_offsets_per_trigger": 13})
    job.check()


@pytest.mark.soak
def test_settles_through_the_users_transform(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    job = make_job(partitions=2)
    job.send(0, 30)
    job.send(1, 30)
    failpoints.arm("driver.before_after=fail")
    with pytest.raises(Exception, match=r"driver\.before_after"):
        job.drain_sink(spark, exploded)
    failpoints.assert_fired("driver.before_after")
    failpoints.disarm()
    assert job.in_doubt() == {0, 1}
    job.lose_checkpoint()
    job.send(1, 10)
    job.drain_sink(spark, exploded)
    job.check(rows_of=rows_of)


def test_markers_and_aborted_records_in_a_doubtful_range(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    job = make_job(partitions=1)
    job.send(0, 15, transactional=f"{job.name}-a")
    job.send(0, 12, transactional=f"{job.name}-b", abort=True)
    _, end = job.send(0, 8, transactional=f"{job.name}-c")
    in_doubt(job, spark, failpoints, "driver.after_before=fail")
    assert job.phases()[0] == ("BEFORE", 0, end)
    job.drain(spark)
    job.check()


@pytest.mark.soak
def test_topic_deleted_and_made_anew(make_job: MakeJob, spark: SparkSession, services: Stack) -> None:
    job = make_job(partitions=1)
    job.send(0, 30)
    job.drain(spark)
    services.kafka.delete_topic(job.topic)
    services.kafka.create_topic(job.topic, 1)
    job.send(0, 12)
    job.lose_checkpoint()
    job.drain(spark)
    offsets = [offset for _, offset, *_ in job.landed()]
    assert sorted(offsets) == sorted([*range(30), *range(12)])
    assert not job.verdict().lost


@pytest.mark.parametrize("match", ["INSERT INTO `job`.`t_", pytest.param("ALTER TABLE", marks=pytest.mark.soak)])
def test_answer_lost(match: str, make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=2)
    with HttpProxy(job.shards[0]) as proxy:
        job.shards = [proxy.url]
        job.send(0, 25)
        job.send(1, 25)
        proxy.inject(HttpFault.DROP_ANSWER, match=match, times=2)
        job.drain(spark)
        assert proxy.fired[HttpFault.DROP_ANSWER] == 2
        job.check()


@pytest.mark.soak
def test_a_token_without_its_rows(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ A plain MergeTree notes the token before it stores the part.  If that failed and the answer was lost, it dropped
    the same piece as a duplicate when it was sent again: the rows were lost.
    """
    job = make_job(partitions=1)
    where = f"WHERE database || '.' || name = '{job.tables[job.topic]}'"
    part = Path(select(job.shards[0], f"SELECT data_paths[1] FROM system.tables {where}").strip()) / "all_1_1_0"
    part.write_text("in the way")  # the server cannot give the first part its name
    with HttpProxy(job.shards[0]) as proxy:
        job.shards = [proxy.url]
        job.send(0, 10)
        proxy.inject(HttpFault.DROP_ANSWER, match="INSERT INTO `job`.`t_")
        with pytest.raises(HaltError, match="CHS-314.*dropped a piece of 10 rows"):
            job.drain(spark)
        assert proxy.fired[HttpFault.DROP_ANSWER] == 1
        part.unlink()
        assert run(job, "resolve", job.topic, "0", "--resend", "--senders-gone", "--yes").exit_code == 0
        job.drain(spark)
        job.check()


@pytest.mark.soak
def test_older_driver_is_fenced_and_names_the_owner(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 20)
    older = Sink(job.config())
    stream = kafka_stream(spark, job.config(), older.starting_offsets(), headers=False)
    older.start(stream).awaitTermination()
    job.send(0, 20)
    newer = job.config({"sink.checkpoint": str(job.folder / "other")})
    job.drain(spark, {"sink.checkpoint": newer.sink.checkpoint})
    writer = stream.writeStream.foreachBatch(older).option("checkpointLocation", str(job.checkpoint))
    job.send(0, 20)
    older._loop._run = None  # the batch to come counts as one of the run that was overtaken: a new run would claim anew
    try:
        with pytest.raises(FencedError, match=r"CHS-801.*now owned by") as caught:
            await_query(older, lambda: writer.trigger(availableNow=True).start())
    finally:
        older.close()
    assert caught.value.exit_code == 4
    job.drain(spark, {"sink.checkpoint": newer.sink.checkpoint})
    job.check()


@pytest.mark.parametrize(
    ("name", "id"), [("shuffle", "CHS-611"), ("union", "CHS-601"), ("rand", "CHS-604"), ("minPartitions", "CHS-602")]
)
def test_streams_that_cannot_carry_the_promise(name: str, id: str, make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 5)

    def transform(stream: DataFrame) -> DataFrame:
        match name:
            case "shuffle":
                return stream.repartition(2)
            case "union":
                return stream.union(stream)
            case "rand":
                return stream.withColumn("text", f.rand().cast("string"))
        options = job.config().kafka.spark_options()
        reader = spark.readStream.format("kafka").options(**options).option("subscribe", job.topic)
        return reader.option("minPartitions", "4").load()

    with pytest.raises(PreflightError, match=id):
        job.drain_sink(spark, transform)
    assert job.landed() == []


@pytest.mark.soak
def test_a_topic_recreated_between_before_and_the_read(
    make_job: MakeJob, services: Stack, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ the plan fits the new topic, so Spark reads its records: none may land under the old topic's range."""
    job = make_job(partitions=1)
    job.send(0, 20)

    def recreate(name: str) -> None:
        if name == "driver.after_before":
            monkeypatch.setattr("chsink.failpoints.reach", reach)
            services.kafka.delete_topic(job.topic)
            services.kafka.create_topic(job.topic, 1)
            job.sent.clear()
            job.send(0, 20)

    reach = failpoints_module.reach
    monkeypatch.setattr("chsink.failpoints.reach", recreate)
    with pytest.raises(HaltError, match=r"CHS-308.*the topic's id changed"):
        job.drain(spark)
    assert job.landed() == []
    assert job.in_doubt() == {0}

    arguments = ["state", "resolve", job.topic, "0", "--lost", "--yes", "-c", str(job.file())]
    resolved = CliRunner().invoke(app, arguments)
    assert resolved.exit_code == 0, resolved.output
    job.lose_checkpoint()
    job.drain(spark)
    job.check()


def test_state_lost_between_the_checks_and_the_claim(
    make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ a start that was frozen after its checks: another one landed its first batch, then the state was lost."""
    job = make_job(partitions=1)
    job.send(0, 20)
    claim = Ledger.claim

    def late(ledger: Ledger, keys: Iterable[StateKey], layouts: Mapping[str, str]) -> None:
        monkeypatch.setattr(Ledger, "claim", claim)
        insert = "INSERT INTO {} SELECT number, '', '{}', 0, number FROM numbers(20)"
        command(job.shards[0], insert.format(job.tables[job.topic], job.topic))
        claim(ledger, keys, layouts)

    monkeypatch.setattr(Ledger, "claim", late)
    with pytest.raises(PreflightError, match=r"CHS-229.*partition 0: 20 rows up to offset 19"):
        job.drain(spark)
    assert len(job.landed()) == 20
