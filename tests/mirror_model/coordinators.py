"""Coordinators: begin, read events, load a table, commit it, forget what is done, have holes read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from chsink.statemachine.commit.chain import Chain, with_origin
from chsink.statemachine.commit.plan import Kind, TablePlan
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.commit.units import Unit
from tests.mirror_model.catalog import append, checked, move
from tests.mirror_model.rules import Model
from tests.mirror_model.space import (
    Coordinator,
    Msg,
    State,
    Stored,
    Table,
    part_of,
    stored_of,
    topic_partition,
    view_of,
)
from tests.mirror_model.workers import Step, fence, handed
from tests.sim.hub import Violation

REASONS: dict[str, tuple[str, ...]] = {
    CommitHalt.ROLLED_BACK: ("rolled back",),
    CommitHalt.TOPIC_RECREATED: ("topic recreated",),
    CommitHalt.CHAIN_DAMAGED: ("property set back",),
    CommitHalt.CHAIN_MISSING: ("table emptied",),
}
"""What must have happened for a halt to be right."""
LOSSES = ("control topic lost", "group lost", "group set back", "topic recreated")
"""What can lose events or have them handed over twice."""


def steps(model: Model, state: State) -> Iterator[Step]:
    """What coordinators may do next, and a new one where none is left."""
    for number, mine in enumerate(state.coordinators):
        if mine.alive:
            for what, after in _of(model, state, number, mine):
                yield f"coordinator {number}: {what}", after
    if not any(c.alive or c.stage == "halted" for c in state.coordinators):
        yield started(state)


def started(state: State) -> Step:
    """A new coordinator: older ones can no longer write to the control topic or its group."""
    older = tuple(c._replace(newest=False) for c in state.coordinators)
    mine = Coordinator(views=(None,) * len(state.tables))
    return f"coordinator {len(older)}: started", state._replace(coordinators=(*older, mine))


def _put(state: State, number: int, mine: Coordinator) -> State:
    if mine.stage in ("halted", "gone"):
        mine = Coordinator(stage=mine.stage)
    coordinators = (*state.coordinators[:number], mine, *state.coordinators[number + 1 :])
    return state._replace(coordinators=coordinators)


def _halt(model: Model, state: State, number: int, why: CommitHalt) -> Step:
    model.counts[f"halt {why}"] += 1
    if not model.happened(state, *REASONS.get(why, ())):
        raise Violation("halt_justified", f"{why}, and the world gave no reason")
    return f"halted: {why}", _put(state, number, Coordinator(stage="halted"))


def _of(model: Model, state: State, number: int, mine: Coordinator) -> Iterator[Step]:
    if mine.stage == "begin":
        yield _begin(model, state, number, mine)
    elif mine.stage == "set":
        yield _set(model, state, number, mine)
    elif mine.life != state.control.life or None in state.group:
        yield "begins again", _put(state, number, Coordinator(views=(None,) * len(state.tables), newest=mine.newest))
    else:
        yield from _runs(model, state, number, mine)


def _runs(model: Model, state: State, number: int, mine: Coordinator) -> Iterator[Step]:
    """One thread: what was loaded is committed before anything else, and two questions are asked one after the other."""
    loaded = [table for table, view in enumerate(mine.views) if view is not None]
    if loaded:
        yield from _table(model, state, number, mine, loaded[0])
        return
    asking = (mine.asked is None) != (mine.end is None)
    if not asking:
        if mine.pos < len(state.control.log):
            event = (mine.pos, state.control.log[mine.pos])
            read = mine._replace(pos=mine.pos + 1, buffer=(*mine.buffer, event))
            yield "read an event", _put(state, number, read)
        for table in range(len(state.tables)):
            yield from _table(model, state, number, mine, table)
        yield from _forget(model, state, number, mine)
    yield from _ask(model, state, number, mine)


# --- before workers start --------------------------------------------------------------------------------------------


def _begin(model: Model, state: State, number: int, mine: Coordinator) -> Step:
    """Fence the workers, read group and tables, decide where the topic-partition starts."""
    if mine.tp == model.world.tps:
        return _where_to_read(model, state, number, mine)
    links = []
    for table in state.tables:
        reading = model.rules.read_chain(view_of(table))
        model.counts[f"chain {reading.because}"] += 1
        if reading.halt:
            return _halt(model, state, number, reading.halt)
        links.append(reading.chain.links.get(topic_partition(mine.tp)) if reading.chain else None)
    decided = model.rules.begin(f"id{state.topic_life}", state.group[mine.tp], links, 0)
    model.counts[f"start {decided.because}"] += 1
    if decided.halt:
        return _halt(model, state, number, decided.halt)
    after = fence(state, mine.tp)
    if decided.origin is None and decided.group is None:
        return f"{decided.because}: topic-partition {mine.tp}", _put(after, number, mine._replace(tp=mine.tp + 1))
    into = mine._replace(stage="set", fence=True, origin=decided.origin, target=decided.group)
    return f"{decided.because}: {decided.group} for topic-partition {mine.tp}", _put(after, number, into)


def _set(model: Model, state: State, number: int, mine: Coordinator) -> Step:
    """The origin into each table that lacks it, then the group's offset."""
    tp = topic_partition(mine.tp)
    for at, table in enumerate(state.tables):
        reading = model.rules.read_chain(view_of(table))
        if mine.origin is not None and (reading.chain is None or tp not in reading.chain.links):
            chain = with_origin(reading.chain or Chain(), tp, f"id{state.topic_life}", mine.origin)
            after = table._replace(prop=stored_of(chain, model.world.tps))
            return f"stored origin {mine.origin} in table {at}", checked(model, state, at, after)
    if not mine.fence:
        return "fenced: begins again", _put(state, number, mine._replace(stage="begin", origin=None, target=None))
    group = (*state.group[: mine.tp], mine.target, *state.group[mine.tp + 1 :])
    following = mine._replace(stage="begin", tp=mine.tp + 1, fence=False, origin=None, target=None)
    return f"set the group to {mine.target}", _put(state._replace(group=group), number, following)


