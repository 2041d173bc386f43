"""Whether a table still remembers a token, from what it held then and holds now."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from chsink.clickhouse.dedup_mark import (
    Slack,
    look,
    looks,
    most_chunks,
    usable_blocks,
    why_altered,
    why_forgotten,
    why_too_late,
)
from chsink.clickhouse.describe import AT_ONCE
from chsink.clickhouse.table import NOT_REPLICATED, WINDOW, TargetTable, computed_in, read_settings
from chsink.decode.columns import Column
from chsink.errors import AlteredError
from chsink.formats.pipeline import digest_of
from chsink.ports import Unanswered
from chsink.statemachine.parts import Mark
from tests.unit.clickhouse.server import MARK, Server, StoppedClock, table

START = MARK.since_s


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


@pytest.mark.parametrize(
    ("then", "now", "fed", "forgotten"),
    [
        (Mark(50, 10, at_s=100, uuids="one"), Mark(50, 10, uuids="one"), (), False),
        (Mark(50, 10, at_s=100, uuids="one"), Mark(50, 101, uuids="one"), (), False),
        (Mark(50, 10, at_s=100, uuids="one"), Mark(50, 90, uuids="another"), (), False),
        (
            Mark(50, 10, at_s=100, uuids="one"),
            Mark(60, 100, uuids="another"),
            (),
            True,
        ),  # the server tells whole seconds
        (Mark(50, 10, at_s=100, uuids="one"), Mark(60, 101, uuids="another"), (), True),
        (Mark(50, 10, at_s=100, uuids="one"), Mark(60, 101, uuids="another"), ("Replicated",), True),
        (Mark(50, 10, at_s=100, uuids="one"), Mark(60, 90, uuids="another"), ("Replicated",), False),
        (Mark(50, 10, at_s=100, uuids="one"), Mark(50, 10, uuids="another"), ("",), True),
    ],
)
def test_a_table_that_was_made_again_under_its_keeper_path(
    then: Mark, now: Mark, fed: tuple[str, ...], forgotten: bool
) -> None:
    """⚑ It remembers nothing.  Altered, or asked on another replica, it remembers all.  With a plain table that its
    views fill, another server's start says nothing of the range.
    """
    feeds = tuple(table(f"{kind}MergeTree", name="fed") for kind in fed)
    said = why_forgotten(table("ReplicatedMergeTree", feeds=feeds), then, now)
    assert (said is not None and "created again" in said) is forgotten


SMALL = table("MergeTree", name="fed", merge_tree={"non_replicated_deduplication_window": "40"})
KEPT = table("ReplicatedMergeTree", name="kept")


@pytest.mark.parametrize(
    ("engine", "feeds", "now", "why"),
    [
        ("MergeTree", (SMALL, KEPT), Mark(50, START, 35), None),
        (
            "MergeTree",
            (SMALL, KEPT),
            Mark(50, START, 36),
            r"36 blocks were inserted into the tables .* db.fed holds 40",
        ),
        ("MergeTree", (KEPT,), Mark(50, START, 36), None),
        ("MergeTree", (SMALL,), Mark(50, START, -1), "a table that its views fill was emptied"),
        ("MergeTree", (), Mark(50, START, -1), "a table that its views fill was emptied"),
        ("ReplicatedMergeTree", (KEPT,), Mark(50, START + 9), None),
        ("ReplicatedMergeTree", (KEPT, SMALL), Mark(50, START + 9), "restarted"),
    ],
)
def test_views_forget_too(engine: str, feeds: tuple[TargetTable, ...], now: Mark, why: str | None) -> None:
    """⚑ A view's target gets the blocks of other tables, too, and may remember less than the table."""
    found = why_forgotten(table(engine, feeds=feeds), MARK, now)
    assert found is None if why is None else found and re.search(why, found)


def test_a_round_is_as_small_as_the_tables_that_views_fill_demand() -> None:
    assert most_chunks(table()) == 45
    assert most_chunks(table(feeds=(KEPT,))) == 45
    assert most_chunks(table(feeds=(SMALL,))) == 18
    assert most_chunks(table(feeds=(SMALL, KEPT, KEPT))) == 6


