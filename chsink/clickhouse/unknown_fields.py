"""Fields of records that have no column: counted on a sample, or reported before anything of their chunk is sent.

Rules:
- Counting looks at the first ``SAMPLE`` records of a chunk, so it costs nothing that could be measured.
- Where columns are added for fields, every record of the chunk is looked at, and a chunk with such a field is not sent
  before the column is there: neither its rows nor its dead letters.
- The columns of a chunk follow from those that its range was announced with, and from its records: whatever else was
  added to the table meanwhile, each attempt sends the same columns under the same token.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

import pyarrow as pa

from chsink.clickhouse.shards import RoutedTable
from chsink.decode.columns import Column
from chsink.decode.inferred import wider
from chsink.errors import ChsinkError, preflight
from chsink.formats.column_types import ALTERNATIVES
from chsink.formats.record_fields import Offered, offered_by
from chsink.formats.settings import FormatSettings
from chsink.notation.metadata_columns import LONGEST_NAME, is_clickhouse_name
from chsink.statemachine.ranges import TopicPartition

SAMPLE: Final = 1_000
NAMED: Final = 100
"""The most names that a chunk reports: records with data as field names would have thousands."""


@dataclass(frozen=True)
class FieldWatch:
    """Looks for fields without a column in records of one format.

    ``taken`` are the columns of the table, of any kind, and those that the job file names; ``added`` are columns of it
    that were added since the range was announced, in their order.  ``room`` is how many more chsink may add.
    """

    format: FormatSettings
    table: str
    taken: frozenset[str]
    added: tuple[Column, ...]
    room: int

    def __reduce__(self) -> tuple[object, ...]:
        return FieldWatch, (self.format, self.table, self.taken, self.added, self.room)

    @cached_property
    def _offered(self) -> Offered[str] | None:
        return offered_by(self.format, ALTERNATIVES)

    def counts(self, records: pa.RecordBatch) -> dict[str, int]:
        """Fields without a column, with how many of these records, a sample of a chunk's, have them.  A name may be as
        long as a record; it is cut.
        """
        if self._offered is None:
            return {}
        found = Counter[str]()
        for name, count in self._offered.counts(records.column("value"), self.taken).items():
            found[name[:LONGEST_NAME]] += count
        return dict(found.most_common(NAMED))

    def missing(self, records: pa.RecordBatch) -> tuple[str, ...]:
        """The fields of these records for which a table that gains columns would need one more."""
        if self._offered is None:
            return ()
        found = self._offered.columns(records.column("value"), self.taken)
        return tuple(name for name, kind in found.items() if kind is not None and is_clickhouse_name(name))

    def columns(self, records: pa.RecordBatch, tp: TopicPartition) -> tuple[Column, ...]:
        """Columns for the fields of these records, besides those that the range was announced with.

        AlteredError CHS-287 when such a column has to be added; PreflightError CHS-289 when the table may have no more.
        """
        if self._offered is None:
            return ()
        announced = self.taken - {c.name for c in self.added}
        found = self._offered.columns(records.column("value"), announced)
        fields = {name: kind for name, kind in found.items() if kind is not None and is_clickhouse_name(name)}
        missing = {name: kind for name, kind in fields.items() if name not in self.taken}
        if len(missing) > self.room:
            raise preflight.TOO_MANY_COLUMNS(tp=tp, table=self.table, columns=", ".join(missing))
        if missing:
            raise preflight.COLUMNS_MISSING(tp=tp, table=self.table, columns=json.dumps(missing, ensure_ascii=False))
        return tuple(c for c in self.added if c.name in fields)


def missing_columns(*errors: ChsinkError) -> dict[str, dict[str, str]]:
    """By table: the columns that tasks reported as missing, each with the types that hold its values."""
    found: dict[str, dict[str, str]] = {}
    for one in chain.from_iterable(error.parts or (error,) for error in errors):
        if one.name == preflight.COLUMNS_MISSING.name:
            columns: Mapping[str, str] = json.loads(one.params["columns"])
            for name, kind in columns.items():
                kinds = found.setdefault(one.params["table"], {})
                kinds[name] = wider(kinds.get(name, kind), kind)
    return found


def watch_of(
    settings: FormatSettings, target: RoutedTable, named: frozenset[str], announced: Collection[str], most: int
) -> FieldWatch:
    """The watch for a table that may grow to ``most`` columns; ``named`` are columns that the job file names, and
    ``announced`` those that the range was announced with.
    """
    columns = target.table.columns
    names = {c.name for c in columns}
    groups = {name.partition(".")[0] for name in names}
    added = target.table.beyond(announced)
    return FieldWatch(settings, target.name, frozenset(names | groups | named), added, max(0, most - len(names)))
