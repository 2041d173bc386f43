"""A table's insertable columns as the decoder needs them: codec, null rule, and Nested group.

Null rule, for a JSON null and for a missing field alike: a Nullable or Variant column, and a Dynamic one without a
DEFAULT, stores NULL.  For a column with a DEFAULT, the decoder sends an Arrow null, and the server evaluates the
DEFAULT.  The server does not do so for Array, Map and JSON, and beside a JSON column (:mod:`chsink.decode.insert`) not
for Dynamic: if the DEFAULT of the former is empty, the decoder sends the empty value, otherwise null does not fit.  For
every other column, null does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Codec, Converted, Mask, Suspects, WireValue, merge, numpy_of, valid_of
from chsink.decode.columns import Column
from chsink.decode.containers import ArrayCodec, MapCodec
from chsink.decode.documents import DynamicCodec, JsonCodec
from chsink.decode.insert import holds_json
from chsink.decode.wire import codec_for
from chsink.errors import values

MISSING = "missing or null, and the column has no DEFAULT and is not Nullable"
UNREACHABLE = (
    "missing or null, and ClickHouse does not apply the DEFAULT of an Array, Map or JSON column to a single row,"
    " nor that of a Dynamic column beside JSON"
)
LENGTHS = "the arrays of a Nested column differ in length"


@dataclass(frozen=True, slots=True)
class Field:
    """One insertable column. ``null_reason`` says why null does not fit; None if it does.  ``group`` and ``member``
    name its place in a Nested column, else they are empty.
    """

    name: str
    codec: Codec
    null_reason: str | None
    empty: WireValue = None
    group: str = ""
    member: str = ""

    def settle_nulls(self, array: pa.Array) -> Converted:
        """Apply the null rule: fill in empty values, and find the rows in which null does not fit."""
        if not array.null_count:
            return array, None
        if self.null_reason is not None:
            return array, ~valid_of(array)
        if self.empty is not None:
            filler = pa.array([self.empty], array.type)
            index = pc.if_else(array.is_valid(), pa.array(np.arange(len(array))), len(array))
            array = pa.concat_arrays([array, filler]).take(index)
        return array, None


def fields_of(columns: Sequence[Column], timezone: str) -> tuple[Field, ...]:
    """The fields of the insertable columns, in order. Raises ConfigError CHS-502 … CHS-506."""
    insertable = [column for column in columns if column.insertable]
    names = [column.name for column in insertable]
    if not names or len(set(names)) != len(names):
        raise values.TABLE_COLUMNS()
    selects = any(holds_json(column.type) for column in insertable)
    return tuple(_field(column, codec_for(column.type, timezone), set(names), selects=selects) for column in insertable)


def _field(column: Column, codec: Codec, names: set[str], *, selects: bool) -> Field:
    reason: str | None = None
    empty: WireValue = None
    if isinstance(codec, DynamicCodec) and column.has_default:
        codec = DynamicCodec(defaulted=True)
        reason = UNREACHABLE if selects else None
    ignores_default = isinstance(codec, ArrayCodec | MapCodec | JsonCodec)
    if not codec.nullable and not column.has_default:
        reason = MISSING
    elif not codec.nullable and ignores_default:
        empty = "{}" if isinstance(codec, JsonCodec) else []
        reason = None if column.default_is_empty else UNREACHABLE
    group, dot, member = column.name.partition(".")
    nested = dot and "." not in member and group not in names and isinstance(codec, ArrayCodec)
    return Field(column.name, codec, reason, empty, group if nested else "", member if nested else "")


def groups_of(fields: Sequence[Field]) -> dict[str, list[int]]:
    """The positions of each Nested group's fields."""
    groups: dict[str, list[int]] = {}
    for at, field in enumerate(fields):
        if field.group:
            groups.setdefault(field.group, []).append(at)
    return groups


def uneven(arrays: Sequence[pa.Array], groups: dict[str, list[int]]) -> Suspects:
    """Rows in which the arrays of a Nested group differ in length."""
    bad: Mask | None = None
    for members in groups.values():
        lengths = [numpy_of(pc.list_value_length(arrays[at])) for at in members]
        for other in lengths[1:]:
            bad = merge(bad, other != lengths[0])
    return bad
