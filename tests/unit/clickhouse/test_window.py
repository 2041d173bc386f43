"""What becomes of a range in doubt: sent again, probed, or left to a person."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.retry import RetryingQueries
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import OUTLAST_S, ROUND_S, SEND_FOR_S, DedupWindow
from chsink.driver.roles import Looked
from chsink.errors import AlteredError, HaltError, PreflightError, UnavailableError
from chsink.notation.sql import TableName
from chsink.ports import ServerRefused, Unreachable
from chsink.statemachine.parts import Mark, TopicLife, Unsettled
from chsink.statemachine.records import StateRecord
from tests.unit.clickhouse.server import KEY, MARK, NOW_MS, Server, StoppedClock, in_doubt, table

RESTARTED = Mark(50, MARK.since_s + 60)


def window(server: Server, engine: str = "MergeTree", **changes: Any) -> DedupWindow:
    """A replicated table remembers for 1000 s: sends start 1000 - 30 - 120 s after BEFORE at the latest."""
    shard = ShardTable(RetryingQueries(server, server.clock, 20), table(engine, **changes))
    return DedupWindow(lambda *_: [shard], server.clock, margin_s=30, insert_s=120)


def remembering(blocks: int, seconds: int) -> dict[str, str]:
    """Settings of a replicated table."""
    window, window_s = "replicated_deduplication_window", "replicated_deduplication_window_seconds"
    return {window: str(blocks), window_s: str(seconds)}


@pytest.fixture
def server() -> Server:
    return Server(StoppedClock())


def test_no_task_sends_for_longer_than_a_day(server: Server) -> None:
    assert window(server).deadline_ms() == NOW_MS + SEND_FOR_S * 1000


def test_a_range_whose_tokens_are_remembered_is_sent_again(server: Server) -> None:
    assert not window(server).must_probe(KEY, in_doubt(10))
    assert not window(server).must_probe(KEY, in_doubt(100_000)), "a plain table has no window by time"
    assert server.clock.slept == []


@pytest.mark.parametrize(
    ("name", "engine", "age_s", "mark"),
    [("restart", "MergeTree", 10, RESTARTED), ("count", "MergeTree", 10, Mark(140, MARK.since_s))],
)
def test_probing_waits_for_inserts_that_run_and_for_nothing_else(
    server: Server, name: str, engine: str, age_s: float, mark: Mark
) -> None:
    server.mark = mark
    server.running = 3
    assert window(server, engine).must_probe(KEY, in_doubt(age_s)), name
    assert server.clock.slept == [], "what would halt does so before it waits"
    window(server, engine).wait_for_inserts(KEY, in_doubt(age_s))
    assert server.clock.slept == [1, 1, 1]
    assert [p["head"] for sql, p in server.asked if "system.processes" in sql] == ["sink:topic:3:10-20:"] * 4


def test_an_insert_that_does_not_end_is_an_error(server: Server) -> None:
    server.mark, server.running = RESTARTED, 10_000
    with pytest.raises(UnavailableError, match="CHS-710"):
        window(server).wait_for_inserts(KEY, in_doubt(700))
    assert sum(server.clock.slept) == 120


def test_a_wait_for_an_insert_is_announced_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "chsink")
    server.running = 3
    window(server).wait_for_inserts(KEY, in_doubt(10))
    [line] = [record.getMessage() for record in caplog.records]
    for words in (server.url, "topic-3 [10, 20)", "up to 120 s", "KILL QUERY"):
        assert words in line
    window(server).wait_for_inserts(KEY, in_doubt(10))
    assert len(caplog.records) == 1


def test_many_ranges_are_one_look_at_each_shard(server: Server) -> None:
    looked: Looked = {}
    assert not window(server).must_probe(KEY, in_doubt(10), looked)
    asked = len(server.asked)

    assert not window(server).must_probe(KEY, in_doubt(20), looked)

    assert (len(server.asked), len(looked)) == (asked, 1)


def test_a_table_that_was_altered_since_is_looked_into(server: Server) -> None:
    """⚑ Its window may have been lowered, and raised again."""
    assert not window(server).must_probe(KEY, in_doubt(10))
    server.defined_s = MARK.at_s
    assert window(server).must_probe(KEY, in_doubt(10))


@dataclass
class Replicated(Server):
    """Its questions are answered by the first replica; the others can be asked alone."""

    others: tuple[Server, ...] = ()

    def each_replica(self) -> list[Server]:  # type: ignore[override]
        return [self, *self.others]


def test_a_table_that_was_altered_on_another_replica_is_looked_into(server: Server) -> None:
    """⚑ Replicas have settings of their own, and share their tokens: the one that answers tells nothing of the other's."""
    other, gone = (Server(server.clock, url=url, engine="ReplicatedMergeTree") for url in ("http://b", "http://c"))
    gone.away = [Unreachable("gone")]
    asked = Replicated(server.clock, engine="ReplicatedMergeTree", others=(gone, other))
    one = window(asked, "ReplicatedMergeTree")
    assert not one.must_probe(KEY, in_doubt(10))
    assert not gone.away, "it was asked"
    assert not one.must_probe(KEY, in_doubt(10))
    assert not gone.asked, "nobody waits for it twice"
    other.defined_s = -10 - 30
    assert not one.must_probe(KEY, in_doubt(10))
    other.mark = replace(MARK, at_s=-30)
    assert one.must_probe(KEY, in_doubt(10)), "as far as their clocks differ"


