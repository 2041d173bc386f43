"""``format = "protobuf"``: the record's value is a Protobuf message; the table's columns drive what is read of it.

In Confluent's wire format the schema is a file of messages.  Behind the id stands which of them the record is: the
number of indexes, then the indexes, from the file's messages inwards; a single zero is the first message.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from chsink.decode.binary import Cursors, Positions
from chsink.decode.collected import Collected, Rows
from chsink.decode.fields import Field
from chsink.decode.messages import MessageDecoder
from chsink.errors import preflight
from chsink.formats.settings import Protobuf
from chsink.formats.whole import as_binary
from chsink.formats.with_schema import HEADER, Schemas, live_rows
from chsink.ports import BadValue, Decoded
from chsink.registry.client import Registered

if TYPE_CHECKING:
    from chsink.decode.protobuf.types import ProtobufMessage

DEEPEST: Final = 32
NO_INDEXES: Final = "it does not say which message of its schema it is"


class ProtobufReader:
    """:class:`chsink.formats.format_reader.FormatReader` of Protobuf messages."""

    record_fields = ("value",)

    def __init__(self, settings: Protobuf, fields: Sequence[Field]) -> None:
        self._decoder = MessageDecoder(fields)
        try:
            from chsink.decode.protobuf import descriptors
        except ImportError as error:
            missing = error.name or "protobuf"
            raise preflight.NO_REGISTRY_PACKAGES(missing=missing, python=sys.executable) from None
        self._descriptors = descriptors
        self._schemas = Schemas(settings.registry, "PROTOBUF", self._file)
        self._only: ProtobufMessage | None = None
        if file := settings.schema_file:
            try:
                self._only = descriptors.message_in_set(file.content, settings.message or "")
            except ValueError as error:
                raise preflight.SCHEMA_FILE_WRONG(path=file.path, reason=error) from None

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        run = Collected(records.num_rows)
        for message, some, theirs, skip in self.messages(as_binary(records.column("value")), run.bad):
            self._decoder.decode(run, message, some, theirs, skip)
        return self._decoder.finish(run)

    def messages(
        self, values: Any, bad: list[BadValue]
    ) -> Iterator[tuple[ProtobufMessage, Any, Rows, int | Positions]]:
        """By message type: its values, their rows, and how many bytes into them the message begins."""
        values, rows = live_rows(values, bad)
        if self._only is not None:
            yield self._only, values, rows, 0
            return
        for file, some, theirs in self._schemas.split(values, rows, bad):
            yield from _of_file(file, some, theirs, bad)

    def _file(self, schema: Registered) -> _File:
        return _File(self._descriptors, schema)


def _of_file(
    file: _File, values: Any, rows: Rows, bad: list[BadValue]
) -> Iterator[tuple[ProtobufMessage, Any, Rows, Positions]]:
    """The same of values whose messages are in one file."""
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
    """A file of messages, by their indexes."""

    def __init__(self, descriptors: Any, schema: Registered) -> None:
        self._descriptors = descriptors
        references = [(name, _bytes(text)) for name, text in schema.references]
        self._file = descriptors.file_of(_bytes(schema.text), references)
        self._messages: dict[tuple[int, ...], ProtobufMessage | str] = {}

    def message(self, path: tuple[int, ...]) -> ProtobufMessage | str:
        """The message, or why there is none."""
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
    """The indexes of each message, and which have them; afterwards the cursors are behind them."""
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
