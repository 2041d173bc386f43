"""``csv`` and ``tsv``: one row of text fields in each value."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from chsink.config import InvalidConfigError
from chsink.decode.columns import Column
from chsink.errors import ConfigError, PreflightError
from chsink.formats.settings import Csv, FormatSettings, Tsv
from tests.support.examples import examples
from tests.unit.formats.decoding import alone, outcomes

COLUMNS = (
    Column("id", "UInt32"),
    Column("name", "String"),
    Column("price", "Nullable(Decimal(9, 2))"),
    Column("day", "Date", "DEFAULT", "today()"),
)
CSV = Csv(type="csv", columns=("id", "name", "price", "day"))
TSV = Tsv(type="tsv", columns=("id", "name", "price", "day"))


def names(settings: FormatSettings, *values: bytes) -> list[Any]:
    """Of each record: the name, or why it has no row."""
    found = outcomes(settings, COLUMNS, list(values))
    return [row["name"] if isinstance(row, dict) else row for row in found]


def test_fields_go_to_columns_by_position() -> None:
    values = [b"1,a,1.50,2026-01-31", b'2,"b, ""c""\r\nd",,', b'"3","",-0.05,\r\n', b"4,,1,\n"]

    assert [(row["id"], row["name"], str(row["price"]), str(row["day"])) for row in outcomes(CSV, COLUMNS, values)] == [
        (1, b"a", "1.50", "2026-01-31"),
        (2, b'b, "c"\r\nd', "None", "None"),
        (3, b"", "-0.05", "None"),
        (4, b"", "1.00", "None"),
    ]


MESSY: list[tuple[bytes | None, str]] = [
    (b"1,a,2", "None: 3 fields instead of 4"),
    (b"1,a,2,2026-01-31,", "None: 5 fields instead of 4"),
    (b"", "None: 1 field instead of 4"),
    (b"1,a,2,\n1,b,3,", "None: a line break outside quotes: a record is one row"),
    (b"1,a,2,\n\n", "None: a line break outside quotes: a record is one row"),
    (b"1,a\r,2,", "None: a line break outside quotes: a record is one row"),
    (b'1,"a,2,', "None: a quote that is never closed"),
    (b'1,"a,2,\n1,b"",3,\n', "None: a quote that is never closed"),
    (b'1,a"b",2,', "None: a quote in a field that is not quoted, or not doubled inside one that is"),
    (b'1,"a"b,2,', "None: a quote in a field that is not quoted, or not doubled inside one that is"),
    (b'1,"a"b"c",2,', "None: a quote in a field that is not quoted, or not doubled inside one that is"),
    (b'1, "a",2,', "None: a quote in a field that is not quoted, or not doubled inside one that is"),
    (b"\xef\xbb\xbf1,a,2,", "id: a string that is not a number in UInt32"),
    (b"1,\xff,2,", "None: not valid UTF-8 at byte 2"),
    (b"1,a,1.505,", "price: more digits after the point than Decimal(9, 2) holds"),
    (b",a,2,", "id: missing or null, and the column has no DEFAULT and is not Nullable"),
    (b"-1,a,2,", "id: out of range for UInt32"),
    (None, "None: value is null (a tombstone)"),
]


def test_a_messy_row_is_bad_and_leaves_its_neighbours() -> None:
    good = b'7,"x\n,""",1.5,2026-01-31'
    values = [each for value, _ in MESSY for each in (good, value)]
    found = outcomes(CSV, COLUMNS, [*values, good])

    assert found[1::2] == [reason for _, reason in MESSY]
    assert found[::2] == outcomes(CSV, COLUMNS, [good]) * (len(MESSY) + 1)


def test_bytes_in_text_are_kept() -> None:
    assert names(CSV, b"1,\x00\xe2\x82\xac ,,", b"2,\xef\xbb\xbf,,") == [b"\x00\xe2\x82\xac ", b"\xef\xbb\xbf"]


