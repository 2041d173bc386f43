"""Creates the mirror's missing tables from the records in their topics (``mirror.auto_create``).

Rules:
- The columns follow from the same records as those of a ClickHouse table (:mod:`chsink.tables.create`), or are those of
  the ClickHouse table itself (:mod:`chsink.tables.clickhouse_columns`), which needs no record.
- A topic without a record that can be read (aborted transactions have none) waits, with all its tables: the others go
  on.  It begins at its first record.
- A table is not created if the sink's group has an offset of its topics: then it was dropped, or its route is new, and
  a person decides what it should hold.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger as BoundLogger

from chsink.config import Config, Route
from chsink.errors import preflight
from chsink.findings import Finding, guarded
from chsink.kafka.admin import KafkaAdmin
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.failures import in_words
from chsink.mirror.lacking import Wanted
from chsink.mirror.nested_types import NewColumns, fields_in, type_of
from chsink.mirror.new_tables import Definition, create, defined, spark_namespace, spark_sql
from chsink.mirror.opening import OpenMirror
from chsink.tables.clickhouse_columns import clickhouse_columns
from chsink.tables.create import begun, columns_for

NO_COLUMNS: Final[NewColumns] = {}


def definition(config: Config, kafka: KafkaAdmin, table: str, found: NewColumns = NO_COLUMNS) -> Definition:
    """The table that the mirror would create, also with columns that were ``found`` already.

    Raises PreflightError CHS-285 if no record says which columns it has,
    CHS-289 if these are too many, CHS-284 if ``create`` does not fit them, or ClickHouse's columns no Iceberg type.
    """
    new = config.mirror.new_table(table)
    own = {name: type_of(text) for name, text in new.types.items()}
    if new.columns == "clickhouse":
        columns = clickhouse_columns(config, table, own)
    else:
        columns = _of_records(config, kafka, table, own, found)
    return defined(table, columns, new)


def _of_records(config: Config, kafka: KafkaAdmin, table: str, own: NewColumns, found: NewColumns) -> NewColumns:
    routes = []
    for route in config.mirror.routes_to(table):
        keys = config.mirror_keys_of(route)
        key_format, key_columns = (None, ()) if keys is None else (keys.format, tuple(keys.columns))
        value = config.mirror_format_of(route)
        choice = config.mirror_choice_of(route)
        routes.append(
            Route(route.topic, table, format=value, key_format=key_format, key_columns=key_columns, choice=choice)
        )
    columns = {**columns_for(config, kafka, table, routes, ICEBERG, found=found), **own}
    sizes = {name: 1 + fields_in(kind) for name, kind in columns.items()}
    if sum(sizes.values()) > config.tables.max_columns:
        wide = ", ".join(f"{name} ({size - 1} fields)" for name, size in sizes.items() if size > 1)
        raise preflight.TOO_MANY_COLUMNS(tp=", ".join(r.topic for r in routes), table=table, columns=wide)
    return columns


def iceberg_statements(config: Config, kafka: KafkaAdmin, topics: Sequence[str] = ()) -> Iterator[str]:
    """Spark's statements for the mirror's tables and their namespaces."""
    config = config.with_mirrored(kafka.topics)
    catalog = str(config.mirror.catalog_properties()["name"])
    namespaces: set[str] = set()
    for table in config.mirror.tables:
        if not topics or any(route.topic in topics for route in config.mirror.routes_to(table)):
            made = definition(config, kafka, table)
            if (namespace := spark_namespace(catalog, made)) not in namespaces:
                namespaces.add(namespace)
                yield namespace
            yield from spark_sql(catalog, made)


def create_missing_iceberg(mirror: OpenMirror, kafka: KafkaAdmin, log: BoundLogger) -> OpenMirror:
    """Create the missing tables; returns the mirror without the topics that wait for their first record.

    Raises PreflightError as :func:`definition`, and UnavailableError.
    """
    config, waiting = mirror.config, set[str]()
    for name, target in mirror.targets.items():
        if not config.mirror.creates(name):
            continue
        with in_words(mirror.names):
            if target.table.load() is not None or not mirror.begins(target.topics):
                continue
            if _waits(config, kafka, name, target.topics):
                waiting |= target.topics
                continue
            _create(mirror, definition(config, kafka, name), log)
    if not waiting:
        return mirror
    log.info("topics without a record wait for their first one", topics=sorted(waiting))
    return mirror.without(waiting)


@dataclass(frozen=True)
class CreateNamed:
    """:data:`chsink.mirror.named_tables.Create` of a mirror.  Raises as :func:`create_missing_iceberg`."""

    mirror: OpenMirror
    kafka: KafkaAdmin
    log: BoundLogger

    def __call__(self, config: Config, name: str, wanted: Wanted) -> str:
        found = {column: field.field_type for column, field in wanted.items()}
        with in_words(self.mirror.names):
            return _create(self.mirror, definition(config, self.kafka, name, found), self.log)


def _create(mirror: OpenMirror, made: Definition, log: BoundLogger) -> str:
    """The table's uuid."""
    table, own = create(mirror.catalog, made)
    sql = "; ".join(spark_sql(str(mirror.config.mirror.catalog_properties()["name"]), made))
    log.info("created a table" if own else "somebody else created the table", table=made.name, sql=sql)
    return str(table.metadata.table_uuid)


def new_tables(mirror: OpenMirror, kafka: KafkaAdmin) -> Generator[Finding, None, dict[str, Definition]]:
    """The tables that a start would create, by name, after findings on what it would refuse.  Nothing is created."""
    planned: dict[str, Definition] = {}
    for name in mirror.targets:
        if mirror.config.mirror.creates(name):
            yield from guarded(f"the Iceberg table {name}", partial(_plan, mirror, kafka, name, planned))
    return planned


def _plan(mirror: OpenMirror, kafka: KafkaAdmin, name: str, planned: dict[str, Definition]) -> Iterator[Finding]:
    config, target = mirror.config, mirror.targets[name]
    with in_words(mirror.names):
        new = target.table.load() is None and mirror.begins(target.topics)
        if new and not _waits(config, kafka, name, target.topics):
            planned[name] = definition(config, kafka, name)
    return iter(())


def _waits(config: Config, kafka: KafkaAdmin, name: str, topics: Collection[str]) -> bool:
    """Whether the table waits for the first record of its topics."""
    by_records = config.mirror.new_table(name).columns == "records"
    return by_records and config.kafka.starting_offsets == "earliest" and not begun(config, kafka, topics)
