"""Avro, Protobuf, Debezium and CSV in Iceberg tables: a value fits the types that the page names, exactly, and no other."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from chsink.decode.columns import Column
from chsink.formats.settings import Csv, Debezium, FormatSettings
from chsink.mirror.types import TableColumns
from tests.support.iceberg_cases import CASES, NESTED, Case, same, type_in_clickhouse
from tests.support.iceberg_formats import KINDS, SOURCES, Source
from tests.unit.formats.decoding import outcomes

REFUSED = object()


def read(settings: FormatSettings, kind: IcebergType, values: Sequence[bytes]) -> list[Any]:
    """What the column holds of each record."""
    columns = TableColumns(Schema(NestedField(1, "c", kind)), settings)
    decoded = columns.decode(pa.record_batch([pa.array(values, pa.binary())], names=["value"]))
    found = dict(zip(decoded.rows.to_pylist(), decoded.batch.column("c").to_pylist(), strict=True))
    assert found.keys() | {bad.row for bad in decoded.bad} == set(range(len(values)))
    return [found.get(at, REFUSED) for at in range(len(values))]


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_value_fits_these_types_and_no_other(source: Source) -> None:
    """⚑ W-5: alone, and among others like it."""
    for name, kind in KINDS.items():
        expected = source.stored.get(name, REFUSED)
        for found in [
            *read(source.settings, kind, [source.record]),
            *read(source.settings, kind, [source.record] * 40),
        ]:
            assert found is expected if expected is REFUSED else same(found, expected), (name, found)


NUMBERS = {"avro int 7", "avro float 1.5", "avro double 0.1", "avro decimal 123.45", "protobuf int32 7"}
NUMBERS |= {"protobuf float 1.5", "protobuf double 0.1", "protobuf Duration 7.5s", "debezium int64 7"}
"""What ClickHouse's Time64(6) takes beside times: an Iceberg ``time`` takes no number."""
CLICKHOUSE_ALONE = {*((source, "time") for source in NUMBERS), ("avro fixed ff ff ff ff", "string")}
"""A String takes any bytes."""


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_it_fits_the_same_types_of_clickhouse(source: Source) -> None:
    """⚑ Same values, same refusals, but for what is named here, and bytes: in ClickHouse, a String takes all of them."""
    for name, kind in KINDS.items():
        if name not in {"binary", "fixed[4]"}:
            column = Column("c", f"Nullable({type_in_clickhouse(kind)})")
            [found] = outcomes(source.settings, [column], [source.record])
            expected = name in source.stored or (str(source), name) in CLICKHOUSE_ALONE
            assert isinstance(found, dict) == expected, (name, found)


@pytest.mark.parametrize("case", [*CASES, *NESTED], ids=str)
def test_debezium_takes_what_json_takes(case: Case) -> None:
    """Without a schema beside the row.  One word could as well be a decimal that Connect wrote in base64."""
    fits = [(text, value) for text, value in case.fits if text != '"Infinity"']
    records = [f'{{"op": "c", "after": {{"c": {text}}}}}'.encode() for text in [*(t for t, _ in fits), *case.bad]]
    found = read(Debezium(type="debezium"), case.kind, records)
    assert found[len(fits) :] == [REFUSED] * len(case.bad)
    assert all(same(one, value) for one, (_, value) in zip(found, fits, strict=False)), found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_csv_takes_the_text_of_a_json_string(case: Case) -> None:
    """What a string of JSON fits, the same text in a field fits; an empty field is null."""
    fits = [(json.loads(text), value) for text, value in case.fits if text.startswith('"') and text != '""']
    bad = [json.loads(text) for text in case.bad if text.startswith('"') and text.isascii() and "\\u" not in text]
    found = read(Csv(type="csv", columns=("c",)), case.kind, [field(text) for text in [*(t for t, _ in fits), *bad]])
    assert found[len(fits) :] == [REFUSED] * len(bad)
    assert all(same(one, value) for one, (_, value) in zip(found, fits, strict=False)), found


def field(text: str) -> bytes:
    """One record of one field."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([text])
    return out.getvalue().encode()
