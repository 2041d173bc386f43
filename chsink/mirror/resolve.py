"""Carries out what a person decides about tables of the mirror (see :mod:`chsink.statemachine.commit.resolve`).

The decision is shown first and carried out afterwards, without a lock in between.  Carrying it out fences coordinators
and workers that still run and reads each table again; its commit requires the head that was read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

from chsink.errors import halts, services
from chsink.mirror.control import Names
from chsink.mirror.coordinator import KEY
from chsink.mirror.events import DataWritten, UnitTag
from chsink.mirror.known_tables import ATTEMPTS, Target
from chsink.mirror.ports import EventSender
from chsink.mirror.tables import Committed, DamagedProperty, TableRead
from chsink.mirror.trail import as_sent, handed_over
from chsink.ports import KafkaCluster, Outcome
from chsink.statemachine.commit.chain import Link, Links, Sharing, StoredShare, read_chain
from chsink.statemachine.commit.handover import divided_by
from chsink.statemachine.commit.resolve import (
    Because,
    Log,
    Resolved,
    Sharer,
    TableVerdict,
    held,
    remembered,
    resolved,
    together,
)
from chsink.statemachine.ranges import OffsetRange, TopicPartition

Known = tuple[str, Links | None, Links]
"""What a table is and knows: its uuid, what it surely holds (:func:`held`), and what it remembers."""


@dataclass(frozen=True)
class LinkChange:
    """A decision's effect on one topic-partition of one table.  ``before`` is None if the table did not know it."""

    table: str
    tp: TopicPartition
    before: Link | None
    decided: Resolved
    handed_over: int

    def as_dict(self) -> dict[str, object]:
        """For a person or a program."""
        at, end = self.decided.chain.links[self.tp].until, self.handed_over
        given_up, origin = self.decided.given_up[self.tp], self.decided.chain.links[self.tp].origin
        backfilled = OffsetRange(given_up.start, max(given_up.start, min(given_up.end, origin)))
        return {
            "table": self.table,
            "topic": self.tp.topic,
            "partition": self.tp.partition,
            "held_until": None if self.before is None else self.before.until,
            "continues_at": at,
            "because": str(self.decided.because[self.tp]),
            "read_again": str(OffsetRange(at, end)) if end > at else None,
            "given_up": None if given_up.is_empty else str(given_up),
            "at_most": given_up.length or None,
            "backfill": None if backfilled.is_empty else str(backfilled),
        }


@dataclass(frozen=True)
class MirrorDecision:
    """A decision about some of the tables, with the ``logs`` of each (by name), the uncommitted events, what each table
    knew and the control topic's id, as they were at its time.
    """

    targets: Mapping[str, Target]
    choice: TableVerdict
    logs: Mapping[str, Mapping[TopicPartition, Log]]
    waiting: Sequence[DataWritten]
    shown: Mapping[str, Known]
    control_id: str
    changes: tuple[LinkChange, ...] = ()

    @property
    def forgotten(self) -> frozenset[TopicPartition]:
        """Those whose waiting events are given up (:class:`chsink.statemachine.commit.resolve.Resolved`)."""
        return frozenset(tp for change in self.changes for tp in change.decided.forgotten)

    @property
    def moved(self) -> list[TopicPartition]:
        """Topic-partitions with another log now, so the group moves.  A checkpoint's plan is for the earlier one."""
        return sorted({tp for change in self.changes for tp in change.decided.group})


def decide(
    names: Names, targets: Mapping[str, Target], named: Collection[str], source: KafkaCluster, choice: TableVerdict
) -> MirrorDecision:
    """What the choice would do with the named ones of all tables.  Changes nothing.

    Raises the outcomes of :mod:`chsink.mirror.control` and :mod:`chsink.mirror.tables`, and ChsinkError.
    """
    topics = sorted({topic for name in named for topic in targets[name].topics})
    shown = {name: _known(_there(name, targets[name])) for name in named}  # before the logs, which may grow
    ids, tps = source.topic_ids(topics), source.partitions(topics)
    with closing(names.offsets()) as group:
        # before the logs' ends: it may move, and is never beyond what Kafka holds
        committed, notes = group.committed(tps), group.notes(tps)
    starts, ends = source.log_starts(tps), source.log_ends(tps)
    found = {tp: Log(ids[tp.topic] or "", starts[tp], ends[tp], committed[tp]) for tp in sorted(tps)}
    logs = {name: {tp: log for tp, log in found.items() if tp.topic in targets[name].topics} for name in named}
    waiting, control_id = handed_over(names, whole=True), source.topic_ids([names.topic])[names.topic] or ""
    decision = MirrorDecision(targets, choice, logs, waiting, shown, control_id)
    done = {name: _resolved(name, decision) for name in named}
    if any(targets[name].sharing for name in named):
        decision = replace(decision, logs=_together(targets, logs, done, choice, notes))
        done = {name: _resolved(name, decision) for name in named}
    at = {tp: ends[tp] if offset is None else offset for tp, offset in committed.items()}
    changes = tuple(
        LinkChange(name, tp, remembered(read.view).get(tp), after, after.group.get(tp, at[tp]))
        for name, (read, after) in done.items()
        for tp in logs[name]
    )
    return replace(decision, changes=changes)


