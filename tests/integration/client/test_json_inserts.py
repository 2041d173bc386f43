"""A piece with a JSON column is an INSERT that selects: it is one block under one token, as any other."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.dedup_mark import look
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.table import TargetTable, read_table
from chsink.clickhouse.writer import PINNED_WHERE_KNOWN, ShardWriter
from chsink.clock import SystemClock
from chsink.decode import INSERT_SETTINGS, JsonDecoder

LATER_MS = 1 << 62
ROWS = 150_000
"""More than a block of a SELECT or of a format holds by default."""


def described(client: ClickHouseClient, create: Callable[[str], None], columns: str) -> TargetTable:
    name = f"client_test.j_{uuid.uuid4().hex}"
    create(
        f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree PARTITION BY n % 2 ORDER BY n "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    create(
        f"CREATE TABLE {name}_v (n UInt32) ENGINE = MergeTree ORDER BY n "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    client.command(f"CREATE MATERIALIZED VIEW {name}_mv TO {name}_v AS SELECT n FROM {name}")
    return read_table(client, *name.split("."))


def test_sent_again_it_is_kept_once_also_in_views(client: ClickHouseClient, create: Callable[[str], None]) -> None:
    """⚑ ClickHouse deduplicates no INSERT … SELECT unless it is asked to."""
    table = described(client, create, "n UInt32, j JSON, d String DEFAULT concat('d', toString(n)), o UInt8 DEFAULT 7")
    texts = ["2026-01-31 10:00:00", "20260131", "4917012345", "2026.01.31"]
    records = [json.dumps({"n": n, "j": {"a": texts[n % 4]}, "d": None if n % 3 else "own"}) for n in range(ROWS)]
    batch = (
        JsonDecoder(table.columns, timezone="UTC").decode(pa.array([r.encode() for r in records], pa.binary())).batch
    )
    shard = InsertShard(client, table, look(client, table).mark)
    writer = ShardWriter([shard], {**INSERT_SETTINGS, **PINNED_WHERE_KNOWN}, SystemClock(), 5, 60, 30)
    for _ in range(3):
        writer.insert(0, table.name, batch, "one", LATER_MS)

    [(count, wrong)] = client.query(
        "SELECT count(), countIf(j.a::String != arrayElement({texts:Array(String)}, n % 4 + 1) OR o != 7 "
        f"OR d != if(n % 3 = 0, 'own', concat('d', toString(n)))) FROM {table.canonical}",
        {"texts": texts},
    )
    assert (count, wrong) == (ROWS, 0)
    assert client.query(f"SELECT count() FROM {table.canonical}_v") == [(ROWS,)]
    [(blocks,)] = client.query(
        "SELECT max(max_block_number) FROM system.parts WHERE database = {d:String} AND table = {t:String}",
        {"d": table.database, "t": table.name},
    )
    assert blocks <= 4, "one block for each table partition and attempt"


@pytest.mark.parametrize("more", ["", ", j JSON"])
def test_a_variant_of_types_that_are_alike(client: ClickHouseClient, create: Callable[[str], None], more: str) -> None:
    """A table may have one, whatever a session allows: ClickHouse refused each insert (CHS-315)."""
    name = f"client_test.v_{uuid.uuid4().hex}"
    create(
        f"CREATE TABLE {name} (n UInt32, v Variant(Float64, Int8, String, UInt64){more}) ENGINE = MergeTree ORDER BY n "
        "SETTINGS non_replicated_deduplication_window = 100, allow_suspicious_variant_types = 1"
    )
    table = read_table(client, *name.split("."))
    records = [json.dumps({"n": n, "v": v, "j": {"a": 1}}) for n, v in enumerate((1, 2**63, 0.5, "x"))]
    batch = (
        JsonDecoder(table.columns, timezone="UTC").decode(pa.array([r.encode() for r in records], pa.binary())).batch
    )
    shard = InsertShard(client, table, look(client, table).mark)
    ShardWriter([shard], dict(INSERT_SETTINGS), SystemClock(), 5, 60, 30).insert(0, table.name, batch, "one", LATER_MS)
    kinds = client.query(f"SELECT variantType(v)::String FROM {table.canonical} ORDER BY n")
    assert kinds == [("Int8",), ("UInt64",), ("Float64",), ("String",)]
