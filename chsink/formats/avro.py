"""``format = "avro"``: the record's value is an Avro record; the table's columns drive what is read of it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chsink.decode.avro.schema import SchemaError, parse_schema
from chsink.decode.avro.types import AvroMessage, RecordType
from chsink.decode.collected import Collected
from chsink.decode.fields import Field
from chsink.decode.messages import MessageDecoder
from chsink.errors import preflight
from chsink.formats.settings import Avro
from chsink.formats.whole import as_binary
from chsink.formats.with_schema import HEADER, Schemas, live_rows
from chsink.ports import Decoded
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
        values, rows = live_rows(as_binary(records.column("value")), run.bad)
        if self._only is not None:
            self._decoder.decode(run, self._only, values, rows)
        else:
            for message, some, theirs in self._schemas.split(values, rows, run.bad):
                self._decoder.decode(run, message, some, theirs, HEADER)
        return self._decoder.finish(run)


def _registered(schema: Registered) -> AvroMessage:
    return _message(schema.text, [text for _, text in schema.references])


def _message(text: str, references: Sequence[str]) -> AvroMessage:
    kind = parse_schema(text, references)
    if not isinstance(kind, RecordType):
        raise SchemaError("it is not a record")
    return AvroMessage(kind)
