"""``chsink mirror resolve`` beside others: the mirror, other people, workers that wake, and what Kafka deletes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from chsink.embedded.topics import delete_records
from chsink.errors import PreflightError
from chsink.mirror import resolve
from chsink.mirror.resolve import carry_out, decide
from chsink.statemachine.commit.resolve import TableVerdict
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.connect_sink import ConnectSink
from tests.integration.mirror.test_recover import chsink, lose
from tests.integration.mirror.test_takeover import taken
from tests.support.told import says

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def stopped(bench: Bench) -> None:
    for coordinator in bench.coordinators:
        coordinator.close()
    bench.coordinators.clear()


def rolled_back(bench: Bench, to: int) -> None:
    stopped(bench)
    bench.catalog().load_table("shop.orders").manage_snapshots().rollback_to_snapshot(to).commit()


def landed_twice(bench: Bench) -> int:
    """Land 1 and 2, then 3.  Returns the snapshot between."""
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2]))
    bench.round(first)
    kept = head(bench)
    bench.hand_over(*bench.produce([3]))
    bench.round(first)
    return kept


def head(bench: Bench) -> int:
    snapshot = bench.catalog().load_table("shop.orders").current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def ids(bench: Bench) -> list[int]:
    return sorted(n for _, _, n in bench.landed().elements())


@pytest.mark.exit_of("MIRROR_TABLE_MOVED")
def test_two_people_decide_about_one_halt(make_bench: MakeBench) -> None:
    """⚑ The second answer, to a plan that was shown before, set the table back: records landed twice."""
    bench = make_bench()
    kept = landed_twice(bench)
    rolled_back(bench, kept)
    shown = decide(bench.names, bench.targets(), ["shop.orders"], bench.admin, TableVerdict.SKIP)
    assert chsink(bench, "resolve", "shop.orders", "--skip", "--yes").exit_code == 0
    second = bench.coordinator()
    bench.hand_over(*bench.produce([4, 5]))
    bench.round(second)
    with pytest.raises(PreflightError, match="CHS-348") as moved:
        carry_out(bench.names, shown)
    says(moved.value, "stop the mirror, and start it to see whether it still halts; if so, stop it and run the command")
    stopped(bench)
    bench.rounds(bench.coordinator(), 2)
    assert ids(bench) == [1, 2, 4, 5]


def test_the_mirror_lands_more_while_the_question_is_shown(make_bench: MakeBench) -> None:
    """⚑ The log had grown since the plan: it counted as one that had lost records."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    shown = decide(bench.names, bench.targets(), ["shop.orders"], bench.admin, TableVerdict.SKIP)
    bench.hand_over(*bench.produce([4, 5]))
    bench.round(first)
    with pytest.raises(PreflightError, match="CHS-348"):
        carry_out(bench.names, shown)
    stopped(bench)
    later = bench.coordinator()
    assert bench.group_at() == 5
    bench.rounds(later, 2)
    assert bench.landed() == bench.sent()


def test_skip_keeps_the_files_that_wait(make_bench: MakeBench) -> None:
    """⚑ Kafka no longer held their records, so ``--skip`` went on behind them, without a word."""
    bench = make_bench()
    kept = landed_twice(bench)
    bench.hand_over(*bench.produce([4, 5]))
    rolled_back(bench, kept)
    bench.produce([6])
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 5)
    assert chsink(bench, "resolve", "shop.orders", "--skip", "--yes").exit_code == 0
    later = bench.coordinator()
    bench.hand_over(5, 6)
    bench.rounds(later, 2)
    assert ids(bench) == [1, 2, 4, 5, 6]


