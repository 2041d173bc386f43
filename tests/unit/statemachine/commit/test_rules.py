"""Each rule of the commit tables in its own case, and the stored form of a chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chsink.statemachine.commit.chain import (
    CHAIN,
    Chain,
    DamagedChain,
    Link,
    Links,
    Reading,
    Snapshot,
    TableView,
    decode,
    encode,
    read_chain,
    with_origin,
)
from chsink.statemachine.commit.handover import HAND_OVER, START, Beginning, TablePlace, begin, hand_over
from chsink.statemachine.commit.plan import UNITS, Kind, holes, plan_commit
from chsink.statemachine.commit.recover import RECOVER, RowsFound, recovered
from chsink.statemachine.commit.render import commit_tables, page
from chsink.statemachine.commit.rounds import (
    ROUND,
    CommitPace,
    Due,
    Reached,
    RoundView,
    answered,
    due,
    low_watermark,
    valid_through,
)
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.commit.takeover import FILES, LEFT, ReportedFile, Stopped, continued, waits
from chsink.statemachine.commit.units import DamagedUnit, Head, Position, Unit, UnitPart, assemble
from chsink.statemachine.ranges import OffsetRange, TopicPartition

DOCS = Path(__file__).parents[4] / "docs"
TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
HELD = Chain({TP: Link("id", 0, 5)}, "c", {0: 7}, "commit", 30, 3)
OWN = Snapshot(30, 3, replace(HELD, snapshot_id=None, sequence=0))
FOREIGN = Snapshot(40, 4)
OLDER = Snapshot(20, 2, Chain({TP: Link("id", 0, 2)}))


def unit(
    start: int,
    end: int,
    *,
    files: tuple[str, ...] = ("f",),
    unit_id: str = "",
    tp: TopicPartition = TP,
    uuid: str = "u",
    topic_id: str = "id",
    spec: int = 0,
    whole: bool = True,
    at: int = 0,
) -> Unit:
    name = unit_id or f"{tp}{start}{end}"
    head = Head(name, "db.t", uuid, tp, topic_id, OffsetRange(start, end), spec, 1 if whole else 2)
    return Unit(head, tuple(f"{name}{f}" for f in files), (Position(0, at),), whole)


def view(*lineage: Snapshot, cut: bool = False, stored: Chain | None = HELD) -> TableView:
    return TableView("u", frozenset({0}), lineage, cut, stored)


def test_the_page_is_what_the_code_says() -> None:
    """Generated again by ``make docs``."""
    present = (DOCS / "mirror.md").read_text(encoding="utf-8")

    assert commit_tables() in present
    assert page(present) == present, "run: make docs"


def test_every_table_is_total() -> None:
    for rules in (CHAIN, START, HAND_OVER, UNITS, ROUND, RECOVER, FILES, LEFT):
        assert len({rule.name for rule in rules}) == len(rules)


# --- which chain a table has -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "because", "chain"),
    [
        (view(stored=None), "NEW", None),
        (view(FOREIGN, stored=None), "NEW", None),
        (view(OWN, OLDER, stored=None), "PROPERTY_LOST", HELD),
        (view(FOREIGN, OWN, OLDER), "CURRENT", HELD),
        (view(FOREIGN, stored=replace(HELD, snapshot_id=None)), "CURRENT", replace(HELD, snapshot_id=None)),
        (view(FOREIGN, cut=True), "EXPIRED", HELD),
    ],
)
def test_a_chain_is_found(seen: TableView, because: str, chain: Chain | None) -> None:
    assert read_chain(seen) == Reading(because, chain)


@pytest.mark.parametrize(
    ("seen", "because", "halt"),
    [
        (view(OWN, stored=replace(HELD, snapshot_id=20, sequence=2)), "PROPERTY_OLD", CommitHalt.CHAIN_DAMAGED),
        (view(OWN, stored=replace(HELD, snapshot_id=None, sequence=0)), "PROPERTY_OLD", CommitHalt.CHAIN_DAMAGED),
        (view(OLDER), "ROLLED_BACK", CommitHalt.ROLLED_BACK),
        (view(), "ROLLED_BACK", CommitHalt.ROLLED_BACK),
        (view(cut=True), "ROLLED_BACK", CommitHalt.ROLLED_BACK),
        (view(FOREIGN, OLDER), "ROLLED_BACK", CommitHalt.ROLLED_BACK),
        (view(FOREIGN, OLDER, cut=True), "ROLLED_BACK", CommitHalt.ROLLED_BACK),
    ],
)
def test_a_table_that_was_changed_halts(seen: TableView, because: str, halt: CommitHalt) -> None:
    assert read_chain(seen) == Reading(because, None, halt)


@pytest.mark.parametrize(
    ("then", "before", "because"),
    [
        (9, 9, "EXPIRED"),
        (9, 12, "EXPIRED"),
        (9, 8, "ROWS_GONE"),
        (9, None, "EXPIRED"),
        (None, 8, "EXPIRED"),
    ],
)
def test_rows_that_are_gone_are_missed_after_expiry(then: int | None, before: int | None, because: str) -> None:
    """⚑ Rolled back, compacted and expired while the mirror was down: 57 rows were gone without a word."""
    seen = replace(view(FOREIGN, cut=True, stored=replace(HELD, rows=then)), rows_before=before)
    assert read_chain(seen).because == because
    assert (read_chain(seen).halt is CommitHalt.ROWS_GONE) == (because == "ROWS_GONE")
    kept = replace(view(FOREIGN, OWN, stored=replace(HELD, rows=then)), rows_before=before)
    assert read_chain(kept).because == "CURRENT"


def test_a_chain_survives_its_stored_form() -> None:
    links = {TP: Link("id", 2, 5), TopicPartition("t", 3): Link("id", 0, 0), OTHER: Link("id", 1, 9)}
    chain = replace(HELD, links=links, rows=12, skipped=7)
    assert decode(encode(chain)) == chain
    assert decode(encode(Chain())) == Chain()


def test_the_stored_form_is_this() -> None:
    """⚑ It is read by later versions."""
    assert encode(replace(HELD, links={OTHER: Link("id", 2, 5)})) == (
        '{"commit":"commit","control":["c",{"0":7}],"rows":null,"sequence":3,"skipped":0,"snapshot":30,'
        '"topics":{"t":["id",[null,2],[null,5]]},'
        '"version":1}'
    )


def test_the_stored_form_of_a_thousand_partitions_is_small() -> None:
    """K-11: this is what a snapshot's summary carries."""
    links = {TopicPartition("t", n): Link("W8Rn3hE4T0aGJ1uV5yQkZg", 0, 10**9 + n) for n in range(1000)}
    assert len(encode(Chain(links))) < 14_000


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version":2}', '{"version":1}', encode(HELD)[:-3]])
def test_a_damaged_chain_is_refused(text: str) -> None:
    with pytest.raises(DamagedChain):
        decode(text)


