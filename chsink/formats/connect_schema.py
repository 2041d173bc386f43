"""The schema that Kafka Connect's JSON converter writes beside the payload: ``{"schema": {…}, "payload": {…}}``.

Nearly all records of a topic begin with the same schema, so it is recognized by its text and parsed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import mask_of
from chsink.decode.connect import ConnectType
from chsink.decode.fields import Field
from chsink.decode.outer import ThereCodec
from chsink.decode.places import Path

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


def by_schema(values: Any, rows: Any) -> Iterator[tuple[bytes, Any]]:
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
