"""A chunk on an executor: records → rows (by the route's decoder) → shards → one insert per piece.

A piece is the part of a chunk that goes to one shard: one insert, one block, one deduplication token.  The layout is
the *recorded* one, so that a range is cut in the same way however often it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa

from chsink import failpoints
from chsink.batch.model import Ack, ChunkAck
from chsink.batch.reader import Chunk, ReadPlan
from chsink.batch.task import run_task
from chsink.clickhouse.client import Connection, cached_client
from chsink.clickhouse.dead_letters import LettersTable, TableLetters
from chsink.clickhouse.kept import Kept, ShardRange
from chsink.clickhouse.look_ahead import LookAhead
from chsink.clickhouse.probe import only_of
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.table import TargetTable
from chsink.clickhouse.unknown_fields import SAMPLE, FieldWatch
from chsink.clickhouse.writer import ShardWriter
from chsink.clock import SystemClock
from chsink.decode import INSERT_SETTINGS
from chsink.dlq.fates import Fates, Rejected
from chsink.dlq.letters import Delivery, letters_of
from chsink.dlq.place import LettersTopic
from chsink.dlq.topic import open_letters
from chsink.driver.recheck import check_same_topics
from chsink.driver.roles import Assignment
from chsink.errors import ChsinkError, values
from chsink.formats.announced_columns import with_columns
from chsink.formats.pipeline import grows
from chsink.formats.table_by_decoder import own_records
from chsink.notation.metadata_columns import METADATA_COLUMNS, SHARD_TYPES
from chsink.ports import BadValue, BlockWriter, Decoded, Decoder, InsertResult, TopicIds
from chsink.refusals import asking_target
from chsink.sharding import NO_SHARD, Layout, Sharder, split
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.tokens import piece_token


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one chunk for one shard, as they will be stored."""

    shard: int
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Prepared:
    """A chunk made ready: its pieces in shard order, and the records that do not fit, ascending.  ``others`` counts
    records that are none of the table's.
    """

    pieces: tuple[Piece, ...]
    rejected: tuple[BadValue, ...] = ()
    others: int = 0


@dataclass(frozen=True, slots=True)
class PieceLander:
    """:class:`chsink.batch.task.LandChunks` for ClickHouse.

    ``prepare`` turns a chunk's records into pieces for the assignment, ``writer_for`` gives the writer to the shards of
    its recorded layout.  ``fates`` decide about rejected records; where some become dead letters, ``letters_for`` gives
    where these go.  They are delivered before the chunk's pieces.  None of this changes the rows that a chunk inserts.

    ``kafka`` is asked for the topic's id after a chunk was read and before any of it is sent: records of a topic that
    was recreated meanwhile never land under the range of the old one.
    """

    assignments: Mapping[TopicPartition, Assignment]
    prepare: Callable[[pa.RecordBatch, Assignment], Prepared]
    writer_for: Callable[[Assignment], BlockWriter]
    kafka: TopicIds
    fates: Fates = field(default_factory=Fates)
    letters_for: Callable[[Assignment, BlockWriter], Delivery] | None = None
    unknown: Callable[[pa.RecordBatch, Assignment], Mapping[str, int]] = lambda *_: {}
    """Counts fields that have no column."""
    kept: Kept = field(default_factory=Kept)

    def finish(self) -> None:
        """See :class:`chsink.batch.task.LandChunks`.  Looks for what was sent again."""
        self.kept.check()

    def __call__(self, chunk: Chunk) -> ChunkAck:
        """Deliver the chunk's dead letters, then insert its pieces, each under its token."""
        offsets, tp = chunk.offsets, chunk.topic_partition
        if not chunk.parts:
            return ChunkAck(offsets.start, offsets.end)
        assignment = self.assignments[tp]
        records = chunk.take()
        prepared = self.prepare(records, assignment)
        rejected = self.fates.sort(prepared.rejected)
        self._check_tolerated(tp, offsets, records, prepared, rejected)
        mine = records.num_rows - prepared.others
        writer = self.writer_for(assignment)
        if assignment.record.life.topic_id is not None:
            check_same_topics(self.kafka, {assignment.key: assignment.record})
        failpoints.reach("task.before_insert")
        if rejected.dead:
            assert self.letters_for is not None, "fates with dead letters come with a place for them"
            letters = letters_of(records, rejected.dead, assignment)
            self.letters_for(assignment, writer).deliver(assignment, chunk.index, offsets, letters)
            failpoints.reach("task.after_dead_letters")
        sent, unproven = _insert(chunk, prepared.pieces, assignment, writer, self.kept)
        failpoints.reach("task.after_insert")
        return ChunkAck(
            offsets.start,
            offsets.end,
            mine,
            sum(result.rows for result in sent),
            len(rejected.skipped),
            sum(result.bytes for result in sent),
            len(sent),
            sum(result.retries for result in sent),
            _first(tp, records, rejected.skipped),
            tuple(sorted(unproven)),
            len(rejected.dead),
            _first(tp, records, rejected.dead),
            self.unknown(records, assignment),
        )

    def _check_tolerated(
        self, tp: TopicPartition, offsets: OffsetRange, records: pa.RecordBatch, prepared: Prepared, rejected: Rejected
    ) -> None:
        """BadValueError where records halt the job by themselves, or by their number."""
        if rejected.halting:
            raise _bad_value(tp, _first(tp, records, rejected.halting), len(rejected.halting))
        limit, mine = self.fates.tolerance, records.num_rows - prepared.others
        if limit is not None and not limit.allows(rejected.bad, mine):
            raise values.TOO_MANY_BAD(
                tp=tp,
                offsets=offsets,
                bad=rejected.bad,
                records=mine,
                tolerance=limit,
                first=_first(tp, records, prepared.rejected),
            )