def test_damaged_numbers_are_refused() -> None:
    document = json.loads(encode(HELD))
    document["topics"]["t"] = ["id", [9], [5]]
    with pytest.raises(DamagedChain):
        decode(json.dumps(document))


def test_an_origin_is_stored_once() -> None:
    chain = with_origin(HELD, OTHER, "id", 4)
    assert chain.links[OTHER] == Link("id", 4, 4) and chain.links[OTHER].untouched
    with pytest.raises(AssertionError):
        with_origin(chain, OTHER, "id", 4)


# --- which units a commit takes --------------------------------------------------------------------------------------


def test_units_are_taken_in_the_order_of_their_offsets() -> None:
    plan = plan_commit(view(), HELD, [unit(8, 9, files=()), unit(5, 8, files=("a", "b"))])
    assert [u.range for u in plan.taken] == [OffsetRange(5, 8), OffsetRange(8, 9)]
    assert plan.links[TP].until == 9 and plan.kind is Kind.APPEND and len(plan.files) == 2


@pytest.mark.parametrize(
    ("case", "fate"),
    [
        (unit(0, 5), "DUPLICATE"),
        (unit(5, 5), "DUPLICATE"),
        (unit(4, 6), "STRADDLING"),
    ],
)
def test_what_landed_is_dropped(case: Unit, fate: str) -> None:
    plan = plan_commit(view(), HELD, [case])
    assert plan.dropped == ((fate, case),) and plan.kind is Kind.NOTHING and plan.links == HELD.links


