"""Whether a table still remembers a token, from what it held then and holds now."""

from __future__ import annotations

import pytest

from chsink.clickhouse.dedup_mark import read_mark, usable_blocks, why_forgotten
from chsink.errors import AlteredError
from chsink.ports import Unanswered
from chsink.statemachine.records import Mark
from tests.unit.clickhouse.server import MARK, Server, StoppedClock, table

START = MARK.started_s


@pytest.mark.parametrize(
    ("engine", "now", "why"),
    [
        ("MergeTree", Mark(50, START), None),
        ("MergeTree", Mark(139, START), None),
        ("MergeTree", Mark(140, START), "90 blocks were inserted after"),
        ("ReplicatedMergeTree", Mark(140, START), "90 blocks were inserted after"),
        ("MergeTree", Mark(49, START), "emptied or restored"),
        ("MergeTree", Mark(50, START + 1), None),
        ("MergeTree", Mark(50, START + 2), "restarted"),
        ("MergeTree", Mark(50, START - 2), "restarted"),
        ("ReplicatedMergeTree", Mark(50, START + 2), None),
        ("SharedMergeTree", Mark(50, START + 2), None),
    ],
)
def test_why_forgotten(engine: str, now: Mark, why: str | None) -> None:
    found = why_forgotten(table(engine), MARK, now)
    assert found == why if why is None or found is None else why in found


def test_a_tenth_of_the_window_is_spare() -> None:
    assert usable_blocks(table()) == 90
    assert usable_blocks(table(merge_tree={"non_replicated_deduplication_window": "5"})) == 5


@pytest.mark.parametrize(
    ("engine", "asked"),
    [
        ("MergeTree", "max(max_block_number)) FROM system.parts"),
        ("ReplacingMergeTree", "max(max_block_number)) FROM system.parts"),
        ("ReplicatedMergeTree", "toInt64(log_max_index) FROM system.replicas"),
        ("SharedMergeTree", "GROUP BY partition_id"),
    ],
)
def test_each_engine_counts_blocks_in_its_own_way(engine: str, asked: str) -> None:
    server = Server(StoppedClock(), Mark(7, 8))
    assert read_mark(server, table(engine)) == Mark(7, 8)
    [(sql, parameters)] = server.asked
    assert asked in sql
    assert parameters == {"database": "db", "name": "t"}


def test_a_replica_without_its_keeper_tells_nothing() -> None:
    """Its counters read 0 then: that is no answer, not an emptied table."""
    server = Server(StoppedClock(), Mark(None, 8))  # type: ignore[arg-type]
    with pytest.raises(Unanswered, match="no session"):
        read_mark(server, table("ReplicatedMergeTree"))


def test_another_table_under_the_name_is_no_target() -> None:
    """⚑ EXCHANGE TABLES between BEFORE and a send: the rows would lie in two tables."""
    server = Server(StoppedClock(), identity="another")
    with pytest.raises(AlteredError, match="CHS-233"):
        read_mark(server, table())
