"""Decimals, dates and times as Kafka Connect writes them, with and without the schema beside them."""

from __future__ import annotations

import base64
import json
import tomllib
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.settings import Debezium, Json
from tests.support.connect_cases import CASES, DECIMAL, VARIABLE, Case, event
from tests.support.examples import examples
from tests.unit.formats.decoding import Bytes, alone, outcomes

PLAIN = Debezium(type="debezium")
ADVICE = "name the column in `decimals` of the format, or set value.converter.schemas.enable=true"


def price(value: Any, settings: Debezium = PLAIN, kind: str = "Decimal(18, 4)") -> Any:
    """What a column takes of a value without a schema: alone, and among others like it."""
    record = json.dumps({"op": "c", "after": {"c": value}}).encode()
    found = outcomes(settings, [Column("c", kind)], [record] * 100)
    assert found == outcomes(settings, [Column("c", kind)], [record]) * 100
    return found[0]["c"] if isinstance(found[0], dict) else found[0]


def base64_of(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.names[0]}-{case.json}")
def test_the_schema_decides(case: Case) -> None:
    """⚑ Never in another unit or scale: each column takes the exact value, or none."""
    for schema in case.schemas():
        record = event(case, schema)
        for kind in case.stored:
            for options in ({}, {"epoch": {"c": "seconds"}}) if "DateTime" in kind else ({},):
                settings = Debezium.model_validate({"type": "debezium", **options})
                (found,) = outcomes(settings, [Column("c", kind)], [record])
                assert isinstance(found, dict), (kind, found)
                assert outcomes(settings, [Column("c", kind)], [record] * 50) == [found] * 50
        for kind in case.bad:
            for records in ([record], [record] * 50):
                assert all(isinstance(one, str) for one in outcomes(PLAIN, [Column("c", kind)], records)), kind


def test_elements_and_members_have_the_types_of_the_schema() -> None:
    element = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    money = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}}
    cases: list[tuple[str, dict[str, Any], Any]] = [
        ("Array(DateTime64(3, 'UTC'))", {"type": "array", "items": element}, [1767225600123000]),
        ("Map(String, Decimal(9, 2))", {"type": "map", "keys": {"type": "string"}, "values": money}, {"a": "MDk="}),
        ("Tuple(a Decimal(9, 2))", {"type": "struct", "fields": [{**money, "field": "a"}]}, {"a": "MDk="}),
    ]
    found = [
        outcomes(PLAIN, [Column("c", kind)], [event(CASES[0], {**schema, "field": "c"}, json.dumps(value))])[0]["c"]
        for kind, schema, value in cases
    ]
    assert str(found[0][0])[:23] == "2026-01-01 00:00:00.123"
    assert found[1:] == [[(b"a", Decimal("123.45"))], {"a": Decimal("123.45")}]
    assert "bytes of a decimal" in price(["1234"], kind="Array(Decimal(9, 0))")
    assert "bytes of a decimal" in price({"a": "1234"}, kind="Map(String, Int64)")


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "bytes"}, '"1234"', "bytes in Int64"),
        ({"type": "bytes", "name": DECIMAL}, '"1234"', "a decimal without a scale in its schema in Int64"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, '"12345"', "a string that is not base64 of a decimal's bytes in Int64"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, '""', "a string that is not base64 of a decimal's bytes in Int64"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, '"AR=="', "a string that is not base64 of a decimal's bytes in Int64"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, '"A==="', "a string that is not base64 of a decimal's bytes in Int64"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, f'"{base64_of(2**63)}"', "out of range for Int64"),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}, f'"{base64_of(2**2000)}"', "out of range for Int64"),
        ({"type": "struct", "name": VARIABLE}, '{"scale": 0}', "an object that is not a decimal (scale and value) in Int64"),
        ({"type": "struct", "name": VARIABLE}, '{"scale": 1.5, "value": "AQ=="}', "an object that is not a decimal (scale and value) in Int64"),
        ({"type": "struct", "name": VARIABLE}, '{"scale": 99999999, "value": "AQ=="}', "out of range for Int64"),
        ({"type": "struct", "name": VARIABLE}, '{"scale": 0, "value": "AQ==", "currency": "EUR"}', "an object that is not a decimal (scale and value) in Int64"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_number_are_bad(schema: dict[str, Any], value: str, reason: str) -> None:
    record = event(CASES[0], {**schema, "field": "c"}, value)
    for records in ([record], [record] * 50):
        assert outcomes(PLAIN, [Column("c", "Int64")], records) == [f"c: {reason}"] * len(records)


def test_bytes_are_not_taken_for_a_word() -> None:
    """⚑ ``true`` and ``abcd`` are base64, too."""
    money = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}, "field": "c"}
    fates = [
        ("Bool", '"true"', "c: a number other than 0 and 1 in Bool"),
        ("Bool", '"AQ=="', {"c": True}),
        ("Enum8('abcd' = 1)", '"abcd"', "c: bytes or a decimal in Enum8"),
        ("UUID", '"123E4567E89B12D3A456426614174000"', "c: bytes or a decimal in UUID"),
        ("String", '"abcd"', {"c": b"abcd"}),
    ]
    for kind, value, fate in fates:
        assert outcomes(PLAIN, [Column("c", kind)], [event(CASES[0], money, value)] * 40) == [fate] * 40


