"""What a probe may conclude from a table, on the engine: rows, offsets, and views that may have received less."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from chsink.batch.confirm import confirm
from chsink.batch.model import Ack
from chsink.batch.reader import ReadPlan, Span
from chsink.batch.task import run_task
from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.clickhouse.dedup_mark import look, why_altered
from chsink.clickhouse.feeds import filled_by_views
from chsink.clickhouse.mutations import ANY, deleting, mutations
from chsink.clickhouse.pieces import Piece, PieceLander, Prepared
from chsink.clickhouse.probe import inserted_after, rows_by_offset
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.table import read_table
from chsink.clickhouse.writer import ShardWriter
from chsink.clock import SystemClock
from chsink.driver.roles import Assignment
from chsink.errors import ChsinkError, HaltError, UnavailableError
from chsink.notation.sql import TableName
from chsink.statemachine.parts import Mark, Sending, TopicLife, Unsettled
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.support.job import eventually

TP = TopicPartition("t", 0)
RANGE = OffsetRange(10, 20)
LATER_MS = 10**15


@pytest.fixture
def target(client: ClickHouseClient, create: Callable[[str], None]) -> Iterator[str]:
    """A table with the columns to probe, and a view that fails while ``switch`` has rows."""
    name = f"client_test.p_{uuid.uuid4().hex}"
    for sql in (
        (
            f"CREATE TABLE {name} (_kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64) "
            "ENGINE = MergeTree ORDER BY _kafka_offset SETTINGS non_replicated_deduplication_window = 100"
        ),
        f"CREATE TABLE {name}_switch (n UInt8) ENGINE = MergeTree ORDER BY n",
        (
            f"CREATE TABLE {name}_copy (o UInt64) ENGINE = MergeTree ORDER BY o "
            "SETTINGS non_replicated_deduplication_window = 100"
        ),
    ):
        create(sql)
    yield name
    for table in (f"{name}_view", f"{name}_copy", f"{name}_switch", f"{name}_elsewhere", name):
        client.command(f"DROP TABLE IF EXISTS {table} SYNC")


def make_view(client: ClickHouseClient, target: str, to: str = "copy") -> None:
    client.command(
        f"CREATE MATERIALIZED VIEW {target}_view TO {target}_{to} AS SELECT _kafka_offset AS o FROM {target} "
        f"WHERE throwIf((SELECT count() FROM {target}_switch) > 0) = 0"
    )


class SameTopic:
    """Kafka, where nothing was recreated."""

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        return dict.fromkeys(topics, "id")


def land(
    client: ClickHouseClient, target: str, *offsets: int, probe: bool, since: Mark | None = None, patience: int = 30
) -> Ack:
    """One task of a range, through the production writer.  It is sent again if it was announced ``since`` then."""
    described = read_table(client, *target.split("."))
    record = StateRecord(
        Phase.BEFORE,
        1,
        "a",
        RANGE.start,
        RANGE.end,
        life=TopicLife("id"),
        sent=Sending(5),
        doubt=Unsettled(probe=probe),
    )
    record = replace(record, seen=replace(record.seen, marks=(since or mark_of(client, target),)))
    assignment = Assignment(
        StateKey("sink", TP.topic, 0, target), record, "", LATER_MS, again=since is not None, alone=True
    )

    def prepare(records: pa.RecordBatch, _: Assignment) -> Prepared:
        names = {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}
        return Prepared((Piece(0, records.rename_columns(names)),))

    shard = InsertShard(client, described, record.seen.marks[0])
    writer = ShardWriter([shard], {}, SystemClock(), retry_for_s=patience if since else 0, timeout_s=30, margin_s=30)
    lander = PieceLander({TP: assignment}, prepare, lambda _: writer, SameTopic())
    records = pa.record_batch(
        {"topic": ["t"] * len(offsets), "partition": pa.array([0] * len(offsets), pa.int32()), "offset": list(offsets)}
    )
    ack = run_task(0, iter([records]), ReadPlan({TP: RANGE}, {TP: Span(RANGE, 5)}, 10**6), lander)
    for error in confirm([ack], [assignment]).values():
        raise error
    return ack


def mark_of(client: ClickHouseClient, target: str) -> Mark:
    """What the table holds now."""
    return look(client, read_table(client, *target.split("."))).mark


def held(client: ClickHouseClient, table: str, column: str) -> list[int]:
    return [int(row[0]) for row in client.query(f"SELECT {column} FROM {table} ORDER BY {column}")]


def test_a_table_that_is_complete_does_not_prove_its_view(client: ClickHouseClient, target: str) -> None:
    """The view throws after the table has the rows.  Once the tokens are doubted, the rows' presence proves nothing."""
    make_view(client, target)
    client.command(f"INSERT INTO {target}_switch VALUES (1)")
    with pytest.raises(HaltError, match="CHS-315"):
        land(client, target, *range(10, 15), probe=False)
    client.command(f"TRUNCATE TABLE {target}_switch SYNC")
    assert (held(client, target, "_kafka_offset"), held(client, f"{target}_copy", "o")) == ([*range(10, 15)], [])
    with pytest.raises(HaltError, match=rf"CHS-317.* t-0 \[10, 20\), .*: {target}_view"):
        land(client, target, *range(10, 20), probe=True)
    assert held(client, target, "_kafka_offset") == [*range(10, 20)], "the piece that was not there is sent"
    assert held(client, f"{target}_copy", "o") == [*range(15, 20)], "and its view received it"


