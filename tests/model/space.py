"""A world's whole state as nested tuples: equal states are equal values, so each is explored once.

Sets of offsets are bit masks.  Records and tokens are numbers that :mod:`tests.model.protocol` hands out.  Time is counted
in ticks.  ``(0, 0)`` stands for a row that is not there; attempts and record numbers begin at 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NO_ROW = (0, 0)
UNREAD = (-1, 0)
Range = tuple[int, int]
Row = tuple[int, int]
"""(attempt, record number), or for the owner's row (attempt, epoch)."""


class Kafka(NamedTuple):
    """One partition.  ``serial``: which life of the topic; ``visible``: offsets a reader gets; ``archive``: per life,
    what was ever there and was not compacted away; ``known``: whether brokers tell ids.
    """

    serial: int
    start: int
    end: int
    visible: int
    archive: tuple[int, ...]
    known: bool = True


class Token(NamedTuple):
    """A remembered token: its shard, the block and tick of its insert, and what it brought."""

    token: int
    shard: int
    block: int
    at: int
    serial: int
    rows: int


class Target(NamedTuple):
    """One table.  ``landed`` per life of the topic; ``blocks`` per shard, others' included; ``started``: how often the
    servers were started anew; ``misnamed``: ranges (serial, start, end) for which rows of another life of the topic were read.
    """

    landed: tuple[int, ...]
    blocks: tuple[int, ...]
    started: int = 0
    tokens: tuple[Token, ...] = ()
    misnamed: tuple[tuple[int, int, int], ...] = ()


class Write(NamedTuple):
    """A compare-and-set: replace ``expected`` (0: create) by ``row``, of the owner or of the partition."""

    owner: bool
    expected: int
    row: Row


class Announced(NamedTuple):
    """A BEFORE that was stored."""

    serial: int
    start: int
    end: int
    shards: int


class Store(NamedTuple):
    """Both rows of the sink.  ``late``: copies of writes that may still arrive; ``past``: both rows before the last write,
    as a replica that lags still answers, kept only in worlds where one does.
    """

    owner: Row = NO_ROW
    row: Row = NO_ROW
    late: tuple[Write, ...] = ()
    announced: tuple[Announced, ...] = ()
    epochs: int = 0
    past: tuple[Row, Row] | None = None


class Checkpoint(NamedTuple):
    """Spark's offset log: where it began, planned ends, how many batches are committed; ``made``: which one it is."""

    initial: int = 0
    ends: tuple[int, ...] = ()
    committed: int = 0
    made: int = 0


class Driver(NamedTuple):
    """One driver process.  ``pc`` names its next step, ``then`` the one after a write.

    ``attempt``, ``want``: the write under way; ``cache``: the row as it knows it; ``half``: the first half of a load;
    ``used``: attempts and jobs it began so far; ``worked``: whether it had a batch.  ``rest``: what is left of the planned
    batch; ``whole``: it lands in one round, from the batch at hand.
    """

    number: int
    pc: str = "claim: read"
    then: str = ""
    attempt: int = 0
    used: int = 0
    replaced: int = -1
    epoch: int = 0
    want: int = 0
    cache: Row = NO_ROW
    half: tuple[int, Row] | None = None
    facts: tuple[int, int, int] = (0, 0, 0)
    resume: str = ""
    exact: bool = False
    planned: Range | None = None
    rest: Range | None = None
    whole: bool = True
    reinsert: bool = False
    gap: Range | None = None
    write: Range | None = None
    fresh: bool = False
    halt: str = ""
    limit: int = 2
    layout: int = 1
    pipeline: int = 0
    at: int = -1
    begin: int = 0
    initial: int = 0
    made: int = 0
    worked: bool = False


class Task(NamedTuple):
    """A task attempt of a driver's job.  ``piece``: chunk × shards + shard; ``stage``: new, asked (for the topic's id),
    counted (probed, not there), sent, or kept? (sent, to be looked for); ``rows``: what it read of its chunk (serial, mask), serial -1 before it read.
    """

    driver: int
    job: int
    record: int
    exact: bool
    planned: Range
    deadline: int
    shards: int
    piece: int = 0
    stage: str = "new"
    rows: tuple[int, int] = UNREAD


class Copy(NamedTuple):
    """A send under way whose client no longer waits."""

    token: int
    record: int
    shard: int
    serial: int
    rows: int
    sent_at: int


class State(NamedTuple):
    """All of it.  ``left``: how many of each fault may still happen, in the world's order; ``any_left``: of all."""

    now: int
    kafka: Kafka
    target: Target
    store: Store
    checkpoint: Checkpoint
    drivers: tuple[Driver, ...]
    tasks: tuple[Task, ...]
    copies: tuple[Copy, ...]
    starts: int
    left: tuple[int, ...]
    any_left: int
    asked_from: int = 0


def mask(start: int, end: int) -> int:
    """The offsets ``[start, end)``."""
    return ((1 << end) - 1) & ~((1 << start) - 1) if end > start else 0


def offsets(bits: int) -> list[int]:
    """The offsets of a mask."""
    return [o for o in range(bits.bit_length()) if bits >> o & 1]


def with_driver(state: State, driver: Driver) -> State:
    """The driver as it is now."""
    return state._replace(drivers=tuple(driver if d.number == driver.number else d for d in state.drivers))


def without_driver(state: State, number: int) -> State:
    """The driver ended."""
    return state._replace(drivers=tuple(d for d in state.drivers if d.number != number))


def swapped(items: tuple[Any, ...], old: Any, *new: Any) -> tuple[Any, ...]:
    """The sorted items with one occurrence of ``old`` (if not None) replaced."""
    left = list(items)
    if old is not None:
        left.remove(old)
    left.extend(new)
    left.sort()
    return tuple(left)
