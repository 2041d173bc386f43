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
from pyiceberg.types import DoubleType, FloatType

from chsink.mirror.partitions import Leaf, leaf_of


@dataclass(frozen=True)
class Sorting:
    """Sorts tables of ``schema`` by ``order``.  A field that cannot be sorted by, and those behind it, do not count."""

    order: SortOrder
    schema: Schema

    @property
    def order_id(self) -> int | None:
        """What a sorted file bears; None if its rows may be in another order."""
        whole = self._fields and len(self._fields) == len(self.order.fields)
        exact = not any(isinstance(source.kind, FloatType | DoubleType) for _, source in self._fields)
        return self.order.order_id if whole and exact else None

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in this order; equal ones stay as they are."""
        if not self._fields or rows.num_rows < 2:
            return rows
        columns: dict[str, pa.Array] = {}
        keys = list[tuple[str, str]]()
        for number, (field, source) in enumerate(self._fields):
            values = field.transform.pyarrow_transform(source.kind)(source.of(rows))
            if field.null_order == NullOrder.NULLS_FIRST and values.null_count:
                columns[f"valid {number}"] = pc.is_valid(values)
                keys.append((f"valid {number}", "ascending"))
            columns[str(number)] = values
            keys.append((str(number), _DIRECTION[field.direction]))
        return rows.take(pc.sort_indices(pa.table(columns), sort_keys=keys))  # a stable sort

    @cached_property
    def _fields(self) -> tuple[tuple[SortField, Leaf], ...]:
        found = []
        for field in self.order.fields:
            source = leaf_of(self.schema, field.source_id)
            if source is None or not source.kind.is_primitive:
                break
            if isinstance(field.transform, UnknownTransform | VoidTransform):
                break
            found.append((field, source))
        return tuple(found)


_DIRECTION = {SortDirection.ASC: "ascending", SortDirection.DESC: "descending"}
