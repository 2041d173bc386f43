"""The offsets that Spark writes into a checkpoint, as text: ``offsets/N`` and the Kafka source's ``sources/0/0``."""

from __future__ import annotations

import json

from chsink.errors import stream
from statemachine.ranges import TopicPartition

Offsets = dict[TopicPartition, int]


def initial_offsets(text: str) -> Offsets:
    """The Kafka source's ``sources/0/0``: a version line, then the offsets.  PreflightError when it holds no such."""
    return _parse(text.lstrip("\0").partition("\n")[2])


def source_offsets(text: str) -> Offsets:
    """The one source's line of an offset log entry.  PreflightError when it is not one Kafka source's."""
    version, *rest = text.strip().split("\n")
    sources = rest[1:]  # after a line of metadata
    if version != "v1" or len(sources) != 1:
        raise stream.OFFSET_LOG_FORMAT(version=version, count=len(sources))
    return _parse(sources[0])


def _parse(line: str) -> Offsets:
    try:
        topics: dict[str, dict[str, int]] = json.loads(line)
        return {TopicPartition(t, int(p)): int(o) for t, by in topics.items() for p, o in by.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise stream.OFFSET_LOG_CONTENT() from error
