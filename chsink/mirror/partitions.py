"""Rows of a table by partition value: each data file holds the rows of one value of the table's partition spec.

Rules:
- Values are those of Iceberg's own transforms.  A value that a transform cannot represent makes a bad record: no file
  could hold it so that a filter finds it.
- ``-0.0`` and ``0.0`` are two values, and all NaN are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform, UnknownTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, IcebergType, IntegerType, LongType, NestedField, StructType, UUIDType

from chsink.decode.codec import Mask

MAX_FOLDER_BYTES = 200
"""The longest name of a folder that is made of a partition value; most file systems allow 255."""
FEW = 2**16
"""NumPy sorts numbers below this, if they have 16 bits, in linear time."""


def unusable(spec: PartitionSpec, schema: Schema) -> tuple[str, ...]:
    """The fields of a spec by which the mirror cannot split rows, each with the reason."""
    found = []
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform):
            found.append(f"{field.name}: unknown transform {field.transform}")
        elif (source := leaf_of(schema, field.source_id)) is None or not source.kind.is_primitive:
            found.append(f"{field.name}: its source is not a single value of a row")
        elif isinstance(field.transform, IdentityTransform) and isinstance(source.kind, UUIDType):
            found.append(f"{field.name}: identity of a uuid, whose rows pyiceberg does not find")
        elif source.required and (source.beneath_optional or isinstance(field.transform, VoidTransform)):
            found.append(
                f"{field.name}: its source is required, so pyiceberg cannot write the null that the partition value "
                "may be"
            )
    return tuple(found)


class Leaf(NamedTuple):
    """A column, or a field in its structs.  ``at`` are the positions that lead there; ``name`` has a dot for each.
    ``beneath_optional``: one of these structs may be null.
    """

    name: str
    kind: IcebergType
    required: bool
    at: tuple[int, ...]
    beneath_optional: bool

    def of(self, rows: pa.Table) -> pa.Array:
        """Its values as one array of its storage type; null where a struct is."""
        array = rows.column(self.at[0]).combine_chunks()
        for position in self.at[1:]:
            assert isinstance(array, pa.StructArray), "structs lead to the field"
            array = array.flatten()[position]
        return array.storage if isinstance(array, pa.ExtensionArray) else array


def leaf_of(schema: Schema, field_id: int) -> Leaf | None:
    """The column, or the field inside structs, with this id; None if there is none, or it lies in a list or a map."""
    columns = _leaves(schema.fields, "", (), beneath_optional=False)
    return next((source for found, source in columns if found == field_id), None)


def _leaves(
    fields: Sequence[NestedField], place: str, way: tuple[int, ...], *, beneath_optional: bool
) -> Iterator[tuple[int, Leaf]]:
    for position, field in enumerate(fields):
        source = Leaf(place + field.name, field.field_type, field.required, (*way, position), beneath_optional)
        yield field.field_id, source
        if isinstance(field.field_type, StructType):
            null = beneath_optional or field.optional
            yield from _leaves(field.field_type.fields, f"{source.name}.", source.at, beneath_optional=null)


class PartitionRows(NamedTuple):
    """The rows of one partition value.  ``key`` tells values apart, ``values`` are those of a manifest, by field."""

    key: tuple[str, ...]
    values: tuple[Any, ...]
    rows: pa.Table


@dataclass(frozen=True)
class Partitioning:
    """Splits tables of ``schema`` by ``spec``."""

    spec: PartitionSpec
    schema: Schema

    def split(self, rows: pa.Table) -> Iterator[PartitionRows]:
        """The rows of each partition value, in their order."""
        if not self._columns or not rows.num_rows:
            yield PartitionRows((), (), rows)
            return
        columns = [column.of(rows) for column in self._columns]
        codes, most = np.zeros(rows.num_rows, dtype=np.int64), 1
        for column in columns:
            codes, most = codes * len(column.dictionary) + column.indices.to_numpy(), most * len(column.dictionary)
            if most > FEW:  # number the combinations anew, so that no product of counts overflows
                codes = np.unique(codes, return_inverse=True)[1]
                most = int(codes.max()) + 1
        order = np.argsort(codes.astype(np.uint16) if most <= FEW else codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
        ordered = rows if len(starts) == 1 else rows.take(pa.array(order))
        firsts = pa.array(order[starts])
        values = [column.dictionary.take(column.indices.take(firsts)).to_pylist() for column in columns]
        for number, (start, end) in enumerate(pairwise([*starts, rows.num_rows])):
            mine = tuple(of_field[number] for of_field in values)
            yield PartitionRows(tuple(map(repr, mine)), mine, ordered.slice(start, end - start))

    @property
    def checks(self) -> tuple[PartitionColumn, ...]:
        """The fields of the spec that refuse values."""
        return tuple(column for column in self._columns if column.wraps)

    def folder(self, values: tuple[Any, ...]) -> PartitionKey | None:
        """The key that makes the folders of a location; None if there are none, or one has a name too long."""
        if not values:
            return None
        fields = [PartitionFieldValue(f, v) for f, v in zip(self.spec.fields, values, strict=True)]
        key = _Folder(fields, self.spec, self.schema)
        long = any(len(name.encode()) > MAX_FOLDER_BYTES for name in key.to_path().split("/"))
        return None if long else key

    @cached_property
    def _columns(self) -> tuple[PartitionColumn, ...]:
        sources = [leaf_of(self.schema, field.source_id) for field in self.spec.fields]
        return tuple(PartitionColumn(f, s) for f, s in zip(self.spec.fields, sources, strict=True) if s is not None)


@dataclass(frozen=True)
class _Folder(PartitionKey):
    """A key whose values are transformed already."""

    @cached_property
    def partition(self) -> Record:
        """The values as a manifest has them."""
        return Record(*(each.value for each in self.field_values))


@dataclass(frozen=True)
class PartitionColumn:
    """One field of a spec, and the table's column that it is made from."""

    field: PartitionField
    source: Leaf

    @property
    def column(self) -> str:
        """The name of the table's column, or of a field in it."""
        return self.source.name

    @property
    def wraps(self) -> bool:
        """Whether the transform takes some values below the least one of their type."""
        numbers = IntegerType | LongType | DecimalType
        return isinstance(self.field.transform, TruncateTransform) and isinstance(self.source.kind, numbers)

    @property
    def reason(self) -> str:
        """Why a value is refused."""
        return f"out of range for partition field {self.field.name!r}"

    def of(self, rows: pa.Table) -> pa.DictionaryArray:
        """The field's value of each row."""
        values = self._transformed(self.source.of(rows))
        return _plain(values).dictionary_encode(null_encoding="encode")

    def _transformed(self, array: pa.Array) -> pa.Array:
        return self.field.transform.pyarrow_transform(self.source.kind)(array)

    def refused(self, rows: pa.Table) -> Mask:
        """A mask of the rows that truncation would take below the least value of their type, where it ``wraps``."""
        array, kind = self.source.of(rows), self.source.kind
        truncated = self._transformed(array)
        if isinstance(kind, DecimalType):
            least = Decimal((1, (9,) * kind.precision, -kind.scale))
            wrong = pc.less(truncated, pa.scalar(least, array.type))
        else:
            wrong = pc.greater(truncated, array)  # it wrapped around
        mask: Mask = np.asarray(wrong.fill_null(fill_value=False))
        return mask


def _plain(array: pa.Array) -> pa.Array:
    """Dates and times as numbers."""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.view(pa.int32())
    return array.view(pa.int64()) if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else array
