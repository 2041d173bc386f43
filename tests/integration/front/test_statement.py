"""The front cuts a statement from its data where the server does, and leaves everything else to the engine."""

from __future__ import annotations

import time

import pytest

from chsink.embedded.clickhouse.exceptions import ClickHouseException, from_engine
from chsink.embedded.clickhouse.statement import Insert, Query, split


@pytest.mark.parametrize(
    ("text", "head", "settings", "fmt", "data"),
    [
        ("INSERT INTO t FORMAT CSV\n1,2", "INSERT INTO t", "", "CSV", "1,2"),
        ("insert into t format CSV 1", "insert into t", "", "CSV", "1"),
        ("INSERT INTO t FORMAT CSV \r\n\n1", "INSERT INTO t", "", "CSV", "\n1"),
        (
            "INSERT INTO d.t (a, b) SETTINGS x=1, y='z' VALUES (1)",
            "INSERT INTO d.t (a, b)",
            "x=1, y='z'",
            "Values",
            " (1)",
        ),
        (
            "INSERT INTO t FORMAT TSV SETTINGS x=1.5, y=-2, z='a,b'\n1",
            "INSERT INTO t",
            "x=1.5, y=-2, z='a,b'",
            "TSV",
            "1",
        ),
        ("INSERT INTO t SETTINGS a=1 FORMAT TSV SETTINGS b=2\n1", "INSERT INTO t", "a=1, b=2", "TSV", "1"),
        ("INSERT INTO values VALUES (1)", "INSERT INTO values", "", "Values", " (1)"),
        (
            "INSERT INTO TABLE format.`settings` (`select`) FORMAT X",
            "INSERT INTO TABLE format.`settings` (`select`)",
            "",
            "X",
            "",
        ),
        ("INSERT INTO {t:Identifier} FORMAT X", "INSERT INTO {t:Identifier}", "", "X", ""),
        ("INSERT INTO FUNCTION f('SELECT', (1)) FORMAT X y", "INSERT INTO FUNCTION f('SELECT', (1))", "", "X", "y"),
        (
            "/* FORMAT Y */ INSERT INTO t -- VALUES\n (a) FORMAT X",
            "/* FORMAT Y */ INSERT INTO t -- VALUES\n (a)",
            "",
            "X",
            "",
        ),
        ("INSERT INTO t (a)", "INSERT INTO t (a)", "", "Values", ""),
    ],
)
def test_an_insert_with_data(text: str, head: str, settings: str, fmt: str, data: str) -> None:
    insert = split(text)
    assert isinstance(insert, Insert)
    assert (insert.head, insert.settings, insert.format, text[insert.data_start :]) == (head, settings, fmt, data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", Query(None, selects=True, answers=True)),
        ("SELECT 1 FORMAT JSON;", Query("JSON", selects=True, answers=True)),
        ("SELECT 1 FORMAT JSON SETTINGS x = 1 -- FORMAT CSV", Query("JSON", selects=True, answers=True)),
        ("SELECT format FROM t", Query(None, selects=True, answers=True)),
        ("SELECT ' FORMAT CSV'", Query(None, selects=True, answers=True)),
        ("(SELECT 1 FORMAT CSV)", Query(None, selects=True, answers=True)),
        ("WITH 1 AS x SELECT x", Query(None, selects=True, answers=True)),
        ("SHOW TABLES FORMAT CSV", Query("CSV", selects=False, answers=True)),
        ("INSERT INTO t SELECT 1", Query(None, selects=False, answers=False)),
        ("INSERT INTO t (a) (SELECT 1)", Query(None, selects=False, answers=False)),
        ("INSERT INTO t WITH 1 AS x SELECT x", Query(None, selects=False, answers=False)),
        ("CREATE TABLE t (a String DEFAULT ';') ENGINE = Memory; ; -- end", Query(None, selects=False, answers=False)),
    ],
)
def test_other_statements(text: str, expected: Query) -> None:
    assert split(text) == expected


@pytest.mark.parametrize("text", ["SELECT 1; DROP TABLE t", "SELECT ';'; SELECT 1", "SELECT 1 /*;*/ ; x", "", " -- x"])
def test_not_one_statement(text: str) -> None:
    with pytest.raises(ClickHouseException) as caught:
        split(text)
    assert caught.value.code == 62


def test_a_statement_with_many_keys_is_cut_in_no_time() -> None:
    keys = ", ".join(f"'orders-{number};\\''" for number in range(4000))
    text = f"ALTER TABLE s UPDATE a = transform(k, [{keys}], [{keys}], a) WHERE k IN ({keys})"
    begin = time.perf_counter()
    assert split(text) == Query(None, selects=False, answers=False)
    broken = "SELECT '" + "\\\\" * 100_000
    split(broken)
    assert time.perf_counter() - begin < 0.5


def test_the_engines_wrapping_of_an_error_in_the_data_is_undone() -> None:
    wrapped = (
        "Code: 27. DB::Exception: Code: 27. DB::Exception: Cannot parse input: (at row 1)\n: (in file/uri /tmp/p/x): "
        "While executing CSVRowInputFormat: While executing File: data for INSERT was parsed from file. "
        "(CANNOT_PARSE) (version 26.9.2.1). (CANNOT_PARSE)"
    )
    error = from_engine(wrapped)
    plain = (
        "Code: 27. DB::Exception: Cannot parse input: (at row 1)\n: While executing CSVRowInputFormat. (CANNOT_PARSE)"
    )
    assert (error.code, error.text, error.status) == (27, plain, 400)
