"""Tables with ``_kafka_*`` columns: record against row, a window of offsets at a time.

Memory is bounded by a part of Kafka's records (:mod:`chsink.kafka.exact`) and by ``WINDOW`` offsets of the table,
whatever the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from chsink.kafka.exact import ExactReader, Part
from chsink.ports import Clock
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.compare import I64, Differences, Expected, Found, compare, excusing
from chsink.verify.digests import WIDTH, Digester, Group, Place, groups_of, own_cells
from chsink.verify.letters import Letters
from chsink.verify.report import PartitionReport
from chsink.verify.rows import RowMaker, Rows
from chsink.verify.rules import Rules
from chsink.verify.scope import Scope, Unjudged, Why, without

WINDOW: Final = 250_000
"""Offsets of the table that are read at once."""
NAMED_ROWS: Final = 200
"""Differing rows of a topic-partition whose columns are named."""
LAG_S: Final = 30.0
"""How long a replica may take to hold what another one confirmed."""
PAUSE_S: Final = 1.0
Progress = Callable[[TopicPartition, int], None]
"""Given how many more offsets are done."""


@dataclass(slots=True)
class OffsetCheck:
    """One route.  ``places`` are the table on each shard; ``compacted`` says that Kafka may have removed records."""

    places: Sequence[Place]
    maker: RowMaker
    rules: Rules
    digester: Digester
    reader: ExactReader
    clock: Clock
    compacted: bool
    any_shard: bool
    progress: Progress
    letters: Letters | None = None
    _patience_s: float = field(default=LAG_S)

    def check(self, tp: TopicPartition, scope: Scope) -> PartitionReport:
        """Compare all that is judged."""
        report = PartitionReport(tp, self.maker.target.name, scope.judged, list(scope.unjudged))
        for judged in scope.judged:
            for part in self.reader.read(tp, judged):
                if part.gone:
                    report.unjudged.append(Unjudged(part.range, Why.DELETED))
                    report.judged = tuple(r for kept in report.judged for r in without(kept, [part.range]))
                else:
                    self._part(report, part, scope.older_end)
                self.progress(tp, part.range.length)
        return report

    def _part(self, report: PartitionReport, part: Part, older_end: int) -> None:
        rows = self.maker.rows(part.records)
        groups, known = groups_of(self.digester.columns, rows.batch)
        if rows.batch.num_rows:
            digests = self.digester.of_rows(self.places[0].client, rows.batch, groups)
        else:
            digests = [np.empty(0, f"V{WIDTH}") for _ in groups]
        expected = Expected(rows.offsets, rows.shards, digests, known)
        report.records += part.records.num_rows
        report.without_row += len(rows.rejected)
        dead = self.letters.expected(part.records, rows.rejected) if self.letters else None
        for window in windows(part.range):
            wanted = expected.part(window.start, window.end)
            found = self._found(report.topic_partition, window, groups)
            differences = compare(wanted, found, older_end)
            while len(differences.missing) and self._may_come():
                found = self._found(report.topic_partition, window, groups)
                differences = compare(wanted, found, older_end)
            if self.letters and dead is not None:
                bad = dead.part(window.start, window.end)
                differences = excusing(differences, self.letters.check(report, window, bad, found.offsets, older_end))
            report.rows += len(found.offsets)
            self._add(report, differences)
            self._name_columns(report, rows, differences.different)

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

    def _may_come(self) -> bool:
        """Whether a row that is missing may only be late: the replica that answers was not the one that took it."""
        if not (self.rules.replicated and self.rules.rows_stay) or self._patience_s <= 0:
            return False
        self.clock.sleep(PAUSE_S)
        self._patience_s -= PAUSE_S
        return True

    def _add(self, report: PartitionReport, found: Differences) -> None:
        report.duplicated.add(found.duplicated)
        report.older.add(found.older)
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

    def _name_columns(self, report: PartitionReport, rows: Rows, different: I64) -> None:
        """In which columns rows differ, as long as few were named."""
        different = different[: NAMED_ROWS - report.named_rows]
        if not len(different):
            return
        report.named_rows += len(different)
        columns = self.digester.columns
        single: list[Group] = [(at,) for at in range(len(columns))]
        batch = rows.batch.take(pa.array(np.searchsorted(rows.offsets, different)))
        wanted = self.digester.of_rows(self.places[0].client, batch, single)
        near = OffsetRange(int(different[0]), int(different[-1]) + 1)
        found = self._found(report.topic_partition, near, single, different.tolist())
        there, first = np.unique(found.offsets, return_index=True)
        row = np.searchsorted(different, there)
        for at, column in enumerate(columns):
            differs = (wanted[at][row] != found.digests[at][first]) & own_cells(column, batch.column(at))[row]
            if differs.any():
                report.different_columns[column.name] += int(differs.sum())


def windows(whole: OffsetRange) -> Iterator[OffsetRange]:
    """Pieces of a range that are read from the table at once."""
    for start in range(whole.start, whole.end, WINDOW):
        yield OffsetRange(start, min(start + WINDOW, whole.end))
