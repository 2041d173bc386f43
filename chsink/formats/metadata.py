"""Kafka's own fields as columns of the table, for every format that reads the record's value."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import pyarrow as pa

from chsink.decode.columns import Column
from chsink.decode.combine import beside
from chsink.decode.conform import conform
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import Decoded

COLUMNS = "columns"
"""The name of the fingerprint's part for the inserted columns."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns to fill: ``payload`` from the record's content, ``metadata`` from Kafka's own fields.

    ``timezone`` is the server's: it applies to columns without a time zone.
    """

    payload: tuple[Column, ...]
    metadata: tuple[Column, ...]
    timezone: str

    @property
    def names(self) -> frozenset[str]:
        """The names of all columns."""
        return frozenset(c.name for c in (*self.payload, *self.metadata))

    def part(self) -> tuple[str, object]:
        """The fingerprint's part for these columns: its name, and a JSON document."""
        return COLUMNS, [[astuple(c) for c in (*self.payload, *self.metadata)], self.timezone]

    @property
    def metadata_fields(self) -> tuple[str, ...]:
        """The stream's columns from which the metadata columns are filled."""
        return tuple(METADATA_COLUMNS[c.name].source for c in self.metadata)


def beside_metadata(records: pa.RecordBatch, payload: Decoded, table: Columns) -> Decoded:
    """The decoded payload with Kafka's fields of the same records added.  A record that either rejects has no row."""
    if not table.metadata:
        return payload
    fields = {c.name: records.column(METADATA_COLUMNS[c.name].source) for c in table.metadata}
    metadata = conform(pa.RecordBatch.from_pydict(fields), table.metadata, timezone=table.timezone)
    return beside(records.num_rows, payload, metadata)
