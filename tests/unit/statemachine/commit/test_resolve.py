"""What a person's decision makes of a chain: never a record twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chsink.statemachine.commit.chain import Chain, Link, Sharing, Snapshot, StoredShare, TableView, read_chain
from chsink.statemachine.commit.resolve import Because, Log, Resolved, Sharer, TableVerdict, resolved, together
from chsink.statemachine.ranges import OffsetRange, TopicPartition

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
    skipped = of(ROLLED_BACK, TableVerdict.SKIP, start=12, waiting=(*waiting, 10))
    assert skipped.chain.links[TP].until == min(each for each in (*waiting, 10) if each >= 9)


def test_a_rollback_to_before_the_first_snapshot_of_the_mirror() -> None:
    """⚑ The rows may be of this topic-partition: a chain that was rebuilt from rows begins below its first snapshot."""
    found = view(Snapshot(7, 1), stored=replace(chain(9, 2, 2), skipped=3))
    decided = of(found, TableVerdict.REREAD, rows=())
    assert decided.chain.links == {TP: Link("id", 2, 2)} and decided.chain.snapshot_id is None
    for rows in (None, [OffsetRange(2, 5)]):
        assert resolved(found, {TP: replace(LOG, rows=rows)}, TableVerdict.REREAD) is None
        skipped = of(found, TableVerdict.SKIP, rows=rows)
        assert (skipped.chain.links, skipped.chain.skipped) == ({TP: Link("id", 2, 9)}, 3)
    assert of(replace(found, lineage=()), TableVerdict.REREAD).chain.links == {TP: Link("id", 2, 2)}, "no row is left"


def test_a_rollback_to_before_a_topic_partition_began() -> None:
    """⚑ It began at an offset: what is below was never the table's."""
    stored = replace(chain(9, 2, 2), links={TP: Link("id", 2, 9), OTHER: Link("id", 100, 120)})
    logs = {TP: LOG, OTHER: Log("id", 0, 130, 120, rows=())}
    decided = resolved(view(FIRST, stored=stored), logs, TableVerdict.REREAD)
    assert decided is not None and decided.chain.links == {TP: Link("id", 2, 5), OTHER: Link("id", 100, 100)}
    for rows in (None, [OffsetRange(90, 95)]):
        logs[OTHER] = replace(logs[OTHER], rows=rows)
        assert resolved(view(FIRST, stored=stored), logs, TableVerdict.REREAD) is None
    begun = replace(view(FIRST, stored=chain(9, 2, 2)), origins={OTHER: Link("id", 100, 100)})
    decided = resolved(begun, logs, TableVerdict.REREAD)
    assert decided is not None and decided.chain.links[OTHER] == Link("id", 100, 100), "nothing of it has landed yet"


def test_a_topic_that_no_route_names_and_that_was_rolled_back() -> None:
    """⚑ Its rows were gone, its ``until`` stayed: with its route again, they never landed.  Now ``START`` halts."""
    gone = TopicPartition("gone", 0)
    stored = replace(chain(9, 2, 2), links={TP: Link("id", 2, 9), gone: Link("g", 0, 4)})
    found = view(FIRST, stored=stored)
    assert gone not in of(found, TableVerdict.REREAD).chain.links
    assert of(found, TableVerdict.SKIP).chain.links[gone] == Link("g", 0, 4)
    kept = replace(FIRST, chain=replace(chain(5, None, 0), links={TP: Link("id", 2, 5), gone: Link("g", 0, 3)}))
    assert of(view(kept, stored=stored), TableVerdict.REREAD).chain.links[gone] == Link("g", 0, 3)


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


@pytest.mark.parametrize(
    ("rows", "until", "because"),
    [
        ([OffsetRange(2, 12)], 12, Because.ROWS),
        ([OffsetRange(2, 5)], 9, Because.CHAIN),
        ([OffsetRange(2, 30)], 9, Because.CHAIN),  # of an earlier topic: no log ends before what the chain says
    ],
)
@pytest.mark.parametrize(
    "found",
    [
        view(Snapshot(7, 1), stored=chain(9, 2, 2)),
        view(Snapshot(7, 1), stored=chain(9, 2, 2), cut=True),
        view(Snapshot(3, 3), FIRST, stored=chain(9, 2, 2)),
    ],
    ids=["no own snapshot", "history is cut", "written after the rollback"],
)
def test_rows_behind_what_the_table_remembers(
    found: TableView, rows: list[OffsetRange], until: int, because: Because
) -> None:
    """⚑ The chain was set back, and then the table to a snapshot beside its history: the rows there landed again."""
    decided = of(found, TableVerdict.SKIP, rows=rows)
    assert decided.chain.links == {TP: Link("id", 2, until)} and decided.because == {TP: because}
    assert not decided.group and not decided.forgotten


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
    assert decided.chain.links == {TP: Link("id", 2, 9), elsewhere: Link("other id", 0, 4)}


