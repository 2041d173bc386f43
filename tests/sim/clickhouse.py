"""Simulated ClickHouse: tokens with a window by count and by time, blocks that arrive late, errors after data, restarts
that lose the last token, tokens that are kept without their rows, other writers.

The client side is production code (:class:`chsink.clickhouse.writer.ShardWriter`,
:class:`chsink.clickhouse.window.DedupWindow`); this module is the server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from chsink.clickhouse.table import TargetTable, read_table
from chsink.dlq.letters import DELETED_ID
from chsink.ports import ServerRefused, Unanswered, Unreachable
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.hub import Hub
from tests.sim.kafka import PARTITION, SERIAL, serial_of, uid_of
from tests.sim.oracle import LISTS, Oracle, lists_of
from tests.sim.sql import answer, delete, describes, description

URLS = ("http://shard0:8123", "http://shard1:8123", "http://shard2:8123")
OVERLOADED, NO_SPACE, VIEW_THREW = 241, 243, 395
OTHERS, OTHERS_EVERY_S = 25, 31
REQUEST_TIMEOUT_S = 30
"""The client's deadline: a request arrives within it or never."""
SUSPENDED_MS = 2_000
"""The stated limit: between a task's last check (of the table, of the clock) and its send, there is no port call, and
the task is not suspended for longer than this.
"""
RESTART_MS = 3_000
"""A killed server needs at least this long to come back."""


LAGGING, LAGS, LAG_MS = 0.4, 0.2, 90_000
"""Of how many servers the first replica lags, how often an insert comes late there, and by how much at most."""
FULL = 0.2
"""How many servers run out of disk space now and then."""
SLOW, SLOW_MS = 0.1, 5_000
"""How many servers take long for each answer, and how long at most."""
LETTERS = "db.dead"
"""The table of dead letters, on the first server only."""
Rows = dict[tuple[str, int], list[int]]
"""Uids by topic and partition."""


@dataclass(frozen=True, slots=True)
class TableKind:
    """How a target table deduplicates.  ``parts``: how many table partitions the rows of an insert may go to, with one
    block each.  ``view_blocks``: how many blocks the target of its view remembers, 0 if there is no view; ``view_parts``:
    how many of them each block of the table makes.  ``replacing``: the engine is one that merges may take rows from, so
    that production code does not go by missing ones.
    """

    replicated: bool
    window_blocks: int
    window_s: int
    can_probe: bool = True
    parts: int = 1
    view_blocks: int = 0
    view_parts: int = 1
    replacing: bool = False

    @property
    def views(self) -> bool:
        """Whether the table feeds a view."""
        return self.view_blocks > 0

    @property
    def engine(self) -> str:
        return f"{'Replicated' if self.replicated else ''}{'Replacing' if self.replacing else ''}MergeTree"

    @property
    def of_view(self) -> TableKind:
        """How the view's target deduplicates."""
        return TableKind(self.replicated, self.view_blocks, self.window_s, can_probe=False)

    @property
    def settings(self) -> dict[str, str]:
        """What `system.merge_tree_settings` shows."""
        return {
            "non_replicated_deduplication_window": str(self.window_blocks),
            "replicated_deduplication_window": str(self.window_blocks),
            "replicated_deduplication_window_seconds": str(self.window_s),
        }

    def columns(self, version: int) -> list[tuple[str, str, str, str]]:
        """What `system.columns` shows; each ALTER added one, by turns behind the others and behind the first."""
        kafka = [("_kafka_topic", "String"), ("_kafka_partition", "Int32"), ("_kafka_offset", "Int64")]
        added = [(f"added{n}", "Nullable(Int64)") for n in range(version)]
        named = [("uid", "Int64"), *added[1::2][::-1], *(kafka if self.can_probe else []), *added[::2]]
        return [(name, kind, "", "") for name, kind in named]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a table remembers of a token: when its block came, the block's number, and its rows."""

    at: int
    block: int
    rows: frozenset[int]