@pytest.mark.parametrize("case", [unit(6, 7), unit(5, 7, whole=False)])
def test_what_cannot_land_yet_waits(case: Unit) -> None:
    plan = plan_commit(view(), HELD, [case])
    assert plan.waiting == (case,) and plan.kind is Kind.NOTHING and plan.links == HELD.links


def test_of_two_units_from_one_offset_the_longer_one_is_taken() -> None:
    plan = plan_commit(view(), HELD, [unit(5, 7), unit(5, 9), unit(7, 9)])
    assert [u.range for u in plan.taken] == [OffsetRange(5, 9)]
    assert [fate for fate, _ in plan.dropped] == ["DUPLICATE", "DUPLICATE"]


def test_a_unit_without_files_moves_the_chain_and_nothing_else() -> None:
    """D20: without a trace in the table, the next unit would wait for it for ever."""
    plan = plan_commit(view(), HELD, [unit(5, 7, files=())])
    assert plan.kind is Kind.MOVE and plan.links[TP].until == 7 and plan.files == ()


@pytest.mark.parametrize(
    ("case", "halt"),
    [
        (unit(5, 6, uuid="other"), CommitHalt.TABLE_RECREATED),
        (unit(5, 6, tp=OTHER), CommitHalt.CHAIN_MISSING),
        (unit(5, 6, topic_id="other"), CommitHalt.TOPIC_RECREATED),
    ],
)
def test_what_belongs_to_something_else_halts_the_table(case: Unit, halt: CommitHalt) -> None:
    plan = plan_commit(view(), HELD, [unit(5, 5), case])
    assert plan.halt is halt and plan.kind is Kind.NOTHING and plan.links == HELD.links and plan.at == case.head.tp


def test_a_unit_of_a_partition_spec_that_is_gone_is_read_again() -> None:
    """⚑ No manifest can name its files: a reader would not find the spec."""
    plan = plan_commit(view(), HELD, [unit(5, 6, spec=1)])
    assert [(why, u.range) for why, u in plan.dropped] == [("SPEC_GONE", OffsetRange(5, 6))]
    assert plan.kind is Kind.NOTHING and plan.links == HELD.links
    both = replace(view(), specs=frozenset({0, 1}))
    assert len(plan_commit(both, HELD, [unit(5, 6, spec=1), unit(6, 7)]).taken) == 2


def test_a_unit_without_files_is_of_no_spec() -> None:
    assert plan_commit(view(), HELD, [unit(5, 6, files=(), spec=1)]).kind is Kind.MOVE


def test_an_origin_stands_in_where_a_chain_lacks_the_topic_partition() -> None:
    """Only beside a chain: alone, it would say that a table that lost its chain holds nothing."""
    origins = {TP: Link("id", 0, 0), OTHER: Link("id", 2, 2)}
    read = read_chain(replace(view(OWN), origins=origins)).chain
    assert read is not None and read.links == {TP: Link("id", 0, 5), OTHER: Link("id", 2, 2)}
    assert read_chain(replace(view(stored=None), origins=origins)).chain is None


def test_holes_are_what_the_group_passed_and_nobody_brings() -> None:
    links = {TP: Link("id", 0, 5), OTHER: Link("id", 0, 5)}
    assert holes(links, [], {TP: 9, OTHER: 5}) == {TP: OffsetRange(5, 9)}
    assert holes(links, [unit(7, 9)], {TP: 9}) == {TP: OffsetRange(5, 7)}
    assert holes(links, [unit(7, 9, whole=False)], {TP: 9}) == {TP: OffsetRange(5, 9)}
    assert holes(links, [unit(5, 9, whole=False)], {TP: 9}) == {TP: OffsetRange(5, 9)}
    assert holes(links, [], {TP: 4, TopicPartition("x", 0): 8}) == {}