@pytest.mark.parametrize(
    ("choice", "committed", "until"),
    [(TableVerdict.REREAD, 12, 3), (TableVerdict.SKIP, 12, 12), (TableVerdict.SKIP, None, 20)],
)
def test_a_new_table(choice: TableVerdict, committed: int | None, until: int) -> None:
    decided = of(view(), choice, start=3, committed=committed)
    assert decided.chain.links == {TP: Link("id", until, until)} and not decided.group


@pytest.mark.parametrize(("choice", "until"), [(TableVerdict.REREAD, 3), (TableVerdict.SKIP, 20)])
def test_a_recreated_topic(choice: TableVerdict, until: int) -> None:
    """⚑ The group may still be where the earlier topic was; partitions may be fewer.  A backfill that was asked for
    before landed what ``SKIP`` leaves out.
    """
    stored = chain(9, 2, 2, "gone")
    stored = replace(stored, links={**stored.links, OTHER: Link("gone", 0, 4)})
    decided = of(view(SECOND, stored=stored), choice, start=3)
    assert decided.chain.links == {TP: Link("id", 3, until)}
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
    assert decided.forgotten == {TP} and not of(found, TableVerdict.SKIP, end=9, committed=9).forgotten


@pytest.mark.parametrize(("choice", "until"), [(TableVerdict.REREAD, 3), (TableVerdict.SKIP, 8)])
def test_an_empty_table_for_a_log_that_lost_records(choice: TableVerdict, until: int) -> None:
    """⚑ The group is beyond the log's end: each start would be refused, until the log has passed it without a word."""
    decided = of(view(), choice, start=3, end=8, committed=12)
    assert decided.chain.links == {TP: Link("id", until, until)}
    assert (decided.group, decided.forgotten) == ({TP: 8}, frozenset({TP}))


# --- rows ------------------------------------------------------------------------------------------------------------

LOST = view(Snapshot(7, 1))
ROWS = (OffsetRange(3, 5), OffsetRange(6, 9))


def of_both(found: TableView, choice: TableVerdict, first: Log, second: Log) -> Resolved | None:
    return resolved(found, {TP: first, OTHER: second}, choice)


@pytest.mark.parametrize(
    ("rows", "waiting", "because", "link", "given_up"),
    [
        ((), (), Because.NO_ROW, Link("id", 2, 2), ""),
        ((), (1, 4), Because.NO_ROW, Link("id", 1, 1), ""),
        (ROWS, (), Because.ROWS, Link("id", 3, 9), "[2, 6)"),
        ((OffsetRange(0, 9),), (), Because.ROWS, Link("id", 0, 9), ""),
        ((OffsetRange(0, 30),), (), Because.SHRANK, Link("id", 0, 20), "[2, 20)"),
    ],
)
def test_a_table_that_lost_its_chain_and_has_rows(
    rows: tuple[OffsetRange, ...], waiting: tuple[int, ...], because: Because, link: Link, given_up: str
) -> None:
    """⚑ A topic-partition without a row was given up to the group's offset; one with rows began at their end, so that a
    backfill landed them again.
    """
    mine = replace(LOG, start=2, rows=rows, waiting=waiting)
    decided = of_both(LOST, TableVerdict.SKIP, mine, replace(LOG, rows=ROWS))
    assert decided is not None and decided.chain.links[TP] == link and decided.because[TP] is because
    assert decided.given_up[TP].is_empty if not given_up else str(decided.given_up[TP]) == given_up


def test_rows_below_the_chain_that_was_set_back() -> None:
    """⚑ A backfill that was asked for before landed them again."""
    beside = view(Snapshot(3, 3), stored=chain(9, 2, 2))
    assert of(beside, TableVerdict.SKIP, rows=(OffsetRange(0, 4),)).chain.links == {TP: Link("id", 0, 9)}
    earlier = of(beside, TableVerdict.SKIP, rows=(OffsetRange(0, 30),))  # of an earlier topic
    assert earlier.chain.links == {TP: Link("id", 2, 9)}


@pytest.mark.parametrize(("committed", "group"), [(12, 12), (None, 20)])
def test_rows_alone_tell_that_the_log_lost_records(committed: int | None, group: int) -> None:
    """⚑ An old checkpoint's plan was read of the new log: only where the group moves, a new one is asked for."""
    decided = of(LOST, TableVerdict.SKIP, rows=(OffsetRange(0, 30),), committed=committed)
    assert decided.because == {TP: Because.SHRANK} and decided.group == {TP: group} and not decided.forgotten