def test_without_a_view_a_complete_piece_is_done(client: ClickHouseClient, target: str) -> None:
    land(client, target, *range(10, 15), probe=False)
    assert land(client, target, *range(10, 20), probe=True).chunks[1].rows == 5
    assert held(client, target, "_kafka_offset") == [*range(10, 20)]


def test_records_that_compaction_removed_since_stop_nothing(client: ClickHouseClient, target: str) -> None:
    """The table holds five rows of a piece that now has three, all of them among the five."""
    land(client, target, *range(10, 15), probe=False)
    assert land(client, target, 10, 13, 14, 17, probe=True).error is None
    assert held(client, target, "_kafka_offset") == [*range(10, 15), 17]


def test_a_piece_of_which_a_part_is_there_halts(client: ClickHouseClient, target: str) -> None:
    land(client, target, 10, 12, probe=False)
    with pytest.raises(HaltError, match="CHS-314.* holds 2 of the piece's 3 rows"):
        land(client, target, 10, 12, 13, probe=True)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {target} WHERE _kafka_offset = 12",
        "ALTER TABLE {target} DELETE WHERE _kafka_offset = 12 SETTINGS mutations_sync = 1",
        "ALTER TABLE {target} DELETE WHERE _kafka_offset = 12 SETTINGS mutations_sync = 0",
        "ALTER TABLE {target} DELETE IN PARTITION tuple() WHERE _kafka_offset < 20 SETTINGS mutations_sync = 1",
    ],
)
def test_rows_that_a_person_deleted_are_missed(client: ClickHouseClient, target: str, statement: str) -> None:
    """⚑ The table remembers their token and drops the piece.  Without ``mutations_sync``, it still has them for a moment."""
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    client.command(statement.format(target=target))
    with pytest.raises(HaltError, match=r"CHS-314.* \[10, 15\): .* dropped a piece of 5 rows as a duplicate"):
        land(client, target, *range(10, 20), probe=False, since=announced)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {target} WHERE _kafka_offset = 12 SETTINGS lightweight_deletes_sync = 0",
        "ALTER TABLE {target} DELETE WHERE _kafka_offset = 12 SETTINGS mutations_sync = 0",
    ],
)
def test_a_delete_under_way_is_waited_for(client: ClickHouseClient, target: str, statement: str) -> None:
    """⚑ Its rows can still be read, and would count as kept."""
    land(client, target, *range(10, 15), probe=False)
    table = read_table(client, *target.split("."))
    client.command(f"SYSTEM STOP MERGES {target}")
    client.command(statement.format(target=target))
    assert (len(deleting(client, table, ANY)), len(held(client, target, "_kafka_offset"))) == (1, 5)
    client.command(f"SYSTEM START MERGES {target}")
    eventually("the rows are gone", lambda: not deleting(client, table, ANY))
    assert held(client, target, "_kafka_offset") == [10, 11, 13, 14]


