"""Why a coordinator stops, besides errors of Kafka and the catalog (:mod:`chsink.mirror.control`, ``tables``)."""

from __future__ import annotations

from chsink.statemachine.commit.rules import CommitHalt


class Halted(Exception):
    """A person has to decide about tables; their names are separated by spaces.

    ``detail`` depends on ``why``; ``topic`` is the control topic, ``table_property`` the wrong property, if one is, and
    ``offsets`` what Kafka deleted, if it did.
    """

    def __init__(
        self, table: str, why: CommitHalt, detail: str, *, topic: str, table_property: str, offsets: str = ""
    ) -> None:
        super().__init__(table, why, detail)
        self.table, self.why, self.detail = table, why, detail
        self.topic, self.table_property, self.offsets = topic, table_property, offsets


class Stuck(Exception):
    """A table could not be committed for many rounds; other tables were."""

    def __init__(self, table: str, rounds: int, reason: str) -> None:
        super().__init__(table, rounds, reason)
        self.table, self.rounds, self.reason = table, rounds, reason


class Hanging(Exception):
    """A transaction keeps a control partition from being read from an offset on.  ``producer`` opened it."""

    def __init__(self, partition: int, offset: int, minutes: int, producer: str) -> None:
        super().__init__(partition, offset, minutes, producer)
        self.partition, self.offset, self.minutes, self.producer = partition, offset, minutes, producer
