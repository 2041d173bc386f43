"""Every history of a changing ``table_by``: the tables of one topic-partition, crashes, and an operator.

A record is of kind x or y.  Before each start, the operator takes any map of the world: a choice for each table, ``ALL``
for a plain route.  A driver lands a batch of two offsets table by table, in rounds of one or two, and may die anywhere.
A range in doubt is settled under the choice it was announced with.  Rows and refusals are made by production code:
:mod:`chsink.statemachine.choices`, ``writes`` and ``forbidden_changes``.

Invariants, for each state of all:
- A record of each kind, at each offset, is in exactly the tables that one of the maps that ran gives it.  Besides, it may
  be in a table that took all records when it passed it.
- A refusal has a way out: with the map that ran last, the job goes on, and after its batch the other map is accepted.

Offsets are moved back by a batch where one is done, so that the histories are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from chsink.statemachine import writes
from chsink.statemachine.choices import joining, mixed_choices
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import TABLE_BY, forbidden_changes
from chsink.statemachine.tally import Tally

ALL = "all"
Map = tuple[tuple[str, str], ...]
"""For each table to which a route leads, in the order of the routes: the kinds of records that it takes."""


def map_of(**tables: str) -> Map:
    """A map by its tables."""
    return tuple(tables.items())


World = tuple[Map, ...]
"""The maps that its operator takes."""
TURNING = (map_of(a="x", b=ALL), map_of(a="y", b=ALL), map_of(a="y", b="x"))
"""A table that takes all records takes part, and does not any more."""
COMING = (map_of(a="xy"), map_of(a="x", b="y"), map_of(a="y", b="x"))
"""A table comes, goes and comes back."""
BACK = (map_of(c=ALL), map_of(c=ALL, a="x", b="y"), map_of(a="y", b="x", c=ALL))
"""Both of them, while another table gets all records."""
PLAN = OffsetRange(4, 6)
KEYS = {table: StateKey("s", "t", 0, table) for table in "abc"}
Records = tuple[tuple[str, StateRecord], ...]


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class State:
    """``passed``: which offsets of the batch went to which table by which choice.  ``running`` is the map of the
    driver that lives, ``last`` the one that ran last, ``ran`` are all that did while the batch landed.
    """

    records: Records = ()
    passed: frozenset[tuple[str, int, str]] = frozenset()
    ran: frozenset[Map] = frozenset()
    last: Map = ()
    running: Map = ()


Check = Callable[[Mapping[str, StateRecord], Mapping[str, str]], object]


@dataclass(frozen=True, slots=True)
class Rules:
    """Of the real protocol.  A wrong variant replaces one."""

    mixed: Check = mixed_choices
    leaves: bool = True
    joins: bool = True
    comes_back: bool = True


def pipelines(tables: Map) -> dict[str, str]:
    """What the map makes of each table's fingerprint."""
    return {table: "decoder=1" if choice == ALL else f"decoder=1,{TABLE_BY}={choice}" for table, choice in tables}


def claimed(state: State, tables: Map, rules: Rules) -> dict[str, StateRecord]:
    """The rows of a driver that starts with the map."""
    records = dict(state.records)
    rows = {KEYS[table]: record for table, record in records.items()}
    named = {("t", table) for table, choice in tables if choice != ALL}
    joins = joining(rows, [KEYS[t] for t, _ in tables], named) if rules.joins else {}
    for table, _ in tables:
        if KEYS[table] in joins:
            records[table] = _plain(writes.joined(joins[KEYS[table]], records.get(table), epoch=1, attempt="j"))
        elif table in records and rules.comes_back:
            records[table] = _adopted(records[table])
        records.setdefault(table, writes.empty(1, "x"))
    return records


def start(state: State, tables: Map, rules: Rules) -> tuple[State, bool]:
    """A new driver: claim, settle, check.  Whether it may land; if not, it has halted."""
    records, now, free = claimed(state, tables, rules), pipelines(tables), True
    passed = state.passed
    for table, record in records.items():
        if not record.in_doubt:
            continue
        if table not in now or forbidden_changes(record.sent.pipeline, now[table]):
            free = False  # CHS-313, CHS-309
        else:
            records[table] = _after(record)
            passed |= _went(table, record)
    free = free and rules.mixed(records, now) is None
    kept = replace(state, records=_sorted(records), passed=passed, running=())
    if not free:
        return kept, False
    return replace(kept, running=tables, last=tables, ran=state.ran | {tables}), True


def successors(state: State, world: World, rules: Rules) -> Iterator[State]:
    """All that may happen next."""
    for tables in world:
        after, free = start(state, tables, rules)
        yield after
        if not free and state.last:
            _check_way_out(after, tables, rules)
    if state.running:
        yield from _steps(state, rules)


