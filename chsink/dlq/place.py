"""Where a dead letter is: its record's place in Kafka and its table; and the topic that takes dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chsink.statemachine.records import StateKey

TRANSACTION_MS = 60_000
"""After this, Kafka ends a transaction of dead letters whose sender is gone."""


def replay_sink(sink: str) -> str:
    """The name under which a sink's replays keep their state and their marks.  No sink can be given such a name."""
    return f"{sink}~replay"


@dataclass(frozen=True, slots=True, order=True)
class LetterPlace:
    """What names a dead letter: where its record is in Kafka, and the table it was for."""

    topic: str
    partition: int
    offset: int
    table: str


@dataclass(frozen=True, slots=True)
class LettersTopic:
    """Where the dead letters of a sink go.  ``options`` are librdkafka's.  Picklable.

    The names of sinks and topics have no slash, and tables come last: no two roles of any sinks share an id or a group.
    """

    options: Mapping[str, str] = field(repr=False)
    topic: str
    sink: str
    timeout_s: float
    lists_deleted: bool = False
    """Whether lists of offsets that Kafka deleted are delivered: not in the order of the records around them."""

    @property
    def group(self) -> str:
        """Of those who only read."""
        return f"chsink-{self.sink}/dead-letters{'-deleted' if self.lists_deleted else ''}"

    def group_of(self, table: str) -> str:
        """The group that holds, for each source topic-partition, up to which offset its dead letters of this table were
        delivered.  Each table has its own group, because a record may fit one table and not another.
        """
        return f"{self.group}/{table}"

    def transactional_id(self, key: StateKey) -> str:
        """Of whoever delivers dead letters of this source topic-partition and table."""
        return f"{self.group}/{key.topic}/{key.partition}/{key.table}"
