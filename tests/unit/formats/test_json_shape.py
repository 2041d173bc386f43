"""``json`` with an envelope, nested paths, constants and units of time."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from chsink.decode.columns import Column
from chsink.decode.exact import ExactDecoder
from chsink.decode.field_paths import Places
from chsink.decode.fields import fields_of
from chsink.errors import PreflightError
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import Json
from tests.support.examples import examples

COLUMNS = (
    Column("id", "UInt32"),
    Column("city", "Nullable(String)"),
    Column("lat", "Nullable(Float64)"),
    Column("copy", "Nullable(Int64)"),
    Column("tags", "Map(String, Int8)", "DEFAULT", "map()"),
    Column("doc", "Nullable(String)"),
)
SHAPE = Json(
    type="json",
    envelope="$.payload",
    fields={
        "city": "$.payload.address.city",
        "lat": "$.payload.address.geo['lat.']",
        "copy": "$.payload.id",
        "tags": "$.meta.tags",
        "doc": "$.payload.address",
    },
)


def decode(settings: Json, columns: tuple[Column, ...], values: list[Any]) -> dict[int, Any]:
    """By record: its row, or the reason why it has none."""
    raw = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    decoder = decoder_of("d.t", columns, "UTC", Untouched("read_committed"), settings)
    decoded = decoder.decode(pa.RecordBatch.from_pydict({"value": pa.array(raw, pa.binary())}))
    origin = range(len(values)) if decoded.rows is None else decoded.rows.to_pylist()
    found: dict[int, Any] = dict(zip(origin, decoded.batch.to_pylist(), strict=True))
    return found | {bad.row: f"{bad.column}: {bad.reason}" for bad in decoded.bad}


def test_fields_come_from_their_places() -> None:
    address = {"city": "Köln", "geo": {"lat.": 50.5, "lat": 1}}
    record = {"payload": {"id": 7, "city": 1, "address": address}, "meta": {"tags": {"a": 1}}, "id": "x"}

    assert decode(SHAPE, COLUMNS, [record, {"payload": {"id": 8, "address": None}}]) == {
        0: {
            "id": 7,
            "city": "Köln".encode(),
            "lat": 50.5,
            "copy": 7,
            "tags": [(b"a", 1)],
            "doc": json.dumps(address).encode(),
        },
        1: {"id": 8, "city": None, "lat": None, "copy": 8, "tags": [], "doc": None},
    }


MESSY: list[tuple[Any, str]] = [
    ({"payload": None}, "None: no object at $.payload"),
    ({}, "None: no object at $.payload"),
    ({"payload": []}, "None: an array at $.payload, not an object"),
    ({"payload": {"id": 1, "address": "x"}}, "None: a string at $.payload.address, not an object"),
    ({"payload": {"id": 1, "address": {"geo": 5}}}, "None: an integer at $.payload.address.geo, not an object"),
    ({"payload": {"id": 1}, "meta": [1]}, "None: an array at $.meta, not an object"),
    (b'{"payload":{"id":1},"payload":{"id":2}}', "None: the field payload is given twice"),
    (b'{"payload":{"id":1,"id":2}}', "None: the field id is given twice"),
    (b'{"payload":{"id":1,"address":{"city":"a","city":"b"}}}', "None: the field city is given twice"),
    (b'{"payload":{"id":1},"meta":{"tags":{},"tags":{}}}', "None: the field tags is given twice"),
    (b'{"payload":{"id":1},"meta":{},"meta":{}}', "None: the field meta is given twice"),
    (b'\xef\xbb\xbf{"payload":{"id":1}}', "None: not valid JSON at byte 0"),
    (b'{"payload":{"id":1}}{}', "None: not valid JSON at byte 20"),
    (b'{"payload":{"id":"\x00"}}', "None: not valid JSON at byte 18"),
    (b"\xff", "None: not valid UTF-8 at byte 0"),
    (b"", "None: the value is empty"),
    (None, "None: value is null (a tombstone)"),
    ({"payload": {"id": 4294967296}}, "id: out of range for UInt32"),
]


def test_a_messy_record_is_bad_and_leaves_its_neighbours() -> None:
    good = {"payload": {"id": 1, "address": {"city": "x", "geo": {"lat.": 1.5}}}, "meta": {"tags": {"a": 1}}}
    values = [each for value, _ in MESSY for each in (value, good)]
    found = decode(SHAPE, COLUMNS, values)

    assert [found[2 * at] for at in range(len(MESSY))] == [reason for _, reason in MESSY]
    assert {json.dumps(found[2 * at + 1], default=str) for at in range(len(MESSY))} == {
        json.dumps(decode(SHAPE, COLUMNS, [good])[0], default=str)
    }


LEAF = st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.floats(allow_nan=False), st.text(max_size=3))
NAMES = st.sampled_from(["id", "payload", "address", "city", "geo", "lat.", "meta", "tags", "else"])
ANY = st.recursive(LEAF, lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=2))
LIKELY = st.fixed_dictionaries(
    {
        "payload": st.fixed_dictionaries(
            {"id": st.integers(0, 5)},
            optional={
                "address": st.one_of(
                    LEAF, st.fixed_dictionaries({}, optional={"city": ANY, "geo": st.dictionaries(NAMES, LEAF)})
                )
            },
        )
    },
    optional={"meta": st.dictionaries(NAMES, ANY, max_size=2)},
)


@hypothesis(max_examples=examples(60), deadline=None)
@given(st.lists(st.one_of(LIKELY, ANY.filter(lambda value: value is not None)), max_size=12))
def test_each_record_has_the_outcome_it_has_alone_and_by_the_reference(values: list[Any]) -> None:
    found = decode(SHAPE, COLUMNS, values)

    assert found == {at: decode(SHAPE, COLUMNS, [value])[0] for at, value in enumerate(values)}
    reference = ExactDecoder(fields_of(COLUMNS, "UTC"), Places(("payload",), SHAPE.paths))
    arrays, reasons = reference.decode([json.dumps(value).encode() for value in values])
    assert [found[at] for at in sorted(reasons)] == [f"{column}: {reason}" for column, reason in reasons.values()]
    good = pa.RecordBatch.from_arrays(arrays, names=[c.name for c in COLUMNS]).to_pylist()
    assert [found[at] for at in range(len(values)) if at not in reasons] == good


def test_constants_and_units() -> None:
    columns = (
        Column("source", "LowCardinality(String)"),
        Column("day", "Date32"),
        Column("at", "DateTime64(3)"),
        Column("nine", "DateTime64(9)"),
        Column("clock", "Nullable(Time64(6))"),
        Column("n", "Decimal(9, 2)"),
    )
    settings = Json(
        type="json",
        constants={"source": "eu", "n": 1.5},
        epoch={"day": "days", "at": "micros", "nine": "nanos", "clock": "millis"},
    )
    found = decode(
        settings,
        columns,
        [
            {"day": -1, "at": 1767225600000000, "nine": 1767225600000000001, "clock": 3_600_001},
            {"day": 0, "at": 1, "nine": 0},
            {"day": "1970-01-02", "at": "1970-01-01 00:00:01.5", "nine": 0},
            {"day": 10**6, "at": 0, "nine": 0},
            {"day": 10**30, "at": 0, "nine": 0},
            {"day": 1.5, "at": 0, "nine": 0},
        ],
    )

    assert {at: list(map(str, row.values())) for at, row in found.items() if isinstance(row, dict)} == {
        0: [
            "b'eu'",
            "1969-12-31",
            "2026-01-01 00:00:00+00:00",
            "2026-01-01 00:00:00.000000001+00:00",
            "3600.001000",
            "1.50",
        ],
        2: ["b'eu'", "1970-01-02", "1970-01-01 00:00:01.500000+00:00", "1970-01-01 00:00:00+00:00", "None", "1.50"],
    }
    assert {at: row for at, row in found.items() if isinstance(row, str)} == {
        1: "at: finer than the precision of DateTime64(3)",
        3: "day: out of range for Date32",
        4: "day: out of range for Date32",
        5: "day: finer than the precision of Date32",
    }


def test_a_whole_number_in_quotes_counts_the_unit_too() -> None:
    """OpenTelemetry's JSON quotes its nanoseconds.  In one block all are quoted, in the other some."""
    columns = (Column("day", "Date32"), Column("nine", "DateTime64(9)"), Column("clock", "Nullable(Time64(6))"))
    settings = Json(type="json", epoch={"day": "days", "nine": "nanos", "clock": "millis"})
    plain: list[dict[str, int | None]] = [
        {"day": -1, "nine": 1767225600000000001, "clock": 3_600_001},
        {"day": 20484, "nine": 0, "clock": None},
        {"day": 10**6, "nine": -5, "clock": 0},
        {"day": 10**30, "nine": 10**19, "clock": 7},
    ]
    quoted = [{name: None if value is None else str(value) for name, value in row.items()} for row in plain]
    assert decode(settings, columns, quoted[:3]) == decode(settings, columns, plain[:3])
    assert decode(settings, columns, [*plain, *quoted]) == decode(settings, columns, [*plain, *plain])
    for other in (" 1", "+1", "1.0", "0x10", "1e3", ""):
        assert "day: a string that is not a date" in str(decode(settings, columns, [{**plain[0], "day": other}]))


@pytest.mark.parametrize(
    ("settings", "id"),
    [
        (Json(type="json", fields={"x": "$.x"}), "CHS-212"),
        (Json(type="json", constants={"x": 1}), "CHS-212"),
        (Json(type="json", constants={"id": "x"}), "CHS-280"),
        (Json(type="json", epoch={"id": "days"}), "CHS-280"),
        (Json(type="json", fields={"n.a": "$.x"}), "CHS-280"),
    ],
)
def test_an_option_that_does_not_fit_the_table_stops_the_start(settings: Json, id: str) -> None:
    columns = (Column("id", "UInt32"), Column("n.a", "Array(Int8)"), Column("n.b", "Array(Int8)"))
    with pytest.raises(PreflightError) as caught:
        decoder_of("d.t", columns, "UTC", Untouched("read_committed"), settings)
    assert caught.value.id == id
