"""The names by which records give a table's fields: those of the table's name mapping, else the fields' own.

Rules:
- A field that the mapping (``schema.name-mapping.default``) names is read by these names alone, at each level.
- A field with several names is read by each of them.  A record that gives two of them does not fit.
- Options of a format, and key columns, name columns by their own names, so such a column has no other name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from chsink.decode.codec import Mask, valid_of
from chsink.decode.containers import entries, flatten, lift, null_mask
from chsink.formats.settings import FormatSettings

RecordNames = Mapping[int, tuple[str, ...]]
"""Field id → names in records, for the fields that the mapping names."""
MaskedFaults = list[tuple[Mask, str]]
"""Masks of rows that do not fit, each with the reason."""
MISSING = "missing or null, and the column is required"
TWICE = "given under several of its names: {}"


def record_names(metadata: TableMetadata, value: FormatSettings) -> RecordNames:
    """The names of a table's mapping; none for a format without names, and for a mapping with :func:`faults`."""
    return {} if value.closed or any(faults(metadata)) else _mapped(metadata)


def faults(metadata: TableMetadata) -> Iterator[str]:
    """Why the mapping cannot be followed."""
    try:
        names = _mapped(metadata)
    except ValueError as error:
        yield f"it cannot be read: {str(error).splitlines()[0]}"
    else:
        yield from _shared(metadata.schema().as_struct(), names, "")


def clashes(schema: Schema, names: RecordNames, named: Collection[str]) -> tuple[str, ...]:
    """The columns that options name, and that have another name in records."""
    return tuple(f.name for f in schema.fields if f.name in named and given_names(f, names) != (f.name,))


def _mapped(metadata: TableMetadata) -> RecordNames:
    todo = list(metadata.name_mapping() or ())
    for field in todo:  # it grows
        todo += field.fields
    return {f.field_id: tuple(dict.fromkeys(f.names)) for f in todo if f.field_id is not None and f.names}


def given_names(field: NestedField, names: RecordNames) -> tuple[str, ...]:
    """The names by which records give the field."""
    return names.get(field.field_id, (field.name,))


def named(kind: StructType, name: str, names: RecordNames) -> NestedField | None:
    """The field that records give by this name, or whose own name it is; None if there is none."""
    given = (field for field in kind.fields if name in given_names(field, names))
    return next(given, next((field for field in kind.fields if field.name == name), None))


def _shared(kind: IcebergType, names: RecordNames, place: str) -> Iterator[str]:
    match kind:
        case StructType():
            counts = Counter(name for field in kind.fields for name in given_names(field, names))
            yield from (f"{place}{name} is a name of {count} fields" for name, count in counts.items() if count > 1)
            for field in kind.fields:
                yield from _shared(field.field_type, names, f"{place}{field.name}.")
        case ListType():
            yield from _shared(kind.element_type, names, f"{place}element.")
        case MapType():
            yield from _shared(kind.value_type, names, f"{place}value.")


def asked(kind: StructType, names: RecordNames) -> StructType:
    """The struct as records give it: one field for each name.  Of several names, each may be missing."""
    fields = []
    for field in kind.fields:
        mine, inner = given_names(field, names), _asked(field.field_type, names)
        fields += [NestedField(field.field_id, n, inner, required=field.required and len(mine) == 1) for n in mine]
    return StructType(*fields)


def _asked(kind: IcebergType, names: RecordNames) -> IcebergType:
    match kind:
        case StructType():
            return asked(kind, names)
        case ListType():
            return ListType(kind.element_id, _asked(kind.element_type, names), element_required=kind.element_required)
        case MapType():
            value = _asked(kind.value_type, names)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
    return kind


def gathered(
    arrays: Sequence[pa.Array], kind: StructType, names: RecordNames
) -> tuple[list[pa.Array], MaskedFaults, list[str]]:
    """The arrays of a struct's fields, from those of the fields that are :func:`asked` for; and the rows that do not
    fit, with the name of the field for each fault.
    """
    if all(len(mine) == 1 for mine in names.values()):
        return list(arrays), [], []
    found, wrong, where = list[pa.Array](), MaskedFaults(), list[str]()
    at = 0
    for field in kind.fields:
        mine = given_names(field, names)
        given = [_within(array, field.field_type, names) for array in arrays[at : at + len(mine)]]
        at += len(mine)
        more = [fault for _, inner in given for fault in inner]
        array = given[0][0]
        if len(mine) > 1:
            array, counts = _first([each for each, _ in given])
            more += [(counts > 1, TWICE.format(", ".join(mine))), ((counts == 0) & field.required, MISSING)]
        found.append(array)
        wrong += more
        where += [field.name] * len(more)
    return found, wrong, where


def _within(array: pa.Array, kind: IcebergType, names: RecordNames) -> tuple[pa.Array, MaskedFaults]:
    """The same for the structs in an array."""
    if isinstance(kind, StructType) and isinstance(array, pa.StructArray):
        children, wrong, _ = gathered(array.flatten(), kind, names)
        fields = [pa.field(f.name, child.type) for f, child in zip(kind.fields, children, strict=True)]
        there = valid_of(array)
        struct = pa.StructArray.from_arrays(children, fields=fields, mask=null_mask(array))
        return struct, [(mask & there, reason) for mask, reason in wrong]
    if isinstance(kind, MapType) and isinstance(array, pa.MapArray):
        offsets, keys, items, parents = entries(array)
        items, wrong = _within(items, kind.value_type, names)
        map_type = pa.map_(keys.type, items.type)
        built = pa.MapArray.from_arrays(offsets, keys, items, type=map_type, mask=null_mask(array))
        return built, _lifted(wrong, parents, len(array))
    if isinstance(kind, ListType) and isinstance(array, pa.ListArray):
        offsets, elements, parents = flatten(array)
        elements, wrong = _within(elements, kind.element_type, names)
        return pa.ListArray.from_arrays(offsets, elements, mask=null_mask(array)), _lifted(wrong, parents, len(array))
    return array, []


def _lifted(wrong: MaskedFaults, parents: npt.NDArray[np.int64], size: int) -> MaskedFaults:
    above = [(lift(mask, parents, size), reason) for mask, reason in wrong]
    return [(mask, reason) for mask, reason in above if mask is not None]


def _first(arrays: Sequence[pa.Array]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The first value of each row that is not null, and how many there are."""
    there = np.stack([valid_of(array) for array in arrays])
    size = len(arrays[0])
    chosen = there.argmax(axis=0) * size + np.arange(size)
    return pa.concat_arrays(arrays).take(pa.array(chosen)), there.sum(axis=0)
