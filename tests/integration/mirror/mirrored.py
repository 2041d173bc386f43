"""A job with both sides: ClickHouse and one Iceberg table of the same records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from chsink.embedded.stack import Stack
from tests.support.job import DATABASE, Job, Row, command

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "text", StringType()),
    NestedField(3, "_kafka_partition", IntegerType()),
    NestedField(4, "_kafka_offset", LongType()),
)
TABLE = "shop.orders"


class Mirrored(Job):
    """``landed`` says what ClickHouse holds, ``mirrored`` what the Iceberg table does."""

    @property
    def catalog(self) -> SqlCatalog:
        """Opened once more, as another process would."""
        return SqlCatalog("lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}/lake")

    def mirrored(self) -> list[Row]:
        """(partition, offset, id, text) of every row, sorted as ``landed`` is."""
        rows = self.catalog.load_table(TABLE).scan().to_arrow().to_pylist()
        return sorted(((r["_kafka_partition"], r["_kafka_offset"], r["id"], r["text"]) for r in rows), key=repr)

    def snapshots(self) -> int:
        """Of the Iceberg table."""
        return len(self.catalog.load_table(TABLE).snapshots())

    def check_both(self) -> None:
        """Every record is on both sides once."""
        self.check()
        assert self.mirrored() == self.landed()


def make_mirrored(stack: Stack, folder: Path, settings: Mapping[str, Any]) -> Mirrored:
    """A topic of two partitions, its tables, and a job that commits each second."""
    name = f"mirrored-{uuid.uuid4().hex[:8]}"
    url = stack.clickhouse[0].url
    command(url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    stack.kafka.create_topic(name, 2)
    mirror = {
        "mirror.enabled": "true",
        "mirror.catalog.name": "lake",
        "mirror.catalog.type": "sql",
        "mirror.catalog.uri": f"sqlite:///{folder}/catalog.db",
        "mirror.catalog.warehouse": f"file://{folder}/lake",
        "mirror.control_topic": f"{name}-control",
        "mirror.interval_s": "1",
        "mirror.route": f"[{{ topic = {json.dumps(name)}, table = {json.dumps(TABLE)} }}]",
    }
    job = Mirrored(name, folder, stack.kafka.bootstrap, [url], settings={**mirror, **settings})
    job.make_table(name)
    job.catalog.create_namespace("shop")
    job.catalog.create_table(TABLE, SCHEMA)
    return job
