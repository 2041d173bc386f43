"""The statements that deleted or updated rows of a table.

Rules:
- ClickHouse lists its latest mutations, at least the last 100 that have finished.  A lightweight delete is one, too.
- A plain MergeTree numbers its mutations and its blocks by one counter, and a mutation changes only blocks with lower
  numbers.
- A DELETE that has not finished removes rows that can still be read.
- A DELETE that was stopped with ``KILL MUTATION`` is no longer listed, and what it removed by then stays removed.
- Lightweight deletes by patch parts are not listed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from chsink.clickhouse.table import TargetTable
from chsink.errors import services
from chsink.ports import Queries

_DELETES: Final = "match(command, '(?i)^[( ]*DELETE|_row_exists')"
_UPDATES: Final = f"match(command, '(?i)^[( ]*UPDATE') AND NOT {_DELETES}"
_OF_TABLE: Final = "FROM system.mutations WHERE database = {database:String} AND table = {name:String}"
ANY: Final = -1
"""Before all blocks."""


class Mutations(NamedTuple):
    """How many are listed."""

    deletes: int
    updates: int


def mutations(client: Queries, table: TargetTable) -> Mutations:
    """Those of the table on one server."""
    sql = f"SELECT countIf({_DELETES}), countIf({_UPDATES}) {_OF_TABLE}"
    [row] = client.query(sql, {"database": table.database, "name": table.name})
    return Mutations(*map(int, row))


def deleting(client: Queries, table: TargetTable, after: int) -> int:
    """How many DELETE statements have not finished that may remove rows of blocks after this one."""
    running = f"{_DELETES} AND NOT is_done AND arrayMax(block_numbers.number) > {{after:Int64}}"
    sql = f"SELECT count() {_OF_TABLE} AND {running}"
    [(found,)] = client.query(sql, {"database": table.database, "name": table.name, "after": after})
    return int(found)


def check_none_deleting(client: Queries, table: TargetTable) -> None:
    """UnavailableError CHS-710 if rows that can be read now may be gone in a moment."""
    if running := deleting(client, table, ANY):
        raise services.STILL_DELETING(url=client.url, table=table.canonical, deletes=running)
