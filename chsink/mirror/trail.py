"""What the sink's events on the control topic say, up to the topic's ends at the time of the question.

Changes nothing.  Other sinks' events, and messages that are no events, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from time import monotonic

from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.events import DamagedEvent, DataWritten, Event, decode
from chsink.mirror.ports import EventReader
from chsink.mirror.stop_reasons import Hanging
from chsink.statemachine.commit.units import Position
from chsink.statemachine.ranges import TopicPartition

READ_S = 10.0
"""Seconds that reading records or events may take."""
STALLED_S = 60.0
"""Seconds without a new event before the end, which then is not waited for: longer than a transaction may hang."""
NO_CHSINK = "a program that is not chsink"


def all_events(names: Names) -> Iterator[Event]:
    """Every event that the topic still holds, in the order of each partition.

    Raises ``ControlUnanswered``, also if the topic cannot be read to its end, or ``Hanging``.
    """
    return (event for event, _ in _own(names, placed(names)))


def placed(names: Names) -> Iterator[tuple[Position, bytes]]:
    """Every message that the topic still holds, up to its present ends.

    Raises ``ControlUnanswered``, also if the topic cannot be read to its end, or ``Hanging``.
    """
    with closing(names.reader()) as reader:
        logs = reader.logs()
        yield from _messages(names, reader, {p: first for p, (first, _) in logs.items()}, _ends(logs), whole=True)


def handed_over(names: Names, *, whole: bool) -> list[DataWritten]:
    """The reports of files from where the coordinators' group is: those that no table may have taken yet, and others.

    Raises ``ControlUnanswered``, with ``whole`` also if the topic cannot be read to its end, or ``Hanging``; else it
    takes ``READ_S`` at most.
    """
    return [written for written, _ in as_sent(names, whole=whole)[0]]


def as_sent(names: Names, *, whole: bool) -> tuple[list[tuple[DataWritten, bytes]], dict[int, int]]:
    """The same with their messages, and the topic's ends, by partition, up to which they were read."""
    with closing(names.reader()) as reader, closing(names.offsets(names.control_group)) as group:
        logs = reader.logs()
        at = group.committed([TopicPartition(names.topic, p) for p in logs])
        positions = {}
        for number, (first, end) in logs.items():
            stored = at[TopicPartition(names.topic, number)]
            positions[number] = stored if stored is not None and first <= stored <= end else first
        found = _own(names, _messages(names, reader, positions, _ends(logs), whole=whole))
        return [(e.payload, value) for e, value in found if isinstance(e.payload, DataWritten)], _ends(logs)


def _ends(logs: dict[int, tuple[int, int]]) -> dict[int, int]:
    return {number: end for number, (_, end) in logs.items()}


def _own(names: Names, messages: Iterable[tuple[Position, bytes]]) -> Iterator[tuple[Event, bytes]]:
    """The sink's events among the messages."""
    for _, value in messages:
        event = _event(value)
        if event is not None and event.group_id == names.group:
            yield event, value


def _messages(
    names: Names, reader: EventReader, positions: dict[int, int], ends: dict[int, int], *, whole: bool
) -> Iterator[tuple[Position, bytes]]:
    reader.read_from(positions)
    until = monotonic() + (STALLED_S if whole else READ_S)
    while any(positions[p] < end for p, end in ends.items()):
        if monotonic() >= until:
            if whole:
                raise unread(names, reader, positions, ends)
            return
        for partition, offset, value in reader.poll(0.2):
            yield Position(partition, offset), value
        before, positions = positions, reader.positions(positions)
        if whole and positions != before:
            until = monotonic() + STALLED_S


def unread(names: Names, reader: EventReader, positions: Mapping[int, int], ends: Mapping[int, int]) -> Exception:
    """Why nothing of the topic was read for ``STALLED_S``: the transaction that hangs, if one does."""
    for number, at in positions.items():
        found = reader.uncommitted(number, at) if at < ends.get(number, 0) else None
        if found is not None:
            return Hanging(number, at, int(STALLED_S) // 60, producer(*found))
    return ControlUnanswered(f"topic {names.topic} could not be read to its end")


def producer(key: str, value: bytes) -> str:
    """The sender of an event, by its transactional id."""
    event = _event(value)
    if event is None:
        return NO_CHSINK
    topic, _, number = key.rpartition("-")
    name = f"{event.group_id}/{topic}/{number}" if topic else f"{event.group_id}/{key}"
    return f"the producer with transactional id {name}" + (f" (or {name}/again)" if topic else "")


def _event(value: bytes) -> Event | None:
    try:
        return decode(value)
    except DamagedEvent:
        return None
