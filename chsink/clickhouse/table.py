"""A target table as the server describes it: what an insert must fit, and how the table deduplicates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from chsink.clickhouse.definition import Ttl, has_projections, own_settings, ttl_of
from chsink.clickhouse.describe import VERSION, TableFacts, in_groups, named, read_facts
from chsink.clickhouse.feeds import filled_by_views, query_tables
from chsink.decode.columns import Column
from chsink.errors import preflight
from chsink.notation.metadata_columns import METADATA_COLUMNS, PROBE_COLUMNS
from chsink.notation.sql import TableName, names_column, quote_identifier, quote_table
from chsink.ports import Queries

KEEPING = ("MergeTree", "ReplicatedMergeTree", "SharedMergeTree")
"""Engines that keep each row as it was inserted."""
THE_TABLE = "FROM system.tables WHERE database = {database:String} AND name = {name:String}"


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table on one endpoint.

    ``identity`` differs for a table of the same name that was dropped and recreated.  ``definition`` is a digest of the
    whole; a ``projected`` table has projections.  All this is the same on every replica.  ``merge_tree`` holds the
    effective MergeTree settings that matter here (:func:`remembering_least`).  ``feeds`` are the tables that its views
    fill and that deduplicate, too: they get each of its blocks.  ``views`` are those that fill these.  ``partitioning``
    are the columns with defaults that may decide a row's table partition, also in tables that it feeds: those that the
    expressions of ``computing`` name.
    """

    database: str
    name: str
    identity: str
    engine: str
    columns: tuple[Column, ...]
    partition_key: str
    ttl: Ttl
    merge_tree: Mapping[str, str]
    timezone: str
    definition: str = ""
    projected: bool = False
    feeds: tuple[TargetTable, ...] = ()
    views: tuple[TableName, ...] = ()
    computing: str = ""
    partitioning: tuple[Column, ...] = ()

    @property
    def at(self) -> TableName:
        """Its name on this endpoint, whose database may be the endpoint's own."""
        return TableName(self.database, self.name)

    @property
    def canonical(self) -> str:
        """The same, as text."""
        return self.at.canonical

    def deleting(self, where: str) -> str:
        """The statement that removes rows: by default, ClickHouse refuses a lightweight DELETE beside projections."""
        name = quote_table(self.canonical)
        if self.projected:
            return f"ALTER TABLE {name} DELETE WHERE {where} SETTINGS mutations_sync = 2"
        return f"DELETE FROM {name} WHERE {where}"

    @property
    def with_fed(self) -> tuple[TargetTable, ...]:
        """It and the tables that it feeds."""
        return (self, *self.feeds)

    @property
    def insertable(self) -> tuple[Column, ...]:
        """Columns that an INSERT may name."""
        return tuple(c for c in self.columns if c.insertable)

    def beyond(self, announced: Collection[str]) -> tuple[Column, ...]:
        """Columns for fields of records that were added since a range was announced with the ``announced`` ones."""
        return tuple(c for c in self.insertable if c.name not in {*announced, *METADATA_COLUMNS})

    @property
    def replicated(self) -> bool:
        """Whether blocks are deduplicated through Keeper."""
        return self.engine.startswith(("Replicated", "Shared"))

    @property
    def window_blocks(self) -> int:
        """How many blocks of the whole table the deduplication remembers; 0: it does not deduplicate."""
        return int(self.merge_tree[WINDOW[0] if self.replicated else NOT_REPLICATED])

    @property
    def window_s(self) -> int | None:
        """For how long a block is remembered, None when the table has no limit by time."""
        return int(self.merge_tree[WINDOW[1]]) if self.replicated else None

    @property
    def queues_inserts(self) -> bool:
        """Whether the table makes each insert an asynchronous one, whatever the insert itself says."""
        return self.merge_tree.get("async_insert") == "1"

    @property
    def can_probe(self) -> bool:
        """Whether rows can be found again by topic, partition and offset."""
        return self.engine in KEEPING and self.takes_places and not self.ttl

    @property
    def shows_places(self) -> bool:
        """Whether its rows say which records they are of."""
        return {c.name for c in self.columns}.issuperset(PROBE_COLUMNS)

    @property
    def takes_places(self) -> bool:
        """Whether chsink's inserts say so."""
        return {c.name for c in self.insertable}.issuperset(PROBE_COLUMNS)