@pytest.mark.parametrize(
    ("engine", "settings", "why"),
    [
        ("MergeTree", {}, None),
        ("MergeTree", {"non_replicated_deduplication_window": "101"}, "from 101 to 100 blocks"),
        ("MergeTree", {"non_replicated_deduplication_window": "99"}, None),
        ("ReplicatedMergeTree", {}, None),
        ("ReplicatedMergeTree", {"replicated_deduplication_window_seconds": "1001"}, "from 1001 to 1000 s"),
        ("ReplicatedMergeTree", {"replicated_deduplication_window_seconds": "999"}, None),
    ],
)
@pytest.mark.parametrize("fed", [False, True])
def test_a_window_that_was_lowered_has_forgotten_tokens(
    engine: str, settings: dict[str, str], why: str | None, fed: bool
) -> None:
    """⚑ ClickHouse drops them at once: of the table, or of one that its views fill."""
    before = table(engine, name="before", merge_tree={**table().merge_tree, **settings})
    server = Server(StoppedClock(), engine=engine)
    found = why_altered(server, table(feeds=(before,)) if fed else before)
    assert found is None if why is None else found == f"the deduplication window of db.before was lowered {why}"


@pytest.mark.parametrize("engine", ["MergeTree", "ReplicatedMergeTree"])
@pytest.mark.parametrize("fed", [False, True])
def test_a_window_that_was_raised_remembers_nothing_again(engine: str, fed: bool) -> None:
    """⚑ What fixes ask for while a range is in doubt: its token was forgotten, and would have been trusted."""

    def remembering(blocks: int, seconds: int) -> TargetTable:
        kept = {NOT_REPLICATED: str(blocks), WINDOW[0]: str(blocks), WINDOW[1]: str(seconds)}
        one = table(engine, name="one", merge_tree=kept)
        return table(engine, feeds=(one, table(engine, name="two"))) if fed else one

    server = Server(StoppedClock(), engine=engine)
    then = look(server, remembering(40, 500)).mark
    grown = [replace(then, blocks=then.blocks + n * (not fed), fed=then.fed + n * fed) for n in (35, 36)]
    for raised in (remembering(40, 500), remembering(10_000, 90_000)):
        assert [why_forgotten(raised, then, now) is None for now in grown] == [True, False]
        old = [replace(then, at_s=then.at_s + s) for s in (449, 450)]
        late = [why_too_late(raised, then, now, Slack(30, 20)) is not None for now in old]
        assert late == [False, engine != "MergeTree"]
    assert why_forgotten(remembering(20, 500), then, grown[0]), "one that was lowered counts as it is"


@pytest.mark.parametrize("engine", ["ReplicatedMergeTree", "MergeTree"])
def test_another_version_or_time_zone_may_not_find_the_tokens(engine: str) -> None:
    """⚑ Found by an adversary: ClickHouse 26.7 does not find what 25.8 kept in Keeper, and rows were there twice; so were
    those of a plain table whose user's profile had another session_timezone than before.
    """
    old, new = (
        look(Server(StoppedClock(), engine=engine, tokens=kind), table(engine)).mark for kind in ("", "unified")
    )
    assert why_forgotten(table(engine), old, old) is why_forgotten(table(engine), new, new) is None
    assert "after an upgrade of ClickHouse" in (why_forgotten(table(engine), old, new) or "")
    assert "time zone" in (why_forgotten(table(engine), new, old) or "")