def _insert(
    chunk: Chunk, pieces: Sequence[Piece], assignment: Assignment, writer: BlockWriter, kept: Kept
) -> tuple[list[InsertResult], set[str]]:
    """Insert the pieces that are not there; also the views that may lack rows of those that are."""
    sent: list[InsertResult] = []
    unproven: set[str] = set()
    for piece in pieces:
        place = ShardRange(assignment, piece.shard, writer)
        if place.already_there(chunk.offsets, piece.batch):
            unproven.update(_views(piece, writer))
            continue
        token = piece_token(assignment.key, assignment.record, chunk.index, piece.shard)
        result = writer.insert(piece.shard, assignment.key.table, piece.batch, token, assignment.deadline_ms)
        kept.sent(place.after(result), chunk.offsets, piece.batch)
        sent.append(result)
    return sent, unproven


def _views(piece: Piece, writer: BlockWriter) -> tuple[str, ...]:
    """Views that may lack the rows of a piece that the table has."""
    with asking_target():
        return writer.views(piece.shard)


def _first(tp: TopicPartition, records: pa.RecordBatch, rejected: Sequence[BadValue]) -> str:
    """Where the first of them is, and why it was left out."""
    if not rejected:
        return ""
    first = rejected[0]
    offset = records.column("offset")[first.row].as_py()
    where = f"column {first.column!r}: " if first.column else ""
    return f"topic {tp.topic!r} partition {tp.partition} offset {offset}: {where}{first.reason}"


def _bad_value(tp: TopicPartition, first: str, count: int) -> ChsinkError:
    more = f" (and {count - 1} more in this chunk)" if count > 1 else ""
    return values.BAD_VALUE(tp=tp, first=first + more)


# --- decode, then shard ----------------------------------------------------------------------------------------------


def by_shard(records: pa.RecordBatch, decoded: Decoded, layout_json: str, table: TargetTable) -> Prepared:
    """The decoded rows by shard of a layout; rows whose shard key is NULL may be refused, as the layout says.

    ``records`` are those that were decoded: a shard key may be a field of theirs that the table has no column for.
    """
    batch = decoded.batch
    if batch.num_rows == 0:
        return Prepared((), tuple(decoded.bad), decoded.others)
    types = tuple((c.name, c.type) for c in table.insertable)
    layout, sharder = _sharder(layout_json, types)
    of_record = layout.of_record(dict(types))
    keys = [_field(records, decoded, k) if k in of_record else batch.column(k) for k in layout.hashed]
    assigned = sharder.assign(keys, batch.num_rows)
    pieces = tuple(Piece(shard, part) for shard, part in split(batch, assigned) if shard != NO_SHARD)
    if assigned.null_rows is None or layout.null_shard_key == "first_shard":
        return Prepared(pieces, tuple(decoded.bad), decoded.others)
    rows = [int(i) for i in assigned.null_rows]
    at = rows if decoded.rows is None else [decoded.rows[i].as_py() for i in rows]
    column = layout.hashed[0] if len(layout.hashed) == 1 else None
    unrouted = [BadValue(i, column, "the shard key is null") for i in at]
    return Prepared(pieces, tuple(sorted([*decoded.bad, *unrouted], key=lambda b: b.row)), decoded.others)


@lru_cache(maxsize=64)
def _sharder(layout_json: str, types: tuple[tuple[str, str], ...]) -> tuple[Layout, Sharder]:
    layout = Layout.from_json(layout_json)
    by_name = dict(types)
    by_name |= {k: SHARD_TYPES[k] for k in layout.of_record(by_name)}
    return layout, Sharder(layout, [by_name[k] for k in layout.hashed])


def _field(records: pa.RecordBatch, decoded: Decoded, name: str) -> pa.Array:
    """A field of the decoded records, in the wire type of its type as a shard key."""
    field = records.column(METADATA_COLUMNS[name].source)
    wire = {"String": pa.binary(), "UInt32": pa.uint32(), "UInt64": pa.uint64()}[SHARD_TYPES[name]]
    return (field if decoded.rows is None else field.take(decoded.rows)).cast(wire)


