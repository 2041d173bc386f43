"""Offsets that are there and offsets that are not, found in a bitmap that shards share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.recovery import landed
from chsink.recovery.landed import holes, runs_of_missing
from chsink.statemachine.ranges import OffsetRange, TopicPartition


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(0, 10**12))
def test_runs_of_missing(present: list[bool], first: int) -> None:
    runs = runs_of_missing(np.array(present), first)

    missing = [first + i for i, there in enumerate(present) if not there]
    assert [o for run in runs for o in range(run.start, run.end)] == missing
    assert all(a.end < b.start for a, b in pairwise(runs))


class Shard:
    """Answers the one question that is asked of a shard, from a set of offsets."""

    url = "http://a"

    def __init__(self, offsets: set[int]) -> None:
        self.offsets = offsets

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        words: dict[int, int] = {}
        start, end = (int(n) for n in re.findall(r"_kafka_offset (?:>=|<) (\d+)", sql))
        for offset in self.offsets:
            if start <= offset < end:
                word, bit = divmod(offset - start, 64)
                words[word] = words.get(word, 0) | 1 << bit
        return list(words.items())


@given(st.sets(st.integers(0, 700)), st.sets(st.integers(0, 700)), st.sampled_from([64, 100, 129, 1000]))
def test_holes_are_offsets_that_no_shard_holds(one: set[int], other: set[int], size: int) -> None:
    there = one | other
    if not there:
        return
    within = OffsetRange(min(there), max(there) + 1)
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landed, "SLICE", size)
        shards: Any = [(Shard(one), "d.t"), (Shard(other), "d.t")]
        found = list(holes(shards, TopicPartition("t", 0), within, told.append, np.empty(0, np.int64)))

    assert {o for h in found for o in range(h.start, h.end)} == set(range(within.start, within.end)) - there
    assert all(a.end < b.start for a, b in pairwise(found))
    assert told[-1] == within.end
