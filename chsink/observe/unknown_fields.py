"""Fields without a column: named once in the log, counted by name in the metrics.  Values are never shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from chsink.observe.metrics import Metrics
from chsink.statemachine.tally import OTHERS

NAMES: Final = 100
"""At most this many names of a topic are shown; the others are counted together as ``OTHERS``."""


class UnknownFields:
    """The unknown fields that a sink's tasks found in samples of their chunks."""

    def __init__(self, metrics: Metrics, log: structlog.typing.FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._log = log
        self._names: dict[str, set[str]] = {}

    def add(self, topic: str, counts: Mapping[str, int]) -> None:
        """Count the fields of one chunk of the topic; names that are new are logged."""
        known = self._names.setdefault(topic, set())
        new = [name for name in counts if name not in known][: NAMES - len(known)]
        known.update(new)
        if new:
            self._log.warning(
                "fields without a column are ignored",
                topic=topic,
                fields=new,
                fix="add columns for them; rows that have landed keep their defaults (docs/tables-that-change.md)",
            )
        for name, count in counts.items():
            shown = name if name in known else OTHERS
            self._metrics.unknown_fields.labels(self._metrics.sink, topic, shown).inc(count)
