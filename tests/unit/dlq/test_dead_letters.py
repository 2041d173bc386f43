"""Dead letters of a chunk: what they hold, when they are delivered, and what keeps a chunk from being sent at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from chsink.batch.model import Ack, total
from chsink.batch.reader import ReadPlan, Span
from chsink.batch.task import run_task
from chsink.clickhouse.dead_letters import TableLetters
from chsink.clickhouse.pieces import Piece, PieceLander, Prepared
from chsink.clickhouse.probe import OFFSET
from chsink.dlq.fates import Fate, Fates, Tolerance, tolerance
from chsink.dlq.letters import COLUMNS
from chsink.driver.roles import Assignment
from chsink.errors import halts
from chsink.errors.catalogue import from_wire
from chsink.ports import BadValue, InsertResult, Word
from chsink.statemachine.parts import Sending, TopicLife, Unsettled
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.tokens import letters_token, piece_token
from tests.support.records import TOMBSTONE, batch

TP = TopicPartition("t", 1)
KEY = StateKey("sink", "t", 1, "db.t")
RECORD = StateRecord(Phase.BEFORE, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(5, "L", "P"))
PLACE = 1
"""Of the dead letters: behind the only shard."""
DEAD = Fates(Fate.DEAD_LETTER)
BAD = 12
THERE = {BAD: 1, TOMBSTONE: 1}


def prepare(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
    offsets = records.column("offset").to_pylist()
    reasons = {BAD: ("n", "text is not UInt8", False), TOMBSTONE: (None, "the value is null", True)}
    bad = tuple(BadValue(i, *reasons[o]) for i, o in enumerate(offsets) if o in reasons)
    kept = records.filter(pa.array([o not in reasons for o in offsets]))
    return Prepared((Piece(0, kept.append_column("_kafka_offset", kept.column("offset"))),), bad)


@dataclass
class Writer:
    sent: list[tuple[int, str, pa.RecordBatch]] = field(default_factory=list)
    there: dict[int, dict[int, int]] = field(default_factory=dict)
    drops: bool = False
    refuses: int | None = None

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        assert (table, deadline_ms) == ("db.t", 99)
        if shard == self.refuses:
            raise halts.INSERT_REFUSED(url="u", table=table, code=1, reason="r")
        self.sent.append((shard, token, batch))
        return InsertResult(batch.num_rows, 8, 0)

    def rows_there(self, shard: int, table: str, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
        sent = [] if self.drops else [b.column(OFFSET).to_pylist() for at, _, b in self.sent if at == shard]
        found = Counter(o for some in sent for o in some if offsets.start <= o < offsets.end)
        return dict(found + Counter(self.there.get(shard, {})))

    def recent_rows(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int] | None:
        return self.rows_there(shard, "db.t", partition, offsets)

    def recent_words(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, Word] | None:
        raise AssertionError("dead letters are looked for chunk by chunk")

    def can_probe(self, shard: int) -> bool:
        return shard == PLACE

    def views(self, shard: int) -> tuple[str, ...]:
        return ()


class Topics:
    def topic_ids(self, topics: object) -> dict[str, str | None]:
        return {"t": "id"}


def run(writer: Writer, fates: Fates, record: StateRecord = RECORD, *, again: bool = False) -> Ack:
    assignment = Assignment(KEY, record, "layout", 99, again=again, alone=True)
    plan = ReadPlan({TP: OffsetRange(5, 30)}, {TP: Span(assignment.range, record.sent.chunk_offsets)}, 10**6)
    letters = lambda _, writer: TableLetters(writer, PLACE)  # noqa: E731 - a name for its type
    lander = PieceLander({TP: assignment}, prepare, lambda _: writer, Topics(), fates, letters)
    batches: Iterator[pa.RecordBatch] = iter([batch()])
    return run_task(7, batches, plan, lander)


def test_dead_letters_are_one_insert_of_their_own_before_the_chunks_pieces() -> None:
    writer = Writer()
    ack = run(writer, DEAD)
    assert [(shard, token) for shard, token, _ in writer.sent] == [
        (PLACE, letters_token(KEY, RECORD, 0)),
        (0, piece_token(KEY, RECORD, 0, 0)),
        (0, piece_token(KEY, RECORD, 1, 0)),
    ]
    sums = total([ack])
    assert (ack.error, sums.rows, sums.skipped, sums.dead_letters, sums.inserts) == (None, 8, 0, 2, 2)
    assert ack.chunks[0].first_dead_letter == "topic 't' partition 1 offset 12: column 'n': text is not UInt8"


def test_no_row_of_a_chunk_is_there_before_its_dead_letters_are() -> None:
    """⚑ A person who finds all rows of a range may say that it landed: its dead letters would never be delivered."""
    writer = Writer(refuses=PLACE)
    ack = run(writer, DEAD)
    assert ack.error is not None and writer.sent == []


def test_a_dead_letter_holds_the_record_bit_for_bit_and_why_it_is_bad() -> None:
    writer = Writer()
    run(writer, DEAD)
    letters = writer.sent[0][2]
    assert letters.schema.names == list(COLUMNS)
    first, second = letters.to_pylist()
    assert first == {
        "sink": "sink",
        "table": "db.t",
        "_kafka_topic": "t",
        "_kafka_partition": 1,
        "_kafka_offset": 12,
        "timestamp_ms": 1767323045678,
        "timestamp_type": 0,
        "key": b"\xff\x00",
        "value": b"\x8012",
        "headers": [{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}],
        "column": "n",
        "error_id": "CHS-501",
        "reason": "text is not UInt8",
    }
    assert (second["value"], second["headers"], second["column"]) == (None, [], "")


def test_a_tombstone_may_be_a_dead_letter_by_itself() -> None:
    writer = Writer()
    ack = run(writer, Fates(Fate.SKIP, Fate.DEAD_LETTER))
    assert writer.sent[0][2].column("_kafka_offset").to_pylist() == [TOMBSTONE]
    assert (total([ack]).skipped, total([ack]).dead_letters) == (1, 1)


def test_a_halt_comes_before_any_dead_letter_of_the_chunk() -> None:
    writer = Writer()
    ack = run(writer, Fates(Fate.HALT, Fate.DEAD_LETTER))
    assert ack.error is not None and from_wire(*ack.error).id == "CHS-501"
    assert writer.sent == []


@pytest.mark.parametrize(("there", "places"), [({}, [PLACE, 0, 0]), ({12: 1, 13: 1}, [0, 0])])
def test_doubtful_dead_letters_are_looked_for(there: dict[int, int], places: list[int]) -> None:
    writer = Writer(there={PLACE: there})
    ack = run(writer, DEAD, replace(RECORD, doubt=Unsettled(probe=True)))
    assert [shard for shard, _, _ in writer.sent] == places
    assert total([ack]).dead_letters == 2


def test_some_of_doubtful_dead_letters_are_a_halt() -> None:
    writer = Writer(there={PLACE: {12: 1}})
    ack = run(writer, DEAD, replace(RECORD, doubt=Unsettled(probe=True)))
    assert ack.error is not None and from_wire(*ack.error).id == "CHS-333"
    assert writer.sent == []


def test_doubtful_dead_letters_that_the_table_drops_are_a_halt() -> None:
    """⚑ As a piece's: a person deleted them, and the table still remembers their token."""
    ack = run(Writer(drops=True), DEAD, replace(RECORD, doubt=Unsettled(probe=True)))
    assert ack.error is not None and from_wire(*ack.error).id == "CHS-333"


