"""The invariants after every commit of a table or of a transaction, and at the end."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from chsink.mirror.events import CommitToTable, DataWritten
from chsink.mirror.tables import CHAINS, VALID_THROUGH, MirrorTable
from chsink.statemachine.commit.chain import Chain, read_chain
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import CONTROL, CONTROL_GROUP, GROUP, Transaction
from tests.mirror_sim.job import KEYS, reference
from tests.mirror_sim.named import LISTED, is_named
from tests.mirror_sim.shared import ADDED, TABLES
from tests.sim.hub import Violation
from tests.sim.kafka import uid_of

if TYPE_CHECKING:
    from tests.mirror_sim.catalog import Metadata
    from tests.mirror_sim.world import World

INVARIANTS = (
    "at_most_once",
    "one_table_each",
    "chain_is_content",
    "group_follows",
    "main_moves_forward",
    "manifests_stay",
    "nothing_forgotten",
    "repair_justified",
    "snapshot_has_files",
    "specs_are_known",
    "valid_through",
    "what_is_said_is_so",
    "halt_justified",
    "complete_at_rest",
    "decision_is_told",
    "progress",
    "no_defect",
)
GROUP_FAULTS = {"group lost", "group set back", "group set forward"}
EVENT_FAULTS = {
    *GROUP_FAULTS,
    *("control topic lost", "control topic truncated", "control group set forward"),
    *("two drivers", "table commit late", "property lost", "files deleted", "table recreated"),
    *("partition spec removed", "table added", "table named", "rolled back"),
}
"""Faults after which a range may have to be read again; a rollback, if a person decides so: else it ends the world."""


STALE = {"table commit late", "two drivers", "property lost"}
"""Faults that may set a chain back over units without files."""


def table_committed(world: World, name: str, before: Metadata, after: Metadata) -> None:
    """A commit of the mirror, or of a publication, was applied."""
    _main_moves_forward(name, before, after)
    if after.head != before.head and not (before.head is None and after.head == after.main):
        snap = after.snaps[after.head or 0]
        world.hub.counts["outcome snapshot"] += 1
        first = not any(name.startswith(CHAINS) for name in before.properties)
        decided = world.decider.busy or {"rolled back", "table commit late"} <= world.reasons  # by a takeover, too
        if not (snap.added or first or decided):
            raise Violation("snapshot_has_files", f"{name}: snapshot {snap.snapshot_id} has none")
        parent = before.snaps.get(snap.parent_snapshot_id or 0)
        base = before.held if parent is None else parent.held
        if snap.unknown_specs:
            raise Violation("specs_are_known", f"{name}: manifests of the specs {sorted(snap.unknown_specs)}")
        doubled = sorted(uid for uid in snap.added if uid in base or snap.added.count(uid) > 1)
        if doubled:
            raise Violation("at_most_once", f"{name}: {doubled} landed again")
    else:
        world.hub.counts["outcome move"] += 1
    manifests_stay(world, name)
    chain = chain_of(after)
    if chain is None:
        return
    for tp, link in chain.links.items():
        if tp.topic in world.routes.shared and shares(name):
            _holds_part_of_its_link(world, name, after, tp, (link.topic_id, link.origin, link.until))
        else:
            _holds_its_link(world, name, after, tp, (link.topic_id, link.origin, link.until))
    if after.head != before.head:
        _valid_through(world, name, after, chain)


def _given_up(world: World, name: str) -> frozenset[int]:
    return world.decider.given_up.get(name, frozenset())


def shares(name: str) -> bool:
    """Whether the table may share a topic with others."""
    return name in TABLES or is_named(name)


def tables_of(world: World, topic: str) -> tuple[str, ...]:
    """The topic's tables, also those that its records named until now."""
    if topic not in world.routes.named:
        return world.routes.tables(topic)
    named = world.keys.names(world.catalog.tables[LISTED].properties)
    return replace(world.routes, named={topic: tuple(named)}).tables(topic)


def _main_moves_forward(name: str, before: Metadata, after: Metadata) -> None:
    """Readers of main see what was published, and lose nothing."""
    if before.main == after.main or before.main is None or after.main is None:
        return
    if after.head != before.head:
        raise Violation("main_moves_forward", f"{name}: a commit to the branch moved main")
    at, oldest = after.snaps.get(after.main), after.main
    while at is not None and oldest != before.main:
        oldest, at = at.snapshot_id, after.snaps.get(at.parent_snapshot_id or 0)
    seen = after.snaps[oldest].sequence_number <= before.snaps[before.main].sequence_number  # else it has expired
    if seen and oldest != before.main:
        raise Violation("main_moves_forward", f"{name}: from {before.main}, which is no ancestor of {after.main}")
    if lost := sorted(before.snaps[before.main].held - after.snaps[after.main].held):
        raise Violation("main_moves_forward", f"{name}: main had {lost}")


