"""A target table as the server describes it: what an insert must fit, and how the table deduplicates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chsink.decode.columns import Column
from chsink.errors import preflight
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import TableName
from chsink.ports import Queries

IDENTITY = (
    "if(startsWith(engine, 'Replicated'), (SELECT any(zookeeper_path) FROM system.replicas "
    "WHERE database = {database:String} AND table = {name:String}), toString(uuid))"
)
"""The replicas of one table share its Keeper path; their UUIDs differ when each was created by itself."""
_WITHOUT_REPLICA = "replaceRegexpOne(create_table_query, 'ENGINE = Replicated[A-Za-z]*[(]''[^'']*'', ''[^'']*''', '')"
DIGEST = f"hex(sipHash128({IDENTITY}, engine, {_WITHOUT_REPLICA}))"
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
    def canonical(self) -> str:
        """Its one name on this endpoint, whose database may be the endpoint's own."""
        return TableName(self.database, self.name).canonical

    @property
    def insertable(self) -> tuple[Column, ...]:
        """Columns that an INSERT may name."""
        return tuple(c for c in self.columns if c.insertable)

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
    rows = client.query(
        f"SELECT {IDENTITY}, engine, partition_key, create_table_query, timezone(), {DIGEST} {THE_TABLE}",
        {"database": database, "name": name},
    )
    if not rows:
        raise preflight.NO_TABLE(table=TableName(database, name).canonical, url=client.url)
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


def definition(client: Queries, database: str, name: str) -> str:
    """A digest of what the table is: its identity and all of its CREATE statement.  "" when it is gone."""
    rows = client.query(f"SELECT {DIGEST} {THE_TABLE}", {"database": database, "name": name})
    return str(rows[0][0]) if rows else ""


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
