"""Does the replica that answers hold what the others took?  A row that it does not show may be late, not missing."""

from __future__ import annotations

from typing import Final

from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import in_keeper

_BEHIND: Final = (
    "SELECT toUInt64(greatest(log_max_index + 1 - log_pointer, 0) + inserts_in_queue + is_session_expired) "
    "FROM system.replicas WHERE database = {database:String} AND table = {name:String}"
)


def is_current(shard: ShardTable) -> bool:
    """Whether it has all that any replica inserted before the call.  Only Replicated tables have such a lag that a
    server shows.
    """
    if not in_keeper(shard.table.engine):
        return True
    rows = shard.client.query(_BEHIND, {"database": shard.table.database, "name": shard.table.name})
    return bool(rows) and not rows[0][0]
