"""What was handed over for tables that were dropped, and that ``table_by`` names no more."""

from __future__ import annotations

import structlog

from chsink.errors import halts
from chsink.mirror.events import DataWritten
from chsink.mirror.rows import union
from chsink.statemachine.ranges import OffsetRange, TopicPartition


class GivenUp:
    """Nobody reads these ranges again: what other tables of the topic take is not the share of the dropped one."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log
        self._ranges: dict[str, dict[TopicPartition, list[OffsetRange]]] = {}

    def add(self, written: DataWritten, table: str) -> None:
        """An event that waits for a commit of the table."""
        if (tag := written.tag) is not None:
            found = self._ranges.setdefault(table, {}).setdefault(TopicPartition(tag.topic, tag.partition), [])
            found.append(OffsetRange(tag.start, tag.until))

    def say(self) -> None:
        """Name the tables and ranges, once."""
        for table, found in sorted(self._ranges.items()):
            each = [f"{tp} {one}" for tp, ranges in sorted(found.items()) for one in union([ranges])]
            said = halts.MIRROR_GIVEN_UP(table=table, ranges=", ".join(each))
            self._log.warning("records are given up", id=said.id, reason=said.message, fix=said.hint)
        self._ranges.clear()