def test_a_path_leads_through_maps() -> None:
    moments = {"type": "map", "values": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "field": "c"}
    settings = Debezium(type="debezium", fields={"at": "$.after.c.x"})
    record = event(CASES[0], moments, '{"x": 1767225600123000}')
    (found,) = outcomes(settings, [Column("at", "DateTime64(3, 'UTC')")], [record])
    assert str(found["at"])[:23] == "2026-01-01 00:00:00.123"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.names[0]}-{case.json}")
def test_what_to_do_without_a_schema(case: Case) -> None:
    """The page's last column, done literally, gives the same value."""
    options = tomllib.loads(case.alone.strip("`")) if "=" in case.alone else {}
    settings = Debezium.model_validate({"type": "debezium", **options})
    if "String" in case.alone:
        kinds = ["String"]
    else:
        kinds = [k for k in case.stored if k.startswith(("Date", "Time")) or (k != "String" and "epoch" not in options)]
    assert kinds
    for kind in kinds:
        record = event(case, next(case.schemas()))
        same = outcomes(PLAIN, [Column("c", kind)], [record])
        assert isinstance(same[0], dict)
        assert outcomes(settings, [Column("c", kind)], [record.split(b',"payload":')[1][:-1]]) == same


def test_a_text_or_a_number_in_the_schema_is_what_it_says() -> None:
    """⚑ Nothing is ambiguous where the schema says that a text is a text."""
    text = event(CASES[0], {"type": "string", "field": "c"}, '"1234"')
    number = event(CASES[0], {"type": "double", "field": "c"}, "1234.5")
    numeric = event(CASES[0], {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}, "field": "c"}, "12.50")
    found = outcomes(PLAIN, [Column("c", "Decimal(9, 2)")], [text, number, numeric, *[numeric] * 40])
    assert [str(row["c"]) for row in found[:3]] == ["1234.00", "1234.50", "12.50"]


def test_without_a_schema_a_text_that_may_be_bytes_is_bad() -> None:
    """⚑ 1234 is a number, and base64 of -2658824."""
    for text in ("1234", "AQID", "AQ==", "Infinity", "12345678", "1e+5"):
        for kind in ("Decimal(18, 4)", "Int64", "UInt256", "Float64"):
            assert ADVICE in price(text, kind=kind), (text, kind)
    assert [str(price(text)) for text in ("12.50", "-1234", "123", "12345")] == [
        "12.5000",
        "-1234.0000",
        "123.0000",
        "12345.0000",
    ]
    assert price("x") == "c: a string that is not a number in Decimal(18, 4)"
    assert [price(text, kind="Float64") for text in ("-Infinity", "0.5")] == [float("-inf"), 0.5]


