"""Commits the handed-over units that one table takes.

Rules:
- The table's chain decides which units it takes (``chsink.statemachine.commit``).  The commit requires the head, uuid
  and spec that were read with the chain.
- An outcome is never assumed: unless the catalog says that a commit was applied, the table is read again and its chain
  decides.
- Another program may delete a handed-over file: its unit is dropped, and the range is read again.  The other units
  are committed at once: a last commit before a halt has no next round.  So they are before the halt, too, if Kafka no
  longer holds the records of one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from chsink.mirror.buffer import Buffer
from chsink.mirror.known_tables import ATTEMPTS, KnownTables
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import CatalogFailed, Committed, TableRead
from chsink.ports import KafkaCluster, Outcome
from chsink.statemachine.commit.chain import Chain
from chsink.statemachine.commit.plan import Kind, TablePlan, plan_commit
from chsink.statemachine.commit.rounds import Reached, low_watermark, valid_through
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.commit.units import DamagedUnit, Unit
from chsink.statemachine.ranges import TopicPartition


@dataclass(frozen=True)
class Present:
    """A commit round as its tables see it: its id and answers, and how far the coordinator has read.

    ``positions`` are of the control topic, whose id is ``control_id``; ``whole``: all topic-partitions answered.
    """

    commit_id: uuid.UUID
    answers: Mapping[TopicPartition, Reached]
    assigned: Sequence[TopicPartition]
    positions: Mapping[int, int]
    control_id: str
    whole: bool


class TableCommits:
    """``failures`` are the reasons of failed rounds in a row, by table.  Tables may be committed in parallel."""

    def __init__(
        self, tables: KnownTables, buffer: Buffer, source: KafkaCluster, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._tables, self._buffer, self._source, self._log = tables, buffer, source, log
        self.failures: dict[str, list[str]] = {}

    def units(self, name: str) -> tuple[Unit, ...]:
        """The table's units that were read and not yet committed.  Raises :class:`Halted`."""
        try:
            return self._buffer.units(name)
        except DamagedUnit as error:
            raise self._tables.halted(name, CommitHalt.EVENTS_DAMAGED, str(error)) from error

    def commit(self, name: str, at: Present) -> tuple[int | None, int | None]:
        """The table's new snapshot, if it got one, and up to when it is complete.  Raises :class:`Halted`."""
        lost: list[Halted] = []
        done = self._commit(name, at, lost)
        for halted in lost:
            raise halted
        return done

    def _commit(self, name: str, at: Present, lost: list[Halted]) -> tuple[int | None, int | None]:
        offered: dict[int, int | None] = {}
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                read, chain = self._tables.read(name)
            except CatalogFailed as error:
                reason = str(error)
                self._log.warning("a table cannot be read", table=name, reason=reason)
                break
            self._check_known(name, chain, at.assigned)
            plan = plan_commit(read.view, chain, self.units(name))
            if plan.halt is not None:
                raise self._tables.halted(name, plan.halt, str(plan.at))
            self._buffer.forget(name, [unit for _, unit in plan.dropped])
            if plan.kind is Kind.NOTHING:
                self.failures.pop(name, None)
                # one of the attempts without an answer may have been applied: then the chain names its snapshot
                mine = chain.snapshot_id if chain.snapshot_id in offered else None
                return mine, None if mine is None else offered[mine]
            try:
                if reason := self._without_deleted(name, read, plan, lost):
                    continue
            except CatalogFailed as error:
                reason = str(error)
                break
            valid = self._valid_through(name, at, plan)
            done = self.offer(name, (read, chain), plan, at, valid)
            reason = done.reason
            if done.outcome is Outcome.APPLIED:
                self._buffer.forget(name, plan.taken)
                self._tables.links[name] = plan.links
                self.failures.pop(name, None)
                return done.snapshot_id, valid
            if done.snapshot_id is not None:
                offered[done.snapshot_id] = valid
        self.failures.setdefault(name, []).append(reason)
        return None, None

    def _check_known(self, name: str, chain: Chain, assigned: Sequence[TopicPartition]) -> None:
        """Halt unless the table still knows every topic-partition: the origins were stored before the first round."""
        for tp in assigned:
            if tp.topic in self._tables.targets[name].topics and tp not in chain.links:
                raise self._tables.halted(name, CommitHalt.CHAIN_MISSING, str(tp))

    def _without_deleted(self, name: str, read: TableRead, plan: TablePlan, lost: list[Halted]) -> str:
        """Which files of the plan are gone; "" if none is.  Drops their units: the offsets are holes then, or ``lost``.

        Raises CatalogFailed when that is unknown.
        """
        gone = self._tables.targets[name].table.missing(read, plan.files)
        if not gone:
            return ""
        units = [unit for unit in plan.taken if not gone.isdisjoint(unit.files)]
        try:  # a backfill's next piece begins where Kafka's log does
            self._check_readable(name, [u for u in units if u.range.end > self._tables.links[name][u.head.tp].origin])
        except Halted as halted:
            lost.append(halted)
        self._buffer.forget(name, units)
        said = f"another program deleted {len(gone)} data files before they were committed, such as {min(gone)}"
        what = "data files are gone" if lost else "data files are gone; reading their records again"
        self._log.warning(what, table=name, reason=said)
        return said

    def _check_readable(self, name: str, units: Sequence[Unit]) -> None:
        """Halt unless Kafka still holds the records of these units."""
        starts = self._source.log_starts([unit.head.tp for unit in units])
        ids = self._source.topic_ids(sorted({unit.head.tp.topic for unit in units}))
        for unit in units:
            tp = unit.head.tp
            if (ids[tp.topic] or "") != unit.head.topic_id or starts[tp] > unit.range.start:
                raise self._tables.halted(name, CommitHalt.FILES_GONE, f"{tp}, offsets {unit.range}")

    def offer(
        self, name: str, reading: tuple[TableRead, Chain], plan: TablePlan, at: Present, valid: int | None
    ) -> Committed:
        """Send the plan to the catalog; the commit requires the table's head, uuid and spec in ``reading``."""
        (read, chain), table = reading, self._tables.targets[name].table
        control = low_watermark(at.positions, plan.waiting, {})
        skipped = chain.skipped + self._buffer.skipped(plan.taken)
        after = replace(chain, links=plan.links, control_id=at.control_id, control=control, skipped=skipped)
        if plan.kind is Kind.MOVE:
            return table.move(read, after, at.commit_id)
        files = self._buffer.data_files(plan.files)
        done = table.append(read, files, after, at.commit_id, valid)
        if done.outcome is Outcome.APPLIED:
            rows = sum(file.record_count for file in files)
            self._log.info("committed", table=name, snapshot=done.snapshot_id, files=len(files), rows=rows)
        else:
            self._log.warning("a commit was not applied", table=name, outcome=done.outcome.value, reason=done.reason)
        return done

    def _valid_through(self, name: str, at: Present, plan: TablePlan) -> int | None:
        newest = self._buffer.newest_ms(plan.taken)
        mine = [tp for tp in at.assigned if tp.topic in self._tables.targets[name].topics]
        answers = {tp: replace(r, timestamp_ms=newest.get(tp)) for tp, r in at.answers.items()}
        return valid_through(at.whole, mine, answers, plan)
