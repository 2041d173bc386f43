"""Decodes binary messages of a known type into the wire columns of a table.

A message type (Avro's record, Protobuf's message) reads the table's columns from a block of records at once;
:class:`~chsink.decode.conform.Conformer` converts them exactly.  A damaged record does not affect the others.

A Nested column ``n.a`` is read from a field ``n``: an array of records, or a record of arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.binary import Cursors, Positions
from chsink.decode.blocks import Collected, Rows, blocks
from chsink.decode.codec import numpy_of
from chsink.decode.conform import Conformer
from chsink.decode.containers import flatten, lift, null_mask
from chsink.decode.fields import Field
from chsink.ports import BadValue, Decoded

NO_OBJECTS: Final = "the Nested column {} holds values that are not objects"


class Message(Protocol):
    """A message type."""

    def columns(self, c: Cursors, wanted: Collection[str]) -> dict[str, pa.Array]:
        """The wanted fields that the type has, by name: arrays with one value per cursor.  Marks wrong messages as
        faults; moves the cursors behind the messages.
        """


class MessageDecoder:
    """Decodes messages of any types into the columns of these fields."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._wanted = frozenset(field.group or field.name for field in self._fields)
        self._wanted |= {field.name for field in self._fields}
        self._conformer = Conformer(fields)

    def decode(self, run: Collected, message: Message, values: pa.Array, rows: Rows, skip: int | Positions = 0) -> None:
        """Decode ``values`` (binary, without nulls) into ``run``; ``rows`` are their rows in the batch.

        The message begins ``skip`` bytes into each value.
        """
        for start, end in blocks(numpy_of(pc.binary_length(values))):
            c = Cursors(values.slice(start, end - start), skip if isinstance(skip, int) else skip[start:end])
            self._block(run, message.columns(c, self._wanted), c, rows[start:end])

    def finish(self, run: Collected) -> Decoded:
        """The result of all calls of :meth:`decode` with this ``run``."""
        if not run.rows:
            run.add([field.codec.array([]) for field in self._fields], np.zeros(0, np.int64))
        return run.finish(self._conformer.schema)

    def _block(self, run: Collected, found: dict[str, pa.Array], c: Cursors, rows: Rows) -> None:
        columns = {}
        for field in self._fields:
            array = found.get(field.name)
            if array is None and field.group in found:
                array = _member(field, found[field.group], c)
            if array is not None:
                columns[field.name] = array
        batch = _batch(columns, len(rows))
        if c.faults.any:
            good = c.faults.good()
            run.bad.extend(BadValue(int(rows[row]), None, reason) for row, reason in c.faults.reasons().items())
            batch, rows = batch.take(pa.array(good)), rows[good]
        decoded = self._conformer.conform(batch)
        run.bad.extend(BadValue(int(rows[bad.row]), bad.column, bad.reason) for bad in decoded.bad)
        run.add(decoded.batch.columns, rows if decoded.rows is None else rows[decoded.rows.to_numpy()])


def _batch(columns: dict[str, pa.Array], size: int) -> pa.RecordBatch:
    """A batch of these columns; if there are none, one unnamed column of nulls keeps the number of rows."""
    return pa.RecordBatch.from_pydict(columns or {"": pa.nulls(size)})


def _member(field: Field, group: pa.Array, c: Cursors) -> pa.Array:
    """A Nested column's array, taken from the whole group; the group itself if it has neither of the two forms."""
    if isinstance(group, pa.StructArray):
        at = group.type.get_field_index(field.member)
        return group.flatten()[at] if at >= 0 else pa.nulls(len(group))
    if not (isinstance(group, pa.ListArray) and pa.types.is_list(group.type)):  # a map's is a ListArray, too
        return group
    offsets, objects, parents = flatten(group)
    if not isinstance(objects, pa.StructArray):
        return group
    wrong = lift(numpy_of(pc.is_null(objects)), parents, len(group))
    if wrong is not None:
        c.fault(wrong, NO_OBJECTS.format(field.group))
    at = objects.type.get_field_index(field.member)
    values = objects.flatten()[at] if at >= 0 else pa.nulls(len(objects))
    return pa.ListArray.from_arrays(offsets, values, mask=null_mask(group))