@dataclass(slots=True)
class Table:
    """One table on one shard.  ``tokens`` are kept oldest first, ``rows`` by topic and partition.

    ``mutations`` counts them; ``block_of`` has the latest block of each uid.  ``view`` holds the rows of the dependent
    view's target, ``fed`` the tokens of the blocks that it took, ``fed_blocks`` counts its blocks.  ``letters_of`` has the target table of each dead letter.  ``late`` says when the first replica has a uid that it does
    not have at once.  ``altered_s``: when its settings were altered last; ``elsewhere``: on the second replica only.
    """

    kind: TableKind
    tokens: OrderedDict[str, Kept] = field(default_factory=OrderedDict)
    rows: Rows = field(default_factory=dict)
    view: Rows = field(default_factory=dict)
    fed: OrderedDict[str, Kept] = field(default_factory=OrderedDict)
    fed_blocks: int = 0
    blocks: int = 0
    version: int = 0
    altered_s: int = -1
    elsewhere: bool = False
    mutations: int = 0
    block_of: dict[int, int] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    letters_of: dict[int, str] = field(default_factory=dict)


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
        self.under_way: list[str] = []
        # Of its own, so that worlds without replicas keep the meaning of their seeds.
        self._lag = Random(f"{hub.seed} lag {number}")
        self.lags = self._lag.random() < LAGGING
        self.full = Random(f"{hub.seed} full {number}").random() < FULL
        slow = Random(f"{hub.seed} slow {number}")
        self.slow_ms = int(slow.random() * SLOW_MS) if slow.random() < SLOW else 0

    def describe(self, table: str) -> TargetTable:
        """The table as production code reads it, without requests over the network."""
        return read_table(_Catalog(self), *table.split("."))

    @property
    def holds_rows(self) -> bool:
        """Whether any table has a row."""
        return any(uids for table in self.tables.values() for uids in table.rows.values())

    def add(self, table: str) -> None:
        """CREATE TABLE, like the others."""
        self.tables[table] = Table(next(iter(self.tables.values())).kind)

    def crash(self, downtime_ms: int) -> None:
        """SIGKILL and a start."""
        self.restarts += 1
        self.under_way.clear()
        self.up_at = self.hub.now + RESTART_MS + downtime_ms
        self.started = self.up_at

    def empty(self) -> None:
        """Remove every row.  Tokens are kept; inserts under way are lost with their connections."""
        self.crash(0)
        for table in self.tables.values():
            table.rows.clear()
            table.view.clear()

    def others_write(self, table: str, *, only_view: bool = False) -> None:
        """Other writers insert many blocks at once; repeated calls make the table forget its tokens, or the target of its
        view, which other tables may feed.  One call inserts far fewer blocks than the window keeps free for inserts
        between a check and a send.
        """
        of = self.tables[table]
        of.fed_blocks += of.kind.view_blocks // OTHERS
        if not only_view:
            of.blocks += of.kind.window_blocks // OTHERS
        self._forget(of)

    def lower_and_raise(self, table: str, *, elsewhere: bool) -> None:
        """Somebody sets the window to one block, and then to what it was.  ClickHouse drops tokens at once."""
        of = self.tables[table]
        of.altered_s, of.elsewhere = self.hub.now // 1000, elsewhere
        while len(of.tokens) > 1:
            of.tokens.popitem(last=False)

    def remove(self, name: str, tp: TopicPartition, gone: OffsetRange, letters_of: str | None = None) -> None:
        """A completed DELETE: rows go, tokens stay.  ``letters_of``: of dead letters, only those of this target table."""
        if name not in self.tables:  # of dead letters
            return
        table = self.tables[name]
        table.mutations += 1
        others = {uid for uid, of in table.letters_of.items() if letters_of not in (None, of)}
        self.oracle.deleted(name, _cut_out(table.rows, tp, gone, others))

    def attach_again(self, name: str, number: int) -> None:
        """A person detaches a partition of the table and attaches it again: its tokens are forgotten, and its rows are in
        a new block.
        """
        if name not in self.tables:  # of dead letters
            return
        table = self.tables[name]
        parts = table.kind.parts
        for label in [label for label in table.tokens if parts == 1 or label.endswith(f" of {number}")]:
            del table.tokens[label]
        table.blocks += 1
        uids = [uid for held in table.rows.values() for uid in held if uid // 3 % parts == number]
        table.block_of.update(dict.fromkeys(uids, table.blocks))
        self.oracle.attached_again(name, uids)

    def remove_from_views(self, name: str, tp: TopicPartition, gone: OffsetRange) -> None:
        """A DELETE from the target of the table's view."""
        self.oracle.deleted_from_view(name, _cut_out(self.tables[name].view, tp, gone))

    def store(
        self, name: str, uids: list[int], token: str, *, remember: bool = True, blocks: int | None = None
    ) -> None:
        """An insert arrives: a block for each table partition, then for its view.  Only so many ``blocks`` of it, if it
        breaks off.
        """
        table = self.tables[name]
        self._forget(table)
        cut = _blocks(uids, token, table.kind.parts)
        for label, rows in cut[:blocks]:
            self._take(table, name, label, rows, remember=remember)
        if table.kind.views:
            for label, rows in cut[: None if blocks is None else max(0, blocks - len(cut))]:
                self._feed(table, name, label, rows, remember=remember)

    def shows(self, name: str, uids: list[int]) -> bool:
        """Whether production code can see that a plain table has not stored these rows: others may lie at their offsets.

        A view would get the rows that its table drops, perhaps twice; the table lacks them then, and a person decides.
        """
        kind, held = self.tables[name].kind, self.tables[name].rows
        if kind.replicated or kind.replacing or kind.views or not kind.can_probe:
            return False
        places = {self._place(uid) for uid in uids}
        there = {uid % PARTITION for place in places for uid in held.get(place, ())}
        return there.isdisjoint(uid % PARTITION for uid in uids)

    def note(self, name: str, uids: list[int], token: str) -> None:
        """A plain MergeTree notes a token before it stores the block: here, it stores none of the insert."""
        table = self.tables[name]
        label, rows = _blocks(uids, token, table.kind.parts)[0]
        table.tokens.setdefault(label, Kept(self.hub.now, table.blocks, frozenset(rows)))

    def blocks_of(self, name: str) -> int:
        """After how many blocks an insert may break off."""
        kind = self.tables[name].kind
        return kind.parts * (2 if kind.views else 1)

    def _take(self, table: Table, name: str, label: str, uids: list[int], *, remember: bool) -> None:
        known = table.tokens.get(label)
        if known is not None:
            self.hub.counts["outcome insert deduplicated"] += 1
            self.oracle.deduplicated(known.rows, uids, label)
            return
        self.hub.counts["outcome insert applied"] += 1
        if name.startswith(LISTS):  # they are rows of the same table
            self.tables[LETTERS].blocks += 1
            table.blocks = self.tables[LETTERS].blocks
        else:
            table.blocks += 1
        if remember:
            table.tokens[label] = Kept(self.hub.now, table.blocks, frozenset(uids))
        self._put(table.rows, uids)
        if self.lags and table.kind.replicated and not self.hub.calm and self._lag.random() < LAGS:
            table.late.update(dict.fromkeys(uids, self.hub.now + int(self._lag.random() * LAG_MS)))
        table.block_of.update(dict.fromkeys(uids, table.blocks))
        self.oracle.inserted(name, self.topics[serial_of(uids[0])], uids, self.number)

    def _feed(self, table: Table, name: str, label: str, uids: list[int], *, remember: bool) -> None:
        if label in table.fed:
            return
        if remember:
            table.fed[label] = Kept(self.hub.now, table.fed_blocks + 1, frozenset(uids))
        table.fed_blocks += table.kind.view_parts
        self._put(table.view, uids)
        self.oracle.fed(name, uids)

    def _put(self, rows: Rows, uids: list[int]) -> None:
        for uid in uids:
            rows.setdefault(self._place(uid), []).append(uid)

    def _place(self, uid: int) -> tuple[str, int]:
        """Its topic and partition."""
        return self.topics[serial_of(uid)], uid % SERIAL // PARTITION

    def _forget(self, table: Table) -> None:
        self._forget_tokens(table.tokens, table.kind, table.blocks)
        self._forget_tokens(table.fed, table.kind.of_view, table.fed_blocks)

    def _forget_tokens(self, tokens: OrderedDict[str, Kept], kind: TableKind, blocks: int) -> None:
        while tokens and next(iter(tokens.values())).block + kind.window_blocks <= blocks:
            tokens.popitem(last=False)
        if kind.replicated:
            before = self.hub.now - kind.window_s * 1000
            while tokens and next(iter(tokens.values())).at < before:
                tokens.popitem(last=False)


class Client:
    """:class:`chsink.ports.SqlClient` of one process to one shard.  The first replica may lag behind the second."""

    def __init__(self, server: Server, replica: int = 0) -> None:
        self.server = server
        self.hub = server.hub
        self.url = URLS[server.number] if replica == 0 else f"{URLS[server.number]}/{replica}"
        self._replica = replica

    def each_replica(self) -> list[Client]:
        """Two of them."""
        return [Client(self.server, replica) for replica in (0, 1)]

    def newest(self) -> Client:
        """No table is a Shared one."""
        raise AssertionError

    def once(self) -> Client:
        """It does not ask again by itself."""
        return self

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The questions of the driver, of tasks, and of the commands of an operator."""
        said = parameters or {}
        if describes(sql):
            self._reach()
            return description(self.server, sql, said)
        self.hub.pause()
        self._reach()
        if not self.server.slow_ms or self.hub.calm:
            return answer(self.server, sql, said, lags=self._replica == 0)
        restarts, half_s = self.server.restarts, self.server.slow_ms / 2000
        self.hub.sleep(half_s)
        found = answer(self.server, sql, said, lags=self._replica == 0)
        self.hub.sleep(half_s)
        if self.server.restarts != restarts:
            raise Unanswered("connection reset")
        return found

    def command(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        """What a person types: a DELETE."""
        self.hub.pause()
        self._reach()
        delete(self.server, sql)

    def insert(self, sql: str, body: pa.Buffer, settings: Mapping[str, Any], url: str) -> None:
        """One INSERT, with all its possible outcomes."""
        hub, server = self.hub, self.server
        name, token = sql.split()[2].replace("`", ""), str(settings["insert_deduplication_token"])
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
        name, uids = self._rows(name, body)
        if server.full and server.shows(name, uids) and hub.fault("insert leaves its token", 0.05):
            server.note(name, uids, token)
            hub.pause()
            raise hub.chance.choice((ServerRefused(NO_SPACE, "no space left"), Unanswered("connection reset")))
        if hub.fault("insert arrives late", 0.01):
            delay = int(hub.chance.random() * REQUEST_TIMEOUT_S * 1000)
            restarts = server.restarts
            server.under_way.append(token)
            hub.after(delay, lambda: self._arrive(name, uids, token, sent_at, restarts))
            raise Unanswered("connection reset")
        if hub.fault("server killed with an insert", 0.004):
            self._killed_with(name, uids, token)
        if server.view_throws:
            server.store(name, uids, token, blocks=server.tables[name].kind.parts)
            hub.pause()
            raise ServerRefused(VIEW_THREW, "while pushing to view")
        if hub.fault("insert error after data", 0.01):
            server.store(name, uids, token, blocks=self._some(name))
            hub.pause()
            raise ServerRefused(OVERLOADED, "while writing")
        server.store(name, uids, token)
        hub.pause()
        if hub.fault("insert answer lost", 0.02):
            raise Unanswered("connection reset")

    def _rows(self, name: str, body: pa.Buffer) -> tuple[str, list[int]]:
        """The table and uids of an insert.  A dead letter's value is its uid; a replay mark has no value, so its
        partition and offset give the uid.
        """
        with pa.ipc.open_stream(body) as reader:
            batch = reader.read_next_batch()
        if "reason" not in batch.schema.names:
            return name, batch.column(0).to_pylist()
        places = batch.select(["_kafka_topic", "_kafka_partition", "_kafka_offset"]).to_pylist()
        tables = batch.column("table").to_pylist()
        if batch.column("error_id").to_pylist() == [DELETED_ID]:
            return lists_of(tables[0]), [list_uid(self.server.topics, *places[0].values())]
        values = zip(batch.column("value").to_pylist(), places, strict=True)
        uids = [
            uid_of(0, at["_kafka_partition"], at["_kafka_offset"]) if value is None else int(value)
            for value, at in values
        ]
        self.server.tables[name].letters_of.update(zip(uids, tables, strict=True))
        return name, uids

    def _arrive(self, name: str, uids: list[int], token: str, sent_at: int, restarts: int) -> None:
        """A late insert arrives, unless its server died meanwhile or the request timed out."""
        if self.server.restarts != restarts:
            return
        self.server.under_way.remove(token)
        if self.hub.now - sent_at <= REQUEST_TIMEOUT_S * 1000:
            self.server.store(name, uids, token)

    def _killed_with(self, name: str, uids: list[int], token: str) -> None:
        """The server dies during the insert.  A plain MergeTree may keep the part and lose its token."""
        server, random = self.server, self.hub.chance
        kept = random.random() < 0.5
        if kept:
            remember = server.tables[name].kind.replicated
            server.store(name, uids, token, remember=remember, blocks=self._some(name))
        server.crash(1 + int(random.random() * 20_000))
        raise Unanswered("connection reset")

    def _some(self, name: str) -> int:
        """How many blocks of an insert that breaks off are stored: at least one."""
        return 1 + int(self.hub.chance.random() * self.server.blocks_of(name))

    def _reach(self) -> None:
        if self.hub.now < self.server.up_at:
            self.hub.counts["outcome insert unreachable"] += 1
            raise Unreachable("connection refused")


@dataclass(frozen=True, slots=True)
class _Catalog:
    """:class:`chsink.ports.Queries` for a table's description only."""

    server: Server
    url: str = ""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return description(self.server, sql, parameters or {})


def _blocks(uids: list[int], token: str, parts: int) -> list[tuple[str, list[int]]]:
    """The blocks of an insert, one for each table partition, and what each is remembered by."""
    if parts == 1:
        return [(token, uids)]
    by: dict[int, list[int]] = {}
    for uid in uids:
        by.setdefault(uid // 3 % parts, []).append(uid)
    return [(f"{token} of {partition}", rows) for partition, rows in sorted(by.items())]


def _cut_out(rows: Rows, tp: TopicPartition, gone: OffsetRange, others: Collection[int] = ()) -> list[int]:
    """Remove what lies at these offsets, except for the ``others``."""
    held = rows.get((tp.topic, tp.partition), [])
    cut = [uid for uid in held if gone.start <= uid % PARTITION < gone.end and uid not in others]
    rows[tp.topic, tp.partition] = [uid for uid in held if uid not in cut]
    return cut


def list_uid(topics: Sequence[str], topic: str, partition: int, offset: int) -> int:
    """Of the first offset of a list, in the present life of its topic."""
    serial = max(serial for serial, name in enumerate(topics) if name == topic)
    return uid_of(serial, partition, offset)
