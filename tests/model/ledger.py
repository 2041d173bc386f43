"""The driver's hold on the state, as ``chsink.driver.ledger`` has it: claim, write, read back.

``STEPS`` maps the name of a driver's next step to all that it may lead to, ``LOCAL`` what needs no port call and so is done
in the step before.  :mod:`tests.model.driver` and :mod:`tests.model.spark` add theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.model.services import attempted
from tests.model.space import NO_ROW, Driver, Row, State, Write, with_driver, without_driver
from tests.sim.hub import Violation

if TYPE_CHECKING:
    from tests.model.model import Model

Moves = Iterator[tuple[str, State]]
Step = Callable[["Model", State, Driver], Moves]
Local = Callable[["Model", State, Driver], State]
LOCAL: dict[str, Local] = {}


def now(state: State, d: Driver, **changes: Any) -> State:
    """The driver goes on like this."""
    return with_driver(state, d._replace(**changes))


def new_attempt(d: Driver) -> Driver:
    """Attempts are unique: the process and how many it made."""
    return d._replace(used=d.used + 1, attempt=d.number * 100 + d.used + 1)


def writing(state: State, d: Driver, record: int, then: str) -> State:
    """The record is to be stored; ``then`` follows."""
    return now(state, new_attempt(d), pc="write", want=record, then=then)


def fenced(model: Model, state: State, d: Driver) -> tuple[str, State]:
    """The driver stops: another one owns the sink."""
    model.counts["fenced"] += 1
    if not model.happened(state, "second driver", "store: state lost"):
        raise Violation("halt_justified", "fenced, and there was no other driver")
    return "fenced", without_driver(state, d.number)


def _claim_read(model: Model, state: State, d: Driver) -> Moves:
    yield from _claim_seen(model, state, d, state.store.owner)
    for spent, (owner, _) in _lagging(model, state):
        yield from _claim_seen(model, spent, d, owner)


def _claim_seen(model: Model, state: State, d: Driver, owner: Row) -> Moves:
    attempt, epoch = owner
    if attempt and attempt == d.attempt:
        yield "claimed after all", now(state, d, pc="rows", epoch=epoch)
        return
    if attempt != d.replaced and not (model.skips("new attempt for another row") and d.attempt):
        d = new_attempt(d)
    yield "owner read", now(state, d, pc="claim: write", replaced=attempt, want=epoch + 1)


def _claim_write(model: Model, state: State, d: Driver) -> Moves:
    write = Write(True, d.replaced, (d.attempt, d.want))
    for what, after, applied in attempted(model, state, write):
        yield what, now(after, d, pc="rows", epoch=d.want) if applied else now(after, d, pc="claim: read")


def _load(model: Model, state: State, d: Driver, then: Callable[[State, Driver, Row, Row], Moves]) -> Moves:
    """Both rows of the sink, one by one in either order: a load is not a snapshot.  Or as they were before."""
    for spent, past in _lagging(model, state):
        yield from then(spent, d._replace(half=None), *past)
    if "load" not in model.world.split:
        yield from then(state, d, state.store.owner, state.store.row)
    elif d.half is None:
        yield "owner read first", now(state, d, half=(0, state.store.owner))
        yield "row read first", now(state, d, half=(1, state.store.row))
    else:
        which, first = d.half
        owner, row = (state.store.owner, first) if which else (first, state.store.row)
        yield from then(state, d._replace(half=None), owner, row)


def _lagging(model: Model, state: State) -> Iterator[tuple[State, tuple[Row, Row]]]:
    """What a replica that lags answers."""
    spent = None if state.store.past is None else model.spend(state, "store: read lags")
    if spent is not None and state.store.past is not None:
        yield spent, state.store.past


def _lags(model: Model, state: State, d: Driver, owner: Row, row: Row) -> bool:
    """Whether the driver asks again: what it read is older than its claim, or than its last write.

    Production code asks for a bounded time.  Within it the truth comes, so what is the truth is never asked for again.
    """
    if (owner, row) == (state.store.owner, state.store.row) or model.skips("an older read is asked again"):
        return False
    older = row != NO_ROW and model.protocol.record(row[1]).epoch <= d.epoch
    return owner[1] < d.epoch or (d.pc == "read back" and older and row[0] not in (d.attempt, d.cache[0]))


def _rows(model: Model, state: State, d: Driver) -> Moves:
    def then(state: State, d: Driver, owner: Row, row: Row) -> Moves:
        if _lags(model, state, d, owner, row):
            yield "older than our claim", with_driver(state, d)
            return
        newer = row != NO_ROW and model.protocol.record(row[1]).epoch > d.epoch
        if owner[1] != d.epoch or (newer and not model.skips("newer rows are foreign")):
            yield fenced(model, state, d)
        elif row == NO_ROW or model.protocol.record(row[1]).epoch < d.epoch:
            yield "rows loaded", now(state, new_attempt(d), pc="take over", cache=row)
        else:
            if model.world.claims_only:
                yield "sink owned", without_driver(state, d.number)
                return
            d = d._replace(cache=row)
            yield "sink owned", LOCAL["owned" if model.world.eager else "plan"](model, state, d)

    yield from _load(model, state, d, then)


def _take_over(model: Model, state: State, d: Driver) -> Moves:
    """Its outcome is not looked at: the rows are read again."""
    protocol = model.protocol
    new = protocol.empty(d.epoch) if d.cache == NO_ROW else protocol.adopt(d.cache[1], d.epoch)
    for what, after, _ in attempted(model, state, Write(False, d.cache[0], (d.attempt, new))):
        yield what, now(after, d, pc="rows", cache=NO_ROW)


def _write(model: Model, state: State, d: Driver) -> Moves:
    for what, after, applied in attempted(model, state, Write(False, d.cache[0], (d.attempt, d.want))):
        unknown_is_applied = model.skips("unknown is read back") and what != "write refused"
        yield what, _written(model, after, d) if applied or unknown_is_applied else now(after, d, pc="read back")


def _read_back(model: Model, state: State, d: Driver) -> Moves:
    def then(state: State, d: Driver, owner: Row, row: Row) -> Moves:
        if _lags(model, state, d, owner, row):
            yield "older than our claim", with_driver(state, d)
        elif owner[1] != d.epoch or row[0] not in (d.attempt, d.cache[0]):
            yield fenced(model, state, d)
        elif row[0] == d.attempt:
            yield "was applied", _written(model, state, d)
        else:
            yield "was not applied", now(state, d, pc="write")

    yield from _load(model, state, d, then)


def _written(model: Model, state: State, d: Driver) -> State:
    return LOCAL[d.then](model, state, d._replace(cache=(d.attempt, d.want), attempt=0, want=0))


STEPS: dict[str, Step] = {
    "claim: read": _claim_read,
    "claim: write": _claim_write,
    "rows": _rows,
    "take over": _take_over,
    "write": _write,
    "read back": _read_back,
}
