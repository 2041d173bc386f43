"""How a range is cut, and offsets folded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine.ranges import OffsetRange
from chsink.verify.by_offset import WINDOW, runs_of, windows


@given(st.sets(st.integers(0, 60)))
def test_runs_are_the_offsets(offsets: set[int]) -> None:
    runs = list(runs_of(sorted(offsets)))
    assert [o for r in runs for o in range(r.start, r.end)] == sorted(offsets)
    assert all(a.end < b.start for a, b in pairwise(runs))


@pytest.mark.soak
def test_a_hole_of_millions_of_offsets_is_read_in_windows_that_shrink_with_the_digests_of_a_row() -> None:
    whole = OffsetRange(5, 5 + 3 * WINDOW)
    assert [w.length for w in windows(whole, 1)] == [WINDOW] * 3
    assert {w.length for w in windows(whole, 10)} == {WINDOW // 10}
    assert sum(w.length for w in windows(whole, 7)) == whole.length
