"""Tables without ``_kafka_*`` columns: all that they hold, against all that landed.

Rules:
- Rows do not say which records they are, so only a whole table can be compared, at a moment when the recorded state
  says exactly what is in it: nothing is in doubt, and nothing changes while the shards are asked.
- The server sums up its rows by bucket (:mod:`chsink.verify.content`), so a table that agrees is never fetched.  Where
  buckets differ, Kafka is read once more, for the records in them; at most ``MOST_COMPARED`` rows are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from chsink.decode import Column
from chsink.errors import preflight
from chsink.kafka.exact import ExactReader
from chsink.statemachine.ranges import TopicPartition
from chsink.verify.by_offset import VerifyProgress
from chsink.verify.compare import I64, Digests
from chsink.verify.content import I32, Placed, Sums, bucket_of, compare_content
from chsink.verify.digests import Digester, Place, takes_defaults
from chsink.verify.report import PartitionReport, TableReport
from chsink.verify.rows import RowMaker
from chsink.verify.scope import Scope

MOST_COMPARED: Final = 1_000_000
"""Rows of both sides together that are compared one by one."""


@dataclass(slots=True, eq=False)
class _Records:
    """Records in some buckets: partition by partition, ascending."""

    digests: list[Digests] = field(default_factory=list)
    shards: list[I32] = field(default_factory=list)
    offsets: list[I64] = field(default_factory=list)
    partitions: list[I64] = field(default_factory=list)


@dataclass(slots=True)
class ContentCheck:
    """One table.  ``makers`` by topic; ``surplus_proves``: a row too many is nothing but a defect."""

    table: str
    places: Sequence[Place]
    makers: Mapping[str, RowMaker]
    digester: Digester
    reader: ExactReader
    any_shard: bool
    surplus_proves: bool
    progress: VerifyProgress

    def check(self, scopes: Mapping[TopicPartition, Scope], there: Sums) -> tuple[list[PartitionReport], TableReport]:
        """Compare all that landed with what the table held."""
        reports = {tp: PartitionReport(tp, self.table, s.judged, list(s.unjudged)) for tp, s in scopes.items()}
        wanted = Sums.empty(len(self.places))
        for report in reports.values():
            for digests, shards, _ in self._records(report, counted=True):
                wanted.add(digests, shards)
        table = TableReport(self.table, int(there.rows.sum()))
        buckets = wanted.differing(there, any_shard=self.any_shard)
        if len(buckets):
            self._compare(reports, table, _affordable(buckets, wanted, there, table))
        return list(reports.values()), table

    def _records(self, report: PartitionReport, *, counted: bool) -> Iterator[tuple[Digests, I32, I64]]:
        """Digests, shards and offsets of what the records become, part by part."""
        tp = report.topic_partition
        for judged in report.judged:
            for part in self.reader.read(tp, judged):
                if part.gone:
                    raise preflight.VERIFY_INCOMPLETE(table=self.table, reason=f"Kafka deleted records of {tp}")
                rows = self.makers[tp.topic].rows(part.records)
                if counted:
                    report.records += rows.records
                    report.without_row += len(rows.rejected)
                    self.progress(tp, part.range.length)
                if rows.batch.num_rows:
                    [digests] = self.digester.of_rows(self.places[0].client, rows.batch, [self.digester.all])
                    yield digests, rows.shards, rows.offsets

    def _compare(self, reports: Mapping[TopicPartition, PartitionReport], table: TableReport, buckets: I64) -> None:
        """Row by row, those in the buckets."""
        mine = _Records()
        for at, report in enumerate(reports.values()):
            for digests, shards, offsets in self._records(report, counted=False):
                inside = np.flatnonzero(np.isin(bucket_of(digests), buckets))
                mine.digests.append(digests[inside])
                mine.shards.append(shards[inside])
                mine.offsets.append(offsets[inside])
                mine.partitions.append(np.full(len(inside), at))
        each = [self.digester.in_buckets(place, buckets) for place in self.places]
        on = np.repeat(np.arange(len(each), dtype=np.int32), [len(digests) for digests in each])
        expected = Placed(_joined(mine.digests, "V16"), _joined(mine.shards, np.int32))
        found = compare_content(expected, Placed(_joined(each, "V16"), on))
        offsets, partitions = _joined(mine.offsets, np.int64), _joined(mine.partitions, np.int64)
        for at, report in enumerate(reports.values()):
            report.missing.add(_of(found.missing, at, offsets, partitions))
            if not self.any_shard:
                report.wrong_shard.add(_of(found.misplaced, at, offsets, partitions))
        if self.surplus_proves:
            table.unexpected = found.surplus
        else:
            table.unproven = found.surplus


def sums_of(places: Sequence[Place], digester: Digester) -> Sums:
    """What the shards hold now."""
    found = Sums.empty(len(places))
    for shard, place in enumerate(places):
        at, sums = digester.sums(place)
        found.rows[shard, at], found.low[shard, at], found.high[shard, at] = sums["rows"], sums["low"], sums["high"]
    return found


def comparable(columns: Sequence[Column]) -> tuple[list[Column], list[str]]:
    """The columns to compare; and the names of those of which the server chooses the values that records lack."""
    chosen = [c for c in columns if takes_defaults(c)]
    return [c for c in columns if c not in chosen], [c.name for c in chosen]


def _affordable(buckets: I64, wanted: Sums, there: Sums, table: TableReport) -> I64:
    """As many of the buckets as may be held; at least one."""
    rows = np.cumsum((wanted.rows.sum(axis=0) + there.rows.sum(axis=0))[buckets])
    most = max(1, int(np.searchsorted(rows, MOST_COMPARED, side="right")))
    table.more = most < len(buckets)
    return buckets[:most]


def _joined(parts: Sequence[np.ndarray], kind: object) -> np.ndarray:
    return np.concatenate([np.empty(0, kind), *parts])  # type: ignore[call-overload]


def _of(positions: I64, partition: int, offsets: I64, partitions: I64) -> I64:
    """The offsets of these rows that belong to a partition, ascending."""
    return np.sort(offsets[positions[partitions[positions] == partition]])
