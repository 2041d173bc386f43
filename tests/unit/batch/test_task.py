"""One task: what it sends, under which names, what it refuses, and how much it holds in memory."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.batch.model import Ack, ChunkAck, total
from chsink.batch.reader import ReadPlan, Span
from chsink.batch.task import run_task
from chsink.clickhouse.kept import Kept, ShardRange
from chsink.clickhouse.pieces import Piece, PieceLander, Prepared, sent_again
from chsink.dlq.fates import Fate, Fates
from chsink.driver.roles import Assignment
from chsink.errors import ChsinkError, services
from chsink.errors.catalogue import from_wire
from chsink.ports import BadValue, InsertResult, Word
from chsink.statemachine.chunks import chunks
from chsink.statemachine.parts import Sending, TopicLife, Unsettled
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.tokens import piece_token
from tests.support.examples import examples

TP = TopicPartition("t", 1)
MISFIT = "a record does not fit its table: "
KEY = StateKey("sink", "t", 1, "db.t")
RECORD = StateRecord(Phase.BEFORE, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(4, "L", "P"))


def batch(*offsets: int | None, topic: str = "t", partition: int = 1) -> pa.RecordBatch:
    n = len(offsets)
    numbers, partitions = pa.array(offsets, pa.int64()), pa.array([partition] * n, pa.int32())
    return pa.record_batch({"topic": pa.array([topic] * n, pa.string()), "partition": partitions, "offset": numbers})


@dataclass
class Writer:
    """Keeps what it is given; ``fail_at`` fails that insert; ``there`` answers probes: offsets by (shard, start), beside
    what was sent, but for the pieces at ``dropped``.  Inserts ``unsure_at`` failed at first.  ``searched``: rows can be found, unless it ``refuses`` to look.
    """

    sent: list[tuple[int, list[int], str, int]] = field(default_factory=list)
    probes: list[tuple[int, OffsetRange]] = field(default_factory=list)
    wholes: list[tuple[int, OffsetRange]] = field(default_factory=list)
    recent: set[bool] = field(default_factory=set)
    there: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    dropped: tuple[tuple[int, int], ...] = ()
    searched: bool = True
    refuses: bool = False
    fed: tuple[str, ...] = ()
    fail_at: int | None = None
    unsure_at: tuple[int, ...] = ()

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        assert table == "db.t"
        if len(self.sent) == self.fail_at:
            raise services.KAFKA_UNAVAILABLE(bootstrap="here", reason="no answer")
        self.sent.append((shard, batch.column("offset").to_pylist(), token, deadline_ms))
        unsure = len(self.sent) - 1 in self.unsure_at
        return InsertResult(batch.num_rows, 8 * batch.num_rows, int(unsure), unsure)

    def rows_there(self, shard: int, table: str, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
        assert table == "db.t"
        self.recent.add(False)
        return self._rows(shard, partition, offsets)

    def recent_rows(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int] | None:
        self.recent.add(True)
        return None if self.refuses else self._rows(shard, partition, offsets)

    def recent_words(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, Word] | None:
        assert partition == TP
        self.recent.add(True)
        self.wholes.append((shard, offsets))
        if self.refuses:
            return None
        rows = Counter[int]()
        for part in chunks(OffsetRange(10, 20), 4):
            rows.update(self._found(shard, part.overlap(offsets)))
        return in_words(rows)

    def _rows(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
        assert partition == TP
        self.probes.append((shard, offsets))
        return self._found(shard, offsets)

    def _found(self, shard: int, offsets: OffsetRange) -> dict[int, int]:
        kept = [] if (shard, offsets.start) in self.dropped else self.sent
        sent = [o for at, piece, *_ in kept for o in piece if at == shard and offsets.start <= o < offsets.end]
        return dict(Counter([*self.there.get((shard, offsets.start), []), *sent]))

    def can_probe(self, shard: int) -> bool:
        return self.searched

    def views(self, shard: int) -> tuple[str, ...]:
        return self.fed

    @property
    def offsets(self) -> list[list[int]]:
        return [offsets for _, offsets, _, _ in self.sent]


def in_words(rows: Mapping[int, int]) -> dict[int, Word]:
    """As a table answers."""
    words: dict[int, Word] = {}
    for offset, count in rows.items():
        bits, before = words.get(offset // 64, Word(0, 0))
        words[offset // 64] = Word(bits | 1 << offset % 64, before + count)
    return words


@dataclass
class Topics:
    """The topic's id at each question, the last one from then on."""

    ids: list[str] = field(default_factory=lambda: ["id"])
    asked: int = 0

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        self.asked += 1
        return dict.fromkeys(topics, self.ids[min(self.asked, len(self.ids)) - 1])