def read_table(client: Queries, database: str, name: str) -> TargetTable:
    """Read the table from the server's system tables.  PreflightError when it is not there."""
    at = TableName(database, name)
    found = read_tables(client, [at])
    if not found:
        raise preflight.NO_TABLE(table=at.canonical, url=client.url, named=at.canonical)
    return found[at]


def read_tables(client: Queries, names: Collection[TableName]) -> dict[TableName, TargetTable]:
    """Those of the tables that are there, by a few questions for all of them."""
    fills = filled_by_views(client, names)
    described = _describe(client, {*names, *(t for of in fills.values() for t in of.values())})
    keyed = {at for at, table in described.items() if table.partition_key}
    views = {view for of in fills.values() if not keyed.isdisjoint(of.values()) for view in of}
    selects = {TableName(*at): str(select) for *at, select in query_tables(client, views, "as_select")}
    return {at: _feeding(described, at, fills[at], selects) for at in names if at in described}


def _feeding(
    described: Mapping[TableName, TargetTable],
    at: TableName,
    fills: Mapping[TableName, TableName],
    selects: Mapping[TableName, str],
) -> TargetTable:
    feeds = _fed(described, {*fills.values()})
    to_these = (view for view, to in fills.items() if to in {each.at for each in feeds})
    views = tuple(sorted(to_these, key=lambda view: view.canonical))
    computing = described[at].partition_key
    if any(each.partition_key for each in feeds):
        texts = [computing, *(each.partition_key for each in feeds), *(selects.get(view, "") for view in views)]
        if any("*" in text for text in texts):  # `SELECT *` hands on what the filled tables have
            texts += [quote_identifier(c.name) for each in feeds for c in each.columns]
        computing = " ".join(texts)
        feeds = tuple(_computing(each, computing) for each in feeds)
    return replace(_computing(described[at], computing), feeds=feeds, views=views)


def _computing(table: TargetTable, expressions: str) -> TargetTable:
    return replace(table, computing=expressions, partitioning=computed_in(expressions, table.columns, filled=()))


def _fed(described: Mapping[TableName, TargetTable], fills: Collection[TableName]) -> tuple[TargetTable, ...]:
    """Those that deduplicate.  ``chsink doctor`` warns of the others."""
    found = sorted((described[at] for at in fills if at in described), key=lambda t: t.canonical)
    return tuple(t for t in found if t.engine.endswith("MergeTree") and t.window_blocks)


def _describe(client: Queries, names: Collection[TableName]) -> dict[TableName, TargetTable]:
    facts = read_facts(client, names)
    details = {
        TableName(database, name): row
        for group in in_groups(facts)
        for database, name, *row in client.query(
            "SELECT database, name, partition_key, create_table_query, engine_full, timezone() FROM system.tables "
            f"WHERE {named(group, 'name')}"
        )
    }
    columns = _columns(client, facts)
    kinds = {in_keeper(f.engine) for f in facts.values()}
    settings = {kind: _server_settings(client, replicated=kind) for kind in sorted(kinds)}
    return {
        at: _described(at, fact, details[at], columns[at], settings[in_keeper(fact.engine)])
        for at, fact in facts.items()
        if at in details and at in columns
    }


def in_keeper(engine: str) -> bool:
    """Whether ``system.replicas`` knows the table.  A Shared one is :attr:`TargetTable.replicated`, and not there."""
    return engine.startswith("Replicated")


def read_columns(client: Queries, database: str, name: str) -> tuple[Column, ...]:
    """The columns in their order, none where there is no such table."""
    at = TableName(database, name)
    return _columns(client, [at]).get(at, ())


def read_settings(client: Queries, tables: Iterable[TargetTable]) -> dict[TableName, dict[str, str]]:
    """What ``merge_tree`` would be now, of each table that is there."""
    kept = {table.at: in_keeper(table.engine) for table in tables}
    defaults = {kind: _server_settings(client, replicated=kind) for kind in sorted({*kept.values()})}
    rows = [
        (TableName(database, name), engine_full)
        for group in in_groups(kept)
        for database, name, engine_full in client.query(
            f"SELECT database, name, engine_full FROM system.tables WHERE {named(group, 'name')}"
        )
    ]
    return {at: _effective_settings(defaults[kept[at]], engine_full) for at, engine_full in rows if at in kept}