def test_what_a_table_that_failed_has_not_taken_yet_is_no_hole() -> None:
    """While a catalog is away, each round would read it again and hand it over once more."""
    links = {TP: Link("id", 0, 5)}
    assert holes(links, [unit(5, 9)], {TP: 9}) == {}
    assert holes(links, [unit(5, 7), unit(8, 9)], {TP: 9}) == {}


# --- parts -----------------------------------------------------------------------------------------------------------


def part(number: int, *files: str, head: Head | None = None, at: int = 0) -> UnitPart:
    return UnitPart(head or Head("x", "db.t", "u", TP, "id", OffsetRange(5, 9), 0, 2), number, files, Position(0, at))


def test_a_unit_is_whole_with_its_last_part() -> None:
    """⚑ D18: a commit between two polls of one transaction would lose the second half."""
    (half,) = assemble([part(1, "b", at=4)])
    assert not half.whole
    (both,) = assemble([part(1, "b", at=4), part(0, "a", at=3), part(1, "b", at=4)])
    assert both.whole and both.files == ("a", "b") and both.at == (Position(0, 3), Position(0, 4))


def test_a_location_counts_once() -> None:
    """⚑ K-6: the same file twice in one append doubles its rows."""
    (both,) = assemble([part(0, "a", "a"), part(1, "a", "b")])
    assert both.files == ("a", "b")


def test_parts_of_two_attempts_do_not_mix() -> None:
    other = Head("y", "db.t", "u", TP, "id", OffsetRange(5, 9), 0, 2)
    assert [u.whole for u in assemble([part(0, "a"), part(1, "b", head=other)])] == [False, False]


@pytest.mark.parametrize(
    "second", [part(1, "c"), part(0, "b", head=Head("x", "db.t", "u", TP, "id", OffsetRange(5, 8), 0, 2))]
)
def test_contradicting_parts_are_refused(second: UnitPart) -> None:
    with pytest.raises(DamagedUnit):
        assemble([part(1, "b"), second])


# --- hand-over and start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "because", "ranges"),
    [
        (5, "NEXT", [(5, 9)]),
        (7, "CROP", [(7, 9)]),
        (9, "DONE", []),
        (12, "DONE", []),
        (0, "BEHIND", [(0, 5), (5, 9)]),
        (None, "UNKNOWN", []),
    ],
)
def test_a_worker_hands_over_what_the_group_does_not_have(
    committed: int | None, because: str, ranges: list[tuple[int, int]]
) -> None:
    decided = hand_over(OffsetRange(5, 9), committed)
    assert decided.because == because and decided.refused == (committed is None)
    assert decided.ranges == tuple(OffsetRange(*r) for r in ranges)


FRESH, MOVED, LATER = Link("id", 3, 3), Link("id", 0, 5), Link("id", 0, 8)


@pytest.mark.parametrize(
    ("committed", "links", "expected"),
    [
        (None, [None, None], Beginning("FRESH", 2, 2)),
        (None, [FRESH, None], Beginning("HALF_FRESH", 3, 3)),
        (None, [FRESH, FRESH], Beginning("HALF_FRESH", 3, 3)),
        (None, [MOVED, LATER], Beginning("GROUP_BELOW", group=8)),
        (6, [MOVED, LATER], Beginning("GROUP_BELOW", group=8)),
        (8, [MOVED, LATER], Beginning("KEPT")),
        (9, [MOVED, None], Beginning("TABLE_UNKNOWN", halt=CommitHalt.CHAIN_MISSING)),
        (None, [MOVED, None], Beginning("TABLE_UNKNOWN", halt=CommitHalt.CHAIN_MISSING)),
        (9, [MOVED, Link("old", 0, 1)], Beginning("OTHER_TOPIC", halt=CommitHalt.TOPIC_RECREATED)),
    ],
)
def test_where_a_topic_partition_starts(committed: int | None, links: list[Link | None], expected: Beginning) -> None:
    """⚑ D4, R-8: never below what a table holds, never at the latest offset."""
    assert begin("id", committed, map(TablePlace, links), 2) == expected


