"""The mirror reads records in every format, with the codecs of Iceberg's types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimeType,
)

from chsink.formats.settings import JSON, Csv, Debezium, FormatSettings, KeyColumns, Raw, String
from chsink.mirror.types import TableColumns

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
    NestedField(4, "is_deleted", LongType(), required=False),
)


def outcomes(
    columns: TableColumns, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> list[Any]:
    given = {"value": values, "key": [None] * len(values) if keys is None else keys}
    records = pa.RecordBatch.from_pydict({name: pa.array(each, pa.binary()) for name, each in given.items()})
    decoded = columns.decode(records)
    found: dict[int, Any] = dict(zip(decoded.rows.to_pylist(), decoded.batch.to_pylist(), strict=True))
    found |= {bad.row: f"{bad.column}: {bad.reason}" for bad in decoded.bad}
    return [found[at] for at in range(len(values))]


def row(**cells: Any) -> dict[str, Any]:
    return {"id": None, "name": None, "day": None, "is_deleted": None, **cells}


def test_csv() -> None:
    columns = TableColumns(SCHEMA, Csv(type="csv", columns=("id", "name", "day")))

    assert outcomes(columns, [b'1,"a,b",2026-01-31', b",x,", b"2,,", None]) == [
        row(id=1, name="a,b", day=date(2026, 1, 31)),
        "id: missing or null, and the column is required",
        row(id=2),
        "None: value is null (a tombstone)",
    ]


@pytest.mark.parametrize(
    ("kind", "connect", "value", "stored"),
    [
        (DecimalType(9, 2), "org.apache.kafka.connect.data.Decimal", "MDk=", Decimal("123.45")),
        (LongType(), "org.apache.kafka.connect.data.Decimal", "MDk=", None),
        (DateType(), "io.debezium.time.Date", 20484, date(2026, 1, 31)),
        (TimeType(), "io.debezium.time.MicroTime", 45296000001, time(12, 34, 56, 1)),
        (TimeType(), "io.debezium.time.NanoTime", 45296000001000, time(12, 34, 56, 1)),
        (TimeType(), "io.debezium.time.NanoTime", 1, None),
        (TimeType(), "io.debezium.time.MicroTime", 86_400_000_000, None),
        (TimeType(), "io.debezium.time.MicroTime", -1, None),
        (TimeType(), "io.debezium.time.Timestamp", 1, None),
        (TimeType(), "io.debezium.time.ZonedTime", "12:34:56.5Z", time(12, 34, 56, 500000)),
        (TimestampType(), "io.debezium.time.Timestamp", 1767225600123, datetime(2026, 1, 1, 0, 0, 0, 123000)),  # noqa: DTZ001
        (DateType(), "io.debezium.time.Timestamp", 1767225600123, None),
    ],
)
def test_connects_types(kind: IcebergType, connect: str, value: Any, stored: Any) -> None:
    """⚑ The exact value, or none."""
    columns = TableColumns(Schema(NestedField(1, "c", kind, required=False)), Debezium(type="debezium"))
    types = {"bytes": "Decimal" in connect, "string": isinstance(value, str), "int64": True}
    field = {"type": next(name for name, holds in types.items() if holds), "name": connect, "field": "c"}
    schema = {"fields": [{"type": "struct", "field": "after", "fields": [{**field, "parameters": {"scale": "2"}}]}]}
    record = json.dumps({"schema": schema, "payload": {"op": "c", "after": {"c": value}}}).encode()
    for found in outcomes(columns, [record] * 40):
        assert found == {"c": stored} if stored is not None else isinstance(found, str), found


def test_debezium_fills_nothing_in_that_iceberg_requires() -> None:
    settings = Debezium(type="debezium", deleted_column="is_deleted", primary_key=("id",), epoch={"day": "days"})
    events = [
        {"op": "c", "after": {"id": 1, "name": "x", "day": 1}},
        {"op": "d", "before": {"id": 1}},
        {"op": "d", "before": None},
        {"op": "d", "before": None},
    ]
    keys = [None, None, b'{"id":3}', None]

    assert outcomes(TableColumns(SCHEMA, settings), [json.dumps(each).encode() for each in events], keys) == [
        row(id=1, name="x", day=date(1970, 1, 2), is_deleted=0),
        row(id=1, is_deleted=1),
        row(id=3, is_deleted=1),
        "None: a delete without `before`, whose key is not a primary key",
    ]


def test_keys() -> None:
    columns = TableColumns(SCHEMA, JSON, KeyColumns(String(type="string"), ("id",)))

    assert columns.record_fields == ("value", "key")
    assert outcomes(columns, [b'{"name":"a"}'] * 2, [b"7", b"x"]) == [
        row(id=7, name="a"),
        "id: the key: a string that is not a number in int",
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (StringType(), [{"c": "é"}, "c: not valid UTF-8 at byte 0", {"c": ""}]),
        (BinaryType(), [{"c": "é".encode()}, {"c": b"\xff\x00"}, {"c": b""}]),
        (FixedType(2), [{"c": "é".encode()}, {"c": b"\xff\x00"}, "c: not as many bytes as fixed[2] has"]),
    ],
)
def test_raw_bytes(kind: Any, expected: list[Any]) -> None:
    raw: FormatSettings = Raw(type="raw")

    assert outcomes(TableColumns(Schema(NestedField(1, "c", kind)), raw), ["é".encode(), b"\xff\x00", b""]) == expected
