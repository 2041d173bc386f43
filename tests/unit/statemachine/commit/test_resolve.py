"""What a person's decision makes of a chain: never a record twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chsink.statemachine.commit.chain import Chain, Link, Snapshot, TableView, read_chain
from chsink.statemachine.commit.resolve import Log, Resolved, TableVerdict, resolved
from chsink.statemachine.ranges import TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = Log("id", 0, 20, 12)


def chain(until: int, snapshot: int | None, sequence: int, topic_id: str = "id") -> Chain:
    return Chain({TP: Link(topic_id, 2, until)}, "c", {0: until}, "", snapshot, sequence)


def view(*lineage: Snapshot, stored: Chain | None = None, cut: bool = False) -> TableView:
    return TableView("u", frozenset({0}), lineage, cut, stored)


FIRST, SECOND = Snapshot(1, 1, chain(5, None, 0)), Snapshot(2, 2, chain(9, None, 0))
ROLLED_BACK = view(FIRST, stored=chain(9, 2, 2))


def of(found: TableView, choice: TableVerdict, **log: Any) -> Resolved:
    decided = resolved(found, {TP: replace(LOG, **log)}, choice)
    assert decided is not None
    after = replace(found, stored=decided.chain, origins={})
    assert read_chain(after).chain == decided.chain, "the next start goes on"
    return decided


@pytest.mark.parametrize(
    ("choice", "start", "link"),
    [
        (TableVerdict.REREAD, 0, Link("id", 2, 5)),
        (TableVerdict.REREAD, 7, Link("id", 2, 7)),
        (TableVerdict.SKIP, 0, Link("id", 2, 9)),
        (TableVerdict.SKIP, 10, Link("id", 2, 10)),
    ],
)
def test_a_rollback(choice: TableVerdict, start: int, link: Link) -> None:
    """What was handed over after the rollback lands either way."""
    decided = of(ROLLED_BACK, choice, start=start)
    assert decided.chain.links == {TP: link} and not decided.group
    assert (decided.chain.snapshot_id, decided.chain.control) == (1, {0: 9})


@pytest.mark.parametrize(("waiting", "until"), [((7,), 7), ((6, 5), 5), ((2,), 8), ((9,), 8)])
def test_files_that_wait_for_a_commit_are_not_given_up(waiting: tuple[int, ...], until: int) -> None:
    """⚑ Kafka deleted their records meanwhile: the files are all there is."""
    decided = of(ROLLED_BACK, TableVerdict.REREAD, start=8, waiting=waiting)
    assert decided.chain.links[TP].until == until


def test_a_rollback_to_before_the_first_snapshot_of_the_mirror() -> None:
    foreign = Snapshot(7, 1)
    decided = of(view(foreign, stored=chain(9, 2, 2)), TableVerdict.REREAD)
    assert decided.chain.links == {TP: Link("id", 2, 2)} and decided.chain.snapshot_id is None


@pytest.mark.parametrize(
    "found",
    [
        view(Snapshot(3, 3), FIRST, stored=chain(9, 2, 2)),
        view(Snapshot(7, 1), stored=chain(9, 2, 2), cut=True),
        view(Snapshot(7, 1)),
        view(cut=True),
    ],
    ids=["written after the rollback", "history is cut", "rows of somebody", "history is gone"],
)
def test_rows_that_nobody_speaks_of(found: TableView) -> None:
    """⚑ To read again could double them; to skip cannot."""
    assert resolved(found, {TP: LOG}, TableVerdict.REREAD) is None
    links = of(found, TableVerdict.SKIP).chain.links
    assert links[TP].until == (9 if found.stored else 12)


@pytest.mark.parametrize(("choice", "until"), [(TableVerdict.REREAD, 2), (TableVerdict.SKIP, 9)])
def test_a_table_that_was_created_again_with_the_properties_of_the_earlier_one(
    choice: TableVerdict, until: int
) -> None:
    """⚑ It has no snapshot, so it holds nothing, whatever the property says."""
    decided = of(view(stored=chain(9, 2, 2), cut=True), choice)
    assert decided.chain.links == {TP: Link("id", 2, until)} and decided.chain.snapshot_id is None


def test_what_a_table_holds_of_topics_without_a_route_is_kept() -> None:
    """⚑ A chain that forgot them would begin them once more when their route comes back, and double their rows."""
    elsewhere = TopicPartition("without a route", 0)
    stored = chain(9, 2, 2)
    stored = replace(stored, links={**stored.links, elsewhere: Link("other id", 0, 4)})
    decided = of(view(Snapshot(3, 3), FIRST, stored=stored), TableVerdict.SKIP)
    assert decided.chain.links == {TP: Link("id", 9, 9), elsewhere: Link("other id", 0, 4)}


@pytest.mark.parametrize(
    ("choice", "committed", "until"),
    [(TableVerdict.REREAD, 12, 3), (TableVerdict.SKIP, 12, 12), (TableVerdict.SKIP, None, 20)],
)
def test_a_new_table(choice: TableVerdict, committed: int | None, until: int) -> None:
    decided = of(view(), choice, start=3, committed=committed)
    assert decided.chain.links == {TP: Link("id", until, until)} and not decided.group


@pytest.mark.parametrize(("choice", "until"), [(TableVerdict.REREAD, 3), (TableVerdict.SKIP, 20)])
def test_a_recreated_topic(choice: TableVerdict, until: int) -> None:
    """⚑ The group may still be where the earlier topic was; partitions may be fewer."""
    stored = chain(9, 2, 2, "gone")
    stored = replace(stored, links={**stored.links, OTHER: Link("gone", 0, 4)})
    decided = of(view(SECOND, stored=stored), choice, start=3)
    assert decided.chain.links == {TP: Link("id", until, until)}
    assert decided.group == {TP: until}


def test_brokers_that_begin_to_report_ids() -> None:
    """⚑ It is the same topic, for all one knows."""
    decided = of(view(SECOND, stored=chain(9, 2, 2, "")), TableVerdict.REREAD)
    assert decided.chain.links == {TP: Link("id", 2, 9)} and not decided.group


@pytest.mark.parametrize("end", [7, 1])
def test_a_log_that_lost_records(end: int) -> None:
    """⚑ Its offsets are used again: nobody knows from which one on, and what waits for a commit was read before."""
    found = view(SECOND, FIRST, stored=chain(9, 2, 2))
    assert resolved(found, {TP: replace(LOG, end=end)}, TableVerdict.REREAD) is None
    decided = of(found, TableVerdict.SKIP, end=end)
    assert decided.chain.links == {TP: Link("id", min(2, end), end)} and decided.group == {TP: end}
    assert decided.forget and not of(found, TableVerdict.SKIP, end=9).forget