@pytest.mark.parametrize("how", [["recover"], ["resolve", "shop.orders", "--skip"]], ids=lambda how: how[0])
@pytest.mark.parametrize("copied", [False, True])
def test_a_rollback_to_before_a_chain_that_was_rebuilt(make_bench: MakeBench, how: list[str], *, copied: bool) -> None:
    """⚑ The chain began below rows of which no snapshot of the mirror speaks: ``--reread`` landed them again."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    if copied:
        rows = bench.catalog().load_table("shop.orders").scan().to_arrow()
        stopped(bench)
        bench.catalog().drop_table("shop.orders")
        bench.catalog().create_table("shop.orders", SCHEMA).append(rows)
        bench.delete_groups(bench.group, f"{bench.group}/control")
    else:
        lose(bench)
    kept = head(bench)
    assert chsink(bench, *how, "--yes").exit_code == 0
    second = bench.coordinator()
    bench.hand_over(*bench.produce([4, 5]))
    bench.rounds(second, 2)
    assert bench.landed() == bench.sent()
    rolled_back(bench, kept)
    refused = chsink(bench, "resolve", "shop.orders", "--reread", "--yes")
    assert refused.exit_code == 2 and "CHS-348" in refused.output
    assert chsink(bench, "resolve", "shop.orders", "--skip", "--yes").exit_code == 0
    third = bench.coordinator()
    bench.hand_over(*bench.produce([6]))
    bench.rounds(third, 2)
    assert ids(bench) == [1, 2, 3, 6]


@pytest.mark.parametrize("waits", [False, True])
def test_a_rollback_to_before_a_takeover(make_bench: MakeBench, *, waits: bool) -> None:
    """⚑ All rows of the connector landed again."""
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    if waits:
        sink.write(*bench.produce([3]))
    kept = head(bench)
    taken(bench)
    rolled_back(bench, kept)
    refused = chsink(bench, "resolve", "shop.orders", "--reread", "--yes")
    assert refused.exit_code == 2 and "CHS-348" in refused.output


def test_an_earlier_request_for_a_backfill_is_forgotten(make_bench: MakeBench) -> None:
    """⚑ It was met after the chain was lost: rows that a person had deleted came back, unlike the plan said."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3, 4]))
    bench.round(first)
    table = bench.targets()["shop.orders"].table
    read = table.read()
    assert read is not None
    table.fill_back(read, {bench.tp(): 0})
    bench.catalog().load_table("shop.orders").delete("id < 3")
    request = {table.keys.backfill: bench.catalog().load_table("shop.orders").properties[table.keys.backfill]}
    lose(bench)
    with bench.catalog().load_table("shop.orders").transaction() as change:
        change.set_properties(request)
    assert chsink(bench, "resolve", "shop.orders", "--skip", "--yes").exit_code == 0
    bench.rounds(bench.coordinator(), 3)
    assert ids(bench) == [3, 4]


def test_a_worker_that_wakes_hands_over_nothing_of_a_log_that_lost_records(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ It did so after the end of the control topic was read: records that Kafka had lost landed."""
    bench = make_bench()
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3]))
    bench.round(first)
    stopped(bench)
    bench.produce([104, 105])
    had_read, reads, wake = list(bench.records()(OffsetRange(3, 5))), Event(), Event()
    table = bench.targets()["shop.orders"].table
    read = table.read()
    assert read is not None and read.view.stored is not None
    links = {tp: replace(link, until=4) for tp, link in read.view.stored.links.items()}
    table.move(read, replace(read.view.stored, links=links), uuid.uuid4())
    shown = decide(bench.names, bench.targets(), ["shop.orders"], Shorter(bench, end=3), TableVerdict.SKIP)
    stored = resolve._stored

    def read_before(_: OffsetRange) -> Any:
        reads.set()
        wake.wait(60)
        return iter(had_read)

    def woken(*arguments: Any) -> Any:
        wake.set()
        wait([handing_over])
        return stored(*arguments)

    monkeypatch.setattr(resolve, "_stored", woken)
    with ThreadPoolExecutor(1) as pool:
        handing_over = pool.submit(bench.worker().run, OffsetRange(3, 5), read_before)
        assert reads.wait(60)
        carry_out(bench.names, shown)
    bench.rounds(bench.coordinator(), 2)
    assert ids(bench) == [1, 2, 3]


class Shorter:
    """Kafka, with a log that ends earlier."""

    def __init__(self, bench: Bench, end: int) -> None:
        self._admin, self._tp, self._end = bench.admin, bench.tp(), end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._end if tp == self._tp else at for tp, at in self._admin.log_ends(partitions).items()}
