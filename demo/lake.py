"""The demo's Iceberg tables, read by pyiceberg.  It makes the first one; the mirror makes the others.

Like the checker, this module imports nothing from chsink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

from demo.checker import OFFSET, Compared, Row, unwrapped

NAMESPACE = "demo"
_METADATA: Mapping[str, PrimitiveType] = {
    "_kafka_topic": StringType(),
    "_kafka_partition": IntegerType(),
    "_kafka_offset": LongType(),
    "_kafka_timestamp": TimestamptzType(),
}
_OF_CLICKHOUSE: Mapping[str, PrimitiveType] = {
    "Bool": BooleanType(),
    "UInt8": IntegerType(),
    "UInt16": IntegerType(),
    "Int16": IntegerType(),
    "Int64": LongType(),
    "Float64": DoubleType(),
    "DateTime('UTC')": TimestamptzType(),
}
"""All other types become text: it keeps any JSON, even whole numbers of 128 bits."""


class Lake:
    """A catalog in SQLite and its warehouse, both in one new folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.uri, self.warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        self._catalog = SqlCatalog("lake", uri=self.uri, warehouse=self.warehouse)
        self._catalog.create_namespace(NAMESPACE)

    def create(self, topic: str, columns: Mapping[str, str]) -> Compared:
        """A topic's table for columns with these ClickHouse types, partitioned by a hash of the first that is text."""
        kept = _kept(columns)
        types = {**{name: _type(kind) for name, kind in kept.items()}, **_METADATA}
        fields = [NestedField(number, name, kind) for number, (name, kind) in enumerate(types.items(), 1)]
        text = next(field for field in fields if field.field_type == StringType())
        spec = PartitionSpec(PartitionField(text.field_id, 1000, BucketTransform(4), f"{text.name}_bucket"))
        self._catalog.create_table(f"{NAMESPACE}.{topic}", Schema(*fields), partition_spec=spec)
        return self.compared(topic, columns)

    def compared(self, topic: str, columns: Mapping[str, str]) -> Compared:
        """A topic's table, which the mirror may create.  A column with a dot in its name is left out."""
        types = {name: "String" if _type(kind) == StringType() else kind for name, kind in _kept(columns).items()}
        return Compared(topic, f"{NAMESPACE}.{topic}", types)

    def partitions(self, table: str) -> int:
        """How many partition values the table has."""
        return len(self._catalog.load_table(table).inspect.partitions())

    def snapshots(self, table: str) -> int:
        """How many the table has; none before it exists."""
        return len(self._catalog.load_table(table).snapshots()) if self._catalog.table_exists(table) else 0

    def landed(self, item: Compared, partition: int) -> Iterator[tuple[int, Row]]:
        """The rows of a topic-partition, with their offsets and in their order; a time is text, as it was sent."""
        mine = f"_kafka_topic = '{item.topic}' AND _kafka_partition = {partition}"
        fields = (*item.types, OFFSET)
        found = self._catalog.load_table(item.table).scan(row_filter=mine, selected_fields=fields).to_arrow()
        for batch in _plain(found.sort_by(OFFSET)).to_batches():
            for row in batch.to_pylist():
                yield row[OFFSET], row


def _kept(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: kind for name, kind in columns.items() if "." not in name}


def _type(kind: str) -> PrimitiveType:
    return _OF_CLICKHOUSE.get(unwrapped(kind), StringType())


def _plain(rows: pa.Table) -> pa.Table:
    for index, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            seconds = pc.cast(rows.column(index), pa.timestamp("s", "UTC"))  # raises if it would lose a fraction
            rows = rows.set_column(index, column.name, pc.strftime(seconds, "%Y-%m-%dT%H:%M:%SZ"))
    return rows
