"""Fields that records offer, by format: their names, and the columns for them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, text_format, timestamp_pb2

from chsink.config import Config
from chsink.decode.columns import Column
from chsink.decode.conform import conform
from chsink.formats.column_types import CLICKHOUSE, widest
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.readers import READERS
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import FormatSettings
from chsink.mirror.column_types import ICEBERG

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
        "schema_registry": {"url": "http://r:8081"},
    }
    return Config.from_mapping(data, folder=folder).routes[0].format


def values(*texts: str | bytes | None) -> pa.Array:
    return pa.array([t.encode() if isinstance(t, str) else t for t in texts], pa.binary())


def test_names_that_json_writes_with_escapes() -> None:
    """A column was added for such a field, and then no batch passed any more."""
    offered = offered_by(settings("json"))
    assert offered is not None
    records = values(r'{"a\"":1,"b\\c":2,"d\n":3}', r'{"id":1,"a\"":2}', '{"id":1}')
    assert offered.counts(records, {"id"}) == {'a"': 2, "b\\c": 1, "d\n": 1}
    assert offered.counts(records, {"id", 'a"', "d\n"}) == {"b\\c": 1}
    assert offered.columns(records, {"id", 'a"', "b\\c"}) == {"d\n": "Nullable(Int64)"}


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
    elsewhere = values('{"address":{"city":"a"},"payload":{"after":{"address":1}}}')
    assert offered.columns(elsewhere, ()) == {"address": "Nullable(Int64)"}, "the path leads into another object"


def test_json_of_which_a_path_takes_a_part() -> None:
    """⚑ What the path leaves of an object has no other column: it was dropped from tables that chsink makes."""
    offered = offered_by(settings({"type": "json", "fields": {"a": "$.nested.a", "b": "$.before"}}))
    assert offered is not None
    records = values('{"nested":{"a":1,"rest":2},"before":3}')
    assert offered.columns(records, ()) == {"nested": "Nullable(String)"}
    assert offered.counts(records, ()) == {"nested": 1}


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


MOMENTS = """
name: "m.proto" package: "m" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
message_type { name: "Moments"
  field { name: "id" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "at" number: 2 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "all" number: 3 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_REPEATED }
}
"""


def test_protobuf_timestamps_have_columns_that_hold_them(tmp_path: Path) -> None:
    described = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(described.file.add())
    text_format.Parse(MOMENTS, described.file.add())
    (tmp_path / "m.desc").write_bytes(described.SerializeToString())
    offered = offered_by(settings({"type": "protobuf", "schema_file": "m.desc", "message": "m.Moments"}, tmp_path))
    assert offered is not None

    # id = 1, without a time; at = 1 s and 1 ns
    assert offered.columns(values(b"\x08\x01", b"\x12\x04\x08\x01\x10\x01"), {"id"}) == {
        "at": "Nullable(DateTime64(9, 'UTC'))",
        "all": "Array(Nullable(DateTime64(9, 'UTC'))) DEFAULT []",
    }


BIG = 2**53 + 1


@pytest.mark.parametrize(
    ("one", "other", "stored"),
    [
        (pa.array([1], pa.int32()), pa.array([BIG]), BIG),
        (pa.array([0.5], pa.float32()), pa.array([1], pa.int32()), 1),
        (pa.array([0.5], pa.float32()), pa.array([BIG]), b"9007199254740993"),
        (pa.array([[0.5]]), pa.array([[BIG]]), [b"9007199254740993"]),
        (
            pa.array([[("a", 0.5)]], pa.map_(pa.string(), pa.float64())),
            pa.array([[("a", BIG)]], pa.map_(pa.string(), pa.int64())),
            [(b"a", b"9007199254740993")],
        ),
        (pa.array([0.5]), pa.array([Decimal("12345678901234.5678")]), b"12345678901234.5678"),
        (pa.array([0.5], pa.float32()), pa.array([Decimal("12345678.90")]), b"12345678.90"),
        (pa.array([0.5], pa.float32()), pa.array(["12345678.9"]), b"12345678.9"),
        (pa.array([5]), pa.array(["007"]), b"007"),
        (pa.array([True]), pa.array([1]), b"1"),
        (pa.array([b"abcd"], pa.binary(4)), pa.array(["ab"]), b"ab"),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_two_schemas_in_one_chunk(one: pa.Array, other: pa.Array, stored: Any) -> None:
    """⚑ The column holds the values of both as they are, whichever comes first."""
    kinds = [CLICKHOUSE.of_schema(each.type) for each in (one, other)]
    kind = widest(CLICKHOUSE, *kinds)
    assert kind is not None
    assert widest(CLICKHOUSE, *reversed(kinds)) == kind
    columns = [Column("c", kind.partition(" DEFAULT")[0])]
    for array, value in ((one, None), (other, stored)):
        found = conform(pa.RecordBatch.from_arrays([array], names=["c"]), columns, timezone="UTC")
        assert found.bad == []
        assert value is None or found.batch.column("c").to_pylist() == [value]


CHANGED = {"id": 1, "n": 7, "price": 7.0, "note": None, "tags": ["a"], "data": {"a": 1}}
CONNECT = {
    "type": "struct",
    "fields": [
        {
            "type": "struct",
            "field": name,
            "fields": [
                {"type": "int32", "field": "id"},
                {"type": "int16", "field": "n", "optional": True},
                {"type": "double", "field": "price"},
                {"type": "string", "field": "note", "name": "io.debezium.data.Json"},
                {"type": "array", "field": "tags", "items": {"type": "string"}},
                {"type": "struct", "field": "data", "fields": [{"type": "int32", "field": "a"}]},
            ],
        }
        for name in ("before", "after")
    ]
    + [{"type": "string", "field": "op"}],
}


def test_debezium() -> None:
    """From the schema beside the payload, if there is one; else by the rules of JSON."""
    paths = {"type": "debezium", "fields": {"place": "$.after.data.a", "op": "$.op"}, "deleted_column": "gone"}
    offered = offered_by(settings(paths))
    assert offered is not None
    plain = values(
        json.dumps({"op": "u", "before": None, "after": CHANGED}),
        json.dumps({"op": "d", "before": {"id": 1, "n": 8}, "after": None}),
        json.dumps({"op": "t"}),
        None,
        "no json",
        "[1]",
        '{"payload":null}',
    )
    named = {"n": 2, "price": 1, "note": 1, "tags": 1, "data": 1}
    assert offered.counts(plain, {"id"}) == named, "a path takes a part of data only"
    inferred = {
        "n": "Nullable(Int64)",
        "price": "Nullable(Float64)",
        "note": None,
        "tags": "Array(Nullable(String)) DEFAULT []",
    }
    assert offered.columns(plain, {"id", "data"}) == inferred

    whole = offered_by(settings("debezium"))
    assert whole is not None
    payload = {"op": "c", "before": None, "after": CHANGED}
    wrapped = json.dumps({"schema": CONNECT, "payload": payload})
    declared = {
        "n": "Nullable(Int16)",
        "price": "Nullable(Float64)",
        "note": "Nullable(String)",
        "tags": "Array(Nullable(String)) DEFAULT []",
        "data": "Nullable(String)",
    }
    assert whole.columns(values(wrapped), {"id"}) == declared
    wider = {**declared, "n": "Nullable(Int64)"}
    assert whole.columns(values(wrapped, json.dumps(payload)), {"id"}) == wider, "a record without a schema"
    for damaged in (1, {"fields": 1}, {}):
        text = json.dumps({"schema": damaged, "payload": payload})
        assert whole.columns(values(text), {"id", "data"}) == inferred


def test_times_are_offered_where_they_are_asked_for() -> None:
    """⚑ A table that is made of a sample has them; a column that is added to one does not."""
    offered = offered_by(settings("json"))
    assert offered is not None
    records = values('{"day":"2026-01-31","at":"2026-01-31T00:00:00Z"}')
    text = "Nullable(String)"
    assert offered.columns(records, ()) == {"day": text, "at": text}
    made = {"day": "Nullable(Date32)", "at": "Nullable(DateTime64(3, 'UTC'))"}
    assert offered.columns(records, (), times=True) == made


def test_debezium_of_two_schemas_in_one_chunk() -> None:
    """⚑ A double would round the long number: in ClickHouse, and in Iceberg."""
    events = [
        {
            "schema": {"fields": [{"type": "struct", "field": "after", "fields": [{"type": kind, "field": "c"}]}]},
            "payload": {"op": "c", "after": {"c": value}},
        }
        for kind, value in (("int64", BIG), ("double", 0.5))
    ]
    for types, text in ((CLICKHOUSE, "Nullable(String)"), (ICEBERG, "string")):
        offered = offered_by(settings("debezium"), types)
        assert offered is not None
        assert str(offered.columns(values(*map(json.dumps, events)), ())["c"]) == text


def described(name: str, kind: str, logical: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "field": name, "name": logical, "parameters": parameters}


def test_debeziums_decimals_and_times() -> None:
    """⚑ Decimals by their schema; a time only if its column holds every sampled value."""
    decimal, time = "org.apache.kafka.connect.data.Decimal", "io.debezium.time."
    types = [
        described("price", "bytes", decimal, **{"scale": "2", "connect.decimal.precision": "10"}),
        described("any", "bytes", decimal, scale="2"),
        described("below", "bytes", decimal, **{"scale": "-2", "connect.decimal.precision": "10"}),
        described("day", "int32", time + "Date"),
        described("at", "int64", time + "MicroTimestamp"),
        described("late", "int64", time + "Timestamp"),
        described("zoned", "string", time + "ZonedTimestamp"),
        described("clock", "int64", time + "MicroTime"),
        {"type": "array", "field": "days", "items": {"type": "int32", "name": time + "Date"}},
    ]
    row = {"price": "MDk=", "day": 20484, "at": 1767225600000001, "late": 1, "zoned": "2026-01-31T00:00:00Z"}
    row |= {"clock": 1, "days": [20484]}
    rows = [row, dict.fromkeys(row), {**row, "late": 253402300799000}, {**row, "any": "AQ==", "below": "AQ=="}]
    fields = [{"type": "struct", "field": "after", "fields": types}]
    events = [{"schema": {"fields": fields}, "payload": {"op": "c", "after": one}} for one in rows]
    offered = offered_by(settings("debezium"))
    assert offered is not None
    records = values(*map(json.dumps, events))
    text = "Nullable(String)"
    plain = {"price": "Nullable(Decimal(10, 2))", "any": text, "below": text, "clock": "Nullable(Int64)"}
    written = {"day": "Nullable(Int32)", "at": "Nullable(Int64)", "late": "Nullable(Int64)", "zoned": text}
    assert offered.columns(records, ()) == {**plain, **written, "days": "Array(Nullable(Int32)) DEFAULT []"}
    assert offered.columns(records, (), times=True) == {
        **plain,
        "day": "Nullable(Date32)",
        "at": "Nullable(DateTime64(6, 'UTC'))",
        "late": "Nullable(Int64)",
        "zoned": "Nullable(DateTime64(9, 'UTC'))",
        "days": "Array(Nullable(Date32)) DEFAULT []",
    }


@pytest.mark.parametrize("format", ["raw", "string", {"type": "csv", "columns": ["a"]}])
def test_formats_whose_columns_are_set_in_the_job_file(format: Any) -> None:
    assert offered_by(settings(format)) is None


@pytest.mark.parametrize("schema", [CONNECT, None])
def test_the_columns_of_debezium_take_its_values(schema: Any) -> None:
    payload = {"op": "c", "before": None, "after": CHANGED}
    record = json.dumps({"schema": schema, "payload": payload} if schema else payload)
    debezium = settings("debezium")
    offered = offered_by(debezium)
    assert offered is not None
    kinds = {n: k.partition(" DEFAULT ") for n, k in offered.columns(values(record), ()).items() if k is not None}
    columns = [Column(n, kind, default.strip(), to) for n, (kind, default, to) in kinds.items()]
    decoder = decoder_of("d.t", columns, "UTC", Untouched("read_committed"), debezium)
    decoded = decoder.decode(pa.RecordBatch.from_pydict({"value": values(record), "key": values(None)}))
    row = {**CHANGED, "tags": [b"a"], "data": b'{"a": 1}'}
    assert (list(decoded.bad), decoded.batch.to_pylist()) == ([], [{n: row[n] for n in kinds}])


def test_the_page_names_the_formats_that_offer_fields() -> None:
    page = Path(__file__).parents[3] / "docs/tables-that-change.md"
    _, _, table = page.read_text(encoding="utf-8").partition("| format | finds fields without a column |")
    said: dict[str, bool] = {}
    for row in table.partition("\n\n")[0].splitlines()[2:]:
        formats, finds = row.split("|")[1:3]
        said |= {name.strip(" `"): finds.strip().startswith("yes") for name in formats.split(",")}
    names = [get_args(kind.model_fields["type"].annotation)[0] for kind in READERS]
    more = {"csv": {"columns": ["a"]}, "tsv": {"columns": ["a"]}}
    assert said == {name: offered_by(settings({"type": name, **more.get(name, {})})) is not None for name in names}
