"""Kafka's own fields as columns of the table, for every format that reads the record's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from chsink.decode.columns import Column
from chsink.decode.conform import conform
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import BadValue, Decoded

"""The table's column for each of Kafka's fields."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns to fill: ``payload`` from the record's content, ``metadata`` from Kafka's own fields.

    ``timezone`` is the server's, for times without one.
    """

    payload: tuple[Column, ...]
    metadata: tuple[Column, ...]
    timezone: str

    def part(self) -> tuple[str, Any]:
        """Their part of a fingerprint."""
        return "columns", [[astuple(c) for c in (*self.payload, *self.metadata)], self.timezone]

    @property
    def metadata_fields(self) -> tuple[str, ...]:
        """The stream's columns that the metadata columns need."""
        return tuple(METADATA_COLUMNS[c.name].source for c in self.metadata)


def beside_metadata(records: pa.RecordBatch, payload: Decoded, table: Columns) -> Decoded:
    """The decoded payload and Kafka's fields of the same records.  A row that either rejects is in neither."""
    if not table.metadata:
        return payload
    kept = records if payload.rows is None else records.take(payload.rows)
    fields = {c.name: kept.column(METADATA_COLUMNS[c.name].source) for c in table.metadata}
    metadata = conform(pa.RecordBatch.from_pydict(fields), table.metadata, timezone=table.timezone)
    left, rows, bad = payload.batch, payload.rows, payload.bad
    if metadata.rows is not None:
        origin = pa.array(np.arange(left.num_rows)) if rows is None else rows
        left, rows = left.take(metadata.rows), origin.take(metadata.rows)
        bad = _merged(bad, [replace(b, row=origin[b.row].as_py()) for b in metadata.bad])
    schema = pa.schema([*left.schema, *metadata.batch.schema])
    return Decoded(pa.RecordBatch.from_arrays([*left.columns, *metadata.batch.columns], schema=schema), rows, bad)


def _merged(*found: Sequence[BadValue]) -> list[BadValue]:
    return sorted((b for some in found for b in some), key=lambda b: b.row)