def _steps(state: State, rules: Rules) -> Iterator[State]:
    """What the driver does next: announce a round, confirm it, or end the batch."""
    records, now = dict(state.records), pipelines(state.running)
    for table, _ in state.running:
        record = records[table]
        if record.in_doubt:
            done = _after(record)
            yield replace(state, records=_sorted(records | {table: done}), passed=state.passed | _went(table, record))
            return
        if record.end < PLAN.end:
            at = max(record.end, PLAN.start)
            for end in range(at + 1, PLAN.end + 1):
                said = writes.Announcement("id", Sending(9, "L", now[table]), Seen())
                follows = record.phase is not Phase.EMPTY and record.end == at
                begun = writes.before(record, OffsetRange(at, end), said, epoch=1, attempt="x", fresh=not follows)
                yield replace(state, records=_sorted(records | {table: _plain(begun)}))
            return
    _check_landed(state)
    for table, record in records.items() if rules.leaves else ():
        if table not in now and not record.table_by.left and not record.in_doubt:
            records[table] = _left(record)
    left = replace(state, records=_sorted(records))
    yield left
    moved = tuple((table, _moved_back(record)) for table, record in left.records)
    yield replace(left, records=moved, passed=frozenset(), ran=frozenset([state.running]))


def _check_landed(state: State) -> None:
    for offset in range(PLAN.start, PLAN.end):
        went = [(table, choice) for table, at, choice in state.passed if at == offset]
        if len({table for table, _ in went}) < len(went):
            raise Broken(f"offset {offset} went to a table twice: {state}")
        for kind in "xy":
            landed, chosen = _takers(went, kind), {table for table, choice in went if kind in choice and choice != ALL}
            wanted = [_takers(tables, kind) for tables in state.ran]
            if not any(one <= landed and chosen <= one for one in wanted):
                raise Broken(f"a record {kind} at offset {offset} is in {sorted(landed)}: {state}")


def _takers(tables: Iterable[tuple[str, str]], kind: str) -> set[str]:
    return {table for table, choice in tables if kind in choice or choice == ALL}


def _check_way_out(halted: State, tables: Map, rules: Rules) -> None:
    """Undo the change, let the batch land, make the change again."""
    state, free = start(halted, halted.last, rules)
    if not free:
        raise Broken(f"the map that ran last halts, too: {halted}")
    landed = False
    while not landed:
        landed = all(dict(state.records)[table].done >= PLAN.end for table, _ in state.running)
        *_, state = _steps(state, rules)
    if not start(state, tables, rules)[1]:
        raise Broken(f"the change is never accepted: {state}")


def _went(table: str, record: StateRecord) -> frozenset[tuple[str, int, str]]:
    choice = record.sent.pipeline.partition(f"{TABLE_BY}=")[2] or ALL
    return frozenset((table, offset, choice) for offset in range(record.start, record.end))


def _sorted(records: Mapping[str, StateRecord]) -> Records:
    return tuple(sorted(records.items()))


@cache
def _adopted(record: StateRecord) -> StateRecord:
    return writes.adopt(record, epoch=1, attempt="x", routed=True)


@cache
def _after(record: StateRecord) -> StateRecord:
    return _plain(writes.after(record, epoch=1, attempt="x"))


@cache
def _left(record: StateRecord) -> StateRecord:
    return writes.left(record, epoch=1, attempt="x")


def _plain(record: StateRecord) -> StateRecord:
    """Without what no rule here reads, so that histories meet again."""
    life = replace(record.life, incarnation=0, older_end=0, nonce="")
    return replace(record, gaps=(), attempt="x", life=life, seen=Seen(), tally=Tally())


@cache
def _moved_back(record: StateRecord) -> StateRecord:
    """How the record looks from the next batch.  How far behind it one is does not matter."""
    if record.phase is Phase.EMPTY:
        return record
    end = max(record.end - PLAN.length, PLAN.start - 1)
    life = replace(record.life, first=min(max(record.life.first - PLAN.length, 0), end - 1))
    table_by = replace(record.table_by, since=min(max(record.table_by.since - PLAN.length, 0), end))
    return _plain(replace(record, start=end - 1, end=end, life=life, table_by=table_by))


def explore(world: World, rules: Rules = Rules()) -> int:
    """How many states there are.  Raises :class:`Broken` at the first that breaks an invariant."""
    seen = {State()}
    todo = [State()]
    while todo:
        for state in successors(todo.pop(), world, rules):
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return len(seen)
