"""The native protocol's compressed blocks over HTTP: ``decompress=1`` for a body, ``compress=1`` for an answer."""

from __future__ import annotations

import struct
from collections.abc import Callable

import lz4.block
import pytest
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import ask, send

ROWS = b"".join(b"%d\tvalue %d\n" % (row, row) for row in range(50_000))


def block(method: int, data: bytes, size: int) -> bytes:
    """One block, as a client makes it."""
    rest = struct.pack("<BII", method, 9 + len(data), size) + data
    checksum = CityHash128(rest)
    return struct.pack("<QQ", checksum >> 64, checksum & 0xFFFFFFFFFFFFFFFF) + rest


def blocks(method: int, plain: bytes) -> bytes:
    """``plain`` in blocks of 64 KiB."""
    encoders: dict[int, Callable[[bytes], bytes]] = {
        0x02: bytes,
        0x82: lambda data: bytes(lz4.block.compress(data, store_size=False)),
        0x90: lambda data: zstandard.ZstdCompressor().compress(data),
    }
    encode = encoders[method]
    parts = [plain[start : start + 65_536] for start in range(0, len(plain), 65_536)]
    return b"".join(block(method, encode(part), len(part)) for part in parts)


def plain(body: bytes) -> bytes:
    """What an answer's blocks hold."""
    found = b""
    while body:
        method, size, plain_size = struct.unpack_from("<BII", body, 16)
        assert (method, body[:16]) == (0x82, block(method, body[25 : 16 + size], plain_size)[:16])
        found += lz4.block.decompress(body[25 : 16 + size], uncompressed_size=plain_size)
        body = body[16 + size :]
    return found


def test_a_block_that_the_server_itself_made_is_read(server: EmbeddedClickHouse) -> None:
    """Its checksum was computed by ClickHouse: it is the file of a column that holds 'SELECT 1'."""
    made = bytes.fromhex("818fd1b622dd361a0f77f72bf479bcea8212000000080000008053454c4543542031")
    assert send(server, body=made, decompress="1").text == "1\n"


@pytest.mark.parametrize("method", [0x02, 0x82, 0x90])
def test_an_insert_may_come_in_blocks(server: EmbeddedClickHouse, table: str, method: int) -> None:
    reply = send(server, f"INSERT INTO {table} FORMAT TSV", blocks(method, ROWS), decompress="1")
    assert reply.summary["written_rows"] == 50_000
    assert ask(server, f"SELECT count(), uniqExact(a), max(b) FROM {table}") == "50000\t50000\tvalue 9999"


@pytest.mark.parametrize("wait", ["0", "1"])
def test_an_answer_may_come_in_blocks(server: EmbeddedClickHouse, wait: str) -> None:
    query = "SELECT number, 'value ' || toString(number) FROM numbers(50000)"
    headers = {"Accept-Encoding": "gzip"}
    reply = send(server, query, headers=headers, compress="1", enable_http_compression="1", wait_end_of_query=wait)
    assert "Content-Encoding" not in reply.headers
    assert len(reply.body) < len(ROWS)
    assert plain(reply.body) == ROWS


def test_broken_blocks_are_refused(server: EmbeddedClickHouse, table: str) -> None:
    whole = blocks(0x82, ROWS)
    broken = {
        33: [whole[:-1], whole[:20], whole + b"more"],
        40: [whole[:30] + b"\xff" + whole[31:], b"\0" + whole[1:]],
        89: [block(0x55, b"1\tx\n", 4)],
        271: [block(0x82, b"\xff\xff", 9), block(0x02, b"1\tx\n", 5)],
        39: [struct.pack("<QQBII", 0, 0, 0x82, 1 << 31, 9) + bytes(9)],
    }
    for code, bodies in broken.items():
        for body in bodies:
            reply = send(server, f"INSERT INTO {table} FORMAT TSV", body, decompress="1")
            assert reply.code == code, reply.text
    assert ask(server, f"SELECT count() FROM {table}") == "0"
