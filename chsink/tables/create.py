"""Creates missing target tables from the records in their topics (``schema.auto_create``).

The columns come from the records' schema, or are inferred from a sample.  If another server already has the table, its
columns are used: so an interrupted start continues where it stopped.  Two jobs may create the same table at once: the
first statement wins, and the checks of a start compare the shards.  A table is not created if it is missing although
the state says that rows landed in it: the user must learn that it is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from structlog.typing import FilteringBoundLogger as BoundLogger

from chsink.clickhouse import grants
from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.grants import Use
from chsink.clickhouse.table import read_columns
from chsink.config import Config, Route
from chsink.config.sections import Endpoint
from chsink.decode.inferred import TEXT
from chsink.driver.ledger import read_records
from chsink.errors import preflight
from chsink.findings import server_sentence
from chsink.formats.column_types import CLICKHOUSE, ColumnTypes, T
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import Csv, Debezium, FormatSettings, JsonFields, Tsv
from chsink.formats.table_by_decoder import RecordChooser
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.sample import holding, open_sampler
from chsink.notation import codes
from chsink.notation.metadata_columns import METADATA_COLUMNS, is_clickhouse_name, is_column_name
from chsink.notation.sql import TableName
from chsink.ports import ServerRefused, StateStore
from chsink.refusals import asking_target
from chsink.sample import sampled
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase
from chsink.tables.statements import Statement, create_table, declared, servers

_Columns = dict[str, str]
_CONSTANTS: Final[Mapping[type, str]] = MappingProxyType(
    {bool: "Nullable(Bool)", int: "Nullable(Int64)", float: "Nullable(Float64)"}
)
_EPOCHS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "days": "Nullable(Date32)",
        "seconds": "Nullable(DateTime64(0, 'UTC'))",
        "millis": "Nullable(DateTime64(3, 'UTC'))",
        "micros": "Nullable(DateTime64(6, 'UTC'))",
        "nanos": "Nullable(DateTime64(9, 'UTC'))",
    }
)


def create_missing(clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, log: BoundLogger) -> set[str]:
    """Create the missing tables of routes with ``auto_create``, on each server that lacks them.

    Returns the topics that wait for their first record, which a pattern matches: they have no route until then.
    Raises PreflightError CHS-285 if no columns can be determined, CHS-286 if a server refuses the statement.
    """
    config = clickhouse.config
    wanted: dict[str, list[Route]] = {}
    for route in config.routes:
        if config.creates(route):
            wanted.setdefault(config.table_of(route).canonical, []).append(route)
    waiting: set[str] = set()
    for routes in wanted.values():
        with asking_target():
            waiting |= _create(clickhouse, store, kafka, log, routes)
    if waiting:
        log.info("topics without a record wait for their first one", topics=sorted(waiting))
    return waiting


def statements(config: Config, kafka: KafkaAdmin, topics: Sequence[str] = ()) -> Iterator[Statement]:
    """The statements that would create the target tables from the records of their topics.

    A table has one for each database that it has on the endpoints.
    """
    tables: dict[str, list[Route]] = {}
    for route in config.routes:
        if not topics or route.topic in topics:
            tables.setdefault(config.table_of(route).canonical, []).append(route)
    for routes in tables.values():
        columns, route = inferred(config, kafka, routes), routes[0]
        places: dict[str, list[Endpoint]] = {}
        for endpoint, own in zip(config.clickhouse.endpoints, config.databases_of(route), strict=True):
            places.setdefault(own or config.table_of(route).database, []).append(endpoint)
        for database, endpoints in places.items():
            yield Statement(create_table(config, route, database, columns), servers(config, endpoints))


def _create(
    clickhouse: Cluster, store: StateStore, kafka: KafkaAdmin, log: BoundLogger, routes: Sequence[Route]
) -> set[str]:
    """Create one table.  ``routes`` are all routes to it.  Returns their topics if it has to wait for a record."""
    config, route = clickhouse.config, routes[0]
    name = config.table_of(route)
    there: _Columns = {}
    missing: list[tuple[ClickHouseClient, str]] = []
    for endpoint, own in zip(config.clickhouse.endpoints, config.databases_of(route), strict=True):
        for url in endpoint.urls:
            client = clickhouse.client((url,))
            database = own or name.database
            found = {c.name: declared(c) for c in read_columns(client, database, name.table)}
            there = there or found
            if not found:
                missing.append((client, database))
    if not missing or (not there and _has_landed(store, config.sink.name, name.canonical)):
        return set()
    if not there and _may_wait(config, store, kafka, topics := {route.topic for route in routes}):
        return topics
    columns = {n: kind for n, kind in there.items() if n not in METADATA_COLUMNS} or inferred(config, kafka, routes)
    for client, database in missing:
        statement = create_table(config, route, database, columns)
        log.info("creating a table", table=name.canonical, url=client.url, sql=statement)
        run_statement(config, client, TableName(database, name.table), statement)
    return set()


def run_statement(config: Config, client: ClickHouseClient, table: TableName, statement: str) -> None:
    """Create the table.  PreflightError CHS-286 if the server refuses."""
    try:
        client.command(statement, {"distributed_ddl_task_timeout": int(config.clickhouse.insert_timeout_s)})
    except ServerRefused as refused:
        said = {"table": table.canonical, "url": client.url, "reason": server_sentence(refused)}
        if refused.code == codes.ACCESS_DENIED:
            grant = grants.change_statements(config, Use.CREATE, table)
            raise preflight.CREATE_NOT_GRANTED(**said, grant=grant) from refused
        raise preflight.TABLE_NOT_CREATED(**said) from refused


def _may_wait(config: Config, store: StateStore, kafka: KafkaAdmin, topics: set[str]) -> bool:
    """Whether Kafka holds no record of these topics, patterns matched all of them, and no table has a range of theirs:
    without its routes, a topic's range in doubt could not be settled.
    """
    if not topics <= set(config.matched_topics):
        return False
    records = read_records(store, config.sink.name)
    if any(key.topic in topics and record.phase is not Phase.EMPTY for key, record in records.items()):
        return False
    return not begun(config, kafka, topics)


def begun(config: Config, kafka: KafkaAdmin, topics: Collection[str]) -> set[str]:
    """Those of these topics of which Kafka holds a record that the job can read."""
    return {tp.topic for tp in holding(config, _logs(kafka, topics), readable=False)}


def _logs(kafka: KafkaAdmin, topics: Collection[str]) -> dict[TopicPartition, OffsetRange]:
    partitions = kafka.partitions(topics)
    starts, ends = kafka.log_starts(partitions), kafka.log_ends(partitions)
    return {tp: OffsetRange(start, max(start, ends[tp])) for tp, start in starts.items()}


def _has_landed(store: StateStore, sink: str, table: str) -> bool:
    """Whether the sink announced records for the table: then it was dropped, and is not new."""
    records = read_records(store, sink)
    return any(key.table == table and record.known_end for key, record in records.items())


def inferred(config: Config, kafka: KafkaAdmin, routes: Sequence[Route]) -> _Columns:
    """The columns for the records of these routes' topics.  Raises PreflightError CHS-285 if there are none."""
    return columns_for(config, kafka, config.table_of(routes[0]).canonical, routes, CLICKHOUSE)


