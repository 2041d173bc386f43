"""What may be replayed, and what a list may still become, from recorded state and from the dead letters that are there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chsink.dlq.kept import KeptLetters
from chsink.dlq.place import replay_sink
from chsink.ports import StoredRow
from chsink.replay.choose import LetterChooser, UnconfirmedError
from chsink.replay.land import UnclearListError, _one_each
from chsink.state.memory import MemoryStore
from chsink.statemachine import owner as owners
from chsink.statemachine.codec import encode
from chsink.statemachine.parts import TopicLife, Unsettled
from chsink.statemachine.records import Phase, StateKey, StateRecord

KEY, OWN = StateKey("s", "t", 0, "d.t"), StateKey(replay_sink("s"), "t", 0, "d.t")
DONE = StateRecord(Phase.AFTER, 1, "a", 10, 20, life=TopicLife("id", incarnation=1, older_end=15))
LETTER = KeptLetters("t", 0, 10, "d.t", "c", "CHS-501", "r", 1, 0, False, None, b"1", ())


def chooser(record: StateRecord) -> LetterChooser:
    """Over what the job recorded."""
    owner = owners.claim(None, sink="s", attempt="o", driver="d", now_ms=1, above=0, resets=False)
    store, unused = MemoryStore(), cast("Any", None)
    store.create([StoredRow("s", "o", owners.encode_owner(owner)), StoredRow(str(KEY), record.attempt, encode(record))])
    source: Any = SimpleNamespace(sink="s")
    return LetterChooser(unused, store, unused, source)


@pytest.mark.parametrize(("offsets", "may"), [((5, 14), True), ((5, 17), True), ((15, 17), False)])
def test_a_list_of_which_one_record_was_read_again_may_have_a_row(offsets: tuple[int, ...], may: bool) -> None:
    """⚑ The job landed it, and the list holds it, too."""
    assert chooser(DONE).may_have_row(OWN, offsets) is may


@pytest.mark.parametrize(("offsets", "confirmed"), [((5, 9), True), ((5, 10), False), ((12, 17), False)])
def test_a_list_of_which_the_job_may_land_one_record_waits(offsets: tuple[int, ...], confirmed: bool) -> None:
    """⚑ Its range is in doubt: the job may send it again."""
    asked = chooser(replace(DONE, phase=Phase.BEFORE))
    if confirmed:
        assert asked.may_have_row(OWN, offsets)
    else:
        with pytest.raises(UnconfirmedError):
            asked.may_have_row(OWN, offsets)


def test_a_list_is_sent_again_only_as_it_was() -> None:
    """⚑ One dead letter that is gone, or another record at one of its offsets, and nobody knows what the list was."""
    record = StateRecord(Phase.BEFORE, 1, "a", 10, 13, doubt=Unsettled(only=(10, 12)))
    both = [LETTER, replace(LETTER, offset=12)]
    assert _one_each([*both, LETTER], record) == both
    with pytest.raises(UnclearListError, match="only 1 of these"):
        _one_each(both[:1], record)
    with pytest.raises(UnclearListError, match="other dead letters"):
        _one_each([*both, replace(LETTER, offset=12, value=b"2")], record)
