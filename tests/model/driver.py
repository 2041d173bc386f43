"""One driver process, one port call a step: what ``chsink.driver.driver`` does, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.ledger import LOCAL, STEPS, Moves, fenced, now, writing
from tests.model.protocol import NOT_ASKED, UNKNOWN_ID, topic_id
from tests.model.services import look
from tests.model.space import Driver, State, Task, with_driver, without_driver
from tests.sim.hub import Violation

if TYPE_CHECKING:
    from tests.model.model import Model


def moves(model: Model, state: State, driver: Driver) -> Moves:
    """All that the driver's next step may lead to.  Nothing while it waits for its job."""
    if driver.pc == "job runs":
        if not any(t.driver == driver.number and t.job == driver.used for t in state.tasks):
            raise Violation("progress", "a driver waits for a job of which no task runs")
        return
    yield from STEPS[driver.pc](model, state, driver)


# --- settling and landing --------------------------------------------------------------------------------------------


def _settle_then(model: Model, state: State, d: Driver, resume: str) -> State:
    """Settle what is in doubt and not at hand; ``resume`` comes after it."""
    record = model.protocol.record(d.cache[1])
    if record.in_doubt and not d.reinsert and not model.skips("settle first"):
        return now(state, d, pc="settle: ids", resume=resume)
    return LOCAL[resume](model, state, d)


def _ids(model: Model, state: State, d: Driver) -> Moves:
    kafka = state.kafka
    d = d._replace(facts=(kafka.serial if kafka.known else UNKNOWN_ID, 0, 0), pc=d.pc.replace("ids", "bounds"))
    if "facts" in model.world.split:
        yield "topic id asked", with_driver(state, d)
    else:
        yield from STEPS[d.pc](model, state, d)


def _settle_bounds(model: Model, state: State, d: Driver) -> Moves:
    facts = (d.facts[0], state.kafka.start, state.kafka.end)
    because, why = model.protocol.settle(d.cache[1], facts, d.pipeline)
    model.counts[f"cell {because}"] += 1
    if why:
        yield "settling decided", now(state, d, pc="halt", halt=why)
    else:
        yield "settling decided", now(state, d, pc="take up", exact=True)


def _take_up(model: Model, state: State, d: Driver) -> Moves:
    """Must the range be probed?  Then it is announced again, with new marks."""
    record = model.protocol.record(d.cache[1])
    forgotten = model.protocol.forgotten(d.cache[1], look(state, int(record.sent.layout)))
    probe = record.doubt.probe or forgotten or model.late(record.seen.before_at, state.now)
    if not probe or model.skips("tokens are doubted"):
        yield "taken up", _run(model, state, d)
    elif not model.can_probe:
        yield "cannot probe", now(state, d, pc="halt", halt="CHS-317")
    elif record.start < record.life.older_end and not model.skips("lives are told apart"):
        yield "cannot tell lives apart", now(state, d, pc="halt", halt="CHS-318")
    else:
        yield "must probe", now(state, d, pc="mark")


def _mark(model: Model, state: State, d: Driver) -> Moves:
    """What the target holds now: what was sent before is found, what is sent from here on is remembered."""
    record = model.protocol.record(d.cache[1])
    marks = look(state, int(record.sent.layout))
    yield "announced again", writing(state, d, model.protocol.renew(d.cache[1], state.now, marks, d.epoch), "run")


def _run(model: Model, state: State, d: Driver) -> State:
    """Start the job: one task attempt."""
    number = d.cache[1]
    record = model.protocol.record(number)
    shards = d.layout if model.skips("recorded layout") else int(record.sent.layout)
    exact = reads_exactly(d)
    planned = d.planned if d.planned is not None and not exact else (record.start, record.end)
    deadline = model.deadline(record.seen.before_at)
    job = d.used + 1
    task = Task(d.number, job, number, exact, planned, deadline, shards)
    state = state._replace(tasks=tuple(sorted((*state.tasks, task))))
    if model.skips("AFTER comes last"):
        return writing(state, d._replace(used=job), model.protocol.after(number, d.epoch), "landed")
    return now(state, d, pc="job runs", used=job)


def _confirm(model: Model, state: State, d: Driver) -> Moves:
    """Tasks answered for all of it: is it still the recorded topic that they read?"""
    record = model.protocol.record(d.cache[1])
    topic = topic_id(state.kafka.serial) if state.kafka.known else None
    if topic != record.life.topic_id and not model.skips("id asked again"):
        why = "CHS-304" if None in (topic, record.life.topic_id) else "CHS-308"
        yield "topic changed", now(state, d, pc="halt", halt=why)
    else:
        yield "still the same topic", writing(state, d, model.protocol.after(d.cache[1], d.epoch), "landed")


def _still_held(model: Model, state: State, d: Driver) -> Moves:
    """Before the topic's id is asked: so this is said of the log that was read."""
    record, kafka = model.protocol.record(d.cache[1]), state.kafka
    if (kafka.start > record.start or kafka.end < record.end) and not model.skips("log start asked again"):
        yield "retention meanwhile", now(state, d, pc="halt", halt="CHS-308")
    elif "facts" in model.world.split:
        yield "still held", now(state, d, pc="confirm")
    else:
        yield from _confirm(model, state, d)


