"""May a piece be sent again?  Only while its table surely remembers the token (``chsink.clickhouse.remembered``).

Until when a range may be sent is bounded by time too.  Nobody starts a send so late that it could last beyond
``before_at + max_age_s``, on the server as well.

When a token may be forgotten, pieces are *probed*: looked for by (topic, partition, offset) in the table, and sent
only where nothing is there.  Before that, whoever may still be sending the range is waited out.  A table that does not
allow looking means halt, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chsink.clickhouse.probing import count_rows
from chsink.clickhouse.remembered import altered, look, usable_blocks, why_forgotten
from chsink.clickhouse.table import TargetTable, definition
from chsink.errors import HaltError, PreflightError, UnavailableError
from chsink.ports import Clock, Queries
from statemachine.ranges import OffsetRange
from statemachine.records import Mark, StateKey, StateRecord
from statemachine.tokens import token_head

LOOK_AGAIN_S = 1
BEYOND = 2**62
"""Above any offset."""


@dataclass(frozen=True, slots=True)
class Member:
    """One shard's table and the way to it."""

    client: Queries
    table: TargetTable


@dataclass(slots=True)
class DedupWindow:
    """:class:`chsink.batch.roles.Target` over the target tables.

    ``members(table, layout)`` gives the table on each shard of a layout (by fingerprint, None for the present one), in
    the shards' order.  No send of a range starts later than ``max_age_s`` (or the table's own limit, if shorter) after
    BEFORE, less ``insert_s`` (how long one may take) and ``margin_s`` (clocks that differ, processes that pause).
    """

    members: Callable[[str, str | None], Sequence[Member]]
    clock: Clock
    max_age_s: int
    margin_s: int
    insert_s: int
    say: Callable[[str], None] = lambda _: None

    def marks(self, table: str, layout: str | None = None) -> tuple[Mark, ...]:
        """What the table holds on each shard of a layout."""
        return tuple(look(m.client, m.table) for m in self.members(table, layout))

    def check_unchanged(self, table: str) -> None:
        """AlteredError when the table is no longer the one that the pipeline was made for."""
        for member in self.members(table, None):
            if definition(member.client, member.table.database, member.table.name) != member.table.definition:
                raise altered(table, member.client.url)

    def check_fits(self, table: str, chunks: int) -> None:
        """PreflightError when the table cannot remember so many chunks, or not for as long as one insert may take."""
        for member in self.members(table, None):
            check_window(member.table, member.client.url, chunks)
            window_s, needed_s = member.table.window_s, self.margin_s + self.insert_s
            if window_s is not None and window_s <= needed_s:
                raise PreflightError(
                    "CHS-234",
                    f"{table} at {member.client.url} remembers a token for {window_s} s, an insert and the margin take "
                    f"{needed_s} s",
                    "raise replicated_deduplication_window_seconds, or lower clickhouse.insert_timeout_s",
                )

    def deadline_ms(self, key: StateKey, record: StateRecord) -> int:
        """The wall clock after which no piece of the range may be sent any more."""
        return record.before_at + (self._limit_s(key, record) - self.margin_s - self.insert_s) * 1000

    def is_late(self, key: StateKey, record: StateRecord) -> bool:
        """Whether that moment has passed.  A table without a limit by time may still know the tokens."""
        return self.clock.now_ms() >= self.deadline_ms(key, record)

    def must_probe(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.batch.roles.Target`."""
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
        self._wait_out_senders(members, key, record, why)
        return True

    def holds_foreign(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.batch.roles.Target`.  Rows at or beyond the last offset that was ever announced."""
        beyond = OffsetRange(record.end, BEYOND)
        members = self.members(key.table, record.layout)
        return any(count_rows(m.client, key.table, key.topic_partition, beyond) for m in members)

    def doubtful_tokens(self, key: StateKey, record: StateRecord) -> str | None:
        """Why a token of the range may be gone, None when it surely is not."""
        return self._forgotten(self.members(key.table, record.layout), key, record)

    def _limit_s(self, key: StateKey, record: StateRecord) -> int:
        windows = (m.table.window_s for m in self.members(key.table, record.layout))
        return min([self.max_age_s, *(w for w in windows if w is not None)])

    def _forgotten(self, members: Sequence[Member], key: StateKey, record: StateRecord) -> str | None:
        if record.probe:
            return "was found to have left its deduplication window before"
        if self.is_late(key, record) and any(m.table.window_s is not None for m in members):
            return f"more than {self._limit_s(key, record)} s old (its table's window by time, or in_doubt.max_age_s)"
        if len(record.marks) != len(members):
            return "what its table held when it was announced is not known"
        for member, then in zip(members, record.marks, strict=True):
            why = why_forgotten(member.table, then, look(member.client, member.table))
            if why is not None:
                return f"{why} on {member.client.url}"
        return None

    # --- waiting for others -----------------------------------------------------------------------------------------

    def _wait_out_senders(self, members: Sequence[Member], key: StateKey, record: StateRecord, why: str) -> None:
        """Until no task of an older attempt can start a send, and those that started have ended."""
        until = record.before_at + self._limit_s(key, record) * 1000
        left_s = (until - self.clock.now_ms()) / 1000
        if left_s > 0:
            self.say(f"{key.topic_partition} {record.range}: {why}; waiting {left_s:.0f} s for possible senders")
            self.clock.sleep(left_s)
        for member in members:
            self._wait_for_inserts(member, key, record)

    def _wait_for_inserts(self, member: Member, key: StateKey, record: StateRecord) -> None:
        """An insert of the range that the server is still busy with: it ends by ``max_execution_time``."""
        give_up = self.clock.now_ms() + self.insert_s * 1000
        while _running(member.client, token_head(key, record)):
            if self.clock.now_ms() >= give_up:
                raise UnavailableError(
                    "CHS-710",
                    f"{member.client.url} is still running an insert of {key.topic_partition} {record.range}",
                    "let it end, or kill it there (system.processes), then start again",
                )
            self.clock.sleep(LOOK_AGAIN_S)


def _running(client: Queries, head: str) -> bool:
    """Whether an insert under a token with this head is being executed."""
    rows = client.query(
        "SELECT count() FROM system.processes WHERE startsWith(Settings['insert_deduplication_token'], {head:String})",
        {"head": head},
    )
    return int(rows[0][0]) > 0


def check_window(table: TargetTable, url: str, chunks: int) -> None:
    """PreflightError when the table does not deduplicate, or cannot remember one batch of so many chunks."""
    setting = "replicated_deduplication_window" if table.replicated else "non_replicated_deduplication_window"
    name = f"{table.database}.{table.name}"
    if table.window_blocks == 0:
        raise PreflightError(
            "CHS-210",
            f"{name} at {url} does not deduplicate inserts: {setting} is 0",
            f"ALTER TABLE {name} MODIFY SETTING {setting} = 10000",
        )
    if chunks > usable_blocks(table):
        raise PreflightError(
            "CHS-211",
            f"a batch has {chunks} chunks, and {name} at {url} surely remembers only {usable_blocks(table)} blocks",
            f"raise {setting} or clickhouse.chunk_offsets, or lower kafka.max_offsets_per_trigger",
        )
