"""What a column's type lacks for values, also inside its structs, lists and maps.

A part is a type with only those fields that are new, or that change; a field that the table has keeps its name there,
and says what it should become.  Keys of maps never change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from chsink.decode.containers import entries
from chsink.decode.inferred import Kinds
from chsink.formats.record_fields import only_members
from chsink.mirror.column_types import ICEBERG, IcebergTypes
from chsink.mirror.names import RecordNames, given_names, named
from chsink.mirror.nested_types import fields_in, list_of, map_of
from chsink.notation.metadata_columns import is_column_name

_FLOAT_MAX: Final = float(np.finfo(np.float32).max)
_MOST_DIGITS: Final = 38


def promoted(kind: IcebergType, wanted: IcebergType) -> IcebergType | None:
    """The wider type that a column gets for values of the wanted one; None if it stays as it is."""
    match kind, wanted:
        case IntegerType(), LongType():
            return wanted
        case FloatType(), DoubleType():
            return wanted
        case DecimalType(), DecimalType() if wanted.scale == kind.scale and wanted.precision > kind.precision:
            return wanted
    return None


def lacking_part(have: IcebergType, wanted: IcebergType, names: RecordNames) -> IcebergType | None:
    """The part of the wanted type that the present one lacks; None if it lacks nothing."""
    match have, wanted:
        case StructType(), StructType():
            found: dict[str, NestedField] = {}
            for field in wanted.fields:
                mine = named(have, field.name, names)
                part = field.field_type if mine is None else lacking_part(mine.field_type, field.field_type, names)
                if part is not None:
                    at = mine or field
                    kind = ICEBERG.wider(found[at.name].field_type, part) if at.name in found else part
                    found[at.name] = NestedField(0, at.name, kind, required=at.required)
            return StructType(*found.values()) if found else None
        case ListType(), ListType():
            item = lacking_part(have.element_type, wanted.element_type, names)
            return None if item is None else list_of(item, required=have.element_required)
        case MapType(), MapType():
            value = lacking_part(have.value_type, wanted.value_type, names)
            return None if value is None else map_of(have.key_type, value, required=have.value_required)
    return promoted(have, wanted)


@dataclass(frozen=True)
class GuidedTypes(IcebergTypes):
    """The types of JSON values for columns that the table has: of values of another form than the column's, none."""

    columns: StructType
    names: RecordNames

    @property
    def inside(self) -> Mapping[str, Any]:
        """The columns with structs in them."""
        deep = StructType(*(field for field in self.columns.fields if fields_in(field.field_type)))
        return _members(deep, self.names)

    def of_json(self, kinds: Kinds, field: str = "") -> IcebergType | None:
        """See :class:`chsink.formats.column_types.ColumnTypes`."""
        mine = named(self.columns, field, self.names)
        return super().of_json(kinds) if mine is None else self._guided(mine.field_type, kinds)

    def _guided(self, have: IcebergType, kinds: Kinds) -> IcebergType | None:
        match have:
            case StructType():
                fields = [(name, self._member(have, name, member)) for name, member in kinds.members.items()]
                found = [NestedField(0, name, kind, required=False) for name, kind in fields if kind is not None]
                return StructType(*found) if found else None
            case ListType() if kinds.items is not None:
                item = self._guided(have.element_type, kinds.items)
                return None if item is None else list_of(item)
            case MapType():
                values = [self._guided(have.value_type, member) for member in kinds.members.values()]
                known = [value for value in values if value is not None]
                return map_of(have.key_type, reduce(self.wider, known)) if known else None
        return None

    def _member(self, have: StructType, name: str, kinds: Kinds) -> IcebergType | None:
        mine = named(have, name, self.names)
        if mine is not None:
            return self._guided(mine.field_type, kinds)
        return super().of_json(kinds) if is_column_name(name) else None


def _members(kind: StructType, names: RecordNames) -> dict[str, Any]:
    return {
        name: _as_read(field.field_type, names)
        for field in kind.fields
        for name in (field.name, *given_names(field, names))
    }


