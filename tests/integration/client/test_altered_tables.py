"""A table is altered while a range is in doubt, or while its pieces are sent: the same rows, or nothing and a clear error.

Of each range, piece A is sent before the ALTER and piece B after it: by the task that made both (*under way*), and again,
A and B, by a new start (*replayed*).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.dedup_mark import look
from chsink.clickhouse.describe import read_facts
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.table import TargetTable, read_table
from chsink.clickhouse.writer import ShardWriter
from chsink.clock import SystemClock
from chsink.decode import INSERT_SETTINGS
from chsink.errors import AlteredError, UnavailableError
from chsink.formats.announced_columns import as_announced
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.settings import JSON
from chsink.ports import Decoder
from chsink.statemachine.table import changed_parts

STREAM = Untouched("read_committed")
COLUMNS = (
    "id UInt64, n Nullable(Int32), e Enum8('a' = 1, 'b' = 2), text String DEFAULT 'none', loud String MATERIALIZED "
    "upper(text), _kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64"
)
Value = dict[str, Any]
A: list[Value] = [{"id": 1, "n": 7, "e": "a", "text": "x", "more": "m"}, {"id": 2, "n": None, "e": "b"}]
B: list[Value] = [{"id": 3, "n": -5, "e": "b", "text": "y", "more": "m"}, {"id": 4, "e": "a", "text": None}]
ROWS = [(1, 7, "a", "x"), (2, None, "b", "none"), (3, -5, "b", "y"), (4, None, "a", "none")]


@dataclass(frozen=True)
class Case:
    """``lost``: columns of which a piece under way is refused.  ``undo``: what makes a replay possible; "" where it is
    possible as it is.
    """

    alter: str
    undo: str = ""
    lost: str = ""

    def __str__(self) -> str:
        return self.alter


CASES = [
    Case("ADD COLUMN more String"),
    Case("ADD COLUMN more UInt8 DEFAULT 3 AFTER text"),
    Case("ADD COLUMN more Nullable(String), ADD COLUMN most Array(Int8)"),
    Case("ADD COLUMN more String MATERIALIZED text"),
    Case("MODIFY COLUMN loud String MATERIALIZED lower(text)"),
    Case("COMMENT COLUMN n 'a number'"),
    Case("MODIFY COLUMN text String CODEC(ZSTD)"),
    Case("MODIFY SETTING merge_with_ttl_timeout = 7200"),
    Case("MODIFY SETTING non_replicated_deduplication_window = 200"),
    Case("MODIFY COLUMN text String TTL toDateTime(id) + toIntervalYear(100)"),
    Case("MODIFY TTL toDateTime(id) + toIntervalYear(100)"),
    Case("ADD INDEX i n TYPE minmax, ADD PROJECTION p (SELECT text ORDER BY text)"),
    Case("MODIFY COLUMN text REMOVE DEFAULT, ADD COLUMN more String", undo="MODIFY COLUMN text DEFAULT 'none'", lost="text"),
    Case("ADD COLUMN more String EPHEMERAL"),
    Case("ADD COLUMN more String DEFAULT upper(text)"),
    Case("ADD COLUMN more String FIRST", undo="DROP COLUMN more"),
    Case("ADD COLUMN more String AFTER id", undo="DROP COLUMN more"),
    Case("ADD COLUMN _kafka_timestamp DateTime64(3)", undo="DROP COLUMN _kafka_timestamp"),
    Case("MODIFY COLUMN text String FIRST", undo="MODIFY COLUMN text String AFTER e"),
    Case("MODIFY COLUMN n Nullable(Int64)", undo="MODIFY COLUMN n Nullable(Int32)", lost="n"),
    Case("MODIFY COLUMN n Nullable(Int8)", undo="MODIFY COLUMN n Nullable(Int32)", lost="n"),
    Case("MODIFY COLUMN n Nullable(Int32) DEFAULT 9", undo="MODIFY COLUMN n REMOVE DEFAULT", lost="n"),
    Case("MODIFY COLUMN text Nullable(String) DEFAULT 'none'", undo="MODIFY COLUMN text String DEFAULT 'none'", lost="text"),
    Case("MODIFY COLUMN text DEFAULT 'other'", undo="MODIFY COLUMN text DEFAULT 'none'", lost="text"),
    Case("MODIFY COLUMN text REMOVE DEFAULT", undo="MODIFY COLUMN text DEFAULT 'none'", lost="text"),
    Case("MODIFY COLUMN e Enum8('a' = 1, 'b' = 2, 'c' = 3)", undo="MODIFY COLUMN e Enum8('a' = 1, 'b' = 2)", lost="e"),
    Case("MODIFY COLUMN text LowCardinality(String) DEFAULT 'none'", undo="MODIFY COLUMN text String DEFAULT 'none'", lost="text"),
    Case("MODIFY COLUMN text String MATERIALIZED 'm'", undo="MODIFY COLUMN text String DEFAULT 'none'", lost="text"),
    Case("MODIFY COLUMN loud String DEFAULT 'd'"),
    Case("RENAME COLUMN n TO m", undo="RENAME COLUMN m TO n", lost="n"),
    Case("DROP COLUMN n", undo="ADD COLUMN n Nullable(Int32) AFTER id", lost="n"),
]  # fmt: skip


@pytest.fixture
def name(client: ClickHouseClient, create: Callable[[str], None]) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex}"
    create(
        f"CREATE TABLE client_test.{name} ({COLUMNS}) ENGINE = MergeTree ORDER BY id "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    yield name
    client.command(f"DROP TABLE client_test.{name} SYNC")


def described(client: ClickHouseClient, name: str) -> tuple[TargetTable, Decoder]:
    table = read_table(client, "client_test", name)
    return table, decoder_of(name, table.insertable, table.timezone, STREAM, JSON)


def printed(decoder: Decoder) -> str:
    return fingerprint(decoder, STREAM, ["a table"])


def send(client: ClickHouseClient, table: TargetTable, decoder: Decoder, piece: str) -> None:
    """One piece of the range, whose two offsets are its rows' ids."""
    values = {"A": A, "B": B}[piece]
    records = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([json.dumps(v).encode() for v in values], pa.binary()),
            "topic": ["t"] * 2,
            "partition": pa.array([0, 0], pa.int32()),
            "offset": pa.array([v["id"] for v in values], pa.int64()),
            "timestamp": pa.array([0, 0], pa.timestamp("us", "UTC")),
        }
    )
    decoded = decoder.decode(records)
    assert not decoded.bad
    clock = SystemClock()
    shard = InsertShard(client, table, look(client, table).mark)
    writer = ShardWriter([shard], INSERT_SETTINGS, clock, retry_for_s=5, timeout_s=20, margin_s=30)
    writer.insert(0, table.canonical, decoded.batch, f"range:{piece}", clock.now_ms() + 60_000)


