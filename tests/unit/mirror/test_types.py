"""Every flat type that is taken: exact, or a bad value; written to Parquet and read back."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from chsink.mirror.files import data_file, entry_of, write_files
from chsink.mirror.types import TableColumns, unsupported

CASES: list[tuple[IcebergType, str, Any]] = [
    (BooleanType(), "true", True),
    (IntegerType(), "2147483647", 2**31 - 1),
    (IntegerType(), "-2147483648", -(2**31)),
    (LongType(), "9223372036854775807", 2**63 - 1),
    (LongType(), '"-9223372036854775808"', -(2**63)),
    (FloatType(), "1.5", 1.5),
    (DoubleType(), "0.1", 0.1),
    (DecimalType(9, 2), "1234567.89", Decimal("1234567.89")),
    (
        DecimalType(38, 10),
        '"1234567890123456789012345678.0123456789"',
        Decimal("1234567890123456789012345678.0123456789"),
    ),
    (DateType(), '"1900-01-01"', date(1900, 1, 1)),
    (DateType(), '"2299-12-31"', date(2299, 12, 31)),
    (TimestampType(), '"2026-01-02T03:04:05.678901"', datetime(2026, 1, 2, 3, 4, 5, 678901)),  # noqa: DTZ001
    (TimestamptzType(), '"2026-01-02T03:04:05.678901+02:00"', datetime(2026, 1, 2, 1, 4, 5, 678901, tzinfo=UTC)),
    (StringType(), '"\\u00e4\\ud83d\\ude00"', "ä😀"),
    (UUIDType(), '"6ba7b810-9dad-11d1-80b4-00c04fd430c8"', UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")),
]
BAD: list[tuple[IcebergType, str]] = [
    (BooleanType(), "7"),
    (IntegerType(), "2147483648"),
    (IntegerType(), "1.5"),
    (LongType(), "9223372036854775808"),
    (LongType(), '"x"'),
    (FloatType(), "1e60"),
    (DoubleType(), "1e400"),
    (DecimalType(9, 2), "0.001"),
    (DecimalType(9, 2), "10000000"),
    (DateType(), '"2026-02-30"'),
    (DateType(), '"1899-12-31"'),
    (TimestampType(), '"2026-01-02T03:04:05.6789012"'),
    (TimestamptzType(), '"2300-01-01T00:00:00Z"'),
    (StringType(), '"\\ud800"'),
    (UUIDType(), '"6ba7b810"'),
]


def columns(kind: IcebergType, *, required: bool = False) -> TableColumns:
    return TableColumns(Schema(NestedField(1, "c", kind, required=required)))


def records(*texts: str | bytes | None, **more: Any) -> pa.RecordBatch:
    values = pa.array([t.encode() if isinstance(t, str) else t for t in texts], pa.binary())
    return pa.RecordBatch.from_pydict({"value": values, **more})


@pytest.mark.parametrize(("kind", "text", "value"), CASES, ids=str)
def test_a_value_lands_exactly(kind: IcebergType, text: str, value: Any, open_catalog: Callable[[], Catalog]) -> None:
    """Through a file and pyiceberg's own reader."""
    schema = columns(kind).schema
    table = open_catalog().create_table("shop.t", schema)
    decoded = TableColumns(table.schema()).decode(records(f'{{"c": {text}}}', "{}", '{"c": null}'))
    assert decoded.bad == []
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in write_files(table.metadata, table.io, decoded.batch, uuid4()):
            append.append_data_file(data_file(entry_of(file, 0)))
    found = table.refresh().scan().to_arrow().column("c").to_pylist()
    assert found == [value.bytes if isinstance(value, UUID) and isinstance(found[0], bytes) else value, None, None]


@pytest.mark.parametrize(("kind", "text"), BAD, ids=str)
def test_a_value_that_does_not_fit_is_bad(kind: IcebergType, text: str) -> None:
    decoded = columns(kind).decode(records(f'{{"c": {text}}}', "{}"))
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(0, "c")]
    assert decoded.batch.num_rows == 1 and decoded.rows.to_pylist() == [1]


def test_a_required_column_takes_no_null() -> None:
    decoded = columns(LongType(), required=True).decode(records("{}", '{"c": 1}', None, "[]"))
    assert [bad.row for bad in decoded.bad] == [0, 2, 3] and decoded.bad[1].tombstone
    assert decoded.batch.column("c").to_pylist() == [1] and not decoded.batch.schema.field("c").nullable


def test_text_that_is_not_utf8_is_bad() -> None:
    decoded = columns(StringType()).decode(records('{"c": "a"}', b'{"c": "\xff"}', '{"c": "b"}'))
    assert [bad.row for bad in decoded.bad] == [1]
    assert decoded.batch.column("c").to_pylist() == ["a", "b"] and decoded.rows.to_pylist() == [0, 2]


def test_kafkas_own_fields() -> None:
    """P-1."""
    schema = Schema(
        NestedField(1, "c", LongType()),
        NestedField(2, "_kafka_topic", StringType()),
        NestedField(3, "_kafka_partition", IntegerType()),
        NestedField(4, "_kafka_offset", LongType()),
    )
    found = TableColumns(schema)
    assert found.record_fields == ("value", "topic", "partition", "offset")
    more = {
        "topic": pa.array(["t", "t"]),
        "partition": pa.array([3, 3], pa.int32()),
        "offset": pa.array([7, 9], pa.int64()),
    }
    decoded = found.decode(records('{"c": "x"}', '{"c": 1}', **more))
    assert decoded.batch.to_pylist() == [{"c": 1, "_kafka_topic": "t", "_kafka_partition": 3, "_kafka_offset": 9}]


def test_what_is_not_written_is_named() -> None:
    refused = [BinaryType(), FixedType(4), TimeType(), TimestampNanoType(), ListType(9, LongType())]
    fields = [NestedField(n, f"c{n}", kind) for n, kind in enumerate(refused, 1)]
    fields += [NestedField(20, "a.b", LongType()), NestedField(21, "_kafka_offset", StringType())]
    fields += [NestedField(22, "_kafka_key", StringType()), NestedField(23, "fine", LongType())]
    named = [text.split(":")[0] for text in unsupported(Schema(*fields))]
    assert named == ["c1", "c2", "c3", "c4", "c5", "a.b", "_kafka_offset", "_kafka_key"]


def test_the_columns_travel_to_workers() -> None:
    found = pickle.loads(pickle.dumps(columns(LongType())))
    assert found.decode(records('{"c": 1}')).batch.column("c").to_pylist() == [1]
