"""A crash leaves whole pieces, and what is left shows how the range was cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chsink.recovery.whole_pieces import I64, cut_before
from chsink.statemachine.chunks import chunks
from chsink.statemachine.ranges import OffsetRange


@given(st.data())
def test_what_a_crash_left_of_its_pieces_can_be_cut_into_whole_ones(data: st.DataObject) -> None:
    """⚑ A probe halts where a piece is there in part.  Any chunk of any shard may have landed, in any order."""
    start, length, size = (data.draw(st.integers(a, b)) for a, b in ((0, 50), (1, 60), (1, 12)))
    whole, shards = OffsetRange(start, start + length), data.draw(st.integers(1, 3))
    of_shard = data.draw(st.lists(st.integers(-1, shards - 1), min_size=length, max_size=length))  # -1: no record
    pieces = [(chunk, shard) for chunk in chunks(whole, size) for shard in range(shards)]
    landed = [piece for piece in pieces if data.draw(st.booleans())]
    there: list[I64] = [_of(whole, of_shard, shard, [c for c, s in landed if s == shard]) for shard in range(shards)]
    every: list[I64] = [_of(whole, of_shard, shard, [whole]) for shard in range(shards)]
    missing = [np.setdiff1d(all_, some) for all_, some in zip(every, there, strict=True)]
    lost = np.sort(np.concatenate(missing))
    if not len(lost):
        return

    cut = cut_before(int(lost[0]), zip(there, missing, strict=True), size)

    assert cut is not None and int(lost[0]) - size < cut <= lost[0]
    for chunk in chunks(OffsetRange(cut, whole.end), size) if cut >= 0 else ():
        for rows, lacking in zip(there, missing, strict=True):
            inside = [((part >= chunk.start) & (part < chunk.end)).any() for part in (rows, lacking)]
            assert not all(inside), (chunk, rows, lacking)


def test_rows_that_no_cut_explains() -> None:
    shard = np.array([0, 1, 4]), np.array([2, 3, 5])
    assert cut_before(2, [shard], 10) is None
    assert cut_before(2, [shard], 1) == 2


def _of(whole: OffsetRange, of_shard: list[int], shard: int, parts: list[OffsetRange]) -> I64:
    inside = (o for part in parts for o in range(part.start, part.end))
    return np.array([o for o in inside if of_shard[o - whole.start] == shard], np.int64)
