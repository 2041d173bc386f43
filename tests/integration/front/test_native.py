"""The Native format for clients of a protocol revision: a block's info, time zones, serialization flags."""

from __future__ import annotations

from typing import Final

import pytest

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.support.clickhouse_http import send

INFO: Final = b"\x01\x00\x02\xff\xff\xff\xff\x00"
ZONE: Final = b"\x1aDateTime('America/Denver')"
BEFORE_ZONES, WITH_ZONES, WITH_FLAGS = "54336", "54405", "54460"


def native(server: EmbeddedClickHouse, query: str, revision: str) -> bytes:
    reply = send(server, query, default_format="Native", client_protocol_version=revision)
    assert reply.status == 200, reply.text
    return reply.body


@pytest.mark.parametrize(
    ("revision", "info", "zone", "flag"),
    [
        ("0", b"", b"\x08DateTime", b""),
        (BEFORE_ZONES, INFO, b"\x08DateTime", b""),
        (WITH_ZONES, INFO, ZONE, b""),
        (WITH_FLAGS, INFO, ZONE, b"\x00"),
    ],
)
def test_what_a_revision_adds(server: EmbeddedClickHouse, revision: str, info: bytes, zone: bytes, flag: bytes) -> None:
    body = native(server, "SELECT toUInt8(7) AS a, toDateTime(1, 'America/Denver') AS t", revision)
    assert body == info + b"\x02\x01\x01a\x05UInt8" + flag + b"\x07\x01t" + zone + flag + b"\x01\x00\x00\x00"


@pytest.mark.parametrize(
    "column",
    [
        "repeat('é', toUInt32(number * 40))",
        "arrayMap(x -> toString(x), range(number % 5))",
        "map(toString(number), [number, 1])",
        "tuple(number, 'x', toNullable(number))",
        "CAST(tuple(number, 'b') AS Tuple(`a b` UInt64, c String))",
        "toLowCardinality(toNullable(if(number % 3 = 0, NULL, toString(number))))",
        "[toLowCardinality(toString(number % 7))]",
        "map('k', toLowCardinality('v'))",
        "toDecimal64(number, 3)",
        "toFixedString('abc', 5)",
        "CAST('x', 'Enum8(\\'x\\' = 1, \\'a,(b\\' = 2)')",
        "NULL",
        "tuple()",
        "toIntervalDay(number)",
        "(1.5, 2.5)::Point",
        "toDateTime64(number, 3, 'America/Denver')",
        # Their length does not follow from the type.
        "map('a', number)::JSON",
        "number::Dynamic",
        "number::Variant(UInt64, String)",
        "['v', 'UInt8']::Dynamic",
        "arrayReduce('uniqState', [number])",
    ],
)
def test_every_type_ends_where_the_next_column_begins(server: EmbeddedClickHouse, column: str) -> None:
    """The next one's values are right, and with the additions taken out the body is the engine's own."""
    for rows in (0, 300):
        query = f"SELECT {column} AS c, toUInt8(number) AS v FROM numbers({rows}) SETTINGS max_threads = 1"
        plain, revised = native(server, query, "0"), native(server, query, WITH_ZONES)
        assert revised.replace(INFO, b"", 1) == plain if rows else revised in (b"", INFO + plain)
        flagged = native(server, query, WITH_FLAGS)
        if rows:
            assert flagged.endswith(b"\x01v\x05UInt8\x00" + bytes(n % 256 for n in range(rows)))
            assert len(flagged) == len(revised) + 2


def test_a_body_of_many_blocks(server: EmbeddedClickHouse) -> None:
    query = "SELECT toDateTime(number, 'America/Denver') AS t FROM numbers(300000) SETTINGS max_block_size = 65505"
    for whole in ("0", "1"):
        reply = send(
            server, query, default_format="Native", client_protocol_version=WITH_ZONES, wait_end_of_query=whole
        )
        assert reply.body.count(INFO) == reply.body.count(ZONE) == 5
