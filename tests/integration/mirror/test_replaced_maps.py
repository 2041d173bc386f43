"""A map of ``table_by`` replaces all tables of another one: what waits for these is committed by the start that finds it."""

from __future__ import annotations

import pytest

from chsink.errors import HaltError
from chsink.mirror.task import Share
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.commands import follow
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.test_changed_maps import beside_plain, handed_over
from tests.integration.mirror.test_table_by import offsets, running, send
from tests.support.kafka import add_partitions
from tests.support.told import says

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.parametrize("added", ["halt", "now"])]

ALL_OF_BOTH = {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7]}


def waiting(make_bench: MakeBench, added: str) -> Bench:
    """Of the offsets 0 to 7 of the tables ``a`` and ``b``, beside ``p``, half wait for a commit."""
    bench = make_bench(tables=("a", "b", "c", "d", "p"))
    with running(bench, beside_plain(bench, "ab", "p", added=added)) as hand_over:
        hand_over(*send(bench, "xyxy"))
    handed_over(bench, beside_plain(bench, "ab", "p", added=added), "xyxy")
    return bench


def taken_by_d(bench: Bench, added: str) -> None:
    """A map of ``p`` and ``d`` replaces that of ``a`` and ``b``, and takes two records."""
    with pytest.raises(HaltError, match="CHS-342") as error, running(bench, beside_plain(bench, "pd", added=added)):
        pass
    follow(bench, error.value, "--skip", job=bench.folder / "job.toml")
    with running(bench, beside_plain(bench, "pd", added=added)) as hand_over:
        hand_over(*send(bench, "xy"))


def with_a_lost_report(make_bench: MakeBench, added: str) -> Bench:
    """The offsets 4 to 9 wait for a commit.  Of 4 to 7, the reports are lost but for that of ``p``."""
    bench, lost = waiting(make_bench, added), OffsetRange(4, 8)
    bench.delete_events()
    mirror = beside_plain(bench, "ab", "p", added=added)
    mirror.feeds().hand_over(Share(bench.tp(), lost, "shop.p"), bench.records()(lost))
    handed_over(bench, mirror, "xy")
    return bench


def test_by_one_that_takes_all_records_and_a_new_one(make_bench: MakeBench, added: str) -> None:
    """⚑ Found by an adversary: that table knew the offsets, so nothing halted, and what waited was passed over."""
    bench = waiting(make_bench, added)
    taken_by_d(bench, added)
    assert offsets(bench, *"abdp") == {**ALL_OF_BOTH, "p": [*range(9)], "d": [9]}


def test_while_the_topic_was_created_again(make_bench: MakeBench, added: str) -> None:
    """⚑ Found by an adversary: with the topic, Kafka forgets which map was in force."""
    bench = waiting(make_bench, added)
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    with pytest.raises(HaltError, match="CHS-345"), running(bench, beside_plain(bench, "cd", "p", added=added)):
        pass
    assert offsets(bench, *"abp") == {**ALL_OF_BOTH, "p": [*range(8)]}


def test_while_a_partition_is_added(make_bench: MakeBench, added: str) -> None:
    """⚑ Found by an adversary: the tables of the new map alone knew the partition, so to undo the change halted, too."""
    bench = waiting(make_bench, added)
    add_partitions(bench.kafka.bootstrap, bench.topic, 2)
    with (
        pytest.raises(HaltError, match="CHS-342") as error,
        running(bench, beside_plain(bench, "cd", "p", added=added)),
    ):
        pass
    with running(bench, beside_plain(bench, "ab", "p", added=added)):
        pass
    beside_plain(bench, "cd", "p", added=added)
    follow(bench, error.value, "--skip", job=bench.folder / "job.toml")
    with running(bench, beside_plain(bench, "cd", "p", added=added)) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, *"abcdp") == {**ALL_OF_BOTH, "c": [8], "d": [9], "p": [*range(10)]}


def test_after_a_report_was_lost(make_bench: MakeBench, added: str) -> None:
    """⚑ What waited behind the lost one was passed over, and the other never read again.  Now the change is undone first."""
    bench = with_a_lost_report(make_bench, added)
    with pytest.raises(HaltError, match="CHS-342") as error, running(bench, beside_plain(bench, "pd", added=added)):
        pass
    says(error.value, "first undo the change, run the mirror until", "and change table_by again")
    with running(bench, beside_plain(bench, "ab", "p", added=added)):
        pass
    taken_by_d(bench, added)
    both = {"a": [0, 2, 4, 6, 8], "b": [1, 3, 5, 7, 9]}
    assert offsets(bench, *"abdp") == {**both, "p": [*range(11)], "d": [11]}


def test_by_one_whose_tables_had_no_record_yet(make_bench: MakeBench, added: str) -> None:
    """⚑ Found by an adversary: it did not halt, so what waited for the tables of the map between was passed over."""
    bench = make_bench(tables=("a", "b", "c", "d"))
    with running(bench, beside_plain(bench, "ab", added=added)):
        pass
    with pytest.raises(HaltError, match="CHS-342") as error, running(bench, beside_plain(bench, "cd", added=added)):
        pass
    follow(bench, error.value, "--skip", job=bench.folder / "job.toml")
    with running(bench, beside_plain(bench, "cd", added=added)) as hand_over:
        hand_over(*send(bench, "xyxy"))
    handed_over(bench, beside_plain(bench, "cd", added=added), "xyxy")
    with running(bench, beside_plain(bench, "ab", added=added)) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, *"cd") == {"c": [0, 2, 4, 6], "d": [1, 3, 5, 7]}
