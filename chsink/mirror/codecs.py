"""The codec of each Iceberg type: those of ClickHouse's types where the values are the same, and four more.

Rules:
- Dates and timestamps are of the years 1 to 9999.  An integer in a timestamp counts microseconds; one that could count
  milliseconds or seconds is a bad value (:mod:`chsink.decode.times`).
- A time is ``HH:MM[:SS[.ffffff]]`` of one day.  A number is not a time: senders count seconds, milliseconds and
  microseconds.
- Bytes are base64 with padding, as JSON converters of Kafka write them.  There is one text for each value.
- A struct is an object, never an array: the order of its fields may change at any time.
- A key of a map is text in JSON, so its type holds one value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from chsink.decode import types as decoded
from chsink.decode.codec import Codec, Converted, Mask, Reader, WireValue, by_distinct
from chsink.decode.containers import ArrayCodec, MapCodec, TupleCodec
from chsink.decode.numbers import BoolCodec, DecimalCodec, FloatCodec, IntCodec
from chsink.decode.texts import StringCodec, encoded
from chsink.decode.times import CALENDAR_DAYS, DateCodec, InstantCodec, TimeCodec, ticks_of
from chsink.decode.uuid_ip_enum import UuidCodec
from chsink.decode.values import JsonValue, MisfitError, Number

_UTC: Final = "UTC"
_DAY: Final = 86_400_000_000
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?", re.ASCII)
_PLAIN_TIME: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?$"


def codec_of(kind: IcebergType, *, optional: bool = False) -> Codec | None:
    """The codec of a type of format version 2; None for any other type.  ``optional``: a value may be null."""
    codec = _codec(kind)
    if codec is not None:
        codec.label = str(kind) if kind.is_primitive else type(kind).__name__.removesuffix("Type").lower()
        codec.nullable = codec.null_inside = optional
    return codec


def _codec(kind: IcebergType) -> Codec | None:
    match kind:
        case StructType() if kind.fields:
            items = [codec_of(field.field_type, optional=field.optional) for field in kind.fields]
            known = [item for item in items if item is not None]
            names = tuple(field.name for field in kind.fields)
            return TupleCodec(decoded.TupleType(names, ()), known, ordered=False) if len(known) == len(items) else None
        case ListType():
            item = codec_of(kind.element_type, optional=not kind.element_required)
            return None if item is None else ArrayCodec(item)
        case MapType() if kind.key_type.is_primitive:
            key, value = codec_of(kind.key_type), codec_of(kind.value_type, optional=not kind.value_required)
            return None if key is None or value is None else MapCodec(key, value)
    return _flat(kind)


def _flat(kind: IcebergType) -> Codec | None:  # noqa: PLR0912 - one case for each type
    match kind:
        case BooleanType():
            return BoolCodec()
        case IntegerType():
            return IntCodec(decoded.IntType(32, signed=True))
        case LongType():
            return IntCodec(decoded.IntType(64, signed=True))
        case FloatType():
            return FloatCodec(decoded.FloatType(32))
        case DoubleType():
            return FloatCodec(decoded.FloatType(64))
        case DecimalType():
            return DecimalCodec(decoded.DecimalType(kind.precision, kind.scale))
        case DateType():
            return DateCodec("", CALENDAR_DAYS)
        case TimeType():
            return DayTimeCodec()
        case TimestampType() | TimestamptzType():
            return InstantCodec(6, _UTC, CALENDAR_DAYS)
        case StringType():
            return TextCodec()
        case UUIDType():
            return UuidCodec()
        case FixedType():
            return BytesCodec(len(kind))
        case BinaryType():
            return BytesCodec(None)
    return None


class DayTimeCodec(TimeCodec):
    """``time`` as microseconds of one day."""

    def __init__(self) -> None:
        super().__init__(6)
        self.label, self.wire = "time", pa.time64("us")

    def exact(self, value: JsonValue) -> WireValue:
        """Microseconds since midnight."""
        if isinstance(value, Number) or not isinstance(value, str):
            raise self.misfit(value)
        found = _TIME.fullmatch(value)
        if found is None:
            raise MisfitError(f"a string that is not a time of day (HH:MM:SS) in {self.label}")
        seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)
        return ticks_of(seconds, found[4], 6, self.label)

    def from_ticks(self, ticks: int) -> WireValue:
        """Microseconds since midnight.  Raises MisfitError if they are not in one day."""
        if not 0 <= ticks < _DAY:
            raise self.out_of_range()
        return ticks

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """From text."""
        del samples
        return Reader(pa.string(), self._from_day_texts)

    def accept(self, source: pa.DataType) -> Reader | None:
        """Text; the reference converts all others."""
        return self.reader(()) if pa.types.is_string(source) else None

    def _from_day_texts(self, texts: pa.Array) -> Converted:
        """Parsed as timestamps of 1970-01-01: Arrow parses no times of day."""
        if not pc.all(pc.match_substring_regex(texts, _PLAIN_TIME), min_count=0).as_py():
            raise MisfitError("not plain times")
        moments = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us"))
        return moments.view(pa.int64()).view(self.wire), None


class TextCodec(StringCodec):
    """``string``, whose bytes are UTF-8; a format may give it any bytes."""

    def exact(self, value: JsonValue) -> WireValue:
        """As a String, if it is UTF-8."""
        data: bytes = super().exact(value)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MisfitError(f"not valid UTF-8 at byte {error.start}") from None
        return data

    def accept(self, source: pa.DataType) -> Reader | None:
        """Byte strings that are UTF-8."""
        reader = super().accept(source)
        if reader is None or pa.types.is_string(source):
            return reader
        return Reader(source, lambda data: (data.cast(pa.string()).cast(pa.binary()), None))


class BytesCodec(Codec):
    """``binary``, and ``fixed`` of ``size`` bytes: bytes as they are, and text in base64."""

    def __init__(self, size: int | None) -> None:
        super().__init__("binary", pa.binary() if size is None else pa.binary(size))
        self.size = size

    def exact(self, value: JsonValue) -> WireValue:
        """The bytes."""
        data = value if isinstance(value, bytes) else self._decoded(value)
        if self.size is not None and len(data) != self.size:
            raise MisfitError(f"not as many bytes as {self.label} has")
        return data

    def _decoded(self, value: JsonValue) -> bytes:
        if isinstance(value, Number) or not isinstance(value, str):
            raise self.misfit(value)
        text = encoded(value)
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error:
            data = None
        if data is None or base64.b64encode(data) != text:
            raise MisfitError(f"a string that is not base64 in {self.label}")
        return data

    def accept(self, source: pa.DataType) -> Reader | None:
        """Bytes, and text."""
        if pa.types.is_string(source):
            return self.reader(())
        # The cast raises if one value has another size: then the caller checks each value.
        binary = pa.types.is_binary(source) or pa.types.is_fixed_size_binary(source)
        return Reader(source, lambda array: (array.cast(pa.binary()).cast(self.wire), None)) if binary else None

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """From text."""
        del samples
        return Reader(pa.string(), lambda texts: by_distinct(self, texts))


def beyond_calendar(moments: pa.Array) -> Mask:
    """A mask of the timestamps (Arrow, microseconds) outside the years 1 to 9999; null counts as inside."""
    ticks = np.asarray(moments.view(pa.int64()).fill_null(0))
    return (ticks < CALENDAR_DAYS[0] * _DAY) | (ticks >= (CALENDAR_DAYS[1] + 1) * _DAY)
