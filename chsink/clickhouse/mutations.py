"""The statements that deleted or updated rows of a table.

Rules:
- ClickHouse lists its latest mutations, at least the last 100 that have finished.  A lightweight delete is one, too.
- A plain MergeTree numbers its mutations and its blocks by one counter, and a mutation changes only blocks with lower
  numbers.
- A DELETE that has not finished removes rows that can still be read.
- A DELETE that was stopped with ``KILL MUTATION`` is no longer listed, and what it removed by then stays removed.  On a
  Replicated table, a replica takes over parts that another one rewrote by then: until its queue has none, it still
  shows their old rows.
- A DELETE that failed is tried again for ever.
- Lightweight deletes by patch parts are not listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from chsink.clickhouse.table import TargetTable
from chsink.errors import ChsinkError, services, without_values
from chsink.notation.sql import quote_string
from chsink.ports import Queries

_DELETES: Final = "match(command, '(?i)^[( ]*DELETE|_row_exists')"
_UPDATES: Final = f"match(command, '(?i)^[( ]*UPDATE') AND NOT {_DELETES}"
_OF_TABLE: Final = "FROM system.mutations WHERE database = {database:String} AND table = {name:String}"
ANY: Final = -1
"""Before all blocks."""


_PENDING: Final = (
    f"SELECT mutation_id, latest_fail_reason {_OF_TABLE} AND {_DELETES} AND NOT is_done "
    "AND arrayMax(block_numbers.number) > {after:Int64} "
    "UNION ALL SELECT '', '' FROM system.replicas WHERE database = {database:String} AND table = {name:String} "
    f"AND part_mutations_in_queue > 0 AND (SELECT count() {_OF_TABLE} AND NOT is_done) = 0"
)
REASON: Final = 300
"""How many characters of a reason are shown."""


class Deleting(NamedTuple):
    """A DELETE that has not finished, and why its last try failed, if it did.  Without a ``mutation``, what is left of
    some that were stopped.
    """

    mutation: str
    reason: str


class Mutations(NamedTuple):
    """How many are listed."""

    deletes: int
    updates: int


def mutations(client: Queries, table: TargetTable) -> Mutations:
    """Those of the table on one server."""
    sql = f"SELECT countIf({_DELETES}), countIf({_UPDATES}) {_OF_TABLE}"
    [row] = client.query(sql, {"database": table.database, "name": table.name})
    return Mutations(*map(int, row))


def deleting(client: Queries, table: TargetTable, after: int) -> list[Deleting]:
    """What may still remove rows of blocks after this one."""
    rows = client.query(_PENDING, {"database": table.database, "name": table.name, "after": after})
    return sorted(Deleting(str(mutation), str(reason)) for mutation, reason in rows)


def check_none_deleting(client: Queries, table: TargetTable) -> None:
    """UnavailableError CHS-710 if rows that can be read now may be gone in a moment."""
    if found := deleting(client, table, ANY):
        raise still_deleting(client.url, table, found)


def still_deleting(url: str, table: TargetTable, found: Sequence[Deleting]) -> ChsinkError:
    """What is there to be done about it: first about those that never end by themselves."""
    at, failing = {"url": url, "table": table.canonical}, [one for one in found if one.reason]
    if failing:
        ids = ", ".join(quote_string(one.mutation) for one in failing)
        of = f"database = {quote_string(table.database)} AND table = {quote_string(table.name)}"
        kill = f"KILL MUTATION WHERE {of} AND mutation_id IN ({ids})"
        reason = without_values(failing[0].reason)[:REASON]
        return services.DELETE_FAILS(**at, mutation=failing[0].mutation, reason=reason, kill=kill)
    running = [one.mutation for one in found if one.mutation]
    if running:
        return services.STILL_DELETING(**at, deletes=len(running), mutations=", ".join(running))
    return services.DELETE_NOT_TAKEN_OVER(**at)