def manifests_stay(world: World, name: str) -> None:
    """What a snapshot refers to is what was written for it, whatever was written since."""
    for snap in world.catalog.tables[name].snaps.values():
        if snap.manifest and world.catalog.manifests[snap.manifest] != (snap.snapshot_id, snap.added):
            number, added = world.catalog.manifests[snap.manifest]
            said = f"the manifest of snapshot {snap.snapshot_id} is that of {number}, with {added}"
            raise Violation("manifests_stay", f"{name}: {said}")


@lru_cache(64)
def chain_of(metadata: Metadata) -> Chain | None:
    """As production code reads it.  At rest, each step asks for the same ones again."""
    reader = MirrorTable(cast("Any", None), "", replace(KEYS, branch=metadata.branch))
    table = cast("Any", type("Table", (), {"metadata": metadata}))
    return read_chain(reader._view(table)).chain


def uids(world: World, tp: TopicPartition, topic_id: str, start: int, end: int) -> set[int]:
    """The records of a range, also those that Kafka deleted."""
    serial = int(topic_id.removeprefix("id"))
    archive = world.kafka.lives[serial].logs[tp.partition].archive
    return {uid_of(serial, tp.partition, offset) for offset in archive if start <= offset < end}


def _holds_its_link(world: World, name: str, table: Metadata, tp: TopicPartition, link: tuple[str, int, int]) -> None:
    topic_id, origin, until = link
    whole = uids(world, tp, topic_id, 0, 1 << 40) & table.held
    said = uids(world, tp, topic_id, origin, until)
    lacks, more = sorted(said - whole - _given_up(world, name)), sorted(whole - said)
    if world.decider.busy and topic_id != world.kafka.topics[tp.topic].id:
        more = []  # created again while a decision was read: it has the earlier id and the new ends, and the start halts
    if lacks or more:
        raise Violation("chain_is_content", f"{name} {tp}: [{origin}, {until}) lacks {lacks}, and there is {more}")


def _holds_part_of_its_link(
    world: World, name: str, table: Metadata, tp: TopicPartition, link: tuple[str, int, int]
) -> None:
    topic_id, origin, until = link
    whole = uids(world, tp, topic_id, 0, 1 << 40) & table.held
    if more := sorted(whole - uids(world, tp, topic_id, origin, until)):
        raise Violation("chain_is_content", f"{name} {tp}: [{origin}, {until}), and there is {more}")
    if wrong := sorted(uid for uid in whole if world.named.table_of(uid) not in {None, name}):
        raise Violation("one_table_each", f"{wrong} are in {name}, and name others")
    for other in {other for other in world.catalog.tables if shares(other)} - {name}:
        if both := sorted(whole & world.catalog.tables[other].held):
            raise Violation("one_table_each", f"{both} are in {name} and in {other}")


def _valid_through(world: World, name: str, table: Metadata, chain: Chain) -> None:
    snap = table.snaps[table.head or 0]
    text = snap.properties.get(VALID_THROUGH)
    if text is None:
        return
    world.hub.counts["outcome valid through"] += 1
    for tp, link in chain.links.items():
        known = uids(world, tp, link.topic_id, link.origin, 1 << 40)
        if tp.topic in world.routes.shared and shares(name):
            continue  # which of the records that it does not hold are its own depends on the map of their time
        late = sorted(uid for uid in known - table.held - _given_up(world, name) if world.kafka.times[uid] < int(text))
        if late:
            raise Violation("valid_through", f"{name} says {text}, and lacks {late}")


def transaction_committed(world: World, transaction: Transaction) -> None:
    """Kafka decided to commit."""
    for payload in transaction.payloads:
        if isinstance(payload, CommitToTable) and payload.snapshot_id not in world.catalog.snapshots:
            raise Violation("what_is_said_is_so", f"no snapshot {payload.snapshot_id} was ever made")
        if isinstance(payload, DataWritten):
            world.hub.counts["outcome unit in parts"] += payload.tag is not None and payload.tag.parts > 1
            _written_for_another(world, payload)
    if not transaction.offsets and any(isinstance(p, DataWritten) for p in transaction.payloads):
        world.hub.counts["outcome read again"] += 1
        if not world.reasons & EVENT_FAULTS and not world.floors:
            raise Violation("repair_justified", f"{transaction.payloads[0]}")
    for tp, offset in transaction.offsets.get(CONTROL_GROUP, {}).items():
        _nothing_forgotten(world, tp, offset)


def uids_of(world: World, written: DataWritten) -> frozenset[int]:
    """The records in the files of an event."""
    return frozenset(uid for entry in written.files for uid in world.catalog.files.get(entry["file_path"], ()))


def _written_for_another(world: World, written: DataWritten) -> None:
    """A worker that outlived its driver wrote for a table that was made again since, and has left its topic."""
    name = ".".join((*written.table.namespace, written.table.name))
    if written.tag and name in world.dropped and name not in world.routes.tables(written.tag.topic):
        world.lost_with_tables |= uids_of(world, written)


