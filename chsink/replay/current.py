"""Does the replica that answers hold all replay marks?  On one that lags, replayed dead letters would look open."""

from __future__ import annotations

from typing import Final

from chsink.clickhouse.shards import ShardTable
from chsink.errors import services
from chsink.ports import Clock

PATIENCE_S: Final = 60
PAUSE_S: Final = 0.5
_BEHIND = (
    "SELECT toUInt64(greatest(log_max_index + 1 - log_pointer, 0) + inserts_in_queue + is_session_expired) "
    "FROM system.replicas WHERE database = {database:String} AND table = {name:String}"
)


def wait_until_current(kept: ShardTable, clock: Clock) -> None:
    """Wait until a Replicated table has everything that any replica inserted before this call.  UnavailableError
    CHS-736 if that takes too long.  Other tables do not lag, or a setting makes them return their newest data.
    """
    if not kept.table.engine.startswith("Replicated"):
        return
    give_up = clock.now_ms() + PATIENCE_S * 1000
    while True:
        rows = kept.client.query(_BEHIND, {"database": kept.table.database, "name": kept.table.name})
        if rows and not rows[0][0]:
            return
        if clock.now_ms() >= give_up:
            raise services.REPLICA_BEHIND(url=kept.url, table=kept.table.canonical, seconds=PATIENCE_S)
        clock.sleep(PAUSE_S)