def columns_for(
    config: Config,
    kafka: KafkaAdmin,
    table: str,
    routes: Sequence[Route],
    types: ColumnTypes[T],
    *,
    found: Mapping[str, T] = MappingProxyType({}),
) -> dict[str, T]:
    """See :func:`inferred`; ``types`` names the types, ``table`` is for messages, ``found`` were found before."""
    columns = dict(found)
    for route in routes:
        for name, kind in _of_route(config, kafka, route, types):
            columns[name] = types.wider(columns[name], kind) if name in columns else kind
    if not columns:
        raise preflight.NO_COLUMNS(table=table, topics=", ".join(route.topic for route in routes))
    if beyond := list(columns)[config.tables.max_columns :]:
        topics = ", ".join(route.topic for route in routes)
        raise preflight.TOO_MANY_COLUMNS(tp=topics, table=table, columns=", ".join(beyond))
    return columns


def _of_route(config: Config, kafka: KafkaAdmin, route: Route, types: ColumnTypes[T]) -> Iterator[tuple[str, T]]:
    of_key = route.key_columns
    named = _named(route.format).items()
    yield from ((name, types.of_clickhouse(kind)) for name, kind in named if name not in of_key)
    values, keys = _values(config, kafka, route)
    times = config.tables.infer_times
    yield from _offered(route.format, values, exclude=of_key, times=times, types=types)
    if route.key_format is not None:
        found = dict(_offered(route.key_format, keys, exclude=(), times=times, types=types))
        yield from ((name, found.get(name, types.of_clickhouse(TEXT))) for name in of_key)


