"""May a piece be sent again?  Only while its table surely remembers the token.

A table remembers the last N *blocks of the whole table* (N by its settings; every insert makes at least one, one per
table partition it touches), a replicated table also only for some seconds.  What is known about a range in doubt is
when it was announced and the table's largest block number then, per shard; the growth since bounds the
blocks that came.
A plain MergeTree's log of tokens is not atomic with its parts, so a server restart since makes tokens doubtful too.

When the token may be forgotten, pieces are *probed*: looked for by (topic, partition, offset) in the table, and sent
only where nothing is there.  Before that, whoever may still be sending the range is waited out: nobody starts a send
after ``before_at + max_age_s - margin_s``.  A table that does not allow looking means halt, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chsink.clickhouse.table import TargetTable
from chsink.errors import HaltError, PreflightError
from chsink.ports import Clock, SqlClient
from statemachine.chunks import chunk_count
from statemachine.records import StateKey, StateRecord

SPARE = 10
"""One part in ten of the window is kept for what others insert while a range is being sent again."""


@dataclass(frozen=True, slots=True)
class Member:
    """One shard's table and the way to it."""

    client: SqlClient
    table: TargetTable


@dataclass(slots=True)
class DedupWindow:
    """:class:`chsink.delivery.roles.Target` over the target tables.

    ``members(table, layout)`` gives the table on each shard of a layout (by fingerprint, None for the present one), in
    the shards' order.  No send of a range starts later than ``max_age_s`` (or the table's own limit, if shorter) after
    BEFORE, less ``margin_s``.
    """

    members: Callable[[str, str | None], Sequence[Member]]
    clock: Clock
    max_age_s: int
    margin_s: int
    say: Callable[[str], None] = lambda _: None

    def block_marks(self, table: str) -> tuple[int, ...]:
        """The largest block number of the table on each shard, 0 when it is empty."""
        return tuple(_block_mark(m) for m in self.members(table, None))

    def deadline_ms(self, key: StateKey, record: StateRecord) -> int:
        """``before_at`` + window - margin, in ms: whoever takes the range over waits for that before it probes."""
        return record.before_at + (self._limit_s(key, record) - self.margin_s) * 1000

    def is_late(self, key: StateKey, record: StateRecord) -> bool:
        """Whether that moment has passed.  A table without a limit by time may still know the tokens."""
        return self.clock.now_ms() >= self.deadline_ms(key, record)

    def must_probe(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.delivery.roles.Target`."""
        members = self.members(key.table, record.layout)
        why = self._forgotten(members, key, record)
        if why is None:
            return False
        if not all(m.table.can_probe for m in members):
            raise HaltError(
                "CHS-317",
                f"{key.topic_partition} {record.range} is in doubt and {why}; {key.table} cannot be probed by offset",
                "look in the table whether the rows are there, then `chsink state resolve --help`; a plain MergeTree "
                "with _kafka_topic, _kafka_partition and _kafka_offset columns and no TTL is probed automatically",
            )
        self._wait_out_senders(key, record, why)
        return True

    def doubtful_tokens(self, key: StateKey, record: StateRecord) -> str | None:
        """Why a token of the range may be gone, None when it surely is not."""
        return self._forgotten(self.members(key.table, record.layout), key, record)

    def _limit_s(self, key: StateKey, record: StateRecord) -> int:
        windows = (m.table.window_s for m in self.members(key.table, record.layout))
        return min([self.max_age_s, *(w for w in windows if w is not None)])

    def _wait_out_senders(self, key: StateKey, record: StateRecord, why: str) -> None:
        """Until no task of an older attempt can start a send, and those that started have ended."""
        until = record.before_at + self._limit_s(key, record) * 1000
        left_s = (until - self.clock.now_ms()) / 1000
        if left_s > 0:
            self.say(f"{key.topic_partition} {record.range}: {why}; waiting {left_s:.0f} s for possible senders")
            self.clock.sleep(left_s)

    def _forgotten(self, members: Sequence[Member], key: StateKey, record: StateRecord) -> str | None:
        """Why a token of the range may be gone, None when it surely is not."""
        if self.is_late(key, record) and any(m.table.window_s is not None for m in members):
            return "its deduplication window has run out by time"
        if len(record.block_marks) != len(members):
            return "what its table held when it was announced is not known"
        for member, mark in zip(members, record.block_marks, strict=True):
            why = self._forgotten_by(member, mark, record)
            if why is not None:
                return f"{why} on {member.client.url}"
        return None

    def _forgotten_by(self, member: Member, mark: int, record: StateRecord) -> str | None:
        grown, table = _block_mark(member) - mark, member.table
        if mark < 0 or grown < 0:
            return "its table was emptied or restored since"
        coming = chunk_count(record.range, record.chunk_offsets)
        if grown + coming > table.window_blocks - table.window_blocks // SPARE:
            return f"{grown} blocks were inserted since, of a deduplication window of {table.window_blocks}"
        if not table.replicated:
            uptime_s = int(member.client.query("SELECT uptime()")[0][0])
            if uptime_s <= (self.clock.now_ms() - record.before_at) / 1000 + 1:
                return "the server restarted since (its deduplication log is not atomic with its parts)"
        return None


def _block_mark(member: Member) -> int:
    rows = member.client.query(
        "SELECT max(max_block_number) FROM system.parts WHERE database = {database:String} AND table = {name:String}",
        {"database": member.table.database, "name": member.table.name},
    )
    return int(rows[0][0])


def check_window(table: TargetTable, url: str, pieces: int) -> None:
    """PreflightError when the table does not deduplicate, or cannot remember one batch of ``pieces`` chunks."""
    setting = "replicated_deduplication_window" if table.replicated else "non_replicated_deduplication_window"
    name = f"{table.database}.{table.name}"
    if table.window_blocks == 0:
        raise PreflightError(
            "CHS-210",
            f"{name} at {url} does not deduplicate inserts: {setting} is 0",
            f"ALTER TABLE {name} MODIFY SETTING {setting} = 10000",
        )
    if pieces > table.window_blocks:
        raise PreflightError(
            "CHS-211",
            f"a batch of {pieces} chunks exceeds the {table.window_blocks} blocks that {name} at {url} remembers",
            f"raise {setting} or clickhouse.chunk_offsets, or lower kafka.max_offsets_per_trigger",
        )