def _together(
    targets: Mapping[str, Target],
    logs: Mapping[str, Mapping[TopicPartition, Log]],
    done: Mapping[str, tuple[TableRead, Resolved]],
    choice: TableVerdict,
    notes: Mapping[TopicPartition, str],
) -> dict[str, dict[TopicPartition, Log]]:
    """The logs, with what tables that share a topic require of each other.  ``notes``: the choices that are stored with
    the group's offsets.
    """
    found = {name: dict(of) for name, of in logs.items()}
    skip, reads = choice is TableVerdict.SKIP, {name: read for name, (read, _) in done.items()}
    reads |= {n: read for n, t in targets.items() if t.sharing and n not in done and (read := _read(n, t)) is not None}
    for tp in sorted({tp for name, of in logs.items() for tp in of if tp.topic in targets[name].sharing}):
        sharing = {name: target.sharing[tp.topic] for name, target in targets.items() if tp.topic in target.sharing}
        shares = {name: reads[name].view.shared.get(tp) if name in reads else None for name in sharing}
        known = {"", *(each.choice for each in sharing.values()), *(x.sharing.choice for x in shares.values() if x)}
        if skip and (before := divided_by(notes[tp])) not in known:  # other tables took what was handed over last
            shares = dict.fromkeys(sharing, StoredShare(Sharing(before), 0, 0))
        named = {
            name: Sharer(logs[name][tp], shares[name], after.chain.links[tp].until, after.because[tp] is Because.NEW)
            for name, (_, after) in done.items()
            if name in sharing
        }
        plan = together(named, [shares[name] for name in sharing.keys() - done.keys()], next(iter(sharing.values())))
        if plan is None and (skip or any(each.new for each in named.values())):
            raise halts.MIRROR_SHARED_APART(tp=tp, shared=", ".join(sorted(sharing)), tables=" ".join(sorted(sharing)))
        for name, log in (plan or {}).items():
            found[name][tp] = log if skip else replace(logs[name][tp], sharing=log.sharing)
    return found


def carry_out(names: Names, decision: MirrorDecision) -> None:
    """Store the decision.  Raises as :func:`decide`, and services.MIRROR_COMMITS_FAIL."""
    with ExitStack() as fenced:
        coordinator = fenced.enter_context(names.sender(names.coordinator_id, names.control_group))
        worker_ids = {tp: names.worker_id(tp) for tp in decision.moved}
        workers = {tp: fenced.enter_context(names.sender(id_, names.group)) for tp, id_ in worker_ids.items()}
        for tp in decision.moved:  # a coordinator may still be reading a range again
            fenced.enter_context(names.sender(names.reread_id(tp), names.group))
        for name in decision.logs:
            _check_known(name, _there(name, decision.targets[name]), decision)
        passed = _forget(names, coordinator, decision) if decision.forgotten else {}
        for name in decision.logs:
            for tp, offset in _stored(name, decision, passed).group.items():
                workers[tp].send(str(tp), [], {tp: offset})


