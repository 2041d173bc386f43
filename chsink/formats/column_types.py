"""The types of columns that hold a field's values, as one kind of table names them.

:data:`CLICKHOUSE` names those of ClickHouse, by what follows a column's name in a statement.  The mirror has those of
Iceberg (:mod:`chsink.mirror.column_types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from chsink.decode.codec import Codec
from chsink.decode.connect import DAYS, DECIMAL, INSTANTS, ZONED, ConnectType
from chsink.decode.epoch import DIGITS
from chsink.decode.inferred import TEXT, Kinds, wider
from chsink.decode.wire import codec_for
from chsink.formats.declared_types import column_of

T = TypeVar("T")


class ColumnTypes(Protocol[T]):
    """Names the types ``T`` of one kind of table."""

    @property
    def inside(self) -> Mapping[str, Any]:
        """Members of JSON records that may hold something new: as what msgspec reads them if they do not."""

    def kinds(self, *, times: bool) -> Kinds:
        """Collects what :meth:`of_json` has to know about JSON values.  With ``times``, text may be a time."""

    def of_json(self, kinds: Kinds, field: str = "") -> T | None:
        """For JSON values of this field; None if they determine no type yet."""

    def of_schema(self, kind: pa.DataType) -> T | None:
        """For a field of an Avro or Protobuf schema, which was read as an Arrow type; None if the user must choose."""

    def of_connect(self, kind: ConnectType, *, times: bool) -> T:
        """For a field with a type of Kafka Connect, as JSON converters write it.  With ``times``, dates and instants
        become such; without, they stay numbers and text.
        """

    def of_clickhouse(self, declaration: str) -> T:
        """For the values of a ClickHouse column."""

    def wider(self, one: T, other: T) -> T:
        """Holds the values of both: of several tasks, or topics."""

    def of_schemas(self, one: T, other: T) -> T:
        """Holds the values of both exactly, as schemas declare them; text if no other type does."""

    def codec(self, kind: T) -> Codec:
        """Decodes values for such a column."""


def widest(types: ColumnTypes[T], *kinds: T | None) -> T | None:
    """Holds the values of all that are known exactly; None if none is."""
    known = [kind for kind in kinds if kind is not None]
    return reduce(types.of_schemas, known) if known else None


EMPTY: Final = " DEFAULT []"
_SCALARS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "boolean": "Nullable(Bool)",
        "int8": "Nullable(Int8)",
        "int16": "Nullable(Int16)",
        "int32": "Nullable(Int32)",
        "int64": "Nullable(Int64)",
        "float": "Nullable(Float64)",  # the converter writes the shortest text, which is no exact Float32
        "float32": "Nullable(Float64)",
        "float64": "Nullable(Float64)",
        "double": "Nullable(Float64)",
    }
)
_PRECISION_MAX: Final = 76
INSTANT_DIGITS: Final[Mapping[str, int]] = MappingProxyType(
    {name: DIGITS[unit] for name, unit in INSTANTS.items()} | dict.fromkeys(ZONED, 9)
)
"""Connect's names of instants, and their decimal digits of a second."""


class ClickHouseTypes:
    """:class:`ColumnTypes` as ``ADD COLUMN`` takes them after the name."""

    inside: Mapping[str, Any] = MappingProxyType({})

    def kinds(self, *, times: bool) -> Kinds:
        """See :class:`ColumnTypes`.  Objects become text."""
        return Kinds(times)

    def of_json(self, kinds: Kinds, field: str = "") -> str | None:
        """See :class:`ColumnTypes`."""
        del field
        return kinds.column()

    def of_schema(self, kind: pa.DataType) -> str | None:
        """See :class:`ColumnTypes`."""
        return column_of(kind)

    def of_connect(self, kind: ConnectType, *, times: bool) -> str:
        """See :class:`ColumnTypes`."""
        found = self._connect(kind, times=times)
        return f"{found}{EMPTY}" if found.startswith("Array") else found

    def _connect(self, kind: ConnectType, *, times: bool) -> str:
        """Bytes other than decimals become base64 text; structs and maps become their JSON text."""
        if kind.type == "array" and kind.items is not None:
            return f"Array({self._connect(kind.items, times=times)})"
        if kind.name == DECIMAL:
            return _decimal(kind.scale, kind.precision)
        if times and kind.name in DAYS:
            return "Nullable(Date32)"
        if times and (digits := INSTANT_DIGITS.get(kind.name or "")) is not None:
            return f"Nullable(DateTime64({digits}, 'UTC'))"
        return _SCALARS.get(kind.type, TEXT)

    def of_clickhouse(self, declaration: str) -> str:
        """See :class:`ColumnTypes`."""
        return declaration

    def wider(self, one: str, other: str) -> str:
        """See :class:`ColumnTypes`."""
        return wider(one, other)

    of_schemas = wider

    def codec(self, kind: str) -> Codec:
        """See :class:`ColumnTypes`."""
        return codec_for(kind.removesuffix(EMPTY), "UTC")


class _Alternatives(ClickHouseTypes):
    """For JSON, all types that hold the values, because others have seen more of them."""

    def of_json(self, kinds: Kinds, field: str = "") -> str | None:
        """See :class:`ColumnTypes`."""
        del field
        return kinds.types()


CLICKHOUSE: Final = ClickHouseTypes()
ALTERNATIVES: Final = _Alternatives()
"""For ``wider`` of :mod:`chsink.decode.inferred`; in the end, ``narrowest`` is the column."""


def _decimal(scale: int | None, precision: int | None) -> str:
    if scale is None or precision is None or not 0 <= scale <= precision <= _PRECISION_MAX or not precision:
        return TEXT
    return f"Nullable(Decimal({precision}, {scale}))"