@pytest.mark.parametrize(
    "changes", [{"ttl": Ttl(removes_rows=True)}, {"engine": "ReplacingMergeTree"}, {"views": (TableName("db", "v"),)}]
)
def test_a_table_that_was_altered_halts_nothing(server: Server, changes: dict[str, Any]) -> None:
    server.defined_s = MARK.at_s
    assert not window(server, **changes).must_probe(KEY, in_doubt(10))


def test_a_table_that_was_altered_is_not_looked_into_beside_rows_of_others(server: Server) -> None:
    server.defined_s, server.rows = MARK.at_s, 1
    assert not window(server).must_probe(KEY, in_doubt(10))
    server.rows = 0
    older = replace(in_doubt(10), life=replace(in_doubt(10).life, older_end=11))
    assert not window(server).must_probe(KEY, older)


def test_another_replica_that_answers_meanwhile_may_have_been_altered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ The client went to another replica during the look: nobody has looked at this one."""
    ask = Server.query

    def elsewhere(self: Server, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        self.url = "http://b"
        return ask(self, sql, parameters)

    monkeypatch.setattr(Server, "query", elsewhere)
    assert window(server).must_probe(KEY, in_doubt(10))


def test_a_plain_table_that_may_have_moved_has_forgotten(server: Server) -> None:
    """⚑ Found by an adversary: another server with a copy of the table had started in the same second."""
    for engine, forgotten in (("MergeTree", True), ("ReplicatedMergeTree", False)):
        asked = replace(server, engine=engine)
        assert replace(window(asked, engine), lost=lambda _: [True]).must_probe(KEY, in_doubt(10)) is forgotten


def test_everywhere_is_each_server_once() -> None:
    """⚑ Found by adversaries: rows of the range had been copied to a shard that was added, and nobody looked there; and a
    server was counted twice whose URL is written otherwise now, so that a copy of each row was to be deleted.
    """

    def at(urls: str, server: str, identity: str, engine: str = "MergeTree") -> ShardTable:
        named = tuple(f"http://{name}" for name in urls)
        return ShardTable(Server(StoppedClock(), url=server), table(engine, identity=identity), named)

    recorded = [at("a", "one", "u"), at("bc", "two", "v"), at("d", "three", "/path", "ReplicatedMergeTree")]
    others = [at("x", "one", "u"), at("y", "four", "v"), at("z", "five", "/path", "ReplicatedMergeTree")]
    others.append(at("k", "at another Keeper", "/path", "ReplicatedMergeTree"))
    present = [at("ce", "two", "v"), *others, at("n", "six", "w")]
    shards = {"recorded": recorded, None: present}
    found = DedupWindow(lambda _, layout: shards[layout], StoppedClock(), 30, 120).everywhere("db.t", "recorded")
    assert [shard.replicas[0][-1] for shard in found] == ["a", "b", "d", "y", "k", "n"]


def test_once_probed_always_probed(server: Server) -> None:
    assert window(server).must_probe(KEY, replace(in_doubt(1000), doubt=Unsettled(probe=True)))


def test_unknown_marks_are_not_trusted(server: Server) -> None:
    assert window(server).must_probe(KEY, in_doubt(1000, ()))


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "ReplicatedReplacingMergeTree"},
        {"engine": "ReplacingMergeTree"},
        {"ttl": True},
        {"columns": table().columns[:3]},
    ],
)
def test_a_table_that_cannot_be_looked_into_halts(server: Server, changes: dict[str, Any]) -> None:
    server.mark = Mark(140, MARK.since_s)
    with pytest.raises(HaltError, match="CHS-317"):
        window(server, **changes).must_probe(KEY, in_doubt(10))


def test_a_window_by_time_runs_out(server: Server) -> None:
    assert not window(server, "ReplicatedMergeTree").must_probe(KEY, in_doubt(849))
    assert window(server, "ReplicatedMergeTree").must_probe(KEY, in_doubt(850))
    with pytest.raises(HaltError, match="850 s ago, and tokens are remembered for 1000 s only"):
        window(server, "ReplicatedMergeTree", ttl=Ttl(removes_rows=True)).must_probe(KEY, in_doubt(850))


@pytest.mark.parametrize("wrong_s", [-7200, 7200])
def test_only_the_servers_clock_tells_how_old_a_token_is(server: Server, wrong_s: int) -> None:
    """⚑ The driver's clock was two hours ahead at BEFORE, and was then corrected: tokens that were gone were trusted."""
    old, young = (announced_at(NOW_MS + wrong_s * 1000, in_doubt(age)) for age in (850, 849))
    assert window(server, "ReplicatedMergeTree").must_probe(KEY, old)
    assert not window(server, "ReplicatedMergeTree").must_probe(KEY, young)