def _where_to_read(model: Model, state: State, number: int, mine: Coordinator) -> Step:
    """From the coordinators' group, else from the least offset that tables stored for this control topic, else all."""
    stored = [t.prop.control if t.prop and t.prop.control_life == state.control.life else 0 for t in state.tables]
    pos = min(stored) if state.control.group is None else state.control.group
    if state.control.group is None and "never latest" in model.rules.skip:
        pos = len(state.control.log)
    _watch(model, state, pos)
    run = mine._replace(stage="run", tp=0, life=state.control.life, pos=pos)
    return f"reads on from {pos}", _put(state, number, run)


# --- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What a coordinator would do with a table as it was read."""

    halt: CommitHalt | None
    plan: TablePlan
    before: Stored | None


def _units(model: Model, mine: Coordinator, table: int) -> tuple[Unit, ...]:
    return model.rules.assemble(part_of(at, m, model.world.records) for at, m in mine.buffer if m.table == table)


def _known(model: Model, mine: Coordinator, table: int, read: Table) -> Known:
    """Remembered: the same table and events are met in many states."""
    events = tuple(event for event in mine.buffer if event[1].table == table)
    key = (read, events, mine.pos, mine.life)
    known: Known | None = model.remembered.get(key)
    if known is None:
        known = model.remembered[key] = _decided(model, mine, table, read)
    return known


def _decided(model: Model, mine: Coordinator, table: int, read: Table) -> Known:
    view = view_of(read)
    reading = model.rules.read_chain(view)
    if reading.halt or reading.chain is None:
        model.counts[f"chain {reading.because}"] += 1
        return Known(reading.halt or CommitHalt.CHAIN_MISSING, TablePlan(), None)
    plan = model.rules.plan_commit(view, reading.chain, _units(model, mine, table))
    model.counts.update(_met(reading.because, plan))
    control = model.rules.low_watermark({0: mine.pos}, plan.waiting, {})
    chain = replace(reading.chain, links=plan.links, control_id=f"c{mine.life}", control=control)
    return Known(plan.halt, plan, stored_of(chain, model.world.tps))