def test_escapes_of_tsv() -> None:
    bad = "None: a backslash that begins no escape"
    read = {
        rb"a\tb\n\r\\t\\\\\'\0\b\f": b"a\tb\n\r\\t\\\\'\0\b\f",
        rb"\N": "name: missing or null, and the column has no DEFAULT and is not Nullable",
        rb"\\N": rb"\N",
        rb"a\x": bad,
        b"a\\": bad,
        rb"\\\\": b"\\\\",
        rb"\\\t": b"\\\t",
        'é,"'.encode(): 'é,"'.encode(),
    }

    assert names(TSV, *(b"\t".join((b"1", value, rb"\N", rb"\N")) for value in read)) == list(read.values())
    assert outcomes(TSV, COLUMNS, [b"1\t\t\\N\t\\N\n", b"1\ta\t\t\\N"]) == [
        {"id": 1, "name": b"", "price": None, "day": None},
        "price: a string that is not a number in Decimal(9, 2)",
    ]


def test_a_null_of_ones_own_a_delimiter_and_fields_that_are_left_out() -> None:
    settings = Csv(type="csv", columns=("", "name", "id", ""), delimiter=";", quote="'", null="NULL")
    columns = (Column("id", "Nullable(Int8)"), Column("name", "Nullable(String)"))

    assert outcomes(settings, columns, [b"x;'it''s';7;", b";NULL;NULL;'", b";'NULL';NULL;\"", b";;1;"]) == [
        {"id": 7, "name": b"it's"},
        "None: a quote that is never closed",
        {"id": None, "name": b"NULL"},
        {"id": 1, "name": b""},
    ]


CELLS = st.lists(st.text(alphabet='a1",\n\r\\ é\0', max_size=4), min_size=1, max_size=5)


@hypothesis(max_examples=examples(50), deadline=None)
@given(st.lists(CELLS, max_size=8), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_pythons_csv_writes_is_read_as_it_was(rows: list[list[str]], quoting: int) -> None:
    values = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, quoting=quoting, lineterminator="\r\n").writerow(row)  # type: ignore[arg-type]
        values.append(text.getvalue().encode())
    settings = Csv(type="csv", columns=("a", "b", "c"))
    columns = tuple(Column(name, "String") for name in "abc")

    assert outcomes(settings, columns, values) == [
        dict(zip("abc", (cell.encode() for cell in row), strict=True))
        if len(row) == 3
        else f"None: {len(row)} field{'s' * (len(row) > 1)} instead of 3"
        for row in rows
    ]


JUNK = st.lists(
    st.text(alphabet='1a",\t\n\r\\N ', max_size=12).map(str.encode) | st.binary(max_size=6) | st.none(), max_size=10
)


@hypothesis(max_examples=examples(50), deadline=None)
@given(JUNK)
@pytest.mark.parametrize("settings", [CSV, TSV, Csv(type="csv", columns=("name",)), Tsv(type="tsv", columns=("name",))])
def test_a_batch_is_its_records(settings: Csv | Tsv, values: list[bytes | None]) -> None:
    columns = [column for column in COLUMNS if column.name in settings.columns]

    assert outcomes(settings, columns, values) == alone(settings, columns, values)


@pytest.mark.parametrize("columns", [("id", "name"), ("id", "name", "price", "day", "else")])
def test_the_fields_must_fill_the_table(columns: tuple[str, ...]) -> None:
    table = (*COLUMNS, Column("needed", "Int8"))
    with pytest.raises(PreflightError):
        outcomes(Csv(type="csv", columns=columns), table, [])


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["a"], "delimiter": "::"},
        {"columns": ["a"], "quote": ","},
        {"columns": [""]},
        {"columns": ["a", "a"]},
        {},
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    from chsink.config import Config

    route = {"topic": "t", "table": "t", "format": {"type": "csv", **options}}
    others = {"sink": {"name": "s"}, "kafka": {"bootstrap": "a:1"}, "clickhouse": {"endpoints": ["http://a:1"]}}
    with pytest.raises(InvalidConfigError) as caught:
        Config.from_mapping({**others, "route": [route]})
    assert isinstance(caught.value, ConfigError)
    assert len(caught.value.problems) == 1