def alter(client: ClickHouseClient, name: str, what: str) -> None:
    client.command(f"ALTER TABLE client_test.{name} {what}", {"mutations_sync": 2, "alter_sync": 2})


def rows(client: ClickHouseClient, name: str, columns: str = "id, n, e, text") -> list[tuple[object, ...]]:
    return client.query(f"SELECT {columns} FROM client_test.{name} ORDER BY id")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_under_way(client: ClickHouseClient, name: str, case: Case) -> None:
    table, decoder = described(client, name)
    send(client, table, decoder, "A")
    alter(client, name, case.alter)
    assert read_facts(client, [table.at])[table.at].definition != table.definition, (
        "the next batch reads the table again"
    )
    if case.lost:
        with pytest.raises(AlteredError, match=rf"CHS-233.*: {case.lost}\n") as refused:
            send(client, table, decoder, "B")
        assert refused.value.name == "COLUMNS_ALTERED"
        assert [row[0] for row in rows(client, name, "id")] == [1, 2]
    else:
        send(client, table, decoder, "B")
        assert rows(client, name) == ROWS


@pytest.mark.parametrize("blocks", [1, 0])
def test_a_window_that_was_lowered(client: ClickHouseClient, name: str, blocks: int) -> None:
    """⚑ ClickHouse drops tokens at once, also those of few blocks ago: A, whose answer was lost, would land twice."""
    table, decoder = described(client, name)
    send(client, table, decoder, "A")
    send(client, table, decoder, "B")
    kind = "" if table.replicated else "non_"
    alter(client, name, f"MODIFY SETTING {kind}replicated_deduplication_window = {blocks}")
    with pytest.raises(UnavailableError, match=f"CHS-707.*lowered from 100 to {blocks} blocks"):
        send(client, table, decoder, "A")
    assert rows(client, name) == ROWS


@pytest.mark.parametrize("case", CASES, ids=str)
def test_replayed(client: ClickHouseClient, name: str, case: Case) -> None:
    table, decoder = described(client, name)
    recorded = printed(decoder)
    send(client, table, decoder, "A")
    alter(client, name, case.alter)
    table, decoder = described(client, name)
    if case.undo:
        assert changed_parts(recorded, printed(as_announced(decoder, recorded))) == ["columns"], "CHS-309 halts the job"
        alter(client, name, case.undo)
        table, decoder = described(client, name)
    decoder = as_announced(decoder, recorded)
    assert printed(decoder) == recorded
    table = replace(table, columns=tuple(c for c in table.columns if c.name in decoder.filled))
    for piece in "AB":
        send(client, table, decoder, piece)
    landed = rows(client, name)
    kept = [at for at in range(4) if "n" not in case.alter.split() or "DROP" not in case.alter or at > 1]
    assert len(landed) == 4, "none is doubled"
    assert [landed[at] for at in kept] == [ROWS[at] for at in kept]