def _met(because: str, plan: TablePlan) -> list[str]:
    """The rules that were asked."""
    waiting = ["unit AHEAD" if unit.whole else "unit PARTS_MISSING" for unit in plan.waiting]
    dropped = [f"unit {rule}" for rule, _ in plan.dropped]
    return [f"chain {because}", *waiting, *dropped, *(["unit NEXT"] if plan.taken else []), f"unit {plan.because}"]


def _table(model: Model, state: State, number: int, mine: Coordinator, table: int) -> Iterator[Step]:
    read = mine.views[table]
    if read is None:
        if _useful(model, state, mine, table):
            yield f"loaded table {table}", _put(state, number, _seen(mine, table, state.tables[table]))
        return
    known = _known(model, mine, table, read)
    if known.halt:
        yield _halt(model, state, number, known.halt)
    elif known.plan.kind is not Kind.NOTHING:
        yield from _commit(model, state, number, table, known)
    elif known.plan.dropped:
        kept = _without(mine, table, [unit for _, unit in known.plan.dropped])
        yield f"dropped units of table {table}", _put(state, number, _seen(kept, table, None))
    else:
        yield from _repair(model, state, number, table, known)


def _without(mine: Coordinator, table: int, units: Iterable[Unit]) -> Coordinator:
    """Without the events of these units."""
    gone = {unit.head.unit_id for unit in units}
    return mine._replace(buffer=tuple(e for e in mine.buffer if e[1].table != table or str(e[1].unit) not in gone))


def _seen(mine: Coordinator, table: int, read: Table | None) -> Coordinator:
    return mine._replace(views=(*mine.views[:table], read, *mine.views[table + 1 :]))


def _useful(model: Model, state: State, mine: Coordinator, table: int) -> bool:
    """Whether loading it would lead to anything: loads in vain are left out."""
    known = _known(model, mine, table, state.tables[table])
    if known.halt or known.plan.taken or known.plan.dropped:
        return True
    return bool(_holes(model, mine, known.plan))


def _commit(model: Model, state: State, number: int, table: int, known: Known) -> Iterator[Step]:
    mine, before = state.coordinators[number], known.before
    read = mine.views[table]
    assert read is not None and before is not None
    files = known.plan.files
    unread = _put(state, number, _seen(mine, table, None))
    if known.plan.kind is Kind.APPEND:
        after = append(model, state.tables[table], read, files, before)
        what = f"appended {len(files)} files to table {table}"
    elif "empty units move" in model.rules.skip:
        yield "left empty units", _put(state, number, _seen(_without(mine, table, known.plan.taken), table, None))
        return
    else:
        after = move(model, state.tables[table], read, before)
        what = f"moved table {table}"
    if after is None:
        model.counts["refused"] += 1
        yield f"table {table}: refused", unread
        return
    model.counts[f"commit {known.plan.kind}"] += 1
    yield what, checked(model, unread, table, after)
    if model.left(state, "catalog: answer lost"):
        lost = model.spend(unread, "catalog: answer lost")
        yield f"{what}, and the answer was lost", checked(model, lost, table, after)
    if model.left(state, "catalog: request lost"):
        lost = model.spend(state, "catalog: request lost")
        if "unknown is not applied" in model.rules.skip:
            kept = _without(mine, table, known.plan.taken)
            yield f"{what}: taken for applied", _put(lost, number, _seen(kept, table, None))
        else:
            yield f"{what}: request lost", _put(lost, number, _seen(mine, table, None))


# --- holes, and what may be forgotten --------------------------------------------------------------------------------


