"""``format = "avro"``: the record's value is an Avro record.  Only the fields that the table has are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from chsink.decode.avro.schema import SchemaError, parse_schema
from chsink.decode.avro.types import AvroMessage, AvroRecord
from chsink.decode.blocks import Rows
from chsink.decode.fields import Field
from chsink.formats.message_reader import MessageReader, Typed, type_in
from chsink.formats.settings import Avro
from chsink.formats.with_schema import HEADER, Schemas
from chsink.ports import BadValue
from chsink.registry.client import Registered


def avro_reader(settings: Avro, fields: Sequence[Field]) -> MessageReader[AvroMessage]:
    """The reader of Avro records for these fields."""
    only = type_in(settings.schema_file, lambda content: _message(content.decode("utf-8"), ()))
    return MessageReader(fields, only, Schemas(settings.registry, "AVRO", _registered), _typed)


def _typed(message: AvroMessage, values: pa.Array, rows: Rows, _bad: list[BadValue]) -> Iterator[Typed]:
    """An Avro schema has one message type, so all values have it."""
    yield message, values, rows, HEADER


def _registered(schema: Registered) -> AvroMessage:
    return _message(schema.text, [text for _, text in schema.references])


def _message(text: str, references: Sequence[str]) -> AvroMessage:
    kind = parse_schema(text, references)
    if not isinstance(kind, AvroRecord):
        raise SchemaError("it is not a record")
    return AvroMessage(kind)
