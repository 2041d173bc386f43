"""Events that hit a simulated mirror from outside.  Each is a numbered fault, so that a replay can leave it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from chsink.mirror.events import DataWritten
from chsink.statemachine.commit.chain import decode
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import CONTROL, CONTROL_GROUP, GROUP
from tests.mirror_sim.job import KEYS, every_partition, reference
from tests.mirror_sim.oracle import chain_of, uids_of
from tests.mirror_sim.shared import ADDED, some_map
from tests.sim.checkpoint import Checkpoint
from tests.sim.happenings import Happenings

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

HAPPENINGS: Happenings[World] = Happenings()
event = HAPPENINGS.event


# --- processes -------------------------------------------------------------------------------------------------------


@event("driver killed", 0.2)
def _kill_driver(world: World) -> None:
    if world.drivers:
        world.kill(world.hub.random.choice(world.drivers))


@event("driver frozen", 0.1)
def _freeze_driver(world: World) -> None:
    """SIGSTOP; an operator believes the driver dead and starts another."""
    if world.drivers:
        world.hub.random.choice(world.drivers).frozen_until = world.hub.now + _long(world)
        if len(world.drivers) < 3:
            world.start_soon()


@event("second driver", 0.1)
def _second_driver(world: World) -> None:
    if len(world.drivers) < 3:
        world.start_soon()


@event("executor killed", 0.3)
def _kill_executor(world: World) -> None:
    if world.executors:
        world.kill(world.hub.random.choice(list(world.executors.values())).group)


@event("executor frozen", 0.3)
def _freeze_executor(world: World) -> None:
    if world.executors:
        world.hub.random.choice(list(world.executors.values())).group.frozen_until = world.hub.now + _long(world)


def _long(world: World) -> int:
    return int(world.hub.random.random() * 120_000)


# --- the control topic and the groups --------------------------------------------------------------------------------


@event("control topic lost", 0.06)
def _lose_control(world: World) -> None:
    world.broker.recreate()
    world.reasons.add("control topic lost")


@event("control topic truncated", 0.06)
def _truncate_control(world: World) -> None:
    world.broker.truncate()
    world.reasons.add("control topic truncated")


@event("control topic gains a partition", 0.05)
def _grow_control(world: World) -> None:
    world.broker.grow()


@event("event damaged", 0.1)
def _damaged(world: World) -> None:
    """Another program writes an event that no reader can decode."""
    log = world.hub.random.choice(world.broker.logs)
    log.entries.append((world.hub.random.choice([b"", b"hello", b"\xc2\x01\x00\x02{}"]), None))


@event("group lost", 0.08)
def _lose_group(world: World) -> None:
    """Offsets of a group without members expire, by partition."""
    group, tp = world.broker.groups.get(GROUP, {}), world.hub.random.choice(every_partition(world))
    if not world.replacements.under_way(world, tp.topic) and group.pop(tp, None) is not None:
        world.reasons.add("group lost")


@event("group set back", 0.08)
def _set_back(world: World) -> None:
    _set(world, "group set back", lambda at, _: int(world.hub.random.random() * at))


@event("group set forward", 0.08)
def _set_forward(world: World) -> None:
    """To the log's end, as ``--to-latest`` does."""
    _set(world, "group set forward", lambda _, end: end)


def _set(world: World, name: str, to: Callable[[int, int], int]) -> None:
    group, tp = world.broker.groups.get(GROUP, {}), world.hub.random.choice(every_partition(world))
    if tp in group and not world.replacements.under_way(world, tp.topic):
        group[tp] = to(group[tp], world.kafka.log(tp).end)
        world.broker.notes.pop((GROUP, tp), None)
        world.reasons.add(name)


@event("control group lost", 0.08)
def _lose_control_group(world: World) -> None:
    world.broker.groups.pop(CONTROL_GROUP, None)


@event("control group set forward", 0.06)
def _set_control_forward(world: World) -> None:
    ends = {TopicPartition(CONTROL, n): log.end for n, log in enumerate(world.broker.logs)}
    world.broker.groups.setdefault(CONTROL_GROUP, {}).update(ends)
    world.reasons.add("control group set forward")


@event("brokers away", 0.1)
def _brokers_away(world: World) -> None:
    world.broker.away_until = world.hub.now + int(world.hub.random.random() * 20_000)


# --- tables ----------------------------------------------------------------------------------------------------------