@pytest.mark.parametrize("merged", [False, True])
def test_rows_that_a_stopped_delete_removed_are_missed(client: ClickHouseClient, target: str, merged: bool) -> None:
    """⚑ It rewrote the first part and failed on the second.  KILL MUTATION removes it from the list.  On a Replicated
    table, the other replica may not have taken the part over yet.
    """
    announced, name = mark_of(client, target), {"name": target.split(".")[1]}
    land(client, target, *range(10, 20), probe=False)
    client.command(
        f"ALTER TABLE {target} DELETE WHERE _kafka_offset = 12 OR throwIf(_kafka_offset >= 15) SETTINGS mutations_sync = 0"
    )
    eventually("one of the two parts is rewritten", lambda: 12 not in held(client, target, "_kafka_offset"))
    client.query("KILL MUTATION WHERE table = {name:String}", name)
    if merged:
        client.command(f"INSERT INTO {target} VALUES ('t', 0, 1)")
        client.command(f"OPTIMIZE TABLE {target} FINAL")
    assert client.query("SELECT count() FROM system.mutations WHERE table = {name:String}", name) == [(0,)]
    with pytest.raises(
        HaltError, match=r"CHS-314.* \[10, 15\): .* dropped a piece of 5 rows as a duplicate, but shows 4"
    ):
        land(client, target, *range(10, 20), probe=False, since=announced)


@pytest.mark.parametrize("removes", [True, False])
def test_a_delete_that_fails_each_time_can_be_stopped_as_its_error_says(
    client: ClickHouseClient, target: str, removes: bool
) -> None:
    """⚑ CHS-710 said only that it runs, for ever.  What it has removed by then is missed: nothing is lost."""
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    failing = "_kafka_offset = 12 OR throwIf(_kafka_offset >= 15)" if removes else "throwIf(_kafka_offset >= 10)"
    client.command(f"ALTER TABLE {target} DELETE WHERE {failing} SETTINGS mutations_sync = 0")
    eventually("what it can remove", lambda: not removes or 12 not in held(client, target, "_kafka_offset"))
    table = read_table(client, *target.split("."))
    eventually("its failure", lambda: any(one.reason for one in deleting(client, table, ANY)))
    with pytest.raises(UnavailableError, match=r"CHS-710.*fails each time \(mutation [\w.]+: Code: 395") as stopped:
        land(client, target, *range(10, 20), probe=False, since=announced, patience=0)

    [statement] = re.findall(r"cancel it with `([^`]+)` at (\S+) ", stopped.value.hint)
    with closing(ClickHouseClient(Connection((statement[1],)))) as there:
        there.command(statement[0])

    if removes:
        with pytest.raises(HaltError, match=r"CHS-314.* \[10, 15\): .* piece of 5 rows as a duplicate, but shows 4"):
            land(client, target, *range(10, 20), probe=False, since=announced)
    else:
        land(client, target, *range(10, 20), probe=False, since=announced)
        assert held(client, target, "_kafka_offset") == [*range(10, 20)]


@pytest.mark.parametrize("merged", [False, True])
def test_rows_that_a_patch_deleted_are_missed(client: ClickHouseClient, target: str, merged: bool) -> None:
    """⚑ ClickHouse does not list it."""
    client.command(
        f"ALTER TABLE {target} MODIFY SETTING enable_block_number_column = 1, enable_block_offset_column = 1"
    )
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    client.command(
        f"DELETE FROM {target} WHERE _kafka_offset = 12 SETTINGS lightweight_delete_mode = 'lightweight_update_force'"
    )
    if merged:
        client.command(f"OPTIMIZE TABLE {target} FINAL")
    assert mutations(client, read_table(client, *target.split("."))).deletes == 0
    with pytest.raises(
        HaltError, match=r"CHS-314.* \[10, 15\): .* dropped a piece of 5 rows as a duplicate, but shows 4"
    ):
        land(client, target, *range(10, 20), probe=False, since=announced)


def test_rows_that_were_moved_away_are_missed(client: ClickHouseClient, target: str) -> None:
    """⚑ Empty parts are left, and the tokens until these are removed."""
    client.command(f"ALTER TABLE {target} MODIFY SETTING remove_empty_parts = 0")
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    client.command(f"CREATE TABLE {target}_elsewhere AS {target}")
    client.command(f"ALTER TABLE {target} MOVE PARTITION tuple() TO TABLE {target}_elsewhere")
    with pytest.raises(
        HaltError, match=r"CHS-314.* \[10, 15\): .* dropped a piece of 5 rows as a duplicate, but shows 0"
    ):
        land(client, target, *range(10, 20), probe=False, since=announced)


@pytest.mark.parametrize("statement", ["ALTER TABLE {target} DROP PARTITION tuple()", "TRUNCATE TABLE {target}"])
def test_dropped_parts_take_their_tokens_along(client: ClickHouseClient, target: str, statement: str) -> None:
    """So nobody needs to look: a piece that is sent again lands."""
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    client.command(statement.format(target=target))
    land(client, target, *range(10, 20), probe=False, since=announced)
    assert held(client, target, "_kafka_offset") == [*range(10, 20)]


