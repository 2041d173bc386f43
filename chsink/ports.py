"""The protocols of the external services that the sink uses.  Adapters implement them; entry points put them together.

Rule: an external write has three outcomes, never two: *applied*, *refused*, and *unknown*, for instance after a lost
answer.  An unknown outcome is resolved by reading back, never assumed.  A state store reports only whether a write is
known to be applied; if not, it was refused or is unknown, and the caller reads back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from chsink.statemachine.ranges import OffsetRange, TopicPartition


class Outcome(StrEnum):
    """The outcome of an external write."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Clock(Protocol):
    """Time, injected so that the simulator owns it."""

    def now_ms(self) -> int:
        """Wall clock, ms since the epoch: for what is stored, shown, or handed to another process."""

    def steady_ms(self) -> int:
        """For how long something takes, in ms: nobody sets this clock, and it goes on while the machine sleeps."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


# --- state store ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A stored row: an opaque ``body``, and the ``attempt`` id of the write that stored it."""

    key: str
    attempt: str
    body: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Replace the row under ``row.key`` if its attempt is still ``expected``."""

    expected: str
    row: StoredRow


class StoreUnavailable(Exception):
    """A read got no answer from the store within its timeout.  (Writes do not raise this: they return False.)"""


class StateStore(Protocol):
    """A small, strongly consistent key-value store.  One contract suite runs against every implementation.

    A sink's rows are the row named ``sink`` and all rows whose key starts with ``sink + "/"``.  A write returns True
    only if all of its rows are known to be stored, by this try or an earlier one.  After False it was refused, or its
    outcome is unknown: it may still be applied later, so the caller reads back.  Raises PreflightError where the store
    does not let this user write or read.
    """

    name: str
    durable: bool

    def prepare(self) -> None:
        """Connect, and create whatever the store needs and does not have yet.  Called once, before all other methods.
        Raises PreflightError if the store cannot be used, StoreUnavailable if this cannot be determined now.
        """

    def load(self, sink: str) -> dict[str, StoredRow]:
        """All rows of the sink.  They may be older than the call: a swap that was made from such a row is refused."""

    def catch_up(self, row: StoredRow) -> None:
        """What this store loads afterwards is at least as new as every write applied before the call.  ``row`` is one
        that was loaded; it stays as it is.  Raises StoreUnavailable if the store may still be behind.
        """

    def create(self, rows: Sequence[StoredRow]) -> bool:
        """Create rows, none of which may exist yet.  One statement creates all of its rows or none; more rows than fit
        one statement go in several, as in ``swap``.
        """

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Compare-and-set of all rows.  One statement is all-or-nothing.  Rows beyond its size limit go in further
        statements; the first one that is not applied stops the rest, so some groups of rows may have been applied.
        """

    def close(self) -> None:
        """Release connections."""


# --- SQL -----------------------------------------------------------------------------------------------------------


