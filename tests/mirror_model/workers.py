"""Attempts of tasks: open the producer (it fences older attempts), read the group, hand over in one transaction."""

from __future__ import annotations

from collections.abc import Iterator

from chsink.statemachine.ranges import OffsetRange
from tests.mirror_model.rules import Model
from tests.mirror_model.space import Control, Msg, State, Worker
from tests.sim.hub import Violation

Step = tuple[str, State]
GROUP_FAULTS = ("group lost", "group set back", "topic recreated")


def steps(model: Model, state: State) -> Iterator[Step]:
    """What the attempts may do next, and new attempts."""
    for worker in dict.fromkeys(state.workers):
        yield from _of(model, state, worker)
    for tp, at in enumerate(state.group):
        mine = [w for w in state.workers if w.tp == tp]
        if at is not None and at < model.world.end and len(mine) < 1:
            yield from _planned(model, state, tp, at)
        if at is not None and len(mine) == 1 and model.left(state, "second attempt"):
            yield from _planned(model, model.spend(state, "second attempt"), tp, mine[0].start)


def _planned(model: Model, state: State, tp: int, at: int) -> Iterator[Step]:
    """Plans that begin at the group's offset; by a fault, below or beyond it."""
    end = model.world.end
    starts = [(at, state)]
    if at > 0 and model.left(state, "plan from earlier"):
        starts.append((0, model.spend(state, "plan from earlier")))
    if at + 1 < end and model.left(state, "plan from later"):
        starts.append((at + 1, model.spend(state, "plan from later")))
    for start, after in starts:
        for until in range(start + 1, end + 1):
            worker = Worker(tp, start, until)
            yield f"worker of {tp}: planned [{start}, {until})", after._replace(workers=(*after.workers, worker))


def _replaced(state: State, worker: Worker, *new: Worker) -> State:
    workers = list(state.workers)
    workers.remove(worker)
    return state._replace(workers=tuple(sorted([*workers, *new])))


def fence(state: State, tp: int) -> State:
    """Every producer of the topic-partition's id is refused from now on."""
    return state._replace(
        workers=tuple(w._replace(current=False) if w.tp == tp else w for w in state.workers),
        coordinators=tuple(
            c._replace(fence=False) if c.stage == "set" and c.tp == tp else c for c in state.coordinators
        ),
    )


def _of(model: Model, state: State, worker: Worker) -> Iterator[Step]:
    name = f"worker of {worker.tp}"
    late = "read after fencing" in model.rules.skip
    if worker.stage == "new" and late:
        yield f"{name}: read the group", _replaced(state, worker, _read(model, state, worker)._replace(stage="read"))
    elif (worker.stage, late) in {("new", False), ("read", True)}:
        opened = worker._replace(stage="ready" if late else "opened", current=True)
        gone = state._replace(workers=tuple(w for w in state.workers if w != worker))
        after = fence(gone, worker.tp)
        yield f"{name}: opened", after._replace(workers=tuple(sorted((*after.workers, opened))))
    elif worker.stage == "opened":
        read = _read(model, state, worker)
        yield f"{name}: read the group", _replaced(state, worker, *([read] if read.ranges else []))
    elif worker.ranges:
        yield from _send(model, state, worker)
    else:
        yield f"{name}: nothing to do", _replaced(state, worker)


def _read(model: Model, state: State, worker: Worker) -> Worker:
    committed = state.group[worker.tp]
    decided = model.rules.hand_over(OffsetRange(worker.start, worker.end), committed)
    model.counts[f"hand over {decided.because}"] += 1
    ranges = tuple((r.start, r.end) for r in decided.ranges)
    return worker._replace(stage="ready", ranges=ranges)


def _send(model: Model, state: State, worker: Worker) -> Iterator[Step]:
    """The transaction: all events and the group's offset, or nothing."""
    name = f"worker of {worker.tp}"
    if not worker.current and "fencing" not in model.rules.skip:
        model.counts["fenced"] += 1
        yield f"{name}: fenced", _replaced(state, worker)
        return
    (start, end), rest = worker.ranges[0], worker.ranges[1:]
    at = state.group[worker.tp]
    if at != start and not model.happened(state, *GROUP_FAULTS):
        raise Violation("group_follows", f"[{start}, {end}) is handed over, and the group is at {at}")
    following = (worker._replace(ranges=rest),) if rest else ()
    moved = state._replace(group=(*state.group[: worker.tp], end, *state.group[worker.tp + 1 :]))
    if "one transaction" in model.rules.skip:  # the offset alone, and the process dies
        yield f"{name}: stored the offset, then died", _replaced(moved, worker)
    control = handed(model, state, worker.tp, (start, end), range(model.world.tables))
    yield f"{name}: handed over [{start}, {end})", _replaced(moved._replace(control=control), worker, *following)


def handed(model: Model, state: State, tp: int, at: tuple[int, int], tables: range | tuple[int, ...]) -> Control:
    """The control topic with one more unit for each of the tables."""
    control, log = state.control, list(state.control.log)
    for table in tables:
        unit = (control.life, len(log), tp)
        parts = model.world.parts
        log.extend(Msg(table, tp, *at, unit, number, parts, state.topic_life) for number in range(parts))
    return control._replace(log=tuple(log))
