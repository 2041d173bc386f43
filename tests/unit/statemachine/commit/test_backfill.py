"""Records that came before a table: units that end where its records begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chsink.statemachine.commit.chain import Chain, Link, TableView
from chsink.statemachine.commit.plan import Kind, backfills, plan_commit
from chsink.statemachine.ranges import OffsetRange
from tests.unit.statemachine.commit.test_rules import TP, unit

ADDED = Chain({TP: Link("id", 20, 30)})


def view(floor: int | None) -> TableView:
    return TableView("u", frozenset({0}), floors={} if floor is None else {TP: floor})


@pytest.mark.parametrize(
    ("start", "end", "floor", "fate", "link"),
    [
        (10, 20, 0, "taken", (10, 30)),
        (0, 20, 0, "taken", (0, 30)),
        (10, 20, 11, "DUPLICATE", (20, 30)),
        (10, 20, None, "DUPLICATE", (20, 30)),
        (10, 19, 0, "DUPLICATE", (20, 30)),
        (10, 25, 0, "DUPLICATE", (20, 30)),
        (10, 31, 0, "STRADDLING", (20, 30)),
        (30, 40, 0, "taken", (20, 40)),
    ],
)
def test_only_what_was_asked_for_moves_the_origin(
    start: int, end: int, floor: int | None, fate: str, link: tuple[int, int]
) -> None:
    plan = plan_commit(view(floor), ADDED, [unit(start, end)])

    assert ["taken"] * len(plan.taken) + [rule for rule, _ in plan.dropped] == [fate]
    assert (plan.links[TP].origin, plan.links[TP].until) == link


def test_earlier_and_later_records_land_in_one_commit_each_once() -> None:
    """⚑ A second coordinator read the same range: its unit is a duplicate, whichever comes first."""
    both = [unit(10, 20, unit_id="x"), unit(10, 20, unit_id="y", files=("g",)), unit(30, 40, files=("h",))]
    plan = plan_commit(view(0), ADDED, both)

    assert [file[-1] for file in plan.files] == ["f", "h"] and [rule for rule, _ in plan.dropped] == ["DUPLICATE"]
    assert plan.links[TP] == Link("id", 10, 40)


def test_a_table_that_has_no_record_yet_is_filled_from_where_it_begins() -> None:
    empty = Chain({TP: Link("id", 20, 20)})
    plan = plan_commit(view(0), empty, [unit(5, 20, files=()), unit(20, 22)])

    assert plan.links[TP] == Link("id", 5, 22) and plan.kind is Kind.APPEND


def test_a_unit_in_parts_waits_for_them() -> None:
    half = replace(unit(10, 20), whole=False)

    assert plan_commit(view(0), ADDED, [half]).waiting == (half,)


@pytest.mark.parametrize(
    ("floor", "waiting", "expected"),
    [
        (0, [], OffsetRange(12, 20)),
        (15, [], OffsetRange(15, 20)),
        (20, [], None),
        (25, [], None),
        (0, [unit(12, 20)], None),
        (0, [replace(unit(12, 20), whole=False)], OffsetRange(12, 20)),
        (0, [unit(30, 40)], OffsetRange(12, 20)),
    ],
)
def test_what_is_read_next_is_the_last_part_before_the_table(
    floor: int, waiting: list[object], expected: OffsetRange | None
) -> None:
    found = backfills(ADDED.links, waiting, {TP: floor}, 8)  # type: ignore[arg-type] # units

    assert found == ({} if expected is None else {TP: expected})
