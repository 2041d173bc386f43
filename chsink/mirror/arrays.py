"""The arrays of a table's files, made from those that codecs make: the same values in other types, at each level.

A required field of a struct has a value even where the struct is null: the writer of files refuses nulls there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import valid_of
from chsink.decode.containers import entries, flatten, null_mask


def narrow(field: pa.Field) -> pa.Field:
    """The field with 32-bit offsets, which are the same in a file: a batch is far below 2 GiB."""
    kind = field.type
    if pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_large_binary(kind):
        kind = pa.binary()
    elif isinstance(kind, pa.LargeListType):
        kind = pa.list_(narrow(kind.value_field))
    elif isinstance(kind, pa.MapType):
        kind = pa.map_(narrow(kind.key_field), narrow(kind.item_field))
    elif isinstance(kind, pa.StructType):
        kind = pa.struct(list(map(narrow, kind)))
    return field.with_type(kind)


def cast(array: pa.Array, field: pa.Field) -> pa.Array:
    """The values in the field's type, which holds the same ones; others raise, such as text that is not UTF-8."""
    kind = field.type
    if isinstance(array, pa.StructArray) and isinstance(kind, pa.StructType):
        children = [_beneath(array, child, inner) for child, inner in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=null_mask(array))
    if isinstance(array, pa.MapArray) and isinstance(kind, pa.MapType):
        offsets, keys, items, _ = entries(array)
        keys, items = cast(keys, kind.key_field), cast(items, kind.item_field)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=null_mask(array))
    if isinstance(array, pa.ListArray) and isinstance(kind, pa.ListType):
        offsets, elements, _ = flatten(array)
        return pa.ListArray.from_arrays(offsets, cast(elements, kind.value_field), type=kind, mask=null_mask(array))
    if pa.types.is_timestamp(kind) and kind.tz is None:
        array = pc.cast(array, pa.timestamp("us"))  # the wall clock of UTC
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, pc.cast(array, kind.storage_type))
    return pc.cast(array, kind)


def _beneath(struct: pa.StructArray, child: pa.Array, field: pa.Field) -> pa.Array:
    """A field of the struct.  A null of a required one stays, which the writer refuses, unless the struct is null."""
    made = cast(child, field)
    if field.nullable or not made.null_count or (valid_of(struct) & ~valid_of(made)).any():
        return made
    return _filled(made)


def _filled(array: pa.Array) -> pa.Array:
    """With any value in place of each null."""
    if isinstance(array, pa.ExtensionArray) and isinstance(array.type, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(array.type, _filled(array.storage))
    if isinstance(array, pa.StructArray):
        children = [array.field(at) for at in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if isinstance(array, pa.MapArray):
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, type=array.type)
    if isinstance(array, pa.ListArray):
        return pa.ListArray.from_arrays(array.offsets, array.values, type=array.type)
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)
