from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.state.groups import MAX_BYTES, MAX_ROWS, cut, write_in_groups

SIZES = st.lists(st.integers(1, MAX_BYTES), max_size=60) | st.lists(st.integers(1, 300), max_size=3 * MAX_ROWS)


@given(sizes=SIZES)
def test_groups_keep_the_limits_the_order_and_every_item(sizes: list[int]) -> None:
    groups = [list(g) for g in cut(sizes, lambda s: s)]
    assert [s for g in groups for s in g] == sizes
    assert all(0 < len(g) <= MAX_ROWS and sum(g) <= MAX_BYTES for g in groups)


@given(sizes=SIZES)
def test_no_group_could_have_taken_the_next_item(sizes: list[int]) -> None:
    groups = [list(g) for g in cut(sizes, lambda s: s)]
    for group, following in pairwise(groups):
        assert len(group) == MAX_ROWS or sum(group) + following[0] > MAX_BYTES


def test_an_item_beyond_a_statement_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        list(cut([1, MAX_BYTES + 1], lambda s: s))


def test_the_first_group_that_is_not_applied_ends_the_write() -> None:
    written: list[int] = []

    def write(group: object) -> bool:
        written.append(len(written))
        return len(written) < 2

    assert not write_in_groups([MAX_BYTES] * 4, lambda s: s, write)
    assert written == [0, 1]
    assert write_in_groups([], lambda s: s, write)
