"""What the sink needs from the world, as Protocols.  Adapters implement them, entry points put them together.

Rule: an external write has three outcomes, never two.  *Applied* and *refused* are known; everything else, a lost
answer above all, is *unknown* and is resolved by reading back, never assumed.  A state store reports only whether a
write is known to be applied: whoever wrote reads back otherwise, refused or unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from chsink.statemachine.ranges import OffsetRange, TopicPartition


class Outcome(StrEnum):
    """What became of an external write."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Clock(Protocol):
    """Time, injected so that the simulator owns it."""

    def now_ms(self) -> int:
        """Wall clock, ms since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


# --- state store ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A stored row: opaque ``body``, and the ``attempt`` id of the write that made it."""

    key: str
    attempt: str
    body: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Replace the row under ``row.key`` if its attempt is still ``expected``."""

    expected: str
    row: Row


class StoreUnavailable(Exception):
    """A read of the store did not answer within its bound.  (A write is then not known to be applied.)"""


class StateStore(Protocol):
    """A small, strongly consistent key-value store.  One contract suite runs against every implementation.

    A sink's rows are the row named ``sink`` and all rows whose key starts with ``sink + "/"``.  A write returns True
    only if all of its rows are known to be stored, by this try or an earlier one.  After False it was refused, or its
    outcome is unknown: it may still be applied later, so the caller reads back.
    """

    name: str
    durable: bool

    def prepare(self) -> None:
        """Connect and make what the store needs, where that is missing; called once, before all else.  Raises
        PreflightError when the store cannot be used, StoreUnavailable when that cannot be known now.
        """

    def load(self, sink: str) -> dict[str, Row]:
        """All rows of the sink, at least as new as every write applied before the call."""

    def create(self, rows: Sequence[Row]) -> bool:
        """Create rows that must not exist, or none of them.  More rows than fit one statement are grouped; see
        ``swap``.
        """

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Compare-and-set of all rows.  One statement is all-or-nothing; rows beyond its size limit go in further
        statements, and the first that is not applied stops the rest: then some groups may be applied.
        """

    def close(self) -> None:
        """Release connections."""


# --- SQL -----------------------------------------------------------------------------------------------------------


class ServerRefused(Exception):
    """ClickHouse answered with an error: ``code`` and the server's sentence.

    After data was sent, the outcome of an insert is unknown nevertheless: a part of it may have been stored.
    """

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Unanswered(Exception):
    """The request may have reached the server, and no answer came (reset, timeout, cut body)."""


class Unreachable(Unanswered):
    """The connection was refused, so nothing was sent."""


class Queries(Protocol):
    """One ClickHouse endpoint, for questions; errors are the three above."""

    @property
    def url(self) -> str:
        """The replica in use."""

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a SELECT.  ``parameters`` are bound by the server (``{name:Type}``)."""


class SqlClient(Queries, Protocol):
    """One ClickHouse endpoint.  Sends each statement once."""

    def command(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        """A statement without a result."""

    def insert(self, sql: str, body: pa.Buffer, settings: Mapping[str, Any]) -> None:
        """One INSERT whose data is ``body`` (an Arrow IPC stream).  Returns when the server said it is done."""


# --- decoding ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BadValue:
    """Why one input row was left out: the first reason found, never the value itself.  ``column`` None: all of it.

    ``tombstone``: Kafka's value is null, so that there is nothing to store.
    """

    row: int
    column: str | None
    reason: str
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows that fit, in input order, in wire types; and those that do not.

    ``batch`` is a ``pa.RecordBatch`` with the insertable columns in their given order; ``rows`` is a
    ``pa.Array[int64]`` with the input row of each batch row, or None when every input row is in it; ``bad``
    holds one entry for every other input row, ascending.  ``others`` counts input rows that are none of the table's:
    they are neither in the batch nor bad.
    """

    batch: Any
    rows: Any
    bad: list[BadValue] = field(default_factory=list)
    others: int = 0


class Decoder(Protocol):
    """Turns the records of one topic into the columns of its table.  Picklable, and the same on every executor.

    The outcome of a record depends on that record alone: however a range is cut, each record gives the same row.
    """

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The stream's columns that :meth:`decode` reads."""

    @property
    def filled(self) -> frozenset[str]:
        """The table's columns that it fills."""

    def parts(self) -> tuple[tuple[str, Any], ...]:
        """What decides what a record becomes, by name, as JSON documents: a part of the pipeline's fingerprint."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """The records' rows in the table's wire types, and why the other records do not fit."""


class StreamShape(Protocol):
    """What a stream is, besides its records (see ``chsink.spark.stream_plan.StreamPlan``)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the stream's columns."""

    @property
    def transform(self) -> str:
        """Names what was done to the Kafka source, "" for nothing."""

    @property
    def isolation_level(self) -> str:
        """The consumers' isolation level."""


# --- inserting -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsertResult:
    """What a piece cost.  ``retries`` counts sends beyond the first; ``bytes`` is the body sent once."""

    rows: int
    bytes: int
    retries: int


class BlockWriter(Protocol):
    """Writes pieces to shards.  The one place that retries an insert, always under the same token."""

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        """Land the batch as one block.  Returns once it is known to be there.  Raises ``ChsinkError`` when it was
        refused for good, or is still unknown at ``deadline_ms`` (wall clock).
        """

    def rows_there(self, shard: int, table: str, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
        """How many rows of each of these offsets the shard holds, by the table's ``_kafka_*`` columns (to probe).
        Offsets without rows are left out.
        """

    def views(self, shard: int) -> tuple[str, ...]:
        """The views that an insert into the shard's table feeds."""


# --- Kafka ---------------------------------------------------------------------------------------------------------


class TopicIds(Protocol):
    """What tells one life of a topic from the next.  Asked by the driver, and by tasks before they send."""

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Each topic's id, None where the broker is too old to have one.  A missing topic is a PreflightError."""


class KafkaCluster(TopicIds, Protocol):
    """What the driver asks Kafka itself."""

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of the topics, sorted."""

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset Kafka still holds."""

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record, of open transactions too: what a reader was given lies before it, whatever
        its isolation level was.
        """
