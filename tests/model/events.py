"""What happens to the processes and services of a world.  Each event is a fault of which the world has so many.

Stated limits, which the model keeps and ``docs/simulator.md`` repeats:
- a send that has begun arrives within the margin, or never;
- while a send is under way, others insert no more blocks than the window's spare part;
- a topic that is deleted takes tasks of older attempts that still read it along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from chsink.clickhouse.dedup_mark import SPARE
from chsink.statemachine.records import StateRecord
from tests.model.ledger import Moves
from tests.model.protocol import topic_id
from tests.model.services import arrive, remembered
from tests.model.space import NO_ROW, UNREAD, Checkpoint, Driver, State, Store, Target, mask, swapped, without_driver
from tests.model.spark import restarted

if TYPE_CHECKING:
    from tests.model.model import Model

# --- processes -------------------------------------------------------------------------------------------------------


def starts(model: Model, state: State) -> Moves:
    """The job is started: because none runs, or beside one that does.  What was done to its checkpoint meanwhile?"""
    if not state.starts:
        return
    if state.drivers:
        beside = model.spend(state, "second driver")
        if beside is None:
            return
        state = beside
    number = model.world.starts - state.starts + 1
    state = state._replace(starts=state.starts - 1)
    for what, after in _checkpoints(model, state):
        for driver, ready in _configured(model, after, Driver(number)):
            drivers = tuple(sorted((*ready.drivers, driver), key=lambda d: d.number))
            yield f"driver started, {what}", ready._replace(drivers=drivers)


def _configured(model: Model, state: State, driver: Driver) -> Iterator[tuple[Driver, State]]:
    """With the usual configuration, or another batch size, or another list of shards."""
    usual, *others = model.world.limits
    driver = driver._replace(limit=usual, layout=model.world.shards, pipeline=model.happened(state, "table altered"))
    yield driver, state
    spent = model.spend(state, "limit changed")
    if spent is not None:
        for limit in others:
            yield driver._replace(limit=limit), spent
    spent = model.spend(state, "shards changed")
    if spent is not None:
        yield driver._replace(layout=3 - driver.layout), spent


def _checkpoints(model: Model, state: State) -> Moves:
    yield "same checkpoint", state
    log, made = state.checkpoint, state.checkpoint.made + 1
    if model.happened(state, "store: state lost"):
        return
    spent = model.spend(state, "checkpoint: lost")
    if spent is not None:
        yield "checkpoint: lost", spent._replace(checkpoint=Checkpoint(_recorded_end(model, state), made=made))
    spent = model.spend(state, "checkpoint: rewound")
    if spent is not None:
        yield "checkpoint: rewound", spent._replace(checkpoint=Checkpoint(state.kafka.start, made=made))
    spent = model.spend(state, "checkpoint: anywhere")
    if spent is not None:
        for offset in range(state.kafka.start + 1, state.kafka.end):
            asked = state.asked_from if _recorded_end(model, state) else offset
            yield "checkpoint: anywhere", spent._replace(checkpoint=Checkpoint(offset, made=made), asked_from=asked)
    spent = model.spend(state, "checkpoint: commit deleted")
    if spent is not None and log.committed and log.committed == len(log.ends):
        yield "checkpoint: commit deleted", spent._replace(checkpoint=log._replace(committed=log.committed - 1))


def _recorded(model: Model, state: State) -> StateRecord | None:
    return None if state.store.row == NO_ROW else model.protocol.record(state.store.row[1])


def _recorded_end(model: Model, state: State) -> int:
    """Where a new checkpoint begins: the recorded end, 0 where there is none or the topic is another one."""
    record = _recorded(model, state)
    if record is None or not record.may_belong_to(topic_id(state.kafka.serial) if state.kafka.known else None):
        return 0
    return record.end


def crashes(model: Model, state: State) -> Moves:
    """A driver is killed; what it had under way lives on."""
    for driver in state.drivers:
        spent = model.spend(state, "driver killed")
        if spent is not None:
            yield "driver killed", without_driver(spent, driver.number)


# --- time, ClickHouse ------------------------------------------------------------------------------------------------


def time(model: Model, state: State) -> Moves:
    """A tick."""
    after = model.spend(state, "time passes")
    if after is None:
        return
    now, skipped = state.now + 1, model.skips("deadline")
    awaited = {(d.number, d.used) for d in state.drivers if d.pc == "job runs"}
    tasks = tuple(t for t in state.tasks if skipped or now < t.deadline or (t.driver, t.job) in awaited)
    copies = tuple(c for c in state.copies if now <= c.sent_at + model.world.margin)
    target = remembered(model, now, state.target)
    yield "a tick", after._replace(now=now, tasks=tasks, copies=copies, target=target)


def copies(model: Model, state: State) -> Moves:
    """A send that nobody waits for any more arrives."""
    for copy in dict.fromkeys(state.copies):
        yield "late insert arrives", arrive(model, state._replace(copies=swapped(state.copies, copy)), copy)


def others(model: Model, state: State) -> Moves:
    """Other writers insert: the spare part of the window, or all of it."""
    spent = model.spend(state, "others write")
    if spent is not None:
        window = model.world.window_blocks
        for blocks in {window // SPARE, window} if not state.copies else {window // SPARE}:
            yield "others write", spent._replace(target=remembered(model, state.now, _grown(state.target, blocks)))


def server(model: Model, state: State) -> Moves:
    """The servers are started anew, orderly: what they answered is kept, with its token."""
    spent = model.spend(state, "server restarts")
    if spent is not None:
        yield "server restarts", restarted(spent)


def altered(model: Model, state: State) -> Moves:
    """The table is another one from the next start on."""
    spent = model.spend(state, "table altered")
    if spent is not None and not state.drivers:
        yield "table altered", spent


def _grown(target: Target, blocks: int) -> Target:
    return target._replace(blocks=tuple(n + blocks for n in target.blocks))


# --- Kafka, the store ------------------------------------------------------------------------------------------------


def kafka(model: Model, state: State) -> Moves:
    """Compaction, retention, new records, a log that shrinks, a topic made anew, brokers that tell no ids."""
    log = state.kafka
    spent = model.spend(state, "kafka: compaction")
    if spent is not None:
        for offset in range(log.start, log.end):
            if log.visible >> offset & 1:
                archive = _with_life(log.archive, log.serial, log.archive[log.serial] & ~(1 << offset))
                gone = log._replace(visible=log.visible & ~(1 << offset), archive=archive)
                yield "kafka: compaction", spent._replace(kafka=gone)
    spent = model.spend(state, "kafka: retention")
    if spent is not None:
        for start in range(log.start + 1, log.end + 1):
            kept = log._replace(start=start, visible=log.visible & ~mask(0, start))
            yield "kafka: retention", spent._replace(kafka=kept)
    spent = model.spend(state, "kafka: log shrinks")
    if spent is not None and log.end and not state.drivers and not state.tasks:
        archive = _with_life(log.archive, log.serial, log.archive[log.serial] & mask(0, log.end - 1))
        shorter = log._replace(end=log.end - 1, visible=log.visible & mask(0, log.end - 1), archive=archive)
        yield "kafka: log shrinks", spent._replace(kafka=shorter)
    spent = model.spend(state, "kafka: topic recreated")
    if spent is not None:
        for end in {2, log.end}:
            yield "kafka: topic recreated", recreated(model, spent, end)
    spent = model.spend(state, "kafka: ids hidden")
    if spent is not None and not model.happened(state, "kafka: topic recreated"):
        yield "kafka: ids hidden", spent._replace(kafka=log._replace(known=False))
    spent = model.spend(state, "kafka: ids shown")
    if spent is not None and not log.known:
        yield "kafka: ids shown", spent._replace(kafka=log._replace(known=True))


def _with_life(archive: tuple[int, ...], serial: int, held: int) -> tuple[int, ...]:
    return tuple(held if life == serial else rows for life, rows in enumerate(archive))


def recreated(model: Model, state: State, end: int) -> State:
    """Tasks of older attempts die with the topic; those of the range in doubt may go on, and read the new one."""
    log, record = state.kafka, _recorded(model, state)
    log = log._replace(
        serial=log.serial + 1, start=0, end=end, visible=mask(0, end), archive=(*log.archive, mask(0, end))
    )
    awaited = {(d.number, d.used) for d in state.drivers if d.pc == "job runs"}
    tasks = []
    for task in state.tasks:
        ours = record is not None and record.in_doubt and model.protocol.record(task.record).range == record.range
        if task.rows != UNREAD or (ours and (task.driver, task.job) in awaited):
            tasks.append(task)
    waiting = {(t.driver, t.job) for t in tasks}
    drivers = tuple(d for d in state.drivers if d.pc != "job runs" or (d.number, d.used) in waiting)
    target = state.target._replace(landed=(*state.target.landed, 0))
    return state._replace(kafka=log, target=target, tasks=tuple(tasks), drivers=drivers, asked_from=0)


def lost(model: Model, state: State) -> Moves:
    """The state is lost, while nothing runs and all is committed."""
    spent = model.spend(state, "store: state lost")
    log = state.checkpoint
    if spent is not None and not state.drivers and not state.tasks and 0 < log.committed == len(log.ends):
        yield "store: state lost", spent._replace(store=Store(announced=state.store.announced))


def removed(model: Model, state: State) -> Moves:
    """Rows, state and checkpoint are removed while nothing of the sink runs or is under way; tokens are remembered."""
    spent = model.spend(state, "everything removed")
    if spent is not None and not (state.drivers or state.tasks or state.copies or state.store.late):
        start, made = state.kafka.start, state.checkpoint.made + 1
        target = state.target._replace(landed=(0,) * len(state.target.landed), misnamed=())
        yield (
            "everything removed",
            spent._replace(target=target, store=Store(), checkpoint=Checkpoint(start, made=made), asked_from=start),
        )


Event = Callable[["Model", State], Moves]
EVENTS: dict[str, Event] = {
    "driver": crashes,
    "others write": others,
    "server restarts": server,
    "table altered": altered,
    "kafka": kafka,
    "store: state lost": lost,
    "everything removed": removed,
}
"""By how the names of their faults begin."""
ALWAYS = (starts, time, copies)


def events_of(faults: Iterable[str]) -> tuple[Event, ...]:
    """Those that a world with these faults can see."""
    found = [event for name, event in EVENTS.items() if any(f.startswith(name) for f in faults)]
    return (*ALWAYS, *found)
