"""What rows say of the records that a table holds: on a real catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from chsink.mirror.rows import _merged, _runs, found_row, row_ranges, timestamps
from chsink.statemachine.ranges import OffsetRange, TopicPartition

Open = Callable[[], Catalog]
FIELDS = (
    NestedField(1, "_kafka_topic", StringType()),
    NestedField(2, "_kafka_partition", IntegerType()),
    NestedField(3, "_kafka_offset", LongType()),
)


def table_of(open_catalog: Open, fields: tuple[NestedField, ...], *rows: tuple[Any, ...]) -> Table:
    table = open_catalog().create_table("shop.orders", Schema(*fields))
    for row in rows:  # each in a file of its own
        columns = {field.name: [value] for field, value in zip(fields, row, strict=True)}
        table.append(pa.table(columns, schema=table.schema().as_arrow()))
    return table


def rows_until(table: Table, topics: set[str], topic: str, partition: int) -> int | None:
    """The offset behind the last row; 0 if there is none, None if rows do not tell."""
    found = row_ranges(table, topics, topic, [partition])
    return None if found is None else max((each.end for each in found[partition]), default=0)


def test_rows_of_several_topics(open_catalog: Open) -> None:
    table = table_of(open_catalog, FIELDS, ("a", 0, 7), ("a", 0, 3), ("b", 0, 9), ("a", 1, 1))
    topics = {"a", "b"}
    assert [rows_until(table, topics, t, p) for t, p in (("a", 0), ("b", 0), ("a", 1), ("b", 1))] == [8, 10, 2, 0]
    assert found_row(table, topics, "b", [0, 1]) == "b-0, offset 9"
    assert found_row(table, topics, "b", [1]) == found_row(table, topics, "c", [0]) == ""


@pytest.mark.parametrize("row", [("a", 1, None), ("a", None, 3), (None, 1, 3)])
@pytest.mark.parametrize("counted", [True, False])
def test_a_row_that_may_be_of_any_record(open_catalog: Open, row: tuple[Any, ...], counted: bool) -> None:
    """⚑ The columns are younger than some rows: partition 1 seemed to have none, and landed again."""
    properties = {} if counted else {"write.metadata.metrics.default": "none"}
    catalog = open_catalog()
    catalog.create_table("shop.orders", Schema(*FIELDS), properties=properties)
    table = files(catalog.load_table("shop.orders"), [("a", 0, 7)], [row])
    assert row_ranges(table, {"a"}, "a", [0, 1]) is None
    assert row_ranges(table, {"a"}, "a", [0, 1], partly=True) == {0: [OffsetRange(7, 8)], 1: ()}
    assert found_row(table, {"a"}, "a", [2]) == ""
    assert found_row(table, {"a"}, "a", [2], unsure=True) == "some rows do not say which records they are"
    table.delete("_kafka_offset is null or _kafka_partition is null or _kafka_topic is null")
    assert row_ranges(table, {"a"}, "a", [1]) == {1: ()} and not found_row(table, {"a"}, "a", [1], unsure=True)


@pytest.mark.parametrize("branch", ["main", "mirror"])
def test_rows_that_are_older_than_the_columns(open_catalog: Open, branch: str) -> None:
    """⚑ The table has the columns and its newest snapshot does not: a mirror's branch is read by the snapshot's schema."""
    plain = NestedField(9, "id", LongType())
    table = open_catalog().create_table("shop.orders", Schema(plain))
    table.append(pa.table({"id": [1]}, schema=table.schema().as_arrow()))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "mirror").commit()
    with table.update_schema() as change:
        for field in FIELDS:
            change.add_column(field.name, field.field_type)
    assert row_ranges(table, {"a"}, "a", [0], branch=branch) is None
    assert found_row(table, {"a"}, "a", [0], branch=branch, unsure=True)


@pytest.mark.parametrize(("topics", "until"), [({"a"}, 8), ({"a", "b"}, None)])
def test_without_the_topic_rows_tell_where_one_topic_feeds_the_table(
    open_catalog: Open, topics: set[str], until: int | None
) -> None:
    table = table_of(open_catalog, FIELDS[1:], (0, 7))
    assert rows_until(table, topics, "a", 0) == until
    assert bool(found_row(table, topics, "a", [0])) == (until is not None)


def test_rows_that_tell_nothing(open_catalog: Open) -> None:
    assert rows_until(table_of(open_catalog, FIELDS), {"a"}, "a", 0) == 0
    open_catalog().drop_table("shop.orders")
    table = table_of(open_catalog, FIELDS[2:], (7,))
    assert rows_until(table, {"a"}, "a", 0) is None and found_row(table, {"a"}, "a", [0]) == ""
    assert row_ranges(table, {"a"}, "a", [0]) is None


def test_the_timestamps_of_rows(open_catalog: Open) -> None:
    at = datetime(2026, 11, 26, 12, 0, 0, 7_999, tzinfo=UTC)
    rows = (("a", 0, 7, at), ("a", 0, 9, at), ("b", 0, 8, at), ("a", 0, 8, None))
    table = table_of(open_catalog, (*FIELDS, NestedField(4, "_kafka_timestamp", TimestamptzType())), *rows)
    found = timestamps(table, TopicPartition("a", 0), OffsetRange(0, 9))
    assert [each.tolist() for each in found] == [[7], [1_795_694_400_007]]
    open_catalog().drop_table("shop.orders")
    assert not len(
        timestamps(table_of(open_catalog, FIELDS, ("a", 0, 7)), TopicPartition("a", 0), OffsetRange(0, 9))[0]
    )


LONG = "orders-of-all-countries"
"""Longer than what statistics keep of a text."""


def files(table: Table, *written: list[tuple[str | None, int | None, int | None]]) -> Table:
    """Each list is a file."""
    for rows in written:
        columns = {f.name: [row[i] for row in rows] for i, f in enumerate(table.schema().fields)}
        table.append(pa.table(columns, schema=table.schema().as_arrow()))
    return table


@pytest.mark.parametrize("topic", ["a", LONG])
def test_which_offsets_have_a_row(open_catalog: Open, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Statistics only where they suffice: a file of two partitions, one with a gap, and nulls are read."""
    table = files(
        table_of(open_catalog, FIELDS),
        [(topic, 0, n) for n in range(5)],
        [(topic, 0, n) for n in (5, 6, 9)],
        [(topic, 0, 20), (topic, 1, 21), (topic, 1, 20)],
        [(topic, 1, 7), (None, None, None), ("b", 1, 8)],
        [(topic, 1, 9), (topic, 1, None)],
    )
    read: list[str] = []
    whole = ArrowScan.to_record_batches

    def watched(scan: ArrowScan, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        tasks = list(tasks)
        read.extend(task.file.file_path for task in tasks)
        return whole(scan, tasks)

    monkeypatch.setattr(ArrowScan, "to_record_batches", watched)
    found = row_ranges(table, {topic, "b"}, topic, [0, 1, 2], partly=True)
    assert found == {
        0: [OffsetRange(0, 7), OffsetRange(9, 10), OffsetRange(20, 21)],
        1: [OffsetRange(7, 8), OffsetRange(9, 10), OffsetRange(20, 22)],
        2: (),
    }
    assert len(read) == (4 if topic == "a" else 5)


def test_rows_that_were_deleted_are_no_rows(open_catalog: Open) -> None:
    table = files(table_of(open_catalog, FIELDS), [("a", 0, n) for n in range(5)])
    table.delete("_kafka_offset = 2")
    assert row_ranges(table, {"a"}, "a", [0]) == {0: [OffsetRange(0, 2), OffsetRange(3, 5)]}


@given(st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=6))
def test_runs_are_the_offsets(pieces: list[list[int]]) -> None:
    runs = _merged([_runs(np.unique(np.array(piece, np.int64))) for piece in pieces if piece])
    assert {n for run in runs for n in range(run.start, run.end)} == {n for piece in pieces for n in piece}
    assert all(a.end < b.start for a, b in pairwise(runs))
