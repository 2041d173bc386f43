"""Ways in and triggers: a query of one's own, a transform, a table that is altered while the query runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from threading import Timer
from time import monotonic

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from chsink.embedded.topics import create_topic, delete_records
from chsink.errors import ConfigError, HaltError, PreflightError
from chsink.kafka.admin import open_admin
from chsink.kafka.sample import LAG_S, holding, may_have_held
from chsink.spark.executor import PLACE, PLACE_BITS
from chsink.spark.runner import _place
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.integration.job.conftest import MakeJob
from tests.support.job import DATABASE, Row, await_query, command, eventually, select
from tests.support.kafka import Record

pytestmark = pytest.mark.slow

READ = "id long, text string"


def doubled(stream: DataFrame) -> DataFrame:
    """0..2 rows a record, with topic, partition and offset."""
    read = stream.select("topic", "partition", "offset", f.from_json(stream.value.cast("string"), READ).alias("r"))
    rows = read.where("r.id % 3 > 0").withColumn("text", f.explode(f.expr("slice(array('a', 'b'), 1, int(r.id % 3))")))
    return rows.select("topic", "partition", "offset", "r.id", f.concat("r.text", "text").alias("text"))


def rows_of(record: Record) -> Iterable[Row]:
    """What ``doubled`` makes of a record."""
    value = json.loads(record.value or b"")
    return [(value["id"], value["text"] + more) for more in "ab"[: value["id"] % 3]]


def test_function_of_foreach_batch_with_a_transform_starts_where_the_sink_stands(
    make_job: MakeJob, spark: SparkSession
) -> None:
    """``starting_offsets`` is what makes the second run, with a checkpoint of its own, begin there."""
    job = make_job(partitions=2)
    job.send(0, 25)
    job.drain_foreach(spark, doubled)
    job.lose_checkpoint()
    job.send(0, 8)
    job.send(1, 14)
    job.drain_foreach(spark, doubled)
    job.check(rows_of=rows_of)
    began = json.loads((job.checkpoint / "sources" / "0" / "0").read_text().rpartition("\n")[2])
    assert began == {job.topic: {"0": 25, "1": 0}}


def test_table_altered_and_topic_created_between_two_batches_of_a_running_query(
    make_job: MakeJob, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column is added: the next batch fills it.  A topic appears that the pattern of the route matches: the next batch
    lands it, from its first record.  The query runs on, with the trigger ``processing_time``.
    """
    job = make_job(partitions=1)
    first, new = job.topic, f"{job.topic}.new"
    table = job.tables[first]
    route = f"[{{ topic_pattern = '{first}.*', table = 't_{{topic:_}}' }}]"
    running = {"trigger.mode": "processing_time", "trigger.interval": "50 milliseconds", "route": route}
    sink = job.sink(running)
    query = sink.start(job.stream(spark, sink))

    def landed(rows: int, topic: str = first) -> bool:
        assert query.isActive, sink.failure
        found = int(select(job.shards[0], f"SELECT count() FROM {job.tables[topic]}"))
        return found >= rows and not job.in_doubt(topic)

    try:
        values = [{"id": n, "text": "x", "more": f"of {n}"} for n in range(40)]
        job.send_values(0, values[:15])
        eventually("first batch", lambda: landed(15))
        command(job.shards[0], f"ALTER TABLE {table} ADD COLUMN more String AFTER id")
        job.send_values(0, values[15:30])
        eventually("second batch", lambda: landed(30))
        command(job.shards[0], f"ALTER TABLE {table} DROP COLUMN text")
        job.send_values(0, values[30:])
        eventually("third batch", lambda: landed(40))
        job.make_table(new.replace(".", "_"))
        job.tables[new] = job.tables.pop(new.replace(".", "_"))
        create_topic(job.bootstrap, new, 2)
        job.send(0, 12, topic=new)
        job.send(1, 7, topic=new)
        eventually("batch of the new topic", lambda: landed(19, new))
        partitions = job.status({"route": route})["partitions"]
        assert {(p["topic"], p["partition"], p["table"]) for p in partitions} == {
            (first, 0, table),
            (new, 0, job.tables[new]),
            (new, 1, job.tables[new]),
        }
    finally:
        query.stop()
        sink.close()

    def filled(record: Record) -> list[Row]:
        value = json.loads(record.value or b"")
        return [(value["id"], value["more"] if record.offset >= 15 else "")]

    job.check(columns=["id", "more"], rows_of=filled)
    job.check(new)
    said = capsys.readouterr().err
    assert said.count("CHS-233") == 2
    assert said.count("new topics found") == 1


