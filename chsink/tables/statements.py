"""The texts of CREATE TABLE and ADD COLUMN for target tables, and of CREATE TABLE for dead letters.

Where an endpoint has replicas, a new table is a Replicated one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from chsink.config import Config, Route
from chsink.config.sections import Endpoint
from chsink.decode.columns import Column
from chsink.dlq import letters
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.notation.sql import TableName, quote_identifier

METADATA = ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")
"""The metadata columns of a new table."""
_PATH = "'/clickhouse/tables/{shard}/{database}/{table}'"
_NULLABLE = re.compile(r"Nullable\((.*)\)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the servers on which a person has to run it: one of them if it has ``ON CLUSTER``."""

    sql: str
    urls: tuple[str, ...]


def create_table(config: Config, route: Route, database: str, columns: Mapping[str, str]) -> str:
    """The statement that creates the route's table with these columns, and those for Kafka's own fields."""
    order_by, partition_by = config.keys_of_new(route)
    keys = {*order_by, *config.shard_key_of(route), *_words(partition_by or "")}
    declared = {quote_identifier(n): _required(kind) if n in keys else kind for n, kind in columns.items()}
    declared |= {name: METADATA_COLUMNS[name].declare for name in METADATA}
    width = max(map(len, declared))
    lines = ",\n".join(f"    {name:<{width}} {kind}" for name, kind in declared.items())
    engine = config.tables.engine or _engine(config, config.clickhouse.endpoints)
    partition = f"\nPARTITION BY {partition_by}" if partition_by else ""
    order = ", ".join(name if name in METADATA_COLUMNS else quote_identifier(name) for name in order_by)
    head = f"CREATE TABLE IF NOT EXISTS {TableName(database, route.table_name.table)}{config.tables.on_cluster}"
    return f"{head}\n(\n{lines}\n)\nENGINE = {engine}{partition}\nORDER BY ({order}){_window(engine)}"


def create_letters(config: Config, name: TableName) -> Statement:
    """The statement that creates the table of dead letters on the first endpoint, and the servers to run it on."""
    first = config.clickhouse.endpoints[:1]
    engine, cluster = _engine(config, first), config.tables.on_cluster if first[0].replicas else ""
    return Statement(letters.create_table(f"{name}{cluster}", engine, _window(engine)), servers(config, first))


def servers(config: Config, endpoints: Sequence[Endpoint]) -> tuple[str, ...]:
    """Where to run a statement that concerns these endpoints: on each URL, or with ``ON CLUSTER`` on one."""
    urls = tuple(url for endpoint in endpoints for url in endpoint.urls)
    return urls[:1] if config.tables.cluster else urls


def add_columns(config: Config, table: str, columns: Mapping[str, str]) -> str:
    """The statement that adds the columns that the table lacks; ``table`` must be quoted."""
    added = ", ".join(f"ADD COLUMN IF NOT EXISTS {quote_identifier(n)} {kind}" for n, kind in columns.items())
    return f"ALTER TABLE {table}{config.tables.on_cluster} {added}"


def declared(column: Column) -> str:
    """A column's declaration without its name: type and default."""
    return f"{column.type} {column.default_kind} {column.default_expression}".rstrip()


def _engine(config: Config, endpoints: Sequence[Endpoint]) -> str:
    """The engine of a new table on these endpoints.  Without ON CLUSTER, a replicated table needs an explicit path: its
    default path contains the table's UUID, which is the same on all replicas only with ON CLUSTER.
    """
    if not any(endpoint.replicas for endpoint in endpoints):
        return "MergeTree"
    return "ReplicatedMergeTree" if config.tables.cluster else f"ReplicatedMergeTree({_PATH}, '{{replica}}')"


def _window(engine: str) -> str:
    """The setting with which a table deduplicates inserts; Replicated ones do it by default."""
    replicated = engine.startswith(("Replicated", "Shared"))
    return "" if replicated else letters.WINDOW


def _required(kind: str) -> str:
    """The type of a key column, which must not be Nullable."""
    found = _NULLABLE.fullmatch(kind)
    return found[1] if found else kind


def _words(expression: str) -> Collection[str]:
    return re.findall(r"[A-Za-z_][A-Za-z0-9_]*", expression)