class ServerRefused(Exception):
    """ClickHouse answered with an error: ``code`` and the server's sentence; ``url`` is the server, where known.

    The outcome of an insert is still unknown if data was sent: a part of it may have been stored.
    """

    def __init__(self, code: int | None, message: str, url: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.url = url


class Unanswered(Exception):
    """No answer came (reset, timeout, truncated body).  The request may have reached the server."""


def is_away(error: ServerRefused | Unanswered) -> bool:
    """Whether ClickHouse did not answer: nothing did, or something before it, such as a balancer (503)."""
    return isinstance(error, Unanswered) or error.code is None


class Unreachable(Unanswered):
    """The connection was refused, so nothing was sent."""


ResultRow: TypeAlias = tuple[Any, ...]
"""A row that a server sent: its values, as clickhouse-connect reads them."""


class Queries(Protocol):
    """One ClickHouse endpoint, for queries.  Raises ServerRefused, Unanswered and Unreachable."""

    @property
    def url(self) -> str:
        """The replica in use."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[ResultRow]:
        """Rows of a SELECT.  ``parameters`` are bound by the server (``{name:Type}``)."""


class Replicas(Queries, Protocol):
    """One ClickHouse endpoint, of which a certain replica can be asked."""

    def each_replica(self) -> Sequence[Self]:
        """One for each replica's URL alone, in the order in which they are tried."""

    def newest(self) -> Self:
        """The same, but a replica of a Shared table reads what its Keeper knows before it answers."""

    def once(self) -> Queries:
        """The same, but a question that gets no answer is not asked again."""


class SqlClient(Replicas, Protocol):
    """One ClickHouse endpoint.  Sends each statement once."""

    def command(self, sql: str, settings: Mapping[str, object] | None = None) -> None:
        """A statement without a result."""

    def insert(self, sql: str, body: pa.Buffer, settings: Mapping[str, object], url: str) -> None:
        """One INSERT of ``body`` (an Arrow IPC stream), to the replica at ``url`` alone: the one that was looked at.
        Returns when the server has confirmed it.
        """


# --- decoding ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BadValue:
    """Why one input row was left out: the first reason found, never the value itself.

    ``column`` is None if the record as a whole is bad.  ``tombstone``: Kafka's value is null, so there is no row.
    """

    row: int
    column: str | None
    reason: str
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows that fit, in input order and wire types, and the reasons for those that do not.

    ``batch`` has the insertable columns in their given order.  ``rows`` holds the input row of each batch row (int64),
    or is None if the batch has every input row.  ``bad`` has one entry for each input row that does not fit, ascending.
    ``others`` counts input rows that belong to another table: they are neither in the batch nor bad.
    """

    batch: pa.RecordBatch
    rows: pa.Array | None
    bad: list[BadValue] = field(default_factory=list)
    others: int = 0


class Decoder(Protocol):
    """Turns the records of one topic into the columns of its table.  Picklable, and the same on every executor.

    The outcome of a record depends on that record alone: each record gives the same row, however a range is cut.
    """

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The stream's columns that :meth:`decode` reads."""

    @property
    def filled(self) -> frozenset[str]:
        """The table's columns that the decoder fills."""

    def parts(self) -> tuple[tuple[str, object], ...]:
        """Everything in the decoder that decides which row a record becomes: named JSON documents, for the pipeline
        fingerprint.
        """

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """The rows of the records in the table's wire types, and the reason for each record that does not fit."""


class StreamShape(Protocol):
    """The properties of a stream (see ``chsink.spark.stream_plan.StreamPlan``)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the stream's columns."""

    @property
    def transform(self) -> str:
        """A text that identifies the transform of the Kafka source; "" for none."""

    @property
    def isolation_level(self) -> str:
        """The consumers' isolation level."""


# --- inserting -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsertResult:
    """The size of an inserted piece.  ``retries`` counts sends after the first; ``bytes`` is the body of one send.
    ``unsure``: an earlier send may have left its token without its rows.
    """

    rows: int
    bytes: int
    retries: int
    unsure: bool = False


class Word(NamedTuple):
    """Of 64 offsets: a bit for each of which there is a row, and how many rows there are."""

    bits: int
    rows: int


class BlockWriter(Protocol):
    """Writes pieces to shards.  Only this class retries an insert, always under the same token."""

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        """Land the batch as one block.  Returns once the block is known to be stored.  Raises ``ChsinkError`` if the
        server refused it for good, or its outcome is still unknown at ``deadline_ms`` (wall clock).
        """

    def rows_there(self, shard: int, table: str, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
        """Probe: how many rows the shard holds for each of these offsets, by the table's ``_kafka_*`` columns.  Offsets
        without rows are left out.  Raises UnavailableError CHS-710 if a DELETE on the table does not finish.
        """

    def recent_rows(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int] | None:
        """The same of parts that took an insert since the range was announced.  Others may be left out.  None if the
        server refuses the question, for instance because of a limit of the user's profile.
        """

    def recent_words(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, Word] | None:
        """The same in words: word n is of the 64 offsets from 64 n on.  Those without rows are left out."""

    def can_probe(self, shard: int) -> bool:
        """Whether :meth:`rows_there` finds all rows of the shard's table, and rows stay until somebody removes them."""

    def views(self, shard: int) -> tuple[str, ...]:
        """The views that an insert into the shard's table feeds."""


# --- Kafka ---------------------------------------------------------------------------------------------------------


class TopicIds(Protocol):
    """Tells a recreated topic from the original.  The driver asks for topic ids, and so do tasks before they send."""

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Each topic's id; None if the broker is too old to have ids.  Raises PreflightError for a missing topic."""


class KafkaCluster(TopicIds, Protocol):
    """The driver's own queries to Kafka, beside Spark's."""

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of the topics, sorted."""

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that Kafka still holds, of each partition."""

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition, open transactions included: any record that a reader
        received lies before it, whatever its isolation level.
        """
