from __future__ import annotations

import pytest

from chsink.clickhouse.identifiers import TableName, parse_table, quote_identifier, quote_string, quote_table


@pytest.mark.parametrize(
    ("text", "database", "table"),
    [
        ("flights", None, "flights"),
        ("analytics.flights", "analytics", "flights"),
        ("`a.b`.`c d`", "a.b", "c d"),
        ("`it\\`s`.t", "it`s", "t"),
        ("`it``s`", None, "it`s"),
        ("`tab\\there`", None, "tab\there"),
        ("Ж.日本", "Ж", "日本"),
    ],
)
def test_tables_are_read_as_users_write_them(text: str, database: str | None, table: str) -> None:
    assert parse_table(text) == TableName(database, table)
    assert parse_table(quote_table(text)) == TableName(database, table)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", "`a", "a`b`", "``", "``.a", "`a`b", "a..b"])
def test_anything_else_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match=r"table|empty"):
        parse_table(text)


def test_quotes_and_backslashes_are_escaped() -> None:
    assert quote_string("it's \\ \n") == "'it\\'s \\\\ \\n'"
    assert quote_identifier("a`b\\") == "`a\\`b\\\\`"


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        quote_string("\ud800")
    with pytest.raises(ValueError, match="empty"):
        quote_identifier("")
