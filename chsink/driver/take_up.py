"""Before a range in doubt is sent again: announce what a resend would change, and whatever must be probed.

Order, and why:
1. Ranges whose pipeline has grown are announced again, so that a later start knows what was sent.
2. Whatever will halt does so before anybody is waited for.
3. All inserts that still run are waited for before any range is announced to be probed: a probe counts rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from chsink.driver.halts import Halts
from chsink.driver.ledger import Ledger
from chsink.driver.roles import Looked, Window
from chsink.errors import halts
from chsink.ports import Clock
from chsink.refusals import asking_target
from chsink.statemachine import writes
from chsink.statemachine.parts import Mark, Seen
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import fates_change, gains_columns, has_dead_letters


@dataclass(frozen=True, slots=True)
class TakeUp:
    """Takes up ranges in doubt.  ``pipeline(key, record)`` is the fingerprint of an insert made now."""

    ledger: Ledger
    window: Window
    clock: Clock
    pipeline: Callable[[StateKey, StateRecord], str]

    def __call__(self, keys: Sequence[StateKey], halted: Halts) -> list[StateKey]:
        """Announce again those ranges in doubt that must be probed.  Returns the ranges that may be sent; the others
        are in ``halted``.
        """
        self._announce_more(keys)
        probed = self._without_foreign(self._probed(keys, halted), halted)
        with asking_target():
            for key in probed:
                self.window.wait_for_inserts(key, self.ledger.records[key])
        self._renew(probed)
        return [k for k in keys if k not in halted]

    def _announce_more(self, keys: Iterable[StateKey]) -> None:
        """Announce ranges again whose records may become dead letters for the first time, or fill columns that the
        table has gained, or that were announced under no pipeline, before any of them is sent.
        """
        changes = {}
        for key in keys:
            record = self.ledger.records[key]
            pipeline = self.pipeline(key, record)
            fates = fates_change(record.sent.pipeline, pipeline)
            unnamed = bool(pipeline) and not record.sent.pipeline
            if unnamed or fates or gains_columns(record.sent.pipeline, pipeline):
                with asking_target():
                    first = fates and not has_dead_letters(record.sent.pipeline)
                    mark = self.window.letters_mark() if first else None
                changes[key] = partial(writes.with_more, record, pipeline=pipeline, mark=mark)
        if changes:
            attempt, epoch = self.ledger.attempt(), self.ledger.epoch
            self.ledger.write({key: make(epoch=epoch, attempt=attempt) for key, make in changes.items()})

    def _probed(self, keys: Iterable[StateKey], halted: Halts) -> list[StateKey]:
        """Those whose tokens may be forgotten.  Halts those that cannot be probed."""
        probed = []
        looked: Looked = {}
        for key in keys:
            with halted.of(key), asking_target():
                if self.window.must_probe(key, self.ledger.records[key], looked):
                    probed.append(key)
        return probed

    def _without_foreign(self, keys: Iterable[StateKey], halted: Halts) -> list[StateKey]:
        """Halt those (CHS-318) where a probe could count rows that are not the range's own; return the others."""
        for key in keys:
            record = self.ledger.records[key]
            with asking_target():
                foreign = record.start < record.life.older_end or self.window.holds_foreign(key, record)
            if foreign:
                older = f", and an earlier one reached offset {record.life.older_end}" if record.life.older_end else ""
                detail = f"the range {record.range} of incarnation {record.life.incarnation} is in doubt{older}"
                halted.add(key, halts.FOREIGN_ROWS(tp=key.topic_partition, detail=detail))
        return [k for k in keys if k not in halted]

    def _renew(self, keys: Sequence[StateKey]) -> None:
        """Announce the ranges again, to be probed, with the marks of now."""
        epoch, attempt, now, changes = self.ledger.epoch, self.ledger.attempt(), self.clock.now_ms(), {}
        marks: dict[str, dict[str, tuple[Mark, ...]]] = {}
        for key in keys:
            record = self.ledger.records[key]
            layout = record.sent.layout
            if layout not in marks:
                alike = {k.table for k in keys if self.ledger.records[k].sent.layout == layout}
                with asking_target():
                    marks[layout] = self.window.marks(sorted(alike), layout)
            changes[key] = writes.renew(record, Seen(now, marks[layout][key.table]), epoch=epoch, attempt=attempt)
        if changes:
            self.ledger.write(changes)
