"""A state of a world as immutable values, and the production values that are made of them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from chsink.statemachine.commit.chain import Chain, Link, Snapshot, TableView
from chsink.statemachine.commit.units import Head, Position, UnitPart
from chsink.statemachine.ranges import OffsetRange, TopicPartition


class Stored(NamedTuple):
    """A chain: per topic-partition (life of the topic, origin, until); the control topic's life and next event."""

    links: tuple[tuple[int, int, int] | None, ...]
    control_life: int
    control: int
    snapshot: int | None
    sequence: int


class Snap(NamedTuple):
    """``total`` is what the table holds at it: offsets per topic-partition as bits."""

    number: int
    parent: int | None
    total: tuple[int, ...]
    stored: Stored | None


class Table(NamedTuple):
    """``snaps`` are those that did not expire, oldest first."""

    snaps: tuple[Snap, ...] = ()
    head: int | None = None
    prop: Stored | None = None
    made: int = 0

    def at(self, number: int | None) -> Snap | None:
        return next((s for s in self.snaps if s.number == number), None)

    def total(self, tps: int) -> tuple[int, ...]:
        head = self.at(self.head)
        return head.total if head else (0,) * tps


class Msg(NamedTuple):
    """One event: part ``number`` of ``parts`` of unit ``unit``."""

    table: int
    tp: int
    start: int
    end: int
    unit: tuple[int, int, int]
    number: int
    parts: int
    topic_life: int


class Control(NamedTuple):
    """The control topic, one partition.  ``group`` is the coordinators' group: None after it was lost."""

    life: int = 0
    log: tuple[Msg, ...] = ()
    group: int | None = None


class Worker(NamedTuple):
    """An attempt at ``[start, end)``.  ``stage``: new, opened, ready.  ``current``: its producer was not fenced."""

    tp: int
    start: int
    end: int
    stage: str = "new"
    current: bool = False
    ranges: tuple[tuple[int, int], ...] = ()


class Coordinator(NamedTuple):
    """``stage``: begin, read, run, halted, gone.  ``views`` are tables as they were read, None: not read.

    ``buffer`` holds (position, event).  ``asked`` is the group as it was asked for, ``end`` the control topic's end
    asked after it.
    """

    stage: str = "begin"
    tp: int = 0
    fence: bool = False
    origin: int | None = None
    target: int | None = None
    life: int = 0
    pos: int = 0
    buffer: tuple[tuple[int, Msg], ...] = ()
    views: tuple[Table | None, ...] = ()
    asked: tuple[int | None, ...] | None = None
    end: int | None = None
    newest: bool = True

    @property
    def alive(self) -> bool:
        return self.stage in ("begin", "set", "run")


class State(NamedTuple):
    """All of a world."""

    topic_life: int
    group: tuple[int | None, ...]
    workers: tuple[Worker, ...]
    control: Control
    tables: tuple[Table, ...]
    coordinators: tuple[Coordinator, ...]
    left: tuple[int, ...]
    any_left: int


def bits(start: int, end: int) -> int:
    """The offsets of ``[start, end)`` as bits."""
    return (1 << end) - (1 << start)


@cache
def topic_partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


@cache
def chain_of(stored: Stored) -> Chain:
    """The production value."""
    links = {topic_partition(n): Link(f"id{link[0]}", link[1], link[2]) for n, link in enumerate(stored.links) if link}
    control = {0: stored.control}
    return Chain(links, f"c{stored.control_life}", control, "", stored.snapshot, stored.sequence)


def stored_of(chain: Chain, tps: int) -> Stored:
    """The inverse of :func:`chain_of`."""
    links = (chain.links.get(topic_partition(number)) for number in range(tps))
    life = int(chain.control_id[1:] or 0)
    return Stored(
        tuple((int(link.topic_id[2:]), link.origin, link.until) if link else None for link in links),
        life,
        chain.control.get(0, 0),
        chain.snapshot_id,
        chain.sequence,
    )


@cache
def view_of(table: Table) -> TableView:
    """What a reading of the catalog gives.  A snapshot's number is its sequence number too."""
    lineage = []
    at = table.at(table.head)
    parent = table.head
    while at is not None:
        chain = chain_of(at.stored) if at.stored else None
        lineage.append(Snapshot(at.number, at.number, chain))
        parent = at.parent
        at = table.at(parent)
    return TableView(
        "uuid", frozenset({0}), tuple(lineage), parent is not None, chain_of(table.prop) if table.prop else None
    )


def of_life(records: int, life: int) -> int:
    """Records of one life of a topic, as bits: no two lives share one."""
    return records << (8 * life)


def rows(msg: Msg, records: int) -> int:
    """The records in the part's file, as bits: a unit in two parts has its first half in the first."""
    middle = msg.end if msg.parts == 1 else (msg.start + msg.end + 1) // 2
    half = bits(msg.start, middle) if msg.number == 0 else bits(middle, msg.end)
    return of_life(records & half, msg.topic_life)


@cache
def part_of(position: int, msg: Msg, records: int) -> UnitPart:
    """The production value of an event.  The location says what the file holds."""
    head = Head(
        str(msg.unit),
        str(msg.table),
        "uuid",
        topic_partition(msg.tp),
        f"id{msg.topic_life}",
        OffsetRange(msg.start, msg.end),
        0,
        msg.parts,
    )
    held = rows(msg, records)
    files = (f"{msg.tp} {held} {msg.unit} {msg.number}",) if held else ()
    return UnitPart(head, msg.number, files, Position(0, position))


def held_in(location: str) -> tuple[int, int]:
    """The topic-partition and the records of a file."""
    tp, held = location.split(" ", 2)[:2]
    return int(tp), int(held)
