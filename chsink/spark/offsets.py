"""The offsets that Spark writes into a checkpoint, as text: ``offsets/N`` and the Kafka source's ``sources/0/0``."""

from __future__ import annotations

import json
import re

from chsink.errors import stream
from chsink.statemachine.ranges import TopicPartition

Offsets = dict[TopicPartition, int]


class CutShort(Exception):
    """The text is not all that Spark wrote.  Says what is wrong with it."""


def initial_offsets(text: str) -> Offsets:
    """The Kafka source's ``sources/0/0``: a version line, then the offsets.  PreflightError when it holds no such;
    :class:`CutShort`.
    """
    return _parse(text.lstrip("\0").partition("\n")[2])


def source_offsets(text: str) -> Offsets:
    """The one source's line of an offset log entry.  PreflightError if it is not one Kafka source's; CutShort."""
    version, *rest = text.strip().split("\n")
    sources = rest[1:]  # after a line of metadata
    if not re.fullmatch(r"v\d+", version):
        raise CutShort("does not begin with a version")
    if version == "v1" and not sources:
        raise CutShort("is cut off")
    if version != "v1" or len(sources) != 1:
        raise stream.OFFSET_LOG_FORMAT(version=version, count=len(sources))
    return _parse(sources[0])


def _parse(line: str) -> Offsets:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise CutShort("is cut off, or not Kafka's offsets") from error
    try:
        topics: dict[str, dict[str, int]] = document
        return {TopicPartition(t, int(p)): int(o) for t, by in topics.items() for p, o in by.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise stream.OFFSET_LOG_CONTENT() from error