# --- the task --------------------------------------------------------------------------------------------------------


def sent_again(assignments: Mapping[TopicPartition, Assignment]) -> dict[TopicPartition, Assignment]:
    """The assignments of another attempt at a task: the one before may have sent of them, as in a range in doubt."""
    return {tp: replace(assignment, again=True) for tp, assignment in assignments.items()}


@dataclass(frozen=True, slots=True)
class PieceTask:
    """One task of a ClickHouse landing: :data:`chsink.batch.roles.TaskBody`.  All of it is small, and pickled.

    A topic-partition has one assignment: all are of one lane.  ``decoders`` and ``tables``, the target on each shard of
    its layout, are for the columns of an assignment; ``access`` gives connection settings (credentials, TLS, timeouts)
    to which a shard's URLs are added; ``kafka`` is picklable.  With a table of ``letters``, the records' marks hold one
    more: its own.
    """

    plan: ReadPlan
    assignments: Mapping[TopicPartition, Assignment]
    decoders: Mapping[TopicPartition, Decoder]
    tables: Mapping[TopicPartition, tuple[TargetTable, ...]]
    access: Connection
    kafka: TopicIds
    insert_settings: Mapping[str, str | int]
    retry_for_s: float
    margin_s: int
    fates: Fates
    letters: LettersTable | LettersTopic | None = None
    watches: Mapping[TopicPartition, FieldWatch] = field(default_factory=dict)

    def __call__(self, task: int, batches: Iterable[pa.RecordBatch], *, again: bool = False) -> Ack:
        """Land what the task holds."""
        mine = replace(self, assignments=sent_again(self.assignments)) if again else self
        with ExitStack() as closing:
            return mine._run(task, batches, closing)

    def _run(self, task: int, batches: Iterable[pa.RecordBatch], closing: ExitStack) -> Ack:
        letters_for = self._letters_for
        if isinstance(self.letters, LettersTopic):
            kept = closing.enter_context(open_letters(self.letters, SystemClock()))
            letters_for = lambda *_: kept  # noqa: E731 - as the method
        land = PieceLander(
            self.assignments,
            self._prepare,
            self._writer_for,
            self.kafka,
            self.fates,
            letters_for,
            self._unknown,
        )
        room = max((watch.room for watch in self.watches.values()), default=0)
        ahead = LookAhead(land, self._look, room)
        return ahead.told(run_task(task, batches, self.plan, ahead))

    def _look(self, chunk: Chunk) -> None:
        """AlteredError CHS-287 for fields of the chunk that have no column."""
        self._grown(chunk.take(), self.assignments[chunk.topic_partition])

    def _unknown(self, records: pa.RecordBatch, assignment: Assignment) -> Mapping[str, int]:
        watch = self.watches.get(assignment.topic_partition)
        if watch is None:
            return {}
        decoder = self.decoders[assignment.topic_partition]
        return watch.counts(own_records(decoder, records.slice(0, SAMPLE)))

    def _prepare(self, records: pa.RecordBatch, assignment: Assignment) -> Prepared:
        decoded = self._grown(records, assignment).decode(records)
        return by_shard(records, decoded, assignment.layout, self.tables[assignment.key.topic_partition][0])

    def _grown(self, records: pa.RecordBatch, assignment: Assignment) -> Decoder:
        """The decoder, which also fills columns that were added for fields of these records."""
        decoder = self.decoders[assignment.topic_partition]
        watch = self.watches.get(assignment.topic_partition)
        if watch is None or not grows(assignment.record.sent.pipeline):
            return decoder
        mine = own_records(decoder, records)
        return with_columns(decoder, watch.columns(mine, assignment.topic_partition))

    def _writer_for(self, assignment: Assignment) -> ShardWriter:
        settings = {**self.insert_settings, **INSERT_SETTINGS}
        shards = tuple(self._shards(assignment))
        timeout_s = self.access.send_receive_timeout_s
        return ShardWriter(shards, settings, SystemClock(), self.retry_for_s, timeout_s, self.margin_s)

    def _shards(self, assignment: Assignment) -> Iterator[InsertShard]:
        listed = Layout.from_json(assignment.layout).shards
        tables, marks = self.tables[assignment.key.topic_partition], assignment.record.seen.marks
        for shard, table, mark in zip(listed, tables, marks[: len(listed)], strict=True):
            yield InsertShard(cached_client(replace(self.access, urls=shard.replicas)), table, mark)
        if isinstance(self.letters, LettersTable):
            client = cached_client(replace(self.access, urls=self.letters.urls))
            yield InsertShard(client, self.letters.table, marks[len(listed)], only_of(assignment.key))

    def _letters_for(self, assignment: Assignment, writer: BlockWriter) -> Delivery:
        """The table of dead letters lies behind the shards."""
        return TableLetters(writer, len(self.tables[assignment.key.topic_partition]))