def test_numbers_beside_texts_are_read_apart() -> None:
    """⚑ The fast parser takes a decimal in quotes for the number."""
    data = [json.dumps({"op": "c", "before": {"c": 1}, "after": {"c": one}}).encode() for one in (1.5, 2, "1234")]
    escaped = rb'{"op":"c","after":{"\u0063" : "1234"}}'
    for option, fate in (({}, str), ({"c": 0}, dict), ({"c": "text"}, dict)):
        settings = Debezium.model_validate({"type": "debezium", "decimals": option})
        for kind in ("Decimal(18, 4)", "Int256", "Nullable(Decimal(76, 0))"):
            some: list[Bytes] = [*[data[1]] * 30, data[2], escaped, *data]
            found = outcomes(settings, [Column("c", kind)], some)
            assert found == alone(settings, [Column("c", kind)], some)
            assert isinstance(found[30], fate)
            assert found[30] == found[31]


def test_the_option_decides_without_a_schema() -> None:
    scaled = Debezium(type="debezium", decimals={"c": 2})
    text = Debezium(type="debezium", decimals={"c": "text"})
    assert [str(price(value, scaled)) for value in ("MDk=", "1234", 1.5)] == ["123.4500", "-26588.2400", "1.5000"]
    assert "not base64" in price("12.50", scaled)
    assert [str(price(value, text)) for value in ("1234", "12.50", 1.5)] == ["1234.0000", "12.5000", "1.5000"]
    assert price("AQID", text) == "c: a string that is not a number in Decimal(18, 4)"
    assert str(price({"scale": 3, "value": "ATA5"})) == "77.8810", "an object cannot be anything else"


def test_the_schema_decides_before_the_option() -> None:
    record = event(CASES[0], next(iter(CASES[0].schemas())))
    for digits in (5, "text"):
        found = outcomes(Debezium(type="debezium", decimals={"c": digits}), [Column("c", "Decimal(18, 4)")], [record])
        assert str(found[0]["c"]) == "123.4500"


def test_json_has_the_option_too() -> None:
    settings = Json(type="json", envelope="$.payload", decimals={"c": 2})
    record = b'{"schema":{},"payload":{"c":"MDk="}}'
    assert [str(row["c"]) for row in outcomes(settings, [Column("c", "Decimal(9, 2)")], [record] * 20)] == [
        "123.45"
    ] * 20
    assert outcomes(Json(type="json"), [Column("c", "Int64")], [b'{"c":"1234"}']) == [{"c": 1234}], "as JSON reads it"
    with pytest.raises(PreflightError) as caught:
        outcomes(Json(type="json", decimals={"c": 2}), [Column("c", "String")], [])
    assert caught.value.id == "CHS-280"


def test_keys_have_schemas_of_their_own() -> None:
    """⚑ A delete without ``before`` deletes the row that its key names."""
    columns = [Column("c", "Decimal(20, 0)"), Column("at", "Date"), Column("is_deleted", "UInt8")]
    settings = Debezium(type="debezium", primary_key=("c", "at"), deleted_column="is_deleted")
    fields = [
        {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}, "field": "c"},
        {"type": "int32", "name": "io.debezium.time.Date", "field": "at"},
    ]
    key = {"schema": {"type": "struct", "fields": fields}, "payload": {"c": "1234", "at": 20484}}
    twice = json.dumps(key)[:-1] + ', "schema": {"type": "struct"}}'
    plain = b'{"c": "1234", "at": 20484}'
    deletion = b'{"op":"d","before":null}'
    found = outcomes(settings, columns, [deletion] * 4, [json.dumps(key).encode(), plain, twice.encode(), None])
    assert (found[0]["c"], str(found[0]["at"]), found[0]["is_deleted"]) == (Decimal(-2658824), "2026-01-31", 1)
    assert found[1:] == ["None: a delete without `before`, whose key is not a primary key"] * 3


SCHEMAS = st.sampled_from(
    [
        {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}, "field": "c"},
        {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}, "field": "c"},
        {"type": "string", "field": "c"},
        {"type": "double", "field": "c"},
        {"type": "struct", "name": VARIABLE, "field": "c"},
        {"type": "int64", "field": "other"},
    ]
)
NUMBERS = st.one_of(
    st.integers(-(2**130), 2**130).map(base64_of).map(json.dumps),
    st.sampled_from(
        ['"1234"', '"AQ=="', '"AQ"', '"+w=="', "5", "1.25", "null", '{"scale":1,"value":"AQ=="}', '"x"', "[]"]
    ),
)
FORMS = st.sampled_from(["plain", "wrapped", "spaced", "late", "twice", "more", "cut", "inner", "unsent", "delete"])