def _nothing_forgotten(world: World, tp: TopicPartition, offset: int) -> None:
    if world.reasons & {
        "control topic lost",
        "control group set forward",
        "files deleted",
        "partition spec removed",
        *STALE,
    }:
        return  # the offset may be that of another topic, a property may have been set back, a file may be gone
    references = {(r.namespace, r.name): name for name in world.catalog.tables for r in [reference(name)]}
    for payload in world.broker.payloads(tp.partition, offset, world.decider.passed.get(tp, 0)):
        if not isinstance(payload, DataWritten) or payload.tag is None or not payload.files:
            continue
        name, tag = references[payload.table.namespace, payload.table.name], payload.tag
        if tag.table_uuid != world.catalog.tables[name].table_uuid:
            continue  # files of a table that was dropped are never committed: their range is read again
        if is_named(name) and "table recreated" in world.reasons:
            continue  # the list went with its table: what is read again for that names the table again
        chain = chain_of(world.catalog.tables[name])
        link = None if chain is None else chain.links.get(TopicPartition(tag.topic, tag.partition))
        if link is not None and link.until <= tag.start and tag.topic_id == link.topic_id:
            raise Violation("nothing_forgotten", f"{CONTROL}-{tp.partition} below {offset}: {name} lacks {tag}")


def group_moved(world: World, transaction: Transaction, group: str) -> None:
    """The group's offsets move now."""
    if group != GROUP or world.reasons & GROUP_FAULTS:
        return
    before = world.broker.groups.get(group, {})
    for tp, after in transaction.offsets[group].items():
        at = before.get(tp)
        tags = [p.tag for p in transaction.payloads if isinstance(p, DataWritten) and p.tag is not None]
        mine = [t for t in tags if TopicPartition(t.topic, t.partition) == tp]
        if not mine and (at in {None, after} or (tp, after) in world.decider.moves):
            continue
        choices = {t.choice for t in mine if t.choice is not None}
        due = {name for each in choices for name in world.sharings[tp.topic, each]} or set(
            world.routes.whole[tp.topic]
        ) - {ADDED}
        # a worker of a driver that did not know an added table hands over for the others: the table reads it again
        lacking = [name for name in sorted(due) if not any(t.unit.endswith(f"/{name}") for t in mine)]
        if len(choices) > 1 or (mine and tp.topic in world.routes.shared and not choices):
            raise Violation("group_follows", f"{tp} moves with units of the choices {sorted(choices)}")
        if lacking or any((t.start, t.until) != (at, after) for t in mine):
            raise Violation("group_follows", f"{tp} moves from {at} to {after} with {mine}, without {lacking}")


def at_rest(world: World) -> str:
    """The first records that a table lacks, in words; "" if every table has all."""
    for name in world.catalog.tables:
        manifests_stay(world, name)
    for topic in world.routes.whole:
        serial = world.kafka.topics[topic].serial
        for tp in (t for t in world.kafka.all() if t.topic == topic):
            if said := _lacks_shared(world, tp, f"id{serial}"):
                return said
            for name in world.routes.whole[topic]:
                chain = chain_of(world.catalog.tables[name])
                link = None if chain is None else chain.links.get(tp)
                if link is None:
                    return f"{name} does not know {tp}"
                floor = max(world.floors.get(name, {}).get(tp, link.origin), world.kafka.log(tp).start)
                if earlier := uids(world, tp, f"id{serial}", floor, link.origin):
                    return f"{name} is to be filled with {sorted(earlier)[:5]} of {tp}"
                lacks = uids(world, tp, f"id{serial}", link.origin, 1 << 40) - world.catalog.tables[name].held
                if lacks := lacks - _given_up(world, name):
                    return f"{name} lacks {sorted(lacks)[:5]} of {tp}"
    return ""


def _lacks_shared(world: World, tp: TopicPartition, topic_id: str) -> str:
    """What no table that shares a topic-partition has, in words."""
    names = sorted(set(tables_of(world, tp.topic)) - set(world.routes.whole[tp.topic]))
    if not names:
        return ""
    chains = {name: chain_of(world.catalog.tables[name]) for name in names}
    links = {name: None if chain is None else chain.links.get(tp) for name, chain in chains.items()}
    if unknown := [name for name, link in links.items() if link is None]:
        return f"{unknown} do not know {tp}"
    every = [name for name in world.catalog.tables if shares(name)]
    held = frozenset[int]().union(*(world.catalog.tables[name].held for name in every))
    origins = {n: c.links[tp].origin for n in every if (c := chain_of(world.catalog.tables[n])) and tp in c.links}
    again = (origins[name] for name in world.dropped & origins.keys())  # it joined, and began with the next records
    first = max(min(origins.values()), *again, 0)
    lacks = sorted(uids(world, tp, topic_id, first, 1 << 40) - held - world.lost_with_tables)
    return f"no table has {lacks[:5]} of {tp}" if lacks else ""
