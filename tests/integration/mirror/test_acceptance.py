"""The mirror's acceptance: one job of three formats whose tables are made and grow while it is killed five times.

It commits by itself, or hands over to a coordinator in a process of its own, which is killed in its turn.

JSON of topics that a pattern matches, Avro of a registry, and Debezium's events, into partitioned tables of a REST
catalog on S3, and into ClickHouse.  At the end, each cell on both sides is what Kafka holds, each record once.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.chaos.lake import RestLake
from tests.chaos.world import World, open_world
from tests.support.child import Child
from tests.support.iceberg_rest import CatalogGate, IcebergRest
from tests.support.job import DATABASE, Job, select
from tests.support.kafka import Record, read_all
from tests.support.registry import RegistryService
from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.soak]
LIVING = {"trigger.mode": "processing_time", "trigger.interval": "200 milliseconds"}
COMMITS = ("mirror", "coordinator")
BEGAN = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
DAYS_0 = date(1970, 1, 1)
CITIES = ("Köln", "Lyon", "")
GROWN = 2
"""From this round of records on, they have more fields."""
Value = Mapping[str, Any]


def an_order(n: int, round_: int) -> Value:
    """A JSON record."""
    at = BEGAN + timedelta(hours=n % 60, milliseconds=n)
    value = {"id": n, "text": f"ünï {n}" if n % 5 else None, "at": at.isoformat(timespec="milliseconds")}
    more = {"price": n / 10, "paid": n % 2 == 0, "size": {"w": n, "h": [n]}}
    return value | ({"day": at.date().isoformat()}) | (more if round_ >= GROWN else {})


def order_row(value: Value) -> Value:
    """What becomes of it."""
    at, day = datetime.fromisoformat(value["at"]), date.fromisoformat(value["day"])
    return {"price": None, "paid": None, "size": None, **value, "at": at, "day": day}


AVRO = """{"type": "record", "name": "Payment", "fields": [{"name": "id", "type": "long"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]}%s]}"""
AVRO_MORE = """, {"name": "city", "type": ["null", "string"]}, {"name": "rank", "type": "int"}"""


def a_payment(n: int, round_: int) -> Value:
    """A record that an Avro serializer takes."""
    seen = BEGAN + timedelta(days=n, microseconds=n)
    value = {"id": n, "amount": Decimal(n).scaleb(-2), "seen": seen, "day": seen.date() if n % 3 else None}
    return value | ({"city": CITIES[n % 3] or None, "rank": n - 10} if round_ >= GROWN else {})


def payment_row(value: Value) -> Value:
    """What becomes of it."""
    return {"city": None, "rank": None, **value}


CONNECT: tuple[dict[str, Any], ...] = (
    {"field": "id", "type": "int64", "optional": False},
    {"field": "city", "type": "string", "optional": True},
    {"field": "born", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
)
CONNECT_MORE: tuple[dict[str, Any], ...] = ({"field": "weight", "type": "double", "optional": True},)


def a_change(n: int, round_: int) -> Value:
    """Debezium's event of a new row."""
    fields = CONNECT + (CONNECT_MORE if round_ >= GROWN else ())
    row = {"id": n, "city": CITIES[n % 3] or None, "born": n * 30, "weight": n / 10}
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "optional": True, "fields": fields}]}
    after = {each["field"]: row[each["field"]] for each in fields}
    return {"schema": schema, "payload": {"before": None, "after": after, "op": "c", "source": {"lsn": n}}}


def change_row(value: Value) -> Value:
    """What becomes of it."""
    after = value["payload"]["after"]
    return {"weight": None, **after, "born": DAYS_0 + timedelta(days=after["born"])}


@dataclass(frozen=True, slots=True)
class Feed:
    """Topics of one format, and their tables: ``{}`` stands for the last part of a topic's name."""

    form: str
    partition: str
    make: Callable[[int, int], Value]
    row: Callable[[Value], Value]


FEEDS = {
    "orders": Feed("json", 'partition = ["day(at)", "bucket(4, id)"]', an_order, order_row),
    "refunds": Feed("json", 'partition = ["day(at)", "bucket(4, id)"]', an_order, order_row),
    "payments": Feed("avro", 'partition = ["month(seen)", "truncate(10, id)"]', a_payment, payment_row),
    "changes": Feed("debezium", 'partition = ["city"], sort = ["born desc"]', a_change, change_row),
}


