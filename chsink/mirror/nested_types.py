"""Structs, lists and maps of new columns, which have no field ids yet: all are 0.  Everything in them may be null."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

from chsink.notation.metadata_columns import is_column_name

NewColumns = dict[str, IcebergType]
"""The columns of a new table, in their order."""


def struct_of(fields: Mapping[str, IcebergType | None]) -> IcebergType | None:
    """A struct of the fields that have a type; None if there are none.  Text if a name can be no field's."""
    known = [NestedField(0, name, kind, required=False) for name, kind in fields.items() if kind is not None]
    if not all(map(is_column_name, fields)):
        return StringType()
    return StructType(*known) if known else None


def list_of(item: IcebergType, *, required: bool = False) -> ListType:
    """A list of these."""
    return ListType(0, item, element_required=required)


def map_of(key: IcebergType, value: IcebergType, *, required: bool = False) -> MapType:
    """A map from one to the other."""
    return MapType(0, key, 0, value, value_required=required)


def fields_in(kind: IcebergType) -> int:
    """The number of fields of all structs in it."""
    match kind:
        case StructType():
            return sum(1 + fields_in(field.field_type) for field in kind.fields)
        case ListType():
            return fields_in(kind.element_type)
        case MapType():
            return fields_in(kind.value_type)
    return 0
