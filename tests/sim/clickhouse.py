"""Simulated ClickHouse: tokens with a window by count and by time, blocks that arrive late, errors after data, restarts
that lose the last token, other writers.

The client side is production code (:class:`chsink.clickhouse.writer.ShardWriter`,
:class:`chsink.clickhouse.window.DedupWindow`); this is what answers it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from chsink.clickhouse.table import TargetTable
from chsink.decode.columns import Column
from chsink.ports import ServerRefused, Unanswered, Unreachable
from tests.sim.hub import Hub
from tests.sim.kafka import PARTITION, SERIAL, serial_of
from tests.sim.oracle import Oracle

OVERLOADED, VIEW_THREW = 241, 395
OTHERS, OTHERS_EVERY_S = 25, 31
REQUEST_TIMEOUT_S = 30
"""The client's deadline: a request arrives within it or never."""
SUSPENDED_MS = 2_000
"""The stated limit: between a task's last look (at the table, at the clock) and its send lies no port call, and it is not
suspended just there for longer than this.
"""
RESTART_MS = 3_000
"""No server is killed and back within this."""


@dataclass(frozen=True, slots=True)
class TableKind:
    """How a target table deduplicates."""

    replicated: bool
    window_blocks: int
    window_s: int
    can_probe: bool = True

    def describe(self, name: str) -> TargetTable:
        """What the server's system tables say of it."""
        columns = ("_kafka_topic", "_kafka_partition", "_kafka_offset") if self.can_probe else ("n",)
        settings = {
            "non_replicated_deduplication_window": str(self.window_blocks),
            "replicated_deduplication_window": str(self.window_blocks),
            "replicated_deduplication_window_seconds": str(self.window_s),
        }
        database, table = name.split(".")
        return TargetTable(
            database, table, "uuid", "ReplicatedMergeTree" if self.replicated else "MergeTree",
            tuple(Column(c, "String", "", "") for c in columns), "", False, settings, "UTC",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a token: when its block came, as which one, and its rows."""

    at: int
    block: int
    rows: frozenset[int]


@dataclass(slots=True)
class Table:
    """One table on one shard.  ``tokens`` are kept oldest first."""

    kind: TableKind
    tokens: OrderedDict[str, Kept] = field(default_factory=OrderedDict)
    offsets: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    blocks: int = 0


class Server:
    """One shard."""

    def __init__(
        self, hub: Hub, oracle: Oracle, number: int, kinds: Mapping[str, TableKind], topics: list[str]
    ) -> None:
        self.hub = hub
        self.oracle = oracle
        self.number = number
        self.topics = topics
        self.tables = {name: Table(kind) for name, kind in kinds.items()}
        self.started = hub.now - 10_000_000
        self.restarts = 0
        self.up_at = 0
        self.view_throws = False

    def add(self, table: str) -> None:
        """CREATE TABLE, like the others."""
        self.tables[table] = Table(next(iter(self.tables.values())).kind)

    def crash(self, downtime_ms: int) -> None:
        """SIGKILL and a start."""
        self.restarts += 1
        self.up_at = self.hub.now + RESTART_MS + downtime_ms
        self.started = self.up_at

    def empty(self) -> None:
        """Every row is removed.  Tokens are kept; what was under way went with its connection."""
        self.crash(0)
        for table in self.tables.values():
            table.offsets.clear()

    def others_write(self, table: str) -> None:
        """Other writers insert blocks until nothing older is remembered: a spell of them every now and then, each well
        below the part of the window that is kept free for what comes between a look and a send.
        """
        of = self.tables[table]
        blocks = of.kind.window_blocks // OTHERS
        of.blocks += blocks
        while of.tokens and next(iter(of.tokens.values())).block + of.kind.window_blocks < of.blocks:
            of.tokens.popitem(last=False)

    def store(self, name: str, uids: list[int], token: str, *, remember: bool = True) -> None:
        """One block arrives."""
        table = self.tables[name]
        self._forget(table)
        known = table.tokens.get(token)
        if known is not None:
            self.hub.counts["outcome insert deduplicated"] += 1
            self.oracle.deduplicated(known.rows, uids, token)
            return
        self.hub.counts["outcome insert applied"] += 1
        table.blocks += 1
        if remember:
            table.tokens[token] = Kept(self.hub.now, table.blocks, frozenset(uids))
        for uid in uids:
            at = (self.topics[serial_of(uid)], uid % SERIAL // PARTITION)
            table.offsets.setdefault(at, []).append(uid % PARTITION)
        self.oracle.inserted(name, self.topics[serial_of(uids[0])], uids, self.number)

    def _forget(self, table: Table) -> None:
        tokens, kind = table.tokens, table.kind
        while tokens and next(iter(tokens.values())).block + kind.window_blocks <= table.blocks:
            tokens.popitem(last=False)
        if kind.replicated:
            before = self.hub.now - kind.window_s * 1000
            while tokens and next(iter(tokens.values())).at < before:
                tokens.popitem(last=False)


class Client:
    """:class:`chsink.ports.SqlClient` of one process to one shard."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.hub = server.hub
        self.url = f"shard{server.number}"

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The questions that the sink asks while it runs."""
        self.hub.pause()
        self._reach()
        said = parameters or {}
        if "system.processes" in sql:
            return [(0,)]
        if "uptime()" in sql:
            blocks = self.server.tables[f"{said['database']}.{said['name']}"].blocks
            return [(blocks, self.server.started // 1000, "uuid")]
        if "sipHash128" in sql:
            return [("",)]
        if "dependencies_table" in sql:
            return [([],)]
        if "GROUP BY p" in sql:
            listed = sql.partition("_kafka_partition IN (")[2].partition(")")[0]
            partitions = {int(p) for p in listed.split(",")}
            return self._existing(_table_of(sql), said["topic"], partitions)
        self.hub.counts["outcome probed"] += 1
        offsets = self.server.tables[_table_of(sql)].offsets.get((said["topic"], said["partition"]), [])
        there = Counter(o for o in offsets if said["start"] <= o < said["end"])
        return list(there.items()) if "GROUP BY _kafka_offset" in sql else [(there.total(),)]

    def _existing(self, table: str, topic: str, partitions: Collection[int]) -> list[tuple[Any, ...]]:
        """(partition, rows, last offset) of the topic's rows in these partitions."""
        held = self.server.tables[table].offsets
        return [
            (p, len(rows), max(rows)) for (name, p), rows in held.items() if name == topic and p in partitions and rows
        ]

    def command(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        """Never used while a batch runs."""
        raise AssertionError(sql)

    def insert(self, sql: str, body: pa.Buffer, settings: Mapping[str, Any]) -> None:
        """One INSERT, and everything that can become of it."""
        hub, server = self.hub, self.server
        name, token = _table_of(sql), str(settings["insert_deduplication_token"])
        sent_at = hub.now
        hub.pause()
        self._reach()
        if hub.now - sent_at > SUSPENDED_MS:
            raise Unanswered("the request took too long")
        if hub.fault("insert refused", 0.01):
            raise ServerRefused(OVERLOADED, "memory limit")
        if hub.fault("insert request lost", 0.01):
            hub.sleep(REQUEST_TIMEOUT_S)
            raise Unanswered("timeout")
        uids = _rows(body)
        if hub.fault("insert arrives late", 0.01):
            delay = int(hub.chance.random() * REQUEST_TIMEOUT_S * 1000)
            restarts = server.restarts
            hub.after(delay, lambda: self._arrive(name, uids, token, sent_at, restarts))
            raise Unanswered("connection reset")
        if hub.fault("server killed with an insert", 0.004):
            self._killed_with(name, uids, token)
        if server.view_throws:
            server.store(name, uids, token)
            hub.pause()
            raise ServerRefused(VIEW_THREW, "while pushing to view")
        server.store(name, uids, token)
        hub.pause()
        if hub.fault("insert answer lost", 0.02):
            raise Unanswered("connection reset")
        if hub.fault("insert error after data", 0.01):
            raise ServerRefused(OVERLOADED, "while writing")

    def close(self) -> None:
        """Nothing to release."""

    def _arrive(self, name: str, uids: list[int], token: str, sent_at: int, restarts: int) -> None:
        """What was under way to a server that died went with its connection, and nothing is under way for ever."""
        if self.server.restarts == restarts and self.hub.now - sent_at <= REQUEST_TIMEOUT_S * 1000:
            self.server.store(name, uids, token)

    def _killed_with(self, name: str, uids: list[int], token: str) -> None:
        """The server dies with the block.  Of a plain MergeTree the part may be kept and its token lost."""
        server, random = self.server, self.hub.chance
        kept = random.random() < 0.5
        if kept:
            server.store(name, uids, token, remember=server.tables[name].kind.replicated)
        server.crash(1 + int(random.random() * 20_000))
        raise Unanswered("connection reset")

    def _reach(self) -> None:
        if self.hub.now < self.server.up_at:
            self.hub.counts["outcome insert unreachable"] += 1
            raise Unreachable("connection refused")


def _table_of(sql: str) -> str:
    """The table of ``INSERT INTO `db`.`t` …`` or ``… FROM `db`.`t` …``."""
    words = sql.replace("`", "").split()
    return words[words.index("INTO" if words[0] == "INSERT" else "FROM") + 1]


def _rows(body: pa.Buffer) -> list[int]:
    with pa.ipc.open_stream(body) as reader:
        uids: list[int] = reader.read_next_batch().column(0).to_pylist()
    return uids