@pytest.mark.parametrize("merged", [False, True])
def test_rows_that_were_detached_and_attached_are_not_landed_twice_unnoticed(
    client: ClickHouseClient, target: str, merged: bool
) -> None:
    """⚑ The table forgets their tokens."""
    client.command(f"INSERT INTO {target} VALUES ('t', 0, 1)")
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    if merged:
        client.command(f"OPTIMIZE TABLE {target} FINAL")
    client.command(f"ALTER TABLE {target} DETACH PARTITION tuple()")
    client.command(f"ALTER TABLE {target} ATTACH PARTITION tuple()")
    with pytest.raises(HaltError, match=r"CHS-314.* 5 rows was sent again, .* now holds 10 rows"):
        land(client, target, *range(10, 20), probe=False, since=announced)
    assert held(client, target, "_kafka_offset") == sorted([1, *range(10, 20), *range(10, 15)])


def test_rows_that_were_replaced_are_missed(client: ClickHouseClient, target: str) -> None:
    """⚑ REPLACE PARTITION takes the rows away and leaves the tokens, and no trace of itself."""
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    client.command(f"CREATE TABLE {target}_elsewhere AS {target}")
    client.command(f"INSERT INTO {target}_elsewhere VALUES ('t', 0, 1)")
    client.command(f"ALTER TABLE {target} REPLACE PARTITION tuple() FROM {target}_elsewhere")
    with pytest.raises(HaltError, match=r"CHS-314.* \[10, 15\): .* dropped a piece of 5 rows as a duplicate"):
        land(client, target, *range(10, 20), probe=False, since=announced)


@pytest.mark.parametrize("fed", [True, False])
def test_what_the_table_has_is_sent_again_to_feed_its_view(client: ClickHouseClient, target: str, fed: bool) -> None:
    """The table drops it as a duplicate, and so does a view that has it."""
    make_view(client, target)
    announced = mark_of(client, target)
    if not fed:
        client.command(f"INSERT INTO {target}_switch VALUES (1)")
        with pytest.raises(HaltError, match="CHS-315"):
            land(client, target, *range(10, 15), probe=False)
        client.command(f"TRUNCATE TABLE {target}_switch SYNC")
    else:
        land(client, target, *range(10, 20), probe=False)
    assert land(client, target, *range(10, 20), probe=False, since=announced).error is None
    assert held(client, target, "_kafka_offset") == held(client, f"{target}_copy", "o") == [*range(10, 20)]


@pytest.mark.soak
@pytest.mark.parametrize(
    "by", ["tuple()", "_kafka_offset % 3", "toString(_kafka_offset)", "(_kafka_topic, _kafka_offset)"]
)
def test_only_parts_with_later_blocks_are_read(client: ClickHouseClient, by: str) -> None:
    """However the table is partitioned; merged and rewritten parts with later blocks count, too."""
    name = f"client_test.p_{uuid.uuid4().hex}"
    client.command(
        f"CREATE TABLE {name} (_kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64) "
        f"ENGINE = MergeTree PARTITION BY {by} ORDER BY _kafka_offset SETTINGS non_replicated_deduplication_window = 100"
    )
    client.command(f"SYSTEM STOP MERGES {name}")
    table = read_table(client, *name.split("."))

    def there(after: int) -> dict[int, int]:
        return rows_by_offset(client, name, TP, OffsetRange(0, 100), inserted_after(after))

    for offset in (1, 2, 3, 4):
        client.command(f"INSERT INTO {name} VALUES ('t', 0, {offset})")
    between = look(client, table).mark.blocks
    assert there(between) == {}
    for offset in (7, 8):
        client.command(f"INSERT INTO {name} VALUES ('t', 0, {offset})")
    assert there(between) == {7: 1, 8: 1}
    client.command(f"SYSTEM START MERGES {name}")
    client.command(f"DELETE FROM {name} WHERE _kafka_offset = 8")
    client.command(f"ALTER TABLE {name} DELETE WHERE _kafka_offset = 2 SETTINGS mutations_sync = 1")
    client.command(f"OPTIMIZE TABLE {name} FINAL")
    assert there(between)[7] == 1 and not there(0).keys() & {2, 8}
    sql = f"EXPLAIN ESTIMATE SELECT _kafka_offset FROM {name} WHERE _kafka_offset > 0 {inserted_after(between)}"
    parts = client.query(
        f"SELECT countIf(max_block_number > {between}) FROM system.parts WHERE active AND rows > 0 AND table = '{table.name}'"
    )
    assert client.query(sql)[0][2] == parts[0][0]
    client.command(f"DROP TABLE {name} SYNC")


