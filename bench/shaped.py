"""Records of several shapes, and the table that each belongs to.  A record depends on its number alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench import topic

KEYS: tuple[str, ...] = tuple(f"field_{number:02}" for number in range(40))


@dataclass(frozen=True, slots=True)
class Shape:
    """``columns`` are those of the table; ``record`` makes the value with a number.

    ``settings`` are sections of the job file.
    """

    what: str
    columns: str
    record: Callable[[int], bytes]
    settings: dict[str, Any] = field(default_factory=dict)


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _kind(number: int) -> str:
    return ("UInt64", "Float64", "String", "DateTime('UTC')")[number % 4]


def _field(number: int, index: int) -> object:
    match number % 4:
        case 0:
            return index * 31 + number
        case 1:
            return (index * 7 + number) % 10_000 / 4
        case 2:
            return f"value {(index + number) % 1000} of this"
    return f"2026-01-01 00:{index // 60 % 60:02}:{index % 60:02}"


def _wide(index: int) -> bytes:
    return _dumped({name: _field(number, index) for number, name in enumerate(KEYS)})


def _is_null(number: int, index: int) -> bool:
    return number > 0 and (index * 2_654_435_761 >> 7) * (number + 3) % 10 < 4


def _nulls(index: int) -> bytes:
    return _dumped({k: None if _is_null(n, index) else _field(n, index) for n, k in enumerate(KEYS[:20])})


def _sparse(index: int) -> bytes:
    return _dumped({k: _field(n, index) for n, k in enumerate(KEYS[:20]) if not _is_null(n, index)})


def _nested(index: int) -> bytes:
    tags = [f"tag{(index + number) % 17}" for number in range(index % 4)]
    items = [{"sku": f"s-{index % 97}", "count": number, "price": number + 0.5} for number in range(1 + index % 3)]
    customer = {"name": f"user{index}", "address": {"city": f"c{index % 50}", "zip": index % 90_000}}
    return _dumped({"id": index, "customer": customer, "tags": tags, "items": items, "paid": index % 2 == 0})


def _decimals(index: int) -> bytes:
    return (
        b'{"id": %d, "amount": %d.%02d, "tax": "%d.%02d", "rate": 0.%04d, "currency": "EUR", "scores": [%d, %d, %d]}'
        % (index, index % 100_000, index % 100, index % 9_999, index % 89, index % 9_999, index % 9, index % 77, index)
    )


def _texts(index: int) -> bytes:
    return _dumped(
        {"id": index, "title": f"report {index}", "body": ("lorem ipsum dolor sit amet, " * 36)[: 1000 + index % 24]}
    )


def _escapes(index: int) -> bytes:
    return _dumped(
        {"id": index, "title": f'report "{index}"', "body": "one line\n\tand the next\n" * 4, "city": f"c{index % 50}"}
    )


def _one_bad(index: int) -> bytes:
    """With a line feed: ClickHouse skips to the next one behind an error."""
    record = b'{"id":"none","name":"user%d"}' % index if index % 100 == 99 else topic.record(index)
    return record + b"\n"


_TWENTY = ", ".join(f"{name} Nullable({_kind(n)})" if n else f"{name} UInt64" for n, name in enumerate(KEYS[:20]))
SHAPES = {
    "flat": Shape("7 members, 110 bytes", topic.COLUMNS, topic.record),
    "wide": Shape("40 members, 1 KB", ", ".join(f"{k} {_kind(n)}" for n, k in enumerate(KEYS)), _wide),
    "nulls": Shape("20 members, 4 in 10 null", _TWENTY, _nulls),
    "sparse": Shape("20 members, 4 in 10 left out", _TWENTY, _sparse),
    "nested": Shape(
        "objects, an array of texts, an array of objects",
        "id UInt64, customer Tuple(name String, address Tuple(city String, zip UInt32)), tags Array(String),"
        " items Array(Tuple(sku String, count UInt32, price Float64)), paid Bool",
        _nested,
    ),
    "decimals": Shape(
        "decimals as numbers and as texts, an array of numbers, blanks",
        "id UInt64, amount Decimal(12, 2), tax Decimal(12, 2), rate Decimal(10, 6), currency String,"
        " scores Array(UInt32)",
        _decimals,
    ),
    "texts": Shape("a text of 1 KB", "id UInt64, title String, body String", _texts),
    "escapes": Shape("texts with escapes", "id UInt64, title String, body String, city String", _escapes),
    "bad": Shape("1 in 100 does not fit", topic.COLUMNS, _one_bad, {"errors": {"on_bad_value": "skip"}}),
}

CHANGE_COLUMNS = "id UInt64, name String, amount Float64, flag Bool, city String"
_ROW = b'"id":%d,"name":"user%d","amount":%d.25,"flag":true,"city":"c%d"'
_SOURCE = (
    b'"source":{"version":"3.0.1.Final","connector":"postgresql","name":"shop","ts_ms":%d,"snapshot":"false","db":"shop",'
    b'"schema":"public","table":"orders","txId":%d,"lsn":%d,"xmin":null},"op":"%s","ts_ms":%d'
)


def _changed(index: int) -> tuple[bytes, bytes]:
    """The text of the row's members, and that of the rest of the event."""
    now = 1_760_000_000_000 + index
    row = _ROW % (index, index, index % 1000, index % 50)
    return row, _SOURCE % (now, index, 2 * index, b"u" if index % 3 == 0 else b"c", now + 5)


def change(index: int) -> bytes:
    """A change of one row as Debezium sends it, without a schema beside it."""
    row, rest = _changed(index)
    return b'{"before":null,"after":{' + row + b"}," + rest + b"}"


def change_as_json(index: int) -> bytes:
    """The same members, but with those of the row in the record itself."""
    row, rest = _changed(index)
    return b'{"before":null,' + row + b"," + rest + b"}"
