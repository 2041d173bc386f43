"""What docs/types.md says of a column is what the decoder does."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from chsink.decode import Column, JsonDecoder
from chsink.notation.metadata_columns import METADATA_COLUMNS, MetadataColumn

PAGE = (Path(__file__).parents[3] / "docs" / "types.md").read_text(encoding="utf-8")
FITS = {
    "Int8": ["7", "7.0", "7e0", '"7"', "-128"],
    "UInt256": ["7e2"],
    "Float32": ["0.1", '"0.1"', '"nan"', '"inf"', '"-inf"'],
    "Decimal(9, 2)": ["1.5", '"1.50"', "1.500"],
    "BFloat16": ["0.5"],
    "Bool": ["true", "false", "1", "0", '"true"', '"false"'],
    "String": ['"x"', "1.50", '{"a": 1}', "true", "[1]"],
    "FixedString(2)": ['"a"', '"ab"'],
    "Date": ['"2026-01-31"'],
    "DateTime": ['"2026-01-31 23:59:59"', '"2026-01-31T23:59:59Z"', '"2026-01-31T23:59:59+02:00"', "1767225600"],
    "DateTime64(3)": ['"2026-01-31 23:59:59.123"', "1767225600000", "1767225600.5"],
    "Time": ['"-1:00:00"', "7"],
    "UUID": ['"123e4567-e89b-12d3-a456-426614174000"'],
    "Enum8('a' = 1)": ['"a"', "1"],
    "Array(Int8)": ["[1]"],
    "Tuple(a Int8)": ['{"a": 1}', "[1]"],
    "Map(String, Int8)": ['{"a": 1}'],
    "JSON": ['{"a": 1}'],
    "Dynamic": ["1", '"x"', "true", '{"a": 1}', "[1]", "null"],
    "Variant(Bool, Decimal(9, 2), Float64, Int8, String, UInt64)": ["1", "300", "1.5", "1e300", '"x"', "true", "null"],
    "Nullable(Int8)": ["null", "1"],
}  # fmt: skip
REFUSED = {
    "Int8": ["1.5", "128", "true", "null"],
    "Float32": ["1e39"],
    "Decimal(9, 2)": ["1.505"],
    "Bool": ["2", '"yes"'],
    "FixedString(2)": ['"abc"'],
    "Date": ["20000", '"2026-01-31 00:00:00"'],
    "DateTime": ["1.5"],
    "DateTime64(3)": ['"2026-01-31 23:59:59.1234"', "1767225600"],
    "Array(Int8)": ["[1, 300]", "[null]"],
    "Map(String, Int8)": ['{"a": 1, "a": 2}'],
    "JSON": ["[1]", '{"a": 1, "a": 2}', '{"a": 1e999}'],
    "Variant(Bool, Int8)": ['"x"', "300", "1.5", "[1]", '{"a": 1}'],
}  # fmt: skip


@pytest.mark.parametrize("column", METADATA_COLUMNS.values(), ids=lambda column: column.name)
def test_the_page_lists_the_metadata_columns(column: MetadataColumn) -> None:
    assert f"| `{column.name}` | `{column.declare}` |" in PAGE


def test_a_variant_takes_the_alternative_of_the_kind() -> None:
    decoder = JsonDecoder([Column("c", "Variant(Bool, Decimal(9, 2), Float64, Int8, String, UInt64)")], timezone="UTC")
    texts = ["1", "300", "1.5", "1e300", '"x"', "true"]
    batch = decoder.decode(pa.array([f'{{"c": {text}}}'.encode() for text in texts], pa.binary())).batch
    union = batch.column(0)
    assert [union.type.field(code).name for code in union.type_codes.to_pylist()] == [
        "Int8", "UInt64", "Decimal(9, 2)", "Float64", "String", "Bool",
    ]  # fmt: skip


def bad(kind: str, texts: list[str], default: str = "") -> list[int]:
    decoder = JsonDecoder([Column("c", kind, default)], timezone="UTC")
    decoded = decoder.decode(pa.array([f'{{"c": {text}}}'.encode() for text in texts], pa.binary()))
    return [found.row for found in decoded.bad]


@pytest.mark.parametrize("kind", FITS)
def test_takes(kind: str) -> None:
    assert bad(kind, FITS[kind]) == []
    assert re.match(r"[A-Za-z]+", kind)[0] in PAGE  # type: ignore[index]


@pytest.mark.parametrize("kind", REFUSED)
def test_refuses(kind: str) -> None:
    assert bad(kind, REFUSED[kind]) == list(range(len(REFUSED[kind])))


@pytest.mark.parametrize("value", [None, b"", b"[1]", b'{"c": 1, "c": 1}', b'"x"'])
def test_bad_records(value: bytes | None) -> None:
    decoder = JsonDecoder([Column("c", "Int8", "")], timezone="UTC")
    assert [found.row for found in decoder.decode(pa.array([value], pa.binary())).bad] == [0]


@pytest.mark.parametrize(
    ("kind", "default", "fits"), [("Nullable(Int8)", "", True), ("Int8", "DEFAULT", True), ("Int8", "", False)]
)
def test_missing_is_null(kind: str, default: str, fits: bool) -> None:
    decoder = JsonDecoder([Column("c", kind, default)], timezone="UTC")
    missing = decoder.decode(pa.array([b'{"other": 1}'], pa.binary()))
    assert (bad(kind, ["null"], default) == []) is (not missing.bad) is fits
