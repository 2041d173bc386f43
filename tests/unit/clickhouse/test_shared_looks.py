"""Sends of one task share what a table said, where that is safe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from chsink.clickhouse.pieces import looks_for
from chsink.clickhouse.shards import InsertShard
from chsink.clickhouse.shared_looks import SHARED_MS, SharedLooks
from chsink.clickhouse.writer import ShardWriter
from chsink.driver.roles import Assignment
from chsink.errors import AlteredError, UnavailableError
from chsink.ports import Unanswered
from chsink.statemachine.parts import Mark
from tests.unit.clickhouse.server import KEY, MARK, NOW_MS, Server, StoppedClock, in_doubt, table

PIECE = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
USABLE = 90
"""Of the hundred blocks that the table remembers."""


@pytest.fixture
def server() -> Server:
    return Server(StoppedClock())


def send(server: Server, looks: SharedLooks, times: int = 1, **of: Any) -> None:
    """Each piece with a writer of its own, as ranges of one task have."""
    for n in range(times):
        shard = InsertShard(server, table(**of), MARK)
        writer = ShardWriter([shard], {}, server.clock, retry_for_s=60, timeout_s=9.5, margin_s=30, looks=looks)
        writer.insert(0, "db.t", PIECE, f"token {n}", NOW_MS + 10**9)


def questions(server: Server) -> int:
    return sum("uptime()" in sql for sql, _ in server.asked)


def test_pieces_that_are_sent_at_once_need_one_question(server: Server) -> None:
    send(server, SharedLooks(), 10)
    assert (questions(server), len(server.inserts)) == (1, 10)


def test_an_answer_serves_for_a_short_time_only(server: Server) -> None:
    looks = SharedLooks()
    send(server, looks)
    server.clock.sleep((SHARED_MS - 1) / 1000)
    send(server, looks)
    assert questions(server) == 1
    server.clock.sleep(0.001)
    server.mark = Mark(140, MARK.since_s)
    with pytest.raises(UnavailableError, match="CHS-707"):
        send(server, looks)
    assert questions(server) == 2


def test_a_suspended_process_does_not_send_by_it(server: Server) -> None:
    """⚑ The clock is asked again right before the send: the answer was young when it was taken."""
    looks = SharedLooks()
    send(server, looks)
    server.clock.sleep(60)
    server.mark = Mark(50, MARK.since_s + 59)
    with pytest.raises(UnavailableError, match=r"CHS-707.*restarted"):
        send(server, looks)
    assert len(server.inserts) == 1


def test_what_was_sent_since_counts(server: Server) -> None:
    """⚑ The window was taken for as empty as it was before the task began."""
    server.mark = replace(MARK, blocks=MARK.blocks + USABLE - 5)
    looks = SharedLooks()
    with pytest.raises(UnavailableError, match=r"CHS-707.*90 blocks"):
        send(server, looks, 6)
    assert len(server.inserts) == 5


def test_what_was_sent_since_counts_in_each_table_that_views_fill(server: Server) -> None:
    """⚑ One insert makes a block in each of them."""
    first = table(name="first", merge_tree={**table().merge_tree, "non_replicated_deduplication_window": "10"})
    second = replace(first, name="second")
    looks, feeding = SharedLooks(), table(feeds=(first, second))
    at = InsertShard(server, feeding, MARK)
    marks = [looks.of(at, server.clock, anew=False).relied_on(len(feeding.feeds)) for _ in range(3)]
    assert [mark.blocks - marks[0].blocks for mark in marks] == [0, 1, 2]
    assert [mark.fed - marks[0].fed for mark in marks] == [0, 2, 4]


def test_a_send_that_failed_asks_before_it_is_repeated(server: Server) -> None:
    """⚑ The server may have been restarted, and have lost the token of what it took."""
    looks = SharedLooks()
    send(server, looks)
    server.answers = [Unanswered("reset")]
    send(server, looks)
    assert (questions(server), len(server.inserts)) == (2, 3)


def test_each_table_and_server_is_asked(server: Server) -> None:
    other, looks = Server(server.clock, url="http://b"), SharedLooks()
    send(server, looks)
    send(other, looks)
    assert (questions(server), questions(other)) == (1, 1)
    send(server, looks, name="t2")
    assert questions(server) == 2


def test_a_table_that_was_altered_is_asked_each_time(server: Server) -> None:
    server.altered = ["t"]
    server.columns = [("n", "Int64", "", "")]
    looks = SharedLooks()
    for _ in range(2):
        with pytest.raises(AlteredError):
            send(server, looks)
    assert questions(server) == 2


def test_a_range_that_was_in_doubt_asks_for_each_of_its_pieces(server: Server) -> None:
    """⚑ Its pieces may have been stored by a process that is gone."""
    shared = SharedLooks()
    fresh = Assignment(KEY, in_doubt(0), "l", NOW_MS + 10**9)
    assert looks_for(fresh, shared) is shared
    send(server, looks_for(replace(fresh, again=True), shared), 3)
    assert questions(server) == 3
