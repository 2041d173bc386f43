"""``errors.on_tombstone = "delete"``: a record without a value is the deletion of its key, as a row that says so.

Rules:
- The row has the columns of the key and the mark; ClickHouse fills in all others.  A deletion must have each column of
  the key: without it, another row would be deleted.
- Records with values are not deletions: they have the other mark, whatever their values say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chsink.decode.conform import Conformer
from chsink.decode.containers import ArrayCodec, MapCodec, TupleCodec
from chsink.decode.documents import JsonCodec
from chsink.decode.fields import MISSING, UNREACHABLE, Field
from chsink.decode.selected import beside, gathered
from chsink.formats.format_reader import FormatReader
from chsink.formats.json import constant_of
from chsink.ports import Decoded

VERSION: Final = 1
"""Part of the fingerprint: raised when the same record becomes another row."""
NO_KEY: Final = "missing or null, and a delete needs every column of the key"


@dataclass(frozen=True, slots=True)
class Deletes:
    """``column`` says that a row is a deletion (1) or not (0)."""

    column: str

    def part(self) -> list[Any]:
        """What it decides, as a JSON document for the fingerprint."""
        return [VERSION, self.column]


class DeletingReader:
    """:class:`chsink.formats.format_reader.FormatReader` in which a null value is a deletion.

    ``reader`` reads all ``fields`` but the mark, from records with a value.  ``key`` reads the fields of the key, made
    by :func:`of_deletion`, from its ``value``.
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
        """What the reader reads, the value and the key."""
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

    def _deletions(self, keys: Any) -> Decoded:
        size = len(keys)
        found = self._key.decode(pa.RecordBatch.from_pydict({"value": keys}))
        bad = [replace(one, reason=f"cannot delete by this key: {one.reason}", tombstone=True) for one in found.bad]
        found = replace(found, bad=bad)
        if self._others is not None:
            others = self._others.conform(pa.RecordBatch.from_pydict({"": pa.nulls(size)}))
            found = beside(size, found, others)
        return self._marked(found, 1)

    def _marked(self, found: Decoded, mark: int) -> Decoded:
        """With the mark, in the order of all fields."""
        rows = pa.array(np.zeros(found.batch.num_rows, np.int64))
        batch = found.batch.append_column(self._mark, self._marks[mark].take(rows))
        return replace(found, batch=batch.select(self._names))


def filled(field: Field) -> Field:
    """The field, with nulls that ClickHouse fills in where nothing else may be null: by a DEFAULT, by zero, by an empty
    array, map or object.  It does not do so for a Tuple, and Iceberg never does.
    """
    if field.null_reason not in (MISSING, UNREACHABLE) or isinstance(field.codec, TupleCodec):
        return field
    empty: Any = [] if isinstance(field.codec, ArrayCodec | MapCodec) else None
    return replace(field, null_reason=None, empty="{}" if isinstance(field.codec, JsonCodec) else empty)


def of_deletion(field: Field, reason: str = NO_KEY) -> Field:
    """The field, which a deletion must have: without it, another row would be deleted."""
    return replace(field, null_reason=reason, empty=None)
