"""Fields without a column in a record: few names, counted since the columns last changed."""

from __future__ import annotations

from chsink.statemachine import writes
from chsink.statemachine.codec import decode, encode
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.tally import LONGEST, NAMES, OTHERS, Tally, added

SAID = writes.Announcement("id", Sending(10, "layout", "columns=1"), Seen(1))


def test_names_beyond_the_limit_are_counted_together() -> None:
    known = added((), {f"f{n:02}": 1 for n in range(NAMES - 1)})
    known = added(known, {"f00": 2, "x" * 300: 1, "late": 3})
    known = added(known, {"later": 4, "late": 1})
    counts = dict(known)
    assert (counts["f00"], counts["x" * LONGEST], counts[OTHERS]) == (3, 1, 8)
    assert len(known) == NAMES + 1 and list(known) == sorted(known)


def test_they_are_written_with_after_and_counted_again_for_other_columns() -> None:
    empty = writes.empty(1, "a")
    assert '"unknown"' not in encode(empty)
    doubtful = writes.before(empty, OffsetRange(0, 10), SAID, epoch=1, attempt="b", fresh=True)
    landed = writes.after(doubtful, epoch=1, attempt="c", left_out=Tally(unknown=(("crew", 2), ("gate", 10))))
    assert landed.tally.unknown == (("crew", 2), ("gate", 10))
    assert decode(encode(landed)) == landed

    same = writes.before(landed, OffsetRange(10, 20), SAID, epoch=1, attempt="d")
    more = writes.after(same, epoch=1, attempt="e", left_out=Tally(unknown=(("gate", 1),)))
    assert more.tally.unknown == (("crew", 2), ("gate", 11))
    assert writes.after(same, epoch=1, attempt="e").tally.unknown == landed.tally.unknown
    altered = writes.Announcement("id", Sending(10, "layout", "columns=2"), Seen(1))
    assert writes.before(landed, OffsetRange(10, 20), altered, epoch=1, attempt="d").tally.unknown == ()
    assert writes.before(landed, OffsetRange(10, 20), SAID, epoch=1, attempt="d", fresh=True).tally.unknown == ()
    assert writes.lost(same, epoch=1, attempt="e").tally.unknown == landed.tally.unknown
