"""Tables with ``_kafka_*`` columns: record against row, a window of offsets at a time.

Memory is bounded by a part of Kafka's records (:mod:`chsink.kafka.exact`) and by the digests of ``WINDOW`` offsets,
whatever the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from chsink.kafka.exact import ExactReader, Part
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.compare import Differences, Digests, ExcusedDefault, Expected, Found, compare, excusing, joined
from chsink.verify.digests import WIDTH, Digester, Group, Place, groups_of, own_cells
from chsink.verify.letters import Dead, FoundLetters, joined_dead
from chsink.verify.report import PartitionReport
from chsink.verify.rows import RowMaker
from chsink.verify.rules import Rules
from chsink.verify.scope import Scope, SkipReason, Unjudged, without

WINDOW: Final = 1_000_000
"""Offsets of the table that are read at once: each time, a table that is not sorted by offset is read whole."""
NAMED_ROWS: Final = 50
"""Differing rows of a topic-partition whose columns are named."""
VerifyProgress = Callable[[TopicPartition, int], None]
"""Given how many more offsets are done."""


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """What the records of one part become: rows, by digests of these groups of columns, and dead letters."""

    range: OffsetRange
    groups: Sequence[Group]
    rows: Expected
    dead: Dead | None

    def joins(self, others: Sequence[_Made]) -> bool:
        """Whether these parts may be compared with the table at once."""
        length = self.range.end - others[0].range.start
        return self.groups == others[0].groups and length * len(self.groups) <= WINDOW


@dataclass(frozen=True, slots=True, eq=False)
class AddedColumn:
    """A column that was added after rows had landed: by its position, the digest of its default, and the partition's
    first offset whose row has another value (None: there is none).
    """

    name: str
    at: int
    default: Digests
    filled_from: int | None


@dataclass(slots=True)
class OffsetCheck:
    """One topic-partition of a route.  ``places`` are the table on each shard; ``compacted`` says that Kafka may have
    removed records.
    """

    places: Sequence[Place]
    maker: RowMaker
    rules: Rules
    digester: Digester
    reader: ExactReader
    compacted: bool
    any_shard: bool
    progress: VerifyProgress
    letters: FoundLetters | None = None
    added: Sequence[AddedColumn] = ()

    def check(self, tp: TopicPartition, scope: Scope) -> PartitionReport:
        """Compare all that is judged."""
        report = PartitionReport(tp, self.maker.target.name, scope.judged, list(scope.unjudged))
        report.filled_from = {one.name: one.filled_from for one in self.added}
        for judged in scope.judged:
            waiting: list[_Made] = []
            for part in self.reader.read(tp, judged):
                if part.gone:
                    report.unjudged.append(Unjudged(part.range, SkipReason.DELETED))
                    report.judged = tuple(r for kept in report.judged for r in without(kept, [part.range]))
                    made = None
                else:
                    made = self._made(report, part)
                if waiting and not (made and made.joins(waiting)):
                    self._window(report, waiting, scope.older_end)
                    waiting = []
                waiting += [made] if made else []
                self.progress(tp, part.range.length)
            if waiting:
                self._window(report, waiting, scope.older_end)
        self._name_columns(report)
        return report

    def _made(self, report: PartitionReport, part: Part) -> _Made:
        """What the part's records become, by digest."""
        rows = self.maker.rows(part.records)
        groups, known = groups_of(self.digester.columns, rows.batch, [one.at for one in self.added])
        if rows.batch.num_rows:
            digests = self.digester.of_rows(self.places[0].client, rows.batch, groups)
        else:
            digests = [np.empty(0, f"V{WIDTH}") for _ in groups]
        report.records += rows.records
        report.without_row += len(rows.rejected)
        dead = self.letters.expected(part, rows.rejected) if self.letters else None
        return _Made(part.range, groups, Expected(rows.offsets, rows.shards, digests, known), dead)

    def _window(self, report: PartitionReport, made: Sequence[_Made], older_end: int) -> None:
        """Compare parts that follow one another with the table."""
        groups = made[0].groups
        expected = joined([one.rows for one in made])
        dead = joined_dead([one.dead for one in made if one.dead is not None]) if self.letters else None
        for window in windows(OffsetRange(made[0].range.start, made[-1].range.end), len(groups)):
            wanted = expected.part(window.start, window.end)
            found = self._found(report.topic_partition, window, groups)
            differences = compare(wanted, found, older_end, self._excused(groups))
            if self.letters and dead is not None:
                self.letters.check(report, window, dead.expected, found.offsets, older_end)
                differences = excusing(differences, dead.kept, dead.replayed)
            report.rows += len(found.offsets)
            self._add(report, differences)

    def _excused(self, groups: Sequence[Group]) -> list[ExcusedDefault]:
        """What a row from before a column may hold there, in terms of these groups."""
        end = np.iinfo(np.int64).max
        return [
            ExcusedDefault(groups.index((one.at,)), one.default, end if one.filled_from is None else one.filled_from)
            for one in self.added
        ]

    def _found(
        self, tp: TopicPartition, offsets: OffsetRange, groups: Sequence[Group], only: Sequence[int] = ()
    ) -> Found:
        """The rows of all shards."""
        each = [self.digester.of_table(place, tp, offsets, groups, only) for place in self.places]
        return Found(
            np.concatenate([offsets for offsets, _ in each]),
            np.repeat(np.arange(len(each), dtype=np.int32), [len(offsets) for offsets, _ in each]),
            [np.concatenate([digests[at] for _, digests in each]) for at in range(len(groups))],
        )

    def _add(self, report: PartitionReport, found: Differences) -> None:
        report.duplicated.add(found.duplicated)
        report.older.add(found.older)
        report.before_column.add(found.before)
        report.wrong_shard.add(found.misplaced[:0] if self.any_shard else found.misplaced)
        unproven = [np.empty(0, np.int64)]
        for offsets, proves, category in (
            (found.missing, self.rules.rows_stay, report.missing),
            (found.different, self.rules.cells_stay, report.different),
            (found.unexpected, not self.compacted, report.unexpected),
        ):
            if proves:
                category.add(offsets)
            else:
                unproven.append(offsets)
        report.unproven.add(np.unique(np.concatenate(unproven)))

    def _name_columns(self, report: PartitionReport) -> None:
        """In which columns the first rows differ: their records are read once more."""
        offsets = [o for r in report.different.ranges for o in range(r.start, min(r.end, r.start + NAMED_ROWS))]
        records = [
            part.records
            for run in runs_of(offsets[:NAMED_ROWS])
            for part in self.reader.read(report.topic_partition, run)
        ]
        rows = self.maker.rows(pa.Table.from_batches(records).combine_chunks().to_batches()[0]) if records else None
        if rows is None or not rows.batch.num_rows:
            return
        report.named_rows = rows.batch.num_rows
        single: list[Group] = [(at,) for at in range(len(self.digester.columns))]
        wanted = self.digester.of_rows(self.places[0].client, rows.batch, single)
        near = OffsetRange(int(rows.offsets[0]), int(rows.offsets[-1]) + 1)
        found = self._found(report.topic_partition, near, single, rows.offsets.tolist())
        there, first = np.unique(found.offsets, return_index=True)
        row = np.searchsorted(rows.offsets, there)
        excused = {one.group: one for one in self._excused(single)}
        for at, column in enumerate(self.digester.columns):
            own = own_cells(column, rows.batch.column(column.name))
            differs = (wanted[at][row] != found.digests[at][first]) & own[row]
            if at in excused:
                differs &= (found.digests[at][first] != excused[at].default) | (there >= excused[at].below)
            if differs.any():
                report.different_columns[column.name] += int(differs.sum())


def windows(whole: OffsetRange, groups: int) -> Iterator[OffsetRange]:
    """The parts of a range that are read from the table at once, with ``groups`` digests for each row."""
    step = WINDOW // max(1, groups)
    for start in range(whole.start, whole.end, step):
        yield OffsetRange(start, min(start + step, whole.end))


def runs_of(offsets: Sequence[int]) -> Iterator[OffsetRange]:
    """Ascending offsets as ranges."""
    start = None
    for offset, following in zip(offsets, [*offsets, -1][1:], strict=True):
        start = offset if start is None else start
        if following != offset + 1:
            yield OffsetRange(start, offset + 1)
            start = None
