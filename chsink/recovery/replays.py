"""A reset beside a replay of dead letters.

A replay lands only records below the end of what the job confirmed; a reset lets the job land these again.  So neither
may happen in the middle of the other:

- A reset claims the name of the sink's replays: a running replay can then announce nothing more.  If it left a list in
  doubt, the reset is refused until that is settled.
- The reset claims the sink, and notes there that it resets.  Only then does it make sure that it still owns the name of
  the replays.  A replay that claims the name later sees the reset: it looks at the sink after it has announced its dead
  letters and before it sends them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import new_ledger
from chsink.dlq.place import replay_sink
from chsink.dlq.replays import replays_in_doubt
from chsink.driver.ledger import Ledger
from chsink.driver_name import driver_name
from chsink.errors import halts
from chsink.errors.several import raise_all
from chsink.ports import StateStore
from chsink.statemachine.records import StateKey, StateRecord


def check_settled(store: StateStore, sink: str, keys: Collection[StateKey]) -> None:
    """PreflightError CHS-338 where a replay of these partitions and tables is in doubt."""
    _check(replays_in_doubt(store, sink), keys)


def stop_replays(clickhouse: Cluster, store: StateStore, keys: Collection[StateKey]) -> Ledger:
    """Own the name of the sink's replays, of which none is in doubt about these.  PreflightError CHS-338 otherwise."""
    name, sink = f"`chsink state reset` on {driver_name()}", replay_sink(clickhouse.config.sink.name)
    ledger = new_ledger(clickhouse, store, name, sink)
    ledger.claim([], clickhouse.layouts)
    _check(ledger.records, keys)
    return ledger


def _check(recorded: Mapping[StateKey, StateRecord], keys: Collection[StateKey]) -> None:
    of_replays = {replace(key, sink=replay_sink(key.sink)) for key in keys}
    raise_all(
        [
            halts.REPLAY_UNSETTLED(tp=key.topic_partition, letters=len(record.doubt.only), table=key.table)
            for key, record in sorted(recorded.items())
            if record.in_doubt and key in of_replays
        ]
    )