def _ask(model: Model, state: State, number: int, mine: Coordinator) -> Iterator[Step]:
    """The group first, then the control topic's end."""
    wrong = "group before end" in model.rules.skip
    if mine.asked is None and mine.end is None and _might_have_holes(model, state, mine):
        if wrong:
            yield "asked for the control topic's end", _put(state, number, mine._replace(end=len(state.control.log)))
        else:
            yield "asked for the group", _put(state, number, mine._replace(asked=state.group))
    elif mine.asked is not None and mine.end is None:
        yield "asked for the control topic's end", _put(state, number, mine._replace(end=len(state.control.log)))
    elif mine.asked is None and mine.end is not None:
        yield "asked for the group", _put(state, number, mine._replace(asked=state.group))
    elif mine.asked is not None and mine.end is not None and mine.pos >= mine.end and not _any_hole(model, state, mine):
        yield "found no hole", _put(state, number, mine._replace(asked=None, end=None))


def _might_have_holes(model: Model, state: State, mine: Coordinator) -> bool:
    """Whether the group passed what a table can reach: asking in vain is left out."""
    asked = mine._replace(asked=state.group, end=mine.pos)
    return _any_hole(model, state, asked)


def _any_hole(model: Model, state: State, mine: Coordinator) -> bool:
    known = [_known(model, mine, n, table) for n, table in enumerate(state.tables)]
    return any(not k.halt and _holes(model, mine, k.plan) for k in known)


def _holes(model: Model, mine: Coordinator, plan: TablePlan) -> list[tuple[int, int, int]]:
    if mine.asked is None or mine.end is None or mine.pos < mine.end or "holes" in model.rules.skip:
        return []
    handed_over = {topic_partition(n): at for n, at in enumerate(mine.asked) if at is not None}
    found = model.rules.holes(plan.links, plan.waiting, handed_over)
    return [(tp.partition, r.start, r.end) for tp, r in found.items()]


def _repair(model: Model, state: State, number: int, table: int, known: Known) -> Iterator[Step]:
    """A hole of a table is read again and handed over for it; its group does not move."""
    mine = state.coordinators[number]
    for tp, start, end in _holes(model, mine, known.plan):
        if not model.happened(state, *LOSSES):
            raise Violation("repair_justified", f"[{start}, {end}) of table {table}, and nothing was lost")
        model.counts["hole read again"] += 1
        control = handed(model, state, tp, (start, end), (table,))
        following = _seen(mine, table, None)._replace(asked=None, end=None)
        yield (
            f"had [{start}, {end}) read again for table {table}",
            _put(state._replace(control=control), number, following),
        )
        return
    if mine.views[table] is not None:
        yield f"table {table}: nothing to do", _put(state, number, _seen(mine, table, None))


def _forget(model: Model, state: State, number: int, mine: Coordinator) -> Iterator[Step]:
    """The first event that is still needed goes to the coordinators' group.  Older coordinators are fenced."""
    if not mine.newest:
        return
    waiting = [unit for table in range(len(state.tables)) for unit in _units(model, mine, table)]
    stored = {} if state.control.group is None else {0: state.control.group}
    mark = model.rules.low_watermark({0: mine.pos}, waiting, stored)[0]
    if mark != (state.control.group or 0):
        _watch(model, state, mark)
        model.counts["forgotten"] += 1
        yield f"stored {mark} as the next event", state._replace(control=state.control._replace(group=mark))


def _watch(model: Model, state: State, mark: int) -> None:
    """Nothing below the mark is needed."""
    for msg in state.control.log[:mark]:
        if _needed(model, state, msg):
            raise Violation("nothing_forgotten", f"events below {mark} are passed over, {msg} is needed")


def _needed(model: Model, state: State, msg: Msg) -> bool:
    reading = model.rules.read_chain(view_of(state.tables[msg.table]))
    link = reading.chain.links.get(topic_partition(msg.tp)) if reading.chain else None
    return link is not None and link.topic_id == f"id{msg.topic_life}" and msg.start >= link.until
