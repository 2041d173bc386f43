"""Spark around the driver: the checkpoint that plans batches, and task attempts that read, send, die and live on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from tests.model.driver import reads_exactly
from tests.model.ledger import STEPS, Moves
from tests.model.protocol import topic_id
from tests.model.services import arrive, look, shard_mask
from tests.model.space import (
    UNREAD,
    Copy,
    Driver,
    State,
    Task,
    mask,
    offsets,
    swapped,
    with_driver,
    without_driver,
)
from tests.sim.hub import Violation

if TYPE_CHECKING:
    from tests.model.model import Model

# --- the checkpoint --------------------------------------------------------------------------------------------------


def _next_batch(model: Model, state: State, d: Driver) -> Moves:
    """The next batch's plan, logged before it runs; a driver that finds nothing more is done."""
    log = state.checkpoint
    opening = d.at < 0
    if opening:
        at = len(log.ends) if len(log.ends) == log.committed else log.committed
        d = d._replace(at=at, begin=log.ends[at - 1] if at else log.initial, made=log.made, initial=log.initial)
    mine = d.made == log.made
    if opening and d.at < len(log.ends):
        yield "batch planned again", _planned(state, d, log.ends[d.at])
        return
    end = min(state.kafka.end, d.begin + d.limit)
    if state.kafka.end < d.begin:
        model.halted(state, "data loss")
        yield "Spark: data loss", without_driver(state, d.number)
    elif end == d.begin:
        _check_complete(model, state, d)
        model.counts["driver at rest"] += 1
        yield "nothing more to do", without_driver(state, d.number)
    elif mine and d.at != len(log.ends):
        yield "Spark: concurrent query", without_driver(state, d.number)
    else:
        if mine:
            state = state._replace(checkpoint=log._replace(ends=(*log.ends, end)))
        yield "batch planned", _planned(state, d, end)


def _planned(state: State, d: Driver, end: int) -> State:
    return with_driver(state, d._replace(planned=(d.begin, end), rest=(d.begin, end), pc="decide: ids", worked=True))


def _commit(model: Model, state: State, d: Driver) -> Moves:
    assert d.planned is not None
    log = state.checkpoint
    if d.made == log.made and log.committed == d.at:
        state = state._replace(checkpoint=log._replace(committed=d.at + 1))
    done = d._replace(
        at=d.at + 1, begin=d.planned[1], pc="plan", planned=None, rest=None, whole=True, facts=(0, 0, 0), fresh=False
    )
    yield "batch committed", with_driver(state, done)


def _check_complete(model: Model, state: State, d: Driver) -> None:
    """All that Kafka holds, from where it was asked, is in the target, and the record says so.

    A driver that is not eager settles with its first batch; without one, what is in doubt stays so.
    """
    if model.happened(state, "kafka: log shrinks", "store: state lost") or not (d.worked or model.world.eager):
        return
    kafka = state.kafka
    asked_from = min(state.asked_from, d.initial)
    missing = kafka.visible & mask(max(kafka.start, asked_from), kafka.end) & ~state.target.landed[kafka.serial]
    record = model.protocol.record(d.cache[1])
    if record.life.topic_id not in (None, topic_id(kafka.serial)):
        return  # recreated while the query ran: Spark cannot see it before it is started with a new checkpoint
    if missing:
        raise Violation("complete_at_rest", f"offsets {offsets(missing)} of id{kafka.serial} are nowhere")
    if record.in_doubt or (kafka.start < kafka.end and record.end not in (0, kafka.end)):
        raise Violation("complete_at_rest", f"recorded is {record.phase} {record.range}, the log ends at {kafka.end}")


# --- task attempts ---------------------------------------------------------------------------------------------------


def task_moves(model: Model, state: State, task: Task) -> Iterator[tuple[str, State]]:
    """All that the task's next step may lead to."""
    count = model.protocol.chunk_count(task.record)
    index = task.piece // task.shards
    if index >= count:
        yield "task answered", _answered(state, task)
        return
    if task.rows != UNREAD:
        yield from _piece(model, state, task)
        return
    kafka = state.kafka
    if not task.exact and (kafka.start > task.planned[0] or kafka.end < task.planned[1]):
        model.counts["data loss"] += 1
        yield "Spark: data loss under a read", _failed(state, task)
        return
    visible = kafka.visible if task.exact else kafka.visible & mask(*task.planned)
    read = task._replace(rows=(kafka.serial, model.protocol.rows(task.record, index, visible)))
    if "read" in model.world.split:
        yield "chunk read", _task(state, task, read)
    else:
        yield from _piece(model, _task(state, task, read), read)


def _piece(model: Model, state: State, task: Task) -> Iterator[tuple[str, State]]:
    """One piece: probed where tokens are not trusted, else sent, under its token."""
    serial, chunk_rows = task.rows
    index, shard = divmod(task.piece, task.shards)
    record = model.protocol.record(task.record)
    rows = chunk_rows & shard_mask(shard, task.shards, record.end)
    if chunk_rows and shard == 0 and task.stage == "new" and record.life.topic_id is not None:
        yield from _ask_topic(model, state, task)
    elif not rows:
        yield "empty piece", _task(state, task, _next(task))
    elif record.doubt.probe and task.stage in {"new", "asked"}:
        yield from _probe(model, state, task, rows)
    elif task.stage == "kept?":
        yield from _look_again(model, state, task, rows)
    elif state.now >= task.deadline and not model.skips("deadline"):
        model.counts["deadline reached"] += 1
        yield "deadline reached", _failed(state, task)
    elif _forgotten(model, state, task, shard):
        model.counts["token may be forgotten"] += 1
        yield "token may be forgotten", _failed(state, task)
    else:
        token = model.protocol.token(task.record, task.planned, index, shard)
        yield from _send(model, state, task, Copy(token, task.record, shard, serial, rows, state.now))


