"""A topic that tables share: which choice divides its records, and when another one may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.statemachine.commit.chain import Chain, Link, Sharing, Snapshot, StoredShare, TableView, read_chain
from chsink.statemachine.commit.handover import Beginning, TablePlace, begin, hand_over, stays
from chsink.statemachine.commit.plan import plan_commit
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange
from tests.unit.statemachine.commit.test_rules import HELD, TP, unit

OLD, NEW = "old", "new"
HELD_OLD = Link("id", 0, 8, OLD)
JOINING = TablePlace(None, NEW, joins=True)


@pytest.mark.parametrize(
    ("committed", "places", "expected"),
    [
        (8, [TablePlace(HELD_OLD, OLD), TablePlace(HELD_OLD, OLD)], Beginning("KEPT")),
        (8, [TablePlace(HELD_OLD, OLD), TablePlace(replace(HELD_OLD, until=5), OLD)], Beginning("KEPT")),
        (8, [TablePlace(HELD_OLD, NEW), TablePlace(HELD_OLD, NEW)], Beginning("KEPT")),
        (8, [TablePlace(HELD_OLD, NEW), TablePlace(Link("id", 0, 5))], Beginning("KEPT")),
        (8, [TablePlace(HELD_OLD, NEW), JOINING], Beginning("JOINS", origin=8)),
        (8, [TablePlace(replace(HELD_OLD, choice=""), NEW), JOINING], Beginning("JOINS", origin=8)),
        (None, [TablePlace(HELD_OLD, NEW), JOINING], Beginning("JOINS", origin=8, group=8)),
        (6, [TablePlace(HELD_OLD, NEW), JOINING], Beginning("JOINS", origin=8, group=8)),
        (8, [TablePlace(HELD_OLD, NEW), JOINING, TablePlace(HELD_OLD, left=True)], Beginning("JOINS", origin=8)),
        (8, [JOINING, TablePlace(HELD_OLD, left=True)], Beginning("JOINS", origin=8)),
        (8, [TablePlace(replace(HELD_OLD, until=5), OLD), TablePlace(None, joins=True)], Beginning("JOINS", origin=8)),
        (8, [TablePlace(HELD_OLD, OLD), TablePlace(None, OLD)], Beginning("TABLE_UNKNOWN", halt=CommitHalt.CHAIN_MISSING)),
        (8, [TablePlace(HELD_OLD, NEW), JOINING, TablePlace(None)], Beginning("TABLE_UNKNOWN", halt=CommitHalt.CHAIN_MISSING)),
    ],
)  # fmt: skip
def test_another_choice_begins_where_all_tables_are(
    committed: int | None, places: list[TablePlace], expected: Beginning
) -> None:
    assert begin("id", committed, places, 2) == expected


@pytest.mark.parametrize(
    "places",
    [
        [TablePlace(HELD_OLD, NEW), TablePlace(replace(HELD_OLD, until=5), NEW)],
        [TablePlace(replace(HELD_OLD, until=5), NEW), JOINING],
        [TablePlace(HELD_OLD, NEW), TablePlace(replace(HELD_OLD, until=5), left=True)],
        [TablePlace(HELD_OLD), TablePlace(replace(HELD_OLD, until=5), left=True)],
        [TablePlace(Link("id", 8, 8, OLD), NEW), TablePlace(Link("id", 4, 4, OLD), NEW)],
    ],
)
def test_another_choice_waits_for_what_the_one_before_divided(places: list[TablePlace]) -> None:
    """⚑ What a table lacks would be divided anew: a record would be in two tables, or in none."""
    assert begin("id", 8, places, 2) == Beginning("CHOICE_CHANGED", halt=CommitHalt.CHOICE_CHANGED)


@pytest.mark.parametrize(
    ("places", "halts"),
    [
        ([TablePlace(HELD_OLD, NEW), TablePlace(HELD_OLD, NEW)], True),
        ([TablePlace(HELD_OLD, NEW), JOINING], True),
        ([TablePlace(HELD_OLD, OLD), TablePlace(HELD_OLD, OLD)], False),
        ([TablePlace(HELD_OLD, OLD), TablePlace(None, joins=True)], False),
        ([TablePlace(HELD_OLD, NEW), TablePlace(None, NEW, joins=True)], True),
        ([TablePlace(HELD_OLD, left=True), TablePlace(None, NEW, joins=True)], True),
        ([TablePlace(HELD_OLD, OLD), TablePlace(None, OLD, joins=True)], False),
    ],
)
def test_another_choice_begins_once_nothing_waits(places: list[TablePlace], halts: bool) -> None:
    """⚑ A group that was lost or set back does not tell what was handed over: a table that left would take its share of it
    later, beside what was divided anew.  A table that was made again divides nothing anew.
    """
    assert (begin("id", 8, places, 2, waiting=True).halt is CommitHalt.CHOICE_CHANGED) == halts


def test_another_choice_waits_for_what_untouched_tables_do_not_tell_of() -> None:
    """⚑ All that was handed over still waits, and the group was lost: an earlier coordinator may commit it later."""
    places = [TablePlace(Link("id", 3, 3, OLD), NEW), JOINING]

    assert begin("id", None, places, 2, waiting=True).halt is CommitHalt.CHOICE_CHANGED
    assert begin("id", None, places, 2) == Beginning("HALF_FRESH", 3, 3)


@pytest.mark.parametrize(
    ("held", "waiting", "because"),
    [
        ((2, 5), False, "CHOICE_CHANGED"),
        ((2, 8), True, "CHOICE_CHANGED"),
        ((2, 8), False, "KEPT"),
        ((0, 0), True, "CHOICE_CHANGED"),
        ((0, 0), False, "KEPT"),
    ],
)
def test_a_choice_that_comes_back_after_one_that_none_of_its_tables_knows(
    held: tuple[int, int], *, waiting: bool, because: str
) -> None:
    """⚑ The group had it.  What other tables had taken meanwhile landed again.  A table that a person lets begin anew
    reads it all, once what waits for the others has landed.
    """
    places = [TablePlace(Link("id", *held, OLD), OLD)]
    assert begin("id", 8, places, 2, waiting=waiting, foreign=True).because == because
    assert begin("id", 8, places, 2, waiting=waiting).because == "KEPT"


@pytest.mark.parametrize(
    ("mine", "stored", "because"),
    [("", "", "NEXT"), (NEW, NEW, "NEXT"), (NEW, "", "OTHER_CHOICE"), ("", OLD, "OTHER_CHOICE")],
)
def test_a_worker_of_another_choice_is_refused(mine: str, stored: str, because: str) -> None:
    decided = hand_over(OffsetRange(5, 9), 5, mine, stored)

    assert decided.because == because and decided.refused == (because == "OTHER_CHOICE")


@pytest.mark.parametrize(("choice", "taken"), [(NEW, 1), (OLD, 0), ("", 0)])
def test_units_of_another_choice_are_read_again(choice: str, taken: int) -> None:
    held = replace(HELD, links={TP: Link("id", 0, 5, NEW)})
    found = unit(5, 9)
    plan = plan_commit(TableView("u", frozenset({0})), held, [replace(found, head=replace(found.head, choice=choice))])

    assert len(plan.taken) == taken
    assert [rule for rule, _ in plan.dropped] == ([] if taken else ["OTHER_CHOICE"])


@pytest.mark.parametrize(
    ("since", "sequence", "until"),
    [(5, 3, 5), (4, 3, 5), (7, 3, 7), (7, 4, 5)],
)
def test_a_stale_commit_does_not_set_a_table_back_below_its_choice(since: int, sequence: int, until: int) -> None:
    """⚑ It had no files there, so its records were other tables' then; now some may be its own.  After a rollback to
    before the choice (an older sequence), the records are gone.
    """
    share = StoredShare(Sharing(NEW, frozenset({"a", "b"})), since, sequence)
    own = Snapshot(30, 3, replace(HELD, snapshot_id=None, sequence=0))
    reading = read_chain(TableView("u", frozenset({0}), (own,), stored=HELD, shared={TP: share}))

    assert reading.chain is not None and reading.chain.links[TP] == Link("id", 0, until, NEW)


def test_a_share_of_a_topic_partition_that_the_chain_does_not_know_is_no_link() -> None:
    share = StoredShare(Sharing(NEW), 0, 0)

    assert read_chain(TableView("u", frozenset({0}), stored=Chain(), shared={TP: share})).chain == Chain()


@pytest.mark.parametrize(
    ("committed", "places", "log_start", "expected"),
    [
        (8, [TablePlace(HELD_OLD, OLD), TablePlace(replace(HELD_OLD, until=5), OLD)], 0, True),
        (9, [TablePlace(Link("id", 0, 8))], 0, True),
        (8, [TablePlace(Link("other", 0, 8))], 0, False),
        (None, [TablePlace(Link("id", 0, 8))], 0, False),
        (7, [TablePlace(Link("id", 0, 8))], 0, False),
        (8, [TablePlace(Link("id", 0, 8))], 9, False),
        (8, [TablePlace(Link("id", 0, 8)), TablePlace(None)], 0, False),
        (8, [TablePlace(HELD_OLD, NEW)], 0, False),
        (8, [TablePlace(HELD_OLD, NEW), JOINING], 0, False),
        (8, [TablePlace(HELD_OLD, OLD), TablePlace(HELD_OLD, left=True)], 0, False),
    ],
)
def test_which_topic_partition_may_wait_for_its_start(
    committed: int | None, places: list[TablePlace], log_start: int, expected: bool
) -> None:
    """⚑ The others go on without it only where its start would change nothing: else older workers divide its records,
    or hand over for tables that are to begin.
    """
    assert stays("id", committed, places, log_start=log_start) is expected
