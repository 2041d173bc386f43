"""The fields in the rows of Debezium's change events, and the column types to create for them.

A row is ``after``, or ``before`` if there is no ``after``.  If the converter wrote a schema beside the payload, the
field's Connect type decides the column's type.  Otherwise the type is inferred from the values, as for JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic

import msgspec
import pyarrow as pa

from chsink.decode.connect import ConnectType, Said, connected
from chsink.decode.values import MisfitError, with_raw
from chsink.formats.column_types import ColumnTypes, T, widest
from chsink.formats.connect_schema import type_of
from chsink.formats.raw_and_string import as_binary

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NONE: Final = msgspec.Raw(b"null")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMES: Final = ("after", "before")


class _Event(msgspec.Struct, gc=False):
    """A change event, or the object around it that holds ``payload`` and ``schema``."""

    op: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    before: msgspec.Raw = _NONE
    payload: msgspec.Raw = _NONE
    schema: msgspec.Raw = _NONE


_EVENT: Final = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class ChangeFields(Generic[T]):
    """:class:`chsink.formats.record_fields.Offered` for Debezium.  ``used``: fields that paths in the job file read."""

    used: frozenset[str]
    types: ColumnTypes[T]

    def counts(self, values: pa.Array, known: Collection[str]) -> Counter[str]:
        """See :class:`chsink.formats.record_fields.Offered`."""
        found: Counter[str] = Counter()
        for row, _ in self._rows(values):
            found.update(row.keys() - self.used - set(known))
        return found

    def columns(self, values: pa.Array, known: Collection[str], *, times: bool = False) -> dict[str, T | None]:
        """See :class:`chsink.formats.record_fields.Offered`."""
        seen: dict[str, _Seen[T]] = {}
        types: dict[bytes, Mapping[str, ConnectType]] = {}
        for row, schema in self._rows(values):
            text = bytes(schema)
            if text not in types:
                types[text] = _types_of(text)
            for name, raw in row.items():
                if name not in self.used and name not in known:
                    seen.setdefault(name, _Seen(self.types, times)).add(bytes(raw), types[text].get(name))
        return {name: field.column(name) for name, field in seen.items()}

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


class _Seen(Generic[T]):
    """The values of one field: the columns for their Connect types, and the kinds of values without a type."""

    def __init__(self, types: ColumnTypes[T], times: bool) -> None:
        self._types = types
        self._written: T | None = None
        self._timed: T | None = None
        self._fits = times
        self._kinds = types.kinds(times=times)

    def add(self, raw: bytes, kind: ConnectType | None) -> None:
        """Add one value: its JSON text and its type."""
        if kind is None:
            self._kinds.add(raw)
            return
        written = self._types.of_connect(kind, times=False)
        self._written = widest(self._types, self._written, written)
        if self._fits:
            timed = self._types.of_connect(kind, times=True)
            self._timed = widest(self._types, self._timed, timed)
            self._fits = timed == written or raw == b"null" or self._holds(timed, kind, raw)

    def column(self, name: str) -> T | None:
        """A column of a time only if it holds every value.  ``name`` is the field's."""
        declared = self._timed if self._fits else self._written
        return widest(self._types, declared, self._types.of_json(self._kinds, name))

    def _holds(self, column: T, kind: ConnectType, raw: bytes) -> bool:
        codec = connected(self._types.codec(column), kind, Said())
        try:
            codec.exact(with_raw(raw))
        except MisfitError:
            return False
        return True


def _types_of(schema: bytes) -> Mapping[str, ConnectType]:
    """Maps each field of a row to its type.  Empty if ``schema`` is not the schema of a change event."""
    event = type_of(schema) or ConnectType()
    return {field.field: field for row in event.fields if row.field in _NAMES for field in row.fields}