def _forget(names: Names, coordinator: EventSender, decision: MirrorDecision) -> dict[int, int]:
    """Pass all events that wait, and send those of other topic-partitions once more: who has read them before takes
    them once.  Tables that were not named pass them, too: without the group, the least that any table says is read.
    Returns the control topic's ends, by partition.
    """
    events, ends = as_sent(names, whole=True)
    tags = ((written.tag, value) for written, value in events)
    kept = [value for tag, value in tags if tag and TopicPartition(tag.topic, tag.partition) not in decision.forgotten]
    others = [name for name in decision.targets if name not in decision.logs]
    for name in others:
        _read(name, decision.targets[name])  # one that cannot be read ends this before anything is passed
    coordinator.send(KEY, kept, {TopicPartition(names.topic, number): end for number, end in ends.items()})

    def move(name: str, commit_id: uuid.UUID) -> Committed | None:
        read = _read(name, decision.targets[name])
        chain = None if read is None else read_chain(read.view).chain or read.view.stored
        if read is None or chain is None or chain.commit_id == str(commit_id):
            return None
        passed = replace(chain, control_id=decision.control_id, control=ends)
        return decision.targets[name].table.move(read, passed, commit_id)

    for name in others:
        _commit(name, partial(move, name))
    return ends


def _commit(name: str, attempt: Callable[[uuid.UUID], Committed | None]) -> None:
    """Repeat a commit with one id until it is applied: None says that it is, or that there is nothing to commit."""
    reason, commit_id = "", uuid.uuid4()
    for _ in range(ATTEMPTS):
        done = attempt(commit_id)
        if done is None or done.outcome is Outcome.APPLIED:
            return
        reason = done.reason
    raise services.MIRROR_COMMITS_FAIL(table=name, rounds=ATTEMPTS, reason=reason)


def _stored(name: str, decision: MirrorDecision, passed: Mapping[int, int]) -> Resolved:
    logs, decided = decision.logs[name], list[Resolved]()

    def decide_now(commit_id: uuid.UUID) -> Committed | None:
        read, after = _resolved(name, decision)
        if decided and read.view.stored and read.view.stored.commit_id == str(commit_id):
            return None  # it was applied, and the answer was lost
        _check_known(name, read, decision)
        decided.append(after)
        chain = replace(after.chain, control_id=decision.control_id, control=passed) if passed else after.chain
        links, at = chain.links, chain.sequence
        shares = {tp: StoredShare(log.sharing, links[tp].until, at) for tp, log in logs.items() if log.sharing}
        return decision.targets[name].table.decide(read, chain, commit_id, shares)

    _commit(name, decide_now)
    return decided[-1]


def _check_known(name: str, read: TableRead, decision: MirrorDecision) -> None:
    if _known(read) != decision.shown[name]:
        raise halts.MIRROR_TABLE_MOVED(table=name)


def _known(read: TableRead) -> Known:
    chain = held(read.view)
    return read.view.uuid, None if chain is None else chain.links, remembered(read.view)


def _read(name: str, target: Target) -> TableRead | None:
    try:
        return target.table.read()
    except DamagedProperty as error:
        raise halts.MIRROR_CHAIN_DAMAGED(tables=name, property=error.name, detail=error) from error


def _there(name: str, target: Target) -> TableRead:
    if (read := _read(name, target)) is None:
        raise halts.MIRROR_TABLE_GONE(tables=name)
    return read


def _resolved(name: str, decision: MirrorDecision) -> tuple[TableRead, Resolved]:
    target, logs = decision.targets[name], decision.logs[name]
    read = _there(name, target)
    units, (_, links, before) = _usable(decision.waiting, target, read), _known(read)
    unknown = logs.keys() - (links or {}).keys()
    mine = {tp: replace(log, waiting=_starts(units, tp, log.topic_id)) for tp, log in logs.items()}
    for topic in {tp.topic for tp in unknown}:
        partitions = [tp.partition for tp in unknown if tp.topic == topic]
        all_tell = target.table.row_ranges(read, target.topics, topic, partitions)
        some = {} if all_tell else target.table.row_ranges(read, target.topics, topic, partitions, partly=True) or {}
        for tp in (TopicPartition(topic, partition) for partition in partitions):
            log, found = mine[tp], some.get(tp.partition)
            if all_tell is not None:
                mine[tp] = replace(log, rows=all_tell[tp.partition])
            elif found:  # rows that do not tell may be of any record that was handed over
                at = log.end if log.committed is None else log.committed
                told = links is None and tp in before  # how far the table has come
                mine[tp] = replace(log, rows=found, least=log.least if told else max(log.least, at))
    after = resolved(read.view, mine, decision.choice)
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


def _starts(tags: Sequence[UnitTag], tp: TopicPartition, topic_id: str) -> tuple[int, ...]:
    """The offsets at which units of a topic-partition begin."""
    mine = (tp.topic, tp.partition, topic_id)
    return tuple(tag.start for tag in tags if (tag.topic, tag.partition, tag.topic_id) == mine)
