"""Stores again what tables hold, from their own rows, when their chains and the group were lost.

Rules:
- Each offset from the log's start to a table's last row has a row; or Kafka has no record there; or the mirror skips
  the record (``errors.on_bad_value``, ``errors.on_tombstone``).  Otherwise it is refused: a record may be lost.
- What Kafka no longer holds cannot be compared; nobody could land it any more.
- Each table is looked at by itself, and all of them are looked at: the next start sets the group to the table that
  reaches furthest, and the others get from Kafka what they lack.
- A topic-partition that a table's chain has is left alone.
- It is shown first and carried out afterwards.  Carrying it out fences coordinators that still run, and requires the
  rows that were seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from chsink.errors import ChsinkError, halts, services
from chsink.errors.several import raise_all
from chsink.kafka.exact import ExactReader
from chsink.mirror.control import Names
from chsink.mirror.known_tables import KnownTables, Target
from chsink.mirror.opening import OpenMirror
from chsink.mirror.tables import TableRead
from chsink.mirror.task import Feeds
from chsink.mirror.worker import TableWork
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain, Link
from chsink.statemachine.commit.recover import RowsFound, recovered
from chsink.statemachine.ranges import OffsetRange, TopicPartition

NEAR = 10_000
"""Holes that lie closer than this are read through, rather than sought one by one."""


@dataclass(frozen=True, slots=True)
class LinkFound:
    """What the rows of one table say of a topic-partition.  ``skipped``: records below the last row that the mirror
    leaves out.  ``compared_from``: where Kafka's log starts; nothing below was compared.
    """

    table: str
    tp: TopicPartition
    rows: OffsetRange | None
    link: Link
    skipped: int
    compared_from: int

    def as_dict(self) -> dict[str, object]:
        """For a person or a program."""
        return {
            "table": self.table,
            "topic": self.tp.topic,
            "partition": self.tp.partition,
            "first_row": None if self.rows is None else self.rows.start,
            "last_row": None if self.rows is None else self.rows.end - 1,
            "skipped": self.skipped,
            "compared_from": self.compared_from,
            "continues_at": self.link.until,
        }


@dataclass(frozen=True)
class RowsRead:
    """The tables as they were read, each with its chain, and what their rows say."""

    tables: dict[str, tuple[Target, TableRead, Chain]]
    found: tuple[LinkFound, ...]


def survey(mirror: OpenMirror, reader: ExactReader) -> RowsRead:
    """What the rows say of each topic-partition that its table's chain does not have.  Changes nothing.

    Raises all refusals as one ChsinkError, ``Halted``, and the outcomes of :mod:`chsink.mirror.control` and ``tables``.
    """
    feeds = mirror.feeds()
    known = KnownTables(mirror.targets, mirror.names.topic)
    tps = mirror.kafka.partitions(mirror.config.mirror.topics)
    starts, ends = mirror.kafka.log_starts(tps), mirror.kafka.log_ends(tps)
    logs = {tp: OffsetRange(starts[tp], max(starts[tp], ends[tp])) for tp in tps}
    begins = mirror.config.kafka.starting_offsets != "latest"
    look = _Look(feeds, reader, logs, begins)
    tables = {name: (target, *known.read(name)) for name, target in mirror.targets.items()}
    found: list[LinkFound] = []
    refused: list[ChsinkError] = []
    for name, (target, read, chain) in tables.items():
        for topic in sorted(target.topics):
            unknown = [tp for tp in tps if tp.topic == topic and tp not in chain.links]
            for one in look.at(name, target, read, unknown) if unknown else ():
                (found if isinstance(one, LinkFound) else refused).append(one)  # type: ignore[arg-type] # by its type
    raise_all(refused)
    return RowsRead(tables, tuple(found))


def carry_out(names: Names, rows: RowsRead) -> None:
    """Store what was found.  Raises as :func:`survey`, and services.MIRROR_COMMITS_FAIL if a table has changed."""
    with names.sender(names.coordinator_id, names.control_group):
        for name, (target, read, chain) in rows.tables.items():
            links = {one.tp: one.link for one in rows.found if one.table == name}
            if links:
                done = target.table.decide(read, replace(chain, links={**chain.links, **links}), uuid.uuid4())
                if done.outcome is not Outcome.APPLIED:
                    raise services.MIRROR_COMMITS_FAIL(table=name, rounds=1, reason=done.reason)


@dataclass(frozen=True)
class _Look:
    """What one survey reads with."""

    feeds: Feeds
    reader: ExactReader
    logs: dict[TopicPartition, OffsetRange]
    begins: bool

    def at(
        self, name: str, target: Target, read: TableRead, tps: Sequence[TopicPartition]
    ) -> Iterator[LinkFound | ChsinkError]:
        """What the rows of a table say of partitions of one topic, or why they do not say enough."""
        topic = tps[0].topic
        held = target.table.row_ranges(read, target.topics, topic, [tp.partition for tp in tps])
        if held is None:
            yield halts.MIRROR_ROWS_TELL_NOTHING(table=name, topic=topic)
            return
        for tp in tps:
            yield self._of(name, tp, held[tp.partition])

    def _of(self, name: str, tp: TopicPartition, held: Sequence[OffsetRange]) -> LinkFound | ChsinkError:
        log, rows = self.logs[tp], OffsetRange(held[0].start, held[-1].end) if held else None
        seen = _Seen()
        if rows is not None and rows.end <= log.end:
            first = log.start if self.begins else max(log.start, rows.start)
            seen = self._compared(self.feeds.table(tp, name), tp, _gaps(held, first))
        topic_id = self.feeds.topic_ids[tp.topic]
        rule, link = recovered(RowsFound(topic_id, log, rows, seen.lacking, self.begins))
        if link is not None:
            return LinkFound(name, tp, rows, link, seen.skipped, log.start)
        assert rows is not None
        if rule == "BEYOND_LOG":
            return halts.MIRROR_ROWS_BEYOND_LOG(tp=tp, table=name, row=rows.end - 1, end=log.end)
        return halts.MIRROR_ROWS_LACK(tp=tp, table=name, offset=seen.lacking, row=rows.end - 1)

    def _compared(self, work: TableWork, tp: TopicPartition, gaps: Sequence[OffsetRange]) -> _Seen:
        """The records of the gaps, decoded as a worker does it."""
        starts = np.array([gap.start for gap in gaps], np.int64)
        ends = np.array([gap.end for gap in gaps], np.int64)
        seen = _Seen()
        for window in _windows(gaps):
            for part in self.reader.read(tp, window):
                offsets = part.records.column("offset").to_numpy()
                at = np.searchsorted(starts, offsets, side="right") - 1
                inside = (at >= 0) & (offsets < ends[at])
                if inside.any() and not self._skips(work, part.records.filter(pa.array(inside)), seen):
                    return seen
        return seen

    def _skips(self, work: TableWork, records: pa.RecordBatch, seen: _Seen) -> bool:
        """Whether none of these records has a row, by the job file."""
        decoded = work.columns.decode(records)
        halting = {
            bad.row
            for bad in decoded.bad
            if self.feeds.halt_on_bad_value and not (bad.tombstone and self.feeds.skip_tombstones)
        }
        lacking = [*decoded.rows.to_pylist(), *halting]
        seen.skipped += len(decoded.bad) - len(halting)
        if lacking:
            seen.lacking = records.column("offset")[min(lacking)].as_py()
        return not lacking


@dataclass(slots=True)
class _Seen:
    lacking: int | None = None
    skipped: int = 0


def _gaps(held: Sequence[OffsetRange], start: int) -> list[OffsetRange]:
    """The offsets without a row, from ``start`` to the last row."""
    gaps = []
    for one in held:
        if one.start > start:
            gaps.append(OffsetRange(start, one.start))
        start = max(start, one.end)
    return gaps


def _windows(gaps: Sequence[OffsetRange]) -> list[OffsetRange]:
    """What has to be read of Kafka."""
    windows: list[OffsetRange] = []
    for gap in gaps:
        if windows and gap.start - windows[-1].end <= NEAR:
            windows[-1] = OffsetRange(windows[-1].start, gap.end)
        else:
            windows.append(gap)
    return windows
