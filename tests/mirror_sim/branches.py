"""A mirror that commits to a branch of its own (K-10), while a person moves main to it and others commit to main.

Whether a world has a branch, and what happens to its main, is drawn from sources of its own and numbered apart: a line
of ``regressions.txt`` that was written without them replays the world that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyiceberg.table.refs import MAIN_BRANCH

from chsink.errors import ChsinkError
from chsink.mirror.publish import publish
from chsink.mirror.tables import CatalogFailed
from tests.mirror_sim.catalog import SimMirrorTable
from tests.mirror_sim.own_faults import OwnFaults
from tests.sim.hub import Group, Hub

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

BRANCH = "audit"
FIRST = 1_000_000
"""The number of the first opportunity."""
HAPPENS = 0.01
"""How often, by step, something may happen to main."""
FAULTS = ("commits to a branch", "published", "foreign append on main")


class Main:
    """What happens to the main branches of a world, beside its other faults."""

    def __init__(self, hub: Hub) -> None:
        self._faults = OwnFaults(hub, "mirror publication", FIRST)
        self.branch = BRANCH if self._faults.fault(FAULTS[0], 0.3) else MAIN_BRANCH

    def happen(self, world: World) -> None:
        """One step of the world passed."""
        if self.branch == MAIN_BRANCH or self._faults.chance.random() >= HAPPENS:
            return
        name = self._faults.chance.choice(list(world.catalog.tables))
        if self._faults.fault("published", 0.5):
            world.hub.spawn(Group("operator"), lambda: _publish(world, name))
        elif self._faults.fault("foreign append on main", 0.15):
            world.catalog.foreign_append_to_main(name)


def _publish(world: World, name: str) -> None:
    table = SimMirrorTable(cast("Any", world.catalog), name, world.keys)
    try:
        done = publish(table)
    except (ChsinkError, CatalogFailed) as error:
        world.hub.counts[f"outcome publication {error.name if isinstance(error, ChsinkError) else 'unanswered'}"] += 1
    else:
        world.hub.counts["outcome published"] += done.before != done.after
