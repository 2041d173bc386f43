"""The order of a table's rows within a file, as its sort order asks.

Rules:
- Rows are sorted within a row group.  A file of one group is sorted, and says so.
- Floating-point columns are sorted, but such a file does not say so: Arrow puts NaN at the end of both orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.types import DoubleType, FloatType, NestedField

from chsink.mirror.partitions import storage_of


@dataclass(frozen=True)
class Sorting:
    """Sorts tables of ``schema`` by ``order``.  A field that cannot be sorted by, and those behind it, do not count."""

    order: SortOrder
    schema: Schema

    @property
    def order_id(self) -> int | None:
        """What a sorted file bears; None if its rows may be in another order."""
        whole = self._fields and len(self._fields) == len(self.order.fields)
        exact = not any(isinstance(self._source(f).field_type, FloatType | DoubleType) for f in self._fields)
        return self.order.order_id if whole and exact else None

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in this order; equal ones stay as they are."""
        if not self._fields or rows.num_rows < 2:
            return rows
        columns: dict[str, pa.Array] = {}
        keys = list[tuple[str, str]]()
        for number, field in enumerate(self._fields):
            values = self._values(rows, field)
            if field.null_order == NullOrder.NULLS_FIRST and values.null_count:
                columns[f"valid {number}"] = pc.is_valid(values)
                keys.append((f"valid {number}", "ascending"))
            columns[str(number)] = values
            keys.append((str(number), _DIRECTION[field.direction]))
        return rows.take(pc.sort_indices(pa.table(columns), sort_keys=keys))  # a stable sort

    @cached_property
    def _fields(self) -> tuple[SortField, ...]:
        columns = {field.field_id: field for field in self.schema.fields}
        found = []
        for field in self.order.fields:
            source = columns.get(field.source_id)
            plain = source is not None and source.field_type.is_primitive
            if not plain or isinstance(field.transform, UnknownTransform | VoidTransform):
                break
            found.append(field)
        return tuple(found)

    def _source(self, field: SortField) -> NestedField:
        return next(column for column in self.schema.fields if column.field_id == field.source_id)

    def _values(self, rows: pa.Table, field: SortField) -> pa.Array:
        source = self._source(field)
        array = storage_of(rows.column(self.schema.fields.index(source)))
        return field.transform.pyarrow_transform(source.field_type)(array)


_DIRECTION = {SortDirection.ASC: "ascending", SortDirection.DESC: "descending"}
