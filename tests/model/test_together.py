"""Ranges that travel in one insert: which rule settles them after a crash?  ADR 36."""

from __future__ import annotations

import pytest

from tests.model.together import BOTH, Halfway, Misled, all_or_none, each_by_itself, explore, those_that_can_be_read


def test_all_members_in_doubt_or_none_are_sent_together() -> None:
    seen = explore(all_or_none)
    assert len(seen) > 500
    assert any(all(state.of(member).phase == "after" for member in BOTH) for state in seen if state.crashes == 3)
    assert any(state.a.phase == "given up" and state.b.phase == "after" for state in seen)


def test_the_price_is_that_one_member_stops_the_others() -> None:
    stuck = Halfway(crashes=1).having("a", phase="before", token="both", readable=False)
    stuck = stuck.having("b", phase="before", token="both")
    assert all_or_none(stuck) == []
    assert those_that_can_be_read(stuck) == [("both", ("b",))]


def test_a_token_for_each_stores_rows_twice() -> None:
    with pytest.raises(Misled, match="twice"):
        explore(each_by_itself)


def test_without_a_member_that_cannot_be_read_its_rows_are_lost() -> None:
    with pytest.raises(Misled, match="lost"):
        explore(those_that_can_be_read)
