"""One value of each type, as each format writes it and as ClickHouse shows it.

The tests decode and land these values; ``docs/formats.md`` has the same ones in its table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NULL = "\0"
"""A field that means null."""


@dataclass(frozen=True, slots=True)
class Case:
    """A value of a column type: ``json``, ``text`` as a field of csv and tsv has it (None: nothing fits), and ``shown``
    by ClickHouse as tab-separated text.
    """

    type: str
    json: str
    text: str | None
    shown: str

    @property
    def raw(self) -> bool:
        """Whether the bytes of any value fit."""
        return "String" in self.type and not self.type.startswith(("Map", "Array", "Tuple"))


CASES = (
    Case("UInt8", "7.0", "7", "7"),
    Case("Int64", "-9223372036854775808", "-9223372036854775808", "-9223372036854775808"),
    Case("UInt256", f"{2**256 - 1}", f"{2**256 - 1}", f"{2**256 - 1}"),
    Case("Float32", '"inf"', "inf", "inf"),
    Case("Float64", "0.1", "0.1", "0.1"),
    Case("Float64", '"NaN"', "NaN", "nan"),
    Case("Decimal(38, 10)", "12.50", "12.50", "12.5"),
    Case("Bool", "true", "true", "true"),
    Case("String", '"é"', "é", "é"),
    Case("FixedString(2)", '"ab"', "ab", "ab"),
    Case("LowCardinality(String)", '"x"', "x", "x"),
    Case("Date", '"2026-01-31"', "2026-01-31", "2026-01-31"),
    Case("Date32", '"1900-01-01"', "1900-01-01", "1900-01-01"),
    Case("DateTime('UTC')", '"2026-01-31T23:59:59+01:00"', "2026-01-31T23:59:59+01:00", "2026-01-31 22:59:59"),
    Case("DateTime64(3, 'UTC')", "1767225600123", "2026-01-01 00:00:00.123", "2026-01-01 00:00:00.123"),
    Case("UUID", *['"6ba7b810-9dad-11d1-80b4-00c04fd430c8"', *["6ba7b810-9dad-11d1-80b4-00c04fd430c8"] * 2]),
    Case("IPv4", '"192.0.2.1"', "192.0.2.1", "192.0.2.1"),
    Case("IPv6", '"2001:db8::1"', "2001:db8::1", "2001:db8::1"),
    Case("Enum8('a' = 1)", '"a"', "a", "a"),
    Case("Nullable(Int8)", "null", NULL, "\\N"),
    Case("Array(UInt8)", "[1, 2]", None, "[1,2]"),
    Case("Map(String, UInt8)", '{"a": 1}', None, "{'a':1}"),
    Case("Tuple(a UInt8)", '{"a": 1}', None, "(1)"),
    Case("JSON", '{"a": 1}', '{"a": 1}', '{"a":1}'),
    Case("Dynamic", '"x"', "x", '"x"'),
)


def table() -> Iterator[str]:
    """The lines of the page's table."""
    yield "| column | `json`, `debezium` | `csv`, `tsv`, `string` | `raw` |\n|---|---|---|---|"
    for case in CASES:
        short = (_short(case.json), "" if case.text is None else _short(case.text))
        written = "an empty field in `csv`, `\\N` in `tsv`" if case.text == NULL else f"`{short[1]}`"
        yield f"| `{case.type}` | `{short[0]}` | {written if case.text else 'nothing'} | {_raw(case)} |"


def _raw(case: Case) -> str:
    return "nothing" if not case.raw else "at most two bytes" if case.type.startswith("Fixed") else "any bytes"


def _short(text: str) -> str:
    return text if len(text) < 50 else f"{text[:10]}…{text[-10:]}"
