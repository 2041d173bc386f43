"""Decodes a transformed stream, whose columns have the names of the table's.  Casts them, and checks every cast."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from chsink.decode.conform import conform
from chsink.formats.metadata import Columns
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import Decoded

VERSION = 3
"""Part of the fingerprint: increment it when a code change makes a different row of the same record."""


@dataclass(frozen=True, slots=True)
class ColumnRecords:
    """:class:`chsink.ports.Decoder` of a transformed stream."""

    table: Columns

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The table's columns that the stream has, and the columns from which the metadata columns are filled."""
        return (*(c.name for c in self.table.payload), *self.table.metadata_fields)

    @property
    def filled(self) -> frozenset[str]:
        """See :class:`chsink.ports.Decoder`."""
        return self.table.names

    def parts(self) -> tuple[tuple[str, object], ...]:
        """See :class:`chsink.ports.Decoder`."""
        return (("decoder", [VERSION, "columns"]), self.table.part())

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.ports.Decoder`."""
        table = self.table
        fields = {c.name: records.column(c.name) for c in table.payload}
        fields |= {c.name: records.column(METADATA_COLUMNS[c.name].source) for c in table.metadata}
        columns = (*table.payload, *table.metadata)
        return conform(pa.RecordBatch.from_pydict(fields), columns, timezone=table.timezone)
