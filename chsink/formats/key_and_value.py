"""Reads some columns from the record's key and the others from its value, each in its own format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from chsink.decode.combine import beside, gathered
from chsink.decode.conform import Conformer
from chsink.decode.fields import Field
from chsink.formats.format_reader import FormatReader
from chsink.ports import Decoded


class KeyedReader:
    """:class:`chsink.formats.format_reader.FormatReader` of values and keys.

    ``key`` reads the fields ``of_key``, ``value`` reads the others; ``names`` is the order of all columns.  If a record
    has no key, its key columns are null.
    """

    def __init__(self, value: FormatReader, key: FormatReader, of_key: Sequence[Field], names: Sequence[str]) -> None:
        self._value, self._key, self._names = value, key, list(names)
        self._without = Conformer(of_key)

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The columns that the value's reader reads, and Kafka's key."""
        return tuple(dict.fromkeys((*self._value.record_fields, "key")))

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        found = beside(records.num_rows, self._value.decode(records), self._keys(records.column("key")))
        return replace(found, batch=found.batch.select(self._names))

    def _keys(self, keys: pa.Array) -> Decoded:
        there = keys.is_valid().to_numpy(zero_copy_only=False)
        parts = []
        if there.any() or not len(keys):
            given = keys.filter(pa.array(there)) if keys.null_count else keys
            read = self._key.decode(pa.RecordBatch.from_pydict({"value": given}))
            parts.append((np.flatnonzero(there), read))
        if keys.null_count:
            nulls = pa.RecordBatch.from_pydict({"": pa.nulls(keys.null_count)})
            parts.append((np.flatnonzero(~there), self._without.conform(nulls)))
        found = gathered(len(keys), parts)
        return replace(found, bad=[replace(one, reason=f"the key: {one.reason}") for one in found.bad])
