"""The fields in the rows of Debezium's change events, and the column types to create for them.

A row is ``after``, or ``before`` if there is no ``after``.  If the converter wrote a schema beside the payload, the
field's Connect type decides the column's type.  Otherwise the type is inferred from the values, as for JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec
import pyarrow as pa

from chsink.decode.connect import DAYS, DECIMAL, INSTANTS, ZONED, ConnectType, Said, connected
from chsink.decode.epoch import DIGITS
from chsink.decode.inferred import TEXT, Kinds, wider
from chsink.decode.values import MisfitError, with_raw
from chsink.decode.wire import codec_for
from chsink.formats.connect_schema import type_of
from chsink.formats.raw_and_string import as_binary

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NONE: Final = msgspec.Raw(b"null")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
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
_NAMES: Final = ("after", "before")
_EMPTY: Final = " DEFAULT []"
_PRECISION_MAX: Final = 76
_INSTANTS: Final[Mapping[str, int]] = MappingProxyType(
    {name: DIGITS[unit] for name, unit in INSTANTS.items()} | dict.fromkeys(ZONED, 9)
)


class _Event(msgspec.Struct, gc=False):
    """A change event, or the object around it that holds ``payload`` and ``schema``."""

    op: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    before: msgspec.Raw = _NONE
    payload: msgspec.Raw = _NONE
    schema: msgspec.Raw = _NONE


_EVENT: Final = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class ChangeFields:
    """:class:`chsink.formats.record_fields.Offered` for Debezium.  ``used``: fields that paths in the job file read."""

    used: frozenset[str]

    def counts(self, values: pa.Array, known: Collection[str]) -> Counter[str]:
        """See :class:`chsink.formats.record_fields.Offered`."""
        found: Counter[str] = Counter()
        for row, _ in self._rows(values):
            found.update(row.keys() - self.used - set(known))
        return found

    def columns(self, values: pa.Array, known: Collection[str], *, times: bool = False) -> dict[str, str | None]:
        """See :class:`chsink.formats.record_fields.Offered`."""
        seen: dict[str, _Seen] = {}
        types: dict[bytes, Mapping[str, ConnectType]] = {}
        for row, schema in self._rows(values):
            text = bytes(schema)
            if text not in types:
                types[text] = _types_of(text)
            for name, raw in row.items():
                if name not in self.used and name not in known:
                    seen.setdefault(name, _Seen(times)).add(bytes(raw), types[text].get(name))
        return {name: field.column() for name, field in seen.items()}

    def _rows(self, values: pa.Array) -> Iterator[tuple[dict[str, msgspec.Raw], msgspec.Raw]]:
        """The row of each event, and the schema beside it.  Skips events without a row."""
        for value in as_binary(values).to_pylist():
            if value is None:
                continue
            try:
                event = outer = _EVENT.decode(value)
                if bytes(outer.op) == b"null":
                    event = _EVENT.decode(outer.payload)
                row = event.before if bytes(event.after) == b"null" else event.after
                yield _OBJECT.decode(row), outer.schema
            except NOT_JSON:
                continue


class _Seen:
    """The values of one field: the columns for their Connect types, and the kinds of values without a type."""

    def __init__(self, times: bool) -> None:
        self._written: str | None = None
        self._timed: str | None = None
        self._fits = times
        self._kinds = Kinds(times)

    def add(self, raw: bytes, kind: ConnectType | None) -> None:
        """Add one value: its JSON text and its type."""
        if kind is None:
            self._kinds.add(raw)
            return
        written = _column(kind, times=False)
        self._written = _both(self._written, written)
        if self._fits:
            timed = _column(kind, times=True)
            self._timed = _both(self._timed, timed)
            self._fits = timed == written or raw == b"null" or _holds(timed, kind, raw)

    def column(self) -> str | None:
        """A column of a time only if it holds every value."""
        return _both(self._timed if self._fits else self._written, self._kinds.column())


def _holds(column: str, kind: ConnectType, raw: bytes) -> bool:
    codec = connected(codec_for(column.removesuffix(_EMPTY), "UTC"), kind, Said())
    try:
        codec.exact(with_raw(raw))
    except MisfitError:
        return False
    return True


def _both(one: str | None, other: str | None) -> str | None:
    return wider(one, other) if one is not None and other is not None else one or other


def _types_of(schema: bytes) -> Mapping[str, ConnectType]:
    """Maps each field of a row to its type.  Empty if ``schema`` is not the schema of a change event."""
    event = type_of(schema) or ConnectType()
    return {field.field: field for row in event.fields if row.field in _NAMES for field in row.fields}


def _column(kind: ConnectType, *, times: bool) -> str:
    found = _type(kind, times=times)
    return f"{found}{_EMPTY}" if found.startswith("Array") else found


def _type(kind: ConnectType, *, times: bool) -> str:
    """The ClickHouse type.  Bytes other than decimals become base64 text; structs and maps become their JSON text.
    With ``times``, dates and instants become such; without, they stay numbers and text.
    """
    if kind.type == "array" and kind.items is not None:
        return f"Array({_type(kind.items, times=times)})"
    if kind.name == DECIMAL:
        return _decimal(kind.scale, kind.precision)
    if times and kind.name in DAYS:
        return "Nullable(Date32)"
    if times and (digits := _INSTANTS.get(kind.name or "")) is not None:
        return f"Nullable(DateTime64({digits}, 'UTC'))"
    return _SCALARS.get(kind.type, TEXT)


def _decimal(scale: int | None, precision: int | None) -> str:
    if scale is None or precision is None or not 0 <= scale <= precision <= _PRECISION_MAX or not precision:
        return TEXT
    return f"Nullable(Decimal({precision}, {scale}))"
