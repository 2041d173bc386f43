"""The comparison against a reference that takes one row at a time: what is planted is found, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from chsink.verify.compare import Differences, Digests, ExcusedDefault, Expected, Found, compare, excusing, joined

Row = tuple[int, int, bytes, bytes]
"""Offset, shard, and the digests of two groups of columns."""
DIGESTS = st.sampled_from([bytes([n]) * 16 for n in range(3)])
OFFSETS = st.integers(0, 30)
SHARDS = st.integers(0, 2)
ROWS = st.lists(st.tuples(OFFSETS, SHARDS, DIGESTS, DIGESTS), max_size=40)


def digests(values: Sequence[bytes]) -> Digests:
    return np.array(values, dtype="V16")


def expected_of(rows: Sequence[Row], known: Sequence[bool]) -> Expected:
    offsets = np.array([r[0] for r in rows], np.int64)
    shards = np.array([r[1] for r in rows], np.int32)
    groups = [digests([r[2] for r in rows]), digests([r[3] for r in rows])]
    return Expected(offsets, shards, groups, [None, np.array(known, np.bool_)])


def found_of(rows: Sequence[Row]) -> Found:
    offsets = np.array([r[0] for r in rows], np.int64)
    shards = np.array([r[1] for r in rows], np.int32)
    return Found(offsets, shards, [digests([r[2] for r in rows]), digests([r[3] for r in rows])])


def reference(
    expected: Sequence[Row], known: Sequence[bool], found: Sequence[Row], older_end: int
) -> dict[str, list[int]]:
    """The rules of the module, one offset at a time."""
    out: dict[str, list[int]] = defaultdict(list)
    records = {row[0]: (row, knows) for row, knows in zip(expected, known, strict=True)}
    for offset in sorted({*records, *(row[0] for row in found)}):
        there = [row for row in found if row[0] == offset]
        if offset not in records:
            out["older" if offset < older_end else "unexpected"].append(offset)
            continue
        wanted, knows = records[offset]
        right = [row for row in there if row[2] == wanted[2] and (row[3] == wanted[3] or not knows)]
        if not there:
            out["missing"].append(offset)
        elif not right:
            out["different"].append(offset)
        elif all(row[1] != wanted[1] for row in right):
            out["misplaced"].append(offset)
        if len(there) > 1:
            out["older" if offset < older_end else "duplicated"].append(offset)
    return dict(out)


def as_lists(found: Differences) -> dict[str, list[int]]:
    every: dict[str, npt.NDArray[Any]] = {name: getattr(found, name) for name in Differences.__dataclass_fields__}
    return {name: offsets.tolist() for name, offsets in every.items() if len(offsets)}


@given(ROWS, st.lists(st.booleans(), min_size=40, max_size=40), ROWS, st.integers(0, 30))
def test_it_finds_what_the_reference_finds(
    records: list[Row], knows: list[bool], rows: list[Row], older_end: int
) -> None:
    records = sorted({row[0]: row for row in records}.values())
    known = knows[: len(records)]
    found = compare(expected_of(records, known), found_of(rows), older_end)
    assert as_lists(found) == reference(records, known, rows, older_end)


@given(ROWS, st.randoms(use_true_random=False))
def test_what_is_as_it_should_be_is_no_difference(records: list[Row], random: Any) -> None:
    records = sorted({row[0]: row for row in records}.values())
    rows = list(records)
    random.shuffle(rows)
    assert as_lists(compare(expected_of(records, [True] * len(records)), found_of(rows))) == {}


@given(ROWS.filter(bool), st.data())
def test_a_single_changed_byte_of_a_digest_is_found(records: list[Row], data: st.DataObject) -> None:
    records = sorted({row[0]: row for row in records}.values())
    at, byte = data.draw(st.integers(0, len(records) - 1)), data.draw(st.integers(0, 15))
    offset, shard, first, second = records[at]
    changed = bytes([*second[:byte], second[byte] ^ 0x80, *second[byte + 1 :]])
    rows = [*records[:at], (offset, shard, first, changed), *records[at + 1 :]]
    assert as_lists(compare(expected_of(records, [True] * len(records)), found_of(rows))) == {"different": [offset]}


@given(ROWS, st.lists(st.booleans(), min_size=40, max_size=40), ROWS, st.integers(0, 30), DIGESTS)
def test_a_default_is_excused_only_below_its_offset_and_only_where_nothing_else_differs(
    records: list[Row], knows: list[bool], rows: list[Row], below: int, default: bytes
) -> None:
    """⚑ what is excused is listed, and every other difference is found as without it."""
    records = sorted({row[0]: row for row in records}.values())
    expected, found = expected_of(records, knows[: len(records)]), found_of(rows)
    strict = as_lists(compare(expected, found))
    lenient = as_lists(compare(expected, found, 0, [ExcusedDefault(1, digests([default]), below)]))
    wanted = {row[0]: row for row in records}
    old = [
        offset
        for offset in strict.get("different", [])
        if offset < below and any(r[0] == offset and r[2] == wanted[offset][2] and r[3] == default for r in rows)
    ]
    assert lenient.get("before", []) == old
    assert lenient.get("different", []) == [o for o in strict.get("different", []) if o not in old]
    assert "before" not in strict
    for name in ("missing", "duplicated", "unexpected", "older"):
        assert lenient.get(name) == strict.get(name)


def test_a_window_without_records_and_one_without_rows() -> None:
    row = (5, 0, b"\1" * 16, b"\1" * 16)
    assert as_lists(compare(expected_of([], []), found_of([]))) == {}
    assert as_lists(compare(expected_of([], []), found_of([row]))) == {"unexpected": [5]}
    assert as_lists(compare(expected_of([row], [True]), found_of([]))) == {"missing": [5]}


def test_a_part_holds_the_rows_of_its_offsets() -> None:
    rows = [(n, 0, bytes([n]) * 16, b"\0" * 16) for n in (2, 4, 6, 8)]
    part = expected_of(rows, [True, False, True, False]).part(4, 8)
    assert part.offsets.tolist() == [4, 6]
    assert part.digests[0].tolist() == [b"\4" * 16, b"\6" * 16]
    assert part.known[0] is None and part.known[1] is not None and part.known[1].tolist() == [False, True]


def test_an_offset_that_is_excused_may_have_a_row_or_not() -> None:
    rows = [(n, 0, b"\1" * 16, b"\1" * 16) for n in range(6)]
    found = compare(expected_of(rows[:4], [True] * 4), found_of([rows[3], rows[3], *rows[4:]]))
    assert as_lists(found) == {"missing": [0, 1, 2], "duplicated": [3], "unexpected": [4, 5]}
    excused = excusing(found, np.array([1, 3, 5, 9], np.int64))
    assert as_lists(excused) == {"missing": [0, 2], "duplicated": [3], "unexpected": [4]}
    replayed = excusing(found, np.array([0, 1, 2], np.int64), np.array([1], np.int64))
    assert as_lists(replayed)["missing"] == [1]


@given(ROWS, st.lists(st.booleans(), min_size=40, max_size=40), st.integers(0, 30), st.booleans())
def test_parts_that_are_joined_are_the_whole(records: list[Row], knows: list[bool], cut: int, every: bool) -> None:
    records = sorted({row[0]: row for row in records}.values())
    known = knows[: len(records)]
    whole = expected_of(records, known)
    at = sum(row[0] < cut for row in records)
    first, second = expected_of(records[:at], known[:at]), expected_of(records[at:], known[at:])
    if every and all(known[:at]):
        first = replace(first, known=[None, None])
    again = joined([first, second])
    assert again.offsets.tolist() == whole.offsets.tolist() and again.shards.tolist() == whole.shards.tolist()
    assert [d.tolist() for d in again.digests] == [d.tolist() for d in whole.digests]
    assert again.known[0] is None
    assert again.known[1] is None or again.known[1].tolist() == known
    assert again.known[1] is not None or all(known)
