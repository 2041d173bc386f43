"""May a piece be sent again?  Only while its table surely remembers the token (``chsink.clickhouse.dedup_mark``).

Until when a range may be sent is bounded by time too.  Nobody starts a send so late that it could last beyond
``before_at + max_age_s``, on the server as well.

When a token may be forgotten, pieces are *probed*: looked for by (topic, partition, offset) in the table, and sent
only where nothing is there.  Before that, whoever may still be sending the range is waited out.  A table that does not
allow looking means halt, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chsink.batch.rounds import Room
from chsink.clickhouse.checks.existing_rows import check_nothing_landed
from chsink.clickhouse.dedup_mark import read_mark, round_of, usable_blocks, why_forgotten
from chsink.clickhouse.probe import count_rows
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import TargetTable, definition
from chsink.errors import halts, preflight, services
from chsink.ports import Clock, Queries
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Mark, StateKey, StateRecord
from chsink.statemachine.tokens import token_head

LOOK_AGAIN_S = 1
BEYOND = 2**62
"""Above any offset."""


@dataclass(slots=True)
class DedupWindow:
    """:class:`chsink.batch.roles.Window` over the target tables.

    ``shards(table, layout)`` gives the table on each shard of a layout (by fingerprint, None for the present one), in
    the shards' order.  No send of a range starts later than ``max_age_s`` (or the table's own limit, if shorter) after
    BEFORE, less ``insert_s`` (how long one may take) and ``margin_s`` (clocks that differ, processes that pause).
    ``foreign_accepted``: the job accepts rows that the state does not account for, so they may lie at any offset.
    """

    shards: Callable[[str, str | None], Sequence[ShardTable]]
    clock: Clock
    max_age_s: int
    margin_s: int
    insert_s: int
    say: Callable[[str], None] = lambda _: None
    foreign_accepted: bool = False

    def marks(self, table: str, layout: str | None = None) -> tuple[Mark, ...]:
        """What the table holds on each shard of a layout."""
        return tuple(read_mark(s.client, s.table) for s in self.shards(table, layout))

    def check_unchanged(self, table: str) -> None:
        """AlteredError when the table is no longer the one that the pipeline was made for."""
        for shard in self.shards(table, None):
            if definition(shard.client, shard.table.database, shard.table.name) != shard.table.definition:
                raise preflight.TABLE_CHANGED(table=table, url=shard.url)

    def check_nothing_landed(self, topic: str, table: str, partitions: Collection[int]) -> None:
        """See :class:`chsink.batch.roles.Window`."""
        if not self.foreign_accepted:
            check_nothing_landed(self.shards(table, None), table, topic, partitions)

    def room(self, table: str) -> Room:
        """See :class:`chsink.batch.roles.Window`.  Half of what each shard surely remembers: others write, too."""
        shards = self.shards(table, None)
        needed_s = self.margin_s + self.insert_s
        for shard in shards:
            check_window(shard.table, shard.url)
            window_s = shard.table.window_s
            if window_s is not None and window_s <= needed_s:
                raise preflight.WINDOW_TOO_SHORT(table=table, url=shard.url, window=window_s, needed=needed_s)
        return Room(min(round_of(usable_blocks(s.table)) for s in shards), max(1, self._least_s(shards) - needed_s))

    def deadline_ms(self, key: StateKey, record: StateRecord) -> int:
        """The wall-clock time in ms after which no piece of the range may be sent."""
        return record.before_at + (self._limit_s(key, record) - self.margin_s - self.insert_s) * 1000

    def is_late(self, key: StateKey, record: StateRecord) -> bool:
        """Whether that moment has passed.  A table without a limit by time may still know the tokens."""
        return self.clock.now_ms() >= self.deadline_ms(key, record)

    def must_probe(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.batch.roles.Window`."""
        shards = self.shards(key.table, record.layout)
        why = self._forgotten(shards, key, record)
        if why is None:
            return False
        if not all(m.table.can_probe for m in shards):
            raise halts.CANNOT_PROBE(tp=key.topic_partition, range=record.range, reason=why, table=key.table)
        return True

    def holds_foreign(self, key: StateKey, record: StateRecord) -> bool:
        """See :class:`chsink.batch.roles.Window`.  Rows at or beyond the last offset that was ever announced."""
        if self.foreign_accepted:
            return True
        beyond = OffsetRange(record.end, BEYOND)
        shards = self.shards(key.table, record.layout)
        return any(count_rows(s.client, key.table, key.topic_partition, beyond) for s in shards)

    def doubtful_tokens(self, key: StateKey, record: StateRecord) -> str | None:
        """Why a token of the range may be gone, None when it surely is not."""
        return self._forgotten(self.shards(key.table, record.layout), key, record)

    def _limit_s(self, key: StateKey, record: StateRecord) -> int:
        return self._least_s(self.shards(key.table, record.layout))

    def _least_s(self, shards: Sequence[ShardTable]) -> int:
        windows = (s.table.window_s for s in shards)
        return min([self.max_age_s, *(w for w in windows if w is not None)])

    def _forgotten(self, shards: Sequence[ShardTable], key: StateKey, record: StateRecord) -> str | None:
        if record.probe:
            return "chsink found earlier that its deduplication window has passed"
        if self.is_late(key, record) and any(m.table.window_s is not None for m in shards):
            return f"it is more than {self._limit_s(key, record)} s old (by the table's window or in_doubt.max_age_s)"
        if len(record.marks) != len(shards):
            return "chsink does not know what the table held when it announced the range"
        for shard, then in zip(shards, record.marks, strict=True):
            why = why_forgotten(shard.table, then, read_mark(shard.client, shard.table))
            if why is not None:
                return f"{why} on {shard.url}"
        return None

    # --- waiting for others -----------------------------------------------------------------------------------------

    def wait_out_senders(self, records: Mapping[StateKey, StateRecord]) -> None:
        """See :class:`chsink.batch.roles.Window`.  One wait for all of them, announced once."""
        now = self.clock.now_ms()
        left_s = {k: (r.before_at - now) / 1000 + self._limit_s(k, r) for k, r in records.items()}
        waiting = {k: records[k] for k, left in left_s.items() if left > 0}
        if waiting:
            longest_s = max(left_s.values())
            self.say(self._announced(waiting, longest_s))
            self.clock.sleep(longest_s)
        for key, record in records.items():
            self.wait_for_inserts(key, record, [shard.client for shard in self.shards(key.table, record.layout)])

    def _announced(self, waiting: Mapping[StateKey, StateRecord], seconds: float) -> str:
        """How long, why, and what a person can do instead."""
        ranges = ", ".join(f"{k.topic_partition} {r.range}" for k, r in waiting.items())
        why = self.doubtful_tokens(*next(iter(waiting.items())))
        topics = sorted({k.topic for k in waiting})
        commands = [
            " ".join(["chsink state resolve", t, *(str(k.partition) for k in waiting if k.topic == t)]) for t in topics
        ]
        return (
            f"in doubt: {ranges}; {why}. Waiting {seconds:.0f} s, until no task of the earlier run can send them any "
            "more; then chsink looks for their rows. To wait less, stop every process of the earlier run, executors "
            "included, then lower in_doubt.max_age_s and start again; or decide now: stop this job and run "
            f"`{'` and `'.join(commands)}` with --landed, or with --resend --senders-gone if none of the rows is in "
            "the table"
        )

    def wait_for_inserts(self, key: StateKey, record: StateRecord, servers: Iterable[Queries]) -> None:
        """Until no server is busy with an insert of the range: one ends by ``max_execution_time``, also when its sender
        is gone.  UnavailableError CHS-710 if one does not.
        """
        give_up = self.clock.now_ms() + self.insert_s * 1000
        for server in servers:
            while _running(server, token_head(key, record)):
                if self.clock.now_ms() >= give_up:
                    raise services.STILL_INSERTING(url=server.url, tp=key.topic_partition, range=record.range)
                self.clock.sleep(LOOK_AGAIN_S)


def _running(client: Queries, head: str) -> bool:
    """Whether an insert under a token with this head is being executed."""
    rows = client.query(
        "SELECT count() FROM system.processes WHERE startsWith(Settings['insert_deduplication_token'], {head:String})",
        {"head": head},
    )
    return int(rows[0][0]) > 0


def check_window(table: TargetTable, url: str) -> None:
    """PreflightError when the table does not deduplicate."""
    if table.window_blocks == 0:
        setting = "replicated_deduplication_window" if table.replicated else "non_replicated_deduplication_window"
        raise preflight.NO_DEDUPLICATION(table=f"{table.database}.{table.name}", url=url, setting=setting)
