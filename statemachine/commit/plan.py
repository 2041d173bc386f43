"""Which units a table's commit takes, and which offsets the table's chain lacks.

``UNITS`` compares a unit ``[a, b)`` with the table's ``until`` of its topic-partition.  A unit is taken only where
``a = until``.  So the table holds the records of ``[origin, until)``, each once, even if units come twice, late, out of
order or from a stopped worker.  The records of a dropped unit have landed, or are in a *hole* that :func:`holes` finds.

A unit that ends where the table's records begin, at its ``origin``, is taken too if a person asked for a *backfill*
down to its offsets: ``origin`` then moves down.

A hole is a range ``[until, h)`` that the group has passed while no unit at hand begins at ``until``: its events were
lost with the control topic, or were dropped because they straddled ``until``.  It is read again, exactly, from Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from chsink.statemachine.commit.chain import Chain, Link, Links, TableView
from chsink.statemachine.commit.rules import CommitHalt, Rule, first
from chsink.statemachine.commit.units import Unit
from chsink.statemachine.ranges import OffsetRange, TopicPartition


class UnitFate(StrEnum):
    """What a commit does with a unit."""

    TAKE = "take"
    WAIT = "wait"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Eligibility:
    """One unit as a rule sees it: against the table's uuid, its partition specs and its link."""

    unit: Unit
    table_uuid: str
    table_specs: frozenset[int]
    link: Link | None
    floor: int | None = None
    """Down to which offset a backfill was asked for."""

    @property
    def a(self) -> int:
        return self.unit.range.start

    @property
    def b(self) -> int:
        return self.unit.range.end

    @property
    def until(self) -> int:
        assert self.link is not None
        return self.link.until

    @property
    def fills_back(self) -> bool:
        link, floor = self.link, self.floor
        return link is not None and floor is not None and floor <= self.a < self.b == link.origin


UNITS: tuple[Rule[Eligibility, UnitFate], ...] = (
    Rule(
        "OTHER_TABLE",
        "written for a table with another uuid",
        lambda x: x.unit.head.table_uuid != x.table_uuid,
        CommitHalt.TABLE_RECREATED,
        "halt: the table was dropped and created again",
    ),
    Rule(
        "NO_LINK",
        "the table knows nothing of the topic-partition",
        lambda x: x.link is None,
        CommitHalt.CHAIN_MISSING,
        "halt: the origin is stored before the first unit, so the chain was lost",
    ),
    Rule(
        "OTHER_TOPIC",
        "the topic's id is not the stored one",
        lambda x: x.link is not None and x.unit.head.topic_id != x.link.topic_id,
        CommitHalt.TOPIC_RECREATED,
        "halt: the topic was deleted and created again",
    ),
    Rule(
        "DUPLICATE",
        "`b <= until`, unless it is a unit of a backfill (`b = origin`, and a backfill was asked for from `a` or "
        "below)",
        lambda x: x.b <= x.until and not x.fills_back,
        UnitFate.DROP,
        "drop: all of it landed, or came before the table",
    ),
    Rule(
        "OTHER_CHOICE",
        "its records were chosen by another `table_by` than the table's",
        lambda x: x.link is not None and x.unit.head.choice != x.link.choice,
        UnitFate.DROP,
        "drop: an older worker wrote it; `[until, b)` is read again when no other unit brings it",
    ),
    Rule(
        "STRADDLING",
        "`a < until < b`",
        lambda x: x.a < x.until and not x.fills_back,
        UnitFate.DROP,
        "drop: its files hold landed records too; `[until, b)` is read again when no other unit brings it",
    ),
    Rule("AHEAD", "`a > until`", lambda x: x.a > x.until, UnitFate.WAIT, "wait for what lies between"),
    # from here on a = until < b, or b = origin
    Rule(
        "PARTS_MISSING",
        "not all parts were read",
        lambda x: not x.unit.whole,
        UnitFate.WAIT,
        "wait for its other parts",
    ),
    Rule(
        "SPEC_GONE",
        "it has files, written for a partition spec that the table no longer has",
        lambda x: bool(x.unit.files) and x.unit.head.spec_id not in x.table_specs,
        UnitFate.DROP,
        "drop: no manifest can list them; the range is read again",
    ),
    Rule("BACKFILL", "`b = origin`", lambda x: x.fills_back, UnitFate.TAKE, "take: `origin` becomes `a`"),
    Rule("NEXT", "`a = until`", lambda _: True, UnitFate.TAKE, "take: `until` becomes `b`"),
)