def _as_read(kind: IcebergType, names: RecordNames) -> Any:
    """What msgspec reads if the structs in it have no other fields."""
    match kind:
        case StructType():
            return only_members(_members(kind, names)) | None
        case ListType():
            return list[_as_read(kind.element_type, names)] | None  # type: ignore[misc]
        case MapType():
            return dict[str, _as_read(kind.value_type, names)] | None  # type: ignore[misc]
    return msgspec.Raw


# --- by the values of records that do not fit -------------------------------------------------------------------------


def widest(field: NestedField, fixed: Collection[int]) -> NestedField:
    """The field as wide as it may become.  The fields with ``fixed`` ids stay required."""
    required = field.required and field.field_id in fixed
    return NestedField(field.field_id, field.name, _widest(field.field_type, fixed), required=required)


def _widest(kind: IcebergType, fixed: Collection[int]) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*(widest(field, fixed) for field in kind.fields))
        case ListType():
            return ListType(kind.element_id, _widest(kind.element_type, fixed), element_required=False)
        case MapType():
            value = _widest(kind.value_type, fixed)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=False)
        case IntegerType():
            return LongType()
        case FloatType():
            return DoubleType()
        case DecimalType():
            return DecimalType(_MOST_DIGITS, kind.scale)
    return kind


def needed(field: NestedField, values: pa.Array, fixed: Collection[int]) -> NestedField | None:
    """What a field should become for these values of its :func:`widest`; None if they fit."""
    part = _needed(field.field_type, values, fixed)
    null = field.required and field.field_id not in fixed and values.null_count > 0
    if part is None and not null:
        return None
    if null:  # whole, so that the part does not depend on which records came together
        part = _bare(field.field_type) if part is None else ICEBERG.wider(_bare(field.field_type), part)
    return NestedField(0, field.name, part, required=field.required and not null)


def _needed(kind: IcebergType, values: pa.Array, fixed: Collection[int]) -> IcebergType | None:
    match kind:
        case StructType() if isinstance(there := values.filter(pc.is_valid(values)), pa.StructArray):
            children = zip(kind.fields, there.flatten(), strict=True)
            found = [part for field, child in children if (part := needed(field, child, fixed)) is not None]
            return StructType(*found) if found else None
        case ListType() if isinstance(values, pa.ListArray):
            item = needed(kind.element_field, values.flatten(), fixed)
            return None if item is None else list_of(item.field_type, required=item.required)
        case MapType() if isinstance(values, pa.MapArray):
            value = needed(kind.value_field, entries(values)[2], fixed)
            return None if value is None else map_of(kind.key_type, value.field_type, required=value.required)
    return _needed_flat(kind, values)


def _needed_flat(kind: IcebergType, values: pa.Array) -> IcebergType | None:
    match kind:
        case IntegerType():
            narrow = pc.and_(pc.greater_equal(values, -(2**31)), pc.less(values, 2**31))
            return None if pc.all(narrow, min_count=0).as_py() else LongType()
        case FloatType():
            numbers = np.asarray(values.filter(pc.is_valid(values)))
            return None if (np.abs(numbers[np.isfinite(numbers)]) <= _FLOAT_MAX).all() else DoubleType()
        case DecimalType():
            digits = max((len(v.as_tuple().digits) for v in values.filter(pc.is_valid(values)).to_pylist()), default=0)
            return DecimalType(digits, kind.scale) if digits > kind.precision else None
    return None


def _bare(kind: IcebergType) -> IcebergType:
    """Without field ids."""
    match kind:
        case StructType():
            fields = (NestedField(0, f.name, _bare(f.field_type), required=f.required) for f in kind.fields)
            return StructType(*fields)
        case ListType():
            return list_of(_bare(kind.element_type), required=kind.element_required)
        case MapType():
            return map_of(kind.key_type, _bare(kind.value_type), required=kind.value_required)
    return kind
