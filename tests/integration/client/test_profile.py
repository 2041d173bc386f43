"""What a user's profile sets does not change which rows an insert stores, nor which rows a probe finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.clickhouse.dedup_mark import look
from chsink.clickhouse.probe import rows_by_offset
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.table import read_table
from chsink.clickhouse.window import check_window
from chsink.clickhouse.writer import ShardWriter
from chsink.clock import SystemClock
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.errors import HaltError, PreflightError, UnavailableError
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.support.profiles import users_of

PROFILE = {
    "materialized_views_ignore_errors": 1,
    "ignore_materialized_views_with_dropped_target_table": 1,
    "additional_table_filters": "{'d.t': '_kafka_offset = 1', 'd.copy': 'o = 1'}",
    "async_insert": 1,
    "wait_for_async_insert": 0,
}
BLOCKS = {"max_block_size": 2}
DROPPING: Mapping[str, Mapping[str, object]] = {
    "filter": {"additional_result_filter": "rowNumberInAllBlocks() = 0"},
    "final": {"final": 1},
    "join": {"max_rows_in_join": 2, "join_overflow_mode": "break", **BLOCKS},
    "leaf": {"max_rows_to_read_leaf": 2, "read_overflow_mode_leaf": "break", **BLOCKS},
    "read": {"max_rows_to_read": 2, "read_overflow_mode": "break", **BLOCKS},
    "set": {"max_rows_in_set": 2, "set_overflow_mode": "break", **BLOCKS},
    "errors": {"input_format_allow_errors_num": 10, "input_format_allow_errors_ratio": 1},
}
"""Users who have these profiles."""
TP, RANGE = TopicPartition("t", 0), OffsetRange(0, 9)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseClient]:
    path: Path = tmp_path_factory.mktemp("profile")
    with EmbeddedClickHouse(path, users_xml=users_of({"default": PROFILE, **DROPPING})) as server:
        client = ClickHouseClient(Connection((server.url,)))
        client.command("CREATE DATABASE d")
        yield client
        client.close()


@pytest.fixture(params=DROPPING)
def sender(client: ClickHouseClient, request: pytest.FixtureRequest) -> Iterator[ClickHouseClient]:
    """The same server, by a user of whom a profile lets an insert succeed with fewer rows."""
    sender = ClickHouseClient(Connection((client.url,), request.param))
    yield sender
    sender.close()


@pytest.fixture
def target(client: ClickHouseClient) -> Iterator[str]:
    """A table, and a view that fails at offset 7."""
    client.command(
        "CREATE TABLE d.t (_kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64) "
        "ENGINE = MergeTree ORDER BY _kafka_offset SETTINGS non_replicated_deduplication_window = 100"
    )
    client.command("CREATE TABLE d.copy (o UInt64) ENGINE = MergeTree ORDER BY o")
    client.command(
        "CREATE MATERIALIZED VIEW d.view TO d.copy AS SELECT _kafka_offset + throwIf(_kafka_offset = 7) AS o FROM d.t"
    )
    yield "d.t"
    for name in ("view", "copy", "t"):
        client.command(f"DROP TABLE d.{name} SYNC")


def insert(client: ClickHouseClient, *offsets: int, sender: ClickHouseClient | None = None) -> None:
    rows = {"_kafka_topic": ["t"] * len(offsets), "_kafka_partition": [0] * len(offsets), "_kafka_offset": offsets}
    columns = [("_kafka_topic", pa.string()), ("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64())]
    send(client, pa.RecordBatch.from_pydict(rows, pa.schema(columns)), sender or client)


def send(client: ClickHouseClient, piece: pa.RecordBatch, sender: ClickHouseClient) -> None:
    table = read_table(client, "d", "t")
    writer = ShardWriter([InsertShard(sender, table, look(client, table).mark)], {}, SystemClock(), 0, 30, 30)
    writer.insert(0, "d.t", piece, f"token {piece.column('_kafka_offset')}", SystemClock().now_ms() + 10**6)


def count(client: ClickHouseClient, table: str) -> int:
    sql = f"SELECT count() AS o FROM {table} SETTINGS additional_table_filters = {{}}"
    return int(client.query(sql)[0][0])


def test_every_row_reaches_the_view(client: ClickHouseClient, target: str) -> None:
    """⚑ Rows that the profile hides were left out of the view, and the insert answered with success."""
    insert(client, 0, 1, 2, 3)
    assert (count(client, target), count(client, "d.copy")) == (4, 4)


@pytest.mark.parametrize("condition", ["WHERE _kafka_offset IN (SELECT x FROM d.known)", "JOIN d.known ON x = o"])
def test_a_view_gets_every_row_or_the_insert_fails(
    client: ClickHouseClient, target: str, sender: ClickHouseClient, condition: str
) -> None:
    """⚑ The view got none of the rows, or one, and the insert answered with success."""
    client.command(
        "CREATE OR REPLACE TABLE d.known (x UInt64) ENGINE = ReplacingMergeTree ORDER BY tuple() "
        "SETTINGS index_granularity = 8"
    )
    client.command("INSERT INTO d.known SELECT 3000 - number FROM numbers(3001) SETTINGS optimize_on_insert = 0")
    client.command(f"ALTER TABLE d.view MODIFY QUERY SELECT _kafka_offset AS o FROM d.t {condition}")
    with suppress(HaltError):
        insert(client, 0, 1, 2, 3, sender=sender)
        assert count(client, target) == count(client, "d.copy") == 4
        return
    assert count(client, "d.copy") == 0


def test_a_row_that_the_table_cannot_hold_fails_the_insert(
    client: ClickHouseClient, target: str, sender: ClickHouseClient
) -> None:
    client.command("ALTER TABLE d.t ADD COLUMN small Enum8('a' = 1)")
    piece = pa.RecordBatch.from_pydict({"_kafka_offset": pa.array([1, 2], pa.int64()), "small": ["a", "b"]})
    with pytest.raises(HaltError, match="CHS-315"):
        send(client, piece, sender)
    assert count(client, target) == 0


def test_a_view_that_fails_fails_the_insert(client: ClickHouseClient, target: str) -> None:
    """⚑ ``materialized_views_ignore_errors``: the view lacked the block, and the insert answered with success."""
    with pytest.raises(HaltError, match="CHS-315"):
        insert(client, 6, 7, 8)
    assert count(client, "d.copy") == 0


def test_a_view_whose_table_is_gone_fails_the_insert(client: ClickHouseClient, target: str) -> None:
    """⚑ Whoever creates the view's table again has it without the rows that came in between: the insert succeeded."""
    client.command("DROP TABLE d.copy SYNC")
    try:
        with pytest.raises(HaltError, match="CHS-315"):
            insert(client, 0, 1)
        assert count(client, target) == 0
    finally:
        client.command("CREATE TABLE d.copy (o UInt64) ENGINE = MergeTree ORDER BY o")


