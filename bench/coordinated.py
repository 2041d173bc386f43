"""One topic's mirror without Spark: its hand-over, and the coordinator that commits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from confluent_kafka import Producer

from bench.lake import Lake
from bench.measured import Place
from chsink.clock import SystemClock
from chsink.kafka.admin import KafkaAdmin
from chsink.mirror.control import Names
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.events import TableReference
from chsink.mirror.known_tables import Hole, Target
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.mirror.types import TableColumns
from chsink.mirror.worker import TableWork
from chsink.statemachine.commit.rounds import CommitPace
from chsink.statemachine.ranges import TopicPartition

TICK_S = 0.2
LIMIT_S = 120.0


@dataclass(frozen=True)
class Coordinated:
    """A new topic and a new table."""

    names: Names
    tps: tuple[TopicPartition, ...]
    topic_id: str
    work: TableWork
    table: MirrorTable
    admin: KafkaAdmin

    @contextmanager
    def coordinator(self) -> Iterator[Coordinator]:
        """A coordinator that has settled where the topic's partitions start, and whose round is due at once."""
        topics = frozenset(tp.topic for tp in self.tps)
        target = Target(self.table, self.work.reference, topics)
        made = Coordinator(
            self.names,
            {self.table.identifier: target},
            self.admin,
            clock=SystemClock(),
            pace=CommitPace(interval_ms=1, timeout_ms=60_000, buffer=1_000_000),
            reread=_unexpected,
            log=structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50)),
        )
        try:
            made.start()
            yield made
        finally:
            made.close()

    def commit(self, coordinator: Coordinator) -> tuple[float, float]:
        """Commit all that was handed over.  Seconds, and seconds of CPU time of this process."""
        began, cpu = time.perf_counter(), time.process_time()
        while not coordinator.commits or coordinator.behind():  # the group shows a transaction a little later
            coordinator.tick(TICK_S)
            assert time.perf_counter() - began < LIMIT_S, "the coordinator commits what was handed over"
        return time.perf_counter() - began, time.process_time() - cpu

    @property
    def snapshots(self) -> int:
        """Of the table."""
        table = self.table.load()
        assert table is not None
        return len(table.snapshots())


def coordinated(place: Place, lake: Lake, name: str, partitions: int, records: int) -> Coordinated:
    """The mirror of a new topic and table of this name; the topic's partitions hold so many records each: a coordinator
    halts if a log ends below what a table holds.
    """
    bootstrap = place.stack.kafka.bootstrap
    topic, control = f"{name}-topic", f"{name}-control"
    place.stack.kafka.create_topic(topic, partitions)
    place.stack.kafka.create_topic(control, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(partitions * records):
        producer.produce(topic, b"{}", partition=number % partitions)
    assert producer.flush(LIMIT_S) == 0, "all records were delivered"
    names = Names({"bootstrap.servers": bootstrap, "log_level": "0"}, control, f"bench-{name}", 30)
    admin = KafkaAdmin(names.options, timeout_s=30)
    identifier = lake.table(name)
    table = lake.catalog().load_table(identifier)
    reference = TableReference("lake", tuple(identifier.split(".")[:-1]), identifier.split(".")[-1])
    work = TableWork(reference, table.metadata, table.io, TableColumns(table.schema()))
    tps = tuple(TopicPartition(topic, number) for number in range(partitions))
    topic_id = admin.topic_ids([topic])[topic] or ""
    return Coordinated(names, tps, topic_id, work, MirrorTable(lake.catalog(), identifier, _keys(names)), admin)


def _keys(names: Names) -> PropertyKeys:
    return PropertyKeys(names.group, names.topic)


def _unexpected(hole: Hole) -> None:
    raise AssertionError(f"nothing is missing, and {hole} is read again")