@pytest.mark.parametrize(
    ("rows", "because", "origin"), [((), Because.NEW, 12), (None, Because.UNTOLD, 0)], ids=["no rows", "untold"]
)
def test_a_table_without_a_row_of_its_topics_is_new(
    rows: tuple[OffsetRange, ...] | None, because: Because, origin: int
) -> None:
    """⚑ Where rows do not tell, the table may hold what comes before: a backfill landed it again."""
    decided = of(LOST, TableVerdict.SKIP, rows=rows)
    assert decided.chain.links == {TP: Link("id", origin, 12)} and decided.because == {TP: because}
    assert decided.given_up == {TP: OffsetRange(0, 12)}


def test_a_chain_that_lacks_a_topic_partition_whose_rows_are_there() -> None:
    """⚑ Its rows were not asked for: they would have landed again."""
    found = view(SECOND, FIRST, stored=chain(9, 2, 2))
    assert of_both(found, TableVerdict.REREAD, LOG, replace(LOG, rows=ROWS)) is None
    decided = of_both(found, TableVerdict.SKIP, LOG, replace(LOG, rows=ROWS, committed=4))
    assert decided is not None and decided.chain.links == {TP: Link("id", 2, 9), OTHER: Link("id", 3, 9)}
    assert decided.because == {TP: Because.CHAIN, OTHER: Because.ROWS}


def test_a_topic_partition_of_which_only_the_origin_is_stored() -> None:
    """⚑ It has not landed anything yet, and what was handed over was given up."""
    found = replace(LOST, origins={TP: Link("id", 5, 5)})
    assert of(found, TableVerdict.SKIP).chain.links == {TP: Link("id", 5, 5)}


def test_a_partition_that_a_recreated_topic_has_more() -> None:
    """⚑ The group's offset is one of the earlier topic."""
    decided = of_both(view(SECOND, stored=chain(9, 2, 2, "gone")), TableVerdict.REREAD, LOG, LOG)
    assert decided is not None and decided.chain.links == {TP: Link("id", 0, 0), OTHER: Link("id", 0, 0)}


@pytest.mark.parametrize(
    ("found", "given_up"),
    [(ROLLED_BACK, "[5, 9)"), (view(Snapshot(3, 3), FIRST, stored=chain(9, 2, 2)), "[5, 9)"), (view(), "[3, 12)")],
    ids=["rolled back", "written after the rollback", "new"],
)
def test_what_is_given_up(found: TableView, given_up: str) -> None:
    assert str(of(found, TableVerdict.SKIP, start=3).given_up[TP]) == given_up
    if given_up != "[5, 9)" or found is ROLLED_BACK:
        assert of(found, TableVerdict.REREAD, start=3).given_up[TP].is_empty


# --- tables that share a topic ---------------------------------------------------------------------------------------

MINE, EARLIER = Sharing("mine", frozenset({"a", "b"})), Sharing("earlier", frozenset({"a", "b"}))
SHARE = StoredShare(MINE, 7, 1)


def at(named: dict[str, Sharer], *others: StoredShare | None) -> dict[str, tuple[int, int | None, bool]] | None:
    found = together(named, others, MINE)
    return (
        None
        if found is None
        else {name: (log.least, log.committed, log.sharing == MINE) for name, log in found.items()}
    )


def test_tables_that_all_lost_how_they_share_a_topic() -> None:
    """⚑ Each continued at its own offset, and the next start halted."""
    lost = {"a": Sharer(LOG, None, 9), "b": Sharer(LOG, None, 6), "c": Sharer(LOG, None, 12, new=True)}
    assert at(lost) == dict.fromkeys(lost, (9, 9, True))
    assert at({"c": lost["c"]}) == {"c": (12, 12, True)}
    assert at({"b": lost["b"]}, None) is None
    assert at({"b": lost["b"]}, StoredShare(EARLIER, 1, 1)) is None


def test_a_table_that_lost_how_it_shares_a_topic_with_one_that_knows() -> None:
    """⚑ Below the offset from which the map holds, a record may be in another table."""
    assert at({"b": Sharer(LOG, None, 6)}, SHARE) == {"b": (7, 12, True)}
    assert at({"b": Sharer(LOG, None, 6), "a": Sharer(LOG, SHARE, 9)}) == {"b": (7, 12, True), "a": (7, 12, False)}
    assert at({"a": Sharer(LOG, SHARE, 9)}, None) == {"a": (7, 12, False)}


def test_tables_whose_map_has_changed_go_on_where_the_group_is() -> None:
    """⚑ ``START`` goes on only if no table lacks records that were divided by the earlier map."""
    earlier = StoredShare(EARLIER, 1, 1)
    assert at({"a": Sharer(LOG, earlier, 9), "b": Sharer(LOG, SHARE, 6)}) == dict.fromkeys("ab", (12, 12, False))
