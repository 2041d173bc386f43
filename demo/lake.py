"""The demo's Iceberg tables, which the mirror creates, read by pyiceberg.

Like the checker, this module imports nothing from chsink.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

from demo.checker import OFFSET, Compared, Row, unwrapped

NAMESPACE = "demo"
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

    @staticmethod
    def create(columns: Mapping[str, str]) -> str:
        """What a route says for a table that shall hold columns of these ClickHouse types: its columns, and that it is
        partitioned by a hash of the first that is text, or of the offset.
        """
        kinds = {name: _type(kind) for name, kind in _kept(columns).items()}
        types = ", ".join(f'{json.dumps(name, ensure_ascii=False)} = "{kind}"' for name, kind in kinds.items())
        text = (name for name, kind in kinds.items() if kind == StringType() and name.isidentifier())
        return f'create = {{ types = {{ {types} }}, partition = ["bucket(4, {next(text, OFFSET)})"] }}'

    def compared(self, topic: str, columns: Mapping[str, str]) -> Compared:
        """A topic's table.  A column with a dot in its name is left out."""
        types = {name: "String" if _type(kind) == StringType() else kind for name, kind in _kept(columns).items()}
        return Compared(topic, f"{NAMESPACE}.{topic}", types)

    def spec(self, table: str) -> str:
        """How the table is partitioned, and into how many partitions."""
        loaded = self._catalog.load_table(table)
        of = loaded.schema().find_column_name
        fields = ", ".join(f"{field.transform} of {of(field.source_id)}" for field in loaded.spec().fields)
        return f"partitioned by {fields}: partitions={len(loaded.inspect.partitions())}"

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
