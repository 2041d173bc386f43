"""A person who replaces all tables of a shared topic at once, and undoes it when the mirror halts.

In a world with such a person, a new map may name none of the tables of the one before.  To undo it is what the halt's
message says first; then the mirror goes on where it was, and lands also what waited for the earlier tables.

All of it is drawn from a source of its own and numbered apart, as in :mod:`branches`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chsink.errors import halts
from tests.mirror_sim.broker import GROUP
from tests.mirror_sim.events import change_map
from tests.mirror_sim.job import every_partition
from tests.mirror_sim.own_faults import OwnFaults
from tests.mirror_sim.shared import TABLES, VALUES
from tests.sim.hub import Hub

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

FIRST = 4_000_000
"""The number of the first opportunity."""
SOURCE = "mirror replacements 996"
"""Another source gives each seed another world, and the defects of ``tests/mutations`` need other seeds."""
FAULTS = ("tables may be replaced", "all tables of a topic replaced")
HAPPENS = 0.003
"""How often, by step, a topic's tables may be replaced."""
UNDONE = {halts.MIRROR_CHAIN_MISSING.name, halts.MIRROR_CHOICE_CHANGED.name}
"""The halts after which the person undoes the last replacement."""


class Replacements:
    """``_last``: a topic, its map before the last replacement, and the one since, until the mirror has halted."""

    def __init__(self, hub: Hub) -> None:
        self._faults = OwnFaults(hub, SOURCE, FIRST)
        self._there = self._faults.fault(FAULTS[0], 0.3)
        self._last: tuple[str, tuple[str, ...], tuple[str, ...]] | None = None

    def happen(self, world: World) -> None:
        """One step of the world passed."""
        if not self._there or self._faults.chance.random() >= HAPPENS:
            return
        for topic, before in world.routes.maps.items():
            others = sorted(set(TABLES) - set(before))
            if _told(world, topic) and others and self._faults.fault(FAULTS[1], 0.5):
                self._last = topic, before, tuple(self._faults.chance.choice(others) for _ in range(VALUES))
                change_map(world, topic, self._last[2])
                for driver in list(world.drivers):
                    world.kill(driver)
                return

    def under_way(self, world: World, topic: str) -> bool:
        """Whether only the group tells what the topic's records were divided by."""
        return self._last is not None and self._last[0] == topic and not _told(world, topic)

    def takes_up(self, world: World, halt: str) -> bool:
        """Whether the person undoes what led to this halt."""
        if halt not in UNDONE or self._last is None:
            return False
        topic, before, since = self._last
        self._last = None
        if world.routes.maps[topic] != since:
            return False
        world.hub.counts["outcome tables replaced and put back"] += 1
        change_map(world, topic, before)
        world.start_soon()
        return True


def _told(world: World, topic: str) -> bool:
    """Whether the group tells that the topic's records are divided as the job file says."""
    tps, group = [tp for tp in every_partition(world) if tp.topic == topic], world.broker.groups.get(GROUP, {})
    choice = world.routes.sharing(topic).choice
    return all(tp in group and world.broker.notes.get((GROUP, tp)) == choice for tp in tps)
