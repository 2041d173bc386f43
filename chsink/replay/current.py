"""Does the replica that answers hold all marks?  One that lags would show dead letters as open that have a row."""

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
    """Until a Replicated table has all that any replica inserted before the call.  UnavailableError CHS-736 if it does
    not come that far.  Other tables have no such lag, or are asked for their newest data by a setting.
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
