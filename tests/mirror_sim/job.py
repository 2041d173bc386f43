"""One driver process of the mirror: a coordinator's thread beside a query's, over production lander and coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from chsink.errors import ChsinkError
from chsink.mirror.control import Fenced, NotSent, Unanswered
from chsink.mirror.coordinator import Coordinator, Halted, Stuck, Target
from chsink.mirror.events import TableReference
from chsink.mirror.lander import Feeds, MirrorLander
from chsink.mirror.tables import Keys
from chsink.mirror.worker import TableWork
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import CONTROL, GROUP, names_of
from tests.mirror_sim.catalog import SimMirrorTable
from tests.mirror_sim.spark import Runner, SimColumns
from tests.sim.checkpoint import Query, SparkDied
from tests.sim.hub import Group
from tests.sim.services import LOG, HubClock

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

KEYS = Keys(GROUP, CONTROL)
ENDS = (ChsinkError, SparkDied, Fenced, NotSent, Unanswered, Halted, Stuck)
"""What may end a process.  A catalog that is away raises whatever its client does."""


def reference(table: str) -> TableReference:
    """How events name a table."""
    namespace, name = table.split(".")
    return TableReference("lake", (namespace,), name)


def start_driver(world: World, group: Group) -> None:
    """Open everything, then run both threads; what ends one of them ends the process."""

    def run() -> None:
        coordinator = open_coordinator(world)
        lander = open_lander(world)
        runner = Runner(world, lander.landing().tasks)
        coordinator.reread = lander.reread
        lander.settle_all(runner)
        world.hub.spawn(group, _guarded(world, group, lambda: _coordinate(coordinator)))
        _query(world, lander, runner)

    world.hub.spawn(group, _guarded(world, group, run))


def _guarded(world: World, group: Group, body: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            body()
        except (*ENDS, OSError) as error:
            group.alive = False
            world.ended(error)

    return run


def open_coordinator(world: World) -> Coordinator:
    """Started; its rereads come later."""
    targets = {
        name: Target(
            SimMirrorTable(cast("Any", world.catalog), name, KEYS),
            reference(name),
            frozenset(topic for topic, tables in world.routes.items() if name in tables),
        )
        for name in world.catalog.tables
    }
    coordinator = Coordinator(
        names_of(world.broker),
        targets,
        world.kafka,
        clock=HubClock(world.hub, 0),
        pace=world.pace,
        reread=lambda _: None,
        log=LOG,
    )
    coordinator.start()
    return coordinator


def _coordinate(coordinator: Coordinator) -> None:
    while True:
        coordinator.tick()


def open_lander(world: World) -> MirrorLander:
    """With topics and tables as they are now."""
    ids = world.kafka.topic_ids(world.routes)
    works = {name: _work(world, name) for name in world.catalog.tables}
    tables = {topic: tuple(works[name] for name in names) for topic, names in world.routes.items()}
    return MirrorLander(Feeds(names_of(world.broker), {t: i or "" for t, i in ids.items()}, tables))


def _work(world: World, name: str) -> TableWork:
    metadata = world.catalog.load_table(name).metadata
    return TableWork(reference(name), cast("Any", metadata), cast("Any", None), cast("Any", SimColumns()))


def _query(world: World, lander: MirrorLander, runner: Runner) -> None:
    """Batches, for ever."""
    query = Query(world.hub, world.kafka, world.checkpoint, world.limit)
    query.start(world.starting())
    while True:
        batch = query.next_batch()
        if batch is None:
            world.hub.sleep(1)
            continue
        lander.process(batch, runner)
        world.hub.counts["batches"] += 1
        query.commit()


def every_partition(world: World) -> list[TopicPartition]:
    """Of the topics of the routes."""
    return [tp for tp in world.kafka.all() if tp.topic in world.routes]
