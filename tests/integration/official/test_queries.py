"""The official client, unmodified, queries the embedded server as it queries ClickHouse."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError
from clickhouse_connect.driver.external import ExternalData

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import connected


def test_queries_in_rows_frames_and_arrow(client: Client) -> None:
    query = "SELECT number AS n, toString(number) AS s, if(number = 1, NULL, number) AS o FROM numbers(3)"
    result = client.query(query)
    assert result.column_names == ("n", "s", "o")
    assert result.result_rows == [(0, "0", 0), (1, "1", None), (2, "2", 2)]
    assert client.query_df(query)["s"].tolist() == ["0", "1", "2"]
    assert client.query_arrow(query, use_strings=True).column("n").to_pylist() == [0, 1, 2]
    assert client.query_np("SELECT number FROM numbers(4)").ravel().tolist() == [0, 1, 2, 3]
    assert client.query("SELECT 1 AS a WHERE 0").result_rows == []
    assert client.query("SELECT number AS n FROM numbers(1) LIMIT 0").column_names == ("n",)


@pytest.mark.parametrize("compress", [False, "gzip", "lz4", "zstd", "deflate"])
def test_big_results_are_complete_in_every_compression(server: EmbeddedClickHouse, compress: Any) -> None:
    with connected(server, compress=compress) as client:
        rows = client.query("SELECT number, toString(cityHash64(number)) FROM numbers(300000)").result_columns
        assert rows[0][-1] == 299_999 and len(set(rows[1])) == 300_000
        with client.query_row_block_stream("SELECT number FROM numbers(500000)") as stream:
            assert sum(len(block) for block in stream) == 500_000


def test_streams(client: Client) -> None:
    query = "SELECT number AS n FROM numbers(400000)"
    with client.query_rows_stream(query) as rows:
        assert sum(row[0] for row in rows) == sum(range(400_000))
    with client.query_column_block_stream(query) as blocks:
        assert sum(len(block[0]) for block in blocks) == 400_000
    with client.query_df_stream(query) as frames:
        assert sum(len(frame) for frame in frames) == 400_000
    with client.query_arrow_stream(query) as batches:
        assert sum(batch.num_rows for batch in batches) == 400_000
    with client.raw_stream(query, fmt="TabSeparated") as raw:
        assert raw.read().count(b"\n") == 400_000


def test_parameters_are_bound_by_the_server(client: Client, table: str) -> None:
    values = {"i": 2**40, "s": "a'b\\c\td\nü", "l": [1, 2], "d": dt.date(2026, 1, 2), "n": None}
    row = client.query(
        "SELECT {i:UInt64}, {s:String}, {l:Array(UInt8)}, {d:Date}, {n:Nullable(String)}", parameters=values
    ).result_rows[0]
    assert row == (2**40, "a'b\\c\td\nü", [1, 2], dt.date(2026, 1, 2), None)
    named = client.query("SELECT count() FROM {t:Identifier}", parameters={"t": table}).result_rows
    assert named == [(0,)]
    client.command("INSERT INTO {t:Identifier} (id, name) VALUES (1, {s:String})", parameters={"t": table, "s": "q'"})
    assert client.query(f"SELECT * FROM {table}").result_rows == [(1, "q'", 0.0)]
    with pytest.raises(DatabaseError) as caught:
        client.query("SELECT {missing:String}")
    assert caught.value.code == 456


def test_long_queries_and_parameters_travel_as_a_form(server: EmbeddedClickHouse) -> None:
    with connected(server, form_encode_query_params=True) as client:
        many = list(range(20_000))
        rows = client.query("SELECT length({many:Array(UInt32)}), {s:String}", parameters={"many": many, "s": "ü&="})
        assert rows.result_rows == [(20_000, "ü&=")]


def test_external_data(client: Client, server: EmbeddedClickHouse) -> None:
    movies = ExternalData(
        file_name="movies", data=b"Alien,1979\nHeat,1995\n", fmt="CSV", structure=["name String", "year UInt16"]
    )
    movies.add_file(file_name="seen", data=b"Heat\n", fmt="TSV", types=["String"])
    query = "SELECT name, year FROM movies WHERE name IN (SELECT _1 FROM seen) AND year > {y:UInt16}"
    for options in ({}, {"form_encode_query_params": True}, {"autogenerate_session_id": True}):
        with connected(server, **options) as other:
            for _ in range(2):
                assert other.query(query, parameters={"y": 1990}, external_data=movies).result_rows == [("Heat", 1995)]
    with pytest.raises(DatabaseError) as caught:
        client.query("SELECT * FROM movies")
    assert caught.value.code == 60


def test_a_session_keeps_temporary_tables_and_settings(server: EmbeddedClickHouse, database: str) -> None:
    with connected(server, session_id=f"s-{uuid.uuid4()}", database=database) as client:
        client.command("CREATE TEMPORARY TABLE scratch (a UInt8)")
        client.insert("scratch", [[1], [2]])
        client.command("SET max_block_size = 777")
        assert client.query("SELECT sum(a) FROM scratch", settings={"max_block_size": 11}).result_rows == [(3,)]
        # The request's own setting held for that request, the session's holds on.
        assert client.command("SELECT getSetting('max_block_size')") == 777
        assert client.command("SELECT getSetting('max_threads')", settings={"max_threads": 3}) == 3
        assert client.command("SELECT changed FROM system.settings WHERE name = 'max_threads'") == 0
        client.command("USE system", use_database=False)
        assert client.command("SELECT currentDatabase()") == database
        assert client.command("SELECT currentDatabase()", use_database=False) == "system"
    with connected(server) as other, pytest.raises(DatabaseError):
        other.query("SELECT * FROM scratch")


def test_settings_hold_for_one_request(client: Client) -> None:
    query = "SELECT getSetting('max_block_size')"
    default = client.command(query)
    assert client.command(query, settings={"max_block_size": 4321}) == 4321
    assert client.command(query) == default
    with pytest.raises(DatabaseError) as caught:
        client.raw_query("SELECT 1", settings={"max_threads": "many"})
    assert caught.value.code in (6, 27)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT * FROM nowhere", 60),
        ("SELECT nothing", 47),
        ("SELEC 1", 62),
        ("SELECT throwIf(1)", 395),
        ("SELECT 1; SELECT 2", 62),
        ("DROP DATABASE nowhere", 81),
        ("INSERT INTO nowhere VALUES (1)", 60),
        ("SELECT 1 INTO OUTFILE 'x'", 358),
        ("SELECT toUInt8('x')", 6),
        ("CREATE USER x", 514),
    ],
)
def test_errors_have_the_engines_code_and_name(client: Client, statement: str, code: int) -> None:
    with pytest.raises(DatabaseError, match=rf"Code: {code}\. DB::Exception: ") as caught:
        client.command(statement)
    assert caught.value.code == code
    assert caught.value.name
    assert client.command("SELECT 1") == 1


@pytest.mark.parametrize("compress", [False, True])
def test_an_error_in_the_middle_of_a_result_is_raised(server: EmbeddedClickHouse, compress: bool) -> None:
    query = "SELECT sleepEachRow(0.002), throwIf(number = 100) FROM numbers(200)"
    slow = {"max_block_size": 1, "wait_end_of_query": 0}
    with connected(server, compress=compress) as client:
        with pytest.raises(StreamFailureError, match="Value passed to 'throwIf' function is non-zero"):
            _ = client.query(query, settings=slow).result_set
        with (
            pytest.raises(StreamFailureError, match="Code: 395"),
            client.query_rows_stream("SELECT number, throwIf(number = 3000000) FROM numbers(5000000)") as rows,
        ):
            for _ in rows:
                pass
        assert client.command("SELECT 1") == 1