class Kind(StrEnum):
    """How a commit changes the catalog."""

    NOTHING = "nothing"
    MOVE = "move"
    """``until`` moves without files: a property changes, no snapshot is made."""
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a table's next commit holds.

    ``taken`` is in the order of offsets, ``files`` are its locations, each once.  ``links`` is the chain after it.
    ``waiting`` is kept for later commits, ``dropped`` is not.  With ``halt``, nothing is committed, because of ``at``.
    """

    taken: tuple[Unit, ...] = ()
    waiting: tuple[Unit, ...] = ()
    dropped: tuple[tuple[str, Unit], ...] = ()
    links: Links = field(default_factory=dict)
    halt: CommitHalt | None = None
    because: str = ""
    at: TopicPartition | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(location for unit in self.taken for location in unit.files))

    @property
    def kind(self) -> Kind:
        if self.files:
            return Kind.APPEND
        return Kind.MOVE if self.taken else Kind.NOTHING


def plan_commit(view: TableView, chain: Chain, units: Iterable[Unit]) -> TablePlan:
    """What to commit of the units of this table.  Longer units first where several begin at one offset."""
    links = dict(chain.links)
    taken: list[Unit] = []
    waiting: list[Unit] = []
    dropped: list[tuple[str, Unit]] = []
    for unit in sorted(units, key=lambda u: (u.head.tp, *u.order)):
        tp = unit.head.tp
        case = Eligibility(unit, view.uuid, view.specs, links.get(tp), view.floors.get(tp))
        rule = first(UNITS, case)
        match rule.verdict:
            case CommitHalt() as halt:
                return TablePlan(links=chain.links, halt=halt, because=rule.name, at=tp)
            case UnitFate.TAKE:
                taken.append(unit)
                if case.fills_back:
                    links[tp] = replace(links[tp], origin=unit.range.start)
                else:
                    links[tp] = replace(links[tp], until=unit.range.end)
            case UnitFate.WAIT:
                waiting.append(unit)
            case _:
                dropped.append((rule.name, unit))
    return TablePlan(tuple(taken), tuple(waiting), tuple(dropped), links)


def backfills(
    links: Links, waiting: Iterable[Unit], floors: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, OffsetRange]:
    """The range to read for this table's backfill next, per topic-partition: ``most`` offsets below its origin, unless
    a unit of ``waiting`` brings them.  ``floors`` are offsets that Kafka still holds.
    """
    brought = {(unit.head.tp, unit.range.end) for unit in waiting if unit.whole}
    found = {}
    for tp, floor in floors.items():
        link = links.get(tp)
        if link is not None and floor < link.origin and (tp, link.origin) not in brought:
            found[tp] = OffsetRange(max(floor, link.origin - most), link.origin)
    return found


def holes(
    links: Links, waiting: Iterable[Unit], handed_over: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetRange]:
    """The range to read again for this table, per topic-partition.

    All events up to ``handed_over``, the group's offset, must have been read: ask for the group's offset first, then
    for the control topic's end, then read up to that end.  ``waiting`` are the units that a plan left, ``links`` its
    chain; if the table could not be committed, ``waiting`` are all units that were read for it.
    """
    starts: dict[TopicPartition, list[int]] = {}
    for unit in waiting:
        if unit.whole:
            starts.setdefault(unit.head.tp, []).append(unit.range.start)
    found = {}
    for tp, reached in handed_over.items():
        link = links.get(tp)
        if link is None or reached <= link.until:
            continue
        end = min([reached, *(start for start in starts.get(tp, ()) if start >= link.until)])
        if end > link.until:
            found[tp] = OffsetRange(link.until, end)
    return found
