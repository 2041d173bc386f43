"""Which JSON texts fit which Iceberg type, and the values that are read back.  The tests send them; the table in
docs/types.md is drawn from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

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
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)


@dataclass(frozen=True)
class Case:
    """``row`` is the type's name in the page; ``fits`` are JSON texts and the value that pyiceberg reads back."""

    kind: IcebergType
    row: str
    fits: Sequence[tuple[str, Any]]
    bad: Sequence[str]

    def __str__(self) -> str:
        return str(self.kind)


def at(*fields: int) -> datetime:
    """A time without zone."""
    return datetime(*fields)  # type: ignore[arg-type] # noqa: DTZ001


def utc(*fields: int) -> datetime:
    """An instant."""
    return datetime(*fields, tzinfo=UTC)  # type: ignore[arg-type,misc]


ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
MOMENTS = [
    ('"2026-01-31 23:59:59.123456"', (2026, 1, 31, 23, 59, 59, 123456)),
    ('"2026-01-31T23:59:59"', (2026, 1, 31, 23, 59, 59)),
    ('"2026-01-31T23:59:59Z"', (2026, 1, 31, 23, 59, 59)),
    ('"2026-01-31T23:59:59.5+02:00"', (2026, 1, 31, 21, 59, 59, 500000)),
    ('"2026-01-31"', (2026, 1, 31)),
    ('"1969-12-31T23:59:59.999999"', (1969, 12, 31, 23, 59, 59, 999999)),
    ('"0001-01-01T00:00:00"', (1, 1, 1)),
    ('"9999-12-31T23:59:59.999999"', (9999, 12, 31, 23, 59, 59, 999999)),
    ('"2026-01-31T23:59:59.1234560000"', (2026, 1, 31, 23, 59, 59, 123456)),
    ("1767225600000000", (2026, 1, 1)),
    ("1767225600.5", (2026, 1, 1, 0, 0, 0, 500000)),
    ("0", (1970, 1, 1)),
]
NO_MOMENTS = [
    '"2026-01-31T23:59:59.1234567"',
    "1767225600000",
    "1767225600",
    "1767225600.0000001",
    "true",
    '"today"',
    '"2026-02-30T00:00:00"',
    '"2026-01-31T24:00:00"',
    '"0000-12-31T00:00:00"',
    '"10000-01-01T00:00:00"',
    '"0001-01-01T00:00:00+00:01"',
    '"9999-12-31T23:59:59-00:01"',
    "253402300800000000",
]
CASES = [
    Case(
        BooleanType(),
        "boolean",
        [("true", True), ("false", False), ("1", True), ("0", False), ('"true"', True), ('"false"', False)],
        ["7", '"yes"', "1.5", "{}"],
    ),
    Case(
        IntegerType(),
        "int",
        [
            ("7", 7),
            ("7.0", 7),
            ("7e2", 700),
            ('"7"', 7),
            ("-0", 0),
            ("2147483647", 2**31 - 1),
            ('"-2147483648"', -(2**31)),
        ],
        ["1.5", "2147483648", "-2147483649", "true", '"x"', "1e400", "[]"],
    ),
    Case(
        LongType(),
        "long",
        [
            ("7", 7),
            ("7e2", 700),
            ("9223372036854775807", 2**63 - 1),
            ('"-9223372036854775808"', -(2**63)),
            ("9007199254740993", 2**53 + 1),
        ],
        ["1.5", "9223372036854775808", "-9223372036854775809", "true", '"x"'],
    ),
    Case(
        FloatType(),
        "float",
        [
            ("1.5", 1.5),
            ('"1.5"', 1.5),
            ('"nan"', math.nan),
            ('"inf"', math.inf),
            ('"-inf"', -math.inf),
            ('"NaN"', math.nan),
            ('"Infinity"', math.inf),
            ('"-Infinity"', -math.inf),
            ("-0.0", -0.0),
            ("0.1", 0.10000000149011612),
            ("1e-60", 0.0),
        ],
        ["1e39", "true", '"x"', '"+Infinity"'],
    ),
    Case(
        DoubleType(),
        "double",
        [
            ("0.1", 0.1),
            ('"0.1"', 0.1),
            ('"nan"', math.nan),
            ('"inf"', math.inf),
            ('"-inf"', -math.inf),
            ('"NaN"', math.nan),
            ('"Infinity"', math.inf),
            ('"-Infinity"', -math.inf),
            ("-0.0", -0.0),
            ("5e-324", 5e-324),
            ("1.7976931348623157e308", 1.7976931348623157e308),
        ],
        ["1e400", "true", '"x"'],
    ),
    Case(
        DecimalType(9, 2),
        "decimal(P, S)",
        [
            ("1.5", Decimal("1.50")),
            ('"1.50"', Decimal("1.50")),
            ("1.500", Decimal("1.50")),
            ("-9999999.99", Decimal("-9999999.99")),
            ("1e3", Decimal("1000.00")),
        ],
        ["1.505", "10000000", '"x"', "true"],
    ),
    Case(
        DecimalType(38, 10),
        "",
        [
            ('"1234567890123456789012345678.0123456789"', Decimal("1234567890123456789012345678.0123456789")),
            ("-9999999999999999999999999999.9999999999", Decimal("-9999999999999999999999999999.9999999999")),
        ],
        ["1e28", "0.00000000001"],
    ),
    Case(DecimalType(18, 0), "", [("999999999999999999", Decimal(10**18 - 1))], ["1000000000000000000", "0.5"]),
    Case(
        DateType(),
        "date",
        [
            ('"2026-01-31"', date(2026, 1, 31)),
            ('"0001-01-01"', date(1, 1, 1)),
            ('"9999-12-31"', date(9999, 12, 31)),
            ('"1969-12-31"', date(1969, 12, 31)),
        ],
        ["20000", '"2026-01-31 00:00:00"', '"2026-02-30"', '"0000-12-31"', '"10000-01-01"'],
    ),
    Case(
        TimeType(),
        "time",
        [
            ('"23:59:59.999999"', time(23, 59, 59, 999999)),
            ('"12:34"', time(12, 34)),
            ('"00:00:00"', time(0)),
            ('"12:34:56.5000000"', time(12, 34, 56, 500000)),
        ],
        ["45296", '"24:00:00"', '"1:00:00"', '"12:34:56.1234567"', '"12:34:56Z"', '"12"', '"1234"', '"12:60"'],
    ),
    Case(TimestampType(), "timestamp", [(text, at(*fields)) for text, fields in MOMENTS], NO_MOMENTS),
    Case(TimestamptzType(), "timestamptz", [(text, utc(*fields)) for text, fields in MOMENTS], NO_MOMENTS),
    Case(
        StringType(),
        "string",
        [
            ('"x"', "x"),
            ('"\\u00e4\\ud83d\\ude00"', "ä😀"),
            ('""', ""),
            ("1.50", "1.50"),
            ("true", "true"),
            ('{"a": 1}', '{"a": 1}'),
            ('"\\u0000"', "\0"),
        ],
        ['"\\ud800"'],
    ),
    Case(
        UUIDType(),
        "uuid",
        [
            ('"6ba7b810-9dad-11d1-80b4-00c04fd430c8"', ID),
            ('"6BA7B8109DAD11D180B400C04FD430C8"', ID),
            ('"ffffffff-ffff-ffff-ffff-ffffffffffff"', UUID(int=2**128 - 1)),
        ],
        ['"6ba7b810"', '"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"', "7"],
    ),
    Case(
        FixedType(4),
        "fixed[N]",
        [('"AAECAw=="', bytes(range(4))), ('"/////w=="', b"\xff" * 4)],
        ['"AAEC"', '"AAECAwQ="', '"AAECAw"', "7"],
    ),
    Case(
        BinaryType(),
        "binary",
        [('"AAECAw=="', bytes(range(4))), ('""', b""), ('"/w=="', b"\xff")],
        ['"AAECAw"', '"_w=="', '"/x=="', '"te xt"', "7", "[1]"],
    ),
]

