"""Records, their codec, the owner's row, and the only ways in which a record changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine import owner as owners
from chsink.statemachine import writes
from chsink.statemachine.owner import Owner
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import MAX_GAPS, CodecError, Mark, Phase, StateKey, StateRecord, decode, encode

SAID = writes.Announcement("id", 4, "L", "P", 123, (Mark(7, 8), Mark(0, 1)))
AFTER = StateRecord(
    Phase.AFTER,
    3,
    "att",
    "id",
    1,
    2,
    10,
    20,
    (OffsetRange(4, 6),),
    4,
    "layout",
    "pipe",
    1700000000000,
    (Mark(5, 60), Mark(0, 1)),
    nonce="first",
    older_end=7,
    skipped=5,
    choice_from=12,
)
GOLDEN = (
    '{"attempt":"att","before_at":1700000000000,"choice_from":12,"chunk_offsets":4,"dead_letters":0,"end":20,"epoch":3,'
    '"expired":false,'
    '"first":2,"gaps":[[4,6]],'
    '"incarnation":1,"late":false,"layout":"layout","left":false,"marks":[[5,60,0,0],[0,1,0,0]],"nonce":"first","older_end":7,'
    '"phase":"AFTER","pipeline":"pipe",'
    '"probe":false,"skipped":5,"start":10,"topic_id":"id","version":2}'
)


def test_the_stored_form_is_pinned() -> None:
    assert encode(AFTER) == GOLDEN
    assert decode(GOLDEN) == AFTER
    fed = encode(replace(AFTER, marks=(Mark(5, 60, 7, 8, "digest"), Mark(0, 1))))
    assert '"marks":[[5,60,7,8,"digest"],[0,1,0,0]]' in fed


offsets = st.integers(0, 2**63 - 1)
NUMBERS = st.integers(0, 2**50)
MARKS = st.builds(Mark, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.text())


@st.composite
def records(draw: st.DrawFn) -> StateRecord:
    first, start, end = sorted(draw(st.lists(offsets, min_size=3, max_size=3, unique=True)))
    phase = draw(st.sampled_from(list(Phase)))
    gap = tuple(sorted(draw(st.lists(offsets, min_size=2, max_size=2))))
    return StateRecord(
        phase,
        draw(st.integers(0, 2**40)),
        draw(st.text(min_size=1)),
        draw(st.none() | st.text()),
        draw(st.integers(0, 9)),
        first,
        start,
        start if phase is Phase.EMPTY else end,
        (OffsetRange(gap[0], gap[1]),),
        draw(st.integers(1, 10**9)),
        draw(st.text()),
        draw(st.text()),
        draw(st.integers(0, 2**45)),
        tuple(draw(st.lists(MARKS, max_size=3))),
        phase is Phase.BEFORE and draw(st.booleans()),
        draw(st.text()),
    )


@given(records())
def test_codec_round_trip(record: StateRecord) -> None:
    text = encode(record)
    assert decode(text) == record
    assert "\n" not in text


def damaged(**changes: Any) -> str:
    document = json.loads(GOLDEN)
    for name, value in changes.items():
        if value is ...:
            del document[name]
        else:
            document[name] = value
    return json.dumps(document)


DAMAGED = {
    "not JSON": GOLDEN[:-5],
    "nothing": "",
    "not an object": "[1]",
    "null": "null",
    "an older version": damaged(version=1),
    "a newer version": damaged(version=3),
    "no version": damaged(version=...),
    "unknown phase": damaged(phase="DURING"),
    "unknown field": damaged(extra=1),
    "start below first": damaged(first=11),
    "end below start": damaged(end=9),
    "AFTER of nothing": damaged(end=10),
    "EMPTY with a range": damaged(phase="EMPTY"),
    "negative offset": damaged(first=-1),
    "no attempt": damaged(attempt=""),
    "no epoch": damaged(epoch=...),
    "chunks of nothing": damaged(chunk_offsets=0),
    "a gap that is none": damaged(gaps=[[6, 4]]),
    "a gap of three": damaged(gaps=[[1, 2, 3]]),
    "text where a number stands": damaged(start="ten"),
    "marks that are none": damaged(marks=7),
    "half a mark": damaged(marks=[[7]]),
    "probing what is done": damaged(probe=True),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_is_refused(name: str) -> None:
    with pytest.raises(CodecError):
        decode(DAMAGED[name])


def test_a_newer_record_names_both_versions() -> None:
    with pytest.raises(CodecError, match="version 3; this chsink reads version 2"):
        decode(DAMAGED["a newer version"])


def test_key_as_text() -> None:
    assert str(StateKey("s", "topic.a", 3, "db.t")) == "s/topic.a/3/db.t"


# --- changes -------------------------------------------------------------------------------------------------------


def test_before_goes_on_from_after() -> None:
    record = writes.before(AFTER, OffsetRange(20, 30), SAID, epoch=4, attempt="b")
    assert record == StateRecord(
        Phase.BEFORE, 4, "b", "id", 1, 2, 20, 30, AFTER.gaps, 4, "L", "P", 123, SAID.marks, nonce="first",
        older_end=7, skipped=5, choice_from=12,
    )  # fmt: skip


def test_before_over_a_gap_records_it() -> None:
    gap = OffsetRange(20, 25)
    assert writes.before(AFTER, OffsetRange(25, 30), SAID, epoch=3, attempt="b", gap=gap).gaps == (*AFTER.gaps, gap)


def test_the_oldest_gap_beyond_the_limit_cuts_the_processed_region() -> None:
    record = AFTER
    for n in range(MAX_GAPS + 3):
        asked, gap = OffsetRange(30 + 10 * n, 35 + 10 * n), OffsetRange(record.end, 30 + 10 * n)
        record = writes.before(record, asked, SAID, epoch=3, attempt="b", gap=gap)
        record = writes.after(record, epoch=3, attempt="a")
    assert len(record.gaps) == MAX_GAPS
    # [4,6) and the next three gaps fell off: all before the last of them is refused when it is offered again
    assert (record.first, record.gaps[0]) == (50, OffsetRange(55, 60))
    assert not record.processed(OffsetRange(48, 52)) and record.processed(OffsetRange(50, 55))


def test_fresh_on_an_empty_row_is_the_first_incarnation() -> None:
    record = writes.before(writes.empty(1, "e"), OffsetRange(7, 9), SAID, epoch=1, attempt="b", fresh=True)
    assert (record.incarnation, record.first, record.gaps, record.nonce) == (0, 7, (), "b")


def test_fresh_on_a_used_row_is_the_next_incarnation() -> None:
    record = writes.before(AFTER, OffsetRange(0, 9), SAID, epoch=3, attempt="b", fresh=True)
    assert (record.incarnation, record.first, record.gaps, record.nonce) == (2, 0, (), "b")


def test_a_nonce_is_kept_until_the_next_incarnation() -> None:
    record = writes.before(writes.empty(1, "e"), OffsetRange(0, 9), SAID, epoch=1, attempt="b1", fresh=True)
    record = writes.renew(record, before_at=200, marks=record.marks, epoch=1, attempt="r1")
    record = writes.adopt(writes.after(record, epoch=1, attempt="a1"), epoch=2, attempt="c2")
    record = writes.before(record, OffsetRange(9, 12), SAID, epoch=2, attempt="b2")
    assert record.nonce == "b1"


def test_a_reset_row_keeps_its_incarnation() -> None:
    row = writes.empty(1, "e", incarnation=5)
    assert writes.before(row, OffsetRange(0, 9), SAID, epoch=1, attempt="b", fresh=True).incarnation == 5


BEFORE = replace(AFTER, phase=Phase.BEFORE)
FORBIDDEN = {
    "announcing over an in-doubt range": lambda: writes.before(BEFORE, OffsetRange(20, 30), SAID, epoch=3, attempt="b"),
    "a fresh start over an in-doubt range": lambda: writes.before(
        BEFORE, OffsetRange(0, 3), SAID, epoch=3, attempt="b", fresh=True
    ),
    "announcing backwards": lambda: writes.before(AFTER, OffsetRange(19, 30), SAID, epoch=3, attempt="b"),
    "announcing behind a gap that nobody decided": lambda: writes.before(
        AFTER, OffsetRange(25, 30), SAID, epoch=3, attempt="b"
    ),
    "announcing behind another gap": lambda: writes.before(
        AFTER, OffsetRange(25, 30), SAID, epoch=3, attempt="b", gap=OffsetRange(21, 25)
    ),
    "announcing over a part of the gap": lambda: writes.before(
        AFTER, OffsetRange(24, 30), SAID, epoch=3, attempt="b", gap=OffsetRange(20, 25)
    ),
    "a gap before a fresh start": lambda: writes.before(
        AFTER, OffsetRange(25, 30), SAID, epoch=3, attempt="b", fresh=True, gap=OffsetRange(20, 25)
    ),
    "announcing nothing": lambda: writes.before(AFTER, OffsetRange(20, 20), SAID, epoch=3, attempt="b"),
    "announcing for an older epoch": lambda: writes.before(AFTER, OffsetRange(20, 30), SAID, epoch=2, attempt="b"),
    "announcing on an empty row without saying fresh": lambda: writes.before(
        writes.empty(1, "e"), OffsetRange(0, 3), SAID, epoch=1, attempt="b"
    ),
    "confirming twice": lambda: writes.after(AFTER, epoch=3, attempt="a"),
    "confirming for an older epoch": lambda: writes.after(BEFORE, epoch=2, attempt="a"),
    "confirming an empty row": lambda: writes.after(writes.empty(1, "e"), epoch=1, attempt="a"),
    "adopting for an older epoch": lambda: writes.adopt(AFTER, epoch=2, attempt="a"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_change(name: str) -> None:
    with pytest.raises(AssertionError):
        FORBIDDEN[name]()


def test_after_changes_the_phase_alone() -> None:
    assert writes.after(BEFORE, epoch=5, attempt="x") == replace(AFTER, epoch=5, attempt="x")


def test_skipped_records_are_counted_within_an_incarnation() -> None:
    record = writes.after(BEFORE, epoch=5, attempt="x", skipped=3)
    assert record.skipped == 8
    assert writes.before(record, OffsetRange(20, 30), SAID, epoch=5, attempt="b").skipped == 8
    assert writes.before(record, OffsetRange(0, 9), SAID, epoch=5, attempt="b", fresh=True).skipped == 0


def test_adopt_keeps_what_a_retry_must_repeat() -> None:
    assert writes.adopt(BEFORE, epoch=9, attempt="x") == replace(BEFORE, epoch=9, attempt="x")


# --- the owner -----------------------------------------------------------------------------------------------------

OWNER = Owner("s", 4, "att", "host:1", 1700000000000, (("L1", "{}"), ("L2", '{"a": 1}')))


def test_owner_is_pinned_and_round_trips() -> None:
    text = owners.encode_owner(OWNER)
    assert text == (
        '{"attempt":"att","claimed_at":1700000000000,"driver":"host:1","epoch":4,'
        '"layouts":{"L1":"{}","L2":"{\\"a\\": 1}"},"sink":"s","version":2}'
    )
    assert owners.decode_owner(text) == OWNER


@pytest.mark.parametrize("text", ["", "{}", '{"version":1}', '{"version":2}', '{"version":2,"layouts":3}', "7"])
def test_a_damaged_owner_row_is_refused(text: str) -> None:
    with pytest.raises(CodecError):
        owners.decode_owner(text)


def test_claim_is_one_epoch_up_and_keeps_layouts() -> None:
    assert owners.claim(None, sink="s", attempt="a", driver="d", now_ms=5) == Owner("s", 1, "a", "d", 5)
    assert owners.claim(OWNER, sink="s", attempt="a", driver="d", now_ms=5) == Owner("s", 5, "a", "d", 5, OWNER.layouts)


def test_layouts_are_replaced_and_found() -> None:
    owner = owners.with_layouts(OWNER, "b", {"L3": "x", "L2": "y"})
    assert owner == replace(OWNER, attempt="b", layouts=(("L2", "y"), ("L3", "x")))
    assert (owner.layout("L2"), owner.layout("L1")) == ("y", None)


@pytest.mark.parametrize(
    ("recorded", "now", "another"), [("a", "b", True), ("a", "a", False), ("a", None, False), (None, "b", False)]
)
def test_only_another_id_shows_that_a_topic_was_deleted(recorded: str | None, now: str | None, another: bool) -> None:
    """⚑ Brokers that hide ids say nothing of the topic."""
    record = StateRecord(Phase.AFTER, 1, "a", recorded, start=0, end=5)

    assert record.is_of_another(now) is another


def test_a_replay_holds_its_list_until_it_is_done() -> None:
    """Each is an incarnation of its own, with tokens of its own, wherever its offsets lie."""
    record = writes.empty(1, "a")
    nonces = set()
    for attempt, listed in (("b", (0, 7, 9)), ("c", (3,)), ("d", (8, 2**62))):
        doubtful = writes.chosen(record, listed, SAID, epoch=1, attempt=attempt)
        assert (doubtful.range, doubtful.only) == (OffsetRange(listed[0], listed[-1] + 1), listed)
        assert decode(encode(doubtful)) == doubtful
        renewed = writes.renew(doubtful, before_at=200, marks=(), epoch=2, attempt="r")
        assert (renewed.only, renewed.nonce) == (listed, doubtful.nonce)
        nonces.add(doubtful.nonce)
        record = writes.after(doubtful, epoch=1, attempt=f"{attempt}2")
        assert record.only == () and "only" not in encode(record)
    assert nonces == {"b", "c", "d"}
    with pytest.raises(AssertionError):
        replace(doubtful, only=(8, 9))
    with pytest.raises(AssertionError):
        replace(record, only=(8,))