@pytest.mark.parametrize("links", [[None], [FRESH, None]])
def test_rows_that_no_chain_covers_halt(links: list[Link | None]) -> None:
    """⚑ Neither the group nor the table knows them: they would land again.  A group that knows shows a new partition."""
    assert begin("id", None, map(TablePlace, links), 2, rows=True) == Beginning(
        "ROWS_FOUND", halt=CommitHalt.ROWS_FOUND
    )


@pytest.mark.parametrize(
    ("committed", "links", "log_start", "because"),
    [
        (None, [None, None], 7, "FRESH"),
        (None, [FRESH, None], 3, "HALF_FRESH"),
        (None, [FRESH, None], 4, "RECORDS_GONE"),
        (6, [MOVED, MOVED], 6, "KEPT"),
        (6, [MOVED, MOVED], 7, "RECORDS_GONE"),
        (6, [MOVED, LATER], 8, "GROUP_BELOW"),
        (None, [MOVED, LATER], 9, "RECORDS_GONE"),
        (6, [MOVED, None], 7, "RECORDS_GONE"),
    ],
)
def test_a_log_that_starts_above_what_was_handed_over_halts(
    committed: int | None, links: list[Link | None], log_start: int, because: str
) -> None:
    """⚑ A checkpoint that was beyond these offsets did not plan them, so their loss showed with the next record only."""
    begun = begin("id", committed, map(TablePlace, links), 2, log_start=log_start)
    assert begun.because == because and (begun.halt is CommitHalt.RECORDS_GONE) == (because == "RECORDS_GONE")


# --- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RowsFound("id", OffsetRange(4, 9), None), ("NO_ROWS", Link("id", 4, 4))),
        (RowsFound("id", OffsetRange(4, 9), OffsetRange(2, 10)), ("BEYOND_LOG", None)),
        (RowsFound("id", OffsetRange(4, 9), OffsetRange(2, 9), other=5, lacking=6), ("OTHER_RECORD", None)),
        (RowsFound("id", OffsetRange(4, 9), OffsetRange(2, 9), lacking=6), ("LACKING", None)),
        (RowsFound("id", OffsetRange(4, 9), OffsetRange(2, 9)), ("WHOLE", Link("id", 2, 9))),
        (RowsFound("id", OffsetRange(4, 9), OffsetRange(6, 8)), ("WHOLE", Link("id", 4, 8))),
        (RowsFound("id", OffsetRange(4, 9), OffsetRange(6, 8), begins=False), ("WHOLE", Link("id", 6, 8))),
    ],
)
def test_what_rows_say(found: RowsFound, expected: tuple[str, Link | None]) -> None:
    """P-3, P-4, P-7.  ⚑ The last row says nothing while a record below it may be lost."""
    assert recovered(found) == expected


# --- a Kafka Connect sink's tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (ReportedFile(5, stored=0, passed=0, in_table=True), False),
        (ReportedFile(5, stored=6, passed=0, in_table=False), False),
        (ReportedFile(5, stored=0, passed=6, in_table=False), False),
        (ReportedFile(5, stored=5, passed=5, in_table=False), True),
        (ReportedFile(0, stored=0, passed=0, in_table=False), True),
        (ReportedFile(5, stored=6, passed=6, in_table=True, whole=True), False),
        (ReportedFile(5, stored=6, passed=6, in_table=False, whole=True), True),
    ],
)
def test_which_files_of_a_connector_wait(file: ReportedFile, expected: bool) -> None:
    """⚑ The next event to read is the first that was not committed: what lies at it waits."""
    assert waits(file) == expected


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (Stopped("id", 10, 10, OffsetRange(0, 9)), ("BEYOND_LOG", None)),
        (Stopped("id", 6, 7, OffsetRange(0, 9)), ("SET_BACK", None)),
        (Stopped("id", None, 7, OffsetRange(0, 9)), ("SET_BACK", None)),
        (Stopped("id", 6, 7, OffsetRange(0, 9), trusted=True), ("READ", Link("id", 0, 6))),
        (Stopped("id", None, 7, OffsetRange(2, 9), trusted=True), ("UNREAD", Link("id", 2, 2))),
        (Stopped("id", None, None, OffsetRange(2, 9)), ("UNREAD", Link("id", 2, 2))),
        (Stopped("id", 7, 7, OffsetRange(2, 9)), ("READ", Link("id", 0, 7))),
        (Stopped("id", 8, 7, OffsetRange(2, 9)), ("READ", Link("id", 0, 8))),
    ],
)
def test_where_a_connector_stopped(left: Stopped, expected: tuple[str, Link | None]) -> None:
    """⚑ Neither below what it has written files of, nor beyond what its group says."""
    assert continued(left) == expected


