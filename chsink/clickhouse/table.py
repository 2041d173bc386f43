"""A target table as the server describes it: what an insert must fit, and how the table deduplicates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from chsink.decode.columns import Column
from chsink.errors import preflight
from chsink.notation.metadata_columns import METADATA_COLUMNS, PROBE_COLUMNS
from chsink.notation.sql import TableName, quote_string
from chsink.ports import Queries

_WITHOUT_REPLICA = "replaceRegexpOne(ddl, 'ENGINE = Replicated[A-Za-z]*[(]''[^'']*'', ''[^'']*''', '')"
_DESCRIBED = f"""
SELECT t.database AS database, t.name AS name, t.engine AS engine, t.partition_key AS partition_key,
    t.create_table_query AS ddl, if(startsWith(engine, 'Replicated'), r.path, toString(t.uuid)) AS identity,
    hex(sipHash128(identity, engine, {_WITHOUT_REPLICA})) AS digest
FROM (
    SELECT database, name, uuid, engine, partition_key, create_table_query FROM system.tables WHERE {{tables}}
) AS t
LEFT JOIN (
    SELECT database, table, any(zookeeper_path) AS path FROM system.replicas WHERE {{parts}} GROUP BY database, table
) AS r ON r.database = t.database AND r.table = t.name"""
"""The replicas of one table share its Keeper path; their UUIDs differ when each was created by itself."""
AT_ONCE: Final = 150
"""A statement names at most so many tables: with the longest names it stays below the default ``max_query_size``."""
THE_TABLE = "FROM system.tables WHERE database = {database:String} AND name = {name:String}"


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table on one endpoint.

    ``identity`` differs for a table of the same name that was dropped and recreated.  ``merge_tree`` holds the
    effective MergeTree settings that matter here, ``definition`` is a digest of the whole.  All are the same on every
    replica.
    """

    database: str
    name: str
    identity: str
    engine: str
    columns: tuple[Column, ...]
    partition_key: str
    ttl: bool
    merge_tree: Mapping[str, str]
    timezone: str
    definition: str = ""

    @property
    def at(self) -> TableName:
        """Its name on this endpoint, whose database may be the endpoint's own."""
        return TableName(self.database, self.name)

    @property
    def canonical(self) -> str:
        """The same, as text."""
        return self.at.canonical

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
        name = "replicated_deduplication_window" if self.replicated else "non_replicated_deduplication_window"
        return int(self.merge_tree[name])

    @property
    def window_s(self) -> int | None:
        """For how long a block is remembered, None when the table has no limit by time."""
        return int(self.merge_tree["replicated_deduplication_window_seconds"]) if self.replicated else None

    @property
    def can_probe(self) -> bool:
        """Whether rows can be found again by topic, partition and offset."""
        names = {c.name for c in self.insertable}
        return self.engine == "MergeTree" and names.issuperset(PROBE_COLUMNS) and not self.ttl


def read_table(client: Queries, database: str, name: str) -> TargetTable:
    """Read the table from the server's system tables.  PreflightError when it is not there."""
    at = TableName(database, name)
    rows = client.query(f"SELECT identity, engine, partition_key, ddl, timezone(), digest FROM ({described([at])})")
    if not rows:
        raise preflight.NO_TABLE(table=at.canonical, url=client.url)
    identity, engine, partition_key, ddl, timezone, digest = rows[0]
    settings = _effective_settings(client, ddl, engine)
    return TargetTable(
        database,
        name,
        identity,
        engine,
        read_columns(client, database, name),
        partition_key,
        bool(re.search(r"\bTTL\b", ddl.split("SETTINGS")[0])),
        settings,
        timezone,
        digest,
    )


def read_columns(client: Queries, database: str, name: str) -> tuple[Column, ...]:
    """The columns in their order, none where there is no such table."""
    rows = client.query(
        "SELECT name, type, default_kind, default_expression FROM system.columns "
        "WHERE database = {database:String} AND table = {name:String} ORDER BY position",
        {"database": database, "name": name},
    )
    return tuple(Column(*row) for row in rows)


def read_settings(client: Queries, table: TargetTable) -> dict[str, str]:
    """What ``table.merge_tree`` would be now; of a table that is gone, the server's defaults."""
    rows = client.query(f"SELECT create_table_query {THE_TABLE}", {"database": table.database, "name": table.name})
    return _effective_settings(client, str(rows[0][0]) if rows else "", table.engine)


def definitions(client: Queries, names: Collection[TableName]) -> dict[TableName, str]:
    """A digest of what each table is: its identity and all of its CREATE statement.  None of a table that is gone."""
    found: dict[TableName, str] = {}
    for group in in_groups(names):
        rows = client.query(f"SELECT database, name, digest FROM ({described(group)})")
        found |= {TableName(database, name): str(digest) for database, name, digest in rows}
    return found


def described(names: Collection[TableName]) -> str:
    """A SELECT of what these tables are; others of their databases may be among them."""
    return _DESCRIBED.format(tables=named(names, "name"), parts=named(names, "table"))


def named(names: Collection[TableName], column: str) -> str:
    """The condition under which a row of a system table is of one of these tables, or of another of their databases."""
    databases, tables = {n.database for n in names}, {n.table for n in names}
    return f"database IN ({_listed(databases)}) AND {column} IN ({_listed(tables)})"


def in_groups(names: Collection[TableName]) -> Iterator[list[TableName]]:
    """As many as one statement may name, in turn."""
    ordered = list(names)
    return (ordered[at : at + AT_ONCE] for at in range(0, len(ordered), AT_ONCE))


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(map(quote_string, sorted(texts)))


SETTINGS = (
    "non_replicated_deduplication_window",
    "replicated_deduplication_window",
    "replicated_deduplication_window_seconds",
)


def _effective_settings(client: Queries, ddl: str, engine: str) -> dict[str, str]:
    """The server's MergeTree defaults, overridden by the table's own SETTINGS."""
    source = "replicated_merge_tree_settings" if engine.startswith("Replicated") else "merge_tree_settings"
    names = ", ".join(f"'{s}'" for s in SETTINGS)
    settings = {
        str(k): str(v) for k, v in client.query(f"SELECT name, value FROM system.{source} WHERE name IN ({names})")
    }
    own = ddl.rsplit("SETTINGS", 1)[1] if "SETTINGS" in ddl else ""
    for setting in SETTINGS:
        found = re.search(rf"\b{setting}\s*=\s*'?(\d+)", own)
        if found:
            settings[setting] = found[1]
    return {s: settings.get(s, "0") for s in SETTINGS}
