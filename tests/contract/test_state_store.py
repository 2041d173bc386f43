"""What every state store keeps to.  Each test runs against memory, ZooKeeper and KeeperMap, the latter two for real."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from chsink.ports import StateStore, StoredRow, Swap
from tests.contract.benches import Bench, made, open_bench, rows, stored, stores, swaps


@pytest.fixture(params=stores())
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from open_bench(request.param, request)


def test_an_unknown_sink_has_no_rows(bench: Bench) -> None:
    assert bench.store.load("sink") == {}


def test_created_rows_are_seen_by_another_store(bench: Bench) -> None:
    new = [StoredRow("sink", "a1", '{"epoch":1}'), *rows(3, "a1")]
    assert bench.store.create(new)
    assert bench.other.load("sink") == {r.key: r for r in new}


def test_create_refuses_all_when_one_exists(bench: Bench) -> None:
    assert bench.store.create(rows(3, "a1")[1:2])
    assert not bench.other.create(rows(3, "a2"))
    assert stored(bench.store) == rows(3, "a1")[1:2]


def test_catching_up_changes_nothing(bench: Bench) -> None:
    old = rows(3, "a1")
    bench.store.create(old)
    bench.other.swap(swaps(old[:1], "a2"))
    now = stored(bench.other)
    bench.store.catch_up(old[0])
    assert stored(bench.store) == now


def test_swap_replaces_all_rows(bench: Bench) -> None:
    old = rows(5, "a1")
    bench.store.create(old)
    change = swaps(old, "a2")
    assert bench.store.swap(change)
    assert stored(bench.other) == made(change)


def test_swap_replaces_rows_of_different_attempts(bench: Bench) -> None:
    old = [StoredRow(r.key, f"a{i}", r.body) for i, r in enumerate(rows(5, ""))]
    bench.store.create(old)
    change = [Swap(r.attempt, StoredRow(r.key, f"b{i}", r.body + " ")) for i, r in enumerate(old)]
    assert bench.store.swap(change)
    assert stored(bench.store) == made(change)


def test_swap_leaves_other_rows_alone(bench: Bench) -> None:
    old = rows(3, "a1")
    bench.store.create(old)
    bench.store.swap(swaps(old[:1], "a2"))
    assert stored(bench.store)[1:] == old[1:]


def test_swap_of_a_stale_attempt_changes_nothing(bench: Bench) -> None:
    old = rows(3, "a1")
    bench.store.create(old)
    newer = swaps(old, "a2")
    bench.other.swap(newer)
    assert not bench.store.swap(swaps(old, "a3"))
    assert stored(bench.store) == made(newer)


def test_one_foreign_row_in_200_refuses_all(bench: Bench) -> None:
    old = rows(200, "a1")
    bench.store.create(old)
    taken = swaps(old[137:138], "foreign")
    bench.other.swap(taken)
    assert not bench.store.swap(swaps(old, "a2"))
    assert stored(bench.store) == sorted([*old[:137], *made(taken), *old[138:]], key=lambda r: r.key)


def test_one_missing_row_in_200_refuses_all(bench: Bench) -> None:
    old = rows(200, "a1")
    bench.store.create(old[:-1])
    assert not bench.store.swap(swaps(old, "a2"))
    assert stored(bench.store) == sorted(old[:-1], key=lambda r: r.key)


def test_swap_of_missing_rows_only_is_refused(bench: Bench) -> None:
    assert not bench.store.swap(swaps(rows(2, "a1"), "a2"))
    assert bench.store.load("sink") == {}


def test_a_repeated_write_is_applied_once_and_says_so(bench: Bench) -> None:
    old = rows(3, "a1")
    assert [bench.store.create(old) for _ in range(2)] == [True] * 2
    change = swaps(old, "a2")
    assert [bench.store.swap(change) for _ in range(2)] == [True] * 2
    assert stored(bench.store) == made(change)


def test_a_forgotten_copy_of_an_older_write_matches_nothing(bench: Bench) -> None:
    old = rows(3, "a1")
    bench.store.create(old)
    first = swaps(old, "a2")
    bench.store.swap(first)
    second = swaps(made(first), "a3")
    bench.store.swap(second)
    assert not bench.other.swap(first)
    assert stored(bench.store) == made(second)


def test_sinks_do_not_see_each_other(bench: Bench) -> None:
    for sink in ("a", "ab", "a.b", "A", "a-"):
        bench.store.create([StoredRow(sink, "1", sink), *rows(2, "1", sink, sink=sink)])
    assert set(bench.store.load("a")) == {"a", *(r.key for r in rows(2, "1", sink="a"))}
    assert all(r.body in ("a", '{"a":0}', '{"a":1}') for r in bench.store.load("a").values())


@pytest.mark.parametrize("sink", [".", "..", "a..", "%2E"])
def test_odd_sink_names(bench: Bench, sink: str) -> None:
    new = [StoredRow(sink, "1", "{}")]
    assert bench.store.create(new)
    assert list(bench.store.load(sink).values()) == new


NASTY = "ж 日本 🚀 ' \" \\ ` \\' \n \t \r \0 {x:String} %s $1 \x1b \u2028 --  /* */ ;"


def test_any_text_comes_back_as_it_was(bench: Bench) -> None:
    key = 'sink/topic/0/`odd \'table \\ "name" 🚀`'
    old = StoredRow(key, "a'1\\", NASTY)
    assert bench.store.create([old])
    assert bench.other.load("sink") == {key: old}
    new = StoredRow(key, "a'2\\", NASTY * 2)
    assert bench.store.swap([Swap(old.attempt, new)])
    assert bench.other.load("sink") == {key: new}


def test_writes_beyond_one_statement_are_grouped(bench: Bench) -> None:
    """2,000 rows of a real record's size, and rows so large that few fit a statement."""
    body = "x" * 380
    old = [StoredRow(f"sink/topic-of-some-length/{i}/database.table_name", "a" * 32, body) for i in range(2_000)]
    old += [StoredRow(f"sink/large/{i}/t", "a" * 32, "y" * 200_000) for i in range(5)]
    assert bench.store.create(old)
    assert bench.other.load("sink") == {r.key: r for r in old}
    change = [Swap(r.attempt, StoredRow(r.key, "b" * 32, r.body + "'")) for r in old]
    assert bench.store.swap(change)
    assert bench.other.load("sink") == {s.row.key: s.row for s in change}


