"""The schema that Kafka Connect's JSON converter writes beside the payload: ``{"schema": {…}, "payload": {…}}``.

Nearly all records of a topic begin with the same schema, so it is recognized by its text and parsed once.  The text of
the payload behind it is cut out, and read alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.blocks import Rows
from chsink.decode.codec import mask_of
from chsink.decode.connect import ConnectType
from chsink.decode.field_paths import Path
from chsink.decode.fields import Field
from chsink.decode.wrapping_codecs import ThereCodec

NO_SCHEMA: Final = b"null"
SCHEMA_ONCE: Final = Field("$.schema", ThereCodec(), None)
"""To be read at :data:`SCHEMA_PATH`: a record that repeats the name does not fit."""
SCHEMA_PATH: Final[Path] = ("schema",)
KEPT: Final = 64
"""The number of schemas whose decoders are kept."""
_BEGINNINGS: Final = 16
_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Beside(msgspec.Struct, gc=False):
    schema: msgspec.Raw = msgspec.Raw(NO_SCHEMA)
    payload: msgspec.Raw = msgspec.Raw(NO_SCHEMA)


_BESIDE: Final = msgspec.json.Decoder(_Beside)
_TYPE: Final = msgspec.json.Decoder(ConnectType)


@lru_cache(maxsize=4 * KEPT)
def type_of(schema: bytes) -> ConnectType | None:
    """The type that the JSON text describes; None if it describes none."""
    try:
        return _TYPE.decode(schema)
    except _NOT_JSON:
        return None


def type_at(kind: ConnectType | None, path: Path) -> ConnectType | None:
    """The type of the field at a path; None if the schema does not describe it."""
    for name in path:
        kind = None if kind is None else kind.member(name)
    return kind


def payloads(values: pa.Array) -> Iterator[tuple[bytes, Rows, pa.Array]]:
    """Cuts the payloads out of the records in the converter's own form, ``{"schema":{…},"payload":…}``: the schema's
    text, the records' rows, and what each has for a payload.  If that is a JSON object, it is the payload, and the
    record has nothing else.
    """
    rows = np.flatnonzero(mask_of(pc.starts_with(values, b'{"schema":{')))
    for _ in range(_BEGINNINGS):
        if not len(rows):
            return
        schema = _schema_of_form(values[int(rows[0])].as_py())
        if schema is None:
            rows = rows[1:]
            continue
        beginning = b'{"schema":' + schema + b',"payload":'
        some = values.take(pa.array(rows))
        same = mask_of(pc.and_(pc.starts_with(some, beginning), pc.ends_with(some, b"}")))
        yield schema, rows[same], pc.binary_slice(some.filter(pa.array(same)), len(beginning), -1)
        rows = rows[~same]
    groups: dict[bytes, list[int]] = {}
    for row in rows.tolist():
        if (schema := _schema_of_form(values[row].as_py())) is not None:
            groups.setdefault(schema, []).append(row)
    for schema, mine in groups.items():
        cut = len(b'{"schema":' + schema + b',"payload":')
        yield schema, np.array(mine), pc.binary_slice(values.take(pa.array(mine)), cut, -1)


def _schema_of_form(value: bytes) -> bytes | None:
    """The text of the schema; None if the record is not in the converter's own form."""
    try:
        beside = _BESIDE.decode(value)
    except _NOT_JSON:
        return None
    schema = bytes(beside.schema)
    return schema if b'{"schema":%b,"payload":%b}' % (schema, bytes(beside.payload)) == value else None


def by_schema(values: pa.Array, rows: Rows) -> Iterator[tuple[bytes, Rows]]:
    """Groups the ``rows`` of ``values`` by the text of their schema.  A group's rows are in ascending order.

    Which one a record has is undefined if it is no object, or repeats the name ``schema``: it must be decoded with
    :data:`SCHEMA_ONCE`.
    """
    for _ in range(_BEGINNINGS):
        if not len(rows):
            return
        first = values[int(rows[0])].as_py() or b""
        schema = _schema(first)
        beginning = b'{"schema":' + schema + b","
        if not first.startswith(beginning):
            break
        same = mask_of(pc.starts_with(values.take(pa.array(rows)), beginning))
        yield schema, rows[same]
        rows = rows[~same]
    groups: dict[bytes, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(_schema(values[row].as_py()), []).append(row)
    for schema, mine in groups.items():
        yield schema, np.array(mine)


def _schema(value: bytes | None) -> bytes:
    """The text of the record's schema."""
    try:
        return bytes(_BESIDE.decode(value or b"").schema)
    except _NOT_JSON:
        return NO_SCHEMA
