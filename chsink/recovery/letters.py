"""What dead letters say of lost state: that the records which they hold landed; and which of them were delivered to a
topic, so that a rebuilt state must not deliver them again.

Rules:
- A dead letter speaks for its record, not for its offset: an earlier topic of the same name may have left one there.
  So each is compared with the record that Kafka holds there now.  Where Kafka holds none any more, it is taken at its
  word, and the command says so: nothing can land the record any more.
- The group of the dead letters says up to which offset they were delivered, by the life of the topic-partition that is
  lost.  The topic itself says which they are.  So the group moves on with the rebuilt record: to the first record that
  becomes a dead letter and has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from confluent_kafka import KafkaException

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import letters_topic
from chsink.clickhouse.replicas import TWICE
from chsink.dlq.digest import short, short_of
from chsink.dlq.place import LettersTopic
from chsink.dlq.search import letters_in
from chsink.dlq.table import LettersInTable
from chsink.dlq.topic import move_on
from chsink.errors import services
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.exact import ExactReader
from chsink.notation.sql import quote_table
from chsink.recovery.accepted import runs_of
from chsink.recovery.explained import I64, NONE, windows
from chsink.refusals import asking_target
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, StateRecord

_Held = set[tuple[int, int]]
"""Offset and short digest of each record that has a dead letter."""


@dataclass(frozen=True, slots=True, eq=False)
class LettersFound:
    """Offsets of dead letters, ascending.  ``own``: of the record that Kafka holds there; ``untold``: Kafka holds none
    there any more; ``foreign``: of another record.
    """

    own: I64 = field(default_factory=lambda: NONE)
    untold: I64 = field(default_factory=lambda: NONE)
    foreign: I64 = field(default_factory=lambda: NONE)

    @property
    def counted(self) -> I64:
        """Those that speak for the record of their offset."""
        return np.union1d(self.own, self.untold)


@dataclass(frozen=True)
class SinkLetters:
    """The dead letters of the sink, as one survey looks at them.  A topic is read once, if at all."""

    clickhouse: Cluster
    kafka: KafkaAdmin
    reader: ExactReader
    _found: dict[StateKey, LettersFound] = field(default_factory=dict)

    @cached_property
    def topic(self) -> LettersTopic | None:
        """The topic, if that is where they go."""
        return letters_topic(self.clickhouse.config)

    def of(self, key: StateKey) -> LettersFound:
        """Those of a topic-partition and table."""
        if key not in self._found:
            held = self._in_topic.get(key, set()) if self.topic is not None else self._in_table(key)
            self._found[key] = self._compared(key.topic_partition, held) if held else LettersFound()
        return self._found[key]

    def _compared(self, tp: TopicPartition, held: _Held) -> LettersFound:
        offsets = sorted({offset for offset, _ in held})
        end, own = self.kafka.log_ends([tp])[tp], set[tuple[int, int]]()
        in_log = list(runs_of(offset for offset in offsets if offset < end))
        for window in windows(in_log, end, whole=False) if in_log else ():
            for part in self.reader.read(tp, window):
                own |= short_of(part.records, offsets) & held
        start = self.kafka.log_starts([tp])[tp]  # last: what was deleted meanwhile was not compared
        others = {offset for offset, _ in held - own}
        untold = {offset for offset in others if offset < start}
        found = ({offset for offset, _ in own}, untold, others - untold)
        return LettersFound(*(np.array(sorted(some), np.int64) for some in found))

    def _in_table(self, key: StateKey) -> _Held:
        kept = self.clickhouse.letters
        if kept is None:
            return set()
        reader = kept.reader(self.clickhouse.clock, copies=TWICE)
        with asking_target():
            return set(LettersInTable(reader, quote_table(kept.table.canonical), key.sink).held(key))

    @cached_property
    def _in_topic(self) -> Mapping[StateKey, _Held]:
        assert self.topic is not None
        found: dict[StateKey, _Held] = {}
        with _answering(self.topic):
            for letter in letters_in(self.topic, whole=True):
                if letter.sink == self.topic.sink:
                    at = letter.place
                    key = StateKey(letter.sink, at.topic, at.partition, at.table)
                    found.setdefault(key, set()).add((at.offset, short(letter.digest)))
        return found


def record_delivered(place: LettersTopic, key: StateKey, record: StateRecord, until: int) -> None:
    """Record that the dead letters of the record's range below this offset were delivered to the topic."""
    with _answering(place):
        move_on(place, key, record, until)


@contextmanager
def _answering(place: LettersTopic) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        bootstrap = place.options["bootstrap.servers"]
        raise services.KAFKA_UNAVAILABLE(bootstrap=bootstrap, reason=error.args[0].str()) from error