def _ask_topic(model: Model, state: State, task: Task) -> Iterator[tuple[str, State]]:
    """After a chunk was read, and before any of it is sent: was it the recorded topic?"""
    record = model.protocol.record(task.record)
    topic = topic_id(state.kafka.serial) if state.kafka.known else None
    if topic != record.life.topic_id and not model.skips("id asked again"):
        why = "CHS-304" if topic is None else "CHS-308"
        yield "read from another topic", _failed(state, task, halt=why)
    else:
        yield "still the topic", _task(state, task, task._replace(stage="asked"))


def _forgotten(model: Model, state: State, task: Task, shard: int) -> bool:
    """Looked up before each send."""
    if model.skips("looks before it sends") or shard >= len(model.protocol.record(task.record).seen.marks):
        return False
    return model.protocol.forgotten_on(task.record, shard, look(state, task.shards)[shard])


def _probe(model: Model, state: State, task: Task, rows: int) -> Iterator[tuple[str, State]]:
    """Where tokens are not trusted, before a piece is sent."""
    there = _there(model, state, task)
    model.counts["probed"] += 1
    if there == 0:
        yield "probed: nothing there", _task(state, task, task._replace(stage="counted"))
    elif there == rows.bit_count():
        yield "probed: all there", _task(state, task, _next(task))
    else:
        yield "probed: a part is there", _failed(state, task, halt="CHS-314")


def _look_again(model: Model, state: State, task: Task, rows: int) -> Iterator[tuple[str, State]]:
    """A piece that was probed and sent: did the table keep it?"""
    if not rows & ~reduce(or_, state.target.landed):
        yield "probed: kept", _task(state, task, _next(task))
    else:
        yield "probed: dropped", _failed(state, task, halt="CHS-314")


def _there(model: Model, state: State, task: Task) -> int:
    """How many rows of the chunk's offsets the shard holds: of whatever life of the topic."""
    index, shard = divmod(task.piece, task.shards)
    record = model.protocol.record(task.record)
    first = record.start + index * record.sent.chunk_offsets
    asked = mask(first, min(first + record.sent.chunk_offsets, record.end)) & shard_mask(shard, task.shards, record.end)
    return sum((landed & asked).bit_count() for landed in state.target.landed)


def _send(model: Model, state: State, task: Task, sent: Copy) -> Iterator[tuple[str, State]]:
    """One INSERT, and everything that can become of it."""
    arrived = arrive(model, state, sent)
    again = task._replace(stage="sent")
    probed = model.protocol.record(task.record).doubt.probe
    yield "piece sent", _task(arrived, task, task._replace(stage="kept?") if probed else _next(task))
    for fault, after in (("insert: answer lost", arrived), ("insert: request lost", state)):
        spent = model.spend(after, fault)
        if spent is not None:
            yield fault, _task(spent, task, again)
    spent = model.spend(state, "insert: arrives late")
    if spent is not None:
        late = spent._replace(copies=swapped(spent.copies, None, sent))
        yield "insert: arrives late", _task(late, task, again)
    spent = model.spend(state, "server dies with an insert")
    if spent is not None:
        kept = restarted(arrive(model, spent, sent, remember=model.world.replicated))
        yield "server dies with an insert", _task(kept, task, again)


def restarted(state: State) -> State:
    """The server was started anew: connections are gone, and what was under way in them."""
    return state._replace(target=state.target._replace(started=state.target.started + 1), copies=())


def task_lost(model: Model, state: State, task: Task) -> Iterator[tuple[str, State]]:
    """The executor dies: Spark runs the task again.  Or a speculative duplicate is started beside it."""
    fresh = task._replace(piece=0, stage="new", rows=UNREAD)
    if not _awaited(state, task):
        return
    spent = model.spend(state, "task: speculative duplicate")
    if spent is not None:
        yield "task: speculative duplicate", spent._replace(tasks=swapped(spent.tasks, None, fresh))
    if task == fresh:
        return
    spent = model.spend(state, "task: executor lost")
    if spent is not None:
        yield "task: executor lost", _task(spent, task, fresh)


def _next(task: Task) -> Task:
    piece = task.piece + 1
    return task._replace(piece=piece, stage="new", rows=UNREAD if piece % task.shards == 0 else task.rows)


def _task(state: State, old: Task, new: Task) -> State:
    return state._replace(tasks=swapped(state.tasks, old, new))


def _awaited(state: State, task: Task) -> Driver | None:
    """The driver that waits for this task's answer, None when nobody does any more."""
    for d in state.drivers:
        if d.number == task.driver and d.pc == "job runs" and d.used == task.job:
            return d
    return None


def _answered(state: State, task: Task) -> State:
    driver = _awaited(state, task)
    state = state._replace(tasks=swapped(state.tasks, task))
    if driver is None:
        return state
    return with_driver(state, driver._replace(pc="still held" if reads_exactly(driver) else "confirm"))


def _failed(state: State, task: Task, halt: str = "") -> State:
    """The task answers with an error; its driver stops, or halts when a person has to decide."""
    driver = _awaited(state, task)
    state = state._replace(tasks=swapped(state.tasks, task))
    if driver is None:
        return state
    if halt:
        return with_driver(state, driver._replace(pc="halt", halt=halt))
    return without_driver(state, driver.number)


STEPS["plan"] = _next_batch
STEPS["commit"] = _commit
