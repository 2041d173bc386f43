"""Carries out what a person decides about tables of the mirror (see :mod:`chsink.statemachine.commit.resolve`).

The decision is shown first and carried out afterwards, without a lock in between.  Carrying it out fences coordinators
and workers that still run and reads each table again; its commit requires the head that was read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chsink.errors import halts, services
from chsink.mirror.control import Names
from chsink.mirror.coordinator import KEY
from chsink.mirror.events import DataWritten, UnitTag
from chsink.mirror.known_tables import ATTEMPTS, Target
from chsink.mirror.tables import DamagedProperty, TableRead
from chsink.mirror.trail import handed_over
from chsink.ports import KafkaCluster, Outcome
from chsink.statemachine.commit.chain import Link, read_chain
from chsink.statemachine.commit.resolve import Log, Resolved, TableVerdict, resolved
from chsink.statemachine.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True)
class LinkChange:
    """A decision's effect on one topic-partition of one table.  ``before`` is None if the table did not know it."""

    table: str
    tp: TopicPartition
    before: Link | None
    after: Link
    handed_over: int | None

    def as_dict(self) -> dict[str, object]:
        """For a person or a program."""
        again = self.read_again
        return {
            "table": self.table,
            "topic": self.tp.topic,
            "partition": self.tp.partition,
            "held_until": None if self.before is None else self.before.until,
            "continues_at": self.after.until,
            "read_again": None if again is None else str(again),
        }

    @property
    def read_again(self) -> OffsetRange | None:
        """The handed-over range that will be read from Kafka again; None if there is none."""
        end = self.handed_over or 0
        return OffsetRange(self.after.until, end) if end > self.after.until else None


@dataclass(frozen=True)
class MirrorDecision:
    """A decision about ``tables`` (by name), with the ``logs`` and the uncommitted events as they were at its time."""

    tables: Mapping[str, Target]
    choice: TableVerdict
    logs: Mapping[TopicPartition, Log]
    waiting: Sequence[DataWritten]
    changes: tuple[LinkChange, ...]
    forget: bool
    """Whether the waiting events are given up (:class:`chsink.statemachine.commit.resolve.Resolved`)."""


def decide(names: Names, tables: Mapping[str, Target], source: KafkaCluster, choice: TableVerdict) -> MirrorDecision:
    """What the choice would do.  Changes nothing.

    Raises the outcomes of :mod:`chsink.mirror.control` and :mod:`chsink.mirror.tables`, and ChsinkError.
    """
    topics = sorted({topic for target in tables.values() for topic in target.topics})
    ids, tps = source.topic_ids(topics), source.partitions(topics)
    starts, ends = source.log_starts(tps), source.log_ends(tps)
    offsets = names.offsets()
    try:
        committed = offsets.committed(tps)
    finally:
        offsets.close()
    logs = {tp: Log(ids[tp.topic] or "", starts[tp], ends[tp], committed[tp]) for tp in tps}
    waiting = handed_over(names, whole=True)
    changes: list[LinkChange] = []
    forget = False
    for name, target in tables.items():
        read, after = _resolved(name, target, logs, waiting, choice)
        forget = forget or after.forget
        before = read.view.stored.links if read.view.stored else {}
        changes += [
            LinkChange(name, tp, before.get(tp), after.chain.links[tp], after.group.get(tp, logs[tp].committed))
            for tp in _mine(target, logs)
        ]
    return MirrorDecision(tables, choice, logs, waiting, tuple(changes), forget)


def carry_out(names: Names, decision: MirrorDecision) -> None:
    """Store the decision.  Raises as :func:`decide`, and services.MIRROR_COMMITS_FAIL."""
    with names.sender(names.coordinator_id, names.control_group) as coordinator:
        passed = _ends(names) if decision.forget else {}
        if passed:
            coordinator.send(KEY, [], {TopicPartition(names.topic, number): end for number, end in passed.items()})
        for name, target in decision.tables.items():
            for tp, offset in _stored(name, target, decision, passed).group.items():
                with names.sender(names.worker_id(tp), names.group) as worker:
                    worker.send(str(tp), [], {tp: offset})


def _ends(names: Names) -> dict[int, int]:
    """The control topic's end, by partition."""
    reader = names.reader()
    try:
        return {number: end for number, (_, end) in reader.logs().items()}
    finally:
        reader.close()


def _stored(name: str, target: Target, decision: MirrorDecision, passed: Mapping[int, int]) -> Resolved:
    reason = ""
    for _ in range(ATTEMPTS):
        read, after = _resolved(name, target, decision.logs, decision.waiting, decision.choice)
        chain = replace(after.chain, control=passed) if passed else after.chain
        done = target.table.decide(read, chain, uuid.uuid4())
        if done.outcome is Outcome.APPLIED:
            return after
        reason = done.reason
    raise services.MIRROR_COMMITS_FAIL(table=name, rounds=ATTEMPTS, reason=reason)


def _resolved(
    name: str,
    target: Target,
    logs: Mapping[TopicPartition, Log],
    waiting: Sequence[DataWritten],
    choice: TableVerdict,
) -> tuple[TableRead, Resolved]:
    try:
        read = target.table.read()
    except DamagedProperty as error:
        raise halts.MIRROR_CHAIN_DAMAGED(tables=name, property=error.name, detail=error) from error
    if read is None:
        raise halts.MIRROR_TABLE_GONE(tables=name)
    usable = _usable(waiting, target, read)
    chain = read_chain(read.view).chain
    lost = choice is TableVerdict.SKIP and chain is None
    rows = {tp: target.table.rows_until(read, target.topics, tp) if lost else None for tp in _mine(target, logs)}
    mine = {tp: replace(logs[tp], waiting=_starts(usable, tp), rows=end) for tp, end in rows.items()}
    after = resolved(read.view, mine, choice)
    if after is None:
        raise halts.MIRROR_ROWS_UNKNOWN(table=name)
    return read, after


def _usable(waiting: Sequence[DataWritten], target: Target, read: TableRead) -> list[UnitTag]:
    """The waiting units that were written for the present table and whose files exist."""
    tags: dict[str, UnitTag] = {}
    files: dict[str, str] = {}
    for written in waiting:
        tag = written.tag
        if tag is not None and written.table == target.reference and tag.table_uuid == read.view.uuid and written.own:
            tags[tag.unit] = tag
            files |= {entry["file_path"]: tag.unit for entry in written.files}
    gone = {files[location] for location in target.table.missing(read, tuple(files))}
    return [tag for unit, tag in tags.items() if unit not in gone]


def _starts(tags: Sequence[UnitTag], tp: TopicPartition) -> tuple[int, ...]:
    """The offsets at which units of a topic-partition begin."""
    return tuple(tag.start for tag in tags if (tag.topic, tag.partition) == (tp.topic, tp.partition))


def _mine(target: Target, logs: Mapping[TopicPartition, Log]) -> Sequence[TopicPartition]:
    return sorted(tp for tp in logs if tp.topic in target.topics)
