"""A request's statement and data, however they are cut, framed and encoded; and what becomes of half of them."""

from __future__ import annotations

import gzip
import lzma
import socket
import time
import zlib
from urllib.parse import urlencode

import lz4.frame
import pytest
import zstandard

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import ask, send


def test_the_statement_may_be_split_between_url_and_body(server: EmbeddedClickHouse, table: str) -> None:
    send(server, f"INSERT INTO {table} FORMAT", b"CSV\n1,one\n")
    send(server, f"INSERT INTO {table} FORMAT CSV 2,two", b"3,three\n")
    send(server, f"INSERT INTO {table} (a)", b"(4)")
    send(server, body=f'INSERT INTO {table} FORMAT JSONEachRow {{"a": 5}}\n\n{{"a": 6}}'.encode())
    send(server, body=f"INSERT INTO {table} FORMAT CSV SETTINGS format_csv_delimiter = ';'\n7;seven\n".encode())
    send(server, body=f"/* a; b */ insert into {table} -- here\n values (8, 'a;b'), (9, '')".encode())
    rows = send(server, "SELECT a, b", f"FROM {table} ORDER BY a".encode()).text
    assert rows == "1\tone\n2\ttwo\n3\tthree\n4\tnone\n5\tnone\n6\tnone\n7\tseven\n8\ta;b\n9\t\n"


def test_a_statement_behind_an_inserts_data_is_refused(server: EmbeddedClickHouse, table: str) -> None:
    reply = send(server, body=f"INSERT INTO {table} VALUES (1, 'x'); DROP TABLE {table}".encode())
    assert reply.status in (400, 500), reply.text
    assert ask(server, f"EXISTS TABLE {table}") == "1"


def test_a_big_body_with_its_statement(server: EmbeddedClickHouse, table: str) -> None:
    rows = 100_000
    data = b"".join(b"%d\tvalue %d\n" % (row, row) for row in range(rows))
    for encoding, encode in (("", bytes), ("gzip", gzip.compress), ("lz4", lz4.frame.compress)):
        reply = send(
            server,
            body=encode(f"INSERT INTO {table} FORMAT TSV\n".encode() + data),
            headers={"Content-Encoding": encoding},
            deduplicate_insert="disable",
        )
        assert reply.summary["written_rows"] == rows
    assert ask(server, f"SELECT count(), uniqExact(a) FROM {table}") == f"{3 * rows}\t{rows}"


@pytest.mark.parametrize("encoding", ["gzip", "lz4", "zstd", "deflate", "xz"])
def test_an_encoded_body_that_ends_early_is_refused(server: EmbeddedClickHouse, table: str, encoding: str) -> None:
    encode = {
        "gzip": gzip.compress,
        "lz4": lz4.frame.compress,
        "zstd": zstandard.ZstdCompressor().compress,
        "deflate": zlib.compress,
        "xz": lzma.compress,
    }[encoding]
    body = encode(b"".join(b"%d\tsome text %d\n" % (row, row * 7919) for row in range(20_000)))
    for broken in (body[:-9], body[: len(body) // 2], body + b"more", b"\x01\x02" + body):
        reply = send(server, f"INSERT INTO {table} FORMAT TSV", broken, headers={"Content-Encoding": encoding})
        assert reply.status == 500, (encoding, len(broken))
        assert reply.code in (33, 354, 561, 618)
    assert ask(server, f"SELECT count() FROM {table}") == "0"
    assert send(server, f"INSERT INTO {table} FORMAT TSV", body, headers={"Content-Encoding": encoding}).status == 200


@pytest.mark.parametrize("chunked", [True, False])
def test_a_client_that_leaves_in_the_middle_of_its_body_has_inserted_nothing(
    server: EmbeddedClickHouse, table: str, chunked: bool
) -> None:
    rows = b"".join(b"%d\tx\n" % row for row in range(300_000))
    target = "/?" + urlencode({"query": f"INSERT INTO {table} FORMAT TSV"})
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(rows) + 100}"
    with socket.create_connection((server.host, server.port)) as client:
        client.sendall(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode())
        client.sendall(b"%x\r\n%b\r\n" % (len(rows), rows) if chunked else rows)
        time.sleep(0.2)
    time.sleep(0.3)
    assert ask(server, f"SELECT count() FROM {table}") == "0"