# --- rounds ----------------------------------------------------------------------------------------------------------

PACE = CommitPace(interval_ms=100, timeout_ms=50, buffer=10)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (RoundView(PACE, 99, None, answered=False, buffered=0), ("IDLE", Due.WAIT)),
        (RoundView(PACE, 100, None, answered=False, buffered=0), ("BEGIN", Due.START)),
        (RoundView(PACE, 1, None, answered=False, buffered=10), ("BEGIN", Due.START)),
        (RoundView(PACE, 100, 0, answered=False, buffered=0), ("OPEN", Due.WAIT)),
        (RoundView(PACE, 100, 0, answered=True, buffered=0), ("COMPLETE", Due.COMMIT_WHOLE)),
        (RoundView(PACE, 100, 50, answered=False, buffered=0), ("TIMEOUT", Due.COMMIT_PARTIAL)),
        (RoundView(PACE, 100, 1, answered=False, buffered=10), ("FULL", Due.COMMIT_PARTIAL)),
    ],
)
def test_when_a_commit_is_due(view: RoundView, expected: tuple[str, Due]) -> None:
    assert due(view) == expected


def test_a_round_is_complete_by_a_set_not_by_a_count() -> None:
    """⚑ D16, C-4: one partition that answers twice does not stand for another."""
    tables: list[tuple[Links, list[Unit]]] = [({TP: Link("id", 0, 5), OTHER: Link("id", 0, 5)}, [])]
    both = {TP: Reached(5, 1), OTHER: Reached(None, None)}
    assert answered([TP, OTHER], both, tables)
    assert not answered([TP, OTHER], {TP: Reached(5, 1)}, tables)
    assert not answered([TP, OTHER], {TP: Reached(5, 1), TopicPartition("x", 0): Reached(5, 1)}, tables)


def test_a_round_waits_for_the_units_of_its_answers() -> None:
    """⚑ D10: an answer may be read before another partition's files."""
    links = {TP: Link("id", 0, 5)}
    assert not answered([TP], {TP: Reached(9, 1)}, [(links, [unit(5, 7)])])
    assert not answered([TP], {TP: Reached(9, 1)}, [(links, [unit(5, 9, whole=False)])])
    assert not answered([TP], {TP: Reached(9, 1)}, [(links, [unit(5, 9)]), (links, [])])
    assert answered([TP], {TP: Reached(9, 1)}, [(links, [unit(7, 9), unit(5, 7)])])


def test_valid_through_is_the_least_of_the_largest_timestamps() -> None:
    """V-1, V-2."""
    third = TopicPartition("t", 2)
    answers = {TP: Reached(9, 9), OTHER: Reached(5, 4), third: Reached(1, 7)}
    links = {TP: Link("id", 0, 5), OTHER: Link("id", 0, 5), third: Link("id", 0, 1)}
    plan = plan_commit(view(), Chain(links), [unit(5, 9)])
    behind = plan_commit(view(), Chain(links), [])
    assert valid_through(True, list(answers), answers, plan) == 4
    assert valid_through(False, list(answers), answers, plan) is None
    assert valid_through(True, list(answers), answers, behind) is None
    assert valid_through(True, [*answers, TopicPartition("t", 3)], answers, plan) is None
    assert valid_through(True, list(answers), {**answers, TP: Reached(None, None)}, plan) is None


def test_the_low_watermark_stays_below_what_waits_and_never_goes_back() -> None:
    """⚑ C-9."""
    assert low_watermark({0: 9, 1: 4}, [unit(7, 8, at=6), unit(8, 9, at=3)], {1: 2}) == {0: 3, 1: 4}
    assert low_watermark({0: 9}, [unit(7, 8, at=6)], {0: 8}) == {0: 8}
