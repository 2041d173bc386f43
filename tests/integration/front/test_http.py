"""ClickHouse's HTTP interface, byte by byte, where the official client does not look."""

from __future__ import annotations

import gzip
import http.client
import threading
import time
import uuid
from typing import Any
from urllib.parse import urlencode

import lz4.frame
import pytest
import zstandard

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import Reply, ask, send
from tests.support.job import eventually


def test_health(server: EmbeddedClickHouse) -> None:
    for path in ("/ping", "/replicas_status", "/"):
        reply = send(server, method="GET", path=path)
        assert (reply.status, reply.text) == (200, "Ok.\n")
    assert send(server, method="GET", path="/nothing").status == 404


def test_headers_of_an_answer(server: EmbeddedClickHouse) -> None:
    reply = send(server, "SELECT number FROM numbers(3)", query_id="my-id", default_format="JSONEachRow")
    assert reply.headers["X-ClickHouse-Query-Id"] == "my-id"
    assert reply.headers["X-ClickHouse-Format"] == "JSONEachRow"
    assert reply.headers["X-ClickHouse-Timezone"] == ask(server, "SELECT timezone()")
    assert reply.headers["X-ClickHouse-Server-Display-Name"]
    assert reply.headers["Content-Type"].startswith("application/x-ndjson")
    assert len(reply.headers["X-ClickHouse-Exception-Tag"]) == 16
    assert reply.summary["result_rows"] == reply.summary["read_rows"] == 3
    assert send(server, "SELECT 1 FORMAT CSV", default_format="JSON").headers["X-ClickHouse-Format"] == "CSV"


@pytest.mark.parametrize(
    ("query", "code", "status"),
    [
        ("SELECT * FROM nowhere", 60, 404),
        ("SELEC 1", 62, 400),
        ("SELECT throwIf(1)", 395, 500),
        ("SELECT 1 FORMAT Nope", 73, 404),
        ("SELECT * FROM numbers(10) SETTINGS nope = 1", 115, 404),
        ("INSERT INTO FUNCTION null('a UInt8') SELECT a FROM input('a UInt8') FORMAT CSV 1", 48, 501),
        ("", 62, 400),
    ],
)
def test_errors(server: EmbeddedClickHouse, query: str, code: int, status: int) -> None:
    reply = send(server, body=query.encode(), query_id="bad")
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers["X-ClickHouse-Query-Id"] == "bad"
    version = ask(server, "SELECT version()")
    assert reply.text.startswith(f"Code: {code}. DB::Exception: ")
    assert reply.text.endswith(f") (version {version} (official build))\n")


def test_parameters_that_are_no_settings_and_settings_that_do_not_exist(server: EmbeddedClickHouse) -> None:
    assert send(server, "SELECT 1", nope="1").code == 115
    odd: dict[str, Any] = {"max threads": "1"}
    assert send(server, "SELECT 1", **odd).code == 115
    assert send(server, "SELECT 1", database="nowhere").code == 81
    assert send(server, "SELECT 1", b"x", headers={"Content-Encoding": "br"}).status == 500
    assert ask(server, "SELECT currentDatabase()", database="system") == "system"


def test_get_is_read_only(server: EmbeddedClickHouse, table: str) -> None:
    assert send(server, "SELECT 1", method="GET").text == "1\n"
    sessions: list[dict[str, Any]] = [{}, {"session_id": str(uuid.uuid4())}]
    for session in sessions:
        reply = send(server, f"INSERT INTO {table} VALUES (1, 'x')", method="GET", **session)
        assert reply.code == 164
        assert send(server, f"TRUNCATE TABLE {table}", readonly="1", **session).status == 500
    assert send(server, "SELECT 2", method="GET", max_threads="1").text == "2\n"
    assert send(server, "SELECT 2 SETTINGS max_block_size = 5", method="GET", readonly="1").status == 500
    assert ask(server, f"SELECT count() FROM {table}") == "0"


