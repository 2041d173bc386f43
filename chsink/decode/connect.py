"""Values as Kafka Connect's JSON converter writes them, read by their Connect type: the schema beside the payload.

Rules:

- The schema decides: a decimal by its scale, a date or time by its unit.  Where it says neither, the job file may name
  the scale (``decimals``) or the unit (``epoch``).
- A date, a time of day and an instant fit only the columns of their kind, and any column that takes the plain number or
  text: as Debezium writes it.
- Without a schema, text that may be the bytes of a decimal (base64) does not fit a number: ``"1234"`` is a number, too.
  The job file must say which it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Codec, Converted, Reader, WireValue, mask_of, merge, valid_of
from chsink.decode.containers import ArrayCodec, MapCodec, TupleCodec
from chsink.decode.epoch import EpochCodec, with_unit
from chsink.decode.numbers import BoolCodec, DecimalCodec, FloatCodec, IntCodec
from chsink.decode.times import DateCodec, InstantCodec, TimeCodec
from chsink.decode.types import TupleType
from chsink.decode.unscaled import UnscaledCodec, VariableScaleCodec, variable_number
from chsink.decode.uuid_ip_enum import EnumCodec, IpCodec, UuidCodec
from chsink.decode.values import JsonValue, MisfitError, Number, Pairs, kinds_of
from chsink.decode.wrapping_codecs import OuterCodec, OuterNumberCodec

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
DAYS: Final = frozenset({"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
INSTANTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "io.debezium.time.Timestamp": "millis",
        "io.debezium.time.MicroTimestamp": "micros",
        "io.debezium.time.NanoTimestamp": "nanos",
        "org.apache.kafka.connect.data.Timestamp": "millis",
    }
)
TIMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "io.debezium.time.Time": "millis",
        "io.debezium.time.MicroTime": "micros",
        "io.debezium.time.NanoTime": "nanos",
        "io.debezium.time.MicroDuration": "micros",
        "io.debezium.time.NanoDuration": "nanos",
        "org.apache.kafka.connect.data.Time": "millis",
    }
)
ZONED: Final = frozenset({"io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoTimestamp"})
"""Text of a date and time with its offset."""
YEAR: Final = "io.debezium.time.Year"
IN_UTC: Final = frozenset({"io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.ZonedTime"})
"""Text of a date or a time of day that ends in ``Z``."""
_BASE64: Final = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
_UNDECLARED: Final = (
    "a string that may be a number or the bytes of a decimal (decimal.handling.mode=precise) in {}: name the column in "
    "`decimals` of the format, or set value.converter.schemas.enable=true"
)

_Digits = int | Literal["text"]
"""What the job file says of a column's text: the scale of Connect's bytes, or that it is the number itself."""


class ConnectType(msgspec.Struct, frozen=True, gc=False):
    """A type of Kafka Connect, as the JSON converter writes it."""

    type: str = ""
    field: str = ""
    name: str | None = None
    parameters: dict[str, str] | None = None
    fields: list[ConnectType] = []
    items: ConnectType | None = None
    values: ConnectType | None = None

    def member(self, name: str) -> ConnectType | None:
        """The type of a struct's field, or of a map's values; None if there is none."""
        return self.values if self.type == "map" else next((one for one in self.fields if one.field == name), None)

    @property
    def scale(self) -> int | None:
        """The scale of a Decimal; None if the schema does not say it."""
        return self._parameter("scale")

    @property
    def precision(self) -> int | None:
        """The number of digits of a Decimal; None if the schema does not say it."""
        return self._parameter("connect.decimal.precision")

    def _parameter(self, name: str) -> int | None:
        text = (self.parameters or {}).get(name, "")
        return int(text) if re.fullmatch("-?[0-9]{1,5}", text) else None


@dataclass(frozen=True, slots=True)
class Said:
    """What the job file says of a column, for values of which no schema says it."""

    digits: _Digits | None = None
    unit: str | None = None


def connected(codec: Codec, kind: ConnectType | None, said: Said) -> Codec:
    """The codec of a column for values of this Connect type; ``kind`` is None if no schema describes them."""
    if isinstance(codec, ArrayCodec):
        item = connected(codec.item, None if kind is None else kind.items, said)
        return codec if item is codec.item else _alike(codec, ArrayCodec(item))
    if isinstance(codec, MapCodec):
        value = connected(codec.value, None if kind is None else kind.values, said)
        return codec if value is codec.value else _alike(codec, MapCodec(codec.key, value))
    if isinstance(codec, TupleCodec):
        kinds = [None if kind is None else kind.member(name) for name in codec.names]
        items = [connected(item, one, said) for item, one in zip(codec.items, kinds, strict=True)]
        if all(item is before for item, before in zip(items, codec.items, strict=True)):
            return codec
        names = TupleType(codec.names if codec.named else None, ())
        return _alike(codec, TupleCodec(names, items, ordered=codec.ordered))
    if isinstance(codec, IntCodec | FloatCodec | DecimalCodec):
        return _number(codec, kind, said.digits)
    if isinstance(codec, DateCodec | InstantCodec | TimeCodec):
        return _time(codec, kind, said.unit)
    if kind is not None and (kind.type == "bytes" or kind.name == VARIABLE):
        if isinstance(codec, BoolCodec):
            return _number(codec, kind, None)
        if isinstance(codec, EnumCodec | IpCodec | UuidCodec):
            return _refused(codec, "bytes or a decimal")
    return codec


def _alike(codec: Codec, made: Codec) -> Codec:
    made.label, made.nullable, made.null_inside = codec.label, codec.nullable, codec.null_inside
    return made


def _number(codec: Codec, kind: ConnectType | None, digits: _Digits | None) -> Codec:
    if kind is None:
        if digits is None:
            return UndeclaredCodec(codec)
        return codec if digits == "text" else UnscaledCodec(codec, digits)
    if kind.name == DECIMAL:
        scale = kind.scale
        return (
            _refused(codec, "a decimal without a scale in its schema") if scale is None else UnscaledCodec(codec, scale)
        )
    if kind.name == VARIABLE:
        return VariableScaleCodec(codec)
    return _refused(codec, "bytes") if kind.type == "bytes" else codec


def _time(codec: DateCodec | InstantCodec | TimeCodec, kind: ConnectType | None, unit: str | None) -> Codec:
    name = "" if kind is None else kind.name or ""
    if name in DAYS:
        return EpochCodec(codec, "days") if isinstance(codec, DateCodec) else _refused(codec, "a date")
    if name in INSTANTS:
        fits = isinstance(codec, InstantCodec)
        return EpochCodec(codec, INSTANTS[name]) if fits else _refused(codec, "a date and time")
    if name in TIMES:
        return EpochCodec(codec, TIMES[name]) if isinstance(codec, TimeCodec) else _refused(codec, "a time of day")
    if name in IN_UTC:
        return codec if isinstance(codec, InstantCodec) else InUtcCodec(codec)
    if name in {YEAR, DECIMAL, VARIABLE}:
        return _refused(codec, "a year" if name == YEAR else "a decimal")
    return (with_unit(codec, unit) or codec) if unit else codec


def _refused(codec: Codec, what: str) -> Codec:
    return RefusingCodec(codec, f"{what} in {codec.label}")


class RefusingCodec(OuterCodec):
    """Takes no value of the schema's type, for this reason."""

    def __init__(self, inner: Codec, reason: str) -> None:
        super().__init__(inner)
        self.reason = reason

    def exact(self, value: JsonValue) -> WireValue:
        """Raises MisfitError."""
        del value
        raise MisfitError(self.reason)


