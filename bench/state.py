"""What the state costs a batch: BEFORE and AFTER with their read-backs, by number of partitions.

It measures the steady state, with the job's ledger, on both durable stores.  Per batch, it counts the statements to
ClickHouse (KeeperMap only) and, by the Keeper's own count, the requests that the Keeper gets from all clients.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measured import Place
from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.clock import SystemClock
from chsink.driver.ledger import Ledger
from chsink.notation.sql import TableName
from chsink.ports import StateStore
from chsink.state.keepermap import KeeperMapStore
from chsink.state.zookeeper import ZooKeeperStore
from chsink.state.zookeeper_access import ZooKeeperAccess
from chsink.statemachine import writes
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

PARTITIONS = (1, 4, 64, 512, 2000)
GOALS_MS: Mapping[int, int] = {4: 150, 512: 600}
BATCHES = 9
BATCH_OFFSETS = 1000


class CountedClient(ClickHouseClient):
    """Counts the statements it sends."""

    sent = 0

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """As in the base."""
        self.sent += 1
        return super().query(sql, parameters)

    def command(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        """As in the base."""
        self.sent += 1
        super().command(sql, settings)


def measure(place: Place) -> dict[str, Any]:
    """Milliseconds and requests a batch, by store and number of partitions."""
    counted = CountedClient(Connection((place.url,)))
    keepermap = KeeperMapStore(counted, TableName("default", "bench_state"), path="/bench/state")
    keepermap.prepare()
    zookeeper = ZooKeeperStore(ZooKeeperAccess(place.stack.zookeeper.hosts), root="/bench/zk")
    rows: list[dict[str, Any]] = []
    stores: Sequence[StateStore] = (keepermap, zookeeper)
    for store in stores:
        for partitions in PARTITIONS:
            before, after, sent, requests = _steady(place, store, partitions, counted)
            row = {"store": store.name, "partitions": partitions, "before_ms": before, "after_ms": after,
                   "batch_ms": before + after, "statements": sent, "keeper_requests": requests}  # fmt: skip
            rows.append(row)
            place.say(f"state: {store.name}, {partitions} partitions, {before + after:.0f} ms a batch")
    zookeeper.close()
    counted.close()
    goals = [
        {"store": r["store"], "partitions": r["partitions"], "batch_ms": limit, "met": r["batch_ms"] < limit}
        for r in rows
        if (limit := GOALS_MS.get(r["partitions"])) is not None
    ]
    return {"rows": rows, "goals": goals}


def _steady(
    place: Place, store: StateStore, partitions: int, counted: CountedClient
) -> tuple[float, float, float, float]:
    """Medians of BEFORE and AFTER in ms, and of statements and Keeper requests, after a batch that is not counted."""
    ledger = Ledger(store, f"bench-{uuid.uuid4().hex[:6]}", "bench", SystemClock(), lambda: uuid.uuid4().hex)
    keys = [StateKey(ledger.sink, "topic", p, "default.table") for p in range(partitions)]
    ledger.claim(keys, {"0123456789abcdef": "{}"})
    befores, afters, statements, requests = [], [], [], []
    for number in range(BATCHES + 1):
        requested = place.keeper_requests()
        counted.sent, began = 0, time.perf_counter()
        _announce(ledger, keys, number)
        between = time.perf_counter()
        attempt = ledger.attempt()
        ledger.write({k: writes.after(ledger.records[k], epoch=ledger.epoch, attempt=attempt) for k in keys})
        if number:
            befores.append(between - began)
            afters.append(time.perf_counter() - between)
            statements.append(counted.sent)
            requests.append(place.keeper_requests() - requested)
    ms = statistics.median(befores) * 1000, statistics.median(afters) * 1000
    return *ms, statistics.median(statements), statistics.median(requests)


def _announce(ledger: Ledger, keys: Sequence[StateKey], number: int) -> None:
    planned = OffsetRange(number * BATCH_OFFSETS, (number + 1) * BATCH_OFFSETS)
    now = int(time.time() * 1000)
    said = writes.Announcement(
        "kPzZ4Yk8Q0uS3vO1xw2bRA",
        Sending(100_000, "0123456789abcdef", "fedcba9876543210"),
        Seen(now, (Mark(number, now // 1000),)),
    )
    attempt, epoch = ledger.attempt(), ledger.epoch
    ledger.write(
        {
            k: writes.before(ledger.records[k], planned, said, epoch=epoch, attempt=attempt, fresh=not number)
            for k in keys
        }
    )


def lines(figures: Mapping[str, Any]) -> list[str]:
    """A table for people."""
    out = ["state: medians of steady batches, in ms"]
    heads = ("partitions", "BEFORE", "AFTER", "a batch", "statements", "to Keeper")
    out.append(f"{'store':<10}" + "".join(f"{head:>11}" for head in heads))
    out += [
        f"{r['store']:<10}{r['partitions']:>11}{r['before_ms']:>11.1f}{r['after_ms']:>11.1f}{r['batch_ms']:>11.1f}"
        f"{r['statements']:>11.0f}{r['keeper_requests']:>11.0f}"
        for r in figures["rows"]
    ]
    for g in figures["goals"]:
        met = "met" if g["met"] else "MISSED"
        out.append(f"goal {g['store']} < {g['batch_ms']} ms at {g['partitions']} partitions: {met}")
    return out
