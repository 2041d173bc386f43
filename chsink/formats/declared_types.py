"""The ClickHouse column type for an Arrow type.  Avro and Protobuf schemas are read as Arrow types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_SCALARS: Final = (
    (pa.types.is_boolean, "Bool"),
    (pa.types.is_date, "Date32"),
    (pa.types.is_time, "String"),
    (pa.types.is_string, "String"),
    (pa.types.is_binary, "String"),
)
_MOST_DIGITS: Final = 76


def column_of(kind: pa.DataType) -> str | None:
    """A column type that holds every value of ``kind``.  A type that cannot be Nullable gets a DEFAULT, because records
    of another schema may lack the field.  None for structs, and for unions other than of timestamps: the user must
    choose their column type.
    """
    found = _type(kind)
    if found is None or found.startswith("Nullable("):
        return found
    return f"{found} DEFAULT {'[]' if found.startswith('Array') else 'map()'}"


def _type(kind: pa.DataType) -> str | None:
    if pa.types.is_map(kind):
        key, value = _scalar(kind.key_type), _type(kind.item_type)
        return None if key is None or value is None else f"Map({key}, {value})"
    if pa.types.is_list(kind):
        item = _type(kind.value_type)
        return None if item is None else f"Array({item})"
    scalar = _scalar(kind)
    return None if scalar is None else f"Nullable({scalar})"


def _scalar(kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind):
        return f"{'Int' if pa.types.is_signed_integer(kind) else 'UInt'}{kind.bit_width}"
    if pa.types.is_floating(kind):
        return f"Float{kind.bit_width}"
    if pa.types.is_decimal(kind):
        return f"Decimal({kind.precision}, {kind.scale})" if 0 < kind.precision <= _MOST_DIGITS else None
    if pa.types.is_timestamp(kind):
        return f"DateTime64({_PLACES[kind.unit]}, 'UTC')"
    if pa.types.is_union(kind):
        instants = [one.type for one in kind if pa.types.is_timestamp(one.type) and one.type.tz]
        # Protobuf's Timestamp is a union of timestamps in several units: the finest unit holds all values
        finest = max(instants, key=lambda instant: _PLACES[instant.unit], default=None)
        return _scalar(finest) if finest is not None and len(instants) == kind.num_fields else None
    if pa.types.is_fixed_size_binary(kind):
        return f"FixedString({kind.byte_width})"
    return next((found for is_one, found in _SCALARS if is_one(kind)), None)


_PLACES: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
