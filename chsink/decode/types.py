"""Parses ClickHouse type strings.

Purpose: turn the text of ``system.columns.type`` into a tree of frozen dataclasses, by which codecs are chosen.

Rules:

* The input is the server's own canonical spelling (``Decimal(9, 2)``, never ``Decimal32(2)``), but common
  short forms are read too.
* ``LowCardinality(T)`` and ``SimpleAggregateFunction(f, T)`` store what ``T`` stores, so both parse to
  ``T``.
* ``Nested(a A, b B)`` that was not flattened is ``Array(Tuple(a A, b B))``; geo types are parsed as the tuples and
  arrays that they are aliases of.
* A type to which no Kafka value can be written faithfully is refused here, by name, before a record is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chsink.errors import ConfigError, values
from chsink.notation.type_text import TypeNode, parse_type_text


@dataclass(frozen=True, slots=True)
class IntType:
    """``Int8`` … ``UInt256``."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        """Smallest value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest value (inclusive)."""
        return (1 << (self.bits - (1 if self.signed else 0))) - 1


@dataclass(frozen=True, slots=True)
class FloatType:
    """``BFloat16`` (bits 16), ``Float32``, ``Float64``."""

    bits: int


@dataclass(frozen=True, slots=True)
class DecimalType:
    """``Decimal(precision, scale)``, precision 1 … 76."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class EnumType:
    """``Enum8`` / ``Enum16`` with its members as (name, number)."""

    bits: int
    members: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class FixedStringType:
    """``FixedString(size)``, size in bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class DateTimeType:
    """``DateTime([timezone])``: whole seconds; no timezone means the server's."""

    timezone: str | None


@dataclass(frozen=True, slots=True)
class DateTime64Type:
    """``DateTime64(precision[, timezone])``: ticks of 10^-precision s."""

    precision: int
    timezone: str | None


@dataclass(frozen=True, slots=True)
class Time64Type:
    """``Time64(precision)``: ticks of 10^-precision s."""

    precision: int


@dataclass(frozen=True, slots=True)
class PlainType:
    """A type without parameters that matter here; ``name`` is one of :data:`PLAIN_NAMES`."""

    name: str


@dataclass(frozen=True, slots=True)
class NullableType:
    """``Nullable(item)``."""

    item: Type


@dataclass(frozen=True, slots=True)
class ArrayType:
    """``Array(item)``."""

    item: Type


@dataclass(frozen=True, slots=True)
class MapType:
    """``Map(key, value)``."""

    key: Type
    value: Type


@dataclass(frozen=True, slots=True)
class TupleType:
    """``Tuple(…)``: ``names`` is None for an unnamed one."""

    names: tuple[str, ...] | None
    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class VariantType:
    """``Variant(…)``: each alternative with the name the server gives it."""

    names: tuple[str, ...]
    items: tuple[Type, ...]


Type = (
    IntType
    | FloatType
    | DecimalType
    | EnumType
    | FixedStringType
    | DateTimeType
    | DateTime64Type
    | Time64Type
    | PlainType
    | NullableType
    | ArrayType
    | MapType
    | TupleType
    | VariantType
)

PLAIN_NAMES = frozenset({"Bool", "String", "UUID", "IPv4", "IPv6", "Date", "Date32", "Time", "JSON", "Dynamic"})

_POINT = TupleType(None, (FloatType(64), FloatType(64)))
_GEO: dict[str, Type] = {
    "Point": _POINT,
    "Ring": ArrayType(_POINT),
    "LineString": ArrayType(_POINT),
    "Polygon": ArrayType(ArrayType(_POINT)),
    "MultiLineString": ArrayType(ArrayType(_POINT)),
    "MultiPolygon": ArrayType(ArrayType(ArrayType(_POINT))),
}
_DECIMAL_PRECISION = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_INT = re.compile(r"(U?)Int(8|16|32|64|128|256)")
_FLOAT = {"BFloat16": 16, "Float32": 32, "Float64": 64}


def parse_type(text: str) -> Type:
    """Parse a ClickHouse type. Raises ConfigError CHS-506 (cannot be read) or CHS-502 (cannot be written to)."""
    try:
        return _build(parse_type_text(text), text)
    except ConfigError:  # ConfigError is a ValueError, too
        raise
    except (ValueError, IndexError):
        raise values.UNREADABLE_TYPE(type=repr(text)) from None


def _build(node: TypeNode, text: str) -> Type:
    name, args = node.name, node.args or ()
    integer = _INT.fullmatch(name)
    if integer:
        return IntType(int(integer[2]), not integer[1])
    if name in _FLOAT:
        return FloatType(_FLOAT[name])
    if name == "Object":
        return PlainType("JSON")
    if name in PLAIN_NAMES:
        return PlainType(name)
    if name in _GEO:
        return _GEO[name]
    built = _build_parametric(name, args, text)
    if built is None:
        raise values.UNSUPPORTED_COLUMN(type=text)
    return built


def _build_parametric(name: str, args: Sequence[TypeNode], text: str) -> Type | None:
    if name in ("Decimal", *_DECIMAL_PRECISION):
        return _build_decimal(name, args)
    if name in ("Enum", "Enum8", "Enum16"):
        return _build_enum(name, args)
    if name == "FixedString":
        return FixedStringType(int(args[0].name))
    if name == "DateTime":
        return DateTimeType(args[0].literal if args else None)
    if name == "DateTime64":
        zone = args[1].literal if len(args) > 1 else None
        return DateTime64Type(int(args[0].name) if args else 3, zone)
    if name == "Time64":
        return Time64Type(int(args[0].name) if args else 3)
    return _build_container(name, args, text)


def _build_container(name: str, args: Sequence[TypeNode], text: str) -> Type | None:
    if name == "SimpleAggregateFunction":
        return _build(args[1], text)
    items = tuple(_build(arg, text) for arg in args) if name in _CONTAINERS else ()
    if name == "LowCardinality":
        return items[0]
    if name == "Nullable":
        return NullableType(items[0])
    if name == "Array":
        return ArrayType(items[0])
    if name == "Map":
        return MapType(items[0], items[1])
    if name == "Variant":
        return VariantType(tuple(map(str, args)), items)
    names = tuple(arg.element for arg in args if arg.element is not None)
    if name == "Tuple" and items:
        return TupleType(names if len(names) == len(items) else None, items)
    if name == "Nested" and len(names) == len(items) > 0:
        return ArrayType(TupleType(names, items))
    return None


_CONTAINERS = frozenset({"LowCardinality", "Nullable", "Array", "Map", "Variant", "Tuple", "Nested"})


def _build_decimal(name: str, args: Sequence[TypeNode]) -> DecimalType:
    numbers = [int(arg.name) for arg in args]
    if name in _DECIMAL_PRECISION:
        return DecimalType(_DECIMAL_PRECISION[name], numbers[0])
    return DecimalType(*((*numbers, 0)[:2] if numbers else (10, 0)))


def _build_enum(name: str, args: Sequence[TypeNode]) -> EnumType:
    members: list[tuple[str, int]] = []
    for arg in args:
        implied = members[-1][1] + 1 if members else 1
        members.append((arg.literal, implied if arg.number is None else arg.number))
    wide = name == "Enum16" or any(not -128 <= number < 128 for _, number in members)
    return EnumType(16 if wide else 8, tuple(members))
