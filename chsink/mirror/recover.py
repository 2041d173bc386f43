"""Stores again what tables hold, from their own rows, when their chains and the group were lost.

Rules:
- Each offset from the log's start to a table's last row has a row; or Kafka has no record there; or the mirror skips
  the record (``errors.on_bad_value``, ``errors.on_tombstone``).  Otherwise it is refused: a record may be lost.
- What Kafka no longer holds cannot be compared; nobody could land it any more.  Nor are records before the first row
  compared where the mirror began at ``latest``.
- Rows that have the timestamps of other records are of an earlier topic of this name.
- Each table is looked at by itself, and all of them are looked at: the next start sets the group to the table that
  reaches furthest, and the others get from Kafka what they lack.  But tables that share a topic by ``table_by`` reach
  equally far: what is no row of one may be one of another.
- A topic-partition that a table's chain has is left alone.
- What is stored is a snapshot, without files: after a rollback of the table to before it, the mirror halts.
- It is shown first and carried out afterwards.  Carrying it out fences coordinators that still run, and requires the
  rows that were seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from chsink.errors import ChsinkError, halts, services
from chsink.errors.several import raise_all
from chsink.kafka.exact import ExactReader
from chsink.kafka.same_records import Times, unlike
from chsink.mirror.choosing import Choosing
from chsink.mirror.control import Names
from chsink.mirror.known_tables import KnownTables, Target
from chsink.mirror.opening import OpenMirror
from chsink.mirror.rows import union
from chsink.mirror.tables import TableRead
from chsink.mirror.task import Feeds
from chsink.mirror.worker import TableWork
from chsink.ports import BadValue, Outcome
from chsink.statemachine.commit.chain import Chain, Link, StoredShare
from chsink.statemachine.commit.recover import RowsFound, recovered
from chsink.statemachine.ranges import OffsetRange, TopicPartition

NEAR = 10_000
"""Holes that lie closer than this are read through, rather than sought one by one."""


@dataclass(frozen=True, slots=True)
class LinkFound:
    """What the rows of one table say of a topic-partition.  ``skipped``: records below the last row that the mirror
    leaves out.  ``compared_from``: nothing below was compared.
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
    tables = {name: (target, *known.read(name)) for name, target in mirror.targets.items()}
    look = _Look(feeds, reader, logs, mirror.config.kafka.starting_offsets != "latest", tables)
    found: list[LinkFound] = []
    refused: list[ChsinkError] = []
    for topic, works in feeds.tables.items():
        shared = tuple(work for work in works if work.choice is not None)
        for group in [*((work,) for work in works if work.choice is None), *([shared] if shared else [])]:
            lacking = {
                tp: [w.table for w in group if tp not in tables[w.table][2].links] for tp in tps if tp.topic == topic
            }
            for one in look.at(group, [tp for tp, names in lacking.items() if names]):
                if not isinstance(one, LinkFound):
                    refused.append(one)
                elif one.table in lacking[one.tp]:
                    found.append(one)
    raise_all(refused)
    return RowsRead(tables, tuple(found))


def carry_out(names: Names, rows: RowsRead) -> None:
    """Store what was found.  Raises as :func:`survey`, and services.MIRROR_COMMITS_FAIL if a table has changed."""
    with names.sender(names.coordinator_id, names.control_group):
        for name, (target, read, chain) in rows.tables.items():
            links = {one.tp: one.link for one in rows.found if one.table == name}
            if links:
                shares = {tp: target.sharing[tp.topic] for tp in links if tp.topic in target.sharing}
                stored = {tp: StoredShare(each, links[tp].until, chain.sequence) for tp, each in shares.items()}
                after = replace(chain, links={**chain.links, **links})
                done = target.table.decide(read, after, uuid.uuid4(), stored)
                if done.outcome is not Outcome.APPLIED:
                    raise services.MIRROR_COMMITS_FAIL(table=name, rounds=1, reason=done.reason)


