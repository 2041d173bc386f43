"""``format = "avro"``: the record's value is an Avro record; the table's columns drive what is read of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from chsink.decode.avro.schema import SchemaError, parse_schema
from chsink.decode.avro.types import AvroMessage, RecordType
from chsink.decode.collected import Collected, Rows
from chsink.decode.fields import Field
from chsink.decode.messages import MessageDecoder
from chsink.errors import preflight
from chsink.formats.settings import Avro
from chsink.formats.whole import as_binary
from chsink.formats.with_schema import HEADER, Schemas, live_rows
from chsink.ports import BadValue, Decoded
from chsink.registry.client import Registered


class AvroReader:
    """:class:`chsink.formats.readers.FormatReader` of Avro records."""

    record_fields = ("value",)

    def __init__(self, settings: Avro, fields: Sequence[Field]) -> None:
        self._decoder = MessageDecoder(fields)
        self._schemas = Schemas(settings.registry, "AVRO", _registered)
        self._only: AvroMessage | None = None
        if file := settings.schema_file:
            try:
                self._only = _message(file.content.decode("utf-8"), ())
            except ValueError as error:
                raise preflight.SCHEMA_FILE_WRONG(path=file.path, reason=error) from None

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.readers.FormatReader`."""
        run = Collected(records.num_rows)
        for message, some, theirs, skip in self.messages(as_binary(records.column("value")), run.bad):
            self._decoder.decode(run, message, some, theirs, skip)
        return self._decoder.finish(run)

    def messages(self, values: Any, bad: list[BadValue]) -> Iterator[tuple[AvroMessage, Any, Rows, int]]:
        """By message type: its values, their rows, and how many bytes into them the message begins."""
        values, rows = live_rows(values, bad)
        if self._only is not None:
            yield self._only, values, rows, 0
            return
        for message, some, theirs in self._schemas.split(values, rows, bad):
            yield message, some, theirs, HEADER


def _registered(schema: Registered) -> AvroMessage:
    return _message(schema.text, [text for _, text in schema.references])


def _message(text: str, references: Sequence[str]) -> AvroMessage:
    kind = parse_schema(text, references)
    if not isinstance(kind, RecordType):
        raise SchemaError("it is not a record")
    return AvroMessage(kind)