@pytest.mark.parametrize(("back_s", "doubted"), [(30, False), (31, True)])
def test_a_servers_clock_that_went_back_tells_nothing(server: Server, back_s: int, doubted: bool) -> None:
    """⚑ Two replicas' clocks may differ by the margin."""
    assert window(server, "ReplicatedMergeTree").must_probe(KEY, in_doubt(-back_s)) is doubted
    assert not window(server).must_probe(KEY, in_doubt(-back_s)), "a plain table has no window by time"


def test_a_range_is_probed_only_where_every_shard_can_be(server: Server) -> None:
    """⚑ the second shard cannot: its pieces could be sent twice."""
    server.mark = RESTARTED
    client = RetryingQueries(server, server.clock, 20)
    shards = [ShardTable(client, table()), ShardTable(client, table(ttl=Ttl(removes_rows=True)))]
    asking = DedupWindow(lambda *_: shards, server.clock, margin_s=30, insert_s=120)
    with pytest.raises(HaltError, match="CHS-317"):
        asking.must_probe(KEY, in_doubt(10, (MARK, MARK)))


def test_a_round_has_half_of_what_is_surely_remembered_and_the_time_that_its_sends_have(server: Server) -> None:
    limit = window(server).limit("db.t")
    assert (limit.chunks, limit.seconds) == (45, ROUND_S)
    assert window(server, "ReplicatedMergeTree").limit("db.t").seconds == 850


def test_the_smallest_window_has_room_for_one_chunk(server: Server) -> None:
    small = window(server, merge_tree={"non_replicated_deduplication_window": "1"})
    assert small.limit("db.t").chunks == 1
    with pytest.raises(PreflightError, match="CHS-210"):
        window(server, merge_tree={"non_replicated_deduplication_window": "0"}).limit("db.t")


def test_a_table_that_forgets_within_one_insert_is_refused(server: Server) -> None:
    seconds = "replicated_deduplication_window_seconds"
    for window_s, fits in ((151, True), (150, False)):
        settings = {"replicated_deduplication_window": "100", seconds: str(window_s)}
        target = window(server, "ReplicatedMergeTree", merge_tree=settings)
        if fits:
            target.limit("db.t")
        else:
            with pytest.raises(PreflightError, match="CHS-234"):
                target.limit("db.t")


