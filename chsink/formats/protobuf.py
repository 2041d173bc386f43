"""``format = "protobuf"``: the record's value is a Protobuf message.  Only the fields that the table has are read.

In Confluent's wire format the schema is a file with several message types.  After the schema id, the record names its
type: the number of indexes, then the index of each nesting level, outermost first.  A single zero is the first type.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from chsink.decode.binary import Cursors, Positions
from chsink.decode.blocks import Rows
from chsink.decode.fields import Field
from chsink.errors import preflight
from chsink.formats.message_reader import MessageReader, Typed, type_in
from chsink.formats.settings import Protobuf
from chsink.formats.with_schema import HEADER, Schemas
from chsink.ports import BadValue
from chsink.registry.client import Registered

if TYPE_CHECKING:
    from chsink.decode.protobuf.types import ProtobufMessage

DEEPEST: Final = 32
NO_INDEXES: Final = "it does not say which message of its schema it is"


def protobuf_reader(settings: Protobuf, fields: Sequence[Field]) -> MessageReader[_File]:
    """The reader of Protobuf messages for these fields."""
    try:
        from chsink.decode.protobuf import descriptors
    except ImportError as error:
        missing = error.name or "protobuf"
        raise preflight.NO_REGISTRY_PACKAGES(missing=missing, python=sys.executable) from None
    named = settings.message or ""
    only = type_in(settings.schema_file, lambda content: descriptors.message_in_set(content, named))
    schemas = Schemas(settings.registry, "PROTOBUF", lambda schema: _File(descriptors, schema))
    return MessageReader(fields, only, schemas, _typed)


def _typed(file: _File, values: pa.Array, rows: Rows, bad: list[BadValue]) -> Iterator[Typed]:
    """Groups a schema's values by message type, because a Protobuf schema is a file with several types."""
    c = Cursors(values, HEADER)
    begin = c.pos - HEADER
    for path, at in _paths(c):
        message = file.message(path)
        if isinstance(message, str):
            bad.extend(BadValue(int(row), None, message) for row in rows[at])
        else:
            some = values if len(at) == len(values) else values.take(pa.array(at))
            yield message, some, rows[at], (c.pos - begin)[at]
    bad.extend(BadValue(int(rows[row]), None, NO_INDEXES) for row in c.faults.reasons())


class _File:
    """The message types of a schema file, by their indexes."""

    def __init__(self, descriptors: ModuleType, schema: Registered) -> None:
        self._descriptors = descriptors
        references = [(name, _bytes(text)) for name, text in schema.references]
        self._file = descriptors.file_of(_bytes(schema.text), references)
        self._messages: dict[tuple[int, ...], ProtobufMessage | str] = {}

    def message(self, path: tuple[int, ...]) -> ProtobufMessage | str:
        """The message type at these indexes, or the reason why it cannot be used (a str)."""
        if path not in self._messages:
            try:
                self._messages[path] = self._descriptors.message_at(self._file, path)
            except ValueError as error:
                self._messages[path] = f"its schema cannot be used: {error}"
        return self._messages[path]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("the registry does not give it as a serialized descriptor") from None


def _paths(c: Cursors) -> Iterator[tuple[tuple[int, ...], Positions]]:
    """Groups the messages by their type's indexes, and moves the cursors behind the indexes."""
    count = c.zigzag()
    c.fault((count < 0) | (count > DEEPEST), NO_INDEXES)
    found: dict[tuple[int, ...], Positions] = {}
    for size in np.unique(count).tolist():
        mine = np.flatnonzero(count == size)
        part = c.some(mine)
        indexes = [part.zigzag() for _ in range(size if 0 < size <= DEEPEST else 0)]
        c.pos[mine] = part.pos
        for index in indexes:
            part.fault(index < 0, NO_INDEXES)
        alike = np.stack(indexes, axis=1) if indexes else np.zeros((len(mine), 1), np.int64)
        right = ~c.faults.wrong(mine)
        for path in np.unique(alike[right], axis=0).tolist():
            found[tuple(path)] = mine[right & (alike == path).all(axis=1)]
    yield from found.items()
