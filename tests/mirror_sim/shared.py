"""Topics that several tables share: ``table_by`` over the record's key, and what the job file says at a time.

Each record has one of ``VALUES`` keys.  A map gives each key a table; an operator may change the map and start anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from chsink.formats.table_by import Choice
from chsink.mirror.sharing import sharing_of
from chsink.statemachine.commit.chain import Sharing
from tests.mirror_sim.named import choices_of

VALUES = 4
TABLES = ("db.s0", "db.s1", "db.s2")
ADDED = "db.added"
"""A table that may be added to a topic's routes."""


def value_of(uid: int) -> bytes:
    """The record's key."""
    return str(uid % VALUES).encode()


def some_map(random: Random) -> tuple[str, ...]:
    """By key, its table."""
    return tuple(random.choice(TABLES) for _ in range(VALUES))


@dataclass(frozen=True)
class Routes:
    """What one job file says: the tables that take all records, by topic, and the map of each shared topic."""

    whole: Mapping[str, tuple[str, ...]]
    maps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic whose records name tables (:mod:`named`): those that they named."""

    def changed(self, topic: str, table_of: tuple[str, ...]) -> Routes:
        """With another map of a topic."""
        return replace(self, maps={**self.maps, topic: table_of})

    def choices(self, topic: str) -> dict[str, Choice]:
        """By table, which records it takes."""
        if topic in self.named:
            return choices_of(self.named[topic])
        of = self.maps.get(topic, ())
        values = {name: tuple(str(n) for n, each in enumerate(of) if each == name) for name in sorted(set(of))}
        return {name: Choice("column", "key", mine) for name, mine in values.items()}

    def tables(self, topic: str) -> tuple[str, ...]:
        """Every table of a topic."""
        return (*self.whole[topic], *self.choices(topic))

    def sharing(self, topic: str) -> Sharing:
        """How tables share the topic."""
        return sharing_of(choices_of(()) if topic in self.named else self.choices(topic))

    @property
    def shared(self) -> list[str]:
        """The topics that several tables share."""
        return [*self.maps, *self.named]

    @property
    def all_tables(self) -> list[str]:
        """Of all topics."""
        return sorted({name for topic in self.whole for name in self.tables(topic)})
