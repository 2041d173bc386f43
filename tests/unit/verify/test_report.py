"""Offsets folded into ranges, bounded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.report import MOST_RANGES, Folded, PartitionReport, Report


@given(st.lists(st.lists(st.integers(0, 300), unique=True), max_size=4))
def test_ranges_are_the_offsets_however_they_come(batches: list[list[int]]) -> None:
    every = sorted({offset for batch in batches for offset in batch})
    cuts = np.cumsum([0, *(len(b) for b in batches)])[1:-1]
    folded = Folded()
    for part in np.split(np.array(every, np.int64), np.minimum(cuts, len(every))):
        folded.add(part)
    assert folded.offsets == len(every)
    listed = [o for r in folded.ranges for o in range(r.start, r.end)]
    assert listed == (every[: len(listed)] if folded.more else every)
    assert all(a.end < b.start for a, b in zip(folded.ranges, folded.ranges[1:], strict=False))


def test_no_more_than_so_many_ranges_are_kept() -> None:
    folded = Folded()
    folded.add(np.arange(0, 2_000, 2))
    folded.add(np.arange(3_000, 3_010))
    assert (folded.offsets, len(folded.ranges), folded.more) == (1_010, MOST_RANGES, True)
    assert folded.ranges[-1] == OffsetRange(2 * MOST_RANGES - 2, 2 * MOST_RANGES - 1)
    assert str(folded).endswith(", …")


def test_one_partition_with_a_defect_fails_the_whole() -> None:
    good, bad = (PartitionReport(TopicPartition("t", n), "d.t", (OffsetRange(0, 5),)) for n in (0, 1))
    bad.unproven.add(np.array([1]))
    bad.older.add(np.array([2]))
    assert Report("s", [good, bad]).ok, "nothing is proved"
    bad.missing.add(np.array([3, 4]))
    report = Report("s", [good, bad])
    assert not report.ok
    assert (report.as_dict()["missing"], report.as_dict()["offsets"]) == (2, 10)
    assert str(bad.missing) == "2 offsets: 3-4"
