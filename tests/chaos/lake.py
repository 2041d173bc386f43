"""Sinks that write Iceberg tables too, and what those hold: read by pyiceberg, compared with Kafka's records."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tests.chaos.world import World
from tests.support.iceberg_rest import CatalogGate, IcebergRest
from tests.support.job import Job
from tests.support.kafka import read_all
from tests.support.s3 import S3Server

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "text", StringType()),
    NestedField(3, "_kafka_partition", IntegerType()),
    NestedField(4, "_kafka_offset", LongType()),
)
FOREIGN = -1
"""The partition of rows that others wrote."""
Found = Counter[tuple[int, int, int, str]]


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog in SQLite and its warehouse, both in one folder.  Each table takes every record of the topic."""

    folder: Path
    tables: tuple[str, ...] = ("lake.first", "lake.second")

    @property
    def database(self) -> Path:
        """The catalog's file."""
        return self.folder / "catalog.db"

    @property
    def properties(self) -> dict[str, str]:
        """pyiceberg's, without the name."""
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": f"file://{self.folder}"}

    def catalog(self) -> Catalog:
        """Opened by itself."""
        return SqlCatalog("lake", **self.properties)

    def landed(self, table: str) -> Found:
        """(partition, offset, id, text) of every row."""
        rows = self.catalog().load_table(table).scan().to_arrow().to_pylist()
        mine = (row for row in rows if row["_kafka_partition"] != FOREIGN)
        return Counter((r["_kafka_partition"], r["_kafka_offset"], r["id"], r["text"]) for r in mine)

    def rows(self, table: str) -> int:
        """How many, as the newest snapshot says."""
        snapshot = self.catalog().load_table(table).current_snapshot()
        return int(snapshot.summary["total-records"] or 0) if snapshot and snapshot.summary else 0

    def snapshots(self, table: str) -> int:
        """How many the table has."""
        return len(self.catalog().load_table(table).snapshots())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else reads or writes the catalog."""
        database = sqlite3.connect(self.database, isolation_level=None, timeout=30)
        try:
            database.execute("BEGIN EXCLUSIVE")
            yield
        finally:
            with suppress(sqlite3.OperationalError):
                database.execute("ROLLBACK")
            database.close()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """The catalog is read, and refuses every commit."""
        database = sqlite3.connect(self.database, isolation_level=None, timeout=30)
        try:
            database.execute(
                "CREATE TRIGGER refuse BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'refused here'); END"
            )
            yield
            database.execute("DROP TRIGGER refuse")
        finally:
            database.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """The catalog's file is somewhere else."""
        hidden = self.database.with_suffix(".hidden")
        self.database.rename(hidden)
        try:
            yield
        finally:
            hidden.rename(self.database)  # over what a client may have made meanwhile


@dataclass(frozen=True, slots=True)
class RestLake(Lake):
    """In Apache Iceberg's reference server of the REST catalog, and on S3.  The job reaches it through ``gate``, the judge goes
    round it.
    """

    server: IcebergRest = field(kw_only=True)
    gate: CatalogGate = field(kw_only=True)
    s3: S3Server = field(kw_only=True)

    @property
    def properties(self) -> dict[str, str]:
        """Of the job.  The catalog hands out the keys of the storage."""
        return {**self.gate.properties, **self._storage}

    @property
    def _storage(self) -> dict[str, str]:
        return {name: self.s3.properties[name] for name in ("s3.endpoint", "s3.region")}

    def catalog(self) -> Catalog:
        """Opened by itself."""
        return RestCatalog("lake", uri=self.server.url, **self._storage)

    @contextmanager
    def foreign(self, table: str) -> Iterator[list[int]]:
        """Somebody else appends rows all the time; yields the snapshots that were made."""
        done, made = Event(), list[int]()
        row = {"id": [1], "text": ["foreign"], "_kafka_partition": [FOREIGN], "_kafka_offset": [0]}

        def append() -> None:
            while not done.is_set():
                there = self.catalog().load_table(table)
                with suppress(CommitFailedException):
                    there.append(pa.table(row, schema=there.schema().as_arrow()))
                    made.append(1)
                done.wait(0.2)

        thread = Thread(target=append)
        thread.start()
        try:
            yield made
        finally:
            done.set()
            thread.join()


def mirrored(
    world: World, folder: Path, settings: Mapping[str, Any] | None = None, lake: Lake | None = None
) -> tuple[Job, Lake]:
    """A sink with a topic of two partitions, a table in ClickHouse, and two in Iceberg."""
    if lake is None:
        (home := folder / "lake").mkdir()
        lake = Lake(home)
    lake.catalog().create_namespace("lake")
    for table in lake.tables:
        lake.catalog().create_table(table, SCHEMA)
    job = world.job(folder, settings=settings)
    routes = ", ".join(f'{{ topic = "{job.topic}", table = "{table}" }}' for table in lake.tables)
    job.settings = {
        **job.settings,
        "mirror.enabled": "true",
        "mirror.catalog.name": "lake",
        **{f"mirror.catalog.{name}": value for name, value in lake.properties.items()},
        "mirror.route": f"[{routes}]",
        "mirror.control_topic": f"{job.topic}-control",
        "mirror.interval_s": 1,
        "mirror.timeout_s": 5,
    }
    return job, lake


def sent(job: Job) -> Found:
    """(partition, offset, id, text) of every record that Kafka holds."""
    found: Found = Counter()
    for record in read_all(job.bootstrap, job.topic):
        value = json.loads(record.value or b"")
        found[record.partition, record.offset, value["id"], value["text"]] += 1
    return found


def judge(world: World, job: Job, lake: Lake) -> None:
    """Both sides hold every record once."""
    world.judge(job)
    kafka = sent(job)
    for table in lake.tables:
        rows = lake.landed(table)
        lost, surplus = kafka - rows, rows - kafka
        world.tally.mirrored(f"{job.name} {table}", kafka.total(), lost.total(), surplus.total(), lake.snapshots(table))
        assert kafka.total() > 0
        assert not lost and not surplus, f"{table}: lost {lost.most_common(3)}, surplus {surplus.most_common(3)}"


def judge_not_wrong(lake: Lake, job: Job) -> None:
    """In between: rows may be missing, none may be doubled or wrong."""
    kafka = sent(job)
    for table in lake.tables:
        surplus = lake.landed(table) - kafka
        assert not surplus, f"{table}: surplus {surplus.most_common(3)}"
