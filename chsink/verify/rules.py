"""What can be judged despite a table's engine and TTL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chsink.batch.halts import asking_target
from chsink.clickhouse.mutations import mutations
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import THE_TABLE
from chsink.errors import preflight
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import IN_BACKTICKS, IN_QUOTES

KEEPS_ROWS = "MergeTree"
KEEPS_NEWEST = "ReplacingMergeTree"
_TTL = re.compile(r"\bTTL\b")
_QUOTED = re.compile(f"{IN_QUOTES}|{IN_BACKTICKS}")


@dataclass(frozen=True, slots=True)
class Rules:
    """``rows_stay``: a row that was inserted is there, so that a missing one is a defect.  ``cells_stay``: its values
    are what was inserted.  ``by_offset``: its record is known.  ``replicated``: a replica may lag behind.
    """

    rows_stay: bool
    cells_stay: bool
    by_offset: bool
    notes: tuple[str, ...] = ()


def rules_of(target: RoutedTable) -> Rules:
    """PreflightError CHS-290 for an engine that combines rows: nothing can be said about its rows."""
    engines = {shard.table.engine.removeprefix("Replicated").removeprefix("Shared") for shard in target.shards}
    other = sorted(engines - {KEEPS_ROWS, KEEPS_NEWEST})
    if other:
        raise preflight.VERIFY_ENGINE(table=target.name, engine=other[0])
    with asking_target():
        definitions = [_definition(shard) for shard in target.shards]
    columns = [_TTL.search(ddl.replace(engine, "")) is not None for ddl, engine in definitions]
    groups = [_TTL.search(engine) is not None and "GROUP BY" in engine for _, engine in definitions]
    expires = any(_TTL.search(engine) for _, engine in definitions)
    replaces = KEEPS_NEWEST in engines
    return Rules(
        rows_stay=not (replaces or expires),
        cells_stay=not (any(columns) or any(groups)),
        by_offset=all({c.name for c in s.table.insertable}.issuperset(PROBE_COLUMNS) for s in target.shards),
        notes=tuple(_notes(target.name, replaces=replaces, expires=expires, columns=any(columns) or any(groups))),
    )


def removals(target: RoutedTable) -> int:
    """How many mutations of the table removed or changed rows, on all shards."""
    with asking_target():
        listed = [mutations(s.client, s.table) for s in target.shards]
    return sum(one.deletes + one.updates for one in listed)


def _definition(shard: ShardTable) -> tuple[str, str]:
    """The statement that made the table, and its part from the engine on; both without names and texts in quotes."""
    sql = f"SELECT create_table_query, engine_full {THE_TABLE}"
    [(ddl, engine)] = shard.client.query(sql, {"database": shard.table.database, "name": shard.table.name})
    return _QUOTED.sub("", str(ddl)), _QUOTED.sub("", str(engine))


def _notes(table: str, *, replaces: bool, expires: bool, columns: bool) -> Iterator[str]:
    if replaces:
        yield f"{table} keeps only the newest row of each key, so records without a row are listed as unproven"
    if expires:
        yield f"{table} has a TTL that removes rows, so records without a row are listed as unproven"
    if columns:
        yield f"{table} has a TTL that changes values, so rows that differ are listed as unproven"
