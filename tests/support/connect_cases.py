"""Values as Kafka Connect's JSON converter writes them, with the schema beside them, and what ClickHouse stores.

The tests decode and land these values; ``docs/formats.md`` has the same ones in its table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"


@dataclass(frozen=True, slots=True)
class Case:
    """A value of a Connect type: ``stored`` maps columns to what ClickHouse shows, ``bad`` lists columns that it does not
    fit.  ``alone`` says what to do without a schema.
    """

    type: str
    names: tuple[str, ...]
    json: str
    stored: Mapping[str, str]
    bad: tuple[str, ...]
    alone: str
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def schemas(self) -> Iterator[dict[str, Any]]:
        """The field's schema, by each of the names."""
        for name in self.names:
            named = {"type": self.type, "optional": True, "name": name, "version": 1, "field": "c"}
            yield {**named, **({"parameters": dict(self.parameters)} if self.parameters else {})}


_EPOCH = '`epoch = {{ c = "{}" }}`'
CASES = (
    Case(
        "bytes",
        (DECIMAL,),
        '"MDk="',
        {"Decimal(9, 2)": "123.45", "Float64": "123.45"},
        ("Decimal(9, 1)", "Int32", "Date", "DateTime64(3)", "Time"),
        "`decimals = { c = 2 }`",
        {"scale": "2", "connect.decimal.precision": "9"},
    ),
    Case(
        "bytes",
        (DECIMAL,),
        '"1234"',
        {"Int64": "-2658824", "Decimal(38, 0)": "-2658824", "Int256": "-2658824", "String": "1234"},
        ("UInt64", "Decimal(6, 0)"),
        "`decimals = { c = 0 }`",
        {"scale": "0"},
    ),
    Case(
        "struct",
        (VARIABLE,),
        '{"scale": 3, "value": "ATA5"}',
        {"Decimal(9, 3)": "77.881", "Float64": "77.881"},
        ("Decimal(9, 2)", "Int64", "DateTime64(3)"),
        "read as such",
    ),
    Case(
        "int32",
        ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date"),
        "20484",
        {"Date": "2026-01-31", "Date32": "2026-01-31", "Int32": "20484"},
        ("DateTime", "DateTime64(3)", "Time"),
        _EPOCH.format("days"),
    ),
    Case(
        "int64",
        ("io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp"),
        "1767225600123",
        {"DateTime64(3, 'UTC')": "2026-01-01 00:00:00.123", "DateTime64(6, 'UTC')": "2026-01-01 00:00:00.123000"},
        ("DateTime", "DateTime64(2)", "Date", "Time64(3)"),
        _EPOCH.format("millis"),
    ),
    Case(
        "int64",
        ("io.debezium.time.MicroTimestamp",),
        "1767225600000000",
        {"DateTime('UTC')": "2026-01-01 00:00:00", "DateTime64(3, 'UTC')": "2026-01-01 00:00:00.000"},
        ("Date32", "Time64(6)"),
        _EPOCH.format("micros"),
    ),
    Case(
        "int64",
        ("io.debezium.time.NanoTimestamp",),
        "1767225600123456000",
        {"DateTime64(9, 'UTC')": "2026-01-01 00:00:00.123456000", "DateTime64(6, 'UTC')": "2026-01-01 00:00:00.123456"},
        ("DateTime64(3)", "Date"),
        _EPOCH.format("nanos"),
    ),
    Case(
        "string",
        ("io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp"),
        '"2026-01-31T23:59:59.5Z"',
        {"DateTime64(3, 'UTC')": "2026-01-31 23:59:59.500", "String": "2026-01-31T23:59:59.5Z"},
        ("DateTime", "Date", "Time64(3)"),
        "read as such",
    ),
    Case(
        "int32",
        ("io.debezium.time.Time", "org.apache.kafka.connect.data.Time"),
        "45296500",
        {"Time64(3)": "12:34:56.500", "Time64(6)": "12:34:56.500000", "Int32": "45296500"},
        ("Time", "DateTime64(3)", "Date"),
        _EPOCH.format("millis"),
    ),
    Case(
        "int64",
        ("io.debezium.time.MicroTime", "io.debezium.time.MicroDuration"),
        "45296000000",
        {"Time": "12:34:56", "Time64(6)": "12:34:56.000000", "Int64": "45296000000"},
        ("DateTime64(6)", "Date32"),
        _EPOCH.format("micros"),
    ),
    Case(
        "int64",
        ("io.debezium.time.NanoTime", "io.debezium.time.NanoDuration"),
        "45296123456789",
        {"Time64(9)": "12:34:56.123456789"},
        ("Time64(6)", "DateTime64(9)"),
        _EPOCH.format("nanos"),
    ),
    Case(
        "string",
        ("io.debezium.time.ZonedTime", "io.debezium.time.IsoTime"),
        '"12:34:56.5Z"',
        {"Time64(3)": "12:34:56.500", "String": "12:34:56.5Z"},
        ("Time", "DateTime", "Date"),
        "a `String`",
    ),
    Case(
        "string",
        ("io.debezium.time.IsoDate",),
        '"2026-01-31Z"',
        {"Date": "2026-01-31", "Date32": "2026-01-31", "String": "2026-01-31Z"},
        ("DateTime", "Time"),
        "a `String`",
    ),
    Case(
        "int32",
        ("io.debezium.time.Year",),
        "2026",
        {"UInt16": "2026", "Decimal(9, 2)": "2026"},
        ("Date", "DateTime", "Time"),
        "an integer",
    ),
    Case(
        "string",
        ("io.debezium.time.Interval",),
        '"P1Y2M3DT4H5M6.7S"',
        {"String": "P1Y2M3DT4H5M6.7S"},
        ("Time64(3)", "DateTime", "Int64"),
        "a `String`",
    ),
)


def event(case: Case, schema: dict[str, Any], json_text: str | None = None) -> bytes:
    """A change event with the schema beside it, as the converter writes it."""
    row = {"type": "struct", "optional": True, "name": "s.public.t.Value", "fields": [schema]}
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {"type": "string", "optional": False, "field": "op"},
    ]
    whole = {"type": "struct", "fields": fields, "optional": False, "name": "s.public.t.Envelope", "version": 2}
    value = case.json if json_text is None else json_text
    payload = f'{{"before":null,"after":{{"c":{value}}},"op":"c"}}'
    return f'{{"schema":{json.dumps(whole, separators=(",", ":"))},"payload":{payload}}}'.encode()


def table() -> Iterator[str]:
    """The lines of the page's table."""
    yield "| type | JSON | stored | bad in | without a schema |\n|---|---|---|---|---|"
    for case in CASES:
        names = ", ".join(f"`{_short(name)}`" for name in case.names)
        scale = f" with scale {case.parameters['scale']}" if case.parameters else ""
        stored = ", ".join(f"`{column}`: `{shown}`" for column, shown in case.stored.items())
        bad = ", ".join(f"`{column}`" for column in case.bad)
        yield f"| {names}{scale} | `{case.json}` | {stored} | {bad} | {case.alone} |"


def _short(name: str) -> str:
    beginning, _, last = name.rpartition(".")
    return f"connect.{last}" if beginning.startswith("org.") else last
