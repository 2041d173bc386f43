"""The client against a real server: what goes through, what is refused, one client per process, quoting."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.clickhouse.client import ClickHouseClient, Connection, cached_client
from chsink.errors.steps import WITHOUT_DEDUPLICATION
from chsink.notation.sql import TableName, parse_table, quote_identifier, quote_string
from chsink.ports import ServerRefused
from tests.conftest import CHECKOUT
from tests.support.examples import examples
from tests.support.inserts import NOBODY, body, count, insert_into

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


# --- what goes through -----------------------------------------------------------------------------------------------


def test_query_gives_rows_and_binds_parameters(client: ClickHouseClient) -> None:
    nasty = 'it\'s \\ "q" {x:String} %s \n\t ж 🚀'
    rows = client.query("SELECT {text:String}, {n:Int64}, NULL, [1, 2]", {"text": nasty, "n": -(2**63)})
    assert rows == [(nasty, -(2**63), None, [1, 2])]
    assert client.query("SELECT 1 WHERE 0") == []


def test_query_leaves_literals_alone(client: ClickHouseClient) -> None:
    text = "{x:String} %(a)s %s ? -- not a comment /* nor this */ ; FORMAT x"
    assert client.query(f"SELECT {quote_string(text)}") == [(text,)]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_insert_lands_every_row(server: str, client: ClickHouseClient, table: str, compression: Any) -> None:
    inserting = ClickHouseClient(Connection((server,), compression=compression))
    inserting.insert(insert_into(table), body(150_000, "some text"), {}, inserting.url)
    assert client.query(f"SELECT count(), uniqExact(a), any(b) FROM {table}") == [(150_000, 150_000, "some text")]
    inserting.close()


def test_settings_reach_the_statement(client: ClickHouseClient, table: str) -> None:
    for token in ("one", "one", "two"):
        settings = {"insert_deduplication_token": token, "insert_deduplicate": 1}
        client.insert(insert_into(table), body(10), settings, client.url)
    assert count(client, table) == 20


def test_what_is_said_to_insert_the_same_rows_with(client: ClickHouseClient, table: str) -> None:
    """⚡ insert_deduplicate = 0 alone does nothing on newer servers: a copy made again after a DELETE was dropped."""
    page = (CHECKOUT / "docs" / "how-to" / "repair.md").read_text(encoding="utf-8")
    [of_guide] = re.findall(r"IN \(.*?\) SETTINGS (.*?)\"$", page, re.MULTILINE)
    [of_message] = re.findall(r"on, (.*)\)", WITHOUT_DEDUPLICATION)
    values = "SELECT number AS a, '' AS b FROM numbers(2) ORDER BY ALL"
    for how in (of_guide, of_message):
        for _ in range(2):
            client.command(f"INSERT INTO {table} (a, b) {values} SETTINGS {how}")
            assert count(client, table) == 2, how
            client.command(f"DELETE FROM {table} WHERE 1")


def test_threads_share_a_client(client: ClickHouseClient, table: str) -> None:
    def work(number: int) -> None:
        client.insert(
            insert_into(table), body(100, str(number)), {"insert_deduplication_token": str(number)}, client.url
        )
        answers.append(client.query(f"SELECT {number}")[0][0])

    answers: list[int] = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(24))
    assert count(client, table) == 2_400


# --- what is refused -------------------------------------------------------------------------------------------------


def test_errors_carry_their_code(client: ClickHouseClient, table: str) -> None:
    with pytest.raises(ServerRefused) as unknown_table:
        client.query("SELECT * FROM client_test.never_made")
    assert unknown_table.value.code == 60
    with pytest.raises(ServerRefused) as thrown:
        client.query("SELECT throwIf(number = 100000, 'at last') FROM numbers(200000)")
    assert thrown.value.code == 395
    with pytest.raises(ServerRefused) as syntax:
        client.command("ALTER TABLE oops")
    assert syntax.value.code == 62
    with pytest.raises(ServerRefused) as constraint:
        client.insert(f"INSERT INTO {table} (`nope`) FORMAT ArrowStream", body(1), {}, client.url)
    assert constraint.value.code == 16


def test_a_setting_that_does_not_exist_is_refused(client: ClickHouseClient) -> None:
    with pytest.raises(ServerRefused) as refused:
        client.command("CREATE DATABASE IF NOT EXISTS client_test", {"no_such_setting": 1})
    assert refused.value.code == 115


def test_a_wrong_password_is_refused(server: str) -> None:
    with pytest.raises(ServerRefused) as refused:
        ClickHouseClient(Connection((server,), user="nobody", password="wrong")).query("SELECT 1")
    assert refused.value.code in (516, 194, 192)


# --- one per process -------------------------------------------------------------------------------------------------


def test_a_process_has_one_client_per_endpoint(server: str) -> None:
    one = cached_client(Connection((server,)))
    assert cached_client(Connection((server,))) is one
    assert cached_client(Connection((server,), compression="zstd")) is not one
    assert one.query("SELECT 1") == [(1,)]


def test_a_forked_process_makes_its_own_client(server: str) -> None:
    """In a process of its own: a thread of this one may hold a lock that the child would wait for."""
    forking = [sys.executable, "-m", "tests.integration.client.forking", server]
    done = subprocess.run(forking, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True [(2,)]\n[(3,)]\n"


def test_an_endpoint_travels_and_keeps_its_secret() -> None:
    endpoint = Connection((NOBODY,), password="hush")
    assert "hush" not in repr(endpoint)
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint


# --- quoting, checked by the engine ----------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(values=st.lists(TEXT, min_size=1, max_size=20))
def test_the_engine_reads_every_literal_as_it_was(client: ClickHouseClient, values: list[str]) -> None:
    assert client.query("SELECT " + ", ".join(map(quote_string, values))) == [tuple(values)]


@settings(max_examples=examples(60), deadline=None)
@given(names=st.lists(TEXT.filter(bool), min_size=1, max_size=20, unique=True))
def test_the_engine_reads_every_identifier_as_it_was(client: ClickHouseClient, names: list[str]) -> None:
    columns = ", ".join(f"{i} AS {quote_identifier(n)}" for i, n in enumerate(names))
    assert [row[0] for row in client.query(f"DESCRIBE TABLE (SELECT {columns})")] == names


@given(database=TEXT.filter(bool), table=TEXT.filter(bool))
def test_a_quoted_table_is_parsed_back(database: str, table: str) -> None:
    name = TableName(database, table)
    assert parse_table(str(name)) == name
