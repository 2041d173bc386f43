"""Fields that records offer, by format: their names, and the columns for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chsink.config import Config
from chsink.formats.offered import offered_by
from chsink.formats.settings import FormatSettings

AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "m", "type": {"type": "map", "values": "double"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["a"]}},
        {"name": "either", "type": ["int", "string"]},
        {"name": "inner", "type": {"type": "record", "name": "i", "fields": [{"name": "x", "type": "int"}]}},
    ],
}


def settings(format: Any, folder: Path = Path()) -> FormatSettings:
    data = {
        "sink": {"name": "s"},
        "kafka": {"bootstrap": "k:9092"},
        "route": [{"topic": "t", "table": "x", "format": format}],
        "clickhouse": {"endpoints": ["http://a:8123"]},
    }
    return Config.from_mapping(data, folder=folder).routes[0].format


def values(*texts: str | bytes | None) -> pa.Array:
    return pa.array([t.encode() if isinstance(t, str) else t for t in texts], pa.binary())


def test_json() -> None:
    offered = offered_by(settings("json"))
    assert offered is not None
    records = values('{"id":1,"a":1,"b":"x"}', '{"id":2}', None, "no json", "[1]", '{"a":2.5,"c":null}', '{"id":3}{}')
    assert offered.counts(records, {"id"}) == {"a": 2, "b": 1, "c": 1}
    assert offered.columns(records, {"id"}) == {"a": "Nullable(Float64)", "b": "Nullable(String)", "c": None}
    assert offered.counts(records, {"id", "a", "b", "c"}) == {}


def test_json_below_an_envelope() -> None:
    shaped = {"type": "json", "envelope": "$.payload.after", "fields": {"city": "$.address.city"}}
    offered = offered_by(settings(shaped))
    assert offered is not None
    records = values(
        '{"op":"u","payload":{"after":{"id":1,"more":true}}}', '{"payload":{"after":null}}', '{"payload":1}'
    )
    assert offered.columns(records, {"id"}) == {"more": "Nullable(Bool)"}
    assert offered.columns(values('{"payload":{"after":{"address":1}}}'), ()) == {}, "a path begins with it"


def test_avro(tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(AVRO))
    offered = offered_by(settings({"type": "avro", "schema_file": "r.avsc"}, tmp_path))
    assert offered is not None
    records = values(b"\x02", b"\x04")
    assert offered.counts(records, {"id"})["n"] == 2
    assert offered.columns(records, {"id"}) == {
        "n": "Nullable(Int32)",
        "at": "Nullable(DateTime64(6, 'UTC'))",
        "price": "Nullable(Decimal(20, 2))",
        "tags": "Array(Nullable(String)) DEFAULT []",
        "m": "Map(String, Nullable(Float64)) DEFAULT map()",
        "day": "Nullable(Date32)",
        "kind": "Nullable(String)",
        "either": None,
        "inner": None,
    }
    assert offered.columns(records.slice(0, 0), ()) == {}


@pytest.mark.parametrize("format", ["raw", "debezium", {"type": "csv", "columns": ["a"]}])
def test_formats_whose_columns_are_set_in_the_job_file(format: Any) -> None:
    assert offered_by(settings(format)) is None
