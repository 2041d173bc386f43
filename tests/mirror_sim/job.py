"""One driver process of the mirror: the production lander and coordinator, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.exceptions import NoSuchTableError

from chsink.errors import ChsinkError, services
from chsink.mirror.coordination import Coordination
from chsink.mirror.events import TableReference
from chsink.mirror.known_tables import Hole, Target
from chsink.mirror.lander import MirrorLander
from chsink.mirror.opening import OpenMirror, with_tables
from chsink.mirror.tables import PropertyKeys
from chsink.mirror.task import Feeds
from chsink.mirror.worker import TableWork
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import CONTROL, GROUP, names_of
from tests.mirror_sim.catalog import SimMirrorTable
from tests.mirror_sim.named import LISTED
from tests.mirror_sim.shared import Routes
from tests.mirror_sim.spark import Runner, SimColumns
from tests.sim.checkpoint import Query, SparkDied
from tests.sim.hub import Group, Hub
from tests.sim.services import LOG, HubClock
from tests.sim.spark import OneActor

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

KEYS = PropertyKeys(GROUP, CONTROL)
CONFIG = SimpleNamespace(
    kafka=SimpleNamespace(starting_offsets="earliest"),
    sink=SimpleNamespace(name=GROUP),
)
"""What of the job file is asked for here."""


def reference(table: str) -> TableReference:
    """How events name a table."""
    namespace, name = table.split(".")
    return TableReference("lake", (namespace,), name)


class _Wake:
    """In place of an event that a thread waits for."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def wait(self, seconds: float) -> None:
        """Let others go on."""
        self.hub.sleep(seconds)

    def clear(self) -> None:
        """Nothing is set."""


def start_driver(world: World, group: Group) -> None:
    """Open everything, then run both threads; what ends one of them ends the process."""

    def run() -> None:
        if world.named.topic:
            world.catalog.load_table(LISTED)
        routes = world.known_routes()

        def reread(hole: Hole) -> None:
            lander.reread(hole)

        mirror = opened(world, routes)
        coordination = _coordination(world, mirror, reread, lambda: lander.under_way)
        lander = open_lander(world, routes, coordination)
        coordination.start()
        runner = Runner(world, lander.landing().tasks)
        lander.settle_all(runner)

        def coordinate() -> None:
            coordination._run()
            assert coordination.failure is not None
            raise coordination.failure

        def begins(body: Callable[[], None]) -> Callable[[], None]:
            """As :class:`chsink.spark.mirror.MirrorRun`."""

            def run() -> None:
                try:
                    body()
                except ChsinkError as error:
                    if error.name == services.MIRROR_TABLES_BEGIN.name:
                        world.named.begin(world, mirror, error)
                    raise

            return run

        world.hub.spawn(group, _guarded(world, group, begins(coordinate)))
        begins(lambda: _query(world, lander, runner))()

    world.hub.spawn(group, _guarded(world, group, run))


def _guarded(world: World, group: Group, body: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            body()
        except (ChsinkError, SparkDied, OSError) as error:  # a catalog raises whatever its client does
            group.alive = False
            world.ended(error)

    return run


def opened(world: World, routes: Routes) -> OpenMirror:
    """The mirror of a job file."""
    targets = {
        name: Target(
            SimMirrorTable(cast("Any", world.catalog), name, world.keys),
            reference(name),
            frozenset(topic for topic in routes.whole if name in routes.tables(topic)),
            {topic: routes.sharing(topic) for topic in routes.shared if name in routes.choices(topic)},
        )
        for name in routes.all_tables
    }
    added = "now" if world.added_now else "halt"
    mirror = SimpleNamespace(matched_topics=(), added_tables=added, topics=sorted(routes.whole))
    config = SimpleNamespace(**vars(CONFIG), mirror=mirror)
    names = names_of(world.broker)
    return OpenMirror(
        cast("Any", config), cast("Any", world.kafka), names, world.pace, cast("Any", world.catalog), targets
    )


def _coordination(
    world: World,
    mirror: OpenMirror,
    reread: Callable[[Hole], None],
    under_way: Callable[[], Collection[TopicPartition]],
) -> Coordination:
    pool = partial(OneActor, world.hub)
    made = Coordination(mirror, reread, HubClock(world.hub, 0), LOG, pool=pool, under_way=under_way)
    vars(made)["_wake"] = _Wake(world.hub)
    return made


def feeds_of(world: World, routes: Routes) -> Feeds:
    """As :meth:`chsink.mirror.opening.OpenMirror.feeds`."""
    ids = {topic: found or "" for topic, found in world.kafka.topic_ids(routes.whole).items()}
    choices = {topic: routes.sharing(topic).choice for topic in routes.shared}
    return Feeds(names_of(world.broker), ids, _tables(world, routes, routes.all_tables), world.kafka, choices)


def open_lander(world: World, routes: Routes, beside: Coordination) -> MirrorLander:
    """With topics and tables as they are now."""
    feeds = feeds_of(world, routes)
    return MirrorLander(feeds, beside, pool=lambda: OneActor(world.hub), renewed=partial(_renewed, world, routes))


def _renewed(world: World, routes: Routes, feeds: Feeds, tables: Collection[str]) -> Feeds:
    """As :meth:`chsink.mirror.opening.OpenMirror.renewed`, whose tables come from a configuration."""
    try:
        read = _tables(world, routes, tables)
    except (OSError, NoSuchTableError):
        return feeds
    return with_tables(feeds, read)


def _tables(world: World, routes: Routes, tables: Collection[str]) -> dict[str, tuple[TableWork, ...]]:
    works = {name: _work(world, name) for name in sorted(tables)}
    return {
        topic: tuple(
            replace(works[name], choice=routes.choices(topic).get(name))
            for name in routes.tables(topic)
            if name in works
        )
        for topic in routes.whole
    }


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
    return [tp for tp in world.kafka.all() if tp.topic in world.routes.whole]
