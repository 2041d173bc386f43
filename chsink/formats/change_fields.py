"""The fields in the rows of Debezium's change events, and the column types to create for them.

A row is ``after``, or ``before`` if there is no ``after``.  If the converter wrote a schema beside the payload, the
field's Connect type decides the column's type, which accepts the JSON that the converter writes.  Otherwise the type is
inferred from the values, as for JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pyarrow as pa

from chsink.decode.inferred import TEXT, Kinds, wider
from chsink.formats.whole import as_binary

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NONE: Final = msgspec.Raw(b"null")
_OBJECT: Final[Any] = msgspec.json.Decoder(dict[str, msgspec.Raw])
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


class _Event(msgspec.Struct, gc=False):
    """A change event, or the object around it that holds ``payload`` and ``schema``."""

    op: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    before: msgspec.Raw = _NONE
    payload: msgspec.Raw = _NONE
    schema: msgspec.Raw = _NONE


class _Type(msgspec.Struct, gc=False):
    """A type of Kafka Connect."""

    type: str = ""
    field: str = ""
    fields: list[_Type] = []
    items: _Type | None = None


_EVENT: Final = msgspec.json.Decoder(_Event)
_TYPE: Final = msgspec.json.Decoder(_Type)


@dataclass(frozen=True)
class ChangeFields:
    """:class:`chsink.formats.offered.Offered` for Debezium.  ``used``: fields that paths in the job file read."""

    used: frozenset[str]

    def counts(self, values: pa.Array, known: Collection[str]) -> Counter[str]:
        """See :class:`chsink.formats.offered.Offered`."""
        found: Counter[str] = Counter()
        for row, _ in self._rows(values):
            found.update(row.keys() - self.used - set(known))
        return found

    def columns(self, values: pa.Array, known: Collection[str]) -> dict[str, str | None]:
        """See :class:`chsink.formats.offered.Offered`."""
        kinds: dict[str, Kinds] = {}
        found: dict[str, str | None] = {}
        types: dict[bytes, Mapping[str, str]] = {}
        for row, schema in self._rows(values):
            text = bytes(schema)
            if text not in types:
                types[text] = _types_of(text)
            for name, raw in row.items():
                if name in self.used or name in known:
                    continue
                found.setdefault(name, None)
                if (kind := types[text].get(name)) is not None:
                    found[name] = _both(found[name], kind)
                else:
                    kinds.setdefault(name, Kinds()).add(bytes(raw))
        return {name: _both(kind, kinds[name].column() if name in kinds else None) for name, kind in found.items()}

    def _rows(self, values: pa.Array) -> Iterator[tuple[dict[str, Any], msgspec.Raw]]:
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


def _both(one: str | None, other: str | None) -> str | None:
    return wider(one, other) if one is not None and other is not None else one or other


def _types_of(schema: bytes) -> Mapping[str, str]:
    """Maps each field of a row to its column type.  Empty if ``schema`` is not the schema of a change event."""
    try:
        event = _TYPE.decode(schema)
    except NOT_JSON:
        return {}
    rows = [part for part in event.fields if part.field in _NAMES]
    return {field.field: _column(field) for row in rows for field in row.fields}


def _column(kind: _Type) -> str:
    found = _type(kind)
    return f"{found} DEFAULT []" if found.startswith("Array") else found


def _type(kind: _Type) -> str:
    """The ClickHouse type.  Bytes become base64 text; structs and maps become their JSON text."""
    if kind.type == "array" and kind.items is not None:
        return f"Array({_type(kind.items)})"
    return _SCALARS.get(kind.type, TEXT)