@dataclass(slots=True)
class Acceptance:
    """The job, its services, and how many records each topic has.  ``apart``: the job does not commit by itself."""

    world: World
    job: Job
    lake: RestLake
    registry: RegistryService
    apart: bool
    sent: Counter[str] = field(default_factory=Counter)
    round: int = 0

    def topic(self, feed: str) -> str:
        """The feed's topic."""
        return f"{self.job.name}.{feed}"

    def tables(self, feed: str) -> tuple[str, str]:
        """The feed's tables in ClickHouse and in Iceberg."""
        return f"{DATABASE}.{self.job.name.replace('-', '_')}_{feed}", f"lake.{feed}"

    def configure(self) -> None:
        """Two routes of named topics and one of a pattern, on each side."""
        pattern = f"{self.job.name}\\.(?<feed>orders|refunds)"
        clickhouse, iceberg = self.tables("{feed}")
        routes, mirrored = [], []
        for name in ("orders", "payments", "changes"):
            feed = FEEDS[name]
            one = f"topic_pattern = '{pattern}'" if name == "orders" else f"topic = '{self.topic(name)}'"
            here, there = (clickhouse, iceberg) if name == "orders" else self.tables(name)
            routes.append(f"{{ {one}, table = '{here}', format = '{feed.form}', order_by = ['id'] }}")
            mirrored.append(f"{{ {one}, table = '{there}', format = '{feed.form}', create = {{ {feed.partition} }} }}")
        self.job.settings = {
            **self.job.settings,
            "route": f"[{', '.join(routes)}]",
            "schema_registry.url": self.registry.url,
            "schema.auto_create": "true",
            "schema.evolution": "add_columns",
            "mirror.enabled": "true",
            "mirror.catalog.name": "lake",
            **{f"mirror.catalog.{name}": value for name, value in self.lake.properties.items()},
            "mirror.route": f"[{', '.join(mirrored)}]",
            "mirror.auto_create": "true",
            "mirror.evolution": "add_columns",
            "mirror.control_topic": f"{self.job.name}-control",
            "mirror.interval_s": 1,
            "mirror.timeout_s": 5,
            "mirror.coordinator": "apart" if self.apart else "driver",
        }

    def send(self, feed: str, partition: int, count: int) -> None:
        """More records of the present round."""
        first = self.sent[feed]
        self.sent[feed] += count
        values = [FEEDS[feed].make(n, self.round) for n in range(first, first + count)]
        self.job.send_values(partition, self._written(feed, values), topic=self.topic(feed))

    def _written(self, feed: str, values: list[Value]) -> list[Any]:
        if FEEDS[feed].form != "avro":
            return values
        with SchemaRegistryClient({"url": self.registry.url}) as client:
            write = AvroSerializer(client, AVRO % (AVRO_MORE if self.round >= GROWN else ""))
            context = SerializationContext(self.topic(feed), MessageField.VALUE)
            return [write(value, context) for value in values]

    def send_all(self) -> None:
        """A round of records, in both partitions of each topic that there is."""
        self.round += 1
        for feed in FEEDS:
            if feed != "refunds" or self.round > GROWN:
                self.send(feed, 0, 25)
                self.send(feed, 1, 7)

    # --- the judge ----------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Every cell on both sides is what Kafka holds, each record once."""
        assert not self.job.in_doubt()
        for feed in FEEDS:
            kafka = {
                (r.partition, r.offset): self._row(feed, r) for r in read_all(self.job.bootstrap, self.topic(feed))
            }
            assert len(kafka) == self.sent[feed] > 0
            clickhouse, iceberg = self.tables(feed)
            for side, rows in ((clickhouse, self._in_clickhouse(clickhouse)), (iceberg, self._in_iceberg(iceberg))):
                found = Counter((row["_kafka_partition"], row["_kafka_offset"]) for row in rows)
                lost, surplus = Counter(kafka.keys()) - found, found - Counter(kafka.keys())
                self._counted(side, len(kafka), lost.total(), surplus.total())
                assert not lost and not surplus, f"{side}: lost {lost.most_common(3)}, surplus {surplus.most_common(3)}"
                for row in rows:
                    wanted = kafka[row.pop("_kafka_partition"), row.pop("_kafka_offset")]
                    assert {name: cell(wanted.get(name), value) for name, value in row.items()} == wanted, side

    def _counted(self, table: str, records: int, lost: int, surplus: int) -> None:
        name, tally = f"{self.job.name} {table}", self.world.tally
        if table.startswith("lake."):
            tally.mirrored(name, records, lost, surplus, self.lake.snapshots(table))
        else:
            tally.judged(name, records, lost, surplus)

    def _row(self, feed: str, record: Record) -> Value:
        value = record.value or b""
        if FEEDS[feed].form != "avro":
            return FEEDS[feed].row(json.loads(value))
        schema = json.loads(self.registry.schemas[int.from_bytes(value[1:5])]["schema"])
        read: Any = fastavro.schemaless_reader(BytesIO(value[5:]), schema, None)
        return FEEDS[feed].row(read)

    def _in_clickhouse(self, table: str) -> list[dict[str, Any]]:
        sql = f"SELECT * EXCEPT (_kafka_topic, _kafka_timestamp) FROM {table} FORMAT JSONEachRow"
        return [json.loads(line, parse_float=str) for url in self.job.shards for line in select(url, sql).splitlines()]

    def _in_iceberg(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.lake.catalog().load_table(table).scan().to_arrow().to_pylist()
        left_out = ("_kafka_topic", "_kafka_timestamp")
        return [{name: value for name, value in row.items() if name not in left_out} for row in rows]


def cell(like: Any, found: Any) -> Any:
    """A cell as the wanted one is written: ClickHouse gives text for objects, dates, times and numbers with a fraction."""
    if isinstance(like, dict) and isinstance(found, str):
        return json.loads(found)
    if isinstance(like, datetime) and isinstance(found, str):
        return datetime.fromisoformat(found).replace(tzinfo=UTC)
    if isinstance(like, date) and isinstance(found, str):
        return date.fromisoformat(found)
    if isinstance(like, float | Decimal) and isinstance(found, str | int):
        return type(like)(found)
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Services of its own: their processes are killed."""
    with open_world(tmp_path / "world") as world:
        yield world


@pytest.fixture(params=["driver", "apart"])
def acceptance(world: World, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Acceptance]:
    """Three topics without tables."""
    with ExitStack() as stack:
        s3 = stack.enter_context(S3Server(tmp_path / "s3"))
        server = stack.enter_context(IcebergRest(tmp_path / "rest", s3.of_a_catalog, ["s3"]))
        gate = stack.enter_context(CatalogGate(server.url))
        registry = stack.enter_context(RegistryService())
        lake = RestLake(tmp_path, server=server, gate=gate, s3=s3)
        made = Acceptance(world, world.job(tmp_path), lake, registry, request.param == "apart")
        for feed in ("orders", "payments", "changes"):
            world.kafka.create_topic(made.topic(feed), 2)
        made.configure()
        yield made


@contextmanager
def coordinated(here: Acceptance) -> Iterator[list[Child]]:
    """A coordinator apart, which has claimed the mirror; none if the job commits by itself."""
    if not here.apart:
        yield []
        return
    with Child(here.job, command=COMMITS, settings=LIVING) as coordinator:
        coordinator.await_that("coordinator", lambda: "coordinating" in coordinator.said)
        yield [coordinator]


def killed_at(here: Acceptance, step: str, *codes: int) -> None:
    """A process dies by its own hand: the driver, or a Python worker, whose query then ends; or the coordinator apart,
    beside a driver that another coordinator finds at work.
    """
    here.send_all()
    with ExitStack() as stack:
        if here.apart and step.startswith("coordinator."):
            driver = stack.enter_context(Child(here.job))
            child = stack.enter_context(Child(here.job, command=COMMITS, settings=LIVING, traps=f"{step}=kill@1"))
        else:
            stack.enter_context(coordinated(here))
            driver = child = stack.enter_context(Child(here.job, traps=f"{step}=kill@1"))
        assert child.end() in codes, child.said[-3000:]
        assert {fired[0] for fired in child.fired} == {step}, child.said[-3000:]
        if driver is not child:
            stack.enter_context(coordinated(here))
            assert driver.end() in (0, 5), driver.said[-3000:]
    here.world.tally.killed(f"acceptance: at {step}")


def killed_at_random(here: Acceptance) -> None:
    """All processes, while records of each format come."""
    here.send_all()
    with coordinated(here) as beside, Child(here.job, settings=LIVING) as child:
        said = "handing over" if here.apart else "coordinating"
        child.await_that("start", lambda: said in child.said)
        until = time.monotonic() + random.uniform(0, 8)
        while time.monotonic() < until:
            for feed in ("orders", "payments", "changes"):
                here.send(feed, 0, 3)
        assert child.kill() > 1
        assert all(coordinator.kill() for coordinator in beside)
    here.world.tally.killed("acceptance: all processes at a random moment")


def drained(here: Acceptance, spark: SparkSession) -> None:
    """All that was sent is handed over and committed."""
    here.send_all()
    with coordinated(here):
        here.job.drain(spark)
    if here.apart:
        with Child(here.job, command=COMMITS) as last:
            assert last.end() == 0, last.said[-3000:]


def test_three_formats_killed_five_times(acceptance: Acceptance, spark: SparkSession) -> None:
    here = acceptance
    killed_at(here, "worker.in_transaction", 5)
    killed_at(here, "coordinator.between_tables", -signal.SIGKILL)
    here.world.kafka.create_topic(here.topic("refunds"), 2)
    killed_at_random(here)
    killed_at(here, "driver.after_before", -signal.SIGKILL)
    killed_at(here, "coordinator.after_tables", -signal.SIGKILL)
    drained(here, spark)
    here.judge()
    for feed in FEEDS:
        table = here.lake.catalog().load_table(here.tables(feed)[1])
        assert len(table.spec().fields) > 0
        assert len(table.inspect.partitions()) > 1
