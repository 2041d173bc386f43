"""The target's deduplication and the state store, each with the invariants that are checked when it changes.

Invariants, by name (those of the simulator, where both can see them):

==================  ==================================================================================
at_most_once        no (topic id, partition, offset) is in the target twice
announced_first     a row lands only after a BEFORE that covers its offset was stored
right_shard         a row lands on the shard that its announcement's layout gives it
token_is_content    an insert dropped as a duplicate holds no row that the first one did not, unless Kafka dropped it
after_means_landed  when AFTER is stored, all that the range held is in the target, read from the recorded topic
state_forward       epochs, incarnations and ranges of a stored row never move backwards
one_slot            BEFORE is never stored over a range in doubt
halt_justified      a driver halts only where the world gave it a reason
complete_at_rest    a driver that found nothing more to do has landed everything
progress            no schedule goes on for ever, and none waits for ever
no_defect           production code raises nothing that it does not declare
==================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chsink.statemachine.records import Phase, StateRecord
from tests.model.protocol import serial_of
from tests.model.space import (
    NO_ROW,
    Announced,
    Copy,
    Range,
    State,
    Store,
    Target,
    Token,
    Write,
    mask,
    offsets,
    swapped,
)
from tests.sim.hub import Violation
from tests.sim.oracle import check_forward

if TYPE_CHECKING:
    from tests.model.model import Model

INVARIANTS = (
    "at_most_once", "announced_first", "right_shard", "token_is_content", "after_means_landed", "state_forward",
    "one_slot", "halt_justified", "complete_at_rest", "progress", "no_defect",
)  # fmt: skip

# --- the target ------------------------------------------------------------------------------------------------------


def look(state: State, shards: int) -> tuple[Range, ...]:
    """Per shard: how many blocks came, and when the server was started."""
    target = state.target
    return tuple((blocks, target.started) for blocks in target.blocks[:shards])


def shard_mask(shard: int, shards: int, end: int) -> int:
    """The offsets of one shard: offset modulo shards."""
    return sum(1 << o for o in range(shard, end, shards))


def remembered(model: Model, now: int, target: Target) -> Target:
    """The target without the tokens that it has forgotten, by count or by time."""
    world, blocks = model.world, target.blocks
    kept = tuple(
        t
        for t in target.tokens
        if blocks[t.shard] - t.block < world.window_blocks and (world.window is None or now - t.at <= world.window)
    )
    return target if kept == target.tokens else target._replace(tokens=kept)


def arrive(model: Model, state: State, sent: Copy, *, remember: bool = True) -> State:
    """One block arrives: stored, or dropped because its token is known."""
    target = state.target
    for known in () if model.skips("tokens") else target.tokens:
        if known.token == sent.token and known.shard == sent.shard:
            model.counts["insert deduplicated"] += 1
            return state._replace(target=_dropped(model, state, known, sent))
    model.counts["insert applied"] += 1
    landed = target.landed[sent.serial]
    if landed & sent.rows:
        raise Violation("at_most_once", f"offsets {offsets(landed & sent.rows)} of id{sent.serial} are there twice")
    _check_announced(state, sent)
    blocks = tuple(n + (shard == sent.shard) for shard, n in enumerate(target.blocks))
    all_landed = tuple(rows | (sent.rows if n == sent.serial else 0) for n, rows in enumerate(target.landed))
    tokens = target.tokens
    if remember:
        token = Token(sent.token, sent.shard, blocks[sent.shard], state.now, sent.serial, sent.rows)
        tokens = swapped(tokens, None, token)
    target = target._replace(landed=all_landed, blocks=blocks, tokens=tokens)
    target = _misnamed(model, remembered(model, state.now, target), sent)
    return state._replace(target=target)


def _dropped(model: Model, state: State, known: Token, sent: Copy) -> Target:
    same = known.rows if known.serial == sent.serial else 0
    kafka = state.kafka
    held = kafka.archive[kafka.serial] & ~mask(0, kafka.start) if sent.serial == kafka.serial else 0
    lost = sent.rows & ~same & held
    if lost and not _is_misnamed(model, sent):
        raise Violation("token_is_content", f"offsets {offsets(lost)} were dropped: their token had named other rows")
    return _misnamed(model, state.target, sent)


def _check_announced(state: State, sent: Copy) -> None:
    for offset in offsets(sent.rows):
        said = [a for a in state.store.announced if a.start <= offset < a.end]
        if not said:
            raise Violation("announced_first", f"offset {offset} landed, and no stored BEFORE covers it")
        if all(offset % a.shards != sent.shard for a in said):
            raise Violation("right_shard", f"offset {offset} is on shard {sent.shard}, announced for {said[-1].shards}")


def _is_misnamed(model: Model, sent: Copy) -> bool:
    """Whether the rows were read from another life of the topic than the recorded one."""
    topic = model.protocol.record(sent.record).life.topic_id
    return topic is not None and serial_of(topic) != sent.serial


def _misnamed(model: Model, target: Target, sent: Copy) -> Target:
    """Keep in mind that AFTER may not follow such rows."""
    if not _is_misnamed(model, sent):
        return target
    record = model.protocol.record(sent.record)
    name = (serial_of(record.life.topic_id), record.start, record.end)
    return target if name in target.misnamed else target._replace(misnamed=swapped(target.misnamed, None, name))


# --- the state store -------------------------------------------------------------------------------------------------


def attempted(model: Model, state: State, write: Write) -> Iterator[tuple[str, State, bool]]:
    """Every way a compare-and-set may end: what happened, the state, and whether the caller was told *applied*."""
    stored = apply(model, state, write)
    if stored is None:
        yield "write refused", state, False
    else:
        yield "write applied", stored, True
    spent = model.spend(state, "store: request lost")
    if spent is not None:
        yield "store: request lost", spent, False
    if stored is None:
        return
    spent = model.spend(stored, "store: answer lost")
    if spent is not None:
        yield "store: answer lost", spent, False
    spent = model.spend(state, "store: arrives late")
    if spent is not None:
        yield "store: arrives late", _later(spent, write), False
    spent = model.spend(stored, "store: arrives twice")
    if spent is not None:
        yield "store: arrives twice", _later(spent, write), True


def arrivals(model: Model, state: State) -> Iterator[tuple[str, State]]:
    """A late copy of a write arrives."""
    for write in dict.fromkeys(state.store.late):
        left = state.store._replace(late=swapped(state.store.late, write))
        rest = state._replace(store=left)
        stored = apply(model, rest, write)
        yield ("late write refused", rest) if stored is None else ("late write applied", stored)


def apply(model: Model, state: State, write: Write) -> State | None:
    """Compare and set; None when another attempt is stored."""
    store = state.store
    stored = store.owner if write.owner else store.row
    if stored[0] != write.expected and not (model.skips("fencing") and stored != NO_ROW):
        return None
    if "store: read lags" in model.index:
        store = store._replace(past=(store.owner, store.row))
        state = state._replace(store=store)
    if write.owner:
        if write.row[1] < store.epochs:
            raise Violation("state_forward", f"the epoch went from {store.epochs} back to {write.row[1]}")
        return state._replace(store=store._replace(owner=write.row, epochs=write.row[1]))
    return state._replace(store=_row_stored(model, state, write.row))


def _later(state: State, write: Write) -> State:
    return state._replace(store=state.store._replace(late=swapped(state.store.late, None, write)))


def _row_stored(model: Model, state: State, row: Range) -> Store:
    store, new = state.store, model.protocol.record(row[1])
    old = None if store.row == NO_ROW else model.protocol.record(store.row[1])
    if old is not None:
        check_forward(old, new, "the row")
    if new.phase is Phase.BEFORE:
        said = Announced(serial_of(new.life.topic_id), new.start, new.end, int(new.sent.layout))
        if said not in store.announced:
            store = store._replace(announced=swapped(store.announced, None, said))
    elif new.phase is Phase.AFTER and old is not None and (old.in_doubt or old.range != new.range):
        _check_landed(state, new)
    return store._replace(row=row)


def _check_landed(state: State, record: StateRecord) -> None:
    serial = serial_of(record.life.topic_id)
    for said, start, end in state.target.misnamed:
        if said == serial and start < record.end and record.start < end:
            raise Violation("after_means_landed", f"AFTER {record.range} of id{serial}: another topic was read for it")
    life = state.kafka.serial if record.life.topic_id is None else serial
    missing = state.kafka.archive[life] & mask(record.start, record.end) & ~state.target.landed[life]
    if missing:
        raise Violation("after_means_landed", f"AFTER {record.range} is stored without offsets {offsets(missing)}")