def test_the_shard_that_remembers_least_bounds_a_round(server: Server) -> None:
    """⚑ Its pieces are sent again, too."""
    client = RetryingQueries(server, server.clock, 20)
    shards = [
        ShardTable(client, table("ReplicatedMergeTree", merge_tree=remembering(blocks, window_s)))
        for blocks, window_s in ((100, 1000), (20, 900), (60, 400))
    ]
    asking = DedupWindow(lambda *_: shards, server.clock, margin_s=30, insert_s=120)
    assert (asking.limit("db.t").chunks, asking.limit("db.t").seconds) == (9, 250)
    shards[2:] = []
    assert asking.limit("db.t").seconds == 750


@pytest.mark.parametrize(("own_s", "fed_s"), [(400, 1000), (1000, 400)])
def test_the_shortest_limit_by_time_tells_how_long_tokens_are_trusted(server: Server, own_s: int, fed_s: int) -> None:
    """⚑ The table's own, or that of a table which its views fill."""
    fed = table("ReplicatedMergeTree", name="fed", merge_tree=remembering(100, fed_s))
    target = window(server, "ReplicatedMergeTree", merge_tree=remembering(100, own_s), feeds=(fed,))
    assert not target.must_probe(KEY, announced(target, 249))
    assert target.must_probe(KEY, announced(target, 250))


def announced_at(before_at: int, record: StateRecord) -> StateRecord:
    """By the driver's clock."""
    return replace(record, seen=replace(record.seen, before_at=before_at))


def announced(target: DedupWindow, age_s: int) -> StateRecord:
    """A range in doubt for so long, announced when views filled the same tables as now."""
    [mark] = target.marks(["db.t"])["db.t"]
    return in_doubt(age_s, (replace(mark, at_s=-age_s),))


def test_other_tables_behind_the_views_say_nothing_of_those_that_were(server: Server) -> None:
    """⚑ Their blocks are counted together: once a view is gone, those of a table that forgot the piece may be hidden."""
    one, two, other = (table(name=name) for name in ("one", "two", "other"))
    was = announced(window(server, feeds=(one, two)), 1)
    assert not window(server, feeds=(two, one)).must_probe(KEY, was)
    assert [
        window(server, feeds=now).must_probe(KEY, was) for now in ((one,), (one, other), (one, two, other), ())
    ] == [True] * 4
    [here, there] = (table("ReplicatedMergeTree", name=f".inner_id.{uuid}") for uuid in "12")
    assert not window(server, feeds=(there,)).must_probe(KEY, announced(window(server, feeds=(here,)), 1)), "a replica"


def test_tables_that_views_fill_forget_by_time_too(server: Server) -> None:
    """⚑ A plain table has no limit by time; a Replicated one that its view fills has."""
    fed = table("ReplicatedMergeTree", name="fed")
    target = window(server, feeds=(fed,))
    assert target.limit("db.t").seconds == 850
    with pytest.raises(HaltError, match=r"CHS-317.* 1000 s only"):
        window(server, ttl=Ttl(removes_rows=True), feeds=(fed,)).must_probe(KEY, announced(target, 850))
    short = {**fed.merge_tree, "replicated_deduplication_window_seconds": "150"}
    with pytest.raises(PreflightError, match=r"CHS-234.*db\.short"):
        window(server, feeds=(table("ReplicatedMergeTree", name="short", merge_tree=short),)).limit("db.t")


@pytest.mark.parametrize("altered", ["t", "fed"])
def test_an_altered_table_of_a_view_is_seen(server: Server, altered: str) -> None:
    target = window(server, feeds=(table(name="fed"),))
    target.check_unchanged(["db.t"])
    server.altered = {altered}
    with pytest.raises(AlteredError, match=rf"CHS-233.*db\.{altered} "):
        target.check_unchanged(["db.t"])


@pytest.mark.parametrize("definition", ["other", ""])
def test_an_altered_or_dropped_table_is_seen(server: Server, definition: str) -> None:
    window(server).check_unchanged(["db.t"])
    server.definition = definition
    with pytest.raises(AlteredError, match="CHS-233"):
        window(server).check_unchanged(["db.t"])


def of_many(clients: Sequence[RetryingQueries], **changes: Any) -> DedupWindow:
    """A window over tables of the names that are asked for, on each of these servers."""
    return DedupWindow(
        lambda name, _: [ShardTable(c, table(name=name.removeprefix("db."), **changes)) for c in clients],
        clients[0].clock,
        margin_s=30,
        insert_s=120,
        letters=ShardTable(clients[0], table(name="letters")),
    )


