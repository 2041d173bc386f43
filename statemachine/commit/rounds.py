"""When a commit is due, its valid-through time, and which events may be forgotten after it.

A coordinator opens a *round* each interval.  The round is answered by the assigned topic-partitions, each with the
offset that it handed over.  It is complete when the *set* of assigned topic-partitions has answered and all units up to
the answered offsets were read.  Otherwise a timeout, or a full buffer, commits what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chsink.statemachine.commit.chain import Links
from chsink.statemachine.commit.plan import TablePlan
from chsink.statemachine.commit.rules import Rule, first
from chsink.statemachine.commit.units import Unit
from chsink.statemachine.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class Reached:
    """One topic-partition's answer: the next offset to hand over, and the largest timestamp handed over since the last
    round in ms.  Both are None when there was nothing new.
    """

    offset: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CommitPace:
    """``interval_ms`` between rounds, ``timeout_ms`` for one, ``buffer`` files at most in memory."""

    interval_ms: int
    timeout_ms: int
    buffer: int

    def __post_init__(self) -> None:
        assert self.interval_ms > 0 and self.timeout_ms > 0 and self.buffer > 0, self


@dataclass(frozen=True, slots=True)
class RoundView:
    """A coordinator's round as a rule sees it.  ``open_ms`` is None where none is open; ages are in ms."""

    pace: CommitPace
    since_last_ms: int
    open_ms: int | None
    answered: bool
    buffered: int


class Due(StrEnum):
    """What the coordinator does now."""

    WAIT = "wait"
    START = "start"
    COMMIT_WHOLE = "commit whole"
    COMMIT_PARTIAL = "commit partial"


ROUND: tuple[Rule[RoundView, Due], ...] = (
    Rule(
        "BEGIN",
        "no round is open, and the interval is over or the buffer is full",
        lambda x: x.open_ms is None and (x.since_last_ms >= x.pace.interval_ms or x.buffered >= x.pace.buffer),
        Due.START,
        "open a round",
    ),
    Rule("IDLE", "no round is open", lambda x: x.open_ms is None, Due.WAIT, "wait"),
    Rule(
        "COMPLETE",
        "all assigned topic-partitions answered, and all units up to their answers were read",
        lambda x: x.answered,
        Due.COMMIT_WHOLE,
        "commit",
    ),
    Rule("FULL", "the buffer is full", lambda x: x.buffered >= x.pace.buffer, Due.COMMIT_PARTIAL, "commit in part"),
    Rule(
        "TIMEOUT",
        "the timeout is over",
        lambda x: x.open_ms is not None and x.open_ms >= x.pace.timeout_ms,
        Due.COMMIT_PARTIAL,
        "commit in part",
    ),
    Rule("OPEN", "otherwise", lambda _: True, Due.WAIT, "wait for answers and units"),
)


def due(view: RoundView) -> tuple[str, Due]:
    """What the coordinator does now, and the rule that says so."""
    rule = first(ROUND, view)
    assert isinstance(rule.verdict, Due)
    return rule.name, rule.verdict


def read_up_to(links: Links, units: Iterable[Unit], answers: Mapping[TopicPartition, Reached]) -> bool:
    """Whether chain and units at hand reach every answered offset of the topic-partitions that the table knows."""
    ends = {tp: link.until for tp, link in links.items()}
    for unit in sorted((u for u in units if u.whole), key=lambda u: (u.head.tp, *u.order)):
        tp = unit.head.tp
        if tp in ends and unit.range.start <= ends[tp]:
            ends[tp] = max(ends[tp], unit.range.end)
    return all(ends[tp] >= r.offset for tp, r in answers.items() if r.offset is not None and tp in ends)


def answered(
    assigned: Collection[TopicPartition],
    answers: Mapping[TopicPartition, Reached],
    tables: Iterable[tuple[Links, Collection[Unit]]],
) -> bool:
    """Whether all assigned topic-partitions (a set, not a count) have answered, and every table has their units."""
    mine = {tp: answers[tp] for tp in assigned if tp in answers}
    return set(mine) == set(assigned) and all(read_up_to(links, units, mine) for links, units in tables)


def valid_through(
    whole: bool, assigned: Collection[TopicPartition], answers: Mapping[TopicPartition, Reached], plan: TablePlan
) -> int | None:
    """The timestamp in ms up to which a table is complete: the least of the partitions' largest ones.

    None after a partial commit, where a partition had nothing new, and where the commit leaves out a record below an
    answered offset.
    """
    reached = [answers.get(tp, Reached(None, None)) for tp in sorted(assigned)]
    times = [r.timestamp_ms for r in reached if r.timestamp_ms is not None]
    if not whole or not times or len(times) < len(reached):
        return None
    ends = {tp: link.until for tp, link in plan.links.items()}
    if any(ends.get(tp, -1) < (answers[tp].offset or 0) for tp in assigned):
        return None
    return min(times)


def low_watermark(read: Mapping[int, int], waiting: Iterable[Unit], stored: Mapping[int, int]) -> dict[int, int]:
    """Per partition of the control topic, the first event that is still needed: never above a unit that waits for any
    table, never below what is stored.  ``read`` is the next event to read.
    """
    marks = dict(read)
    for unit in waiting:
        for at in unit.at:
            marks[at.partition] = min(marks.get(at.partition, at.offset), at.offset)
    return {partition: max(offset, stored.get(partition, 0)) for partition, offset in marks.items()}