def one_shard(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
    return Prepared((Piece(0, records),))


def two_shards(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
    odd = pc.equal(pc.bit_wise_and(records.column("offset"), 1), 1)
    records = records.append_column("_kafka_offset", records.column("offset"))
    parts = [records.filter(pc.invert(odd)), records.filter(odd)]
    return Prepared(tuple(Piece(n, p) for n, p in enumerate(parts) if p.num_rows))


@dataclass(frozen=True)
class Task:
    """A task of the sink, as the executor would make it."""

    plan: ReadPlan
    lander: PieceLander

    def run(self, batches: Iterator[pa.RecordBatch]) -> Ack:
        return run_task(7, batches, self.plan, self.lander)


def context(writer: Writer, *, record: StateRecord = RECORD, probe: bool = False) -> Task:
    assignment = Assignment(KEY, replace(record, doubt=replace(record.doubt, probe=probe)), "layout", 99)
    planned = {TP: OffsetRange(5, 30), TopicPartition("t", 2): OffsetRange(0, 100)}
    plan = ReadPlan(planned, {TP: Span(assignment.range, record.sent.chunk_offsets)}, max_chunk_bytes=10**6)
    return Task(plan, PieceLander({TP: assignment}, one_shard, lambda _: writer, Topics()))


def run(writer: Writer, *batches: pa.RecordBatch, **changes: object) -> Ack:
    task = context(writer)
    return replace(task, lander=replace(task.lander, **changes)).run(iter(batches))  # type: ignore[arg-type]


def reported(ack: Ack) -> ChsinkError:
    """The error of a task, as the driver gets it."""
    assert ack.error is not None
    return from_wire(*ack.error)


def covered(ack: Ack) -> list[tuple[int, int]]:
    return [(c.start, c.end) for c in ack.chunks]


TILES = [(10, 14), (14, 18), (18, 20)]


# --- the topic that was read ---------------------------------------------------------------------------------------


def test_nothing_of_a_topic_that_was_recreated_under_the_read_is_sent() -> None:
    """⚑ the new topic's records would land under the old one's range."""
    writer, kafka = Writer(), Topics(["id", "new"])
    ack = run(writer, batch(*range(10, 20)), kafka=kafka)
    assert reported(ack).id == "CHS-308"
    assert "id changed from id to new" in str(reported(ack))
    assert (writer.offsets, covered(ack)) == ([[10, 11, 12, 13]], [(10, 14)])


def test_each_chunk_is_read_before_the_topic_is_asked_for() -> None:
    kafka = Topics()
    run(Writer(), batch(*range(10, 20)), kafka=kafka)
    assert kafka.asked == 3


def test_brokers_without_topic_ids_are_not_asked() -> None:
    kafka, writer = Topics(), Writer()
    task = context(writer, record=replace(RECORD, life=replace(RECORD.life, topic_id=None)))
    replace(task, lander=replace(task.lander, kafka=kafka)).run(iter([batch(*range(10, 20))]))
    assert (kafka.asked, len(writer.sent)) == (0, 3)


# --- cutting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 7, 20])
def test_chunks_do_not_depend_on_how_the_input_is_cut(cut: int) -> None:
    writer, offsets = Writer(), list(range(10, 20))
    ack = run(writer, *(batch(*offsets[i : i + cut]) for i in range(0, 10, cut)))
    assert writer.offsets == [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]
    assert (ack.task, ack.topic_partition, covered(ack), ack.error) == (7, TP, TILES, None)


def test_every_piece_has_the_token_of_the_recorded_range_and_the_deadline() -> None:
    writer = Writer()
    run(writer, batch(*range(10, 20)))
    assert [(t, d) for _, _, t, d in writer.sent] == [(piece_token(KEY, RECORD, n, 0), 99) for n in range(3)]


def test_only_the_assigned_part_of_the_batch_is_sent() -> None:
    writer = Writer()
    ack = run(writer, batch(*range(5, 12)), batch(*range(12, 30)))
    assert writer.offsets == [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]
    assert covered(ack) == TILES


def test_gaps_do_not_move_the_chunks() -> None:
    """Compaction removed 11..16 and the last offsets are transaction markers."""
    writer = Writer()
    ack = run(writer, batch(10, 17))
    assert writer.offsets == [[10], [17]]
    assert [t for _, _, t, _ in writer.sent] == [piece_token(KEY, RECORD, n, 0) for n in (0, 1)]
    assert covered(ack) == TILES
    assert ack.chunks[2] == ChunkAck(18, 20)


def test_a_whole_chunk_may_be_empty_also_the_first() -> None:
    writer = Writer()
    ack = run(writer, batch(19))
    assert (writer.offsets, covered(ack)) == ([[19]], TILES)
    assert writer.sent[0][2] == piece_token(KEY, RECORD, 2, 0)


def test_an_assigned_range_without_records_is_covered_when_others_were_seen() -> None:
    writer = Writer()
    ack = run(writer, batch(5, 6), batch(25))
    assert (writer.sent, covered(ack)) == ([], TILES)


def test_rows_of_one_record_stay_together() -> None:
    """A transform may give several rows a record: equal offsets, also across input batches."""
    writer = Writer()
    run(writer, batch(12, 13, 13), batch(13, 14))
    assert writer.offsets == [[12, 13, 13, 13], [14]]


def test_no_record_at_all_gives_an_anonymous_ack() -> None:
    ack = run(Writer(), batch(), batch())
    assert (ack.topic_partition, ack.chunks, ack.error) == (None, (), None)


def test_a_partition_without_an_assignment_is_read_and_left() -> None:
    writer = Writer()
    ack = run(writer, batch(1, 2, 3, partition=2))
    assert (writer.sent, ack.topic_partition, ack.chunks) == ([], TopicPartition("t", 2), ())


def test_an_ack_adds_up_and_crosses_as_json() -> None:
    writer = Writer()
    ack = run(writer, batch(*range(10, 20)), prepare=two_shards)
    assert Ack.from_json(ack.to_json()) == ack
    sums = total([ack, ack])
    assert (sums.records, sums.rows, sums.inserts, sums.bytes) == (20, 20, 12, 160)


def test_a_failed_ack_crosses_as_json() -> None:
    ack = run(Writer(fail_at=0), batch(*range(10, 20)))
    assert Ack.from_json(ack.to_json()) == ack


# --- refused input -------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[list[pa.RecordBatch], str]] = {
    "two partitions in a batch": (
        [pa.record_batch({"topic": ["t", "t"], "partition": pa.array([1, 2], pa.int32()), "offset": [10, 11]})],
        "of other topic-partitions",
    ),
    "two topics in a batch": (
        [pa.record_batch({"topic": ["t", "u"], "partition": pa.array([1, 1], pa.int32()), "offset": [10, 11]})],
        "of other topic-partitions",
    ),
    "two partitions in two batches": ([batch(10), batch(11, partition=2)], "of other topic-partitions"),
    "descending in a batch": ([batch(11, 10)], "not in ascending order"),
    "descending between batches": ([batch(10, 12), batch(11, 13)], "not in ascending order"),
    "below the plan": ([batch(4, 10)], "outside the planned range [5, 30)"),
    "above the plan": ([batch(10, 30)], "outside the planned range [5, 30)"),
    "no plan for it": ([batch(1, partition=9)], "outside the planned range None"),
    "no offset": ([batch(10, None)], "have no offset"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    batches, sentence = REFUSED[name]
    writer = Writer()
    ack = run(writer, *batches)
    error = reported(ack)
    assert (error.id, error.exit_code) == ("CHS-602", 2)
    assert sentence in error.message
    assert not any(13 in sent for sent in writer.offsets)


def test_chunks_before_the_refused_batch_are_acknowledged() -> None:
    writer = Writer()
    ack = run(writer, batch(*range(10, 16)), batch(12))
    assert ack.error is not None
    assert (covered(ack), writer.offsets) == ([(10, 14)], [[10, 11, 12, 13]])


def test_a_chunk_is_not_sent_before_it_is_complete() -> None:
    """10..13 are there, but nothing has shown that 13 is the chunk's last row."""
    writer = Writer()
    ack = run(writer, batch(10, 11, 12, 13), batch(9))
    assert ack.error is not None
    assert (writer.sent, ack.chunks) == ([], ())


# --- errors of inserts and values ----------------------------------------------------------------------------------


def test_an_insert_that_fails_is_reported_after_the_chunks_that_landed() -> None:
    ack = run(Writer(fail_at=1), batch(*range(10, 20)))
    assert covered(ack) == [(10, 14)]
    assert reported(ack).id == "CHS-702"


def test_an_insert_that_fails_on_the_last_chunk_is_reported() -> None:
    ack = run(Writer(fail_at=2), batch(*range(10, 20)))
    assert (covered(ack), reported(ack).id) == ([(10, 14), (14, 18)], "CHS-702")


def test_a_defect_is_raised_and_not_acknowledged() -> None:
    def broken(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Writer(), batch(*range(10, 20)), prepare=broken)


def rejecting(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
    offsets = records.column("offset").to_pylist()
    bad = tuple(BadValue(i, "n", "text is not UInt8") for i, o in enumerate(offsets) if o in (15, 17))
    kept = records.filter(pa.array([o not in (15, 17) for o in offsets]))
    return Prepared((Piece(0, kept),) if kept.num_rows else (), bad)


def test_a_bad_value_halts_naming_where_and_never_what() -> None:
    ack = run(Writer(), batch(*range(10, 20)), prepare=rejecting)
    error = reported(ack)
    assert (error.id, error.exit_code) == ("CHS-501", 3)
    assert (
        error.message
        == f"{MISFIT}topic 't' partition 1 offset 15: column 'n': text is not UInt8 (and 1 more in this chunk)"
    )
    assert covered(ack) == [(10, 14)]


def test_a_bad_value_is_skipped_and_counted() -> None:
    writer = Writer()
    ack = run(writer, batch(*range(10, 20)), prepare=rejecting, fates=Fates(Fate.SKIP))
    assert writer.offsets == [[10, 11, 12, 13], [14, 16], [18, 19]]
    assert (ack.error, total([ack]).skipped, total([ack]).records) == (None, 2, 10)
    assert next(c.first_skipped for c in ack.chunks if c.skipped).startswith("topic 't' partition 1 offset 1")


def with_tombstones(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
    """15 is a tombstone, 17 is bad."""
    prepared = rejecting(records, assignment)
    offsets = records.column("offset").to_pylist()
    return replace(prepared, rejected=tuple(replace(b, tombstone=offsets[b.row] == 15) for b in prepared.rejected))


def test_a_tombstone_is_a_bad_value_unless_it_is_skipped() -> None:
    ack = run(Writer(), batch(*range(10, 17)), prepare=with_tombstones)
    assert reported(ack).message.startswith(f"{MISFIT}topic 't' partition 1 offset 15: ")


def test_skipped_tombstones_are_counted_and_halt_nothing() -> None:
    writer = Writer()
    ack = run(writer, batch(*range(10, 17)), prepare=with_tombstones, fates=Fates(tombstone=Fate.SKIP))
    assert writer.offsets == [[10, 11, 12, 13], [14, 16]]
    assert (ack.error, total([ack]).skipped, total([ack]).records) == (None, 1, 7)


def test_a_bad_value_behind_a_skipped_tombstone_halts() -> None:
    ack = run(Writer(), batch(*range(10, 20)), prepare=with_tombstones, fates=Fates(tombstone=Fate.SKIP))
    assert reported(ack).message == f"{MISFIT}topic 't' partition 1 offset 17: column 'n': text is not UInt8"


def test_max_chunk_bytes() -> None:
    task = context(Writer())
    ack = replace(task, plan=replace(task.plan, max_chunk_bytes=40)).run(iter([batch(*range(10, 20))]))
    assert reported(ack).id == "CHS-603" and "chunk [10, 14)" in reported(ack).message


# --- probing -------------------------------------------------------------------------------------------------------


def probing(writer: Writer) -> Ack:
    assignment = Assignment(KEY, replace(RECORD, doubt=Unsettled(probe=True)), "layout", deadline_ms=99)
    return run(writer, batch(*range(10, 20)), prepare=two_shards, assignments={TP: assignment})


def test_probe_sends_only_pieces_that_are_missing_whole() -> None:
    writer = Writer(there={(0, 10): [10, 12], (1, 10): [11, 13], (0, 14): [14, 16]})
    ack = probing(writer)
    assert [(s, o) for s, o, _, _ in writer.sent] == [(1, [15, 17]), (0, [18]), (1, [19])]
    looked = [(shard, offsets.start) for shard, offsets in writer.probes]
    assert looked == [(0, 10), (1, 10), (0, 14), (1, 14), (1, 14), (0, 18), (0, 18), (1, 18), (1, 18)]
    assert (covered(ack), total([ack]).inserts) == (TILES, 3)


def test_what_the_table_drops_after_a_probe_is_a_halt() -> None:
    """⚑ A person deleted the rows of a range in doubt, as a refusal named them, and started the job: the table, which
    still remembered the token, dropped the piece.
    """
    ack = probing(Writer(dropped=((1, 14),)))
    assert reported(ack).id == "CHS-314" and "dropped a piece of 2 rows as a duplicate" in reported(ack).message
    assert covered(ack) == [(10, 14)]


def test_probe_never_completes_a_piece_that_is_there_in_part() -> None:
    writer = Writer(there={(0, 14): [14]})
    ack = probing(writer)
    assert reported(ack).id == "CHS-314" and "holds 1 of the piece's 2 rows" in reported(ack).message
    assert covered(ack) == [(10, 14)]


@pytest.mark.parametrize("there", [[14, 14, 16], [14, 14], [15], [13, 14]])
def test_other_rows_than_the_piece_s_are_never_taken_for_it(there: list[int]) -> None:
    assert reported(probing(Writer(there={(0, 14): there}))).id == "CHS-314"


def test_a_piece_that_lost_records_to_compaction_since_is_there() -> None:
    """Sent with 10..13; compaction then removed 12 from the topic: what is left of the piece is in the table."""
    writer = Writer(there={(0, 10): [10, 12]})
    assignment = Assignment(KEY, replace(RECORD, doubt=Unsettled(probe=True)), "layout", deadline_ms=99)
    ack = run(writer, batch(10, 11, 13), prepare=two_shards, assignments={TP: assignment})
    assert (ack.error, writer.offsets) == (None, [[11, 13]])


def test_rows_in_the_table_prove_nothing_about_its_views() -> None:
    writer = Writer(there={(0, 10): [10, 12]}, fed=("db.v",))
    ack = probing(writer)
    assert [c.unproven for c in Ack.from_json(ack.to_json()).chunks] == [("db.v",), (), ()]
    assert len(writer.sent) == 5, "what is not there was given to no view, and is sent"


# --- looking after a send --------------------------------------------------------------------------------------------


def settling(writer: Writer, *, again: bool = True, alone: bool = True) -> Ack:
    """A range whose tokens are trusted."""
    assignment = Assignment(KEY, RECORD, "layout", deadline_ms=99, again=again, alone=alone)
    return run(writer, batch(*range(10, 20)), prepare=two_shards, assignments={TP: assignment})


@pytest.mark.parametrize(("again", "searched"), [(False, True), (True, False)])
def test_some_pieces_are_not_looked_for(again: bool, searched: bool) -> None:
    """The range is announced for the first time, or rows cannot be found."""
    writer = Writer(there={(0, 10): [10, 11, 12, 13]}, searched=searched)
    assert settling(writer, again=again).error is None
    assert (writer.probes, writer.wholes, len(writer.sent)) == ([], [], 6)


@pytest.mark.parametrize(("unsure_at", "halts"), [((), False), ((3,), True), ((0, 3), True), ((0, 2), False)])
def test_a_new_piece_whose_first_send_failed_is_looked_for(unsure_at: tuple[int, ...], halts: bool) -> None:
    """⚑ A plain MergeTree had noted its token and not stored its rows: AFTER was recorded, and they were lost."""
    ack = settling(Writer(dropped=((1, 14),), unsure_at=unsure_at), again=False)
    assert (ack.error is not None and reported(ack).name == "PIECE_DROPPED") == halts


@pytest.mark.parametrize("again", [False, True])
def test_what_another_attempt_of_spark_sends_is_looked_for(*, again: bool) -> None:
    """⚑ As before, but the executor died before it could send the piece once more: nobody had looked."""
    assignments = {TP: Assignment(KEY, RECORD, "layout", deadline_ms=99, alone=True)}
    mine = sent_again(assignments) if again else assignments
    ack = run(Writer(dropped=((1, 14),)), batch(*range(10, 20)), prepare=two_shards, assignments=mine)
    assert (ack.error is not None and reported(ack).name == "PIECE_DROPPED") == again


def test_the_pieces_of_a_range_in_doubt_are_looked_for_at_once() -> None:
    """The first piece on each shard, then one question for all others.  Only parts that took an insert since BEFORE are
    read.
    """
    writer = Writer()
    ack = settling(writer)
    assert (covered(ack), len(writer.sent), writer.recent) == (TILES, 6, {True})
    assert writer.probes == [(0, OffsetRange(10, 14)), (1, OffsetRange(10, 14))]
    assert writer.wholes == [(0, OffsetRange(14, 20)), (1, OffsetRange(14, 20))]


def test_a_range_of_one_piece_is_looked_for_once() -> None:
    writer = Writer()
    assignment = Assignment(
        KEY, replace(RECORD, sent=replace(RECORD.sent, chunk_offsets=10)), "layout", 99, again=True, alone=True
    )
    plan = ReadPlan({TP: RECORD.range}, {TP: Span(RECORD.range, 10)}, 10**6)
    task = Task(plan, PieceLander({TP: assignment}, two_shards, lambda _: writer, Topics()))
    assert task.run(iter([batch(*range(10, 20))])).error is None
    assert (writer.probes, writer.wholes) == ([(0, RECORD.range), (1, RECORD.range)], [])


def test_a_piece_that_is_not_there_once_is_looked_for_by_itself() -> None:
    """So are those with which it shares a word of 64 offsets."""
    writer = Writer(there={(1, 14): [15]})
    assert settling(writer, alone=False).error is None
    assert writer.probes[2:] == [(1, OffsetRange(start, end)) for start, end in TILES[1:]]
    assert writer.recent == {True}


def test_a_record_with_several_rows_is_looked_for_in_its_piece() -> None:
    """A bit cannot tell how many rows it has."""

    def doubled(records: pa.RecordBatch, _: Assignment) -> Prepared:
        records = records.append_column("_kafka_offset", records.column("offset"))
        return Prepared((Piece(0, pa.concat_batches([records, records])),))

    writer = Writer()
    assignment = Assignment(KEY, RECORD, "layout", deadline_ms=99, again=True, alone=True)
    ack = run(writer, batch(*range(10, 20)), prepare=doubled, assignments={TP: assignment})
    assert (ack.error, writer.wholes) == (None, [])
    assert writer.probes == [(0, OffsetRange(start, end)) for start, end in TILES]


@settings(max_examples=examples(300))
@given(
    st.lists(st.lists(st.integers(0, 199), max_size=9, unique=True), min_size=1, max_size=4),
    st.lists(st.integers(0, 900), max_size=5),
    st.lists(st.integers(0, 30), max_size=2),
    st.booleans(),
)
def test_words_find_what_offsets_find(
    chunked: list[list[int]], more: list[int], without: list[int], alone: bool
) -> None:
    """⚑ Whatever is missing or there twice, and whichever words it shares: the error is that of a look at each piece."""
    pieces = {OffsetRange(200 * n, 200 * n + 200): [200 * n + o for o in some] for n, some in enumerate(chunked)}
    sent = [offset for some in pieces.values() for offset in some]
    held = Counter(offset for n, offset in enumerate(sent) if n not in without) + Counter(more)

    class Table(Writer):
        def rows_there(self, shard: int, table: str, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
            return {o: n for o, n in held.items() if offsets.start <= o < offsets.end}

        def recent_rows(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, int]:
            return self.rows_there(shard, "db.t", partition, offsets)

        def recent_words(self, shard: int, partition: TopicPartition, offsets: OffsetRange) -> dict[int, Word]:
            return in_words(self.recent_rows(shard, partition, offsets))

    place, found = ShardRange(Assignment(KEY, RECORD, "layout", 99, again=True, alone=alone), 0, Table()), []
    for at_once in (True, False):
        kept = Kept()
        try:
            for offsets, some in pieces.items():
                piece = pa.record_batch({"_kafka_offset": pa.array(some, pa.uint64())})
                if at_once and some:
                    kept.sent(place, offsets, piece)
                elif some:
                    place.check_kept(offsets, Counter(some))
            kept.check()
        except ChsinkError as error:
            found.append((error.name, error.params))
        else:
            found.append(("", {}))
    assert found[0] == found[1]


def test_a_server_that_refuses_to_look_for_rows_stops_nobody() -> None:
    """A limit of the user's profile, for instance.  The tokens are trusted."""
    writer = Writer(refuses=True, dropped=((1, 14),))
    assert (settling(writer).error, len(writer.sent)) == (None, 6)


def test_what_the_table_drops_and_does_not_have_is_a_halt() -> None:
    """⚑ A person deleted rows of a range in doubt and started the job.  The table still remembered the token."""
    ack = settling(Writer(dropped=((1, 14),)))
    assert (reported(ack).name, reported(ack).params["offsets"]) == ("PIECE_DROPPED", "[14, 18)")


def test_what_the_table_has_and_drops_is_fine() -> None:
    """It is given to the dependent views, if they lack it."""
    writer = Writer(there={(1, 14): [15, 17]}, dropped=((1, 14),))
    assert (settling(writer).error, len(writer.sent)) == (None, 6)


@pytest.mark.parametrize(("alone", "halts"), [(True, True), (False, False)])
def test_what_the_table_has_and_stores_again_is_a_halt(alone: bool, halts: bool) -> None:
    """⚑ A person detached and attached the part, so the token was forgotten.  But with a person's consent, these may be
    another sink's rows.
    """
    ack = settling(Writer(there={(1, 14): [15, 17]}), alone=alone)
    assert (ack.error is not None) is halts
    if halts:
        assert (reported(ack).name, reported(ack).params["offsets"]) == ("PIECE_STORED_AGAIN", "[14, 18)")


def test_rows_too_many_are_no_sign_of_a_dropped_piece() -> None:
    """Another sink inserted them, and a person accepted that."""
    assert settling(Writer(there={(0, 14): [14, 15, 16]}), alone=False).error is None


# --- overlap and memory --------------------------------------------------------------------------------------------


class Gate(Writer):
    """Inserts wait until the reader has been asked for ``ahead`` more batches."""

    def __init__(self) -> None:
        super().__init__()
        self.read_on = threading.Event()
        self.overlapped = False

    def insert(self, shard: int, table: str, batch: pa.RecordBatch, token: str, deadline_ms: int) -> InsertResult:
        if not self.sent:
            self.overlapped = self.read_on.wait(10)
        return super().insert(shard, table, batch, token, deadline_ms)


def test_the_next_chunk_is_read_while_one_is_inserted() -> None:
    writer = Gate()

    def source() -> Iterator[pa.RecordBatch]:
        yield batch(*range(10, 15))
        yield batch(15, 16)  # asked for after chunk [10,14) was handed over, while its insert waits
        writer.read_on.set()
        yield batch(17, 18, 19)

    ack = context(writer).run(source())
    assert writer.overlapped
    assert covered(ack) == TILES


def test_at_most_two_chunks_are_read_and_not_yet_inserted() -> None:
    """However long the range, reading waits for inserting."""
    writer, held = Writer(), []
    record = replace(RECORD, start=0, end=400)

    def source() -> Iterator[pa.RecordBatch]:
        for offset in range(400):
            held.append(offset - sum(len(o) for o in writer.offsets))
            yield batch(offset)

    task = context(writer, record=record)
    ack = replace(task, plan=replace(task.plan, planned={TP: OffsetRange(0, 400)})).run(source())
    assert len(ack.chunks) == 100
    # one chunk under way, one complete, and the row that completed it
    assert max(held) <= 2 * 4 + 1
