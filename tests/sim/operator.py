"""The operator: damages the checkpoint before a restart, and follows a halt's hint after it.

A halt without a reason in the world is a violation: otherwise a sink that always halts would pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from chsink.errors import ChsinkError
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase
from tests.sim import person
from tests.sim.checkpoint import Checkpoint
from tests.sim.hub import Violation

if TYPE_CHECKING:
    from tests.sim.world import World


CHECKPOINT_FAULTS = (
    "checkpoint lost",
    "checkpoint rolled back",
    "commit deleted",
    "started from earliest",
    "started from anywhere",
    "offsets skipped forward",
    "chunk size changed",
    "limit changed",
    "rows in doubt deleted",
    "rows in doubt attached again",
)


LOWERED = 0.2
"""How often somebody lowers a window and raises it again, before the job is started."""
LOOKS = 3
"""How often the job is started again if a topic seems to have shrunk because it was recreated."""


def before_restart(world: World) -> None:
    """After a crash, often leave the checkpoint alone; sometimes lose, roll back or edit it, or change the limit."""
    hub, checkpoint = world.hub, world.checkpoint
    if world.store.lost_state:
        return
    batches = len(checkpoint.offsets)
    if hub.fault("checkpoint lost", 0.15):
        world.checkpoint = Checkpoint()
    elif batches and hub.fault("checkpoint rolled back", 0.2):
        world.checkpoint = checkpoint.copy_until(int(hub.random.random() * batches))
        world.reasons.add("rewound")
    elif batches and hub.fault("commit deleted", 0.1):
        checkpoint.commits.discard(batches - 1)
    elif hub.fault("started from earliest", 0.1):
        world.checkpoint = Checkpoint({tp: world.kafka.log(tp).start for tp in world.kafka.all()})
        world.reasons.add("rewound")
    elif hub.fault("started from anywhere", 0.12):
        world.checkpoint = Checkpoint({tp: _anywhere(world, tp) for tp in world.kafka.all()})
        _forgive_unread(world)
        world.reasons.update({"gap", "rewound"})
    elif hub.fault("offsets skipped forward", 0.05):
        world.checkpoint = Checkpoint({tp: world.kafka.log(tp).end for tp in world.kafka.all()})
        _forgive_unread(world)
        world.reasons.add("gap")
    if hub.fault("chunk size changed", 0.2):
        world.chunk_offsets = hub.random.randint(2, 6)
    if hub.fault("limit changed", 0.4):
        world.limit = hub.random.randint(3, 12)
    searched = world.tables_are_searched and not world.store.under_way  # else AFTER may still arrive
    if searched and hub.fault("rows in doubt deleted", 0.1):
        person.delete_in_doubt(world)
        world.reasons.add("rows deleted")
    elif searched and not _sending(world) and _alone(world) and hub.fault("rows in doubt attached again", 0.1):
        person.attach_again(world)
        world.reasons.add("rows attached again")
    # Random numbers of its own, so that seeds keep their meaning.
    own = Random(f"{hub.seed} lowered {hub.steps}")
    if searched and not hub.calm and own.random() < LOWERED and not _sending(world) and _alone(world):
        _lower_and_raise(world, own.choice(sorted(world.kinds)), elsewhere=own.random() < 0.5)


def _lower_and_raise(world: World, table: str, *, elsewhere: bool) -> None:
    """The rows are looked for then, but not where that might halt a job for nothing (docs/promise.md)."""
    if world.kinds[table].views or world.reasons & {"state lost", "state restored"}:
        return
    for server in world.servers:
        server.lower_and_raise(table, elsewhere=elsewhere and world.kinds[table].replicated)
    world.hub.counts["fault window lowered and raised"] += 1
    world.reasons.add("window")


def _sending(world: World) -> bool:
    """Whether inserts of earlier runs may still arrive."""
    return bool(world.executors) or any(server.under_way for server in world.servers)


def _alone(world: World) -> bool:
    """Whether no range in doubt shares its offsets with an earlier life of its topic."""
    return all(record.start >= record.life.older_end for record in world.records().values() if record.in_doubt)


def _forgive_unread(world: World) -> None:
    """Where nothing was landed yet, to start later is the operator's right; elsewhere it is a gap to be refused."""
    records = world.records()
    world.forgiven.update(tp for tp in world.kafka.all() if tp not in records or not records[tp].end)


