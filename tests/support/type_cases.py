"""JSON values that fit columns of ClickHouse, and values that do not.  The tests decode them; the table in
``docs/types.md`` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Texts = Mapping[str, Sequence[str]]
"""By column type."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the page: types, what they accept and reject in words, and JSON texts of both."""

    types: str
    accepts: str
    rejects: str
    fits: Texts
    bad: Texts = field(default_factory=dict)

    @property
    def row(self) -> str:
        """The line of the page's table."""
        return f"| {self.types} | {_cell(self.accepts, self.fits)} | {_cell(self.rejects, self.bad)} |"


RULES = (
    Rule(
        "`Int8…Int256`, `UInt8…UInt256`",
        "whole numbers in range, also in quotes",
        "fractions, numbers out of range, booleans",
        {"Int8": ["7", "7.0", "7e0", '"7"', "-128"], "UInt256": ["7e2"]},
        {"Int8": ["1.5", "128", "true"]},
    ),
    Rule(
        "`Float32`, `Float64`, `BFloat16`",
        "numbers, also in quotes; NaN and the infinities in quotes, as ClickHouse, Java and JavaScript write them",
        "numbers too large for the type, booleans, other spellings",
        {
            "Float32": ["0.1", '"0.1"', '"nan"', '"inf"', '"-inf"', '"NaN"', '"Infinity"', '"-Infinity"'],
            "BFloat16": ["0.5"],
        },
        {"Float32": ["1e39", "true", "NaN", '"NAN"', '"+Infinity"']},
    ),
    Rule(
        "`Decimal(P, S)`",
        "numbers with at most S decimal places, also in quotes",
        "more decimal places, more digits",
        {"Decimal(9, 2)": ["1.5", '"1.50"', "1.500"]},
        {"Decimal(9, 2)": ["1.505", "12345678.00"]},
    ),
    Rule(
        "`Bool`",
        "truth values",
        "other numbers and strings",
        {"Bool": ["true", "false", "1", "0", '"true"', '"false"']},
        {"Bool": ["2", '"yes"']},
    ),
    Rule(
        "`String`",
        "the text of a string; any other JSON value, as it was written",
        "an unpaired surrogate",
        {"String": ['"x"', "1.50", '{"a": 1}', "true", "[1]"]},
        {"String": [r'"\ud800"']},
    ),
    Rule(
        "`FixedString(N)`",
        "the text of a string, or any other JSON value as it was written, of at most N bytes; ClickHouse fills the rest "
        "with zero bytes",
        "longer strings",
        {"FixedString(2)": ['"a"', '"ab"', "[]"]},
        {"FixedString(2)": ['"abc"']},
    ),
    Rule(
        "`Date`, `Date32`",
        "days",
        "numbers, dates with a time",
        {"Date": ['"2026-01-31"']},
        {"Date": ["20000", '"2026-01-31 00:00:00"']},
    ),
    Rule(
        "`DateTime`",
        "ISO 8601 with a space or `T`, with or without `Z` or an offset, also without minutes or a time; a number of seconds "
        "since 1970",
        "fractions of a second, a local time that a clock change skips",
        {"DateTime": ['"2026-01-31 23:59:59"', '"2026-01-31T23:59:59Z"', '"2026-01-31T23:59:59+02:00"', '"2026-01-31"', "1767225600"]},
        {"DateTime": ["1.5"]},
    ),
    Rule(
        "`DateTime64(p)`",
        "the same, with at most p decimal places; a whole number counts ticks of 10⁻ᵖ s, a number that is written "
        "with a point or an exponent counts seconds",
        "more decimal places; whole numbers that could also be in another unit",
        {"DateTime64(3)": ['"2026-01-31 23:59:59.123"', "1767225600000", "1767225600.5", "1767225600.0"]},
        {"DateTime64(3)": ['"2026-01-31 23:59:59.1234"', "1767225600"]},
    ),
    Rule(
        "`Time`, `Time64(p)`",
        "`[-]HHH:MM:SS[.fraction]` in quotes; a number of seconds (for `Time64(p)`, a whole number counts ticks of 10⁻ᵖ s, "
        "a number that is written with a point or an exponent counts seconds)",
        "more decimal places",
        {"Time": ['"-1:00:00"', "7"], "Time64(3)": ['"100:00:00.125"', "7000", "7.0"]},
        {"Time": ["1.5"], "Time64(3)": ['"0:00:00.1255"']},
    ),
    Rule(
        "`UUID`, `IPv4`, `IPv6`, `Enum`",
        "text as ClickHouse writes it; a `UUID` also without dashes, an IPv4 address also in an `IPv6`; for an `Enum` also "
        "its number",
        "anything else",
        {
            "UUID": ['"123e4567-e89b-12d3-a456-426614174000"'],
            "IPv4": ['"192.0.2.1"'],
            "IPv6": ['"2001:db8::1"'],
            "Enum8('a' = 1)": ['"a"', "1"],
        },
        {"UUID": ['"123e4567"'], "IPv4": ['"192.0.2.256"'], "Enum8('a' = 1)": ['"b"', "2"]},
    ),
    Rule(
        "`Array`, `Tuple`, `Map`, `Nested`",
        "arrays and objects; a named `Tuple` by its names or its order, a `Map` without repeated keys (see below)",
        "any element that does not fit",
        {
            "Array(Int8)": ["[1]"],
            "Tuple(a Int8)": ['{"a": 1}', "[1]", '{"b": "x", "a": 1}'],
            "Tuple(a Int8, b Nullable(String))": ['{"a": 1}', '{"a": 1, "b": null}', "[1, null]"],
            "Map(String, Int8)": ['{"a": 1}'],
        },
        {
            "Array(Int8)": ["[1, 300]", "[null]"],
            "Tuple(a Int8)": ["{}", '{"a": null}', '{"a": 1, "a": 2}', "[]", "[1, 2]", "[null]"],
            "Tuple(a Array(Int8), m Map(String, Int8))": ['{"a": [1]}', '{"a": null, "m": {}}'],
            "Map(String, Int8)": ['{"a": 1, "a": 2}', '{"a": null}'],
        },
    ),
    Rule(
        "`JSON`",
        "objects (see below)",
        "anything but an object, and what ClickHouse would change in one: keys with a dot, repeated keys, whole numbers "
        "beyond 64 bits; column types with typed paths",
        {"JSON": ['{"a": {"b": [1, "x"]}}', '{"a": 18446744073709551615}', '{"a": "2026-02-30"}']},
        {
            "JSON": [
                "[1]",
                '{"a": 1, "a": 2}',
                '{"a.b": 1}',
                '{"a": 18446744073709551616}',
                '{"a": 1e999}',
                '{"a": [true, 1]}',
                '{"a": [9007199254740993, 0.5]}',
            ]
        },
    ),
    Rule(
        "`Dynamic`",
        "any JSON value; chsink stores its JSON text as a `String`",
        "",
        {"Dynamic": ["1", '"x"', "true", '{"a": 1}', "[1]", "null"]},
    ),
    Rule(
        "`Variant`",
        "the first alternative that the value fits exactly, by the kind of the value (see below)",
        "values that fit no alternative",
        {
            "Variant(Bool, Decimal(9, 2), Float64, Int8, String, UInt64)": [
                "1", "300", "1.5", "1e300", '"x"', "true", "null", "18446744073709551617"
            ]
        },
        {"Variant(Bool, Int8)": ['"x"', "300", "1.5", "[1]", '{"a": 1}'], "Variant(Float64)": ["9007199254740993"]},
    ),
)  # fmt: skip


def table() -> Iterator[str]:
    """The lines of the page's table."""
    yield "| column | accepts | rejects |\n|---|---|---|"
    for rule in RULES:
        yield rule.row


def _cell(words: str, texts: Texts) -> str:
    examples = "; ".join(f"`{kind}`: {', '.join(f'`{text}`' for text in each)}" for kind, each in texts.items())
    return f"{words} ({examples})" if examples else words
