"""Fields without a column: counted, or reported before anything of their chunk is sent."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from chsink.batch.model import Ack, ChunkAck
from chsink.batch.reader import Chunk
from chsink.clickhouse.look_ahead import LookAhead
from chsink.clickhouse.pieces import PieceLander, Prepared
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.unknown_fields import NAMED, SAMPLE, FieldWatch, missing_columns, watch_of
from chsink.decode.columns import Column
from chsink.decode.inferred import narrowest
from chsink.driver.roles import Assignment
from chsink.errors import AlteredError, PreflightError, preflight
from chsink.errors.catalogue import from_wire
from chsink.formats.settings import JSON
from chsink.notation.metadata_columns import LONGEST_NAME, is_column_name
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey
from tests.unit.clickhouse.server import Server, StoppedClock, in_doubt, table

TP = TopicPartition("topic", 3)
COLUMNS = (Column("id", "Int64"), Column("made", "String", "MATERIALIZED", "x"), Column("n.a", "Array(Int8)"))


def watch(most: int = 100, *added: Column) -> FieldWatch:
    """Of a range that was announced with ``COLUMNS``, for a table that has gained others since."""
    described = replace(table(), columns=(*COLUMNS, *added))
    target = RoutedTable("topic", "db.t", (ShardTable(Server(StoppedClock()), described),))
    return watch_of(JSON, target, frozenset({"named"}), {"id", "n.a"}, most)


def records(*values: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([json.dumps(v).encode() for v in values], pa.binary())})


KNOWN = {"id": 1, "made": "x", "n": [{"a": 1}], "named": 1}
INT, FLOAT, TEXT = "Nullable(Int64)", "Nullable(Float64)", "Nullable(String)"
WHOLE = f"{INT} or {FLOAT}"
"""Whole numbers that a float holds, too."""


def test_counted_by_name_on_the_first_records() -> None:
    some = records(KNOWN, *[{**KNOWN, "more": 1}] * SAMPLE)
    some = some.slice(0, SAMPLE)
    assert watch().counts(some) == {"more": SAMPLE - 1}
    assert pickle.loads(pickle.dumps(watch())).counts(some) == {"more": SAMPLE - 1}
    assert len(watch().counts(records({f"f{n}": n for n in range(300)}))) == NAMED


def test_long_names_are_cut_before_they_go_to_the_driver() -> None:
    """⚑ A hundred names of a megabyte in each chunk would not fit a task's answer."""
    found = watch().counts(records({"x" * 1_000_000: 1, "x" * 1_000_000 + "y": 1}))
    assert found == {"x" * LONGEST_NAME: 2}


def reported(*values: Mapping[str, Any], most: int = 100) -> dict[str, str]:
    with pytest.raises(AlteredError, match=r"CHS-287.*topic-3: .*db\.t") as raised:
        watch(most).columns(records(*values), TP)
    crossed = from_wire(*(raised.value.name, raised.value.params))
    [(name, columns)] = missing_columns(crossed).items()
    assert name == "db.t"
    return columns


def test_every_record_is_looked_at_before_its_chunk_is_sent() -> None:
    last = [KNOWN] * (SAMPLE * 2) + [{"more": 1, "gone": None, "a.b": 1, "_kafka_key": "x"}]
    assert reported(*last) == {"more": WHOLE}


def test_names_are_as_they_are_written() -> None:
    """⚑ Letters beyond ASCII were escaped."""
    with pytest.raises(AlteredError, match='"größe": "') as raised:
        watch().columns(records({"größe": 1}), TP)
    assert missing_columns(raised.value) == {"db.t": {"größe": WHOLE}}


def test_fields_that_get_no_column_do_not_keep_a_chunk_back() -> None:
    assert watch().columns(records(KNOWN, {"gone": None, "empty": [], "a.b": 1, "_kafka_key": "x", "": 1}), TP) == ()


def test_no_field_is_left_out_where_the_table_is_full() -> None:
    with pytest.raises(PreflightError, match=r"CHS-289.*db\.t.*: a, b\n"):
        watch(len(COLUMNS) + 1).columns(records({"a": 1, "b": 1}), TP)
    assert reported({"a": 1}, most=len(COLUMNS) + 1) == {"a": WHOLE}


MORE, BY_HAND = Column("more", "Nullable(Int64)"), Column("by_hand", "Int64")


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (KNOWN, ()),
        ({**KNOWN, "more": None}, ()),
        ({**KNOWN, "more": 5}, (MORE,)),
        ({**KNOWN, "more": "not a number"}, (MORE,)),
        ({**KNOWN, "by_hand": 1}, (BY_HAND,)),
        ({**KNOWN, "more": 1, "by_hand": 1}, (BY_HAND, MORE)),
    ],
)
def test_a_chunk_has_the_columns_of_its_own_fields_whatever_else_was_added(
    value: Mapping[str, Any], columns: tuple[Column, ...]
) -> None:
    """⚑ A column that needs a value would make dead letters of records whose rows have landed without it."""
    some = records(KNOWN, value)
    assert watch(100, BY_HAND, MORE).columns(some, TP) == columns
    if columns == (MORE,):
        assert watch(100, MORE, BY_HAND, Column("third", "String")).columns(some, TP) == columns
    if columns == ():
        assert watch().columns(some, TP) == ()


@pytest.mark.parametrize("name", ["", "a.b", "_kafka_offset", "x" * 201, "a\nb", "\ud800"])
def test_names_without_a_column(name: str) -> None:
    assert not is_column_name(name)
    assert is_column_name("größe 1")


