"""The topic that dead letters go to, and what belongs to one sink there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chsink.statemachine.records import StateKey


@dataclass(frozen=True, slots=True)
class LettersTopic:
    """Where the dead letters of a sink go.  ``options`` are librdkafka's.  Picklable.

    The names of sinks and topics have no slash, and tables come last: no two roles of any sinks share an id or a group.
    """

    options: Mapping[str, str] = field(repr=False)
    topic: str
    sink: str
    timeout_s: float

    @property
    def group(self) -> str:
        """Of those who only read."""
        return f"chsink-{self.sink}/dead-letters"

    def group_of(self, table: str) -> str:
        """Holds, for each source topic-partition, the offset up to which its dead letters of the table were delivered.
        Of another table, the same record may be a dead letter, or none.
        """
        return f"{self.group}/{table}"

    def transactional_id(self, key: StateKey) -> str:
        """Of whoever delivers dead letters of this source topic-partition and table."""
        return f"{self.group}/{key.topic}/{key.partition}/{key.table}"