def test_many_tables_are_one_question_for_each_server(server: Server) -> None:
    """Their number does not make a batch slower; the table of dead letters is asked for with them."""
    other = Server(server.clock, mark=replace(MARK, blocks=7))
    asking = of_many([RetryingQueries(s, server.clock, 20) for s in (server, other)])
    names = [f"db.t{n}" for n in range(100)]

    asking.check_unchanged(names)
    assert asking.marks(names) == dict.fromkeys(names, (MARK, other.mark, MARK))

    assert [len(server.asked), len(other.asked)] == [2, 2]


def test_one_altered_table_of_many_is_seen(server: Server) -> None:
    server.altered = {"t57"}
    with pytest.raises(AlteredError, match="CHS-233.*t57"):
        of_many([RetryingQueries(server, server.clock, 20)]).check_unchanged([f"db.t{n}" for n in range(100)])


@pytest.mark.parametrize("ask", [lambda w: w.marks(["db.t"])["db.t"], lambda w: w.must_probe(KEY, in_doubt(10))])
def test_a_server_that_is_away_for_a_moment_is_asked_again(
    server: Server, ask: Callable[[DedupWindow], object]
) -> None:
    server.away = [Unreachable("refused"), ServerRefused(241, "memory")]
    assert ask(window(server)) in ((MARK,), False)
    assert len(server.clock.slept) == 2


def test_it_is_not_asked_for_ever(server: Server) -> None:
    server.away = [Unreachable("refused")] * 1000
    with pytest.raises(Unreachable):
        window(server).marks(["db.t"])
    assert 20 <= sum(server.clock.slept) < 31


def test_a_refusal_for_good_is_not_asked_again(server: Server) -> None:
    server.away = [ServerRefused(497, "not enough privileges")]
    with pytest.raises(ServerRefused):
        window(server).marks(["db.t"])
    assert server.clock.slept == []


@pytest.mark.parametrize("rows", [0, 1])
def test_rows_beyond_all_that_was_announced_are_foreign(server: Server, rows: int) -> None:
    """⚑ another sink's rows in the same table must not be taken for this one's."""
    server.rows = rows
    assert window(server).holds_foreign(KEY, in_doubt(10)) is (rows > 0)
    [(_, parameters)] = server.asked
    assert parameters["start"] == in_doubt(10).end


@pytest.mark.parametrize(
    ("older_end", "accepted", "alone"), [(0, False, True), (15, False, True), (16, False, False), (0, True, False)]
)
def test_rows_that_may_be_others_are_no_second_copies(
    server: Server, older_end: int, accepted: bool, alone: bool
) -> None:
    """An earlier topic of this name reached the range, or the job accepts rows that are not its own."""
    record = replace(in_doubt(10), start=15, end=20, life=TopicLife(older_end=older_end))
    assert replace(window(server), foreign_accepted=accepted).is_alone(record) is alone


@pytest.mark.parametrize(
    "error", [Unreachable("refused"), ServerRefused(None, "HTTP status 503"), ServerRefused(516, "login")]
)
def test_a_former_server_that_does_not_answer_is_outlasted_once(server: Server, error: Exception) -> None:
    """⚑ It may run an insert whose sender is gone, which is over by its limit of time."""
    target, began = replace(window(server), insert_s=200), server.clock.steady_ms()
    for _ in range(2):
        server.away = [error]
        assert target.wait_where_answered("head", "t-0 [1, 2)", [server]) == []
        assert server.clock.steady_ms() - began == 200_000


def test_who_is_impatient_now_waits_as_long_as_an_insert_usually_has(server: Server) -> None:
    """⚑ Found by an adversary: the insert had 45 s, but the person who decided set 3 s.  All are outlasted together."""
    began, others = server.clock.steady_ms(), [replace(server, url=f"http://{n}") for n in "ab"]
    for one in others:
        one.away = [Unreachable("refused")]
    assert replace(window(server), insert_s=3).wait_where_answered("head", "t-0 [1, 2)", others) == []
    assert server.clock.steady_ms() - began == OUTLAST_S * 1000 == 120_000
