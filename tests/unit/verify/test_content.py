"""Sets of rows by digest, against a reference that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chsink.verify.content import BUCKETS, Placed, Sums, bucket_of, compare_content, halves

Row = tuple[bytes, int]
ROWS = st.lists(st.tuples(st.sampled_from([bytes([n]) * 15 + b"\0" for n in range(4)]), st.integers(0, 2)), max_size=25)


def placed(rows: Sequence[Row]) -> Placed:
    return Placed(np.array([r[0] for r in rows], "V16"), np.array([r[1] for r in rows], np.int32))


@given(ROWS, ROWS)
def test_it_counts_what_the_reference_counts(expected: list[Row], found: list[Row]) -> None:
    result = compare_content(placed(expected), placed(found))
    wanted, there = Counter(d for d, _ in expected), Counter(d for d, _ in found)
    assert Counter(expected[at][0] for at in result.missing) == wanted - there
    assert result.surplus == (there - wanted).total()
    at_place = (Counter(expected) & Counter(found)).total()
    assert len(result.misplaced) == len(expected) - at_place - len(result.missing)
    assert not set(result.missing.tolist()) & set(result.misplaced.tolist())


@given(ROWS, st.randoms(use_true_random=False))
def test_the_same_rows_in_any_order_differ_in_nothing(rows: list[Row], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    result = compare_content(placed(rows), placed(shuffled))
    assert (len(result.missing), len(result.misplaced), result.surplus) == (0, 0, 0)


@given(ROWS, ROWS)
def test_sums_differ_exactly_where_rows_do(expected: list[Row], found: list[Row]) -> None:
    sums = [Sums.empty(3), Sums.empty(3)]
    for one, rows in zip(sums, (expected, found), strict=True):
        half = placed(rows[:10]), placed(rows[10:])
        for part in half:
            one.add(part.digests, part.shards)
    for any_shard in (False, True):
        seen = [Counter((d, s * (not any_shard)) for d, s in rows) for rows in (expected, found)]
        differing = {d for d, _ in (seen[0] - seen[1]) + (seen[1] - seen[0])}
        buckets = set(bucket_of(np.array(sorted(differing), "V16")).tolist())
        assert set(sums[0].differing(sums[1], any_shard=any_shard).tolist()) == buckets


def test_a_digest_is_two_numbers_and_its_bucket_the_low_bits_of_the_first() -> None:
    digest = np.array([bytes(range(16))], "V16")
    low, high = halves(digest)
    assert int(low[0]) == int.from_bytes(bytes(range(8)), "little")
    assert int(high[0]) == int.from_bytes(bytes(range(8, 16)), "little")
    assert bucket_of(digest).tolist() == [0x0100 % BUCKETS]