@event("foreign append", 0.2)
def _foreign(world: World) -> None:
    world.catalog.foreign_append(_table(world))


@event("snapshots expired", 0.2)
def _expire(world: World) -> None:
    """Not while the property is lost and an expired snapshot alone tells: without either, nobody could know."""
    name, forget = _table(world), world.hub.random.random() < 0.5
    before = world.catalog.tables[name]
    world.catalog.expire(name, forget=forget)
    if chain_of(before) is not None and chain_of(world.catalog.tables[name]) is None:
        world.catalog.tables[name] = before


@event("property lost", 0.08)
def _lose_property(world: World) -> None:
    """Where a snapshot still tells: without either, nobody could know."""
    name = _table(world)
    table = world.catalog.tables[name]
    without: Mapping[str, str] = {k: v for k, v in table.properties.items() if k != world.keys.chain}
    if chain_of(replace(table, properties=without)) is not None:
        world.catalog.tables[name] = replace(table, properties=without)
        world.reasons.add("property lost")


@event("catalog away", 0.1)
def _catalog_away(world: World) -> None:
    world.catalog.away_until = world.hub.now + int(world.hub.random.random() * 20_000)


@event("files deleted", 0.05)
def _delete_files(world: World) -> None:
    """Another program deletes uncommitted files as orphans.  Committed files are in the snapshots."""
    world.catalog.files.clear()
    world.reasons.add("files deleted")


@event("rolled back", 0.06)
def _roll_back(world: World) -> None:
    _rolled_back(world, _table(world))


def _rolled_back(world: World, name: str) -> bool:
    held = world.catalog.tables[name].held
    if not world.catalog.roll_back(name):
        return False
    world.reasons.add("rolled back")
    if not any(name in world.known_routes().tables(topic) for topic in world.kafka.topics):
        world.lost_with_tables |= held - world.catalog.tables[name].held  # it has left: nobody looks at it
    return True


@event("rolled back and expired", 0.06)
def _roll_back_and_expire(world: World) -> None:
    """With a compaction between: what is left is newer than all that the mirror knows.  Not where nobody has counted."""
    forget, catalog = world.hub.random.random() < 0.5, world.catalog
    texts = {name: at.properties.get(world.keys.chain) for name, at in catalog.tables.items()}
    for name in [name for name, text in texts.items() if text is not None and decode(text).rows is not None]:
        if _rolled_back(world, name):
            catalog.foreign_append(name)
            catalog.expire(name, forget=forget)
            return


@event("partition spec changed", 0.1)
def _change_spec(world: World) -> None:
    """The specs before it go where nobody keeps them: then no manifest can name what was written for them."""
    forget = world.hub.random.random() < 0.5
    world.catalog.change_spec(_table(world), forget=forget)
    if forget:
        world.reasons.add("partition spec removed")


@event("table recreated", 0.04)
def _recreate_table(world: World) -> None:
    name = _table(world)
    world.dropped.add(name)
    world.lost_with_tables |= world.catalog.tables[name].held | _handed_over(world, name)
    world.catalog.recreate(name)
    world.floors.pop(name, None)
    world.reasons.add("table recreated")


def _handed_over(world: World, name: str) -> frozenset[int]:
    """The records of which the control topic tells, for a table."""
    return frozenset(
        uid
        for number in range(len(world.broker.logs))
        for payload in world.broker.payloads(number, world.broker.logs[number].stable)
        if isinstance(payload, DataWritten) and payload.table == reference(name)
        for uid in uids_of(world, payload)
    )


def _table(world: World) -> str:
    return world.hub.random.choice(list(world.catalog.tables))


# --- the job file ----------------------------------------------------------------------------------------------------


@event("table_by changed", 0.3)
def _change_map(world: World) -> None:
    """The operator stops the mirror, changes the map, and starts it; or starts the new one beside the old one."""
    random, maps = world.hub.random, world.routes.maps
    if not maps:
        return
    topic = random.choice(list(maps))
    stays = random.choice(maps[topic])  # without a table that stays, all are new tables, which a person decides about
    change_map(world, topic, (stays, *some_map(random)[1:]))
    if random.random() < 0.3 and len(world.drivers) < 3:
        world.start_soon()
        return
    for driver in list(world.drivers):
        world.kill(driver)


