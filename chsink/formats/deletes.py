"""``errors.on_tombstone = "delete"``: a record without a value becomes a row that marks its key as deleted.

Rules:
- The row holds the key's columns and the deletion mark; ClickHouse fills in all others.  No column of the key may be
  missing or null: the row would delete a different key.
- A record with a value always gets the mark 0 (not deleted), even if its value has a field of the mark's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from chsink.decode.codec import WireValue
from chsink.decode.combine import beside, gathered
from chsink.decode.conform import Conformer
from chsink.decode.containers import ArrayCodec, MapCodec, TupleCodec
from chsink.decode.documents import JsonCodec
from chsink.decode.fields import MISSING, UNREACHABLE, Field
from chsink.formats.format_reader import FormatReader
from chsink.formats.json import constant_of
from chsink.ports import Decoded

VERSION: Final = 1
"""Part of the fingerprint: increment it when a code change makes a different row of the same record."""
NO_KEY: Final = "missing or null, and a delete needs every column of the key"


@dataclass(frozen=True, slots=True)
class Deletes:
    """``column`` holds the deletion mark: 1 for a deletion, else 0."""

    column: str

    def part(self) -> list[object]:
        """The settings as a JSON document, for the fingerprint."""
        return [VERSION, self.column]


class DeletingReader:
    """:class:`chsink.formats.format_reader.FormatReader` in which a null value is a deletion.

    ``reader`` reads all ``fields`` except ``mark`` from records with a value.  ``key`` reads the fields ``of_key`` from
    the key of a deletion; it gets Kafka's key as a column named ``value``, and its fields are made by
    :func:`of_deletion`.
    """

    def __init__(
        self, reader: FormatReader, key: FormatReader, of_key: frozenset[str], mark: Field, fields: Sequence[Field]
    ) -> None:
        self._reader, self._key = reader, key
        self._names = [field.name for field in fields]
        self._mark = mark.name
        self._marks = [constant_of(mark, said) for said in (0, 1)]
        others = [field for field in fields if field.name not in of_key and field.name != mark.name]
        self._others = Conformer([filled(field) for field in others]) if others else None

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The columns that ``reader`` reads, and Kafka's value and key."""
        return tuple(dict.fromkeys((*self._reader.record_fields, "value", "key")))

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        deleted = records.column("value").is_null().to_numpy(zero_copy_only=False)
        if not deleted.any():
            return self._marked(self._reader.decode(records), 0)
        parts = [(np.flatnonzero(deleted), self._deletions(records.column("key").filter(pa.array(deleted))))]
        if not deleted.all():
            kept = self._reader.decode(records.filter(pa.array(~deleted)))
            parts.append((np.flatnonzero(~deleted), self._marked(kept, 0)))
        return gathered(records.num_rows, parts)

    def _deletions(self, keys: pa.Array) -> Decoded:
        size = len(keys)
        found = self._key.decode(pa.RecordBatch.from_pydict({"value": keys}))
        bad = [replace(one, reason=f"cannot delete by this key: {one.reason}", tombstone=True) for one in found.bad]
        found = replace(found, bad=bad)
        if self._others is not None:
            others = self._others.conform(pa.RecordBatch.from_pydict({"": pa.nulls(size)}))
            found = beside(size, found, others)
        return self._marked(found, 1)

    def _marked(self, found: Decoded, mark: int) -> Decoded:
        """Adds the mark, and puts the columns in the order of all fields."""
        rows = pa.array(np.zeros(found.batch.num_rows, np.int64))
        batch = found.batch.append_column(self._mark, self._marks[mark].take(rows))
        return replace(found, batch=batch.select(self._names))


def filled(field: Field) -> Field:
    """The field, allowed to be null even if its column is not Nullable: ClickHouse then stores the DEFAULT, zero, or an
    empty array, map or object.  Tuples stay unchanged, because ClickHouse does not fill them; Iceberg fills no column.
    """
    if field.null_reason not in (MISSING, UNREACHABLE) or isinstance(field.codec, TupleCodec):
        return field
    empty: WireValue = [] if isinstance(field.codec, ArrayCodec | MapCodec) else None
    return replace(field, null_reason=None, empty="{}" if isinstance(field.codec, JsonCodec) else empty)


def of_deletion(field: Field, reason: str = NO_KEY) -> Field:
    """The field, required: a deletion with a missing or null key column would delete a different row."""
    return replace(field, null_reason=reason, empty=None)
