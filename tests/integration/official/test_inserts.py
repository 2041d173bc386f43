"""The official client, unmodified, inserts into the embedded server as it inserts into ClickHouse."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import io
import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lz4.frame
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zstandard
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from clickhouse_connect.driver.summary import QuerySummary

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import connected

Rows = list[tuple[Any, ...]]


SAMPLE: Rows = [(1, "one", 1.5), (2, None, -2.0), (3, "dr\tei\n", 1e300)]


def stored(client: Client, table: str) -> Rows:
    return [tuple(row) for row in client.query(f"SELECT * FROM {table} ORDER BY id").result_rows]


def arrow() -> pa.Table:
    ids, names, amounts = zip(*SAMPLE, strict=True)
    return pa.table({"id": pa.array(ids, pa.uint32()), "name": pa.array(names, pa.string()), "amount": list(amounts)})


def arrow_stream() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, arrow().schema) as writer:
        writer.write_table(arrow())
    return sink.getvalue()


def arrow_file() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, arrow().schema) as writer:
        writer.write_table(arrow())
    return sink.getvalue()


def json_rows() -> bytes:
    return b"".join(json.dumps({"id": i, "name": n, "amount": a}).encode() for i, n, a in SAMPLE)


def tsv() -> bytes:
    return b"1\tone\t1.5\n2\t\\N\t-2\n3\tdr\\tei\\n\t1e300\n"


def csv() -> bytes:
    return b'1,"one",1.5\n2,\\N,-2\n3,"dr\tei\n",1e300\n'


def row_binary() -> bytes:
    out = b""
    for number, name, amount in SAMPLE:
        text = b"\x01" if name is None else b"\x00" + bytes([len(name.encode())]) + name.encode()
        out += np.uint32(number).tobytes() + text + np.float64(amount).tobytes()
    return out


BODIES: dict[str, Callable[[], bytes]] = {
    "ArrowStream": arrow_stream,
    "Arrow": arrow_file,
    "JSONEachRow": json_rows,
    "TabSeparated": tsv,
    "CSV": csv,
    "RowBinary": row_binary,
}


@pytest.mark.parametrize("compression", [None, "gzip", "lz4", "zstd"])
@pytest.mark.parametrize("fmt", list(BODIES))
def test_raw_insert(client: Client, table: str, fmt: str, compression: str | None) -> None:
    body: Any = BODIES[fmt]()
    if compression is not None:
        body = compressed(body, compression)
    summary = client.raw_insert(table, ["id", "name", "amount"], body, fmt=fmt, compression=compression)
    assert summary.written_rows == 3
    assert stored(client, table) == SAMPLE


def compressed(body: bytes, method: str) -> bytes:
    """Every method as two frames or members: a body may be several."""
    compress: Callable[[bytes], bytes] = {
        "gzip": gzip.compress,
        "lz4": lz4.frame.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }[method]
    middle = len(body) // 2
    return compress(body[:middle]) + compress(body[middle:])


@pytest.mark.parametrize("fmt", list(BODIES))
def test_raw_insert_of_a_generator_is_chunked_with_the_statement_in_the_url(
    client: Client, table: str, fmt: str
) -> None:
    body = BODIES[fmt]()
    pieces = (body[start : start + 7] for start in range(0, len(body), 7))
    assert client.raw_insert(table, ["id", "name", "amount"], pieces, fmt=fmt).written_rows == 3
    assert stored(client, table) == SAMPLE


@pytest.mark.parametrize("compress", [False, "gzip", "lz4", "zstd"])
def test_native_insert_of_several_blocks(server: EmbeddedClickHouse, database: str, table: str, compress: Any) -> None:
    """The client sends one lz4 frame a block; a server that stops after the first loses rows without a word."""
    with connected(server, database=database, compress=compress) as client:
        count = 200_000
        data: list[list[Any]] = [
            list(range(count)),
            [None if n % 7 == 0 else f"name {n}" for n in range(count)],
            [n / 2 for n in range(count)],
        ]
        summary = client.insert(table, data, column_names=["id", "name", "amount"], column_oriented=True)
        assert summary.written_rows == count
        totals = client.query(f"SELECT count(), sum(id), countIf(name IS NULL), sum(amount) FROM {table}").result_rows
        assert totals == [(count, sum(range(count)), len(range(0, count, 7)), sum(range(count)) / 2)]


def test_inserts_of_rows_frames_and_arrow(client: Client, table: str) -> None:
    client.insert(table, [list(row) for row in SAMPLE])
    client.insert_df(table, pd.DataFrame({"id": [11, 12], "name": ["a", "b"], "amount": [0.5, 0.25]}))
    client.insert_arrow(table, pa.table({"id": pa.array([21], pa.uint32()), "name": ["c"], "amount": [1.0]}))
    assert stored(client, table) == [*SAMPLE, (11, "a", 0.5), (12, "b", 0.25), (21, "c", 1.0)]


def test_an_insert_context_is_used_again(client: Client, table: str) -> None:
    context = client.create_insert_context(table, ["id", "amount"], data=[[1, 1.0]])
    client.insert(context=context)
    client.insert(context=context, data=[[2, 2.0]])
    assert stored(client, table) == [(1, None, 1.0), (2, None, 2.0)]


def test_insert_by_command_with_values_and_select(client: Client, table: str) -> None:
    client.command(f"INSERT INTO {table} VALUES (1, 'x; y', 0.5), (2, lower('ABC'), 1 + 1);")
    client.command(f"INSERT INTO {table} SELECT number + 10, toString(number), 0 FROM numbers(2)")
    client.command(f"INSERT INTO {table} (id) VALUES", data="(30)")
    names = [(row[0], row[1]) for row in stored(client, table)]
    assert names == [(1, "x; y"), (2, "abc"), (10, "0"), (11, "1"), (30, None)]


def test_types_survive_a_round_trip(client: Client) -> None:
    client.command("DROP TABLE IF EXISTS types")
    client.command(
        "CREATE TABLE types (u256 UInt256, i128 Int128, n Nullable(Int64), d Decimal(38, 10), u UUID, day Date32, "
        "at DateTime64(6, 'UTC'), low LowCardinality(String), list Array(Nullable(Int8)), m Map(String, UInt8), "
        "pair Tuple(a Int8, b String), e Enum8('x' = 1), ip IPv6, flag Bool, fixed FixedString(3), j JSON) "
        "ENGINE = MergeTree ORDER BY u"
    )
    row: list[Any] = [
        2**256 - 1, -(2**127), None, decimal.Decimal("12345678901234567890.0000000001"), uuid.uuid4(),
        dt.date(1950, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC), "low", [1, None, -1], {"k": 7},
        {"a": -1, "b": "ü"}, "x", "2001:db8::1", True, b"abc", {"a": {"b": "c"}},
    ]  # fmt: skip
    client.insert("types", [row])
    found = list(client.query("SELECT * FROM types").result_rows[0])
    found[6], found[12] = found[6].replace(tzinfo=dt.UTC), str(found[12])
    assert found == row
    client.command("DROP TABLE types SYNC")


def test_a_broken_row_is_an_error_and_inserts_nothing_of_its_block(client: Client, table: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        client.raw_insert(table, ["id", "amount"], b"1,1.0\nzz,2.0\n", fmt="CSV")
    assert caught.value.code == 27
    with pytest.raises(DatabaseError) as caught:
        client.raw_insert(table, ["id"], b"not an arrow stream", fmt="ArrowStream")
    assert caught.value.code is not None
    assert stored(client, table) == []


def test_the_summary_counts_what_the_engine_did(client: Client, table: str) -> None:
    summary = client.insert(table, [list(row) for row in SAMPLE])
    assert summary.written_rows == 3 and summary.written_bytes() > 0
    read = client.query(f"SELECT id FROM {table} WHERE id > 1").summary
    assert (read["read_rows"], read["result_rows"], read["written_rows"]) == ("3", "2", "0")
    copied = client.command(f"INSERT INTO {table} SELECT id + 100, name, amount FROM {table}")
    assert isinstance(copied, QuerySummary)
    assert copied.written_rows == 3
    assert client.query("SELECT 1", settings={"query_id": "mine-1"}).query_id == "mine-1"


def test_a_materialized_view_counts_and_shares_the_insert(client: Client, table: str) -> None:
    client.command(f"CREATE TABLE {table}_sum (n UInt64) ENGINE = MergeTree ORDER BY n")
    client.command(f"CREATE MATERIALIZED VIEW {table}_mv TO {table}_sum AS SELECT count() AS n FROM {table}")
    assert client.insert(table, [list(row) for row in SAMPLE]).written_rows == 4
    assert client.query(f"SELECT n FROM {table}_sum").result_rows == [(3,)]
    client.command(f"DROP TABLE {table}_mv SYNC")
    client.command(f"DROP TABLE {table}_sum SYNC")


def test_threads_insert_and_query_at_the_same_time(server: EmbeddedClickHouse, database: str, table: str) -> None:
    """Each thread sees its own inserts, and all of them are there in the end, once."""
    threads, inserts, rows = 8, 12, 500

    def work(number: int) -> int:
        seen = 0
        with connected(server, database=database) as client:
            for turn in range(inserts):
                first = (number * inserts + turn) * rows
                body = b"".join(b'{"id":%d,"amount":%d}\n' % (row, number) for row in range(first, first + rows))
                token = {"insert_deduplication_token": f"{number}-{turn}"}
                for _ in range(2):
                    client.raw_insert(table, ["id", "amount"], body, fmt="JSONEachRow", settings=token)
                found = client.query(f"SELECT count() FROM {table} WHERE amount = {number}").result_rows[0][0]
                assert found == (turn + 1) * rows
                seen = found
        return seen

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(work, range(threads))) == threads * inserts * rows
    with connected(server, database=database) as client:
        totals = client.query(f"SELECT count(), uniqExact(id) FROM {table}").result_rows
        assert totals == [(threads * inserts * rows, threads * inserts * rows)]
