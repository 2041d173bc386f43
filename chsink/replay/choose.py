"""Which dead letters may be replayed: those that the job will never land itself, and whose records fit today.

Rules:
- Only offsets below the end of what the job confirmed: a range in doubt may be sent again, and a record of a reset
  partition may be read again.
- Only one dead letter for each record.  Several at one offset without a replay mark must hold the same record.
- No record that already has a row, if the table can show that: a person may have inserted a corrected one.
- With ``add_columns``, no record with a field that has no column yet: a replay adds no columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.probe import rows_by_offset
from chsink.dlq.kept import KeptLetters
from chsink.dlq.place import LetterPlace, replay_sink
from chsink.dlq.table import offsets_in
from chsink.driver.ledger import read_owner, read_records
from chsink.ports import StateStore
from chsink.refusals import asking_target
from chsink.replay.report import KeepReason, Left, ReplayReport
from chsink.replay.routes import LetterRoutes, records_of
from chsink.replay.source import LetterSource
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord

ChosenOffsets = dict[StateKey, tuple[int, ...]]
"""By the key of the replay's state: the offsets, ascending."""
NO_COLUMN: Final = "the table has no column for this field yet; add one"


class UnconfirmedError(Exception):
    """The job may still read and land records of a list."""


@dataclass(frozen=True, slots=True)
class LetterChooser:
    """``source`` has those of the job's sink."""

    clickhouse: Cluster
    store: StateStore
    routes: LetterRoutes
    source: LetterSource

    def choose(
        self, page: Sequence[LetterPlace], report: ReplayReport, pending: Mapping[StateKey, StateRecord]
    ) -> ChosenOffsets:
        """Those of the page that may be replayed; ``report`` hears of the others.  ``pending`` lists are in doubt: a
        dry run leaves their dead letters out.
        """
        sink = self.source.sink
        recorded = self._recorded()
        groups: dict[StateKey, list[LetterPlace]] = defaultdict(list)
        for place in page:
            groups[StateKey(sink, place.topic, place.partition, place.table)].append(place)
        chosen: ChosenOffsets = {}
        for key, places in groups.items():
            own = StateKey(replay_sink(sink), key.topic, key.partition, key.table)
            waiting = set(pending[own].doubt.only) if own in pending else set()
            open_ = sorted(p for p in places if p.offset not in waiting)
            confirmed = list(self._confirmed(key, open_, recorded.get(key), report))
            offsets = tuple(self._fitting(key, recorded[key].life.nonce, confirmed, report)) if confirmed else ()
            if offsets:
                chosen[own] = offsets
        return chosen

    def may_have_row(self, own: StateKey, offsets: Sequence[int]) -> bool:
        """Whether the job may have landed records of a list since it was chosen, because their partition was reset.

        Raises :class:`UnconfirmedError` where it may still land some.
        """
        key = replace(own, sink=self.source.sink)
        record = self._recorded().get(key)
        if record is None or not all(is_confirmed(record, offset) for offset in offsets):
            raise UnconfirmedError
        return any(record.life.first <= offset < record.life.older_end for offset in offsets)

    def lives(self) -> dict[StateKey, str]:
        """The life of each partition and table that the job knows: what is confirmed in one stays confirmed in it."""
        return {key: f"{record.life.incarnation} {record.life.nonce}" for key, record in self._recorded().items()}

    def overtaken(self, chosen: Collection[StateKey], before: Mapping[StateKey, str]) -> list[StateKey]:
        """The lists whose partition has started a new life since they were chosen (``before``)."""
        now, sink = self.lives(), self.source.sink
        keys = {own: replace(own, sink=sink) for own in chosen}
        return [own for own, key in keys.items() if now.get(key) is None or now[key] != before.get(key)]

    def _recorded(self) -> Mapping[StateKey, StateRecord]:
        """What the job recorded; nothing while a reset is running.  The owner is read first: a reset announces itself
        in the owner's row before it forgets anything.
        """
        store, sink = self.store, self.source.sink
        owner = read_owner(store, sink)
        return {} if owner is None or owner.resets else read_records(store, sink)

    def _confirmed(
        self, key: StateKey, places: Sequence[LetterPlace], record: StateRecord | None, report: ReplayReport
    ) -> Iterator[int]:
        """The offsets that the job will never send again."""
        for place in places:
            why = self._why_not(key, place.offset, record)
            if why is None:
                yield place.offset
            else:
                report.leave(Left(place, why))

    def _why_not(self, key: StateKey, offset: int, record: StateRecord | None) -> KeepReason | None:
        if not self.clickhouse.is_routed(key):
            return KeepReason.NOT_ROUTED
        if record is None or not is_confirmed(record, offset):
            return KeepReason.NOT_CONFIRMED
        if not record.sent.pipeline:
            return KeepReason.UNKNOWN
        if self.routes.is_transformed(key.topic_table, record):
            return KeepReason.TRANSFORMED
        may_be_older = record.life.first <= offset < record.life.older_end
        return KeepReason.EARLIER if may_be_older and not self._can_look(key) else None

    def _fitting(self, key: StateKey, nonce: str, offsets: Sequence[int], report: ReplayReport) -> Iterator[int]:
        """The offsets of those whose records have a row today, and had none yet.  ``nonce`` is the present one: the
        record of a dead letter with an earlier one may have landed since.
        """
        with asking_target():
            there = self._rows_there(key, offsets)
        found = self.source.letters(key, offsets)
        letters: list[KeptLetters] = []
        for offset, some in groupby(found, key=lambda one: one.offset):
            why = KeepReason.HAS_ROW if offset in there else None
            several = list(some)
            with_record = [one for one in several if not one.lists_deleted]
            if not with_record:
                why = KeepReason.DELETED
            several = with_record or several
            if why is None and len({one.digest for one in several}) > 1:
                why = KeepReason.AMBIGUOUS
            if why is None and all(one.nonce not in {"", nonce} for one in several) and not self._can_look(key):
                why = KeepReason.EARLIER
            if why is None:
                letters.append(several[0])
            else:
                report.leave(Left(_place(several[0]), why))
        if not letters:
            return
        layout, pipeline = self.routes.layout(key.topic_table), self.routes.present(key.topic_table)[1]
        records = records_of(letters)
        prepared, with_row = self.routes.prepare(key.topic_table, records, layout, pipeline)
        bad = {one.row: one for one in prepared.rejected}
        lacking = self.routes.lacking(key.topic_table, records)
        for row, letter in enumerate(letters):
            if row in with_row and row in lacking:
                report.leave(Left(_place(letter), KeepReason.BAD, lacking[row], NO_COLUMN))
            elif row in with_row:
                yield letter.offset
            elif row in bad:
                report.leave(Left(_place(letter), KeepReason.BAD, bad[row].column or "", bad[row].reason))
            else:
                report.leave(Left(_place(letter), KeepReason.OTHER_TABLE))

    def _can_look(self, key: StateKey) -> bool:
        """Whether the table shows which records it has."""
        return all(s.table.can_probe for s in self.clickhouse.targets[key.topic_table].shards)

    def _rows_there(self, key: StateKey, offsets: Sequence[int]) -> set[int]:
        """The offsets of which a shard has a row, as far as the table shows them."""
        near, there = OffsetRange(offsets[0], offsets[-1] + 1), set[int]()
        for shard in self.clickhouse.targets[key.topic_table].shards:
            if shard.table.takes_places:
                tp, only = TopicPartition(key.topic, key.partition), f"AND {offsets_in(offsets)}"
                reader = shard.reader(self.clickhouse.clock)
                there |= rows_by_offset(reader, shard.table.canonical, tp, near, only).keys()
        return there


def is_confirmed(record: StateRecord, offset: int) -> bool:
    """Whether the job will not send this offset any more."""
    return offset < (record.start if record.in_doubt else record.end)


def _place(letter: KeptLetters) -> LetterPlace:
    return LetterPlace(letter.topic, letter.partition, letter.offset, letter.table)
