"""Single schedules of the mirror that once went wrong, or that chance seldom finds."""

from __future__ import annotations

from collections.abc import Callable

from tests.mirror_sim import oracle
from tests.mirror_sim.world import World


def quiet(seed: int, happens: Callable[[World], None]) -> World:
    """A world without faults: it lands some records, something happens, and it goes on until a halt or rest."""
    world = World(seed, frozenset())
    with world.watched():
        for tp in world.kafka.all():
            world.kafka.append(tp, 7)
        world.start_driver()
        steps(world, 3_000)
        assert oracle.at_rest(world) == ""
        happens(world)
        steps(world, 5_000)
    return world


def steps(world: World, count: int) -> None:
    for _ in range(count):
        if world.over is not None:
            return
        if not world.hub.step():
            world.start_driver()


def test_a_world_without_faults_comes_to_rest() -> None:
    world = quiet(1, lambda w: w.kafka.append(w.kafka.all()[0], 3))
    assert world.over is None and oracle.at_rest(world) == ""
    assert not world.hub.fired and world.starts == 1


def test_a_topic_that_comes_back_with_more_partitions_halts() -> None:
    """⚑ The new partition began, under another id of its topic than the others: no chain could hold both."""

    def happens(world: World) -> None:
        topic = world.kafka.all()[0].topic
        world.recreate(topic)
        world.kafka.add_partition(topic)

    assert quiet(1, happens).over == "MIRROR_TOPIC_RECREATED"
