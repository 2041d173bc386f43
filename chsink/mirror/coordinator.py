"""The coordinator: opens rounds, reads what was handed over, commits it to the tables, forgets what all tables hold.

Rules:
- It keeps nothing that it cannot read again.  After any error, start it again.
- Events written for another table or topic of the same name are ignored: their offsets are read again.  A table that
  is recreated while a coordinator runs halts it.
- So are events with a file that was not written for their range: its records may be in the table, or come with
  another event.
- It reads the group's offsets first, then the control topic's ends, open transactions included.  Once it has read up
  to those ends, it has every event of those offsets; any other event of them is lost.

Where topic-partitions start: :mod:`beginnings`.  What one table takes: :mod:`table_commits`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic

import structlog

from chsink import failpoints
from chsink.errors import ChsinkError, HaltError, halts, services
from chsink.errors.several import raise_all
from chsink.mirror import trail
from chsink.mirror.beginnings import COMMITS_FIRST, Beginnings
from chsink.mirror.buffer import Buffer
from chsink.mirror.commit_pool import CommitPool
from chsink.mirror.control import Names, at_once
from chsink.mirror.events import (
    NOW,
    CommitComplete,
    CommitToTable,
    DamagedEvent,
    DataComplete,
    DataWritten,
    Event,
    PartitionAnswer,
    Payload,
    StartCommit,
    decode,
    encode,
)
from chsink.mirror.given_up import GivenUp
from chsink.mirror.known_tables import Hole, KnownTables, Target
from chsink.mirror.stop_reasons import Halted, Hanging, Stuck
from chsink.mirror.table_commits import Present, TableCommits
from chsink.mirror.unrouted import Unrouted
from chsink.ports import Clock, KafkaCluster
from chsink.statemachine.commit.chain import Links
from chsink.statemachine.commit.plan import backfills, holes
from chsink.statemachine.commit.rounds import CommitPace, Due, Reached, RoundView, answered, due, low_watermark
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.commit.units import Position
from chsink.statemachine.ranges import OffsetRange, TopicPartition

STUCK_AFTER = 5
"""The coordinator stops after so many rounds in a row in which a table could not be committed."""
HANGS_AFTER_MS = 300_000
"""Far beyond the 20 s after which the broker aborts a mirror's transaction."""
REREAD_MS, REREAD_OFFSETS, FIRST_OFFSETS = 10_000, 1_000_000, 10_000
"""Between two rounds, how long holes are read again, and how much of each: at most, and before the speed is known."""
KEY = "coordinator"


@dataclass
class _Round:
    commit_id: uuid.UUID
    began_ms: int
    handed_over: Mapping[TopicPartition, int | None]
    ends: Mapping[int, int]
    answers: dict[TopicPartition, Reached] = field(default_factory=dict)


