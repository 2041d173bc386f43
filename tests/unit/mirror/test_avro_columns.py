"""Records of Avro in Iceberg's types: the mirror reads them by the same readers, and bytes need no base64."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from chsink.fields import TextFile
from chsink.formats.settings import Avro, FormatSettings, Raw
from chsink.mirror.types import TableColumns, TableRows

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
UUID = "123e4567-e89b-12d3-a456-426614174000"


def decode(kind: IcebergType, form: FormatSettings, values: list[bytes]) -> TableRows:
    table = TableColumns(Schema(NestedField(1, "c", kind, required=False)), form)
    return table.decode(pa.record_batch([pa.array(values, pa.binary())], names=["value"]))


@pytest.mark.parametrize(
    ("avro", "kind", "good", "bad"),
    [
        ("long", LongType(), [2**63 - 1], []),
        ("long", IntegerType(), [5], [2**31]),
        ("bytes", BinaryType(), [b"\xff\0", b""], []),
        ("bytes", StringType(), ["é".encode()], [b"\xff"]),
        ("bytes", FixedType(3), [b"abc"], [b"ab", b"abcd"]),
        ({"type": "fixed", "name": "F", "size": 3}, FixedType(3), [b"a\0c"], []),
        ({"type": "string", "logicalType": "uuid"}, UUIDType(), [UUID], []),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, DecimalType(5, 2), [Decimal("1.25")], [Decimal("1234.5")]),
        ({"type": "long", "logicalType": "time-micros"}, TimeType(), [dt.time(1, 2, 3, 4)], []),
        ({"type": "long", "logicalType": "timestamp-micros"}, TimestamptzType(), [NOON], []),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, TimestampType(), [NOON.replace(tzinfo=None)], []),
        ({"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}, StringType(), [], [{"x": 1}]),
    ],
)  # fmt: skip
def test_a_value_is_exact_or_bad(avro: Any, kind: IcebergType, good: list[Any], bad: list[Any]) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": avro}]})
    parsed, written = fastavro.parse_schema(json.loads(text)), []
    for value in good + bad:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, {"c": value})
        written.append(buffer.getvalue())
    decoded = decode(kind, Avro(type="avro", schema_file=TextFile("a.avsc", text.encode())), written)
    values = decoded.batch.column("c").to_pylist()
    assert [str(value) if kind == UUIDType() else value for value in values] == [
        value.decode() if kind == StringType() else value for value in good
    ]
    assert [one.row for one in decoded.bad] == list(range(len(good), len(written)))


def test_raw_bytes_that_are_no_text_are_bad_in_a_string() -> None:
    """⚑ one record must not end the mirror."""
    decoded = decode(StringType(), Raw(type="raw"), [b"ok", b"\xff", "é".encode()])
    assert decoded.batch.column("c").to_pylist() == ["ok", "é"]
    assert [one.row for one in decoded.bad] == [1]
