"""Fields without a column: named once in the log, counted by name in the metrics.  Never a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

NAMES: Final = 100
"""So many names of a topic are told; the others are counted together as ``OTHERS``."""
OTHERS: Final = "(others)"


class UnknownFields:
    """What the tasks of a sink found on samples of their chunks."""

    def __init__(self, sink: str, log: structlog.typing.FilteringBoundLogger, registry: CollectorRegistry) -> None:
        self._sink = sink
        self._log = log
        self._names: dict[str, set[str]] = {}
        self._counter = Counter(
            "chsink_unknown_fields",
            "sampled records with a field that has no column",
            ["sink", "topic", "field"],
            registry=registry,
        )

    def add(self, topic: str, counts: Mapping[str, int]) -> None:
        """Count the fields of one chunk of the topic; names that are new are logged."""
        known = self._names.setdefault(topic, set())
        new = [name for name in counts if name not in known][: NAMES - len(known)]
        known.update(new)
        if new:
            self._log.warning(
                "fields without a column are ignored", topic=topic, fields=new, fix="docs/tables-that-change.md"
            )
        for name, count in counts.items():
            self._counter.labels(self._sink, topic, name if name in known else OTHERS).inc(count)
