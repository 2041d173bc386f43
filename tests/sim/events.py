"""The events that hit the sink from outside.  Each event is a numbered fault, so that a replay can leave it out."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.sim.clickhouse import OTHERS, OTHERS_EVERY_S
from tests.sim.happenings import Happenings

if TYPE_CHECKING:
    from tests.sim.world import World

ONLY_VIEW = 0.5
"""How often others write to the tables that feed a view, and not to the sink's own."""
HAPPENINGS: Happenings[World] = Happenings()
event = HAPPENINGS.event
OF_LETTERS: Happenings[World] = Happenings()
"""In worlds with a topic of dead letters only, so that the seeds of others keep their meaning."""
letters_event = OF_LETTERS.event


# --- processes -----------------------------------------------------------------------------------------------------


@event("driver killed", 0.25)
def _kill_driver(world: World) -> None:
    if world.drivers:
        group = world.hub.random.choice(world.drivers)
        world.hub.kill(group)
        world.died(group)


@event("executor killed", 0.3)
def _kill_executor(world: World) -> None:
    if world.executors:
        group = world.hub.random.choice(world.executors)
        world.hub.kill(group)
        world.died(group)


@event("driver frozen", 0.15)
def _freeze_driver(world: World) -> None:
    """SIGSTOP; an operator believes the driver dead and starts another."""
    if world.drivers:
        world.hub.random.choice(world.drivers).frozen_until = world.hub.now + _long(world)
        if len(world.drivers) < 3:
            world.start_soon()


@event("executor frozen", 0.4)
def _freeze_executor(world: World) -> None:
    if world.executors:
        world.hub.random.choice(world.executors).frozen_until = world.hub.now + _long(world)


@event("second driver", 0.25)
def _second_driver(world: World) -> None:
    if len(world.drivers) < 3:
        world.start_driver()


# --- Kafka ---------------------------------------------------------------------------------------------------------


@event("compaction", 0.3)
def _compact(world: World) -> None:
    doubtful = [tp for tp, r in world.records().items() if r.in_doubt]
    world.kafka.compact(world.hub.random.choice(doubtful or world.kafka.all()))


@event("retention behind the sink", 0.2)
def _expire_behind(world: World) -> None:
    tp = world.hub.random.choice(world.kafka.all())
    record, log = world.records().get(tp), world.kafka.log(tp)
    if record is not None and record.life.topic_id == world.kafka.topics[tp.topic].id and record.start > log.start:
        world.kafka.expire(tp, min(record.start, log.end), lossy=False)


@event("retention ahead of the sink", 0.04)
def _expire_ahead(world: World) -> None:
    tp = world.hub.random.choice(world.kafka.all())
    log = world.kafka.log(tp)
    world.kafka.expire(tp, log.start + int(world.hub.random.random() * (log.end - log.start + 1)), lossy=True)


@event("topic recreated", 0.12)
def _recreate(world: World) -> None:
    recreate(world, world.hub.random.choice(sorted(world.routes)))


def recreate(world: World, topic: str) -> None:
    """Only where ids are known and nobody rebuilds the state: otherwise nothing can detect a recreated topic (a stated
    limit).
    """
    if (
        world.hands_on
        or world.kafka.ids_hidden
        or any(r.life.topic_id is None and r.end for r in world.records().values())
    ):
        return
    world.kafka.recreate(topic)
    for _ in range(world.hub.random.choice([0, 10])):
        world.kafka.produce(world.hub.random.choice(world.kafka.all()))


@event("partition added", 0.08)
def _add_partition(world: World) -> None:
    world.kafka.add_partition(world.hub.random.choice(sorted(world.routes)))


@event("topic ids hidden", 0.02)
def _hide_ids(world: World) -> None:
    world.kafka.ids_hidden = True
    world.reasons.add("topic ids hidden")


@event("log shrank", 0.015)
def _shrink(world: World) -> None:
    tp = world.hub.random.choice(world.kafka.all())
    end = world.kafka.log(tp).end
    if end:
        world.kafka.shrink(tp, int(world.hub.random.random() * end), unwatched=not world.drivers)
        world.forgiven.add(tp)


# --- ClickHouse, the store, the clock ------------------------------------------------------------------------------


@event("server down", 0.15)
def _server_down(world: World) -> None:
    """An orderly restart: acknowledged inserts are kept, with their tokens."""
    world.hub.random.choice(world.servers).crash(int(world.hub.random.random() * 60_000))


@event("window overflowed by other writers", 0.5)
def _others_write(world: World) -> None:
    """Faster than the sink's own batches by far, but not between a look and the send that follows it."""
    server, table = world.hub.random.choice(world.servers), world.hub.random.choice(sorted(world.kinds))
    world.reasons.add("window")
    only_view = world.kinds[table].views and Random(f"{world.hub.seed} {world.hub.steps}").random() < ONLY_VIEW

    def spell(left: int) -> None:
        server.others_write(table, only_view=only_view)
        if left:
            world.hub.after(OTHERS_EVERY_S * 1000, lambda: spell(left - 1))

    spell(OTHERS)


@event("clock jump", 0.08)
def _jump(world: World) -> None:
    world.hub.now += _long(world)


@event("view throws", 0.03)
def _view_throws(world: World) -> None:
    world.hub.random.choice(world.servers).view_throws = True
    world.reasons.add("view throws")


@event("table altered", 0.04)
def _alter(world: World) -> None:
    """ALTER TABLE … ADD COLUMN on every shard, at any time."""
    topic = world.hub.random.choice(sorted(world.routes))
    world.alter(world.routes[topic], 1 + world.servers[0].tables[world.routes[topic]].version)
    world.reasons.add("table altered")


@event("shards changed", 0.1)
def _reshard(world: World) -> None:
    """Takes effect when the job is started again.  Not while somebody rebuilds the state, who asks all servers."""
    shards = 1 + int(world.hub.random.random() * len(world.servers))
    world.shards = world.shards if world.hands_on else shards
    world.reasons.add("window")


@event("state lost", 0.02)
def _lose_state(world: World) -> None:
    """Lose the state while no task runs.  If the tables lack the columns that name a row's record, also while no batch
    is planned: a batch that is run again without state would be a double loss.
    """
    planned = len(world.checkpoint.offsets) - len(world.checkpoint.commits)
    can_tell = world.tables_tell
    if world.checkpoint.commits and not world.executors and (can_tell or not planned) and world.shows_all_rows:
        world.store.forget()
        world.reasons.add("state lost")
        if not world.tables_tell:
            world.store.lost_state = True
            world.forgiven.update(world.kafka.all())


# --- a topic of dead letters ---------------------------------------------------------------------------------------


@letters_event("brokers of dead letters away", 0.2)
def _letters_away(world: World) -> None:
    world.letters_topic.be_away()


@letters_event("group of dead letters forgotten", 0.5)
def _forget_group(world: World) -> None:
    """Forget the group while no process of the job runs, not even a task that outlived its driver.

    Where the state was rebuilt, only the group says what was delivered before: docs/dead-letters.md names this limit.
    """
    if not (world.drivers or world.executors or world.reasons & {"state lost", "state restored"}):
        world.letters_topic.forget_group()


def while_down(world: World) -> None:
    """The worst events between a crash and the next start."""
    if world.letters == "topic" and world.hub.fault("group of dead letters forgotten", 0.3):
        _forget_group(world)
    if world.hub.fault("compaction", 0.15):
        _compact(world)
    if world.hub.fault("window overflowed by other writers", 0.1):
        _others_write(world)


def _long(world: World) -> int:
    """From a moment to longer than any window."""
    return int(world.hub.random.random() ** 4 * 8_000_000)