def _anywhere(world: World, tp: TopicPartition) -> int:
    """Some offset of the log, preferably one inside a range in doubt."""
    log, record = world.kafka.log(tp), world.records().get(tp)
    low, high = log.start, log.end
    if record is not None and record.in_doubt:
        low, high = max(low, record.start), min(high, record.end)
    return world.hub.random.randint(min(low, log.end), max(min(low, log.end), high))


def heal(world: World) -> None:
    """Make the world calm: services are up, and every partition gets one more record, so that every gap is noticed.

    A recreated topic that ends exactly where the earlier one was read, or where the checkpoint is, is noticed only
    with its next record.
    """
    records, log = world.records(), world.checkpoint.offsets
    reached = (log[-1] if log else world.checkpoint.initial) or {}
    for tp in world.kafka.all():
        seen = {reached.get(tp), records[tp].end if tp in records else None}
        world.kafka.append(tp, 1)
        while world.kafka.log(tp).end in seen:
            world.kafka.append(tp, 1)
    world.store.down_until = 0
    for server in world.servers:
        server.up_at = min(server.up_at, world.hub.now)
        server.view_throws = False


def answer(world: World, why: str, error: Exception) -> None:
    """Check that the halt has a reason; then resolve it, or end the world if only a person can decide."""
    known = world.reasons | world.kafka.reasons | ({"window"} if world.doubt_is_old() else set())
    known |= {"token alone"} if world.hub.counts["fault insert leaves its token"] else set()
    halts = (error.parts or (error,)) if isinstance(error, ChsinkError) else ()
    for name in {h.id for h in halts} or {why}:
        if not known & REASONS.get(name, set()):
            raise Violation("halt_justified", f"{error} (the world gave no reason: {sorted(known)})")
    # State that was lost since the halt does not tell what was in doubt.
    told = {"topic ids hidden", "state lost"} & known
    if why == "CHS-304" and not told and not any(r.in_doubt for r in world.records().values()):
        raise Violation("halt_justified", f"{error} (brokers gained ids, and nothing is in doubt)")
    by_hand = [h for h in halts if h.id in BY_HAND and not world.store.lost_state and not _seems_only(world, h, known)]
    if by_hand and world.further:
        world.by_table(why)
    elif by_hand:
        person.at_work(world, why, [partial(BY_HAND[h.id], world, h) for h in by_hand])
    if by_hand:
        return
    act = ANSWERS.get(why)
    # without its owner's row, a job says so (CHS-801), and not what Spark misses
    if act is None or (world.store.lost_state and act in (_new_checkpoint, _accept_loss, _past_loss)):
        world.over = why
    else:
        act(world)
        if not world.drivers and world.over is None:
            world.start_soon()


def _seems_only(world: World, error: ChsinkError, known: set[str]) -> bool:
    """Whether another start may help: a topic was recreated between two requests, or a read of the state lagged."""
    if error.id == "CHS-301":
        return "log shrank" not in known and world.hub.counts["outcome CHS-301"] < LOOKS
    return error.id == "CHS-229" and not known & {"state lost", "state restored"}


def _new_checkpoint(world: World) -> None:
    """Start where the state says."""
    world.checkpoint = Checkpoint()


def _past_loss(world: World) -> None:
    """Start where the state says; without topic ids, a log that ends earlier ends the world."""
    records = world.records()
    if any(r.life.topic_id is None and r.end > world.kafka.log(tp).end for tp, r in records.items()):
        world.over = "spark data loss"
    _new_checkpoint(world)