class InUtcCodec(OuterCodec):
    """Text with a ``Z`` at its end."""

    def exact(self, value: JsonValue) -> WireValue:
        """As ``inner``, without the ``Z``."""
        if isinstance(value, str) and not isinstance(value, Number):
            value = value.removesuffix("Z")
        return self.inner.exact(value)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """By the reader of ``inner`` for text."""
        reader = self.inner.reader(samples) if kinds_of(samples) == {"string"} else None
        if reader is None or reader.source != pa.string():
            return None
        return Reader(reader.source, lambda texts: reader.convert(pc.replace_substring_regex(texts, "Z$", "")))


class UndeclaredCodec(OuterNumberCodec):
    """Numbers of which no schema and no option says how Debezium writes decimals."""

    guard = pa.struct([])

    def exact(self, value: JsonValue) -> WireValue:
        """As ``inner``, but not of text that may be base64.  An object of scale and value is a VariableScaleDecimal."""
        if isinstance(value, Pairs):
            return self.inner.exact(variable_number(value, self.label))
        if isinstance(value, str) and not isinstance(value, Number) and _may_be_bytes(value):
            raise MisfitError(_UNDECLARED.format(self.label))
        return self.inner.exact(value)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Text that cannot be base64 at once, or numbers."""
        reader = self.inner.accept(pa.string()) if kinds_of(samples) == {"string"} else None
        if reader is None:
            return super().reader(samples)

        def convert(texts: pa.Array) -> Converted:
            unclear = mask_of(pc.match_substring_regex(texts, f"^{_BASE64}$"))
            kept = pc.if_else(pa.array(unclear), pa.scalar(None, texts.type), texts) if unclear.any() else texts
            numbers, wrong = reader.convert(kept)
            return numbers, merge(unclear & valid_of(texts), wrong)

        return Reader(pa.string(), convert)


def _may_be_bytes(text: str) -> bool:
    return re.fullmatch(_BASE64, text, re.ASCII) is not None