def formed(form: str, schema: dict[str, Any], value: str) -> bytes:
    """An event with its schema at different places."""
    whole = event(CASES[0], schema, value)
    beside, payload = whole.split(b',"payload":')
    if form == "plain":
        return payload[:-1]
    if form == "late":
        return b'{"payload":' + payload[:-1] + b"," + beside[1:] + b"}"
    if form == "more":
        return whole[:-1] + b',"more":{}}'
    if form == "cut":
        return whole[:-1]
    if form == "inner":
        return beside + b',"payload":{"payload":' + payload + b"}"
    if form == "unsent":
        return whole.replace(b'"optional"', b'"__debezium_unavailable_value"', 1)
    if form == "delete":
        return whole.replace(b'"op":"c"', b'"op":"d"').replace(b'"before":null,"after"', b'"after":null,"before"')
    if form == "twice":
        return whole[:-1] + b',"schema":null}'
    return whole.replace(b":", b" : ", 1) if form == "spaced" else whole


@hypothesis(max_examples=examples(80), deadline=None)
@given(
    st.lists(st.tuples(FORMS, SCHEMAS, NUMBERS), max_size=12),
    st.sampled_from(["Decimal(38, 2)", "Nullable(Int64)", "Float64", "Array(Decimal(9, 1))", "Nullable(String)"]),
    st.sampled_from([{}, {"c": 1}, {"c": "text"}]),
)
def test_a_batch_is_its_records(records: list[tuple[str, Any, str]], kind: str, decimals: dict[str, Any]) -> None:
    """⚑ Whatever schemas the neighbours have."""
    settings = Debezium(type="debezium", decimals={} if "String" in kind else decimals)
    values: list[Bytes] = [formed(*record) for record in records]
    assert outcomes(settings, [Column("c", kind)], values) == alone(settings, [Column("c", kind)], values)


def test_records_that_are_not_in_the_converters_form() -> None:
    """⚑ Only a record that is exactly a schema and a payload is read by its payload alone."""
    money = next(iter(CASES[0].schemas()))
    fates = {
        "wrapped": {"c": Decimal("123.45")},
        "more": {"c": Decimal("123.45")},
        "late": {"c": Decimal("123.45")},
        "spaced": {"c": Decimal("123.45")},
        "cut": "None: not valid JSON at byte",
        "inner": "None: not a change event of Debezium: it has no op",
        "twice": "None: the field schema is given twice",
        "unsent": "None: holds Debezium's placeholder for a value that the database did not send",
        "delete": "None: a delete, and the route's format names no deleted_column",
    }
    records: list[Bytes] = [formed(form, money, '"MDk="') for form in fates for _ in range(30)]
    for at, found in enumerate(outcomes(PLAIN, [Column("c", "Decimal(9, 2)")], records)):
        fate = list(fates.values())[at // 30]
        assert found == fate if isinstance(fate, dict) else found.startswith(fate), found


@pytest.mark.parametrize("form", ["wrapped", "spaced", "late"])
def test_a_batch_with_many_schemas(form: str) -> None:
    records: list[Bytes] = []
    for scale in range(40):
        schema = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": str(scale)}, "field": "c"}
        records += [formed(form, schema, '"MDk="')] * 2
    found = outcomes(PLAIN, [Column("c", "Decimal(76, 40)")], records)
    assert [row["c"] for row in found[::2]] == [Decimal(f"12345e-{scale}") for scale in range(40)]
    assert found[::2] == found[1::2]


@hypothesis(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(-(2**126), 2**126), min_size=1, max_size=30), st.integers(-3, 40))
def test_the_bytes_of_any_number(numbers: list[int], scale: int) -> None:
    """⚑ Read at once as one by one, and as Python reads them."""
    settings = Json(type="json", decimals={"c": scale})
    values: list[Bytes] = [json.dumps({"c": base64_of(number)}).encode() for number in numbers]
    found = outcomes(settings, [Column("c", "Decimal(76, 38)")], values)
    for row, number in zip(found, numbers, strict=True):
        exact = Fraction(number) / Fraction(10) ** scale
        fits = abs(exact) < 10**38 and (exact * 10**38).denominator == 1
        assert (Fraction(row["c"]) == exact) if fits else isinstance(row, str), row