def test_a_refused_group_ends_a_grouped_write(bench: Bench) -> None:
    old = [StoredRow(f"sink/large/{i}/t", "a1", "y" * 200_000) for i in range(6)]
    bench.store.create(old)
    taken = swaps(old[3:4], "foreign")
    bench.other.swap(taken)
    assert not bench.store.swap(swaps(old, "a2", body="n" * 200_000))
    attempts = [r.attempt for r in stored(bench.store)]
    applied = 2 if bench.store.durable else 0  # memory has one group
    assert attempts == ["a2"] * applied + ["a1"] * (3 - applied) + ["foreign", "a1", "a1"]


def test_of_racing_writers_exactly_one_wins_each_round(bench: Bench) -> None:
    old = rows(20, "round-0")
    bench.store.create(old)
    for number in range(1, 11):
        attempts = [f"round-{number}-{who}" for who in range(4)]
        outcomes: dict[str, bool] = {}
        start = threading.Barrier(len(attempts))
        current = stored(bench.store)

        def write(
            store: StateStore,
            attempt: str,
            current: list[StoredRow] = current,
            start: threading.Barrier = start,
            outcomes: dict[str, bool] = outcomes,
        ) -> None:
            start.wait()
            outcomes[attempt] = store.swap(swaps(current, attempt))

        stores = [bench.store, bench.other] * 2
        threads = [threading.Thread(target=write, args=a) for a in zip(stores, attempts, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [a for a, applied in outcomes.items() if applied]
        assert len(winners) == 1, outcomes
        assert {r.attempt for r in stored(bench.other)} == set(winners)
