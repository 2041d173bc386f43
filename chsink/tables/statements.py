"""The texts of CREATE TABLE and ADD COLUMN for target tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from chsink.config import Config, Route
from chsink.decode.columns import Column
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.notation.sql import TableName, quote_identifier

METADATA = ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")
"""The metadata columns of a new table."""
WINDOW = 10_000
_PATH = "'/clickhouse/tables/{shard}/{database}/{table}'"
_NULLABLE = re.compile(r"Nullable\((.*)\)")


def create_table(config: Config, route: Route, database: str, columns: Mapping[str, str]) -> str:
    """The statement that creates the route's table with these columns, and those for Kafka's own fields."""
    order_by, partition_by = config.keys_of_new(route)
    keys = {*order_by, *config.shard_key_of(route), *_words(partition_by or "")}
    declared = {quote_identifier(n): _required(kind) if n in keys else kind for n, kind in columns.items()}
    declared |= {name: METADATA_COLUMNS[name].declare for name in METADATA}
    width = max(map(len, declared))
    lines = ",\n".join(f"    {name:<{width}} {kind}" for name, kind in declared.items())
    engine = config.tables.engine or _engine(config)
    replicated = engine.startswith(("Replicated", "Shared"))
    window = "" if replicated else f"\nSETTINGS non_replicated_deduplication_window = {WINDOW}"
    partition = f"\nPARTITION BY {partition_by}" if partition_by else ""
    order = ", ".join(name if name in METADATA_COLUMNS else quote_identifier(name) for name in order_by)
    head = f"CREATE TABLE IF NOT EXISTS {TableName(database, route.table_name.table)}{on_cluster(config)}"
    return f"{head}\n(\n{lines}\n)\nENGINE = {engine}{partition}\nORDER BY ({order}){window}"


def add_columns(config: Config, table: str, columns: Mapping[str, str]) -> str:
    """The statement that adds the columns that the table lacks; ``table`` must be quoted."""
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS {quote_identifier(n)} {kind}" for n, kind in columns.items())
    return f"ALTER TABLE {table}{on_cluster(config)} {added}"


def declared(column: Column) -> str:
    """A column's declaration without its name: type and default."""
    return f"{column.type} {column.default_kind} {column.default_expression}".rstrip()


def on_cluster(config: Config) -> str:
    """The clause ``ON CLUSTER``; "" if no cluster is configured."""
    return f" ON CLUSTER {quote_identifier(config.tables.cluster)}" if config.tables.cluster else ""


def _engine(config: Config) -> str:
    """The engine of a new table.  Without ON CLUSTER, a replicated table needs an explicit path: its default path
    contains the table's UUID, which is the same on all replicas only with ON CLUSTER.
    """
    name = config.engine_of_new
    return name if name == "MergeTree" or config.tables.cluster else f"{name}({_PATH}, '{{replica}}')"


def _required(kind: str) -> str:
    """The type of a key column, which must not be Nullable."""
    found = _NULLABLE.fullmatch(kind)
    return found[1] if found else kind


def _words(expression: str) -> Collection[str]:
    return re.findall(r"[A-Za-z_][A-Za-z0-9_]*", expression)
