"""Ranges, chunks, tiles and tokens: what makes any attempt send the same pieces."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine.chunks import chunk, chunk_count, chunk_index, chunks, tiles
from chsink.statemachine.parts import Expired, Mark, Seen, Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
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
    Phase.BEFORE,
    5,
    "att",
    10,
    21,
    life=TopicLife("topic-id", incarnation=1, first=0, nonce="first"),
    sent=Sending(4, "layout", "pipe"),
    seen=Seen(99, (Mark(1, 2),)),
)


def test_token_is_pinned() -> None:
    """A release that names pieces otherwise would double the ranges in doubt during the upgrade."""
    assert piece_token(KEY, RECORD, 2, 1) == "sink:topic:3:10-21:2:1:2654db321e376fe2a455fbaf7c446ba1"
    assert letters_token(KEY, RECORD, 2).startswith("sink:topic:3:10-21:2:dead-letters:")
    assert letters_token(KEY, RECORD, 2)[-32:] != letters_token(KEY, RECORD, 1)[-32:]
    bare = replace(RECORD, life=replace(RECORD.life, nonce=""))
    assert piece_token(KEY, bare, 0, 0) == "sink:topic:3:10-21:0:0:82d22bb59c2ee06fb15f3e38034bdd80"


NAMES_CONTENT = {"life.nonce": "x", "start": 11, "end": 22, "sent.chunk_offsets": 5, "sent.layout": "other"}
"""The nonce stands for the topic's id and the incarnation: :func:`writes.before` makes one for each."""
NAMES_NOTHING = {
    "phase": Phase.AFTER, "epoch": 6, "attempt": "x", "gaps": (rng(2, 3),), "life.topic_id": "x",
    "life.incarnation": 9, "life.first": 1, "life.older_end": 9, "life.late": True, "sent.pipeline": "x",
    "seen.before_at": 1, "seen.marks": (Mark(2, 2),), "doubt.probe": True, "doubt.expired": Expired((15,)),
    "doubt.only": (10, 20), "table_by.since": 11, "table_by.left": True, "tally.skipped": 3, "tally.dead_letters": 3,
    "tally.unknown": (("field", 3),),
}  # fmt: skip


def changed(name: str, value: object) -> StateRecord:
    """The record with another value of this field, or of this field of a part."""
    part, _, field = name.rpartition(".")
    if not part:
        return replace(RECORD, **{name: value})  # type: ignore[arg-type]
    return replace(RECORD, **{part: replace(getattr(RECORD, part), **{field: value})})


def test_every_field_of_a_record_is_in_one_of_the_two_lists() -> None:
    core = {f.name: getattr(RECORD, f.name) for f in fields(StateRecord)}
    parts = {name for name, value in core.items() if is_dataclass(value)}
    every = (core.keys() - parts) | {f"{name}.{f.name}" for name in parts for f in fields(core[name])}
    assert NAMES_CONTENT.keys() | NAMES_NOTHING.keys() == every


@pytest.mark.parametrize("name", NAMES_CONTENT)
def test_what_cuts_the_piece_changes_its_token(name: str) -> None:
    assert piece_token(KEY, changed(name, NAMES_CONTENT[name]), 2, 1) != piece_token(KEY, RECORD, 2, 1)


@pytest.mark.parametrize("name", NAMES_NOTHING)
def test_who_sends_the_piece_does_not_change_its_token(name: str) -> None:
    assert piece_token(KEY, changed(name, NAMES_NOTHING[name]), 2, 1) == piece_token(KEY, RECORD, 2, 1)


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
