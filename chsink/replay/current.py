"""Does the replica that answers hold all replay marks?  On one that lags, replayed dead letters would look open."""

from __future__ import annotations

from typing import Final

from chsink.clickhouse.replicas import is_current
from chsink.clickhouse.shards import ShardTable
from chsink.errors import services
from chsink.ports import Clock

PATIENCE_S: Final = 60
PAUSE_S: Final = 0.5


def wait_until_current(kept: ShardTable, clock: Clock) -> None:
    """Wait until a Replicated table has everything that any replica inserted before this call.  UnavailableError
    CHS-736 if that takes too long.  Other tables do not lag, or a setting makes them return their newest data.
    """
    give_up = clock.now_ms() + PATIENCE_S * 1000
    while not is_current(kept):
        if clock.now_ms() >= give_up:
            raise services.REPLICA_BEHIND(url=kept.url, table=kept.table.canonical, seconds=PATIENCE_S)
        clock.sleep(PAUSE_S)
