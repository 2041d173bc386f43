"""Landing one piece: one INSERT, one Arrow record batch, one block, one deduplication token.

Rules:
- What makes a retry the same insert is pinned here (``PINNED``): one thread, no parallel parsing, no block cut by size,
  synchronous, deduplicated, also in dependent views.
- This is the one place that retries an insert.  A retry is the same bytes under the same token, so an answer that was
  lost (*unknown*) and an error after data was sent are resolved by sending again: the server keeps one copy.
- A server that restarted between two tries may have lost the token of what it kept: then the piece is not sent again,
  the range stays in doubt, and the next start probes for it.
- No send starts after the deadline: past it the server may have forgotten the token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from chsink.clickhouse.identifiers import quote_identifier, quote_table
from chsink.errors import HaltError, UnavailableError
from chsink.ports import Clock, InsertResult, ServerRefused, SqlClient, Unanswered
from statemachine.ranges import OffsetRange, TopicPartition

PINNED: Mapping[str, Any] = {
    "insert_deduplicate": 1,
    "async_insert": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "max_insert_threads": 1,
    "input_format_parallel_parsing": 0,
}
PINNED_WHERE_KNOWN: Mapping[str, Any] = {"deduplicate_insert": "enable", "use_strict_insert_block_limits": 0}
"""Pinned too, but only newer servers know them; an unknown setting would refuse the insert."""

TOO_MANY_PARTS = 252
TRANSIENT = {
    3: "UNEXPECTED_END_OF_FILE",
    32: "ATTEMPT_TO_READ_AFTER_EOF",
    159: "TIMEOUT_EXCEEDED",
    160: "TOO_SLOW",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    236: "ABORTED",
    241: "MEMORY_LIMIT_EXCEEDED",
    242: "TABLE_IS_READ_ONLY",
    243: "NOT_ENOUGH_SPACE",
    TOO_MANY_PARTS: "TOO_MANY_PARTS",
    279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS",
    286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
    289: "REPLICA_IS_NOT_IN_QUORUM",
    319: "UNKNOWN_STATUS_OF_INSERT",
    394: "QUERY_WAS_CANCELLED",
    425: "SYSTEM_ERROR",
    439: "CANNOT_SCHEDULE_TASK",
    473: "DEADLOCK_AVOIDED",
    999: "KEEPER_EXCEPTION",
}
"""Codes that another try may pass: overload, memory, timeouts, disk space, read-only replicas, Keeper."""


def transient(error: BaseException) -> bool:
    """Whether sending the same piece again may help (it is always safe)."""
    if isinstance(error, Unanswered):
        return True
    if not isinstance(error, ServerRefused):
        return False
    if error.code == TOO_MANY_PARTS and "single INSERT block" in error.message:
        return False
    return error.code is None or error.code in TRANSIENT


@dataclass(slots=True)
class ShardWriter:
    """:class:`chsink.ports.BlockWriter` over one client per shard.

    ``retry_for_s`` bounds all tries of one piece.  ``settings`` are the user's; pinned ones win.  ``rerun_since_ms`` is
    set when Spark runs the task again: its first send is a retry then, of whatever was sent since BEFORE.
    """

    clients: Sequence[SqlClient]
    settings: Mapping[str, Any]
    clock: Clock
    retry_for_s: float
    rerun_since_ms: int | None = None
    on_retry: Callable[[str], None] = lambda _: None

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        """See :class:`chsink.ports.BlockWriter`."""
        client = self.clients[shard]
        columns = ", ".join(quote_identifier(n) for n in batch.schema.names)
        sql = f"INSERT INTO {quote_table(table)} ({columns}) FORMAT ArrowStream"
        body = arrow_stream(batch)
        settings = {**self.settings, **PINNED, "insert_deduplication_token": token}
        tries = Retrying(
            retry=retry_if_exception(transient),
            stop=stop_after_delay(self.retry_for_s),
            wait=wait_random_exponential(0.2, 10),
            sleep=self.clock.sleep,
            before_sleep=self._say,
            reraise=True,
        )
        sends, first_at = 0, self.clock.now_ms()

        def send() -> None:
            nonlocal sends
            self._check_deadline(token, deadline_ms)
            if sends or self.rerun_since_ms is not None:
                self._check_not_restarted(client, first_at if self.rerun_since_ms is None else self.rerun_since_ms)
            sends += 1
            client.insert(sql, body, settings)

        try:
            tries(send)
        except ServerRefused as error:
            raise self._refused(client, table, error) from error
        except Unanswered as error:
            raise UnavailableError(
                "CHS-704",
                f"{client.url} did not acknowledge an insert into {table} within {self.retry_for_s:.0f} s: {error}",
                "bring the server back and start again: the range is in doubt and will be settled",
            ) from error
        return InsertResult(batch.num_rows, body.size, sends - 1)

    def count(self, shard: int, table: str, partition: TopicPartition, offsets: OffsetRange) -> int:
        """See :class:`chsink.ports.BlockWriter`."""
        rows = self.clients[shard].query(
            f"SELECT count() FROM {quote_table(table)} WHERE _kafka_topic = {{topic:String}} AND "
            "_kafka_partition = {partition:Int64} AND _kafka_offset >= {start:Int64} AND _kafka_offset < {end:Int64}",
            {"topic": partition.topic, "partition": partition.partition, "start": offsets.start, "end": offsets.end},
        )
        return int(rows[0][0])

    def _check_deadline(self, token: str, deadline_ms: int) -> None:
        if self.clock.now_ms() >= deadline_ms:
            raise UnavailableError(
                "CHS-705",
                f"the deduplication window of piece {token} has run out: it is not sent any more",
                "start again: the range is in doubt and will be probed",
            )

    def _check_not_restarted(self, client: SqlClient, since_ms: int) -> None:
        uptime_s = int(client.query("SELECT uptime()")[0][0])
        if uptime_s <= (self.clock.now_ms() - since_ms) / 1000 + 1:
            raise UnavailableError(
                "CHS-707",
                f"{client.url} restarted while an insert was under way",
                "start again: the range is in doubt, and its pieces are looked for before they are sent",
            )

    def _say(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        self.on_retry(f"{type(error).__name__}: {error}")

    def _refused(self, client: SqlClient, table: str, error: ServerRefused) -> HaltError | UnavailableError:
        what = f"{client.url} refused an insert into {table}: code {error.code}, {error.message}"
        if transient(error):
            return UnavailableError("CHS-704", what, "relieve the server and start again: the range will be settled")
        return HaltError(
            "CHS-315",
            what,
            "correct the table, grants or settings and start again: the range will be settled",
        )


def arrow_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """The batch as an Arrow IPC stream of one record batch, which the server takes as one block."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