def remembering_least(table: TargetTable, settings: Mapping[TableName, Mapping[str, str]]) -> TargetTable:
    """The table, and those that it feeds, as they are remembered where another replica has these settings: each replica
    removes tokens of all.  One that does not deduplicate at all is refused elsewhere (CHS-210).
    """
    feeds = tuple(remembering_least(each, settings) for each in table.feeds)
    theirs = settings.get(table.at, {})
    bounds = {s: int(theirs[s]) for s in WINDOW} if int(theirs.get(WINDOW[0], 0)) else {}
    return replace(lowered(table, bounds), feeds=feeds)


def lowered(table: TargetTable, bounds: Mapping[str, int]) -> TargetTable:
    """The table with settings that are no larger than these."""
    least = {s: str(min(int(table.merge_tree[s]), most)) for s, most in bounds.items()}
    return replace(table, merge_tree={**table.merge_tree, **least})


def _columns(client: Queries, names: Collection[TableName]) -> dict[TableName, tuple[Column, ...]]:
    found: dict[TableName, tuple[Column, ...]] = {}
    for group in in_groups(names):
        for database, name, *column in client.query(
            "SELECT database, table, name, type, default_kind, default_expression FROM system.columns "
            f"WHERE {named(group, 'table')} ORDER BY database, table, position"
        ):
            at = TableName(database, name)
            found[at] = (*found.get(at, ()), Column(*column))
    return found


def _described(
    at: TableName,
    fact: TableFacts,
    details: Sequence[Any],
    columns: tuple[Column, ...],
    settings: Mapping[str, str],
) -> TargetTable:
    partition_key, ddl, engine_full, timezone = details
    return TargetTable(
        at.database,
        at.table,
        fact.identity,
        fact.engine,
        columns,
        partition_key,
        ttl_of(ddl, engine_full),
        _effective_settings(settings, engine_full),
        timezone,
        fact.definition,
        has_projections(ddl),
    )


def computed_in(
    expression: str, columns: Sequence[Column], filled: Collection[str] = METADATA_COLUMNS
) -> tuple[Column, ...]:
    """Columns with defaults that an expression names, also through others' defaults; without those ``filled``."""
    found, open_ = dict[str, Column](), [expression]
    while open_:
        text = open_.pop()
        named = (c for c in columns if c.default_expression and names_column(text, c.name))
        new = {c.name: c for c in named if c.name not in {*found, *filled}}
        open_ += [c.default_expression for c in new.values()]
        found |= new
    return tuple(found.values())


WINDOW: Final = ("replicated_deduplication_window", "replicated_deduplication_window_seconds")
NOT_REPLICATED: Final = "non_replicated_deduplication_window"
SETTINGS: Final = ("async_insert", NOT_REPLICATED, *WINDOW)
_ENTRIES = "entries of a block"


def _server_settings(client: Queries, *, replicated: bool) -> dict[str, str]:
    """The server's MergeTree defaults; and how many entries the token log of a plain table has for each block."""
    source = "replicated_merge_tree_settings" if replicated else "merge_tree_settings"
    names = ", ".join(f"'{s}'" for s in SETTINGS)
    entries = f"SELECT '{_ENTRIES}', if({VERSION} BETWEEN 2602 AND 2606, '2', '1')"
    rows = client.query(f"SELECT name, value FROM system.{source} WHERE name IN ({names}) UNION ALL {entries}")
    return {str(name): str(value) for name, value in rows}


def _effective_settings(settings: Mapping[str, str], engine_full: str) -> dict[str, str]:
    """The defaults, overridden by the table's own settings.  A plain table's window holds entries of its token log."""
    found = {s: settings.get(s, "0") for s in SETTINGS} | own_settings(engine_full, SETTINGS)
    return found | {NOT_REPLICATED: str(int(found[NOT_REPLICATED]) // int(settings.get(_ENTRIES, 1)))}
