"""Names and literals: what is quoted is read back, and only what ClickHouse takes is a table."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chsink.notation.sql import TableName, parse_table, quote_identifier, quote_string, quote_table, unquote

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAME = TEXT.filter(bool)


@given(TEXT)
@example("``")
def test_a_literal_is_read_back(text: str) -> None:
    assert unquote(quote_string(text)) == text
    assert unquote("'" + text.replace("\\", "\\\\").replace("'", "''") + "'") == text


@given(NAME)
@example("''")  # the other quote needs no escape
def test_a_name_is_read_back(name: str) -> None:
    assert unquote(quote_identifier(name)) == name
    assert unquote("`" + name.replace("\\", "\\\\").replace("`", "``") + "`") == name


@given(st.builds(TableName, TEXT, NAME))
def test_a_table_is_read_back_from_a_statement_and_from_a_state_row(name: TableName) -> None:
    assert parse_table(str(name)) == parse_table(name.canonical) == name
    assert quote_table(name.canonical) == str(name)


@pytest.mark.parametrize(
    ("text", "database", "table"),
    [
        ("flights", "", "flights"),
        ("analytics.flights", "analytics", "flights"),
        ("`a.b`.`c d`", "a.b", "c d"),
        ("`it\\`s`.t", "it`s", "t"),
        ("`it``s`", "", "it`s"),
        ("`tab\\there`", "", "tab\there"),
        ("`Ж`.`日本`", "Ж", "日本"),
        ("`\\x41\\q\\'`", "", "A\\q'"),
    ],
)
def test_tables_are_read_as_users_write_them(text: str, database: str, table: str) -> None:
    assert parse_table(text) == TableName(database, table)
    assert parse_table(quote_table(text)) == TableName(database, table)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a.b.c",
        "`a",
        "a`b`",
        "``",
        "``.a",
        "`a`b",
        "a..b",
        "my-table",
        "Ж",
        "1a",
        "`\\N`",
        "`\\xff`",
    ],
)
def test_anything_else_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match=r"table|empty|utf-8"):
        parse_table(text)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert quote_string("it's \\ \n") == "'it\\'s \\\\ \\n'"
    assert quote_identifier("a`b\\") == "`a\\`b\\\\`"


def test_only_a_name_that_needs_it_is_quoted() -> None:
    assert TableName("air", "flights").canonical == "air.flights"
    assert TableName("air", "2026").canonical == "air.`2026`"
    assert TableName("", "flights").within("air") == TableName("air", "flights")
    assert TableName("sea", "ships").within("air") == TableName("sea", "ships")


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        quote_string("\ud800")
    with pytest.raises(ValueError, match="empty"):
        quote_identifier("")
