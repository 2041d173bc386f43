"""Records, their codec, the owner's row, and the only ways in which a record changes."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine import owner as owners
from chsink.statemachine import writes
from chsink.statemachine.codec import CodecError, decode, encode
from chsink.statemachine.owner import Owner
from chsink.statemachine.parts import Expired, Mark, Seen, Sending, TableChoice, TopicLife, Unsettled
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import MAX_GAPS, Phase, StateKey, StateRecord
from chsink.statemachine.tally import Tally

SAID = writes.Announcement("id", Sending(4, "L", "P"), Seen(123, (Mark(7, 8), Mark(0, 1))))
AFTER = StateRecord(
    Phase.AFTER,
    3,
    "att",
    10,
    20,
    gaps=(OffsetRange(4, 6),),
    life=TopicLife("id", incarnation=1, first=2, nonce="first", older_end=7),
    sent=Sending(4, "layout", "pipe"),
    seen=Seen(1700000000000, (Mark(5, 60), Mark(0, 1))),
    table_by=TableChoice(since=12),
    tally=Tally(skipped=5),
)
GOLDEN = (
    '{"attempt":"att","end":20,"epoch":3,"gaps":[[4,6]],'
    '"life":{"first":2,"incarnation":1,"late":false,"nonce":"first","older_end":7,"topic_id":"id"},'
    '"phase":"AFTER","seen":{"before_at":1700000000000,"marks":[[5,60,0,0],[0,1,0,0]]},'
    '"sent":{"chunk_offsets":4,"layout":"layout","pipeline":"pipe"},"start":10,'
    '"table_by":{"since":12},"tally":{"skipped":5},"version":3}'
)
IN_DOUBT = replace(
    AFTER,
    phase=Phase.BEFORE,
    doubt=Unsettled(probe=True, expired=Expired((13, 20)), only=(10, 12, 19)),
    table_by=TableChoice(left=True),
    tally=Tally(0, 2, (("crew", 1), ("gate", 3))),
)


def test_a_newcomer_reads_the_record_in_one_screen() -> None:
    """What one feature needs is a field of its part, not of the core."""
    assert len(fields(StateRecord)) <= 12


def test_the_stored_form_is_pinned() -> None:
    assert encode(AFTER) == GOLDEN
    assert decode(GOLDEN) == AFTER
    fed = encode(replace(AFTER, seen=replace(AFTER.seen, marks=(Mark(5, 60, 7, 8, "digest"), Mark(0, 1)))))
    assert '"marks":[[5,60,7,8,"digest"],[0,1,0,0]]' in fed
    assert decode(fed).seen.marks[0].feeds == "digest"


def test_what_is_seldom_there_is_stored_where_it_is() -> None:
    """A feature that is not used leaves nothing in a record."""
    plain = json.loads(encode(replace(AFTER, table_by=TableChoice(), tally=Tally())))
    assert not {"doubt", "table_by", "tally"} & plain.keys()
    full = json.loads(encode(IN_DOUBT))
    assert full["doubt"] == {"expired": {"deleted": [13, 20]}, "only": [10, 2, 7], "probe": True}
    assert full["table_by"] == {"left": True}
    assert full["tally"] == {"dead_letters": 2, "unknown": {"crew": 1, "gate": 3}}
    for doubt in (IN_DOUBT.doubt, Unsettled(probe=True), Unsettled(expired=Expired())):
        assert decode(encode(replace(IN_DOUBT, doubt=doubt))) == replace(IN_DOUBT, doubt=doubt)


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
        start,
        start if phase is Phase.EMPTY else end,
        gaps=(OffsetRange(gap[0], gap[1]),),
        life=TopicLife(
            draw(st.none() | st.text()), incarnation=draw(st.integers(0, 9)), first=first, nonce=draw(st.text())
        ),
        sent=Sending(draw(st.integers(1, 10**9)), draw(st.text()), draw(st.text())),
        seen=Seen(draw(st.integers(0, 2**45)), tuple(draw(st.lists(MARKS, max_size=3)))),
        doubt=Unsettled(probe=phase is Phase.BEFORE and draw(st.booleans())),
    )


@given(records())
def test_codec_round_trip(record: StateRecord) -> None:
    text = encode(record)
    assert decode(text) == record
    assert "\n" not in text


def damaged(part: str = "", /, **changes: Any) -> str:
    """The golden record with these changes, in a part of it or in its core."""
    record = json.loads(GOLDEN)
    document = record.setdefault(part, {}) if part else record
    for name, value in changes.items():
        if value is ...:
            del document[name]
        else:
            document[name] = value
    return json.dumps(record)


ALWAYS = ("life", "sent", "seen")
PARTS = (*ALWAYS, "doubt", "table_by", "tally")
DAMAGED = {
    "not JSON": GOLDEN[:-5],
    "nothing": "",
    "not an object": "[1]",
    "null": "null",
    "an older version": damaged(version=2),
    "a newer version": damaged(version=4),
    "no version": damaged(version=...),
    "unknown phase": damaged(phase="DURING"),
    "unknown field": damaged(extra=1),
    **{f"unknown field of {part}": damaged(part, extra=1) for part in PARTS},
    **{f"a {part} that is none": damaged(**{part: 7}) for part in PARTS},
    **{f"no {part}": damaged(**{part: ...}) for part in ("phase", "attempt", "start", "end", "gaps", *ALWAYS)},
    **{f"no {name} of life": damaged("life", **{name: ...}) for name in ("topic_id", "nonce", "first", "older_end")},
    **{f"no {name} of sent": damaged("sent", **{name: ...}) for name in ("chunk_offsets", "layout", "pipeline")},
    "no marks": damaged("seen", marks=...),
    "start below first": damaged("life", first=11),
    "end below start": damaged(end=9),
    "AFTER of nothing": damaged(end=10),
    "EMPTY with a range": damaged(phase="EMPTY"),
    "negative offset": damaged("life", first=-1),
    "no attempt": damaged(attempt=""),
    "no epoch": damaged(epoch=...),
    "chunks of nothing": damaged("sent", chunk_offsets=0),
    "a gap that is none": damaged(gaps=[[6, 4]]),
    "a gap of three": damaged(gaps=[[1, 2, 3]]),
    "text where a number stands": damaged(start="ten"),
    "marks that are none": damaged("seen", marks=7),
    "half a mark": damaged("seen", marks=[[7]]),
    "a choice beyond the end": damaged("table_by", since=21),
    "fewer than no records": damaged("tally", skipped=-1),
    "a life before the first": damaged("life", incarnation=-1),
    "probing what is done": damaged("doubt", probe=True),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_is_refused(name: str) -> None:
    with pytest.raises(CodecError):
        decode(DAMAGED[name])


def test_an_older_record_names_both_versions() -> None:
    flat = {"version": 2, "phase": "AFTER", "epoch": 3, "attempt": "att", "start": 10, "end": 20, "topic_id": "id"}
    with pytest.raises(CodecError, match="version 2; this chsink reads version 3"):
        decode(json.dumps(flat))


def test_a_newer_record_names_both_versions() -> None:
    with pytest.raises(CodecError, match="version 4; this chsink reads version 3"):
        decode(DAMAGED["a newer version"])


def test_key_as_text() -> None:
    assert str(StateKey("s", "topic.a", 3, "db.t")) == "s/topic.a/3/db.t"


# --- changes -------------------------------------------------------------------------------------------------------


def test_before_goes_on_from_after() -> None:
    record = writes.before(AFTER, OffsetRange(20, 30), SAID, epoch=4, attempt="b")
    assert record == replace(
        AFTER, phase=Phase.BEFORE, epoch=4, attempt="b", start=20, end=30, sent=SAID.sent, seen=SAID.seen
    )


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
    assert (record.life.first, record.gaps[0]) == (50, OffsetRange(55, 60))
    assert not record.processed(OffsetRange(48, 52)) and record.processed(OffsetRange(50, 55))


def test_fresh_on_an_empty_row_is_the_first_incarnation() -> None:
    record = writes.before(writes.empty(1, "e"), OffsetRange(7, 9), SAID, epoch=1, attempt="b", fresh=True)
    assert (record.life.incarnation, record.life.first, record.gaps, record.life.nonce) == (0, 7, (), "b")


def test_fresh_on_a_used_row_is_the_next_incarnation() -> None:
    record = writes.before(AFTER, OffsetRange(0, 9), SAID, epoch=3, attempt="b", fresh=True)
    assert (record.life.incarnation, record.life.first, record.gaps, record.life.nonce) == (2, 0, (), "b")


def test_a_nonce_is_kept_until_the_next_incarnation() -> None:
    record = writes.before(writes.empty(1, "e"), OffsetRange(0, 9), SAID, epoch=1, attempt="b1", fresh=True)
    record = writes.renew(record, Seen(200, record.seen.marks), epoch=1, attempt="r1")
    record = writes.adopt(writes.after(record, epoch=1, attempt="a1"), epoch=2, attempt="c2")
    record = writes.before(record, OffsetRange(9, 12), SAID, epoch=2, attempt="b2")
    assert record.life.nonce == "b1"


def test_a_reset_row_keeps_its_incarnation() -> None:
    row = writes.empty(1, "e", TopicLife(incarnation=5))
    assert writes.before(row, OffsetRange(0, 9), SAID, epoch=1, attempt="b", fresh=True).life.incarnation == 5


BEFORE = replace(AFTER, phase=Phase.BEFORE)


def test_a_range_that_is_announced_again_is_not_younger_by_a_clock_that_lags() -> None:
    at = BEFORE.seen.before_at
    behind, ahead = (
        writes.renew(BEFORE, Seen(now, (Mark(9, 60),)), epoch=3, attempt="r") for now in (at - 500, at + 500)
    )
    assert (behind.seen, ahead.seen) == (Seen(at, (Mark(9, 60),)), Seen(at + 500, (Mark(9, 60),)))
    assert behind.doubt == Unsettled(probe=True)


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
    record = writes.after(BEFORE, epoch=5, attempt="x", left_out=Tally(skipped=3))
    assert record.tally.skipped == 8
    assert writes.before(record, OffsetRange(20, 30), SAID, epoch=5, attempt="b").tally.skipped == 8
    assert writes.before(record, OffsetRange(0, 9), SAID, epoch=5, attempt="b", fresh=True).tally.skipped == 0


def test_adopt_keeps_what_a_retry_must_repeat() -> None:
    assert writes.adopt(BEFORE, epoch=9, attempt="x") == replace(BEFORE, epoch=9, attempt="x")


# --- the owner -----------------------------------------------------------------------------------------------------

OWNER = Owner("s", 4, "att", "host:1", 1700000000000, (("L1", "{}"), ("L2", '{"a": 1}')))


def test_owner_is_pinned_and_round_trips() -> None:
    text = owners.encode_owner(OWNER)
    assert text == (
        '{"attempt":"att","claimed_at":1700000000000,"driver":"host:1","epoch":4,'
        '"layouts":{"L1":"{}","L2":"{\\"a\\": 1}"},"sink":"s","version":3}'
    )
    assert owners.decode_owner(text) == OWNER


@pytest.mark.parametrize("text", ["", "{}", '{"version":2}', '{"version":3}', '{"version":3,"layouts":3}', "7"])
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
    record = StateRecord(Phase.AFTER, 1, "a", 0, 5, life=TopicLife(recorded))

    assert record.is_of_another(now) is another


def test_a_replay_holds_its_list_until_it_is_done() -> None:
    """Each is an incarnation of its own, with tokens of its own, wherever its offsets lie."""
    record = writes.empty(1, "a")
    nonces = set()
    for attempt, listed in (("b", (0, 7, 9)), ("c", (3,)), ("d", (8, 2**62))):
        doubtful = writes.replaying(record, listed, SAID, epoch=1, attempt=attempt)
        assert (doubtful.range, doubtful.doubt.only) == (OffsetRange(listed[0], listed[-1] + 1), listed)
        assert decode(encode(doubtful)) == doubtful
        renewed = writes.renew(doubtful, Seen(200, ()), epoch=2, attempt="r")
        assert (renewed.doubt.only, renewed.life.nonce) == (listed, doubtful.life.nonce)
        nonces.add(doubtful.life.nonce)
        record = writes.after(doubtful, epoch=1, attempt=f"{attempt}2")
        assert record.doubt.only == () and "only" not in encode(record)
    assert nonces == {"b", "c", "d"}
    with pytest.raises(AssertionError):
        replace(doubtful, doubt=replace(doubtful.doubt, only=(8, 9)))
    with pytest.raises(AssertionError):
        replace(record, doubt=replace(record.doubt, only=(8,)))
