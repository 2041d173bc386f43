"""A mirror without Spark: topics, tables in a catalog, workers that read Kafka, coordinators with a clock of ours."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from chsink.batch.model import Ack, ChunkAck
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.topics import delete_records
from chsink.kafka.admin import KafkaAdmin
from chsink.mirror.control import Names
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.events import TableReference
from chsink.mirror.known_tables import Hole, Target
from chsink.mirror.lander import MirrorLander
from chsink.mirror.resolve import MirrorDecision, carry_out, decide
from chsink.mirror.rest import open_catalog
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.mirror.task import Feeds, Share
from chsink.mirror.types import TableColumns
from chsink.mirror.worker import TableWork, Worker, WorkerReport
from chsink.statemachine.commit.resolve import TableVerdict
from chsink.statemachine.commit.rounds import CommitPace
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.support.kafka import Record, await_marker, produce, read_all

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "_kafka_partition", IntegerType()),
    NestedField(4, "_kafka_offset", LongType()),
)


class HandClock:
    """:class:`chsink.ports.Clock` that stands still between rounds."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass
class Bench:
    """One sink's mirror.  ``tables`` are names in the namespace ``shop``; ``schemas`` those of some of them.
    ``properties`` are those of the catalog, by default of SQLite's.  ``mirror`` and ``route`` are lines more of the job
    file, for the mirror and for each of its routes.
    """

    kafka: EmbeddedKafka
    folder: Path
    partitions: int = 1
    tables: tuple[str, ...] = ("orders",)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    group: str = field(default_factory=lambda: f"chsink-{uuid.uuid4().hex[:8]}")
    control_topic: str = ""
    branch: str = "main"
    properties: Mapping[str, str] = field(default_factory=dict)
    mirror: str = ""
    route: str = ""
    clock: HandClock = field(default_factory=HandClock)
    pace: CommitPace = field(default_factory=lambda: CommitPace(interval_ms=1000, timeout_ms=500, buffer=100_000))

    def __post_init__(self) -> None:
        where = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}/lake"}
        self.properties = {"type": "sql", **where, **self.properties}
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        self.kafka.create_topic(self.topic, self.partitions)
        if not self.control_topic:
            self.control_topic = f"control-{uuid.uuid4().hex[:8]}"
            self.kafka.create_topic(self.control_topic, 2, {"retention.ms": "-1"})
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("shop")
        for name in self.tables:
            catalog.create_table(f"shop.{name}", self.schemas.get(name, SCHEMA))
        self.coordinators: list[Coordinator] = []

    # --- what production code gets ------------------------------------------------------------------------------------

    @property
    def names(self) -> Names:
        return Names({"bootstrap.servers": self.kafka.bootstrap, "log_level": "0"}, self.control_topic, self.group, 20)

    def catalog(self) -> Catalog:
        """Opened once more, as another process would."""
        return open_catalog("lake", self.properties)

    def job_file(self) -> Path:
        """The same mirror as a user writes it, without ClickHouse."""
        job = self.folder / "job.toml"
        at = f'topic = "{self.topic}"\n{self.route}'
        routes = "".join(f'[[mirror.route]]\ntable = "shop.{name}"\n{at}\n' for name in self.tables)
        properties = "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in self.properties.items())
        job.write_text(
            f"""
[sink]
name = "{self.group.removeprefix("chsink-")}"
checkpoint = "{self.folder}/checkpoint"
[kafka]
bootstrap = "{self.kafka.bootstrap}"
[mirror]
enabled = true
control_topic = "{self.control_topic}"
branch = "{self.branch}"
{self.mirror}
[mirror.catalog]
name = "lake"
{properties}
{routes}""",
            encoding="utf-8",
        )
        return job

    @property
    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.names.options, timeout_s=20)

    def work(self, name: str) -> TableWork:
        table = self.catalog().load_table(f"shop.{name}")
        return TableWork(
            TableReference("lake", ("shop",), name), table.metadata, table.io, TableColumns(table.schema())
        )

    def tp(self, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def worker(self, partition: int = 0, *, halt_on_bad_value: bool = True, skip_tombstones: bool = False) -> Worker:
        topic_id = self.admin.topic_ids([self.topic])[self.topic]
        tables = [self.work(name) for name in self.tables]
        return Worker(
            self.names,
            self.tp(partition),
            topic_id or "",
            tables,
            halt_on_bad_value=halt_on_bad_value,
            skip_tombstones=skip_tombstones,
        )

    def records(self, partition: int = 0) -> Any:
        """Reads exactly a range."""

        def read(piece: OffsetRange) -> Iterator[pa.RecordBatch]:
            found = [
                r
                for r in read_all(self.kafka.bootstrap, self.topic)
                if r.partition == partition and piece.start <= r.offset < piece.end
            ]
            for at in range(0, len(found), 7):
                some = found[at : at + 7]
                yield pa.RecordBatch.from_pydict(
                    {
                        "value": pa.array([r.value for r in some], pa.binary()),
                        "topic": pa.array([self.topic] * len(some)),
                        "partition": pa.array([partition] * len(some), pa.int32()),
                        "offset": pa.array([r.offset for r in some], pa.int64()),
                        "timestamp": pa.array([r.timestamp * 1000 for r in some], pa.timestamp("us", "UTC")),
                    }
                )

        return read

    def hand_over(self, start: int, end: int, partition: int = 0) -> WorkerReport:
        """What a task does with a planned range."""
        return self.worker(partition).run(OffsetRange(start, end), self.records(partition))

    def feeds(self) -> Feeds:
        """Of a driver that starts now."""
        ids = {self.topic: self.admin.topic_ids([self.topic])[self.topic] or ""}
        return Feeds(self.names, ids, {self.topic: tuple(self.work(name) for name in self.tables)}, self.admin)

    def from_kafka(self, shares: Sequence[Share]) -> Sequence[Ack]:
        """:class:`chsink.batch.roles.ExactReads` without Spark."""
        acks = []
        for share in shares:
            tp = share.topic_partition
            self.started.hand_over(share, self.records(tp.partition)(share.range))
            acks.append(Ack(0, tp.topic, tp.partition, (ChunkAck(share.range.start, share.range.end),)))
        return acks

    def reread(self, hole: Hole) -> None:
        """What the driver does with a hole."""
        lander = MirrorLander(self.started)
        try:
            lander.settle_all(self)
            lander.reread(hole)
        finally:
            lander.close()

    def targets(self) -> dict[str, Target]:
        """By the tables' identifiers."""
        keys = PropertyKeys(self.group, self.control_topic, self.branch)
        return {
            f"shop.{name}": Target(
                MirrorTable(self.catalog(), f"shop.{name}", keys),
                TableReference("lake", ("shop",), name),
                frozenset({self.topic}),
            )
            for name in self.tables
        }

    def resolve(self, choice: TableVerdict) -> MirrorDecision:
        """``chsink mirror resolve`` for all tables."""
        decision = decide(self.names, self.targets(), list(self.targets()), self.admin, choice)
        carry_out(self.names, decision)
        return decision

    def coordinator(self) -> Coordinator:
        """One more, started, with workers of the same driver."""
        self.started = self.feeds()
        made = Coordinator(
            self.names,
            self.targets(),
            self.admin,
            clock=self.clock,
            pace=self.pace,
            reread=self.reread,
            log=structlog.get_logger("mirror"),
        )
        self.coordinators.append(made)
        made.start()
        return made

    def round(self, coordinator: Coordinator, ticks: int = 50) -> None:
        """One interval: a round is opened, and ends complete, or by its timeout where events are missing."""
        self.clock.ms += self.pace.interval_ms
        for patience in (0, self.pace.timeout_ms):
            self.clock.ms += patience
            for _ in range(ticks):
                coordinator.tick(0.1)
                if coordinator._open is None and coordinator._last_ms == self.clock.ms:
                    return
        raise TimeoutError(f"the round did not end: {coordinator._open}")

    def rounds(self, coordinator: Coordinator, count: int) -> None:
        """Several of them."""
        for _ in range(count):
            self.round(coordinator)

    def ticks(self, coordinator: Coordinator, until: Callable[[], object]) -> None:
        """No time passes for the coordinator, however long the broker takes."""
        give_up = time.monotonic() + 30
        while not until():
            assert time.monotonic() < give_up, "it did not come"
            coordinator.tick(0.1)

    def close(self) -> None:
        for coordinator in self.coordinators:
            coordinator.close()

    # --- what a test looks at -----------------------------------------------------------------------------------------

    def produce(self, ids: Iterable[int], partition: int = 0) -> tuple[int, int]:
        """Records, and the offsets they took."""
        values: list[Mapping[str, Any]] = [{"id": n, "name": f"order {n}"} for n in ids]
        return produce(self.kafka.bootstrap, self.topic, partition, values)

    def control_records(self) -> list[Record]:
        """What was committed to the control topic.  The broker confirms a commit before its readers see it."""
        for number in (0, 1):
            await_marker(self.kafka.bootstrap, self.control_topic, number)
        return read_all(self.kafka.bootstrap, self.control_topic)

    def delete_events(self, control_topic: str = "") -> None:
        """All that a control topic holds, as Kafka does by the topic's retention."""
        topic = control_topic or self.control_topic
        for tp, end in self.admin.log_ends([TopicPartition(topic, number) for number in (0, 1)]).items():
            if end:
                delete_records(self.kafka.bootstrap, topic, tp.partition, end)

    def sent(self) -> Counter[tuple[int, int, int]]:
        """(partition, offset, id) of every record that Kafka holds."""
        found = read_all(self.kafka.bootstrap, self.topic)
        return Counter((r.partition, r.offset, json.loads(r.value or b"")["id"]) for r in found)

    def landed(self, name: str = "orders", branch: str = "main") -> Counter[tuple[int, int, int]]:
        """The same of every row of a table's branch, read by pyiceberg."""
        table = self.catalog().load_table(f"shop.{name}")
        scan = table.scan().use_ref(branch) if branch in table.metadata.refs else table.scan()
        rows = scan.to_arrow().to_pylist()
        return Counter((r["_kafka_partition"], r["_kafka_offset"], r["id"]) for r in rows)

    def snapshots(self, name: str = "orders") -> int:
        return len(self.catalog().load_table(f"shop.{name}").snapshots())

    def summary(self, name: str = "orders") -> Mapping[str, str]:
        snapshot: Any = self.catalog().load_table(f"shop.{name}").current_snapshot()
        return dict(snapshot.summary.additional_properties)

    def group_at(self, partition: int = 0) -> int | None:
        offsets = self.names.offsets()
        try:
            return offsets.committed([self.tp(partition)])[self.tp(partition)]
        finally:
            offsets.close()

    def delete_groups(self, *groups: str) -> None:
        client = AdminClient(dict(self.names.options))
        for future in client.delete_consumer_groups(list(groups)).values():
            future.result()
