"""The ``_kafka_*`` columns: if a table has one, chsink fills it with the corresponding field of the Kafka record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """``source`` is the field in Spark's Kafka source; ``declare`` is a ClickHouse type that holds all its values."""

    name: str
    source: str
    declare: str


METADATA_COLUMNS: Mapping[str, MetadataColumn] = MappingProxyType(
    {
        column.name: column
        for column in (
            MetadataColumn("_kafka_topic", "topic", "LowCardinality(String)"),
            MetadataColumn("_kafka_partition", "partition", "UInt32"),
            MetadataColumn("_kafka_offset", "offset", "UInt64"),
            MetadataColumn("_kafka_timestamp", "timestamp", "DateTime64(3)"),
            MetadataColumn("_kafka_key", "key", "Nullable(String)"),
            MetadataColumn("_kafka_headers", "headers", "Array(Tuple(key String, value Nullable(String))) DEFAULT []"),
        )
    }
)
"""The metadata columns by name, in the order in which the documentation lists them."""

SHARD_TYPES: Mapping[str, str] = MappingProxyType(
    {"_kafka_topic": "String", "_kafka_partition": "UInt32", "_kafka_offset": "UInt64", "_kafka_key": "String"}
)
"""The fields that a shard key can name even if the table lacks the column, and the types with which they are hashed."""

PROBE_COLUMNS = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
"""The columns by which a probe finds rows."""

LONGEST_NAME = 200

_OF_MERGE_TREE = frozenset(("_row_exists", "_block_number", "_block_offset"))


def is_column_name(name: str) -> bool:
    """Whether chsink makes a column of this name for a field: not one of Kafka's own fields or of a Nested column."""
    if not 0 < len(name) <= LONGEST_NAME or "." in name or name in METADATA_COLUMNS:
        return False
    return name.isprintable()  # false for lone surrogates, too


def is_clickhouse_name(name: str) -> bool:
    """Whether chsink makes a ClickHouse column of this name for a field.  A MergeTree keeps some names for itself."""
    return is_column_name(name) and name not in _OF_MERGE_TREE