def _landed(model: Model, state: State, d: Driver) -> State:
    if d.exact:
        return LOCAL[d.resume](model, state, d._replace(exact=False, resume=""))
    if d.reinsert:
        return _go_on(model, state, d._replace(reinsert=False))
    assert d.write is not None and d.rest is not None
    rest = (d.write[1], d.rest[1])
    if rest[0] < rest[1]:
        model.counts["another round"] += 1
        return now(state, d, pc="decide: ids", gap=None, write=None, rest=rest, whole=False)
    return now(state, d, pc="commit", gap=None, write=None)


def reads_exactly(d: Driver) -> bool:
    """Settling, and a batch that does not land whole, read Kafka, not the batch at hand."""
    return d.exact or (d.planned is not None and not d.whole)


# --- one batch -------------------------------------------------------------------------------------------------------


def _decide_bounds(model: Model, state: State, d: Driver) -> Moves:
    assert d.planned is not None and d.rest is not None
    record, history = model.protocol.record(d.cache[1]), d.planned[0] > d.initial
    # Kafka's bounds are asked only where the plan does not simply go on
    odd = d.rest[0] != record.end or record.life.topic_id is None
    start = state.kafka.start if odd or record.in_doubt else NOT_ASKED
    facts = (d.facts[0], start, state.kafka.end if odd else NOT_ASKED)
    verdict = model.protocol.decide(d.cache[1], d.rest, facts, d.pipeline, history=history)
    most = model.world.round_offsets or d.rest[1]
    write = verdict.write and (verdict.write[0], min(verdict.write[1], verdict.write[0] + most))
    readable = start == NOT_ASKED or start <= d.rest[0]
    whole = d.rest == d.planned and d.rest[1] - d.rest[0] <= most and readable
    model.counts[f"cell {verdict.because}"] += 1
    model.counts["cell cropped"] += verdict.cropped
    d = d._replace(
        reinsert=verdict.reinsert, gap=verdict.gap, write=write, fresh=verdict.fresh, halt=verdict.halt, whole=whole
    )
    yield "decided", _settle_then(model, state, d, "go on")


def _go_on(model: Model, state: State, d: Driver) -> State:
    """What the batch still needs, in the driver's order."""
    if d.halt:
        return now(state, d, pc="halt")
    if d.reinsert:
        return now(state, d, pc="take up")
    return now(state, d, pc="readable" if d.write else "commit")


def _readable(model: Model, state: State, d: Driver) -> Moves:
    """Announced, a range that Kafka does not hold would be in doubt and could not be read again."""
    assert d.write is not None
    if state.kafka.end < d.write[1]:
        yield "planned beyond the log", now(state, d, pc="halt", halt="CHS-301")
    elif state.kafka.start > d.write[0]:
        yield "plan not held", now(state, d, pc="halt", halt="CHS-307")
    else:
        yield "readable", now(state, d, pc="announce")


def _announce(model: Model, state: State, d: Driver) -> Moves:
    assert d.write is not None
    marks = look(state, d.layout)
    record = model.protocol.before(
        d.cache[1], d.write, d.facts[0], d.layout, d.pipeline, state.now, marks, d.epoch,
        fresh=d.fresh, gap=d.gap, writer=d.number,
    )  # fmt: skip
    if model.skips("BEFORE"):
        yield "announced to nobody", _run(model, state, d._replace(cache=(d.cache[0], record)))
    else:
        yield "announced", writing(state, d, record, "run")


def _halt(model: Model, state: State, d: Driver) -> Moves:
    """A driver that was fenced without noticing would halt for reasons that are none."""
    if state.store.owner[1] != d.epoch:
        yield fenced(model, state, d)
    else:
        model.halted(state, d.halt, in_doubt=model.protocol.record(d.cache[1]).in_doubt)
        yield f"halt {d.halt}", without_driver(state, d.number)


def _owned(model: Model, state: State, d: Driver) -> State:
    return _settle_then(model, state, d, "plan")


def _plan(model: Model, state: State, d: Driver) -> State:
    return now(
        state,
        d,
        pc="plan",
        planned=None,
        rest=None,
        whole=True,
        reinsert=False,
        gap=None,
        write=None,
        fresh=False,
        halt="",
        facts=(0, 0, 0),
    )


LOCAL.update({"run": _run, "landed": _landed, "go on": _go_on, "owned": _owned, "plan": _plan})
STEPS.update(
    {
        "settle: ids": _ids,
        "settle: bounds": _settle_bounds,
        "take up": _take_up,
        "mark": _mark,
        "confirm": _confirm,
        "still held": _still_held,
        "decide: ids": _ids,
        "decide: bounds": _decide_bounds,
        "readable": _readable,
        "announce": _announce,
        "halt": _halt,
    }
)