@pytest.mark.parametrize(
    ("one", "other", "added"),
    [
        (WHOLE, WHOLE, INT),
        (WHOLE, INT, INT),
        (WHOLE, FLOAT, FLOAT),
        (INT, FLOAT, TEXT),
        (WHOLE, "Nullable(Int256)", "Nullable(Int256)"),
        (WHOLE, "Nullable(Bool)", TEXT),
        (WHOLE, TEXT, TEXT),
    ],
)
def test_what_several_tasks_report_is_added_at_once(one: str, other: str, added: str) -> None:
    """⚑ A float only where it is none of the whole numbers that it would round, of whatever task."""

    def report(columns: Mapping[str, str]) -> AlteredError:
        error = preflight.COLUMNS_MISSING(tp=TP, table="db.t", columns=json.dumps(columns))
        assert isinstance(error, AlteredError)
        return error

    for left, right in ((one, other), (other, one)):
        first = report({"a": left, "b": "Nullable(Bool)"})
        first.parts = (first, report({"a": right, "c": TEXT}))
        [(table, columns)] = missing_columns(first).items()
        assert table == "db.t"
        assert {name: narrowest(kinds) for name, kinds in columns.items()} == {
            "a": added,
            "b": "Nullable(Bool)",
            "c": TEXT,
        }
    assert missing_columns(preflight.TABLE_CHANGED(table="db.t", url="u")) == {}


@dataclass
class Landing:
    """Lands chunks by a function; what it has landed is looked for at the end."""

    land: Callable[[Chunk], ChunkAck]
    finished: bool = False

    def __call__(self, chunk: Chunk) -> ChunkAck:
        return self.land(chunk)

    def finish(self) -> None:
        self.finished = True


def test_all_chunks_of_a_task_report_what_they_lack() -> None:
    """One chunk after the other is landed until one lacks a column; what the others lack is reported with it."""
    landed: list[int] = []

    def look(chunk: Chunk) -> None:
        watch(len(COLUMNS) + 3).columns(chunk.take(), TP)

    def land(chunk: Chunk) -> ChunkAck:
        if chunk.parts:
            look(chunk)
        landed.append(chunk.index)
        return ChunkAck(chunk.offsets.start, chunk.offsets.end)

    def told(*values: Mapping[str, Any] | None) -> tuple[int, dict[str, str]]:
        landed.clear()
        landing = Landing(land)
        ahead = LookAhead(landing, look, 3)
        chunks = [Chunk(TP, n, OffsetRange(n, n + 1), [records(v)] if v else []) for n, v in enumerate(values)]
        ack = ahead.told(Ack(0, TP.topic, TP.partition, tuple(map(ahead, chunks))))
        ahead.finish()
        assert [c.start for c in ack.chunks] == landed
        assert landing.finished == (ack.error is None), "otherwise all are sent and looked for again"
        return len(landed), {} if ack.error is None else json.loads(ack.error[1]["columns"])

    one, half, flag = {"a": 1}, {"a": 1.5}, {"b": True}
    assert told(KNOWN, None, KNOWN) == (3, {})
    assert told(KNOWN, one, KNOWN, None, flag) == (1, {"a": WHOLE, "b": "Nullable(Bool)"})
    assert told(one, {"a": 2**70}) == (0, {"a": "Nullable(Int256)"})
    assert told(one, {"a": "x"}) == (0, {"a": TEXT})
    assert told(one, half, flag) == told(half, flag, one) == (0, {"a": FLOAT, "b": "Nullable(Bool)"})
    assert told(one, {"a": 2**53 + 1}) == (0, {"a": INT})
    assert told(half, {"a": 2**53 + 1}) == told(one, {"a": 2**53 + 1}, half) == (0, {"a": TEXT}), "a float rounds it"
    room = {"a": WHOLE, "b": "Nullable(Bool)"}
    assert told(one, flag, {"c": 1, "d": 1}, {"e": 1}) == (0, room), "more than the table may have"
    assert told(one, {"c": 1, "d": 1, "e": 1, "f": 1}, flag) == (0, {"a": WHOLE}), "another error"


def test_an_error_that_is_no_missing_column_is_raised() -> None:
    def land(_: Chunk) -> ChunkAck:
        raise preflight.TABLE_CHANGED(table="db.t", url="u")

    with pytest.raises(AlteredError, match="CHS-233"):
        LookAhead(Landing(land), lambda _: None, 3)(Chunk(TP, 0, OffsetRange(0, 1), [records({"a": 1})]))


def test_nothing_of_a_chunk_with_such_a_field_is_sent() -> None:
    """⚑ Not its rows, and not its dead letters: whoever sent of the range sent none of the field's values."""

    def never(*_: object) -> Any:
        raise AssertionError("nothing may be sent")

    def prepare(records: pa.RecordBatch, assignment: Assignment) -> Prepared:
        watch().columns(records, assignment.topic_partition)
        return Prepared(())

    assignment = Assignment(StateKey("s", "topic", 3, "db.t"), in_doubt(1), "", 0)
    lander = PieceLander({TP: assignment}, prepare, never, never)  # type: ignore[arg-type]
    with pytest.raises(AlteredError, match="CHS-287"):
        lander(Chunk(TP, 0, OffsetRange(10, 15), [records({"more": 1})]))


def test_counts_cross_to_the_driver() -> None:
    assignment = Assignment(StateKey("s", "topic", 3, "db.t"), in_doubt(1), "", 0)
    lander = PieceLander(
        {TP: assignment},
        lambda *_: Prepared(()),
        lambda _: Server(StoppedClock()),  # type: ignore[arg-type, return-value]
        None,  # type: ignore[arg-type]
        unknown=lambda *_: {"more": 2},
    )
    ack = Ack(0, "topic", 3, (lander(Chunk(TP, 0, OffsetRange(10, 15), [records({"more": 1})])),))
    assert Ack.from_json(ack.to_json()).chunks[0].unknown == {"more": 2}
