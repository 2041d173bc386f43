"""Converts key columns from Arrow to the form in which ClickHouse stores them, because its hash functions read that.

A column must have the wire type that `chsink.decode.wire` gives its ClickHouse type. Nothing is rounded, wrapped or
truncated: a value without an exact stored form is an error, because its row would go to a shard where queries do not
look for it. Error texts never contain the value; they drop the causing exception, which does.

Stored forms, each compared with the engine: numbers little-endian in their column's width; Decimals as their
scaled integer; dates as days (`Date` in two bytes, `Date32` in four), DateTime as seconds in four, DateTime64
as ticks in eight; Enum as its number; IPv4 as a UInt32, IPv6 in network order; UUID as two little-endian
64-bit halves, high half first; FixedString padded with zero bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.errors import shards
from chsink.sharding.xxh64 import I64, U8, ByteSlices

if TYPE_CHECKING:
    from collections.abc import Callable

    from chsink.sharding.keytypes import KeyType

# Numbers in their stored width, shape (n,).
Numbers = npt.NDArray[Any]
Stored = Numbers | ByteSlices

_NUMBERS: dict[str, pa.DataType] = {
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Enum8": pa.int8(),
    "Enum16": pa.int16(),
    "IPv4": pa.uint32(),
}
_BYTES = {"Int128": 16, "UInt128": 16, "Int256": 32, "UInt256": 32, "IPv6": 16}
_TICKS = ((0, "s"), (3, "ms"), (6, "us"), (9, "ns"))


class _MisfitError(Exception):
    """A column or value without an exact stored form; the text never contains a value."""


def stored_values(name: str, key_type: KeyType, column: pa.Array) -> Stored:
    """The stored form of each value of `column`, which must not contain nulls.

    Raises HaltError CHS-406 if the Arrow type or a value does not fit `key_type`.
    """
    assert column.null_count == 0, "rows with a null key have no hash"
    try:
        return ENCODERS[key_type.family](key_type, column)
    except _MisfitError as misfit:
        reason = str(misfit)
    except (pa.ArrowException, ValueError, OverflowError, OSError):
        reason = "a value does not fit the column's type"
    raise shards.KEY_VALUE(column=repr(name), type=key_type.text, wire=column.type, reason=reason)


def _number(key_type: KeyType, column: pa.Array) -> Stored:
    wire = _NUMBERS[key_type.family]
    _require(column.type == wire, f"Arrow {wire} is expected")
    return _numbers(column, wire)


def _bool(_: KeyType, column: pa.Array) -> Stored:
    _require(pa.types.is_boolean(column.type), "booleans are expected")
    return _numbers(column, pa.uint8())


def _date(_: KeyType, column: pa.Array) -> Stored:
    _require(pa.types.is_date32(column.type), "Arrow date32 is expected")
    return _numbers(column.cast(pa.int32()), pa.uint16())


def _date32(_: KeyType, column: pa.Array) -> Stored:
    _require(pa.types.is_date32(column.type), "Arrow date32 is expected")
    return _numbers(column, pa.int32())


def _datetime(_: KeyType, column: pa.Array) -> Stored:
    return _numbers(_ticks(column, "s"), pa.uint32())


def _datetime64(key_type: KeyType, column: pa.Array) -> Stored:
    if pa.types.is_decimal128(column.type):
        words = _fixed_width(column.cast(pa.decimal128(38, key_type.size))).view("<i8")
        _require(bool((words[:, 1] == words[:, 0] >> 63).all()), "a time is out of range")
        return words[:, 0]
    digits, unit = next((digits, unit) for digits, unit in _TICKS if digits >= key_type.size)
    ticks: I64 = _ticks(column, unit).to_numpy()
    factor = 10 ** (digits - key_type.size)
    _require(not (ticks % factor).any(), "a time is finer than the column's precision")
    scaled: I64 = ticks // factor
    return scaled


def _ticks(column: pa.Array, unit: str) -> pa.Array:
    """Timestamps as integers of `unit` since the epoch; the time zone only affects display."""
    _require(pa.types.is_timestamp(column.type), "Arrow timestamps are expected")
    zone = cast("pa.TimestampType", column.type).tz
    return column.cast(pa.timestamp(unit, zone)).cast(pa.int64())


def _decimal(key_type: KeyType, column: pa.Array) -> Stored:
    _require(pa.types.is_decimal(column.type), "Arrow decimals are expected")
    exact = column.cast(pa.decimal128(key_type.size, key_type.scale))
    raw = _fixed_width(exact)
    if key_type.family == "Decimal128":
        return ByteSlices.of_matrix(raw)
    # The precision bounds the value, so the low bytes hold the whole value.
    return raw.view("<i8")[:, 0].astype(np.int32 if key_type.family == "Decimal32" else np.int64)


def _decimal256(key_type: KeyType, column: pa.Array) -> Stored:
    _require(pa.types.is_decimal(column.type), "Arrow decimals are expected")
    exact = column.cast(pa.decimal256(key_type.size, key_type.scale))
    return ByteSlices.of_matrix(_fixed_width(exact))


def _bytes(key_type: KeyType, column: pa.Array) -> Stored:
    wire = pa.binary(_BYTES[key_type.family])
    _require(column.type == wire, f"Arrow {wire} is expected")
    return ByteSlices.of_matrix(_fixed_width(column))


def _string(_: KeyType, column: pa.Array) -> ByteSlices:
    """The values' bytes, one after the other, without copying them."""
    _require(column.type == pa.binary(), "Arrow binary is expected")
    _, offset_buffer, data_buffer = column.buffers()
    every = np.frombuffer(offset_buffer, dtype="<i4")
    offsets: I64 = every[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return ByteSlices(data, offsets[:-1] - offsets[0], np.diff(offsets))


def _fixed_string(key_type: KeyType, column: pa.Array) -> Stored:
    values = _string(key_type, column)
    _require(int(values.lengths.max()) <= key_type.size, "a value is longer than the column")
    padded = np.zeros((len(values), key_type.size), dtype=np.uint8)
    padded[np.arange(key_type.size) < values.lengths[:, None]] = values.data
    return ByteSlices.of_matrix(padded)


def _uuid(_: KeyType, column: pa.Array) -> Stored:
    """Both halves of 8 bytes reversed: ClickHouse stores a UUID as two little-endian numbers."""
    _require(column.type == pa.binary(16), f"Arrow {pa.binary(16)} is expected")
    halves = _fixed_width(column).reshape(-1, 8)
    return ByteSlices.of_matrix(np.ascontiguousarray(halves[:, ::-1]).reshape(-1, 16))


def _numbers(column: pa.Array, wire: pa.DataType) -> Numbers:
    """The values as `wire`. Raises for a value out of its range."""
    return np.asarray(column.cast(wire).to_numpy())


def _fixed_width(column: pa.Array) -> U8:
    """The values of a decimal or fixed-size binary column, shape `(n, width)`."""
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    return data[column.offset * width : (column.offset + len(column)) * width].reshape(-1, width)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise _MisfitError(reason)


ENCODERS: dict[str, Callable[[KeyType, pa.Array], Stored]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_BYTES, _bytes),
    **dict.fromkeys(("Decimal32", "Decimal64", "Decimal128"), _decimal),
    "Bool": _bool,
    "Date": _date,
    "Date32": _date32,
    "DateTime": _datetime,
    "DateTime64": _datetime64,
    "Decimal256": _decimal256,
    "FixedString": _fixed_string,
    "String": _string,
    "UUID": _uuid,
}
