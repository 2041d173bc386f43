"""What is remembered per (sink, topic, partition, table).

One record has one slot: the last range and its phase.  ``BEFORE`` means that the range was announced, and its inserts
may or may not have landed (*in doubt* until ``AFTER``).  ``AFTER`` means that all of it landed.  ``EMPTY`` means that
the row exists but announces nothing.

Rules that hold for every record, asserted on construction:
- the processed region is ``[life.first, start)`` without ``gaps``; the last range is ``[start, end)``;
- the record holds what a resend must repeat to be deduplicated: the range, ``sent``, and the ``life`` with its nonce.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from .parts import Seen, Sending, TableChoice, TopicLife, Unsettled
from .ranges import OffsetRange, TopicPartition
from .tally import Tally

MAX_GAPS = 64
TopicTable = tuple[str, str]
"""Topic and table: a topic may lead to several tables, several topics to one."""


class Phase(StrEnum):
    """Where the last range of a record stands."""

    EMPTY = "EMPTY"
    BEFORE = "BEFORE"
    AFTER = "AFTER"


@dataclass(frozen=True, slots=True, order=True)
class StateKey:
    """The name of a record: two sinks, or two tables, on one topic never see each other's state."""

    sink: str
    topic: str
    partition: int
    table: str

    def __str__(self) -> str:
        return f"{self.sink}/{self.topic}/{self.partition}/{self.table}"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def topic_table(self) -> TopicTable:
        """Which table of which topic."""
        return self.topic, self.table


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One topic-partition's state for one table: which range came last, and has all of it landed?

    ``attempt`` is unique per write: a write names the attempt it replaces.  ``epoch`` is the writer's.  ``gaps`` are
    offsets that never land.  Each other field is a part, which answers one question (see :mod:`parts`).
    """

    phase: Phase
    epoch: int
    attempt: str
    start: int = 0
    end: int = 0
    gaps: tuple[OffsetRange, ...] = ()
    life: TopicLife = TopicLife()
    sent: Sending = Sending()
    seen: Seen = Seen()
    doubt: Unsettled = Unsettled()
    table_by: TableChoice = TableChoice()
    tally: Tally = Tally()

    def __post_init__(self) -> None:
        assert self.epoch >= 0 and self.attempt, self
        assert self.life.first <= self.start <= self.end, self
        assert (self.start == self.end) is (self.phase is Phase.EMPTY), self
        assert len(self.gaps) <= MAX_GAPS, self
        assert self.table_by.since <= self.end, self
        assert self.in_doubt or self.doubt == Unsettled(), self
        only, deleted = self.doubt.only, self.deleted
        assert not only or (only[0], only[-1] + 1) == (self.start, self.end), self
        assert not deleted or (self.start < deleted[0] and deleted[-1] <= self.end), self

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.start, self.end)

    @property
    def deleted(self) -> tuple[int, ...]:
        """The ends of the runs of a range in doubt that Kafka no longer holds, and that are given up."""
        return () if self.doubt.expired is None else self.doubt.expired.deleted

    @property
    def deleted_runs(self) -> tuple[OffsetRange, ...]:
        """The same runs, as ranges."""
        return tuple(OffsetRange(a, b) for a, b in pairwise((self.start, *self.deleted)))

    @property
    def known_end(self) -> int:
        """No row of this sink lies at or beyond this offset."""
        return max(self.end, self.life.older_end)

    @property
    def done(self) -> int:
        """The first offset that is not known to have landed, or to have been given up."""
        return self.start if self.in_doubt else self.end

    @property
    def read_again(self) -> bool:
        """Whether it has not reached the end of earlier incarnations: up to there, it lands what they landed, too."""
        return self.end < self.life.older_end

    @property
    def in_doubt(self) -> bool:
        return self.phase is Phase.BEFORE

    def may_belong_to(self, topic_id: str | None) -> bool:
        """Whether the record is of the topic with this id, or of one whose id its brokers did not give."""
        return self.life.topic_id in (None, topic_id)

    def is_of_another(self, topic_id: str | None) -> bool:
        """Whether this id, if the brokers give one, shows that the recorded topic was deleted."""
        return topic_id is not None and not self.may_belong_to(topic_id)

    def processed(self, asked: OffsetRange, log_start: int = 0) -> bool:
        """Whether every offset of ``asked`` lies in the processed region, and none is among those it ``lacks``."""
        return asked.end <= self.start and not self.lacks(asked, log_start)

    def lacks(self, asked: OffsetRange, log_start: int = 0) -> list[OffsetRange]:
        """What of ``asked`` was passed over: it lies before ``first``, or in a gap that reaches beyond Kafka's
        ``log_start``.  Nothing of the other gaps can land any more: Kafka deleted it.
        """
        passed = (OffsetRange(0, self.life.first), *(g for g in self.gaps if g.end > log_start))
        return [part for one in passed if not (part := asked.overlap(one)).is_empty]

    def done_with(self, asked: OffsetRange, log_start: int = 0) -> bool:
        """Whether nothing of ``asked`` remains to be done: it was processed, or lies in the last range after AFTER."""
        return self.processed(asked, log_start) or (self.phase is Phase.AFTER and self.range.covers(asked))


StateRecords = Mapping[StateKey, StateRecord]
"""What the store holds, or the part of it that is looked at."""
