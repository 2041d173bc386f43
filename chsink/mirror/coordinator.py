"""The coordinator: asks for answers, reads what was handed over, commits tables, forgets what all tables hold.

Rules:
- It keeps nothing that it cannot read again.  After any error, start it again.
- What a table takes is decided by its chain (``chsink.statemachine.commit``), from a reading that the commit requires.
- An outcome is never assumed: whatever a commit said, the table is read again and its chain decides.
- Events of workers that knew another table, partition spec or topic of the same name are left out: what they brought is
  read again.  A table that changes so while a coordinator runs halts it.
- Files that were handed over may have been deleted since: a unit that lacks one is dropped, and read again.
- It asks for the group's offsets first, then for the control topic's ends, open transactions included: what it has read
  up to those ends holds every event of those offsets, or they are lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

import structlog

from chsink import failpoints
from chsink.mirror.buffer import Buffer
from chsink.mirror.control import Names, Unanswered, at_once
from chsink.mirror.events import (
    Assignment,
    CommitComplete,
    CommitToTable,
    DamagedEvent,
    DataComplete,
    DataWritten,
    Event,
    Payload,
    StartCommit,
    TableReference,
    decode,
    encode,
)
from chsink.mirror.tables import CatalogFailed, Committed, DamagedProperty, MirrorTable, TableRead
from chsink.ports import Clock, Outcome
from chsink.statemachine.commit.chain import Chain, Links, read_chain, with_origin
from chsink.statemachine.commit.handover import Beginning, begin
from chsink.statemachine.commit.plan import Kind, TablePlan, holes, plan_commit
from chsink.statemachine.commit.rounds import Clock as RoundClock
from chsink.statemachine.commit.rounds import (
    Due,
    Pace,
    Reached,
    answered,
    due,
    low_watermark,
    valid_through,
)
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.commit.units import DamagedUnit, Position, Unit
from chsink.statemachine.ranges import OffsetRange, TopicPartition

ATTEMPTS = 5
"""At one commit, while others change the table."""
STUCK_AFTER = 5
"""Rounds in a row in which a table could not be committed."""
HANGS_AFTER_MS = 300_000
"""A transaction of a mirror ends within 20 s, its broker sees to that."""
TOGETHER = 64
"""Topic-partitions that start in one commit of each table.  A producer is open for each of them."""
KEY = "coordinator"


class Halted(Exception):
    """A person has to decide about tables, named with spaces between them.

    ``detail`` depends on ``why``; ``topic`` is the control topic, ``table_property`` the one that is wrong, if one is.
    """

    def __init__(self, table: str, why: CommitHalt, detail: str, *, topic: str, table_property: str) -> None:
        super().__init__(table, why, detail)
        self.table, self.why, self.detail = table, why, detail
        self.topic, self.table_property = topic, table_property


class Stuck(Exception):
    """A table could not be committed for many rounds; other tables were."""

    def __init__(self, table: str, rounds: int, reason: str) -> None:
        super().__init__(table, rounds, reason)
        self.table, self.rounds, self.reason = table, rounds, reason


class Hanging(Exception):
    """A transaction keeps a control partition from being read from an offset on.  ``producer`` opened it."""

    def __init__(self, partition: int, offset: int, minutes: int, producer: str) -> None:
        super().__init__(partition, offset, minutes, producer)
        self.partition, self.offset, self.minutes, self.producer = partition, offset, minutes, producer


class Source(Protocol):
    """What the coordinator asks Kafka about topics (see ``chsink.ports.KafkaCluster``)."""

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str | None]:
        """The id of each topic."""

    def partitions(self, topics: Sequence[str]) -> Sequence[TopicPartition]:
        """The topic-partitions of topics."""

    def log_starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset of each."""

    def log_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offset of each."""


@dataclass(frozen=True)
class Target:
    """One table of the routes, and the topics that feed it."""

    table: MirrorTable
    reference: TableReference
    topics: frozenset[str]


@dataclass
class _Round:
    commit_id: uuid.UUID
    began_ms: int
    handed_over: Mapping[TopicPartition, int | None]
    ends: Mapping[int, int]
    answers: dict[TopicPartition, Reached] = field(default_factory=dict)


@dataclass(frozen=True)
class Identity:
    """What files are written for: another table of the same name, or another partition spec, takes other files."""

    uuid: str
    spec_id: int


@dataclass(frozen=True)
class Hole:
    """What has to be read again, for one table, and for what its files have to be written."""

    table: str
    tp: TopicPartition
    range: OffsetRange
    written_for: Identity


class Coordinator:
    """One coordinator.  ``reread`` hands over a hole; ``targets`` are by the tables' identifiers.  A topic that neither
    the group nor a table knows begins at its ends if ``at_latest``.  ``pool`` opens producers at the same time.
    """

    def __init__(
        self,
        names: Names,
        targets: Mapping[str, Target],
        source: Source,
        *,
        clock: Clock,
        pace: Pace,
        reread: Callable[[Hole], None],
        log: structlog.typing.FilteringBoundLogger,
        at_latest: bool = False,
        pool: Callable[[], Executor] = at_once,
    ) -> None:
        self.names, self.targets, self.source = names, targets, source
        self.clock, self.pace, self.reread, self.log = clock, pace, reread, log
        self.at_latest, self._pool = at_latest, pool
        self.assigned: tuple[TopicPartition, ...] = ()
        self.buffer = Buffer()
        self.commits = 0
        self.rounds = 0
        self._links: dict[str, Links] = {}
        self._failures: dict[str, list[str]] = {}
        self._identities: dict[str, Identity] = {}
        self._topic_ids: dict[str, str] = {}
        self._open: _Round | None = None
        self._held_up: dict[int, tuple[int, int]] = {}
        self._found: frozenset[TopicPartition] = frozenset()
        self._closing = ExitStack()
        self._by_reference = {(t.reference.namespace, t.reference.name): name for name, t in targets.items()}

    # --- start --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fence older coordinators, settle where topic-partitions start, and find where to read on.

        Raises :class:`Halted`, and the outcomes of :mod:`chsink.mirror.control`.
        """
        self.sender = self.names.sender(self.names.coordinator_id, self.names.control_group)
        self._closing.callback(self.sender.close)
        self.reader = self.names.reader()
        self._closing.callback(self.reader.close)
        self.group = self.names.offsets()
        self._closing.callback(self.group.close)
        self.control_id = self.source.topic_ids([self.names.topic])[self.names.topic] or ""
        recreated: Halted | None = None
        try:
            self._settle()
        except Halted as halted:
            if halted.why is not CommitHalt.TOPIC_RECREATED:
                raise
            recreated = halted
        self.positions = self._where_to_read()
        self.stored = dict(self.positions)
        self.reader.read_from(self.positions)
        self._last_ms = self.clock.now_ms()
        if recreated is not None:
            self._commit_rest()
            raise recreated
        self._check_ends()

    def _commit_rest(self) -> None:
        """Commit what was handed over of topics that were deleted, or lost records: nobody can read these again.

        Raises Unanswered and Stuck if that was not possible: a person who resolves the halt would give them up.
        """
        ends = {number: end for number, (_, end) in self.reader.logs().items()}
        for _ in range(max(1, int(self.names.timeout_s))):
            self._read_events(1.0)
            if all(self.positions[p] >= end for p, end in ends.items()):
                break
        else:
            raise Unanswered(f"topic {self.names.topic} could not be read to its end")
        self._open = _Round(uuid.uuid4(), self.clock.now_ms(), {}, ends)
        self._commit_round(whole=False, because="LAST")
        for name, reasons in self._failures.items():
            raise Stuck(name, len(reasons), reasons[-1])

    def _check_ends(self) -> None:
        """Halt, after a last commit, if a log ends before what a table holds of it: its offsets will be used again."""
        held = [(name, tp, link) for name, links in self._links.items() for tp, link in links.items()]
        known = [(name, tp, link) for name, tp, link in held if tp in self.assigned and tp in self._found]
        ends = self.source.log_ends(sorted({tp for _, tp, _ in known}))
        shrunk = [(name, tp, link) for name, tp, link in known if ends[tp] < link.until]
        if not shrunk:
            return
        ids = self.source.topic_ids(sorted({tp.topic for _, tp, _ in shrunk}))
        shrunk = [found for found in shrunk if (ids[found[1].topic] or "") == found[2].topic_id]  # not recreated
        if shrunk:
            self._commit_rest()
            _, tp, link = shrunk[0]
            tables = " ".join(sorted({name for name, _, _ in shrunk}))
            detail = f"{tp}: the log ends at {ends[tp]}, the table holds offsets below {link.until}"
            raise self._halted(tables, CommitHalt.LOG_SHRANK, detail)

    def take_up(self) -> None:
        """Settle where topic-partitions start that are new, or that the group has no offset of (any more).

        Raises as :meth:`start`.
        """
        try:
            self._settle()
        except Halted as halted:
            if halted.why is CommitHalt.TOPIC_RECREATED:
                self._commit_rest()
            raise

    def _settle(self) -> None:
        topics = sorted({topic for target in self.targets.values() for topic in target.topics})
        found = tuple(self.source.partitions(topics))
        self._found = frozenset(found)
        group = self.group.committed(found)
        new = [tp for tp in found if tp not in self.assigned or group[tp] is None]
        if not new:
            return
        ids = self.source.topic_ids(topics)
        starts = dict(self.source.log_starts(new))
        if self.at_latest:
            known = {tp.topic for tp, at in group.items() if at is not None}
            known |= {tp.topic for name in self.targets for tp in self._read(name)[1].links}
            starts |= self.source.log_ends([tp for tp in new if tp.topic not in known])
        known_ids = {topic: found_id or "" for topic, found_id in ids.items()}
        recreated: dict[TopicPartition, Halted] = {}
        for at in range(0, len(new), TOGETHER):
            recreated |= self._begin(new[at : at + TOGETHER], known_ids, starts)
        self.assigned = tuple(tp for tp in found if tp not in recreated)
        for why in recreated.values():
            raise why
        self._topic_ids = known_ids | self._topic_ids

    def behind(self) -> bool:
        """Whether something was handed over that a table does not hold yet, as far as this coordinator knows."""
        group = self.group.committed(self.assigned)
        return any(
            tp in links and links[tp].until < (group[tp] or 0) for links in self._links.values() for tp in self.assigned
        )

    def close(self) -> None:
        """Release connections, also after a start that failed."""
        self._closing.close()

    def _begin(
        self, tps: Sequence[TopicPartition], ids: Mapping[str, str], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Halted]:
        """Where topic-partitions start: in the tables that lack them, then in the group.  What a person has to decide
        about those of a topic that was recreated.

        Each is fenced before the group is read, and moved by the producer that fenced it.
        """
        with ExitStack() as closing, self._pool() as pool:
            opened = pool.map(lambda tp: self.names.sender(self.names.worker_id(tp), self.names.group), tps)
            fenced = {tp: closing.enter_context(sender) for tp, sender in zip(tps, opened, strict=True)}
            committed = fenced[tps[0]].committed(tps)
            begun: dict[TopicPartition, Beginning] = {}
            recreated: dict[TopicPartition, Halted] = {}
            chains = self._chains_of(tps)
            for tp in tps:
                try:
                    begun[tp] = self._begun(tp, ids[tp.topic], committed[tp], starts[tp], chains)
                except Halted as halted:
                    if halted.why is not CommitHalt.TOPIC_RECREATED:
                        raise
                    recreated[tp] = halted
            origins = {tp: (ids[tp.topic], found.origin) for tp, found in begun.items() if found.origin is not None}
            for name in chains:
                mine = {tp: origin for tp, origin in origins.items() if tp.topic in self.targets[name].topics}
                if mine:
                    self._store_origins(name, mine)
            moved = {tp: found.group for tp, found in begun.items() if found.group is not None}
            for sent in [pool.submit(fenced[tp].send, str(tp), [], {tp: group}) for tp, group in moved.items()]:
                sent.result()
            fenced[tps[0]].committed(list(moved))  # others see a transaction a little later: now they do
        return recreated

    def _chains_of(self, tps: Sequence[TopicPartition]) -> dict[str, Chain]:
        """The chains of the tables that take these topic-partitions."""
        topics = {tp.topic for tp in tps}
        return {name: self._read(name)[1] for name, t in self.targets.items() if not topics.isdisjoint(t.topics)}

    def _begun(
        self, tp: TopicPartition, topic_id: str, committed: int | None, starting: int, chains: Mapping[str, Chain]
    ) -> Beginning:
        """Where one starts, decided from what the group and the tables say.  Raises :class:`Halted`."""
        mine = {name: chain.links for name, chain in chains.items() if tp.topic in self.targets[name].topics}
        older = [name for name, links in mine.items() if _knows_another(links, tp.topic, topic_id)]
        if older:  # perhaps by another partition: this one may be new
            raise self._halted(" ".join(older), CommitHalt.TOPIC_RECREATED, str(tp))
        decided = begin(topic_id, committed, [links.get(tp) for links in mine.values()], starting)
        if decided.halt is not None:
            lacking = [name for name, links in mine.items() if tp not in links]
            raise self._halted(" ".join(lacking), decided.halt, str(tp))
        return decided

    def _store_origins(self, name: str, origins: Mapping[TopicPartition, tuple[str, int]]) -> None:
        """In one commit, for those that the table lacks: the topic's id and the first offset."""
        for _ in range(ATTEMPTS):
            read, chain = self._read(name)
            lacking = [tp for tp in origins if tp not in chain.links]
            if not lacking:
                return
            for tp in lacking:
                chain = with_origin(chain, tp, *origins[tp])
            self.targets[name].table.begin(read, chain, lacking)
        raise Stuck(name, 1, "others keep changing the table")

    def _where_to_read(self) -> dict[int, int]:
        """The coordinators' group, else the least that tables stored for this control topic, else its start."""
        logs = self.reader.logs()
        tps = {number: TopicPartition(self.names.topic, number) for number in logs}
        group = self.sender.committed(tps.values())
        chains = [self._read(name)[1] for name in self.targets]
        positions = {}
        for number, (first, end) in logs.items():
            stored = [chain.control.get(number, 0) if chain.control_id == self.control_id else 0 for chain in chains]
            at = group[tps[number]]
            at = min(stored) if at is None else at
            positions[number] = at if first <= at <= end else first
        return positions

    def _halted(self, tables: str, why: CommitHalt, detail: str = "", table_property: str = "") -> Halted:
        keys = next(iter(self.targets.values())).table.keys
        return Halted(tables, why, detail, topic=self.names.topic, table_property=table_property or keys.chain)

    def _read(self, name: str) -> tuple[TableRead, Chain]:
        """The table and its chain, an empty one where it has none."""
        try:
            read = self.targets[name].table.read()
        except DamagedProperty as error:
            raise self._halted(name, CommitHalt.CHAIN_DAMAGED, str(error), error.name) from error
        if read is None:
            raise self._halted(name, CommitHalt.TABLE_GONE)
        now = Identity(read.view.uuid, read.view.spec_id)
        before = self._identities.setdefault(name, now)
        if now != before:
            same = now.uuid == before.uuid
            raise self._halted(name, CommitHalt.SPEC_CHANGED if same else CommitHalt.TABLE_RECREATED)
        reading = read_chain(read.view)
        if reading.halt is not None:
            stored = read.view.stored
            raise self._halted(name, reading.halt, f"snapshot {stored and stored.snapshot_id}")
        chain = reading.chain or Chain()
        self._links[name] = chain.links
        return read, chain

    # --- one step -----------------------------------------------------------------------------------------------------

    def tick(self, wait_s: float = 1.0) -> None:
        """Read for up to ``wait_s``, then do what is due.

        Raises :class:`Halted`, :class:`Stuck`, :class:`Hanging` and the outcomes of :mod:`chsink.mirror.control`.
        """
        self._read_events(wait_s)
        now = self.clock.now_ms()
        self._check_hanging(now)
        self._last_ms = min(self._last_ms, now)  # a clock that was set back must not delay commits until it caught up
        if self._open is not None:
            self._open.began_ms = min(self._open.began_ms, now)
        age = None if self._open is None else now - self._open.began_ms
        rule, what = due(RoundClock(self.pace, now - self._last_ms, age, self._complete(), self.buffer.files))
        if what is Due.START:
            self._start_round(now)
        elif what is not Due.WAIT:
            self._commit_round(whole=what is Due.COMMIT_WHOLE, because=rule)

    def _read_events(self, wait_s: float) -> None:
        for partition, offset, value in self.reader.poll(wait_s):
            self._take(Position(partition, offset), value)
        self.positions = self.reader.positions(self.positions)

    def _check_hanging(self, now: int) -> None:
        """Raise if what a round could not read is not read long after it.  Tables take the rest meanwhile."""
        for number, (at, since) in list(self._held_up.items()):
            if self.positions[number] != at:
                del self._held_up[number]
            elif now - since >= HANGS_AFTER_MS:
                found = self.reader.uncommitted(number, at)
                producer = "a program that is not chsink" if found is None else _producer(*found)
                raise Hanging(number, at, (now - since) // 60_000, producer)

    def _take(self, at: Position, value: bytes) -> None:
        try:
            event = decode(value)
        except DamagedEvent as error:
            self.log.warning("an event of the control topic cannot be read", at=str(at), reason=str(error))
            return
        if event is None or event.group_id != self.names.group:
            return
        match event.payload:
            case DataWritten() as written:
                name = self._by_reference.get((written.table.namespace, written.table.name))
                if name is not None and self._fits(written, name):
                    self.buffer.add(written, name, at)
            case DataComplete() as complete:
                if self._open is not None and complete.commit_id == self._open.commit_id:
                    for a in complete.assignments:
                        self._open.answers[TopicPartition(a.topic, a.partition)] = Reached(a.offset, None)
            case _:
                pass

    def _fits(self, written: DataWritten, name: str) -> bool:
        """Whether files were written for the table, the spec and the topic of today."""
        tag = written.tag
        if tag is None:
            return False
        topic_id = self._topic_ids.get(tag.topic, tag.topic_id)
        fits = (
            Identity(tag.table_uuid, tag.spec_id if written.files else self._identities[name].spec_id)
            == self._identities[name]
            and tag.topic_id == topic_id
        )
        if not fits:
            self.log.warning("ignoring an event of an earlier table or topic", table=name, unit=tag.unit)
        return fits

    def _units(self, name: str) -> tuple[Unit, ...]:
        try:
            return self.buffer.units(name)
        except DamagedUnit as error:
            raise self._halted(name, CommitHalt.EVENTS_DAMAGED, str(error)) from error

    def _complete(self) -> bool:
        if self._open is None:
            return False
        tables = [(links, self._units(name)) for name, links in self._links.items()]
        return answered(self.assigned, self._open.answers, tables)

    def _start_round(self, now: int) -> None:
        """Ask, and answer for all topic-partitions: their tasks may be gone by now."""
        self.take_up()
        self._check_ends()
        commit_id = uuid.uuid4()
        handed_over = self.group.committed(self.assigned)
        ends = self._followed(self.reader.logs())
        new = {tp: self._new(tp, handed_over[tp]) for tp in self.assigned}
        answers = tuple(Assignment(tp.topic, tp.partition, offset, None) for tp, offset in new.items())
        self.sender.send(KEY, [self._event(StartCommit(commit_id)), self._event(DataComplete(commit_id, answers))], {})
        self._open = _Round(commit_id, now, handed_over, ends)

    def _followed(self, logs: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """The ends; partitions that the control topic gained are read from their start."""
        added = {number: first for number, (first, _) in logs.items() if number not in self.positions}
        if added:
            self.positions |= added
            self.stored |= added
            self.reader.read_from(self.positions)
        return {number: end for number, (_, end) in logs.items()}

    def _new(self, tp: TopicPartition, handed_over: int | None) -> int | None:
        """What was handed over, None where every table holds it already."""
        held = [links[tp].until for links in self._links.values() if tp in links]
        return None if handed_over is None or min(held, default=0) >= handed_over else handed_over

    def _event(self, payload: Payload) -> bytes:
        return encode(Event(uuid.uuid4(), datetime.now(UTC), self.names.group, payload))

    # --- commits ------------------------------------------------------------------------------------------------------

    def _commit_round(self, *, whole: bool, because: str) -> None:
        """Commit every table, then forget; what one table could not take stays for the next round."""
        opened = self._open
        assert opened is not None
        done: list[bytes] = []
        through: list[int | None] = []
        for name in self.targets:
            if done:
                failpoints.reach("coordinator.between_tables")
            snapshot, valid = self._commit_table(name, opened, whole=whole)
            through.append(valid)
            if snapshot is not None:
                told = CommitToTable(opened.commit_id, self.targets[name].reference, snapshot, _time(valid))
                done.append(self._event(told))
        if done:
            failpoints.reach("coordinator.after_tables")
        failed = [name for name, reasons in self._failures.items() if reasons]
        if not failed:
            least = None if None in through else min(through, default=None)  # type: ignore[type-var]
            done.append(self._event(CommitComplete(opened.commit_id, _time(least))))
        marks = {} if failed else low_watermark(self.positions, self.buffer.all_units(), self.stored)
        topic = self.names.topic
        self.sender.send(KEY, done, {TopicPartition(topic, p): at for p, at in marks.items()})
        self.stored.update(marks)
        self._open, self._last_ms = None, self.clock.now_ms()
        for number, end in opened.ends.items():
            if self.positions[number] < end:
                self._held_up.setdefault(number, (self.positions[number], self._last_ms))
        self.rounds += 1
        self.log.debug("round", commit=str(opened.commit_id), because=because, failed=failed)
        for name in failed:
            if len(self._failures[name]) >= STUCK_AFTER:
                raise Stuck(name, len(self._failures[name]), self._failures[name][-1])
        self._find_holes(opened)

    def _commit_table(self, name: str, opened: _Round, *, whole: bool) -> tuple[int | None, int | None]:
        """The table's new snapshot, if it got one, and up to when it is complete."""
        valid: int | None = None
        offered: int | None = None
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                read, chain = self._read(name)
            except CatalogFailed as error:
                reason = str(error)
                self.log.warning("a table cannot be read", table=name, reason=reason)
                break
            self._check_known(name, chain)
            plan = plan_commit(read.view, chain, self._units(name))
            if plan.halt is not None:
                raise self._halted(name, plan.halt, plan.because)
            self.buffer.forget(name, [unit for _, unit in plan.dropped])
            if plan.kind is Kind.NOTHING:
                self._failures.pop(name, None)
                # the chain may hold what an attempt whose answer was lost had offered
                return (offered if chain.commit_id == str(opened.commit_id) else None), valid
            if reason := self._deleted(name, read, plan):
                break
            valid = self._valid_through(name, opened, plan, whole=whole)
            done = self._offer(name, (read, chain), plan, opened.commit_id, valid)
            offered, reason = done.snapshot_id, done.reason
            if done.outcome is Outcome.APPLIED:
                self.buffer.forget(name, plan.taken)
                self._links[name] = plan.links
                self._failures.pop(name, None)
                return offered, valid
        self._failures.setdefault(name, []).append(reason)
        return None, None

    def _check_known(self, name: str, chain: Chain) -> None:
        """The table still knows every topic-partition: their origins were stored before the first round."""
        for tp in self.assigned:
            if tp.topic in self.targets[name].topics and tp not in chain.links:
                raise self._halted(name, CommitHalt.CHAIN_MISSING, str(tp))

    def _deleted(self, name: str, read: TableRead, plan: TablePlan) -> str:
        """Which files are gone, or why nobody knows; "" if none is.  Drops their units: their offsets become holes."""
        try:
            gone = self.targets[name].table.missing(read, plan.files)
        except CatalogFailed as error:
            return str(error)
        if not gone:
            return ""
        units = [unit for unit in plan.taken if not gone.isdisjoint(unit.files)]
        self._check_readable(name, units)
        self.buffer.forget(name, units)
        said = f"another program deleted {len(gone)} data files before they were committed, such as {min(gone)}"
        self.log.warning("data files are gone; reading their records again", table=name, reason=said)
        return said

    def _check_readable(self, name: str, units: Sequence[Unit]) -> None:
        """Kafka still holds the records of these units."""
        starts = self.source.log_starts([unit.head.tp for unit in units])
        ids = self.source.topic_ids(sorted({unit.head.tp.topic for unit in units}))
        for unit in units:
            tp = unit.head.tp
            if (ids[tp.topic] or "") != unit.head.topic_id or starts[tp] > unit.range.start:
                raise self._halted(name, CommitHalt.FILES_GONE, f"{tp}, offsets {unit.range}")

    def _offer(
        self, name: str, at: tuple[TableRead, Chain], plan: TablePlan, commit_id: uuid.UUID, valid: int | None
    ) -> Committed:
        (read, chain), table = at, self.targets[name].table
        control = low_watermark(self.positions, plan.waiting, {})
        after = replace(chain, links=plan.links, control_id=self.control_id, control=control)
        if plan.kind is Kind.MOVE:
            return table.move(read, after, commit_id)
        files = self.buffer.data_files(plan.files)
        done = table.append(read, files, after, commit_id, valid)
        self.commits += done.outcome is Outcome.APPLIED
        if done.outcome is Outcome.APPLIED:
            rows = sum(file.record_count for file in files)
            self.log.info("committed", table=name, snapshot=done.snapshot_id, files=len(files), rows=rows)
        else:
            self.log.warning("a commit was not applied", table=name, outcome=done.outcome.value, reason=done.reason)
        return done

    def _valid_through(self, name: str, opened: _Round, plan: TablePlan, *, whole: bool) -> int | None:
        newest = self.buffer.newest_ms(plan.taken)
        mine = [tp for tp in self.assigned if tp.topic in self.targets[name].topics]
        answers = {tp: replace(r, timestamp_ms=newest.get(tp)) for tp, r in opened.answers.items()}
        return valid_through(whole, mine, answers, plan)

    # --- holes --------------------------------------------------------------------------------------------------------

    def _find_holes(self, opened: _Round) -> None:
        """Have read again what the group passed before this round and no event brings."""
        if any(self.positions[p] < end for p, end in opened.ends.items()):
            return
        handed_over = {tp: at for tp, at in opened.handed_over.items() if at is not None}
        for name, target in self.targets.items():
            mine = {tp: at for tp, at in handed_over.items() if tp.topic in target.topics}
            for tp, missing in holes(self._links[name], self._units(name), mine).items():
                self.log.warning("reading a range again", table=name, tp=str(tp), range=str(missing))
                self.reread(Hole(name, tp, missing, self._identities[name]))


def _producer(key: str, value: bytes) -> str:
    """Who sent an event, by its transactional id."""
    try:
        event = decode(value)
    except DamagedEvent:
        event = None
    if event is None:
        return "a program that is not chsink"
    topic, _, number = key.rpartition("-")
    name = f"{event.group_id}/{topic}/{number}" if topic else f"{event.group_id}/{key}"
    return f"the producer with transactional id {name}" + (f" (or {name}/again)" if topic else "")


def _knows_another(links: Links, topic: str, topic_id: str) -> bool:
    return any(tp.topic == topic and link.topic_id != topic_id for tp, link in links.items())


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