@pytest.mark.parametrize(
    ("writer", "halts"),
    [
        (Writer(), False),
        (Writer(there={PLACE: THERE}, drops=True), False),
        (Writer(drops=True), True),
        (Writer(there={PLACE: THERE}), True),
    ],
)
def test_dead_letters_that_are_sent_again_must_be_there_once(writer: Writer, halts: bool) -> None:
    """⚑ Their tokens are trusted.  Somebody deleted them, or detached and attached their part."""
    ack = run(writer, DEAD, again=True)
    assert (ack.error and from_wire(*ack.error).id) == ("CHS-333" if halts else None)


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [("none", (0, 10), (1, 10)), ("2 per 10", (2, 3), (3, 19)), ("2 per 10", (4, 20), (5, 29)), ("all", (9, 9), None)],
)
def test_tolerance(text: str, allowed: tuple[int, int], refused: tuple[int, int] | None) -> None:
    limit = tolerance(text)
    assert limit is None or limit.allows(*allowed)
    assert refused is None or (limit is not None and not limit.allows(*refused))


def test_a_chunk_with_too_many_bad_values_halts_before_it_is_sent() -> None:
    writer = Writer()
    ack = run(writer, replace(DEAD, tolerance=Tolerance(1, 100)))
    assert ack.error is not None
    error = from_wire(*ack.error)
    assert error.id == "CHS-513" and "2 of the 5 records at offsets [10, 15)" in error.message
    assert writer.sent == []


def test_tombstones_with_a_fate_of_their_own_are_not_counted() -> None:
    assert run(Writer(), Fates(Fate.DEAD_LETTER, Fate.SKIP, Tolerance(1, 100))).error is None