def change_map(world: World, topic: str, table_of: tuple[str, ...]) -> None:
    """No table stays if the new map's tables do not know all of the topic: the map before may not have been taken yet."""
    world.routes = world.routes.changed(topic, table_of)
    world.sharings[topic, world.routes.sharing(topic).choice] = world.routes.tables(topic)
    world.reasons.add("table_by changed")
    for name in world.dropped - {*world.routes.tables(topic)}:  # workers may have written for the one before
        world.lost_with_tables |= _handed_over(world, name)
    chains = [chain_of(world.catalog.tables[name]) for name in world.routes.choices(topic)]
    known = {tp for chain in chains if chain is not None for tp in chain.links}
    if not known.issuperset(tp for tp in world.kafka.all() if tp.topic == topic):
        world.reasons.add("no table stays")


@event("table added", 0.15)
def _add_table(world: World) -> None:
    """To a topic's routes; the mirror is started anew.  It begins with the next records."""
    lacking = [topic for topic, tables in world.routes.whole.items() if ADDED not in tables]
    if not (world.added_now and lacking):
        return
    topic = world.hub.random.choice(lacking)
    world.catalog.add(ADDED)
    world.routes = replace(world.routes, whole={**world.routes.whole, topic: (*world.routes.whole[topic], ADDED)})
    world.reasons.add("table added")
    for driver in list(world.drivers):
        world.kill(driver)


@event("backfill asked", 0.2)
def _backfill(world: World) -> None:
    """For a table that takes all records, down to what Kafka holds.  The property is stored with the head's knowledge."""
    names = sorted({name for tables in world.routes.whole.values() for name in tables})
    if not names:
        return
    first = names.index(world.hub.random.choice(names))
    for name in names[first:] + names[:first]:
        table = world.catalog.tables[name]
        chain = chain_of(table)
        links = {} if chain is None else chain.links
        tps = [tp for tp in every_partition(world) if tp in links and world.kafka.log(tp).start < links[tp].origin]
        tps = [tp for tp in tps if links[tp].topic_id == world.kafka.topics[tp.topic].id]
        if tps:
            _ask_from(world, name, {tp: world.kafka.log(tp).start for tp in tps})
            return


def _ask_from(world: World, name: str, starts: Mapping[TopicPartition, int]) -> None:
    table, floors = world.catalog.tables[name], {**world.floors.get(name, {}), **starts}
    world.floors[name] = floors
    text = json.dumps({
        t: {str(tp.partition): at for tp, at in floors.items() if tp.topic == t}
        for t in sorted({tp.topic for tp in floors})
    })  # fmt: skip
    world.catalog.tables[name] = replace(table, properties={**table.properties, KEYS.backfill: text})
    world.hub.counts["outcome backfill asked"] += 1


# --- topics and checkpoints ------------------------------------------------------------------------------------------


@event("retention", 0.15)
def _retention(world: World) -> None:
    """Retention of records that every table has."""
    tp = world.hub.random.choice(every_partition(world))
    log = world.kafka.log(tp)  # tables may hold more offsets of an earlier topic of this name
    world.kafka.expire(tp, max(log.start, min(log.end, world.landed(tp))), lossy=False)


@event("records lost", 0.03)
def _lossy_retention(world: World) -> None:
    """Retention of records that some table may lack."""
    tp = world.hub.random.choice(every_partition(world))
    log = world.kafka.log(tp)
    world.kafka.expire(tp, log.start + int(world.hub.random.random() * (log.end - log.start + 1)), lossy=True)
    world.reasons.add("records lost")


@event("topic recreated", 0.02)
def _recreate(world: World) -> None:
    world.recreate(world.hub.random.choice(list(world.routes.whole)))


@event("partition added", 0.08)
def _add_partition(world: World) -> None:
    if len(world.kafka.all()) < 6:
        world.kafka.add_partition(world.hub.random.choice(list(world.routes.whole)))


@event("checkpoint lost", 0.3)
def _lose_checkpoint(world: World) -> None:
    """Between two starts."""
    if not world.drivers:
        world.checkpoint = Checkpoint()


@event("checkpoint restored", 0.3)
def _restore_checkpoint(world: World) -> None:
    """An older copy, between two starts."""
    if not world.drivers and world.checkpoint.offsets:
        keep = int(world.hub.random.random() * len(world.checkpoint.offsets))
        world.checkpoint = world.checkpoint.copy_until(keep)
