"""``format = "debezium"``: each value is a change of one row, in Debezium's JSON envelope.

Rules:
- The event is the record's value, or its ``payload`` if the converter wrote a schema beside it.  The schema then says
  how a value is written (:mod:`chsink.decode.connect`).
- ``op`` decides the row.  Creates, snapshot reads and updates take it from ``after``.  Deletes take it from ``before``,
  or from the record's key if there is no ``before``.  All other events have no row.
- A delete must not look like a present row: one column must mark the row as deleted, or hold the ``op``.
- If the primary key is declared, a delete must have it; ClickHouse may then fill in all other columns.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.blocks import Rows, spread
from chsink.decode.codec import Mask, mask_of, valid_of
from chsink.decode.columns import Column
from chsink.decode.combine import beside, gathered, rows_of
from chsink.decode.conform import Conformer
from chsink.decode.connect import connected
from chsink.decode.field_paths import Path, Places, no_object
from chsink.decode.fields import Field, fields_of
from chsink.decode.json_decoder import FieldDecoder
from chsink.decode.prefilter import window
from chsink.formats.connect_schema import KEPT, SCHEMA_ONCE, SCHEMA_PATH, by_schema, payloads, type_at, type_of
from chsink.formats.deletes import filled, of_deletion
from chsink.formats.json import ShapedFields, constant_of, said_of
from chsink.formats.raw_and_string import as_binary
from chsink.formats.settings import Debezium, names_of
from chsink.ports import BadValue, Decoded

NO_EVENT = "not a change event of Debezium: it has no op"
NOT_SENT = "holds Debezium's placeholder for a value that the database did not send"
NO_KEY = "a delete without `before`, whose key is not a primary key"
UNMARKED = "a delete, and the route's format names no deleted_column"
NO_PRIMARY_KEY = "missing or null, and the primary key of a delete"
ROWLESS: Final[Mapping[str, str]] = MappingProxyType(
    {"t": "a truncate, which is not a row", "m": "a message, which is not a row"}
)
_PAYLOAD: Final[Path] = ("payload",)
_OPS: Final = (
    *fields_of([Column("$.op", "Nullable(String)"), Column("$.payload.op", "Nullable(String)")], "UTC"),
    SCHEMA_ONCE,
)
_OP_PATHS: Final = {"$.op": ("op",), "$.payload.op": (*_PAYLOAD, "op"), SCHEMA_ONCE.name: SCHEMA_PATH}
_PRESENT: Final = pa.array(["c", "r", "u"])
_SAMPLE: Final = 64
_FEW: Final = 8
"""At most one event in so many may be no plain change, if all are read as such first."""


class SchemaBeside(NamedTuple):
    """The text of the schema beside an event, None if there is none; and the place of the event in what is read."""

    text: bytes | None
    around: Path


class DebeziumReader:
    """:class:`chsink.formats.format_reader.FormatReader` of change events."""

    def __init__(self, settings: Debezium, fields: Sequence[Field]) -> None:
        self._shaped = ShapedFields(settings, fields)
        self._names = [field.name for field in fields]
        self._read = [field for field in self._shaped.plain if field.name != settings.deleted_column]
        self._said = {field.name: said_of(settings, field.name) for field in self._read}
        self._deleted = next((field for field in fields if field.name == settings.deleted_column), None)
        self._paths = dict(settings.paths)
        if settings.version_column:
            self._paths[settings.version_column] = names_of(settings.version_path)
        self._marks_deletes = self._deleted is not None or ("op",) in self._paths.values()
        self._primary_key = frozenset(settings.primary_key)
        self._unsent = _written(settings.unavailable_value)
        self._ops = FieldDecoder(_OPS, Places((), _OP_PATHS))
        self._of_rows = lru_cache(KEPT)(self._new_decoder)
        self._of_changes = lru_cache(KEPT)(self._new_change_decoder)
        self._clear = not _OP_PATHS.keys() & {field.name for field in self._read}
        if self._deleted is not None:
            self._marks = [constant_of(self._deleted, mark) for mark in (0, 1)]

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The value, and the key if the primary key is declared: a delete may need it."""
        return ("value", "key") if self._primary_key else ("value",)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`.

        A payload that was cut out and does not fit is read again in its record, which gives the reason.
        """
        values = as_binary(records.column("value"))
        keys = as_binary(records.column("key")) if self._primary_key else None
        parts = []
        left: Mask = np.ones(len(values), np.bool_)
        for schema, rows, cut in payloads(values):
            if not any(text.encode() in schema for text in self._unsent):
                found = self._events(cut, None if keys is None else keys.take(pa.array(rows)), schema)
                kept = np.delete(rows, [one.row for one in found.bad])
                parts.append((kept, replace(found, rows=None, bad=[])))
                left[kept] = False
        if not parts:
            return self._events(values, keys, None)
        if left.any():
            others = pa.array(np.flatnonzero(left))
            rest = self._events(values.take(others), None if keys is None else keys.take(others), None)
            parts.append((np.flatnonzero(left), rest))
        return gathered(len(values), parts)

    def _events(self, values: pa.Array, keys: pa.Array | None, beside: bytes | None) -> Decoded:
        """Decodes whole records, or, with the text of the schema ``beside`` them, payloads that were cut out.

        If most are plain changes, all are read as such first; those that are not are read again, by their kind.
        """
        if not self._mostly_plain(values):
            return self._by_kind(values, keys, beside)
        rows, found = self._plain_changes(values, beside)
        if len(rows) == len(values):
            return found
        left = np.delete(np.arange(len(values)), rows)
        others = pa.array(left)
        rest = self._by_kind(values.take(others), None if keys is None else keys.take(others), beside)
        return gathered(len(values), [(rows, found), (left, rest)])

    def _mostly_plain(self, values: pa.Array) -> bool:
        sample = values.take(pa.array(spread(len(values), _SAMPLE)))
        plain, wrapped = (column.cast(pa.string()) for column in self._ops.decode(sample).batch.columns[:2])
        changes = int((mask_of(pc.is_in(plain, _PRESENT)) & ~valid_of(wrapped)).sum())
        return self._clear and len(sample) - changes <= len(sample) // _FEW

    def _plain_changes(self, values: pa.Array, beside: bytes | None) -> tuple[Rows, Decoded]:
        """The events that are not deletes, and have no schema beside them: their rows, and what they hold."""
        found = self._of_changes(SchemaBeside(beside, ())).decode(values)
        origin, columns = rows_of(found, len(values)), len(self._read)
        plain, wrapped = (found.batch.column(columns + at).cast(pa.string()) for at in range(2))
        taken = mask_of(pc.is_in(plain, _PRESENT)) & ~valid_of(wrapped)
        taken &= ~self._not_sent(values if len(origin) == len(values) else values.take(pa.array(origin)))
        batch = found.batch.select(list(range(columns)))
        kept = Decoded(batch if taken.all() else batch.filter(pa.array(taken)), None)
        return origin[taken], self._whole(kept, deleted=False)

    def _by_kind(self, values: pa.Array, keys: pa.Array | None, beside: bytes | None) -> Decoded:
        ops = self._ops.decode(values)
        origin, bad, parts = rows_of(ops, len(values)), list(ops.bad), []
        plain, wrapped = (column.cast(pa.string()) for column in ops.batch.columns[:2])
        letter, is_wrapped = pc.coalesce(plain, wrapped), valid_of(wrapped)
        present, delete = (mask_of(pc.is_in(letter, kinds)) for kinds in (_PRESENT, pa.array(["d"])))
        unsent = self._not_sent(values if len(origin) == len(values) else values.take(pa.array(origin)))
        taken = ~(is_wrapped & valid_of(plain)) & ~unsent & (present | (delete & self._marks_deletes))
        if beside is not None:
            taken &= ~is_wrapped
        for deleted in (False, True):
            mine = taken & (delete == deleted)
            groups = [(SchemaBeside(beside, ()), origin[mine & ~is_wrapped])]
            groups += [
                (SchemaBeside(text, _PAYLOAD), rows) for text, rows in by_schema(values, origin[mine & is_wrapped])
            ]
            for schema, rows in groups:
                if len(rows):
                    parts += self._changes(rows, values, keys, schema, deleted=deleted)
        for at in np.flatnonzero(~taken).tolist():
            reason = NOT_SENT if unsent[at] else UNMARKED if delete[at] else ROWLESS.get(letter[at].as_py(), NO_EVENT)
            bad.append(BadValue(int(origin[at]), None, reason))
        if not parts:
            parts = self._changes(origin[:0], values, keys, SchemaBeside(beside, ()), deleted=False)
        return gathered(len(values), parts, sorted(bad, key=lambda one: one.row))

    def _not_sent(self, values: pa.Array) -> Mask:
        """Which of the events hold the placeholder.  Few do, so all are searched at once for each of its forms."""
        _, data = window(values)
        together = data.tobytes()
        found = [text for text in self._unsent if text.encode() in together]
        masks = [mask_of(pc.match_substring(values, text)) for text in found]
        unsent: Mask = np.logical_or.reduce([np.zeros(len(values), np.bool_), *masks])
        return unsent

    def _changes(
        self, rows: Rows, values: pa.Array, keys: pa.Array | None, schema: SchemaBeside, *, deleted: bool
    ) -> list[tuple[Rows, Decoded]]:
        """Decodes the events at ``rows``, all of one kind.  Deletes without ``before`` are decoded from their keys."""
        read = self._of_rows(schema, deleted=deleted)
        found, lost = read.decode(values.take(pa.array(rows))), []
        if deleted and self._primary_key:
            absent = no_object((*schema.around, "before"))
            lost = [one.row for one in found.bad if one.column is None and one.reason == absent]
        if not lost:
            return [(rows, self._whole(found, deleted=deleted))]
        assert keys is not None, "a delete is read from the key only if the primary key is declared"
        kept, by_key = np.delete(rows, lost), rows[lost]
        found = read.decode(values.take(pa.array(kept)))
        of_keys = self._by_key(values.take(pa.array(by_key)), keys.take(pa.array(by_key)), schema)
        return [(kept, self._whole(found, deleted=True)), (by_key, self._whole(of_keys, deleted=True))]

    def _by_key(self, values: pa.Array, keys: pa.Array, schema: SchemaBeside) -> Decoded:
        """Decodes deletes without ``before``: the primary key from the record's key, and paths outside of the row from
        the event.  ClickHouse fills in all other columns.
        """
        size = len(values)
        of_key = [of_deletion(field, NO_PRIMARY_KEY) for field in self._read if field.name in self._primary_key]
        of_event = [field for field in self._read if not self._in_row(field.name)]
        known = {field.name for field in (*of_key, *of_event)}
        rest = [filled(field) for field in self._read if field.name not in known]
        found = self._keys(keys, of_key)
        if of_event:
            places = self._event_places(schema)
            event = FieldDecoder(self._connected(of_event, schema, places), places).decode(values)
            found = beside(size, event, found)
        if rest:
            found = beside(size, found, Conformer(rest).conform(pa.RecordBatch.from_pydict({"": pa.nulls(size)})))
        return replace(found, batch=found.batch.select([field.name for field in self._read]))

    def _keys(self, keys: pa.Array, fields: Sequence[Field]) -> Decoded:
        """Decodes the primary key from Kafka's keys, with or without a schema beside the payload."""
        names = {field.name: self._paths.get(field.name, ("", field.name))[1:] for field in fields}
        plain = FieldDecoder(self._connected(fields, SchemaBeside(None, ()), Places((), names)), Places((), names))
        found = plain.decode(keys)
        bad = [one.row for one in found.bad]
        if not bad:
            return found
        rows = np.arange(len(keys))
        kept, again = np.delete(rows, bad), rows[bad]
        parts = [(kept, plain.decode(keys.take(pa.array(kept))))]
        beneath = {name: (*_PAYLOAD, *path) for name, path in names.items()}
        places = Places(_PAYLOAD, {**beneath, SCHEMA_ONCE.name: SCHEMA_PATH})
        for text, mine in by_schema(keys, again):
            wrapped = FieldDecoder(
                [*self._connected(fields, SchemaBeside(text, _PAYLOAD), places), SCHEMA_ONCE], places
            )
            second = wrapped.decode(keys.take(pa.array(mine)))
            bad_keys = [BadValue(one.row, None, NO_KEY) for one in second.bad]
            parts.append((mine, replace(second, batch=second.batch.select(list(names)), bad=bad_keys)))
        return gathered(len(keys), parts)

    def _connected(self, fields: Sequence[Field], schema: SchemaBeside, places: Places) -> list[Field]:
        """The fields for values as the schema describes them; without a schema, as the options say."""
        kind = None if schema.text is None else type_of(schema.text)
        connected_to = {field.name: type_at(kind, places.path(field.name)[len(schema.around) :]) for field in fields}
        return [
            replace(field, codec=connected(field.codec, connected_to[field.name], self._said[field.name]))
            for field in fields
        ]

    def _in_row(self, name: str) -> bool:
        """Whether the column is read from the row, not from the event around it."""
        return name not in self._paths or self._paths[name][0] == "after"

    def _new_decoder(self, schema: SchemaBeside, *, deleted: bool) -> FieldDecoder:
        """A decoder of the row: of ``after``, or of ``before`` for deletes."""
        fields = self._read
        if deleted and self._primary_key:
            read = [filled(field) if self._in_row(field.name) else field for field in fields]
            fields = [
                of_deletion(field, NO_PRIMARY_KEY) if field.name in self._primary_key else field for field in read
            ]
        row = (*schema.around, "before" if deleted else "after")
        places = replace(self._event_places(schema, deleted=deleted), envelope=row)
        return FieldDecoder(self._connected(fields, schema, places), places)

    def _new_change_decoder(self, schema: SchemaBeside) -> FieldDecoder:
        """A decoder of ``after``, and of what :data:`_OPS` says of the event."""
        around = self._event_places(schema)
        places = Places((*schema.around, "after"), {**around.paths, **_OP_PATHS})
        return FieldDecoder([*self._connected(self._read, schema, places), *_OPS], places)

    def _event_places(self, schema: SchemaBeside, *, deleted: bool = False) -> Places:
        """The places of the columns that have a path.  For deletes, a path into ``after`` leads into ``before``."""
        around = schema.around
        paths = {
            name: (*around, "before", *path[1:]) if deleted and path[0] == "after" else (*around, *path)
            for name, path in self._paths.items()
        }
        return Places(around, paths)

    def _whole(self, found: Decoded, *, deleted: bool) -> Decoded:
        """Adds the deletion mark and the constants, and puts the columns in the order of all fields."""
        marks = {} if self._deleted is None else {self._deleted.name: self._marks[deleted]}
        return self._shaped.whole(found, marks)


def _written(placeholder: str) -> tuple[str, ...]:
    """The forms in which Debezium writes the placeholder: text, base64 without padding, hex, an array of numbers."""
    sent = placeholder.encode()
    encoded = (base64.b64encode(sent), base64.urlsafe_b64encode(sent))
    numbers = (comma.join(map(str, sent)) for comma in (",", ", "))
    return (json.dumps(placeholder)[1:-1], *{one.decode().rstrip("=") for one in encoded}, sent.hex(), *numbers)
