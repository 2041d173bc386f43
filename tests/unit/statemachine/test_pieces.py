"""Ranges, chunks, tiles and tokens: what makes any attempt send the same pieces."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine.chunks import chunk, chunk_count, chunk_index, chunks, tiles
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Mark, Phase, StateKey, StateRecord
from chsink.statemachine.tokens import letters_token, piece_token

WHOLE = OffsetRange(10, 21)


def rng(start: int, end: int) -> OffsetRange:
    return OffsetRange(start, end)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3), (-2, -1)])
def test_no_range(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not an offset range"):
        OffsetRange(start, end)


def test_range_in_words() -> None:
    assert (str(WHOLE), WHOLE.length, WHOLE.is_empty, rng(3, 3).is_empty) == ("[10, 21)", 11, False, True)
    assert str(TopicPartition("t", 3)) == "t-3"


def test_covers() -> None:
    assert WHOLE.covers(WHOLE) and WHOLE.covers(rng(12, 12)) and WHOLE.covers(rng(20, 21))
    assert not WHOLE.covers(rng(9, 11)) and not WHOLE.covers(rng(20, 22))


def test_chunks_by_offset() -> None:
    assert list(chunks(WHOLE, 4)) == [rng(10, 14), rng(14, 18), rng(18, 21)]
    assert (chunk_count(WHOLE, 11), chunk_count(WHOLE, 100), chunk_count(WHOLE, 1)) == (1, 1, 11)


@given(st.integers(0, 1000), st.integers(1, 300), st.integers(1, 50))
def test_chunks_tile_the_range_and_know_their_offsets(start: int, length: int, size: int) -> None:
    whole = OffsetRange(start, start + length)
    parts = list(chunks(whole, size))
    assert len(parts) == chunk_count(whole, size)
    assert tiles(whole, reversed(parts))
    for offset in range(whole.start, whole.end):
        index = chunk_index(whole, size, offset)
        assert chunk(whole, size, index) == parts[index]
        assert parts[index].start <= offset < parts[index].end


@pytest.mark.parametrize("index", [-1, 3])
def test_no_such_chunk(index: int) -> None:
    with pytest.raises(AssertionError):
        chunk(WHOLE, 4, index)


@pytest.mark.parametrize("offset", [9, 21])
def test_no_such_offset(offset: int) -> None:
    with pytest.raises(AssertionError):
        chunk_index(WHOLE, 4, offset)


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ([], False),
        ([rng(10, 21)], True),
        ([rng(15, 21), rng(10, 15)], True),
        ([rng(10, 15), rng(16, 21)], False),
        ([rng(10, 15), rng(14, 21)], False),
        ([rng(10, 15)], False),
        ([rng(10, 22)], False),
        ([rng(9, 21)], False),
        ([rng(10, 21), rng(10, 21)], False),
        ([rng(10, 10), rng(10, 21)], False),
    ],
)
def test_tiles(parts: list[OffsetRange], answer: bool) -> None:
    assert tiles(WHOLE, parts) is answer


# --- tokens --------------------------------------------------------------------------------------------------------

KEY = StateKey("sink", "topic", 3, "db.t")
RECORD = StateRecord(
    Phase.BEFORE, 5, "att", "topic-id", 1, 0, 10, 21, (), 4, "layout", "pipe", 99, (Mark(1, 2),), nonce="first"
)


def test_token_is_pinned() -> None:
    """A release that names pieces otherwise would double the ranges in doubt during the upgrade."""
    assert piece_token(KEY, RECORD, 2, 1) == "sink:topic:3:10-21:2:1:2654db321e376fe2a455fbaf7c446ba1"
    assert letters_token(KEY, RECORD, 2).startswith("sink:topic:3:10-21:2:dead-letters:")
    assert letters_token(KEY, RECORD, 2)[-32:] != letters_token(KEY, RECORD, 1)[-32:]
    bare = replace(RECORD, nonce="")
    assert piece_token(KEY, bare, 0, 0) == "sink:topic:3:10-21:0:0:82d22bb59c2ee06fb15f3e38034bdd80"


NAMES_CONTENT = {"nonce": "x", "start": 11, "end": 22, "chunk_offsets": 5, "layout": "other"}
"""The nonce stands for the topic's id and the incarnation: :func:`writes.before` makes one for each."""
NAMES_NOTHING = {
    "phase": Phase.AFTER, "epoch": 6, "attempt": "x", "first": 1, "gaps": (rng(2, 3),), "pipeline": "x",
    "before_at": 1, "marks": (Mark(2, 2),), "probe": True, "topic_id": "x", "incarnation": 9,
    "older_end": 9, "late": True, "expired": True, "skipped": 3, "dead_letters": 3, "only": (10, 20),
    "choice_from": 11, "left": True, "deleted": (15,),
    "unknown": (("field", 3),),
}  # fmt: skip


def test_every_field_of_a_record_is_in_one_of_the_two_lists() -> None:
    assert NAMES_CONTENT.keys() | NAMES_NOTHING.keys() == {f.name for f in fields(StateRecord)}


@pytest.mark.parametrize("name", NAMES_CONTENT)
def test_what_cuts_the_piece_changes_its_token(name: str) -> None:
    assert piece_token(KEY, replace(RECORD, **{name: NAMES_CONTENT[name]}), 2, 1) != piece_token(KEY, RECORD, 2, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES_NOTHING)
def test_who_sends_the_piece_does_not_change_its_token(name: str) -> None:
    assert piece_token(KEY, replace(RECORD, **{name: NAMES_NOTHING[name]}), 2, 1) == piece_token(KEY, RECORD, 2, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [
    replace(KEY, sink="s"), replace(KEY, topic="t"), replace(KEY, partition=4), replace(KEY, table="db.u"),
])  # fmt: skip
def test_the_key_changes_the_token(other: StateKey) -> None:
    assert piece_token(other, RECORD, 2, 1) != piece_token(KEY, RECORD, 2, 1)


def test_chunk_and_shard_change_the_token() -> None:
    tokens = {piece_token(KEY, RECORD, index, shard) for index in range(3) for shard in range(3)}
    assert len(tokens) == 9


def test_names_that_run_together_stay_apart() -> None:
    """The head is for people; ``a:b`` + ``c`` and ``a`` + ``b:c`` must differ in the digest."""
    one, two = StateKey("a:b", "c", 0, "t"), StateKey("a", "b:c", 0, "t")
    assert piece_token(one, RECORD, 0, 0) != piece_token(two, RECORD, 0, 0)
