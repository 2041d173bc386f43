"""The topic that dead letters go to, and what belongs to one sink there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chsink.statemachine.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class LettersTopic:
    """Where the dead letters of a sink go.  ``options`` are librdkafka's.  Picklable.

    The names of sinks and topics have no slash, so no two roles of any sinks share an id or a group.
    """

    options: Mapping[str, str] = field(repr=False)
    topic: str
    sink: str
    timeout_s: float

    @property
    def group(self) -> str:
        """Holds, for each source topic-partition, the offset up to which its dead letters were delivered."""
        return f"chsink-{self.sink}/dead-letters"

    def transactional_id(self, tp: TopicPartition) -> str:
        """Of whoever delivers dead letters of this source topic-partition."""
        return f"{self.group}/{tp.topic}/{tp.partition}"