@dataclass(frozen=True)
class _Look:
    """What one survey reads with."""

    feeds: Feeds
    reader: ExactReader
    logs: dict[TopicPartition, OffsetRange]
    begins: bool
    tables: Mapping[str, tuple[Target, TableRead, Chain]]

    def at(self, works: Sequence[TableWork], tps: Sequence[TopicPartition]) -> Iterator[LinkFound | ChsinkError]:
        """What the rows of a table, or of the tables that share a topic, say of partitions of the topic, or why they do
        not say enough.
        """
        held: dict[str, Mapping[int, Sequence[OffsetRange]]] = {}
        for name in [work.table for work in works] if tps else []:
            target, read, _ = self.tables[name]
            topic = tps[0].topic
            rows = target.table.row_ranges(read, target.topics, topic, [tp.partition for tp in tps])
            if rows is None:
                yield halts.MIRROR_ROWS_TELL_NOTHING(table=name, topic=topic)
                return
            held[name] = rows
        for tp in tps:
            yield from self._of(works, tp, {name: rows[tp.partition] for name, rows in held.items()})

    def _of(
        self, works: Sequence[TableWork], tp: TopicPartition, held: Mapping[str, Sequence[OffsetRange]]
    ) -> Iterator[LinkFound | ChsinkError]:
        log, every = self.logs[tp], union(held.values())
        rows = _span(every)
        first = log.start if self.begins or rows is None else max(log.start, rows.start)
        seen, other = _Seen(), None
        if rows is not None and log.start < rows.end <= log.end:
            span = OffsetRange(max(rows.start, log.start), rows.end)
            offsets = unlike(self.reader, tp, span, lambda part: self._timestamps(held, tp, part))
            other = min(offsets.tolist(), default=None)
            seen = self._compared(works, tp, _gaps(every, first))
        topic_id, choice = self.feeds.topic_ids[tp.topic], self.feeds.choices.get(tp.topic, "")
        rule, link = recovered(RowsFound(topic_id, log, rows, seen.lacking, self.begins, other))
        if link is not None:
            link = replace(link, choice=choice if works[0].choice is not None else "")
            yield from (LinkFound(name, tp, _span(mine), link, seen.skipped, first) for name, mine in held.items())
            return
        assert rows is not None
        known = {"tp": tp, "table": " ".join(held), "row": rows.end - 1}
        match rule:
            case "BEYOND_LOG":
                yield halts.MIRROR_ROWS_BEYOND_LOG(**known, end=log.end)
            case "OTHER_RECORD":
                yield halts.MIRROR_ROWS_OF_OTHERS(table=known["table"], tp=tp, offset=other)
            case _:
                yield halts.MIRROR_ROWS_LACK(**known, offset=seen.lacking)

    def _timestamps(self, tables: Iterable[str], tp: TopicPartition, part: OffsetRange) -> Times:
        """Of the rows of these tables."""
        found = [target.table.timestamps(read, tp, part) for target, read, _ in map(self.tables.__getitem__, tables)]
        return np.concatenate([offsets for offsets, _ in found]), np.concatenate([times for _, times in found])

    def _compared(self, works: Sequence[TableWork], tp: TopicPartition, gaps: Sequence[OffsetRange]) -> _Seen:
        """The records of the gaps, divided and decoded as a worker does it."""
        starts = np.array([gap.start for gap in gaps], np.int64)
        ends = np.array([gap.end for gap in gaps], np.int64)
        choosing, seen = Choosing({work.table: work.choice for work in works}), _Seen()
        for window in _windows(gaps):
            for part in self.reader.read(tp, window):
                offsets = part.records.column("offset").to_numpy()
                at = np.searchsorted(starts, offsets, side="right") - 1
                inside = (at >= 0) & (offsets < ends[at])
                if inside.any():
                    records = part.records.filter(pa.array(inside))
                    chosen = choosing.of(records)
                    for work in works:
                        own, strays = chosen(work.table)
                        self._judge(work, own, records, strays, seen)
                if seen.lacking is not None:
                    return seen
        return seen

    def _judge(
        self,
        work: TableWork,
        own: pa.RecordBatch,
        records: pa.RecordBatch,
        strays: Sequence[BadValue],
        seen: _Seen,
    ) -> None:
        """Note which of these records should have a row, or would have halted the mirror."""
        lacking, wrong = [], [(records, strays)]
        if own.num_rows:
            decoded = work.columns.decode(own)
            lacking = [own.column("offset")[row].as_py() for row in decoded.rows.to_pylist()]
            wrong.append((own, decoded.bad))
        for batch, bad in wrong:
            halting = [each for each in bad if self._halts(each)]
            lacking += (batch.column("offset")[each.row].as_py() for each in halting)
            seen.skipped += len(bad) - len(halting)
        if lacking:
            seen.lacking = min(lacking if seen.lacking is None else [*lacking, seen.lacking])

    def _halts(self, bad: BadValue) -> bool:
        return self.feeds.halt_on_bad_value and not (bad.tombstone and self.feeds.skip_tombstones)


def _span(held: Sequence[OffsetRange]) -> OffsetRange | None:
    return OffsetRange(held[0].start, held[-1].end) if held else None


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
