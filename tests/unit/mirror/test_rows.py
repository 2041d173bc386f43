"""What rows say of the records that a table holds: on a real catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from chsink.mirror.rows import found_row, rows_until

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


def head(table: Table) -> int | None:
    """Of the main branch."""
    snapshot = table.current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def test_rows_of_several_topics(open_catalog: Open) -> None:
    table = table_of(open_catalog, FIELDS, ("a", 0, 7), ("a", 0, 3), ("b", 0, 9), ("a", 1, 1), (None, None, None))
    topics = {"a", "b"}
    assert [rows_until(table, head(table), topics, t, p) for t, p in (("a", 0), ("b", 0), ("a", 1), ("b", 1))] == [
        8,
        10,
        2,
        None,
    ]
    assert found_row(table, head(table), topics, "b", [0, 1]) == "b-0, offset 9"
    assert found_row(table, head(table), topics, "b", [1]) == found_row(table, head(table), topics, "c", [0]) == ""


@pytest.mark.parametrize(("topics", "until"), [({"a"}, 8), ({"a", "b"}, None)])
def test_without_the_topic_rows_tell_where_one_topic_feeds_the_table(
    open_catalog: Open, topics: set[str], until: int | None
) -> None:
    table = table_of(open_catalog, FIELDS[1:], (0, 7))
    assert rows_until(table, head(table), topics, "a", 0) == until
    assert bool(found_row(table, head(table), topics, "a", [0])) == (until is not None)


def test_rows_that_tell_nothing(open_catalog: Open) -> None:
    assert rows_until(table_of(open_catalog, FIELDS), None, {"a"}, "a", 0) is None
    open_catalog().drop_table("shop.orders")
    table = table_of(open_catalog, FIELDS[2:], (7,))
    assert (
        rows_until(table, head(table), {"a"}, "a", 0) is None and found_row(table, head(table), {"a"}, "a", [0]) == ""
    )