@pytest.mark.parametrize("old", [True, False])
def test_other_rows_may_be_deleted(
    client: ClickHouseClient, target: str, old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits for a DELETE that was sent before the range was announced.  While merges are stopped, none finishes."""
    waits: list[float] = []

    def wait(_: SystemClock, seconds: float) -> None:
        waits.append(seconds)
        client.command(f"SYSTEM START MERGES {target}")
        eventually("end of the DELETE", lambda: not deleting(client, table, ANY))

    monkeypatch.setattr(SystemClock, "sleep", wait)
    client.command(f"INSERT INTO {target} VALUES ('t', 0, 1)")
    client.command(f"SYSTEM STOP MERGES {target}")
    delete = f"ALTER TABLE {target} DELETE WHERE _kafka_offset < 10 SETTINGS mutations_sync = 0"
    if old:
        client.command(delete)
        client.command(f"INSERT INTO {target} VALUES ('t', 0, 2)")
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    if not old:
        client.command(delete)
    table = read_table(client, *target.split("."))
    assert (mutations(client, table).deletes, len(deleting(client, table, announced.blocks))) == (1, int(not old))
    assert land(client, target, *range(10, 20), probe=False, since=announced).error is None
    assert (waits, len(deleting(client, table, ANY))) == (([], 1) if old else ([1], 0)), (
        "only a later one is waited for"
    )


@pytest.mark.parametrize(
    ("how", "further"),
    [
        ("ORDER BY o SETTINGS non_replicated_deduplication_window = 5", 5),
        ("PARTITION BY o ORDER BY o SETTINGS non_replicated_deduplication_window = 40", 8),
    ],
)
def test_a_view_that_forgets_sooner_than_its_table(
    client: ClickHouseClient, create: Callable[[str], None], target: str, how: str, further: int
) -> None:
    """⚑ The table dropped the piece that was sent again, and its view counted the rows twice."""
    create(f"CREATE TABLE {target}_elsewhere (o UInt64) ENGINE = MergeTree {how}")
    make_view(client, target, "elsewhere")
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    for number in range(further):
        rows = ", ".join(f"('x', {number}, {n})" for n in range(5))
        client.command(f"INSERT INTO {target} VALUES {rows}")
    with pytest.raises(ChsinkError, match=rf"CHS-707.* the deduplication window of {target}_elsewhere holds"):
        land(client, target, *range(10, 20), probe=False, since=announced)
    assert [held(client, f"{target}_elsewhere", "o").count(o) for o in range(10, 20)] == [1] * 10


@pytest.mark.soak
@pytest.mark.parametrize("change", ["dropped", "pointed elsewhere"])
def test_a_view_that_goes_while_a_range_is_in_doubt(client: ClickHouseClient, target: str, change: str) -> None:
    """⚑ Blocks of the tables that views fill are counted together.  One of them had forgotten the piece, the other one's
    count went with its view: the sum had not grown, and the first view's rows were there twice.
    """
    make_view(client, target)
    other, kept = (
        f"{target}_elsewhere",
        "ENGINE = MergeTree ORDER BY o SETTINGS non_replicated_deduplication_window = 100",
    )
    client.command(f"CREATE TABLE {other} (o UInt64) {kept}")
    view = f"CREATE MATERIALIZED VIEW {target}_second TO {{}} AS SELECT _kafka_offset AS o FROM {target}"
    client.command(view.format(other))
    try:
        for number in range(50):
            client.command(f"INSERT INTO {other} VALUES ({1000 + number})")
        announced = mark_of(client, target)
        land(client, target, *range(10, 20), probe=False)
        for number in range(110):
            client.command(f"INSERT INTO {target}_copy VALUES ({1000 + number})")
        client.command(f"DROP VIEW {target}_second SYNC")
        if change == "pointed elsewhere":
            client.command(f"CREATE TABLE {target}_third (o UInt64) {kept}")
            client.command(view.format(f"{target}_third"))
        with pytest.raises(UnavailableError, match=r"CHS-707.* views, or the tables that they fill, have changed"):
            land(client, target, *range(10, 20), probe=False, since=announced)
        assert [held(client, f"{target}_copy", "o").count(o) for o in range(10, 20)] == [1] * 10
    finally:
        for table in ("second", "third"):
            client.command(f"DROP TABLE IF EXISTS {target}_{table} SYNC")


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE {t}_view MODIFY COMMENT 'c'", "RENAME TABLE {t}_view TO {t}_second", "DROP VIEW {t}_view SYNC"],
)
def test_a_view_whose_blocks_have_other_tokens_now(client: ClickHouseClient, target: str, change: str) -> None:
    """⚑ What it fills got the piece under the view's name; the altered view gives its blocks the token of its UUID."""
    make_view(client, target)
    announced = mark_of(client, target)
    land(client, target, *range(10, 20), probe=False)
    client.command(change.format(t=target))
    if change.startswith("DROP"):
        copy = f"AS SELECT _kafka_offset AS o FROM {target}"
        client.command(f"CREATE MATERIALIZED VIEW {target}_second TO {target}_copy {copy}")
    try:
        with pytest.raises(UnavailableError, match=r"CHS-707.* views, or the tables that they fill, have changed"):
            land(client, target, *range(10, 20), probe=False, since=announced)
        assert sorted(held(client, f"{target}_copy", "o")) == [*range(10, 20)]
    finally:
        client.command(f"DROP TABLE IF EXISTS {target}_second SYNC")


def test_what_an_insert_fills(client: ClickHouseClient, target: str) -> None:
    """The targets of its views and of theirs, as far as they deduplicate; a view that comes or goes is an alteration."""
    before = read_table(client, *target.split("."))
    make_view(client, target)
    kept = "SETTINGS non_replicated_deduplication_window = 9"
    for name, engine, source in (
        ("elsewhere", f"SummingMergeTree ORDER BY o {kept}", f"{target}_copy"),
        ("not", "Memory", target),
        ("zero", "MergeTree ORDER BY o", target),
    ):
        client.command(
            f"CREATE MATERIALIZED VIEW {target}_{name} ENGINE = {engine} AS "
            f"SELECT {'o' if 'copy' in source else '_kafka_offset AS o'} FROM {source}"
        )
    try:
        after = read_table(client, *target.split("."))
        [inner, copy] = sorted(after.feeds, key=lambda t: t.window_blocks)
        assert (inner.engine, inner.window_blocks, copy.canonical) == ("SummingMergeTree", 9, f"{target}_copy")
        assert before.feeds == () and look(client, before).altered and not look(client, after).altered
        client.command(f"INSERT INTO {target} VALUES ('t', 0, 1)")
        assert look(client, after).mark.fed == 2
        client.command(f"ALTER TABLE {target}_copy MODIFY SETTING non_replicated_deduplication_window = 50")
        assert look(client, after).altered and "_copy was lowered from 100 to 50" in str(why_altered(client, after))
    finally:
        for name in ("elsewhere", "not", "zero"):
            client.command(f"DROP TABLE {target}_{name} SYNC")


class Wordy:
    """A server whose profile shows UUIDs in CREATE statements."""

    def __init__(self, client: ClickHouseClient) -> None:
        self.client, self.url = client, client.url

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return self.client.query(f"{sql} SETTINGS show_table_uuid_in_table_create_query_if_not_nil = 1", parameters)


def test_what_a_view_fills_is_found_however_the_server_shows_it(client: ClickHouseClient, target: str) -> None:
    """⚑ Of a table that is not found, nobody notices that it forgot a piece."""
    make_view(client, target)
    at, fed = TableName(*target.split(".")), TableName(*f"{target}_copy".split("."))
    [[shown]] = Wordy(client).query(f"SELECT create_table_query FROM system.tables WHERE name = '{at.table}_view'")
    assert " UUID '" in shown and filled_by_views(Wordy(client), [at]) == {
        at: {TableName(at.database, f"{at.table}_view"): fed}
    }


def test_what_a_view_fills_is_found_in_a_database_without_uuids(client: ClickHouseClient) -> None:
    """⚑ The inner table has the view's name there."""
    kept = "ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 9"
    client.command("CREATE DATABASE old_style ENGINE = Ordinary", {"allow_deprecated_database_ordinary": 1})
    try:
        client.command(f"CREATE TABLE old_style.t (a UInt64) {kept}")
        client.command(f"CREATE MATERIALIZED VIEW old_style.v {kept} AS SELECT a FROM old_style.t")
        assert [t.canonical for t in read_table(client, "old_style", "t").feeds] == ["old_style.`.inner.v`"]
    finally:
        client.command("DROP DATABASE old_style")
