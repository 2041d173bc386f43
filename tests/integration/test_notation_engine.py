"""ClickHouse reads and writes names, literals and types as ``chsink.notation`` does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chdb import session

from chsink.notation.sql import TableName, quote_identifier, quote_string, unquote
from chsink.notation.type_text import parse_type_text

TEXTS = [
    "",
    "it's",
    "a`b",
    'a"b',
    "\\",
    "\\n",
    "\n\t\r\b\f\0",
    "\x01\x1b\x7f",
    "é日本😀",
    "{a:String}",
    "%s ? $1",
    "--x /* y",
]
LITERALS = [r"'\q'", r"'\N'", r"'a\x41b'", r"'\xC3\xA9'", r"'\e\a\v'", r"'\/'", "'it''s'", r"'\"\`'", r"'\0'"]
TYPES = [
    "Tuple(`a b` UInt8, `c``d` Nullable(UInt8))",
    r"Enum8('it\'s' = -1, 'a\nb' = 2, 'x\\' = 3)",
    "JSON(max_dynamic_paths = 3, `a b`.c UInt8, SKIP x.`y z`, SKIP REGEXP 'q.')",
    "Map(LowCardinality(String), Array(Nullable(DateTime64(3, 'Europe/Berlin'))))",
    "AggregateFunction(quantiles(0.5, 0.9), UInt64)",
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[session.Session]:
    folder: Path = tmp_path_factory.mktemp("notation")
    opened = session.Session(str(folder / "data"))
    yield opened
    opened.close()


def texts(engine: session.Session, sql: str) -> list[str]:
    rows = engine.query(sql, "TSV").data().splitlines()
    return [bytes.fromhex(row).decode() for row in rows]


def test_literals_mean_what_was_quoted(engine: session.Session) -> None:
    listed = ", ".join(map(quote_string, TEXTS))
    assert texts(engine, f"SELECT hex(arrayJoin([{listed}]))") == TEXTS


@pytest.mark.parametrize("literal", LITERALS)
def test_literals_are_read_as_the_server_reads_them(engine: session.Session, literal: str) -> None:
    read = texts(engine, f"SELECT hex({literal})")
    assert (read or [""]) == [unquote(literal)]


@pytest.mark.parametrize("name", [text for text in TEXTS if text and "\0" not in text])
def test_names_mean_what_was_quoted(engine: session.Session, name: str) -> None:
    engine.query(f"CREATE OR REPLACE TABLE t ({quote_identifier(name)} UInt8) ENGINE = Memory")
    where = "FROM system.columns WHERE database = currentDatabase() AND table = 't'"
    assert texts(engine, f"SELECT hex(name) {where}") == [name]


def test_a_table_is_found_by_its_canonical_name(engine: session.Session) -> None:
    for table in (TableName("my-db", "a.b `c`"), TableName("plain", "events_1")):
        engine.query(f"CREATE DATABASE {quote_identifier(table.database)}")
        engine.query(f"CREATE TABLE {table} (n UInt8) ENGINE = Memory")
        assert engine.query(f"EXISTS TABLE {table.canonical}", "TSV").data() == "1\n"


@pytest.mark.parametrize("text", TYPES)
def test_a_type_written_out_again_is_the_same_type(engine: session.Session, text: str) -> None:
    engine.query(f"CREATE OR REPLACE TABLE t (c {text}, d {parse_type_text(text)}) ENGINE = Memory")
    where = "FROM system.columns WHERE database = currentDatabase() AND table = 't'"
    first, second = texts(engine, f"SELECT hex(type) {where} ORDER BY name")
    assert first == second
    assert parse_type_text(first).name == text.partition("(")[0]
