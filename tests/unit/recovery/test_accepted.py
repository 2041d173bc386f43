"""Holes are accepted by their offsets, as the refusal names them."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.recovery.accepted import MOST, Accepted, in_words, option_for, read_holes, runs_of
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

KEY = StateKey("s", "flights-of.x", 3, "`air-2`.flights")


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_what_is_named_is_accepted_and_nothing_else(missing: set[int], named: set[int]) -> None:
    ranges, given_ = list(runs_of(sorted(missing))), list(runs_of(sorted(named)))
    assert [o for r in ranges for o in range(r.start, r.end)] == sorted(missing)
    if not named or len(given_) > MOST:
        return
    flag, word = shlex.split(option_for(KEY, given_))
    accepted = Accepted(holes=read_holes([word]))

    left = accepted.without(KEY, ranges)

    assert flag == "--accept-holes"
    assert [o for r in left for o in range(r.start, r.end)] == sorted(missing - named)
    assert accepted.without(StateKey("s", "flights-of.x", 4, KEY.table), ranges) == ranges


def test_many_ranges_are_named_by_their_ends() -> None:
    assert in_words([OffsetRange(29, 30), OffsetRange(31, 34)]) == "29,31-33"
    assert in_words([OffsetRange(n, n + 1) for n in range(0, 100, 2)]) == "0-98"


@pytest.mark.parametrize(
    "word", ["29", "flights-0:29", "air.flights:flights:29", "air.flights:flights-0:", "a:t-0:5-3"]
)
def test_what_is_not_offsets_of_a_table_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"write TABLE|lies before"):
        read_holes([word])