class Coordinator:
    """One coordinator.  ``reread`` hands over a hole; ``targets`` are keyed by table identifier; ``pool`` opens several
    producers in parallel.  For ``at_latest``, ``matched`` and ``added_now``, see :class:`Beginnings`.
    ``under_way``: the topic-partitions that workers of this driver hand over now.  ``commits`` counts snapshots;
    ``threads``: how many tables are committed at the same time.
    """

    def __init__(
        self,
        names: Names,
        targets: Mapping[str, Target],
        source: KafkaCluster,
        *,
        clock: Clock,
        pace: CommitPace,
        reread: Callable[[Hole], None],
        log: structlog.typing.FilteringBoundLogger,
        at_latest: bool = False,
        matched: Collection[str] = (),
        added_now: bool = False,
        pool: Callable[[], Executor] = at_once,
        under_way: Callable[[], Collection[TopicPartition]] = tuple,
        threads: int = 1,
    ) -> None:
        self.names, self.source = names, source
        self.clock, self.pace, self.reread, self.log = clock, pace, reread, log
        self.buffer = Buffer()
        self.rounds = self.commits = 0
        self.tables = KnownTables(targets, names.topic, threads)
        self._commits: CommitPool[tuple[uuid.UUID, int | None, int | None]] = CommitPool(threads)
        self.table_commits = TableCommits(self.tables, self.buffer, source, log)
        self._beginnings = Beginnings(
            names,
            self.tables,
            source,
            at_latest=at_latest,
            matched=matched,
            added_now=added_now,
            pool=pool,
            under_way=under_way,
        )
        self._open: _Round | None = None
        self._piece = FIRST_OFFSETS
        self._asked = False
        self._unfilled: set[tuple[str, TopicPartition]] = set()
        self._given_up = GivenUp(log)
        self._held_up: dict[int, tuple[int, int]] = {}
        self._last_ends: dict[int, int] | None = None
        self._unrouted: Unrouted | None = None
        self._closing = ExitStack()

    @property
    def targets(self) -> Mapping[str, Target]:
        """The tables to commit, by identifier."""
        return self.tables.targets

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The topic-partitions that started."""
        return self._beginnings.assigned

    # --- start --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fence older coordinators, settle where topic-partitions start, and find the positions to read from.

        Raises :class:`Halted`, and the outcomes of :mod:`chsink.mirror.control`.
        """
        self.sender = self.names.sender(self.names.coordinator_id, self.names.control_group)
        self._closing.callback(self.sender.close)
        self.reader = self.names.reader()
        self._closing.callback(self.reader.close)
        self.group = self.names.offsets()
        self._closing.callback(self.group.close)
        self.control_id = self.source.topic_ids([self.names.topic])[self.names.topic] or ""
        lost: Halted | None = None
        try:
            self._beginnings.settle(self.group)
        except Halted as halted:
            if halted.why not in COMMITS_FIRST:
                raise
            lost = halted
        with self.tables.beside(self._beginnings.left if lost else ()):
            self.positions = self._where_to_read()
            self.stored = dict(self.positions)
            self.reader.read_from(self.positions)
            self._last_ms = self.clock.now_ms()
            if lost is not None:
                self._commit_also_unrouted()
        self._beginnings.waiting = False
        if lost is not None:  # the tables may lack nothing any more
            self._beginnings.settle(self.group)
        self._say_unfenced()
        self._check_ends()

    def _say_unfenced(self) -> None:
        if unfenced := self._beginnings.unfenced:
            known = {"tps": ", ".join(map(str, sorted(unfenced))), "reason": next(iter(unfenced.values()))}
            said = services.MIRROR_NOT_FENCED(**known)
            self.log.warning("topic-partitions wait", id=said.id, reason=said.message, fix=said.hint)

    def _commit_rest(self) -> None:
        """Commit all handed-over records: those of a topic that was recreated or lost records cannot be read again.

        Raises Unanswered, Hanging or Stuck if this fails: who then resolves the halt would give these records up.
        """
        self._commit_read(self._read_rest())

    def _commit_also_unrouted(self) -> None:
        """The same, also for tables that shared a topic and that no route names any more; see :mod:`unrouted`."""
        self._unrouted = unrouted = Unrouted()
        ends = self._read_rest()
        taken = unrouted.take(self.group)
        there = [name for name in sorted({event.table for event in taken}) if self.tables.left(name)]
        with self.tables.beside(there):
            self.tables.reads(there)
            for event in taken:
                if event.table not in there:
                    self._given_up.add(event.written, event.table)
                elif self._fits(event.written, event.table):
                    self.buffer.add(event.written, event.table, event.at)
            self._commit_read(ends)
            for name in there:
                self.buffer.forget(name, self.buffer.units(name))
        self._unrouted = None

    def _read_rest(self) -> dict[int, int]:
        """Read the control topic to its ends, and return these."""
        ends, idle = {number: end for number, (_, end) in self.reader.logs().items()}, 0
        while any(self.positions[p] < end for p, end in ends.items()):
            before = self.positions
            self._read_events(1.0)
            idle = idle + 1 if self.positions == before else 0
            if idle >= trail.STALLED_S:
                raise trail.unread(self.names, self.reader, self.positions, ends)
        return ends

    def _commit_read(self, ends: Mapping[int, int]) -> None:
        self._given_up.say()
        self._open = _Round(uuid.uuid4(), self.clock.now_ms(), {}, ends)
        self._commit_round(whole=False, because="LAST", patience_s=None)
        for name, reasons in self.table_commits.failures.items():
            raise Stuck(name, len(reasons), reasons[-1])

    def _check_ends(self) -> None:
        """Halt, after a last commit, if a log ends below a table's ``until``: Kafka will assign these offsets again."""
        held = [(name, tp, link) for name, links in self.tables.links.items() for tp, link in links.items()]
        known = [(name, tp, link) for name, tp, link in held if tp in self.assigned and tp in self._beginnings.found]
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
            raise self.tables.halted(tables, CommitHalt.LOG_SHRANK, detail)

    def take_up(self) -> None:
        """Start the topic-partitions that are new, or for which the group has no offset (any more), or one that Kafka
        no longer holds.  Raises as :meth:`start`.
        """
        try:
            self._beginnings.settle(self.group)
        except Halted as halted:
            if halted.why in COMMITS_FIRST:
                self._commit_rest()
            raise
        self._say_unfenced()

    def behind(self) -> bool:
        """Whether a table lacks offsets that were handed over: the group passed them, or a unit brings them.  Ask once
        nothing more is handed over: what the control topic held at the first question is read before the answer is no.
        """
        if self._last_ends is None:
            self._last_ends = {number: end for number, (_, end) in self.reader.logs().items()}
        if any(self.positions.get(number, 0) < end for number, end in self._last_ends.items()):
            return True
        reached = {tp: at or 0 for tp, at in self._reached().items()}
        return any(self._lacks(name, links, reached) for name, links in self.tables.links.items())

    def fills_back(self) -> bool:
        """Whether a table lacks earlier records that a person asked for and Kafka holds."""
        return bool(self._backfills(list(self.targets), 1, waiting=False))

    def _reached(self) -> dict[TopicPartition, int | None]:
        """The offsets up to which records were handed over.  A group may be set beyond the end of a log: what is not
        written yet was not handed over.
        """
        group, ends = self.group.committed(self.assigned), self.source.log_ends(self.assigned)
        return {tp: None if at is None else min(at, ends[tp]) for tp, at in group.items()}

    def _lacks(self, name: str, links: Links, reached: Mapping[TopicPartition, int]) -> bool:
        """Whether a table does not hold what was reached, or what its units bring, of the topics that feed it."""
        ends = [(unit.head.tp, unit.range.end) for unit in self.table_commits.units(name) if unit.whole]
        mine = {tp: link for tp, link in links.items() if tp in reached and tp.topic in self.targets[name].topics}
        return any(tp in mine and mine[tp].until < end for tp, end in [*reached.items(), *ends])

    def close(self) -> None:
        """Release connections, also after a start that failed."""
        self._commits.close()
        self._closing.close()

    def _where_to_read(self) -> dict[int, int]:
        """By partition: the coordinators' offset, else the least that tables stored for this topic, else its start."""
        logs = self.reader.logs()
        group = self.sender.committed(TopicPartition(self.names.topic, number) for number in logs)
        chains = [chain for _, chain in self.tables.reads(list(self.targets)).values()]
        positions = {}
        for number, (first, end) in logs.items():
            stored = [chain.control.get(number, 0) if chain.control_id == self.control_id else 0 for chain in chains]
            at = group[TopicPartition(self.names.topic, number)]
            at = min(stored, default=0) if at is None else at
            positions[number] = at if first <= at <= end else first
        return positions

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
        since = self.pace.interval_ms if self._asked else now - self._last_ms
        rule, what = due(RoundView(self.pace, since, age, self._complete(), self.buffer.files))
        if what is Due.START:
            self._start_round(now)
        elif what is not Due.WAIT:
            patience_s, opened = self.pace.timeout_ms / 1000, self._open
            self._commit_round(whole=what is Due.COMMIT_WHOLE, because=rule, patience_s=patience_s)
            assert opened is not None
            self._find_holes(opened)

    def _read_events(self, wait_s: float) -> None:
        for partition, offset, value in self.reader.poll(wait_s):
            self._take(Position(partition, offset), value)
        self.positions = self.reader.positions(self.positions)

    def _check_hanging(self, now: int) -> None:
        """Raise if an event that a round could not read is still unread long after.  Tables take the rest meanwhile."""
        for number, (at, since) in list(self._held_up.items()):
            if self.positions[number] != at:
                del self._held_up[number]
            elif now - since >= HANGS_AFTER_MS:
                found = self.reader.uncommitted(number, at)
                by = trail.NO_CHSINK if found is None else trail.producer(*found)
                raise Hanging(number, at, (now - since) // 60_000, by)

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
                name = ".".join((*written.table.namespace, written.table.name))
                if name in self._beginnings.dropped:
                    self._given_up.add(written, name)
                elif name in self.targets and self._fits(written, name):
                    self.buffer.add(written, name, at)
                elif name not in self.targets and self._unrouted is not None:
                    self._unrouted.add(written, name, at)
            case DataComplete() as complete:
                if self._open is not None and complete.commit_id == self._open.commit_id:
                    for a in complete.answers:
                        self._open.answers[TopicPartition(a.topic, a.partition)] = Reached(a.offset, None)
            case StartCommit(commit_id) if commit_id == NOW:
                self._asked = True  # an open round began before
            case _:
                pass

    def _fits(self, written: DataWritten, name: str) -> bool:
        """Whether the files were written for the present table and topic."""
        tag = written.tag
        if tag is None:
            return False
        tp = TopicPartition(tag.topic, tag.partition)  # its own link is asked first
        links = self.tables.links[name]
        held = (link.topic_id for at, link in ((tp, links.get(tp)), *links.items()) if link and at.topic == tag.topic)
        topic_id = next(held, self._beginnings.topic_ids.get(tag.topic, tag.topic_id))
        if tag.table_uuid != self.tables.uuids[name] or tag.topic_id != topic_id:
            self.log.warning("ignoring an event of an earlier table or topic", table=name, unit=tag.unit)
            if name in self._beginnings.left:
                self._given_up.add(written, name)
            return False
        if not written.own:
            self.log.warning("ignoring an event whose files belong to another unit", table=name, unit=tag.unit)
        return written.own

    def _complete(self) -> bool:
        if self._open is None or self._beginnings.unfenced:  # nobody knows what those that wait would hand over
            return False
        if all(self.positions[number] >= end for number, end in self._open.ends.items()):  # what lacks now is a hole
            return answered(self.assigned, self._open.answers, ())
        tables = [(links, self.table_commits.units(name)) for name, links in self.tables.links.items()]
        return answered(self.assigned, self._open.answers, tables)

    def _start_round(self, now: int) -> None:
        """Open a round, and answer it for all topic-partitions: their tasks may have ended."""
        self._asked = False
        self.take_up()
        self._check_ends()
        commit_id = uuid.uuid4()
        handed_over = self._reached()
        ends = self._followed(self.reader.logs())
        new = {tp: self._new(tp, handed_over[tp]) for tp in self.assigned}
        answers = tuple(PartitionAnswer(tp.topic, tp.partition, offset, None) for tp, offset in new.items())
        self.sender.send(KEY, [self._event(StartCommit(commit_id)), self._event(DataComplete(commit_id, answers))], {})
        self._open = _Round(commit_id, now, handed_over, ends)

    def _followed(self, logs: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """The control topic's ends.  Partitions that were added to it are read from their start."""
        added = {number: first for number, (first, _) in logs.items() if number not in self.positions}
        if added:
            self.positions = self.positions | added
            self.stored |= added
            self.reader.read_from(self.positions)
        return {number: end for number, (_, end) in logs.items()}

    def _new(self, tp: TopicPartition, handed_over: int | None) -> int | None:
        """The offset handed over; None if every table already holds everything below it."""
        held = [links[tp].until for links in self.tables.links.values() if tp in links]
        return None if handed_over is None or min(held, default=0) >= handed_over else handed_over

    def _event(self, payload: Payload) -> bytes:
        return encode(Event(uuid.uuid4(), datetime.now(UTC), self.names.group, payload))

    # --- commits ------------------------------------------------------------------------------------------------------

    def _commit_round(self, *, whole: bool, because: str, patience_s: float | None) -> None:
        """Commit every table, then forget the events that all tables hold; a failed table tries again next round.  So
        does one whose commit takes longer than ``patience_s``, once that has ended.
        """
        opened = self._open
        assert opened is not None
        present = Present(opened.commit_id, opened.answers, self.assigned, self.positions, self.control_id, whole)
        done, through = self._commit_tables(present, patience_s)
        if done:
            failpoints.reach("coordinator.after_tables")
        failed = self._failed()
        if not failed:
            least = None if None in through else min(through, default=None)  # type: ignore[type-var]
            done.append(self._event(CommitComplete(opened.commit_id, _time(least))))
        read = self.positions | (self._unrouted.first if self._unrouted else {})
        marks = {} if failed else low_watermark(read, self.buffer.all_units(), self.stored)
        topic = self.names.topic
        self.sender.send(KEY, done, {TopicPartition(topic, p): at for p, at in marks.items()})
        self.stored.update(marks)
        self._open, self._last_ms = None, self.clock.now_ms()
        for number, end in opened.ends.items():
            if self.positions[number] < end:
                self._held_up.setdefault(number, (self.positions[number], self._last_ms))
        self.rounds += 1
        self.log.debug("round", commit=str(opened.commit_id), because=because, failed=failed)
        for name, reasons in list(self.table_commits.failures.items()):
            if len(reasons) >= STUCK_AFTER:
                raise Stuck(name, len(reasons), reasons[-1])

    def _commit_tables(self, present: Present, patience_s: float | None) -> tuple[list[bytes], list[int | None]]:
        """Commit all tables but those whose commits still run.  Returns the events that say so, and up to when each of
        them is complete.  An error is raised once the others are committed.
        """

        def commit(name: str) -> tuple[uuid.UUID, int | None, int | None]:
            return present.commit_id, *self.table_commits.commit(name, present)

        jobs = {name: partial(commit, name) for name in self.targets if name not in self._commits.since}
        events: list[bytes] = []
        through: list[int | None] = []
        errors: list[Exception] = []
        for done in self._commits.finished(jobs, patience_s):
            if done.value is None:
                errors += [] if done.error is None else [done.error]
                continue
            commit_id, snapshot, valid = done.value
            through.append(valid)
            if snapshot is not None:
                self.commits += 1
                told = CommitToTable(commit_id, self.targets[done.name].reference, snapshot, _time(valid))
                events.append(self._event(told))
            if events and self._commits.since:
                failpoints.reach("coordinator.between_tables")
        if errors:
            raise errors[0]
        return events, through

    def _failed(self) -> list[str]:
        """The tables that could not be committed, or whose commit still runs.  Raises :class:`Stuck` if it hangs."""
        failed = [name for name, reasons in list(self.table_commits.failures.items()) if reasons]
        for name, since in self._commits.since.items():
            seconds = int(monotonic() - since)
            self.log.warning("a table's commit takes long; the others go on", table=name, seconds=seconds)
            if seconds * 1000 >= HANGS_AFTER_MS:
                raise Stuck(name, 1, f"its commit did not end within {seconds} s")
            failed.append(name)
        return failed

    # --- holes --------------------------------------------------------------------------------------------------------

    def _find_holes(self, opened: _Round) -> None:
        """Read again the offsets that were handed over before this round and that no event covers: those that the group
        has passed, and those below a unit, as each unit was handed over where the group was.  Commits wait
        meanwhile, so a piece is no longer than the last one suggests.
        """
        if any(self.positions[p] < end for p, end in opened.ends.items()):
            return
        settled = [name for name in self.targets if name not in self._commits.since]
        most = min(self._piece, REREAD_OFFSETS)
        found = [hole for name in settled for hole in self._holes_of(name, opened)]
        found += self._backfills(settled, most, waiting=True)
        halted: list[ChsinkError] = []
        began, left = self.clock.now_ms(), False
        for hole in found:
            if (now := self.clock.now_ms()) > began + REREAD_MS:
                left = True
                break
            piece = OffsetRange(hole.range.start, min(hole.range.end, hole.range.start + most))
            left = left or piece != hole.range or hole.earlier
            what = "filling a table with earlier records" if hole.earlier else "reading a range again"
            self.log.warning(what, table=hole.table, tp=str(hole.tp), range=str(piece))
            try:
                self.reread(replace(hole, range=piece))
            except HaltError as halt:
                if not hole.earlier:
                    halted.append(halt)
                elif halt.name != halts.MIRROR_RECORDS_GONE.name:  # there, the next piece begins later
                    self._unfilled.add((hole.table, hole.tp))
                    said = {"id": halt.id, "reason": halt.message, "fix": halt.hint}
                    self.log.warning("a backfill waits for the next start", table=hole.table, tp=str(hole.tp), **said)
            took = max(1, self.clock.now_ms() - now)
            if piece.length == most or took > REREAD_MS:  # a short piece says nothing of a longer one
                self._piece = max(1, min(10 * most, piece.length * REREAD_MS // took))
        raise_all(halted)
        if left:  # the next round begins at once
            self._last_ms -= self.pace.interval_ms

    def _backfills(self, names: Sequence[str], most: int, *, waiting: bool) -> list[Hole]:
        """The next ``most`` earlier offsets that tables are to be filled with, as far as Kafka still holds them; with
        ``waiting``, but for those that units bring.
        """
        asked = {name: floors for name in names if (floors := self.tables.floors.get(name))}
        if not asked:
            return []
        tps = sorted({tp for floors in asked.values() for tp in floors if tp in self._beginnings.found})
        starts, found = self.source.log_starts(tps), list[Hole]()
        for name, floors in asked.items():
            on = [tp for tp in floors if tp in starts and (name, tp) not in self._unfilled]
            held = {tp: max(floors[tp], starts[tp]) for tp in on}
            units = self.table_commits.units(name) if waiting else ()
            ranges = backfills(self.tables.links[name], units, held, most)
            found += [Hole(name, tp, piece, self.tables.uuids[name], earlier=True) for tp, piece in ranges.items()]
        return found

    def _holes_of(self, name: str, opened: _Round) -> list[Hole]:
        """The holes of one table."""
        topics, units = self.targets[name].topics, self.table_commits.units(name)
        mine = {tp: at for tp, at in opened.handed_over.items() if at is not None and tp.topic in topics}
        for unit in units:
            tp = unit.head.tp
            if tp in mine and unit.whole and all(at.offset < opened.ends.get(at.partition, 0) for at in unit.at):
                mine[tp] = max(mine[tp], unit.range.start)
        found = holes(self.tables.links[name], units, mine)
        return [Hole(name, tp, missing, self.tables.uuids[name]) for tp, missing in found.items()]


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
