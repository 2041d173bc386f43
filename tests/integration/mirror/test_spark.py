"""The mirror's lander under a real streaming query, with a coordinator beside it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from chsink.batch.loop import BatchLoop
from chsink.batch.model import Ack, total
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.known_tables import Hole
from chsink.mirror.lander import MirrorLander
from chsink.mirror.task import Feeds, Share
from chsink.spark.folder import SparkFolder
from chsink.spark.offset_log import planned_batch
from chsink.spark.query import current_query
from chsink.spark.runner import SparkBatch, exact_reads
from chsink.spark.stream_plan import StreamPlan, of_frame
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench
from tests.support.job import eventually
from tests.support.kafka import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.soak]
MakeBench = Callable[..., Bench]


class Query:
    """A query that mirrors what the topic holds, then ends; each start is a new process's."""

    def __init__(self, bench: Bench, spark: SparkSession, checkpoint: Path, *, halt: bool = True) -> None:
        self.bench, self.spark, self.checkpoint = bench, spark, checkpoint
        ids = {bench.topic: bench.admin.topic_ids([bench.topic])[bench.topic] or ""}
        tables = {bench.topic: tuple(bench.work(name) for name in bench.tables)}
        self.acks: list[Ack] = []
        feeds = Feeds(bench.names, ids, tables, bench.admin, halt_on_bad_value=halt)
        self.lander = MirrorLander(feeds, landed=self.acks.extend)
        self.loop: BatchLoop[Share, StreamPlan] = BatchLoop(
            lambda _: self.lander.landing(),
            lambda _: None,
            lambda: [bench.topic],
            structlog.get_logger("mirror"),
            failed=lambda _: None,
        )

    def run(self, offsets_a_batch: int = 1000) -> None:
        stream = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bench.kafka.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", self.bench.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(offsets_a_batch))
            .load()
        )
        self.loop.start(of_frame(stream), exact_reads)

        def land(frame: Any, batch_id: int) -> None:
            query = current_query(frame)
            planned = planned_batch(SparkFolder(query.checkpoint, self.spark), batch_id)
            self.loop.land(lambda: SparkBatch(query.run_id, frame, planned, lambda: query.stream(self.spark)))

        started = (
            stream.writeStream.foreachBatch(land)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()

    def coordinator(self) -> Coordinator:
        made = self.bench.coordinator()
        made.reread = self.lander.reread
        return made


def same(bench: Bench) -> None:
    for name in bench.tables:
        assert bench.landed(name) == bench.sent(), name


def test_a_query_hands_over_and_a_coordinator_commits(
    make_bench: MakeBench, spark: SparkSession, tmp_path: Path
) -> None:
    """⚑ Records, a partition with an aborted transaction only, an empty one; then a lost checkpoint; then a lost control
    topic, whose holes are read through Spark.
    """
    bench = make_bench(partitions=4, tables=("orders", "archive"))
    query = Query(bench, spark, tmp_path / "checkpoint")
    coordinator = query.coordinator()
    for partition in (0, 1):
        bench.produce(range(partition * 100, partition * 100 + 50), partition)
    produce(bench.kafka.bootstrap, bench.topic, 2, [{"id": 9}], transactional="t", abort=True)
    query.run()
    bench.round(coordinator)
    same(bench)
    assert (bench.group_at(0), bench.group_at(2)) == (50, 2)

    bench.produce(range(50, 60))
    lost = Query(bench, spark, tmp_path / "another")
    lost.run()
    bench.round(coordinator)
    same(bench)
    assert bench.snapshots() == 2

    bench.produce(range(60, 70))
    lost.run()
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 2)
    later = lost.coordinator()
    bench.rounds(later, 2)
    same(bench)


def test_a_hole_is_read_while_batches_run(make_bench: MakeBench, spark: SparkSession, tmp_path: Path) -> None:
    """⚑ The coordinator's thread reads through the session in which the query's batches run: neither takes the other's
    records, properties or plan.
    """
    bench = make_bench()
    query = Query(bench, spark, tmp_path / "checkpoint")
    coordinator = query.coordinator()
    bench.produce(range(30))
    hole = Hole("shop.orders", bench.tp(), OffsetRange(1, 3), str(bench.work("orders").metadata.table_uuid))
    with ThreadPoolExecutor(1) as pool:
        batches = pool.submit(query.run, 2)
        eventually("second batch", lambda: (bench.group_at() or 0) >= 4)
        query.lander.reread(hole)
        batches.result()
    assert sum(a.chunks[0].start == 1 for a in query.acks) == 1
    bench.round(coordinator)
    same(bench)


def test_a_bad_value_halts_the_query(make_bench: MakeBench, spark: SparkSession, tmp_path: Path) -> None:
    bench = make_bench()
    query = Query(bench, spark, tmp_path / "checkpoint")
    coordinator = query.coordinator()
    produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": 1}, {"id": "secret"}])
    with pytest.raises(Exception, match="CHS-511"):
        query.run()
    assert query.loop.failure is not None and "secret" not in str(query.loop.failure)
    assert bench.group_at() == 0
    bench.round(coordinator)
    assert bench.snapshots() == 0
    skipping = Query(bench, spark, tmp_path / "checkpoint", halt=False)
    skipping.run()
    bench.round(coordinator)
    assert bench.landed() == {(0, 0, 1): 1}
    sums = total(skipping.acks)
    assert (sums.rows, sums.skipped) == (1, 1) and "offset 1: column 'id'" in skipping.acks[0].chunks[0].first_skipped
