"""What a record may look like, and what its reasons say."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from chsink.decode import Column, Decoded, JsonDecoder
from chsink.errors import ConfigError

MISSING = "missing or null, and the column has no DEFAULT and is not Nullable"


def decode(kind: str, *records: Any, default: str = "") -> Decoded:
    return JsonDecoder([Column("c", kind, default)], timezone="UTC").decode(pa.array(records, pa.binary()))


def reason(kind: str, record: bytes | None) -> tuple[str | None, str]:
    (bad,) = decode(kind, record).bad
    assert bad.row == 0
    return bad.column, bad.reason


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, "value is null (a tombstone)"),
        (b"", "the value is empty"),
        (b" ", "not valid JSON at byte 1"),
        (b"[1]", "the record is an array, not a JSON object"),
        (b"null", "the record is null, not a JSON object"),
        (b'"x"', "the record is a string, not a JSON object"),
        (b'{"c":1}{"c":2}', "not valid JSON at byte 7"),
        ('{"é":1,}'.encode(), "not valid JSON at byte 8"),
        (b'{"c":1,"z":"\xff"}', "not valid UTF-8 at byte 12"),
        (b'{"z":NaN,"c":1}', "not valid JSON: NaN and Infinity are not JSON numbers"),
        (b'\xef\xbb\xbf{"c":1}', "not valid JSON at byte 0"),
        (b'{"c":1,"z":' + b"[" * 256 + b"]" * 256 + b"}", "nested deeper than 256 levels"),
        (b'{"c":1,"c":1}', "the field c is given twice"),
    ],
)
def test_records_that_are_no_object(record: bytes | None, expected: str) -> None:
    assert reason("Int64", record) == (None, expected)


def test_only_a_null_value_is_a_tombstone() -> None:
    assert [bad.tombstone for bad in decode("Int64", None, b"", b"null").bad] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("UInt8", b"300", "out of range for UInt8"),
        ("UInt8", b"1.5", "a number with a fraction in UInt8"),
        ("UInt8", b"true", "a boolean in UInt8"),
        ("UInt8", b'"x"', "a string that is not a number in UInt8"),
        ("UInt8", b"[]", "an array in UInt8"),
        ("UInt8", b"null", MISSING),
        ("Array(UInt8)", b"[null]", "null for an element of UInt8, which takes no null"),
        ("Decimal(4, 2)", b"1.234", "more digits after the point than Decimal(4, 2) holds"),
        ("DateTime", b'"2026-01-01 00:00:00.5"', "finer than the precision of DateTime"),
        ("DateTime64(3)", b"1767225600", "an integer that could be ticks of DateTime64(3) or of a coarser unit"),
        (
            "DateTime('Europe/Berlin')",
            b'"2026-03-29 02:30:00"',
            "a local time that a clock change in Europe/Berlin skips",
        ),
        ("Map(String, Int8)", b'{"k":1,"k":1}', "a key is repeated in a Map"),
        ("JSON", b'{"k":1,"k":1}', "a key is repeated inside a JSON column"),
        ("Enum8('a' = 1)", b'"b"', "a string that is not a member of Enum8"),
        ("String", b'"\\ud800"', "a string with an unpaired surrogate, which has no UTF-8 form"),
    ],
)
def test_reasons_name_kinds_and_types(kind: str, value: bytes, expected: str) -> None:
    assert reason(kind, b'{"c":' + value + b"}") == ("c", expected)


@pytest.mark.parametrize(
    "kind",
    [
        "UInt8",
        "Float32",
        "Decimal(3, 1)",
        "Bool",
        "UUID",
        "IPv4",
        "Date",
        "DateTime64(3)",
        "Time",
        "Enum8('a' = 1)",
        "FixedString(2)",
        "JSON",
        "Array(Int8)",
        "Map(UInt8, UInt8)",
        "Tuple(x Int8)",
    ],
)
@pytest.mark.parametrize(
    "value", ['"sEcReT"', '{"sEcReT": "sEcReT"}', '["sEcReT"]', "98765.4321", '{"x":"sEcReT","x":1}', "9876543210987"]
)
def test_a_reason_never_holds_the_value(kind: str, value: str) -> None:
    for bad in decode(kind, f'{{"c":{value}}}'.encode(), f'{{"c":{value}'.encode()).bad:
        assert "sEcReT" not in bad.reason
        assert "9876" not in bad.reason


def test_null_and_missing_are_the_same() -> None:
    records = (b'{"c":null}', b"{}")
    assert decode("Nullable(Int8)", *records).batch.to_pylist() == [{"c": None}] * 2
    assert decode("Int8", *records, default="DEFAULT").batch.to_pylist() == [{"c": None}] * 2
    assert [bad.reason for bad in decode("Int8", *records).bad] == [MISSING] * 2


def test_unknown_fields_are_ignored_and_names_match_exactly() -> None:
    decoded = decode("Nullable(Int8)", b'{"z":{"c":1},"C":2,"z":3}', b'{"\\u0063":4}')
    assert decoded.batch.to_pylist() == [{"c": None}, {"c": 4}]


def test_only_insertable_columns_are_decoded_in_their_order() -> None:
    columns = [
        Column("b", "Int8"),
        Column("m", "Int8", "MATERIALIZED"),
        Column("a", "Int8", "DEFAULT"),
        Column("x", "Int8", "ALIAS"),
        Column("e", "Int8", "EPHEMERAL"),
    ]
    decoder = JsonDecoder(columns, timezone="UTC")
    assert decoder.schema.names == ["b", "a"]
    assert decoder.decode(pa.array([b'{"a":1,"b":2,"m":"x"}'])).batch.to_pylist() == [{"b": 2, "a": 1}]


def test_rows_are_none_when_all_fit_and_ascending_otherwise() -> None:
    assert decode("Int8", b'{"c":1}').rows is None
    rows = decode("Int8", b'{"c":1}', None, b'{"c":"2"}', b"x", b'{"c":3}').rows
    assert rows is not None
    assert rows.to_pylist() == [0, 2, 4]
    empty = decode("Int8")
    assert empty.rows is None
    assert (empty.batch.num_rows, empty.bad) == (0, [])
    assert decode("Array(Variant(Int8, String))", None).batch.num_rows == 0


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_any_byte_strings_are_taken_sliced_or_not(kind: Any) -> None:
    values = pa.array(['{"c":0}', '{"c":1}', None, '{"c":2}'], kind)
    decoder = JsonDecoder([Column("c", "Int8")], timezone="UTC")
    assert decoder.decode(values.slice(1)).batch.to_pylist() == [{"c": 1}, {"c": 2}]


def test_a_topic_that_sends_other_kinds_is_read_alike() -> None:
    for value, kind, wire in (
        (b'"7"', "Int64", 7),
        (b"7.0", "Int64", 7),
        (b"1", "Bool", True),
        (b"7", "String", b"7"),
        (b'"1.5"', "Float64", 1.5),
        (b'{"x": 1}', "String", b'{"x": 1}'),
        (b"2", "Enum8('a' = 2)", 2),
    ):
        decoded = decode(kind, *[b'{"c": ' + value + b"}"] * 100)
        assert decoded.bad == []
        assert decoded.batch.column(0).to_pylist() == [wire] * 100


def test_a_record_longer_than_a_block_is_decoded() -> None:
    text = "x" * (9 << 20)
    decoded = decode("String", b'{"c":"a"}', f'{{"c":"{text}"}}'.encode(), b'{"c":"b"}')
    assert [len(value) for value in decoded.batch.column(0).to_pylist()] == [1, 9 << 20, 1]


def test_a_decoder_pickles() -> None:
    decoder = pickle.loads(pickle.dumps(JsonDecoder([Column("c", "Int8")], timezone="Asia/Tokyo")))
    assert decoder.decode(pa.array([b'{"c":1}'])).batch.to_pylist() == [{"c": 1}]


def test_tables_that_cannot_be_written_are_refused() -> None:
    for columns, expected in (
        ([Column("c", "Array(")], "CHS-506"),
        ([Column("c", "AggregateFunction(sum, UInt64)")], "CHS-502"),
        ([Column("c", "DateTime('Mars/Olympus')")], "CHS-503"),
        ([Column("c", "Variant(UUID, String)")], "CHS-504"),
        ([Column("c", "Int8"), Column("c", "Int8")], "CHS-505"),
        ([Column("c", "Int8", "ALIAS")], "CHS-505"),
    ):
        with pytest.raises(ConfigError) as caught:
            JsonDecoder(columns, timezone="UTC")
        assert caught.value.id == expected


NESTED = [Column("n.a", "Array(UInt8)"), Column("n.b", "Array(Nullable(String))")]
FORMS = [b'{"n.a":[1,2],"n.b":["x",null]}', b'{"n":[{"a":1,"b":"x"},{"a":2}]}', b'{"n":{"a":[1,2],"b":["x",null]}}']


@pytest.mark.parametrize("sampled", FORMS)
def test_nested_columns_are_read_in_each_form_whatever_the_others_use(sampled: bytes) -> None:
    odd = [b'{"n":[null]}', b'{"n":[{"a":1}],"n.b":["x"]}', b'{"n.a":[1],"n.b":[]}', b'{"n":5}', b'{"n":[{"b":"x"}]}']
    records = [*[sampled] * 200, *FORMS, *odd]
    decoded = JsonDecoder(NESTED, timezone="UTC").decode(pa.array(records, pa.binary()))
    assert decoded.batch.to_pylist() == [{"n.a": [1, 2], "n.b": [b"x", None]}] * 203
    assert [bad.row for bad in decoded.bad] == [203, 204, 205, 206, 207]


@pytest.mark.parametrize(
    "record", [b'{"c":{"nan":1,"NaN":2}}', b'{"c":{"inf":1,"Infinity":2}}', b'{"c":{"0.0":1,"-0.0":2}}']
)
def test_two_spellings_of_one_key_are_one_key(record: bytes) -> None:
    """⚑ A Map would keep one of the two values."""
    decoder = JsonDecoder([Column("c", "Map(Float64, Int8)")], timezone="UTC")
    for records in ([record], [record] * 100):
        found = decoder.decode(pa.array(records, pa.binary()))
        assert {bad.reason for bad in found.bad} == {"a key is repeated in a Map"}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\tb"])
def test_a_column_may_have_any_name(name: str) -> None:
    """⚑ Every task failed, without an id."""
    decoder = JsonDecoder([Column(name, "String"), Column("n", "UInt8")], timezone="UTC")
    records = [json.dumps({name: value, "n": 1}).encode() for value in ("x", 2, {"y": [1]})]
    decoded = decoder.decode(pa.array([*records, b'{"n": 2}'], pa.binary()))
    assert decoded.batch.column(0).to_pylist() == [b"x", b"2", b'{"y": [1]}']
    assert [bad.row for bad in decoded.bad] == [3]