def _named(settings: FormatSettings) -> Mapping[str, str]:
    """The columns that the job file names, with their types; text if any value may occur.  Ordered as the fields of a
    row, or sorted, so that every run makes the same statement.
    """
    own: dict[str, str] = {}
    if isinstance(settings, JsonFields):
        own = {name: _decimal(digits) for name, digits in settings.decimals.items() if digits != "text"}
        own |= {name: _EPOCHS[unit] for name, unit in settings.epoch.items()}
        own |= {name: _CONSTANTS.get(type(value), TEXT) for name, value in settings.constants.items()}
    if isinstance(settings, Debezium):
        meant = {settings.version_column: "UInt64", settings.deleted_column: "UInt8"}
        own |= {name: kind for name, kind in meant.items() if name is not None}
    named = settings.named - _of_records(settings)
    order = settings.columns if isinstance(settings, Csv | Tsv) else sorted(named)
    found = {name: own.get(name, TEXT) for name in order if name in named}
    return found or ({"value": TEXT} if settings.closed else {})


def _of_records(settings: FormatSettings) -> frozenset[str]:
    """Columns that the job file names, but whose types are inferred from the records."""
    if not isinstance(settings, JsonFields):
        return frozenset()
    inferred_of = {name for name, digits in settings.decimals.items() if digits == "text"}
    scaled = settings.decimals.keys() - inferred_of
    keys = settings.primary_key if isinstance(settings, Debezium) else ()
    return frozenset({*inferred_of, *keys} - {*settings.fields, *settings.constants, *settings.epoch, *scaled})


def _decimal(scale: int) -> str:
    """The column of a decimal of this scale, whose precision is not known."""
    return f"Nullable(Decimal({38 if scale <= 18 else 76}, {max(scale, 0)}))"


def _values(config: Config, kafka: KafkaAdmin, route: Route) -> tuple[list[pa.Array], list[pa.Array]]:
    """Values and keys of the sampled records."""
    values, keys = [], []
    chooser = RecordChooser(route.choice) if route.choice else None
    if offered_by(route.format) is not None or route.key_format is not None:
        with closing(open_sampler(config)) as sampler:
            for records in sampled(kafka, sampler, route.topic, config.tables.sample_records):
                mine = chooser.own(records) if chooser else records
                values.append(mine.column("value"))
                keys.append(mine.column("key"))
    return values, keys


def _offered(
    settings: FormatSettings, values: Sequence[pa.Array], exclude: Sequence[str], *, times: bool, types: ColumnTypes[T]
) -> Iterator[tuple[str, T]]:
    offered = offered_by(settings, types)
    if offered is None or not values:
        return
    known = {*(settings.named - _of_records(settings)), *exclude}
    of_clickhouse: object = CLICKHOUSE
    may_be = is_clickhouse_name if types is of_clickhouse else is_column_name
    for name, kind in offered.columns(pa.concat_arrays(values), known, times=times).items():
        if kind is not None and may_be(name):
            yield name, kind
