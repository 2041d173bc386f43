"""What can be judged despite a table's engine and TTL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chsink.clickhouse.mutations import mutations
from chsink.clickhouse.shards import RoutedTable
from chsink.errors import preflight
from chsink.refusals import asking_target

KEEPS_ROWS = "MergeTree"
KEEPS_NEWEST = "ReplacingMergeTree"


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
    ttls = [shard.table.ttl for shard in target.shards]
    expires, columns = any(t.removes_rows for t in ttls), any(t.changes_cells for t in ttls)
    replaces = KEEPS_NEWEST in engines
    return Rules(
        rows_stay=not (replaces or expires),
        cells_stay=not columns,
        by_offset=all(s.table.takes_places for s in target.shards),
        notes=tuple(_notes(target.name, replaces=replaces, expires=expires, columns=columns)),
    )


def removals(target: RoutedTable) -> int:
    """How many mutations of the table removed or changed rows, on all shards."""
    with asking_target():
        listed = [mutations(s.client, s.table) for s in target.shards]
    return sum(one.deletes + one.updates for one in listed)


def _notes(table: str, *, replaces: bool, expires: bool, columns: bool) -> Iterator[str]:
    if replaces:
        yield f"{table} keeps only the newest row of each key, so records without a row are listed as unproven"
    if expires:
        yield f"{table} has a TTL that removes rows, so records without a row are listed as unproven"
    if columns:
        yield f"{table} has a TTL that changes values, so rows that differ are listed as unproven"
