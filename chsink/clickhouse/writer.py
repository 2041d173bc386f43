"""Landing one piece: one INSERT, one Arrow record batch, one block, one deduplication token.

Rules:
- What makes a retry the same insert is pinned here (``PINNED``): one thread, no parallel parsing, no block cut by size,
  synchronous, deduplicated, also in dependent views; and an insert stores every row, in the views as well, or fails,
  even if a profile would let it succeed with fewer rows.
- This is the one place that retries an insert.  A retry is the same bytes under the same token, so an answer that was
  lost (*unknown*) and an error after data was sent are resolved by sending again: the server keeps one copy.
- Every send first checks that the table still remembers everything sent since BEFORE.  If not, the piece is not sent,
  the range stays in doubt, and the next start probes for its rows.  An answer older than ``FRESH_MS`` proves nothing:
  the process may have been suspended with it in hand.  If the questions before took long as well, the server is slow,
  and the shortest of them is what it needs, up to ``SLOW_MS``.
- The same question tells whether the table was altered.  If a column of the piece is another now, it is not sent.
- How long a table has kept a token is told by its server's clock alone.  The server itself ends an insert that takes
  longer than the client waits.
- No send starts after the deadline, a day after the driver gave out the range, by the wall clock of this process.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from chsink.clickhouse.client import WHOLE
from chsink.clickhouse.dedup_mark import Slack, check_columns, look, why_altered, why_forgotten, why_too_late
from chsink.clickhouse.mutations import ANY, deleting, still_deleting
from chsink.clickhouse.probe import PART, dependent_views, inserted_after, rows_by_offset, words_there
from chsink.clickhouse.replicas import TWICE, current
from chsink.clickhouse.retry import RetryingQueries, retrying, transient
from chsink.clickhouse.shards import InsertShard
from chsink.decode.insert import SELECTED_WHERE_KNOWN, insert_into
from chsink.errors import ChsinkError, halts, services, without_values
from chsink.notation.sql import quote_table
from chsink.ports import Clock, InsertResult, Queries, ServerRefused, SqlClient, Unanswered, Word
from chsink.statemachine.ranges import OffsetRange, TopicPartition

T = TypeVar("T")
_log = logging.getLogger(__name__)

PINNED: Mapping[str, str | int] = {
    "insert_deduplicate": 1,
    "async_insert": 0,
    "wait_for_async_insert": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "materialized_views_ignore_errors": 0,
    "ignore_materialized_views_with_dropped_target_table": 0,
    "max_insert_threads": 1,
    "input_format_parallel_parsing": 0,
    "input_format_allow_errors_num": 0,
    "input_format_allow_errors_ratio": 0,
    **WHOLE,
}
PINNED_WHERE_KNOWN: Mapping[str, str | int] = {
    "deduplicate_insert": "enable",
    "use_strict_insert_block_limits": 0,
    **SELECTED_WHERE_KNOWN,
}
"""Pinned too, but only newer servers know them; an unknown setting would refuse the insert."""

FRESH_MS = 2_000
"""How long a table's answer may be relied on, beyond the time that the server needs for it.  No server restarts that
fast.
"""
SLOW_MS = 10_000
"""The most that a server is given beyond that.  A client that stalls behind every answer looks like a slow server, and
must not send on an answer of a minute ago.
"""
TWICE_BEFORE = 2
"""A server is slow by itself if as many questions before took long, too: a process is not suspended in each of them."""


def bounded(timeout_s: float) -> dict[str, int]:
    """The server, too, ends an insert that takes longer than the client waits for it."""
    return {"max_execution_time": math.ceil(timeout_s)}


@dataclass(slots=True)
class ShardWriter:
    """:class:`chsink.ports.BlockWriter` for one range, over the shards of its layout, and behind them the table of dead
    letters where there is one.

    ``retry_for_s`` bounds all tries of one piece, ``timeout_s`` each of them.  ``margin_s``: by how much clocks of
    servers may differ.  ``settings`` are the user's; pinned ones win.
    """

    shards: Sequence[InsertShard]
    settings: Mapping[str, object]
    clock: Clock
    retry_for_s: float
    timeout_s: float
    margin_s: int

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        """See :class:`chsink.ports.BlockWriter`."""
        client, sends = self.shards[shard].client, 0
        own = self.shards[shard].table
        sql, needed = insert_into(quote_table(own.canonical), own.columns, batch)
        body = arrow_stream(batch)
        settings = {
            **self.settings,
            **PINNED,
            **needed,
            **bounded(self.timeout_s),
            "insert_deduplication_token": token,
        }

        took = list[int]()

        def send() -> None:
            nonlocal sends
            asked_ms, url = self.clock.steady_ms(), client.url
            self._check_table(shard, token, batch.schema.names)
            self._check_time(asked_ms, token, deadline_ms, took)  # last: what comes before it may take long
            sends += 1
            client.insert(sql, body, settings, url)  # another replica may have other marks

        try:
            retrying(self.clock, self.retry_for_s, f"an insert into {table} at {client.url}")(send)
        except ServerRefused as error:
            raise self._refused(client, table, error) from error
        except Unanswered as error:
            raise services.INSERT_UNANSWERED(
                url=client.url, table=table, seconds=round(self.retry_for_s), reason=error
            ) from error
        return InsertResult(batch.num_rows, body.size, sends - 1, unsure=sends > 1 and not own.replicated)

    def rows_there(
        self,
        shard: int,
        table: str,  # noqa: ARG002 - each shard knows its own
        partition: TopicPartition,
        offsets: OffsetRange,
    ) -> dict[int, int]:
        """See :class:`chsink.ports.BlockWriter`."""
        at = self.shards[shard]
        asked = self._once_deleted(shard, ANY, copies=TWICE)
        return rows_by_offset(asked, at.table.canonical, partition, offsets, at.only)

    def recent_rows(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int] | None:
        """See :class:`chsink.ports.BlockWriter`."""
        name = self.shards[shard].table.canonical
        return self._recent(shard, lambda asked, only: rows_by_offset(asked, name, partition, offsets, only))

    def recent_words(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, Word] | None:
        """See :class:`chsink.ports.BlockWriter`."""
        name = self.shards[shard].table.canonical
        return self._recent(shard, lambda asked, only: words_there(asked, name, partition, offsets, only))

    def _recent(self, shard: int, ask: Callable[[Queries, str], T]) -> T | None:
        """Parts that took no insert since BEFORE are read only where the server does not let this user, or this table,
        tell them apart.  The parts of a Replicated table do not tell.
        """
        at = self.shards[shard]
        asked = self._once_deleted(shard, ANY if at.table.replicated else at.mark.blocks)
        tells = not at.table.replicated and PART not in {c.name for c in at.table.columns}
        later = [inserted_after(at.mark.blocks)] if tells else []
        refused: ServerRefused | None = None
        for condition in (*later, ""):
            try:
                return ask(asked, f"{at.only} {condition}".strip())
            except ServerRefused as error:
                if transient(error):
                    raise
                refused = error
        said = without_values(refused.message) if refused else ""
        _log.warning("%s does not let chsink look for the rows that it sent again: %s", asked.url, said)
        return None

    def can_probe(self, shard: int) -> bool:
        """See :class:`chsink.ports.BlockWriter`."""
        return self.shards[shard].table.can_probe

    def views(self, shard: int) -> tuple[str, ...]:
        """See :class:`chsink.ports.BlockWriter`."""
        return dependent_views(self._patient(shard), self.shards[shard].table)

    def _patient(self, shard: int) -> RetryingQueries:
        """The shard's client for questions, which a server that is away for a moment still answers."""
        return RetryingQueries(self.shards[shard].client, self.clock, self.retry_for_s)

    def _once_deleted(self, shard: int, after: int, *, copies: int = 1) -> RetryingQueries:
        """Who can be asked for rows: what is there now of blocks ``after`` this one may be gone once a DELETE under way
        has finished.  While it waits, another replica may have rewritten parts: so it is found again.
        """
        table, give_up_ms = self.shards[shard].table, self.clock.steady_ms() + self.retry_for_s * 1000
        while True:
            asked = current(self._patient(shard), table, self.clock, copies=copies)
            found = deleting(asked, table, after)
            if not found:
                return asked
            if self.clock.steady_ms() >= give_up_ms:
                raise still_deleting(asked.url, table, found)
            self.clock.sleep(1)

    def _check_time(self, asked_ms: int, token: str, deadline_ms: int, took: list[int]) -> None:
        """``took``: how long the questions before this one took for the same piece; this one is added."""
        if self.clock.now_ms() >= deadline_ms:
            raise services.PIECE_TOO_LATE(token=token)
        spent, needed = self.clock.steady_ms() - asked_ms, min(took[-TWICE_BEFORE:]) if len(took) >= TWICE_BEFORE else 0
        needed = min(needed, SLOW_MS)
        took.append(spent)
        if spent > FRESH_MS + needed:
            raise Unanswered(f"it took {spent / 1000:.1f} s to say what the table remembers")

    def _check_table(self, shard: int, token: str, columns: Sequence[str]) -> None:
        """The piece may have been sent before: by this task, an older attempt of it, or an older driver.  And the table
        may have been altered since the piece was made.
        """
        at = self.shards[shard]
        now = look(at.client, at.table)
        slack = Slack(math.ceil(self.timeout_s), self.margin_s)
        why = why_forgotten(at.table, at.mark, now.mark) or why_too_late(at.table, at.mark, now.mark, slack)
        why = why or (why_altered(at.client, at.table) if now.altered else None)
        if why is not None:
            raise services.TOKEN_DOUBTFUL(url=at.url, token=token, reason=why)
        for table in at.table.with_fed if now.altered else ():
            check_columns(at.client, table, columns if table is at.table else ())

    def _refused(self, client: SqlClient, table: str, error: ServerRefused) -> ChsinkError:
        reason = without_values(error.message)
        if transient(error):
            return services.INSERT_OVERLOADED(
                url=client.url, table=table, seconds=round(self.retry_for_s), code=error.code, reason=reason
            )
        return halts.INSERT_REFUSED(url=client.url, table=table, code=error.code, reason=reason)


def arrow_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """The batch as an Arrow IPC stream of one record batch, which the server takes as one block."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
