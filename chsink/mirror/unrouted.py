"""Events of tables that no route names any more, in the last commit of a start that may halt.

Rules:
- A unit still lands if it was divided by the choice that is stored with the group's offset, which was in force so far.
  If none is stored (Kafka forgets it with a deleted topic), the table's own choice decides, as in any commit.
- The position of the coordinators stays at the first event that does not land: its choice may be put back.
"""

from __future__ import annotations

from typing import NamedTuple

from chsink.mirror.events import DataWritten, UnitTag
from chsink.mirror.ports import GroupReader
from chsink.statemachine.commit.handover import divided_by
from chsink.statemachine.commit.units import Position
from chsink.statemachine.ranges import TopicPartition


class UnroutedEvent(NamedTuple):
    """An event of a table that no route names."""

    written: DataWritten
    tag: UnitTag
    table: str
    at: Position

    @property
    def tp(self) -> TopicPartition:
        """Where its records come from."""
        return TopicPartition(self.tag.topic, self.tag.partition)


class Unrouted:
    """The events of one start."""

    def __init__(self) -> None:
        self._events: list[UnroutedEvent] = []

    def add(self, written: DataWritten, table: str, at: Position) -> None:
        """An event; those of tables that do not share their topic are not kept."""
        if written.tag is not None and written.tag.choice:
            self._events.append(UnroutedEvent(written, written.tag, table, at))

    def take(self, group: GroupReader) -> list[UnroutedEvent]:
        """Take out those that still land.  Raises ``ControlUnanswered``."""
        tps = sorted({event.tp for event in self._events})
        notes = group.notes(tps) if tps else {}

        def lands(event: UnroutedEvent) -> bool:
            return divided_by(notes[event.tp]) in {"", event.tag.choice}

        taken = [event for event in self._events if lands(event)]
        self._events = [event for event in self._events if not lands(event)]
        return taken

    @property
    def first(self) -> dict[int, int]:
        """By partition of the control topic, the first event that was not taken."""
        return {event.at.partition: event.at.offset for event in reversed(self._events)}