DAY = (
    Column("at", "DateTime"),
    Column("day", "Date", "MATERIALIZED", "toDate(at)"),
    Column("n", "Int8", "DEFAULT", "1"),
)


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("key", "altered", "moves"),
    [
        ("day", Column("day", "Date", "MATERIALIZED", "toDate(at, 'UTC')"), True),
        ("toYYYYMM(`day`)", Column("day", "Date", "MATERIALIZED", "toDate(at, 'UTC')"), True),
        ("today", Column("day", "Date", "MATERIALIZED", "toDate(at, 'UTC')"), False),
        ("day", Column("n", "Int8", "DEFAULT", "2"), False),
        ("", Column("day", "Date", "MATERIALIZED", "toDate(at, 'UTC')"), False),
    ],
)
def test_an_altered_default_moves_rows_to_another_table_partition(
    key: str, altered: Column, *, moves: bool, fed: bool
) -> None:
    """⚑ Found by an adversary: the token was not known there, and the rows landed twice."""
    inner, changed = table(partition_key=key), tuple(altered if c.name == altered.name else c for c in DAY)
    inner, other = (replace(inner, partitioning=computed_in(key, columns)) for columns in (DAY, changed))
    before, after = ((table(feeds=(replace(each, name="fed"),)) if fed else each) for each in (inner, other))
    then, now = (look(Server(StoppedClock()), each).mark for each in (before, after))
    assert ("a column in a partition key" in (why_forgotten(after, then, now) or "")) is moves


def test_a_token_log_with_two_entries_for_each_block_remembers_half() -> None:
    """⚑ Found by an adversary: ClickHouse 26.2 to 26.5 stored again what chsink counted as remembered."""
    for entries, blocks in ((1, 100), (2, 50)):
        server = Server(StoppedClock(), entries=entries)
        [settings] = read_settings(server, [table()]).values()
        assert table(merge_tree=settings).window_blocks == blocks


def test_a_tenth_of_the_window_is_spare() -> None:
    assert usable_blocks(table()) == 90
    assert usable_blocks(table(merge_tree={"non_replicated_deduplication_window": "5"})) == 5


@pytest.mark.parametrize(
    ("engine", "asked"),
    [
        ("MergeTree", "toInt64(max(max_block_number)), toInt64(0), toInt64(0), '' FROM system.parts"),
        ("ReplacingMergeTree", "toInt64(max(max_block_number)), toInt64(0), toInt64(0), '' FROM system.parts"),
        ("ReplicatedMergeTree", "toInt64(log_max_index), toInt64(0), toInt64(0), '' FROM system.replicas"),
        ("SharedMergeTree", "GROUP BY database, table, partition_id"),
    ],
)
def test_each_engine_counts_blocks_in_its_own_way(engine: str, asked: str) -> None:
    server = Server(StoppedClock(), Mark(7, 8))
    kept = Mark(7, 8, window=(100, 0, 0 if engine in {"MergeTree", "ReplacingMergeTree"} else 1000))
    if engine.startswith("Replicated"):
        kept = replace(kept, since_s=server.defined_s, uuids=digest_of(["u"]))
    assert look(server, table(engine)).mark == kept
    [(sql, _)] = server.asked
    assert asked in sql
    assert "name IN ('t')" in sql


def test_many_tables_are_one_question_for_each_way_to_count() -> None:
    server = Server(StoppedClock(), Mark(7, 8))
    kinds = ("MergeTree", "ReplacingMergeTree", "ReplicatedMergeTree", "ReplicatedReplacingMergeTree")
    tables = [table(kind, name=f"{kind}_{n}") for n in range(AT_ONCE // 2) for kind in kinds]

    seen = looks(server, tables)

    assert {name.table for name in seen} == {t.name for t in tables}
    assert {look.mark.blocks for look in seen.values()} == {7}
    assert len(server.asked) == 2
    looks(server, [*tables, table(name="one_more")])
    assert len(server.asked) == 2 + 3, "a statement names a bounded number of tables"


def test_a_replica_without_its_keeper_tells_nothing() -> None:
    """Its counters read 0 then: that is no answer, not an emptied table."""
    server = Server(StoppedClock(), Mark(None, 8))  # type: ignore[arg-type]
    with pytest.raises(Unanswered, match="no session"):
        look(server, table("ReplicatedMergeTree"))


def test_another_table_under_the_name_is_no_target() -> None:
    """⚑ EXCHANGE TABLES between BEFORE and a send: the rows would lie in two tables."""
    server = Server(StoppedClock(), identity="another")
    with pytest.raises(AlteredError, match="CHS-233"):
        look(server, table())