def test_a_probe_finds_every_row(client: ClickHouseClient, target: str) -> None:
    """⚑ Rows that a probe does not find are inserted again."""
    insert(client, 0, 1, 2, 3)
    assert rows_by_offset(client, target, TP, RANGE) == dict.fromkeys(range(4), 1)


def test_a_table_that_queues_its_inserts_is_refused(client: ClickHouseClient, target: str) -> None:
    """⚑ ClickHouse takes the inserts of such a table for asynchronous ones, whatever they say.  The message's statement
    mends it.
    """
    client.command("ALTER TABLE d.t MODIFY SETTING async_insert = 1")
    with pytest.raises(PreflightError, match="CHS-267") as refused:
        check_window(read_table(client, "d", "t"), client.url)
    client.command(refused.value.hint.split("run ")[1].split(";")[0])
    check_window(read_table(client, "d", "t"), client.url)


def test_a_piece_is_not_sent_to_a_table_that_was_set_to_queue(client: ClickHouseClient, target: str) -> None:
    table = read_table(client, "d", "t")
    shard = InsertShard(client, table, look(client, table).mark)
    client.command("ALTER TABLE d.t MODIFY SETTING async_insert = 1")
    piece = pa.RecordBatch.from_pydict({"_kafka_offset": pa.array([1], pa.int64())})
    with pytest.raises(UnavailableError, match=r"CHS-707.* async_insert = 1"):
        ShardWriter([shard], {}, SystemClock(), 0, 30, 30).insert(
            0, "d.t", piece, "token", SystemClock().now_ms() + 10**6
        )
    assert count(client, target) == 0
