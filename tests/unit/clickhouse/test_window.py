"""What becomes of a range in doubt: sent again, probed after waiting for others, or left to a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chsink.clickhouse.retry import RetryingQueries
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.errors import AlteredError, HaltError, PreflightError, UnavailableError
from chsink.ports import ServerRefused, Unreachable
from chsink.statemachine.records import Mark
from tests.unit.clickhouse.server import KEY, MARK, NOW_MS, Server, StoppedClock, in_doubt, table

RESTARTED = Mark(50, MARK.started_s + 60)


def window(server: Server, engine: str = "MergeTree", **changes: Any) -> DedupWindow:
    """Sends may last until 600 s after BEFORE: they start 600 - 30 - 120 s after it at the latest."""
    shard = ShardTable(RetryingQueries(server, server.clock, 20), table(engine, **changes))
    return DedupWindow(lambda *_: [shard], server.clock, max_age_s=600, margin_s=30, insert_s=120)


@pytest.fixture
def server() -> Server:
    return Server(StoppedClock())


def test_no_send_may_last_beyond_the_age(server: Server) -> None:
    record = in_doubt(0)
    assert window(server).deadline_ms(KEY, record) == NOW_MS + 450_000
    assert window(server, "ReplicatedMergeTree").deadline_ms(KEY, record) == NOW_MS + 450_000
    short = {"merge_tree": {"replicated_deduplication_window": "9", "replicated_deduplication_window_seconds": "200"}}
    assert window(server, "ReplicatedMergeTree", **short).deadline_ms(KEY, record) == NOW_MS + 50_000


def test_a_range_whose_tokens_are_remembered_is_sent_again(server: Server) -> None:
    assert not window(server).must_probe(KEY, in_doubt(10))
    assert not window(server).must_probe(KEY, in_doubt(100_000)), "a plain table has no window by time"
    assert server.clock.slept == []


@pytest.mark.parametrize(
    ("name", "engine", "age_s", "mark"),
    [("restart", "MergeTree", 10, RESTARTED), ("count", "MergeTree", 10, Mark(140, MARK.started_s))],
)
def test_probing_waits_until_nobody_can_be_sending(
    server: Server, name: str, engine: str, age_s: float, mark: Mark
) -> None:
    server.mark = mark
    server.running = 3
    assert window(server, engine).must_probe(KEY, in_doubt(age_s)), name
    assert server.clock.slept == [], "what would halt does so before it waits"
    window(server, engine).wait_out_senders({KEY: in_doubt(age_s)})
    assert server.clock.slept == [590, 1, 1, 1]
    assert [p["head"] for sql, p in server.asked if "system.processes" in sql] == ["sink:topic:3:10-20:"] * 4


def test_an_insert_that_does_not_end_is_an_error(server: Server) -> None:
    server.mark, server.running = RESTARTED, 10_000
    with pytest.raises(UnavailableError, match="CHS-710"):
        window(server).wait_out_senders({KEY: in_doubt(700)})
    assert sum(server.clock.slept) == 120


def test_a_wait_names_its_reason_and_the_way_out(server: Server) -> None:
    heard: list[str] = []
    server.mark = RESTARTED
    asking = window(server)
    asking.say = heard.append
    other = replace(KEY, partition=5)
    asking.wait_out_senders({KEY: in_doubt(10), other: in_doubt(40), replace(KEY, partition=6): in_doubt(700)})
    [line] = heard
    for words in ("topic-3 [10, 20), topic-5 [10, 20);", "restarted", "Waiting 590 s", "in_doubt.max_age_s"):
        assert words in line
    assert "`chsink state resolve topic 3 5` with" in line
    assert server.clock.slept == [590]


def test_once_probed_always_probed(server: Server) -> None:
    assert window(server).must_probe(KEY, in_doubt(1000, probe=True))


def test_unknown_marks_are_not_trusted(server: Server) -> None:
    assert window(server).must_probe(KEY, in_doubt(1000, marks=()))


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "ReplicatedMergeTree"},
        {"engine": "ReplacingMergeTree"},
        {"ttl": True},
        {"columns": table().columns[:3]},
    ],
)
def test_a_table_that_cannot_be_looked_into_halts(server: Server, changes: dict[str, Any]) -> None:
    server.mark = Mark(140, MARK.started_s)
    with pytest.raises(HaltError, match="CHS-317"):
        window(server, **changes).must_probe(KEY, in_doubt(10))


def test_a_window_by_time_runs_out(server: Server) -> None:
    with pytest.raises(HaltError, match="more than 600 s old"):
        window(server, "ReplicatedMergeTree").must_probe(KEY, in_doubt(451))


def test_a_round_has_half_of_what_is_surely_remembered_and_the_time_that_its_sends_have(server: Server) -> None:
    room = window(server).room("db.t")
    assert room.chunks == 45
    record = in_doubt(0)
    assert room.seconds * 1000 == window(server).deadline_ms(KEY, record) - record.before_at


def test_the_smallest_window_has_room_for_one_chunk(server: Server) -> None:
    small = window(server, merge_tree={"non_replicated_deduplication_window": "1"})
    assert small.room("db.t").chunks == 1
    with pytest.raises(PreflightError, match="CHS-210"):
        window(server, merge_tree={"non_replicated_deduplication_window": "0"}).room("db.t")


def test_a_table_that_forgets_within_one_insert_is_refused(server: Server) -> None:
    seconds = "replicated_deduplication_window_seconds"
    for window_s, fits in ((151, True), (150, False)):
        settings = {"replicated_deduplication_window": "100", seconds: str(window_s)}
        target = window(server, "ReplicatedMergeTree", merge_tree=settings)
        if fits:
            target.room("db.t")
        else:
            with pytest.raises(PreflightError, match="CHS-234"):
                target.room("db.t")


@pytest.mark.parametrize("definition", ["other", ""])
def test_an_altered_or_dropped_table_is_seen(server: Server, definition: str) -> None:
    window(server).check_unchanged("db.t")
    server.definition = definition
    with pytest.raises(AlteredError, match="CHS-233"):
        window(server).check_unchanged("db.t")


@pytest.mark.parametrize("ask", [lambda w: w.marks("db.t"), lambda w: w.must_probe(KEY, in_doubt(10))])
def test_a_server_that_is_away_for_a_moment_is_asked_again(
    server: Server, ask: Callable[[DedupWindow], object]
) -> None:
    server.away = [Unreachable("refused"), ServerRefused(241, "memory")]
    assert ask(window(server)) in ((MARK,), False)
    assert len(server.clock.slept) == 2


def test_it_is_not_asked_for_ever(server: Server) -> None:
    server.away = [Unreachable("refused")] * 1000
    with pytest.raises(Unreachable):
        window(server).marks("db.t")
    assert 20 <= sum(server.clock.slept) < 31


def test_a_refusal_for_good_is_not_asked_again(server: Server) -> None:
    server.away = [ServerRefused(497, "not enough privileges")]
    with pytest.raises(ServerRefused):
        window(server).marks("db.t")
    assert server.clock.slept == []


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_beyond_all_that_was_announced_are_foreign(server: Server, rows: int) -> None:
    """⚑ another sink's rows in the same table must not be taken for this one's."""
    server.rows = rows
    assert window(server).holds_foreign(KEY, in_doubt(10)) is (rows > 0)
    [(_, parameters)] = server.asked
    assert parameters["start"] == in_doubt(10).end
