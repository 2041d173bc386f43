"""The statements that deleted or updated rows of a table.

A table remembers the deduplication token of rows that a person deleted.  If it is sent such a piece again, it drops it
as a duplicate and answers with success.

Rules:
- ClickHouse lists its latest mutations, at least the last 100 that have finished.  A lightweight delete is one, too.
- A plain MergeTree numbers its mutations and its blocks by one counter, and a mutation changes only blocks with lower
  numbers.
- A DELETE that was stopped with ``KILL MUTATION`` is no longer listed, and what it removed by then stays removed.  A
  part that a mutation rewrote has the mutation's number as its data version, also after merges.
- Lightweight deletes by patch parts are not listed.  The patch is a part.  Parts that it was applied to have its number
  as their data version.
- A DELETE that has not finished removes rows that can still be read.
- ``MOVE PARTITION`` leaves empty parts.  Once ClickHouse removes them, it forgets their tokens.
- ``REPLACE PARTITION`` leaves no trace.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from chsink.clickhouse.table import TargetTable
from chsink.ports import Queries

_DELETES: Final = "match(command, '(?i)^[( ]*DELETE|_row_exists')"
_THE_TABLE: Final = "database = {database:String} AND table = {name:String}"
_LISTED: Final = (
    f"SELECT countIf({_DELETES}), countIf(match(command, '(?i)^[( ]*UPDATE') AND NOT {_DELETES}), "
    f"countIf({_DELETES} AND NOT is_done) FROM system.mutations WHERE {_THE_TABLE}"
)
_LATER: Final = (
    f"system.mutations WHERE {_THE_TABLE} AND {_DELETES} AND arrayMax(block_numbers.number) > {{beyond:Int64}}"
)
_REWRITTEN: Final = (
    f"system.parts WHERE {_THE_TABLE} AND active AND max_block_number > {{beyond:Int64}} AND (rows = 0 "
    "OR startsWith(partition_id, 'patch-') OR (data_version > min_block_number AND data_version > {beyond:Int64}))"
)
_REMOVED: Final = f"SELECT (SELECT count() FROM {_LATER}) + (SELECT count() FROM {_REWRITTEN})"


class Mutations(NamedTuple):
    """How many are listed.  ``deleting`` of the ``deletes`` have not finished."""

    deletes: int
    updates: int
    deleting: int


def mutations(client: Queries, table: TargetTable) -> Mutations:
    """Those of the table on one server."""
    [row] = client.query(_LISTED, {"database": table.database, "name": table.name})
    return Mutations(*map(int, row))


def may_lack_rows_after(client: Queries, table: TargetTable, block: int) -> bool:
    """Whether rows of later blocks of a plain MergeTree may have been deleted.  True after an update of such rows, too:
    a part does not tell what rewrote it.
    """
    [(found,)] = client.query(_REMOVED, {"database": table.database, "name": table.name, "beyond": block})
    return int(found) > 0