def test_compressed_answers(server: EmbeddedClickHouse) -> None:
    query = "SELECT number, toString(number) FROM numbers(200000)"
    plain = send(server, query).body
    decoders = {"gzip": gzip.decompress, "lz4": lz4.frame.decompress, "zstd": zstandard_decompress}
    for encoding, decode in decoders.items():
        for wait in ("0", "1"):
            headers = {"Accept-Encoding": encoding}
            reply = send(server, query, headers=headers, enable_http_compression="1", wait_end_of_query=wait)
            assert reply.headers["Content-Encoding"] == encoding
            assert len(reply.body) < len(plain) and decode(reply.body) == plain
    assert "Content-Encoding" not in send(server, query, headers={"Accept-Encoding": "gzip"}).headers


def zstandard_decompress(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def test_a_result_is_buffered_when_asked(server: EmbeddedClickHouse) -> None:
    """An error after 200,000 rows: in the body once it was begun, a plain error when the answer waits for the end."""
    query = "SELECT number, throwIf(number = 900000) FROM numbers(1000000)"
    whole = send(server, query, wait_end_of_query="1")
    assert (whole.status, whole.code) == (500, 395)
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    connection.request("POST", "/?buffer_size=1000", body=query)
    reply = connection.getresponse()
    tag = reply.headers["X-ClickHouse-Exception-Tag"]
    with pytest.raises(http.client.IncompleteRead) as cut:
        reply.read()
    connection.close()
    begin, _, rest = cut.value.partial.partition(f"\r\n__exception__\r\n{tag}\r\n".encode())
    assert reply.status == 200 and begin.startswith(b"0\t0\n1\t0\n")
    message, _, end = rest.rpartition(f" {tag}\r\n__exception__\r\n".encode())
    text, _, length = message.rpartition(b"\n")
    assert text.startswith(b"Code: 395. DB::Exception:") and int(length) == len(text) + 1 and not end


def test_sessions(server: EmbeddedClickHouse) -> None:
    name = str(uuid.uuid4())
    assert send(server, "SELECT 1", session_id=name, session_check="1").code == 372
    assert (
        send(server, "SELECT 1", session_id=name, session_timeout="99999").headers["X-ClickHouse-Exception-Code"]
        == "374"
    )
    ask(server, "CREATE TEMPORARY TABLE scratch (a UInt8)", session_id=name, session_timeout="1")
    ask(server, "INSERT INTO scratch VALUES (7)", session_id=name, session_timeout="1")
    assert ask(server, "SELECT a FROM scratch", session_id=name, session_check="1", session_timeout="1") == "7"
    assert send(server, "SELECT a FROM scratch").status == 404
    time.sleep(2.5)
    assert send(server, "SELECT 1", session_id=name, session_check="1").code == 372
    first: dict[str, Any] = {"session_id": name, "max_block_size": "5", "database": "system"}
    assert ask(server, "SELECT getSetting('max_block_size'), currentDatabase()", **first) == "5\tsystem"
    now = ask(server, "SELECT getSetting('max_block_size'), currentDatabase()", session_id=name)
    assert now == ask(server, "SELECT getSetting('max_block_size'), currentDatabase()")
    ask(server, "SET max_threads = 3", session_id=name)
    assert ask(server, "SELECT getSetting('max_threads')", session_id=name) == "3"
    assert ask(server, "SELECT 1", session_id=name, close_session="1") == "1"
    assert send(server, "SELECT 1", session_id=name, session_check="1").status == 500


def test_a_session_serves_one_request_at_a_time(server: EmbeddedClickHouse) -> None:
    name = str(uuid.uuid4())
    first = threading.Thread(target=ask, args=(server, "SELECT sleep(3)"), kwargs={"session_id": name})
    first.start()
    running = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleep(3)%'"
    eventually("long query", lambda: ask(server, running) == "1")
    assert send(server, "SELECT 1", session_id=name).code == 373
    first.join()
    assert ask(server, "SELECT 1", session_id=name) == "1"


def test_a_session_is_free_when_an_answer_has_ended(server: EmbeddedClickHouse) -> None:
    """Also one that is streamed: a client may send its next request once it has read the last byte."""
    name = str(uuid.uuid4())
    for _ in range(20):
        reply = send(server, "SELECT number FROM numbers(200000)", session_id=name, buffer_size="1000")
        assert reply.status == 200


def test_settings_of_the_url_hold_for_external_tables(server: EmbeddedClickHouse) -> None:
    boundary = "b0undary"
    part = 'Content-Disposition: form-data; name="ext"; filename="ext"\r\n\r\n1;x\r\n'
    body = f"--{boundary}\r\n{part}--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    table = {"ext_structure": "a LowCardinality(UInt8), b String", "ext_format": "CSV"}
    settings = {"format_csv_delimiter": ";", "allow_suspicious_low_cardinality_types": "1"}
    for readonly in ("0", "2"):
        reply = send(server, "SELECT a, b FROM ext", body, headers=headers, readonly=readonly, **table, **settings)
        assert reply.text == "1\tx\n"


def test_show_create_of_a_system_table(server: EmbeddedClickHouse) -> None:
    for query in ("SHOW CREATE TABLE system.one", "show create system.`one` FORMAT TSVRaw"):
        shown = ask(server, query, default_format="TSVRaw")
        assert shown == "CREATE TABLE system.one\n(\n    `dummy` UInt8\n)\nENGINE = SystemOne"
    assert send(server, "SHOW CREATE TABLE system.nowhere").code == 60


def test_a_long_statement_holds_nobody_up(server: EmbeddedClickHouse, table: str) -> None:
    """Many long SELECTs run; pings, small queries and inserts go on, and the long ones can be seen and killed by id."""
    count = 4
    replies: list[Reply] = []
    long = "SELECT count() FROM numbers(100000000000) WHERE NOT ignore(cityHash64(number))"
    threads = [
        threading.Thread(
            target=lambda n=n: replies.append(send(server, long, query_id=f"{table}-{n}", max_threads="1"))
        )
        for n in range(count)
    ]
    for thread in threads:
        thread.start()
    mine = f"Settings['log_comment'] LIKE '{table}-%'"
    try:
        running = f"SELECT count() FROM system.processes WHERE {mine}"
        eventually("long queries", lambda: ask(server, running) == str(count))
        slowest = 0.0
        for turn in range(20):
            begin = time.monotonic()
            assert send(server, method="GET", path="/ping").status == 200
            assert send(server, f"INSERT INTO {table} VALUES ({turn}, 'x')").status == 200
            slowest = max(slowest, time.monotonic() - begin)
        assert slowest < 5
    finally:
        ask(server, f"KILL QUERY WHERE {mine} SYNC")
        for thread in threads:
            thread.join()
    assert [reply.code for reply in replies] == [394] * count
    assert ask(server, f"SELECT count() FROM {table}") == "20"


@pytest.mark.parametrize(
    ("settings", "code"), [({"max_execution_time": "2"}, 159), ({"max_result_rows": "3000000"}, 396), ({}, 394)]
)
def test_a_result_that_ends_early_is_never_taken_for_a_whole_one(
    server: EmbeddedClickHouse, settings: dict[str, str], code: int
) -> None:
    """Also where the statement is ended from outside: here by KILL when no setting ends it."""
    query_id = str(uuid.uuid4())
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    url = urlencode({"query_id": query_id, **settings})
    connection.request("POST", f"/?{url}", body="SELECT number FROM numbers(100000000000)")
    reply = connection.getresponse()
    assert reply.status == 200
    if not settings:
        ask(server, f"KILL QUERY WHERE Settings['log_comment'] = '{query_id}' ASYNC")
    tail = [b""]
    with pytest.raises(http.client.IncompleteRead):
        read_tail(reply, tail)
    connection.close()
    assert f"\nCode: {code}. DB::Exception: ".encode() in tail[0]


def read_tail(reply: http.client.HTTPResponse, tail: list[bytes]) -> None:
    while piece := reply.read1(1 << 20):
        tail[0] = tail[0][-500:] + piece
