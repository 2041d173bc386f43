"""Ranges in doubt whose tokens may be forgotten: whatever will halt does so before anybody is waited for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from chsink.driver.halts import Halts
from chsink.driver.take_up import TakeUp
from chsink.errors import HaltError, halts
from chsink.statemachine.parts import Mark, Seen, Sending, TopicLife
from chsink.statemachine.records import Phase, StateKey, StateRecord

KEYS = [StateKey("s", "t", n, "db.t") for n in range(3)]
RECORD = StateRecord(Phase.BEFORE, 1, "a", 10, 20, life=TopicLife("id"), sent=Sending(4))


@dataclass
class Window:
    """Every range must be probed; ``foreign`` and ``blind`` name partitions that halt instead."""

    foreign: int | None = None
    blind: int | None = None
    waited: list[int] = field(default_factory=list)
    looks: int = 0

    def must_probe(self, key: StateKey, record: StateRecord, looked: object = None) -> bool:
        if key.partition == self.blind:
            raise halts.CANNOT_PROBE(tp=key.topic_partition, range=record.range, reason="it is old", table=key.table)
        return True

    def holds_foreign(self, key: StateKey, record: StateRecord) -> bool:
        return key.partition == self.foreign

    def wait_for_inserts(self, key: StateKey, record: StateRecord) -> None:
        self.waited.append(key.partition)

    def letters_mark(self) -> Mark:
        return Mark(7, 7)

    def marks(self, tables: Iterable[str], layout: str | None) -> dict[str, tuple[()]]:
        self.looks += 1
        return dict.fromkeys(tables, ())


def take_up(window: Window, present: str = "", **changes: Any) -> tuple[dict[StateKey, StateRecord], Halts]:
    written: dict[StateKey, StateRecord] = {}
    records = {**dict.fromkeys(KEYS, RECORD), KEYS[2]: replace(RECORD, **changes)}
    ledger = SimpleNamespace(records=records, epoch=1, attempt=lambda: "b", write=written.update)
    clock = SimpleNamespace(now_ms=lambda: 5)
    halted = Halts()
    taking_up = TakeUp(ledger, window, clock, lambda *_: present)  # type: ignore[arg-type]
    assert taking_up(KEYS, halted) == [k for k in KEYS if k not in halted]
    return written, halted


@pytest.mark.parametrize(("window", "id"), [(Window(blind=2), "CHS-317"), (Window(foreign=2), "CHS-318")])
def test_what_halts_is_not_waited_for_and_the_others_go_on(window: Window, id: str) -> None:
    written, halted = take_up(window)
    with pytest.raises(HaltError, match=f"{id}.*t-2"):
        halted.raise_all()
    assert window.waited == [0, 1]
    assert list(written) == KEYS[:2]


def test_an_earlier_life_of_the_range_waits_for_nothing() -> None:
    window = Window()
    _, halted = take_up(window, life=TopicLife("id", 1, older_end=11))
    with pytest.raises(HaltError, match="CHS-318.*an earlier one reached offset 11"):
        halted.raise_all()
    assert window.waited == [0, 1]


def test_all_inserts_are_waited_for_before_any_range_is_announced_again() -> None:
    window = Window()
    written, _ = take_up(window)
    assert all(r.doubt.probe for r in written.values())
    assert window.waited == [0, 1, 2]
    assert window.looks == 1, "one look at the table for all of its ranges"


def test_a_range_gains_dead_letters_before_any_is_sent() -> None:
    """⚑ Announced without dead letters, settled with: from then on the record says so, and what their table held."""
    window = Window()
    window.must_probe = lambda *_: False  # type: ignore[method-assign]
    written, halted = take_up(window, "dead_letters=x")
    halted.raise_all()
    assert {(r.sent.pipeline, r.seen.marks) for r in written.values()} == {("dead_letters=x", (Mark(7, 7),))}
    assert written.keys() == set(KEYS)


def test_a_range_whose_fates_change_is_announced_again() -> None:
    """⚑ Else a later start would take the recorded fate for that of what was sent."""
    window = Window()
    window.must_probe = lambda *_: False  # type: ignore[method-assign]
    was, now = "dead_letters=x,on_bad_value=halt", "dead_letters=x,on_bad_value=dead_letter"
    written, halted = take_up(window, now, sent=Sending(4, "", was), seen=Seen(0, (Mark(1, 1),)))
    halted.raise_all()
    assert (written[KEYS[2]].sent.pipeline, written[KEYS[2]].seen.marks) == (now, (Mark(1, 1),))


def test_a_range_is_announced_again_before_it_fills_a_column_that_was_added() -> None:
    """⚑ Else nobody would know which type the column had when the first attempt sent it."""
    window = Window()
    window.must_probe = lambda *_: False  # type: ignore[method-assign]
    written, _ = take_up(window, "added_columns=x", sent=Sending(4, "", "added_columns=x"))
    assert {k: (r.sent.pipeline, r.seen.marks) for k, r in written.items()} == dict.fromkeys(
        KEYS[:2], ("added_columns=x", RECORD.seen.marks)
    )
