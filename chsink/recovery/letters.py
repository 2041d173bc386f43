"""Dead letters in a topic, which a rebuilt state must not deliver again.

The group of the dead letters says up to which offset they were delivered, by the life of the topic-partition that is
lost.  The topic itself says which they are.  So the group moves on with the rebuilt record: to the first record that
becomes a dead letter and has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from confluent_kafka import KafkaException

from chsink.dlq.place import LettersTopic
from chsink.dlq.search import letters_in
from chsink.dlq.topic import move_on
from chsink.errors import services
from chsink.recovery.explained import I64, NONE
from chsink.statemachine.records import StateKey, StateRecord


@dataclass(frozen=True)
class Delivered:
    """The sink's dead letters in a topic, if that is where they go.  The topic is read once, if at all."""

    place: LettersTopic | None

    def of(self, key: StateKey) -> I64:
        """The offsets that have a dead letter, ascending."""
        return NONE if self.place is None else self._offsets.get(key, NONE)

    def move_on(self, key: StateKey, record: StateRecord, until: int) -> None:
        """Record that the dead letters of the record's range below this offset were delivered."""
        if self.place is not None:
            try:
                move_on(self.place, key, record, until)
            except KafkaException as error:
                raise self._away(error) from error

    @cached_property
    def _offsets(self) -> Mapping[StateKey, I64]:
        assert self.place is not None
        found: dict[StateKey, set[int]] = {}
        try:
            for letter in letters_in(self.place, whole=True):
                if letter.sink == self.place.sink and not letter.lists_deleted:
                    at = letter.place
                    found.setdefault(StateKey(letter.sink, at.topic, at.partition, at.table), set()).add(at.offset)
        except KafkaException as error:
            raise self._away(error) from error
        return {key: np.array(sorted(offsets), np.int64) for key, offsets in found.items()}

    def _away(self, error: KafkaException) -> Exception:
        assert self.place is not None
        return services.KAFKA_UNAVAILABLE(bootstrap=self.place.options["bootstrap.servers"], reason=error.args[0].str())