_REQUIRED = StructType(NestedField(101, "a", LongType(), required=True), NestedField(102, "b", StringType()))
_DEEP = StructType(
    NestedField(
        120, "in", StructType(NestedField(121, "a", UUIDType(), required=True), NestedField(122, "t", TimeType()))
    ),
    NestedField(123, "all", MapType(124, LongType(), 125, ListType(126, TimestampType(), element_required=False))),
)
_WHOLE: dict[str, Any] = {"in": {"a": ID, "t": None}, "all": [(7, [at(2026, 1, 31), None]), (8, [])]}
NESTED = [
    Case(
        _REQUIRED,
        "struct",
        [
            ('{"a": 1}', {"a": 1, "b": None}),
            ('{"b": "x", "a": 1, "c": true}', {"a": 1, "b": "x"}),
            ('{"a": "7", "b": [1,  2], "c": 1, "c": 2}', {"a": 7, "b": "[1,  2]"}),
        ],
        [
            *("{}", '{"b": "x"}', '{"a": null}', '{"a": 1, "a": 2}', '{"a": 1.5}', '[1, "x"]', '"x"', "1"),
            '{"a": 1, "b": "\\ud800"}',
        ],
    ),
    Case(
        ListType(103, IntegerType(), element_required=True),
        "list",
        [("[1, 2]", [1, 2]), ("[]", []), ('["7", 7.0]', [7, 7])],
        ["[1, 2.5]", "[null]", "1", '{"0": 1}', "[[1]]", "[2147483648]"],
    ),
    Case(
        MapType(104, DateType(), 105, LongType(), value_required=True),
        "map",
        [
            ('{"2026-01-31": 1}', [(date(2026, 1, 31), 1)]),
            ("{}", []),
            ('{"2026-01-31": 1, "2026-01-30": 1}', [(date(2026, 1, 31), 1), (date(2026, 1, 30), 1)]),
        ],
        [
            *('{"2026-01-31": 1, "2026-01-31": 2}', '{"x": 1}', '{"2026-01-31": null}', '{"2026-01-31": "x"}'),
            '[["2026-01-31", 1]]',
        ],
    ),
    Case(
        _DEEP,
        "",
        [
            (f'{{"in": {{"a": "{ID}"}}, "all": {{"7": ["2026-01-31", null], "8": []}}}}', _WHOLE),
            ('{"in": null}', {"in": None, "all": None}),
            ("{}", {"in": None, "all": None}),
        ],
        ['{"in": {}}', '{"in": {"t": "12:00"}}', '{"all": {"7": [], "7.0": []}}', '{"all": {"7": [1.5, true]}}'],
    ),
]
SAYS: dict[str, tuple[str, str]] = {
    "boolean": (
        '`true`, `false`, `1`, `0`, `"true"`, `"false"`',
        'other numbers and strings: `7`, `"yes"`',
    ),
    "int": (
        'whole numbers from -2³¹ to 2³¹-1: `7`, `7.0`, `7e2`, `"7"`',
        "`1.5`, `2147483648`, `true`",
    ),
    "long": (
        "whole numbers from -2⁶³ to 2⁶³-1: `7`, `7e2`",
        "`1.5`, `9223372036854775808`, `true`",
    ),
    "float": (
        (
            'the nearest number of 32 bits: `1.5`, `"1.5"`, `"nan"`, `"inf"`, `"-inf"`, `"NaN"`, '
            '`"Infinity"`, `"-Infinity"`'
        ),
        "numbers too large for it: `1e39`; `true`",
    ),
    "double": (
        (
            'the nearest number of 64 bits: `0.1`, `"0.1"`, `"nan"`, `"inf"`, `"-inf"`, `"NaN"`, '
            '`"Infinity"`, `"-Infinity"`'
        ),
        "numbers too large for it: `1e400`; `true`",
    ),
    "decimal(P, S)": (
        'numbers with at most S decimal places: `1.5`, `"1.50"`, `1.500`',
        "more decimal places, more digits: `1.505`, `10000000` in a `decimal(9, 2)`",
    ),
    "date": (
        '`"2026-01-31"`, years 1 to 9999',
        'numbers, dates with a time: `20000`, `"2026-01-31 00:00:00"`',
    ),
    "time": (
        '`"23:59:59.999999"`, `"12:34"`',
        'numbers, because senders use different units: `45296`; `"24:00:00"`, `"12:34:56.1234567"`, `"12:34:56Z"`',
    ),
    "timestamp": (
        (
            '`"2026-01-31 23:59:59.123456"`, `"2026-01-31T23:59:59"`; with an offset, the time in UTC: '
            '`"2026-01-31T23:59:59.5+02:00"`; microseconds since 1970: `1767225600000000`; seconds with a '
            "fraction: `1767225600.5`"
        ),
        (
            'more than six decimal places: `"2026-01-31T23:59:59.1234567"`; integers that could count '
            "milliseconds or seconds: `1767225600000`, `1767225600`"
        ),
    ),
    "timestamptz": (
        'the same; without an offset, the text is taken as UTC: `"2026-01-31T23:59:59Z"`, `"2026-01-31T23:59:59"`',
        'the same: `"2026-01-31T23:59:59.1234567"`, `1767225600000`',
    ),
    "string": (
        'the text of a string; any other JSON value, as it was written: `"x"`, `1.50`, `true`, `{"a": 1}`',
        'an unpaired surrogate: `"\\ud800"`',
    ),
    "uuid": (
        '`"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"6BA7B8109DAD11D180B400C04FD430C8"`',
        '`"6ba7b810"`',
    ),
    "fixed[N]": (
        'N bytes in base64: `"AAECAw=="` in a `fixed[4]`',
        'another number of bytes: `"AAEC"`',
    ),
    "binary": (
        'bytes in base64 with padding, as Kafka Connect\'s JSON converter writes them: `"AAECAw=="`, `""`',
        'text that is not base64: `"AAECAw"`, `"_w=="`',
    ),
    "struct": (
        (
            'an object with the fields, each by its rule; other fields are ignored: `{"a": 1}`, `{"b": "x", '
            '"a": 1, "c": true}`'
        ),
        (
            'a required field that is missing or null, a field twice, an array: `{"b": "x"}`, `{"a": '
            'null}`, `{"a": 1, "a": 2}`, `[1, "x"]`'
        ),
    ),
    "list": (
        'an array of values that fit: `[1, 2]`, `[]`, `["7", 7.0]`',
        "one element that does not fit, null among required ones: `[1, 2.5]`, `[null]`; `1`",
    ),
    "map": (
        'an object; each name is read as a quoted value of the key\'s type: `{"2026-01-31": 1}`, `{}`',
        (
            'a key twice, a key or value that does not fit, null among required values: `{"2026-01-31": 1, '
            '"2026-01-31": 2}`, `{"x": 1}`, `{"2026-01-31": null}`'
        ),
    ),
}
"""The page's words for each type: what is accepted, and what is rejected."""


IN_CLICKHOUSE = {
    "boolean": "Bool",
    "int": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "date": "Date32",
    "time": "Time64(6)",
    "timestamp": "DateTime64(6, 'UTC')",
    "timestamptz": "DateTime64(6, 'UTC')",
    "string": "String",
    "uuid": "UUID",
    "fixed[4]": "String",
    "binary": "String",
}
"""A type for the same field; that of a decimal has its name."""


def type_in_clickhouse(kind: IcebergType) -> str:
    """A type of ClickHouse for the same values."""
    return IN_CLICKHOUSE.get(str(kind)) or str(kind).replace("decimal", "Decimal")


def table() -> Iterator[str]:
    """The lines of the page's table."""
    yield "| column | accepts | rejects |\n|---|---|---|"
    for case in (*CASES, *NESTED):
        if case.row:
            yield f"| `{case.row}` | {' | '.join(SAYS[case.row])} |"


def same(found: Any, expected: Any) -> bool:
    """Equal, of one type, and the same zero and the same NaN."""
    if isinstance(expected, UUID) and isinstance(found, bytes):
        found = UUID(bytes=found)
    if isinstance(expected, float) and isinstance(found, float):
        return repr(found) == repr(expected)
    return type(found) is type(expected) and bool(found == expected)