def _accept_loss(world: World) -> None:
    """Read what Kafka still holds, and record what it does not."""
    world.on_gap = "record"
    _new_checkpoint(world)


def _look_again(world: World) -> None:
    """Only start again: a topic was recreated between two requests, or a task failed too often."""


def _same_brokers(world: World) -> None:
    """Run the broker version under which the state was written.  State of both versions ends the world."""
    unknown = {r.life.topic_id is None for r in world.records().values() if r.phase is not Phase.EMPTY}
    if len(unknown) > 1:
        world.over = "CHS-304"
    else:
        world.kafka.ids_hidden = True in unknown


def _mend_views(world: World) -> None:
    for server in world.servers:
        server.view_throws = False


def _skip_bad(world: World) -> None:
    world.halt_on_bad_value = False
    world.reasons.add("on_bad_value changed")  # a driver that was started before still halts


REASONS: dict[str, set[str]] = {
    "CHS-229": {"state lost", "state restored"},
    "CHS-233": {"table altered"},
    "CHS-301": {"log shrank", "topic recreated"},
    # A plan may begin behind records that a table lacks: one that was reset, or one of two tables of a topic.
    "CHS-302": {"state lost", "state restored", "gap", "reads lag", "table_by changed", "topic recreated"},
    "CHS-303": {"topic recreated"},
    "CHS-304": {"topic ids hidden", "topic ids shown"},
    # A driver that slept may offer an old batch, of which a table that records name only since then has nothing.
    "CHS-305": {"state restored", "rewound", "gap", "records lost", "state lost", "reads lag", "table_by changed"},
    "CHS-306": {"state restored", "rewound", "two drivers", "reads lag"},
    # Or an old plan is of the topic before, and the new one has not landed so far.
    "CHS-307": {"state restored", "records lost", "gap", "state lost", "table_by changed", "topic recreated"},
    "CHS-308": {"records lost", "topic recreated", "log shrank", "state restored"},
    "CHS-309": {"table altered", "table_by changed", "on_bad_value changed"},
    "CHS-313": {"table_by changed"},
    "CHS-314": {"window", "two drivers", "rows deleted", "rows attached again", "token alone"},
    "CHS-315": {"view throws"},
    "CHS-317": {"window", "two drivers", "recovered in doubt"},
    "CHS-318": {"topic recreated", "log shrank", "state lost", "state restored"},
    "CHS-333": {"window", "two drivers", "rows deleted", "rows attached again", "token alone"},
    "CHS-335": {"topic recreated", "log shrank"},
    "CHS-501": {"bad value"},
    "spark data loss": {"records lost", "retention", "topic recreated", "log shrank"},
    "spark concurrent query": {"two drivers"},
    "spark task failed": {"executor killed"},
}
BY_HAND: dict[str, Callable[[World, ChsinkError], None]] = {
    "CHS-229": person.state_lost,
    "CHS-301": person.log_shrank,
    "CHS-302": person.state_lost,
    "CHS-303": person.recreated,
    "CHS-308": person.no_longer_read,
    "CHS-309": person.changed_while_in_doubt,
    "CHS-313": person.decide_range,
    "CHS-314": person.decide_range,
    "CHS-317": person.decide_range,
    "CHS-318": person.decide_range,
    "CHS-333": person.decide_range,
}
"""Where a person decides, by chsink's own commands."""
ANSWERS: dict[str, Callable[[World], None]] = {
    "CHS-229": _look_again,
    "CHS-233": _look_again,
    "CHS-301": _look_again,
    "CHS-304": _same_brokers,
    "CHS-305": _new_checkpoint,
    "CHS-306": _new_checkpoint,
    "CHS-307": _accept_loss,
    "CHS-315": _mend_views,
    "CHS-335": _look_again,
    "CHS-501": _skip_bad,
    "spark data loss": _past_loss,
    "spark concurrent query": _look_again,
    "spark task failed": _look_again,
}
