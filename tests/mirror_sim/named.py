"""A shared topic whose records name tables that do not exist yet (F-3): ``others`` of ``table_by``.

The record's key ``0`` names a table of the job file; the keys after it name ``db.n1``, ``db.n2``, ….  A key has no
record before an event lets it have some.

Whether a world has such a topic, and when a key comes up, is drawn from sources of its own and numbered apart, as in
:mod:`branches`: a line of ``regressions.txt`` that was written without them replays the world that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from chsink.config.mirror import IcebergTableBy
from chsink.errors import ChsinkError
from chsink.formats.table_by import Choice
from chsink.mirror.failures import in_words
from chsink.mirror.known_tables import KnownTables
from chsink.mirror.lacking import tables_named_by
from chsink.mirror.named_tables import list_tables
from chsink.mirror.opening import OpenMirror
from chsink.mirror.tables import PropertyKeys
from chsink.notation.table_template import VALUE, value_pattern_of
from tests.mirror_sim.own_faults import OwnFaults
from tests.sim.hub import Hub

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

FIRST = 2_000_000
"""The number of the first opportunity."""
SOURCE = "mirror named 256"
"""By this source, no world that a defect of ``tests/mutations`` names has such a topic, so each is caught where it was."""
HAPPENS = 0.01
"""How often, by step, a record may name a new table."""
FAULTS = ("records name tables", "a record names a new table")
LISTED, OTHERS = "db.s0", "db.n{value}"
"""The table that the job file names, which has the list of the others; and how these are named."""
MOST = 4
"""How many there may be."""
BY = IcebergTableBy(column="key", tables={"0": LISTED}, others=OTHERS)


def choices_of(named: tuple[str, ...]) -> dict[str, Choice]:
    """By table, which records it takes, while these tables were named."""
    more = {cast("str", value_pattern_of(OTHERS, name)): name for name in named}
    return dict(BY.choices(str, others=OTHERS, more=more))


def is_named(table: str) -> bool:
    """Whether records name it."""
    return value_pattern_of(OTHERS, table) is not None


class NamedTables:
    """``topic``: the topic whose records name tables, "" if there is none.  ``used``: how many keys its records have."""

    def __init__(self, hub: Hub, topics: list[str]) -> None:
        self._faults = OwnFaults(hub, SOURCE, FIRST)
        self.topic = self._faults.chance.choice(topics) if self._faults.fault(FAULTS[0], 0.3) else ""
        self.used = 1
        self.keys: dict[int, bytes] = {}
        """By record: its key."""

    def happen(self) -> None:
        """One step of the world passed."""
        if (
            self.topic
            and self._faults.chance.random() < HAPPENS
            and self.used <= MOST
            and self._faults.fault(FAULTS[1], 0.7)
        ):
            self.used += 1

    def appended(self, topic: str, uid: int) -> None:
        """A record was written."""
        if topic == self.topic:
            self.keys[uid] = str(self._faults.chance.randrange(self.used)).encode()

    def table_of(self, uid: int) -> str | None:
        """The table that the record names."""
        key = self.keys.get(uid, b"").decode()
        return (OTHERS.replace(VALUE, key) if key != "0" else LISTED) if key else None

    def begin(self, world: World, mirror: OpenMirror, begins: ChsinkError) -> None:
        """What :func:`chsink.mirror.named_tables.begin_tables` does, in the simulated catalog."""
        new = sorted({name for wanted in tables_named_by(begins).values() for name in wanted})
        uuids = {}
        for name in new:
            world.hub.pause()
            world.catalog.add(name)
            uuids[name] = world.catalog.tables[name].table_uuid
        world.reasons.add("table named")
        with in_words(mirror.names):
            list_tables(KnownTables(mirror.targets, mirror.names.topic), LISTED, uuids)
        world.hub.counts["outcome table named"] += len(new)


def listed(world: World, keys: PropertyKeys) -> tuple[str, ...]:
    """The tables that records named."""
    return tuple(keys.names(world.catalog.tables[LISTED].properties)) if world.named.topic else ()