@pytest.mark.soak
def test_an_empty_topic_of_a_pattern_waits_for_its_first_record(
    make_job: MakeJob, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its table is created from its records.  Until there is one, the other topics go on: in a new query, in one that
    goes on from its checkpoint, and in the one that is running when the record comes.
    """
    job = make_job(partitions=1)
    first, empty = job.topic, f"{job.topic}.empty"
    create_topic(job.bootstrap, empty, 1)
    route = f"[{{ topic_pattern = '{first}.*', table = 't_{{topic:_}}' }}]"
    job.settings = {"route": route, "schema.auto_create": True}
    for count in (15, 10):
        job.send(0, count)
        job.drain(spark)
        job.check()
    assert capsys.readouterr().err.count("wait for their first one") >= 2
    job.tables[empty] = f"{DATABASE}.t_{empty}".replace("-", "_").replace(".empty", "_empty")
    sink = job.sink({"trigger.mode": "processing_time", "trigger.interval": "50 milliseconds"})
    query = sink.start(job.stream(spark, sink))
    try:
        job.send(0, 5)
        eventually("batch beside the empty topic", lambda: len(job.landed()) == 30)
        job.send(0, 7, topic=empty)
        eventually("batch of the topic", lambda: job.phases(empty).get(0) == ("AFTER", 0, 7) or not query.isActive)
        assert query.isActive, sink.failure
    finally:
        query.stop()
        sink.close()
    job.check()
    job.check(empty)


@pytest.mark.soak
def test_a_topic_of_which_nothing_can_be_read_waits_for_its_first_record(
    make_job: MakeJob, spark: SparkSession
) -> None:
    """⚑ A producer gave up its first transaction: the log was not empty, no record said which columns the table has, and
    CHS-285 stopped all topics.
    """
    job = make_job(partitions=1)
    first, empty = job.topic, f"{job.topic}.empty"
    create_topic(job.bootstrap, empty, 1)
    route = f"[{{ topic_pattern = '{first}.*', table = 't_{{topic:_}}' }}]"
    job.settings = {"route": route, "schema.auto_create": True}
    job.tables[empty] = f"{DATABASE}.t_{empty}".replace("-", "_").replace(".empty", "_empty")
    for count in (15, 10):
        job.send_values(0, [{"id": -1}, {"id": -2}], topic=empty, transactional=job.name, abort=True)
        job.send(0, count)
        job.drain(spark)
        job.check()
    job.send(0, 7, topic=empty)
    job.drain(spark)
    assert job.phases(empty)[0][::2] == ("AFTER", 13)
    job.check(empty)


@pytest.mark.soak
def test_all_topics_wait_behind_aborted_transactions(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ The first batch passed them, and no table had state: each later start took the state for lost (CHS-302)."""
    job = make_job(partitions=1)
    route = f"[{{ topic_pattern = '{job.topic}.*', table = 'new_{{topic:_}}' }}]"
    job.settings = {"route": route, "schema.auto_create": True}
    job.tables[job.topic] = f"{DATABASE}.new_{job.topic}".replace("-", "_")
    job.send_values(0, [{"id": -1}, {"id": -2}], transactional=job.name, abort=True)
    for _ in range(2):
        job.drain(spark)
    job.send(0, 7)
    job.drain(spark)
    assert job.phases()[0][::2] == ("AFTER", 10)
    job.check()


@pytest.mark.soak
def test_what_kafka_does_not_show_yet_may_be_a_record(make_job: MakeJob) -> None:
    """⚑ A planned range could be read to its end.  A follower or a new leader that lags ends before it, as an open
    transaction does here: the range counted as empty, and was passed over.
    """
    job = make_job(partitions=1)
    config, tp = job.config(), TopicPartition(job.topic, 0)
    _, end = job.send_values(0, [{"id": -1}], transactional=job.name, abort=True)
    aborted = {tp: OffsetRange(0, end)}
    assert not any(holding(config, aborted))
    producer = Producer({"bootstrap.servers": job.bootstrap, "transactional.id": job.name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(job.topic, "{}", partition=0)
    assert producer.flush(60) == 0
    open_ = {tp: OffsetRange(0, end + 1)}
    assert set(holding(config, open_)) == {tp}
    assert not any(holding(config, open_, readable=False)), "it waits for its commit"
    began, beyond = monotonic(), {tp: OffsetRange(0, end + 10)}
    assert set(may_have_held(config, open_admin(config), beyond)) == {tp}
    assert monotonic() - began < LAG_S, "the log ends before: nothing to wait for"
    assert not any(holding(config, aborted))
    producer.abort_transaction(60)


def test_what_kafka_shows_a_moment_later_is_waited_for(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Behind a lagging follower, a planned range of aborted records counted as records: a start halted with CHS-302.
    Here, they come a moment later.
    """
    monkeypatch.setattr("chsink.kafka.sample.LAG_S", 20.0)  # a busy machine needs its time to send
    job = make_job(partitions=1)
    config, tp = job.config(), TopicPartition(job.topic, 0)

    def send(value: int, transactional: str | None) -> None:
        job.send_values(0, [{"id": value}], transactional=transactional, abort=transactional is not None)

    for first, later, shown in ((0, job.name, set()), (2, None, {tp})):
        thread = Timer(1, send, [-1, later])
        thread.start()
        assert set(holding(config, {tp: OffsetRange(first, first + 1)})) == shown
        thread.join()


@pytest.mark.soak
def test_kafka_deletes_all_records_of_a_topic_that_waits(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ It came and went while the job was down.  The halt's hint leads on; it was CHS-610 at every start."""
    job = make_job(partitions=1)
    first, empty = job.topic, f"{job.topic}.empty"
    create_topic(job.bootstrap, empty, 1)
    route = f"[{{ topic_pattern = '{first}.*', table = 't_{{topic:_}}' }}]"
    job.settings = {"route": route, "schema.auto_create": True}
    job.send(0, 15)
    job.drain(spark)
    job.tables[empty] = f"{DATABASE}.t_{empty}".replace("-", "_").replace(".empty", "_empty")
    job.send(0, 10)
    job.send(0, 5, topic=empty)
    delete_records(job.bootstrap, empty, 0, 5)
    for _ in range(2):
        with pytest.raises(HaltError, match=rf"CHS-307.*{empty}-0: Kafka deleted \[0, 5\)") as halted:
            job.drain(spark)
    assert 'set errors.on_gap = "record" for one start and start with a new checkpoint' in halted.value.hint

    job.settings |= {"errors.on_gap": "record"}
    job.lose_checkpoint()
    job.drain(spark)
    job.check()
    job.send(0, 7, topic=empty)
    job.drain(spark)
    assert job.phases(empty) == {0: ("AFTER", 5, 12)}
    assert len(job.landed(empty)) == 7


@pytest.mark.parametrize("name", ["continuous", "realTime"])
def test_triggers_without_planned_ranges_are_refused_by_name(name: str, make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)
    job.send(0, 5)
    sink = job.sink()
    writer = job.stream(spark, sink).writeStream.foreachBatch(sink).option("checkpointLocation", str(job.checkpoint))
    try:
        with pytest.raises(PySparkException, match="(?i)continuous trigger|real-time mode"):
            writer.trigger(**{name: "5 minutes"}).start()
    finally:
        sink.close()
    assert job.landed() == []


def test_streams_without_the_columns_that_are_needed(make_job: MakeJob, spark: SparkSession) -> None:
    """A column of the table, Kafka's own three, and a column that the table does not have."""
    job = make_job(partitions=1)
    job.send(0, 5)
    for columns, error, what, named in (
        (("topic", "partition", "offset", "id"), PreflightError, "CHS-213", "text"),
        (("partition", "offset", "id", "text"), ConfigError, "CHS-607", "topic"),
        (("topic", "partition", "offset", "id", "text", "id AS other"), PreflightError, "CHS-212", "other"),
    ):
        chosen = columns
        with pytest.raises(error, match=f"{what}.*{named}") as refused:
            job.drain_sink(spark, lambda stream, chosen=chosen: doubled(stream).selectExpr(*chosen))  # type: ignore[misc]
        assert refused.value.exit_code == 2
    assert job.landed() == []


def test_steps_that_look_beyond_one_record_are_refused(make_job: MakeJob, spark: SparkSession) -> None:
    """What they look at may be another thing when the range is sent again."""
    job = make_job(partitions=1)
    table = spark.range(9).withColumnRenamed("id", "partition")
    for step, named in (
        (lambda stream: stream.join(f.broadcast(table), "partition"), "Join"),
        (lambda stream: stream.where("offset < (select max(id) from range(9))"), "subquery"),
        (lambda stream: stream.dropDuplicates(["value"]), "Deduplicate"),
    ):
        with pytest.raises(PreflightError, match=f"CHS-611.*{named}"):
            job.drain_sink(spark, step)
    assert job.landed() == []


def test_batch_transformed_inside_the_function_is_refused(make_job: MakeJob, spark: SparkSession) -> None:
    """An exact read would not do it again."""
    job = make_job(partitions=1)
    job.send(0, 5)
    sink = job.sink()
    stream = job.stream(spark, sink).writeStream.foreachBatch(lambda batch, n: sink(batch.where("offset > 2"), n))
    writer = stream.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True)
    try:
        with pytest.raises(ConfigError, match="CHS-613"):
            await_query(sink, writer.start)
    finally:
        sink.close()
    assert job.landed() == [] and not job.in_doubt()


def test_stream_of_another_isolation_level_is_refused(make_job: MakeJob, spark: SparkSession) -> None:
    """Kafka's default shows records of aborted transactions, chsink's does not."""
    job = make_job(partitions=1)
    sink = job.sink()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.bootstrap)
    try:
        with pytest.raises(ConfigError, match="CHS-612.*read_uncommitted.*read_committed"):
            sink.start(reader.option("subscribe", job.topic).load())
    finally:
        sink.close()


def test_filter_before_a_table_with_a_column_named_value(make_job: MakeJob, spark: SparkSession) -> None:
    """It is JSON with the filter as it is without."""
    job = make_job(partitions=1, columns="id Nullable(UInt64), value String")
    job.send_values(0, ({"id": n, "value": f"v{n}"} for n in range(5)))
    job.drain_sink(spark, lambda stream: stream.where("offset >= 2"))
    assert job.landed(columns=["id", "value"]) == [(0, n, n, f"v{n}") for n in range(2, 5)]


def test_sink_without_a_query_refuses(make_job: MakeJob, spark: SparkSession) -> None:
    """A DataFrame whose ranges nobody planned; offsets that are merely seen prove nothing."""
    job = make_job(partitions=1)
    job.send(0, 5)
    sink = job.sink()
    reader = spark.read.format("kafka").options(**job.config().kafka.spark_options())
    frame = reader.option("subscribe", job.topic).load()
    try:
        with pytest.raises(ConfigError, match="CHS-608"):
            sink(frame, 0)
        with pytest.raises(ConfigError, match="CHS-605"):
            sink.start(frame)
    finally:
        sink.close()
    assert job.landed() == []


def test_ranges_that_the_caller_passes_must_be_those_of_the_batch(make_job: MakeJob, spark: SparkSession) -> None:
    """Offsets beyond what the batch reads look like offsets without a record: they would be skipped for ever."""
    job = make_job(partitions=2)
    job.send(0, 12)
    job.send(1, 5)
    sink = job.sink()
    stream = job.stream(spark, sink)
    batch = spark.read.format("kafka").option("kafka.bootstrap.servers", job.bootstrap)
    batch = batch.option("subscribe", job.topic).option("kafka.isolation.level", "read_committed")
    with pytest.raises(ConfigError, match="CHS-608.* are not known"):
        sink.process(batch.load(), 0, {}, stream)
    batch = batch.option("startingOffsets", json.dumps({job.topic: {"0": 0, "1": 0}}))
    batch = batch.option("endingOffsets", json.dumps({job.topic: {"0": 12, "1": 5}}))
    first, second = (TopicPartition(job.topic, n) for n in (0, 1))
    right = {first: OffsetRange(0, 12), second: OffsetRange(0, 5)}
    for wrong in (OffsetRange(0, 13), OffsetRange(0, 11), OffsetRange(0, 0)):
        with pytest.raises(ConfigError, match="CHS-608.*reads \\[0, 12\\) from Kafka"):
            sink.process(batch.load(), 0, {**right, first: wrong}, stream)
    with pytest.raises(ConfigError, match="CHS-608.*reads nothing"):
        sink.process(spark.createDataFrame([(1,)], "n int"), 0, right, stream)
    with pytest.raises(ConfigError, match="CHS-613"):
        sink.process(batch.load().where("offset < 5"), 0, right, stream)
    writer = stream.writeStream.foreachBatch(lambda frame, number: sink.process(frame, number, right, stream))
    await_query(
        sink, lambda: writer.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True).start()
    )
    sink.close()
    job.check()


def test_topic_and_partition_are_one_number_on_their_way_to_a_task(spark: SparkSession) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('a', 3), ('b', 2147483647), ('c', 1) AS rows(topic, partition)")
    places = [row[PLACE] for row in frame.select(_place(("a", "b"))).collect()]
    assert places == [3, (1 << PLACE_BITS) | 2147483647, None]
