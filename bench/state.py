"""What the state costs a batch: BEFORE and AFTER with their read-backs, by number of partitions."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from chsink.clickhouse.client import ClickHouseClient, Endpoint
from chsink.clickhouse.identifiers import TableName
from chsink.delivery.ledger import Ledger
from chsink.ports import Outcome, Row, StateStore, Swap
from chsink.spark.executor import SystemClock
from chsink.state.keepermap import KeeperMapStore
from chsink.state.zookeeper import ZooKeeperStore
from statemachine import writes
from statemachine.ranges import OffsetRange
from statemachine.records import StateKey


@dataclass(slots=True)
class Counted:
    """A store that counts its calls."""

    store: StateStore
    name: str = "counted"
    durable: bool = True
    calls: int = 0

    def load(self, sink: str) -> dict[str, Row]:
        self.calls += 1
        return self.store.load(sink)

    def create(self, rows: Sequence[Row]) -> Outcome:
        self.calls += 1
        return self.store.create(rows)

    def swap(self, swaps: Sequence[Swap]) -> Outcome:
        self.calls += 1
        return self.store.swap(swaps)

    def delete(self, keys: Sequence[str]) -> Outcome:
        return self.store.delete(keys)

    def close(self) -> None:
        self.store.close()


def measure(store: StateStore, partitions: int, batches: int = 7) -> tuple[float, float, float]:
    """(median BEFORE ms, median AFTER ms, store calls a batch)."""
    counted = Counted(store)
    ledger = Ledger(counted, f"bench-{uuid.uuid4().hex[:6]}", "bench", SystemClock(), lambda: uuid.uuid4().hex)
    keys = [StateKey(ledger.sink, "topic", p, "default.table") for p in range(partitions)]
    ledger.claim(keys, {"layout": "{}"})
    said = writes.Announcement("id", 100_000, "layout", "pipeline", 1, (1,))
    befores, afters = [], []
    counted.calls = 0
    for batch in range(batches):
        fresh, planned = batch == 0, OffsetRange(batch * 1000, batch * 1000 + 1000)
        began = time.perf_counter()
        attempt = ledger.attempt()
        ledger.write(
            {
                k: writes.before(ledger.records[k], planned, said, epoch=ledger.epoch, attempt=attempt, fresh=fresh)
                for k in keys
            }
        )
        between = time.perf_counter()
        attempt = ledger.attempt()
        ledger.write({k: writes.after(ledger.records[k], epoch=ledger.epoch, attempt=attempt) for k in keys})
        befores.append(between - began)
        afters.append(time.perf_counter() - between)
    return statistics.median(befores) * 1000, statistics.median(afters) * 1000, counted.calls / batches


def report(url: str, zookeeper: str) -> list[str]:
    """Lines of a table over both durable stores."""
    client = ClickHouseClient(Endpoint((url,)))
    keepermap = KeeperMapStore(client, TableName("default", "bench_state"), path="/bench/state")
    keepermap.prepare(create=True)
    stores: dict[str, StateStore] = {"keepermap": keepermap, "zookeeper": ZooKeeperStore(zookeeper, root="/bench/zk")}
    lines = [
        f"{'store':<10} {'partitions':>10} {'BEFORE ms':>10} {'AFTER ms':>10} {'batch ms':>10} {'calls/batch':>12}"
    ]
    for name, store in stores.items():
        for partitions in (1, 4, 64, 512, 2000):
            before, after, calls = measure(store, partitions)
            lines.append(
                f"{name:<10} {partitions:>10} {before:>10.1f} {after:>10.1f} {before + after:>10.1f} {calls:>12.1f}"
            )
    return lines
