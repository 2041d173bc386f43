"""What comes to a consumer, and whether Kafka still answers one that gets no record.

The client hands out nothing of an aborted transaction, and the consumer's position stands still until its marker.  A
long one takes longer than any timeout, although Kafka answers.  The client's statistics say how far it has read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, Message

from chsink.errors import ChsinkError, services
from chsink.statemachine.ranges import TopicPartition

POLL_S: Final = 0.1
"""How long one call waits for a record."""
_EACH_S: Final = 1.0


def next_messages(consumer: Consumer, most: int, timeout_s: float = POLL_S) -> list[Message[bytes, bytes]]:
    """At most so many, as soon as there is one: ``consume`` alone waits for all of them, or for the whole time."""
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


class Idle:
    """How long a consumer has waited while nothing was read, at most ``timeout_s``."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waited_s = 0.0
        self._read_to: list[int] = []

    @property
    def options(self) -> Mapping[str, int | Callable[[str], None]]:
        """Of the consumer.  Its statistics come while it waits for a record."""
        every_s = min(_EACH_S, self._timeout_s / 4)
        return {"statistics.interval.ms": max(1, round(every_s * 1000)), "stats_cb": self._told}

    def ended(self) -> None:
        """There is a record."""
        self._waited_s = 0

    def too_long(self) -> bool:
        """One more call got no record: whether that was the last one."""
        self._waited_s += POLL_S
        return self._waited_s >= self._timeout_s

    def error(self, tp: TopicPartition, offset: int) -> ChsinkError:
        """CHS-702: nothing came of the partition at this offset."""
        return services.KAFKA_SILENT(tp=tp, offset=offset, seconds=f"{self._timeout_s:.0f}")

    def _told(self, statistics: str) -> None:
        topics = json.loads(statistics)["topics"].values()
        read_to = [one["next_offset"] for topic in topics for one in topic["partitions"].values()]
        if read_to != self._read_to:
            self._read_to = read_to
            self.ended()
