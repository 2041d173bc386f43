"""The reader of each format.  A new format needs a settings class, a file with its reader, and one line here.

A reader turns Kafka's records into wire columns for some fields.  The fields come from a ClickHouse table or an Iceberg
table; the reader does not know which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from chsink.decode.fields import Field
from chsink.formats.avro import avro_reader
from chsink.formats.debezium import DebeziumReader
from chsink.formats.deletes import Deletes, DeletingReader, of_deletion
from chsink.formats.delimited import DelimitedReader
from chsink.formats.format_reader import FormatReader
from chsink.formats.json import JsonReader
from chsink.formats.json_schema import JsonSchemaReader
from chsink.formats.key_and_value import KeyedReader
from chsink.formats.protobuf import protobuf_reader
from chsink.formats.raw_and_string import WholeReader
from chsink.formats.settings import (
    Avro,
    Csv,
    Debezium,
    FormatSettings,
    Json,
    JsonSchema,
    KeyColumns,
    Protobuf,
    Raw,
    String,
    Tsv,
)

READERS: Mapping[type[FormatSettings], Callable[[Any, Sequence[Field]], FormatReader]] = MappingProxyType(
    {
        Json: JsonReader,
        Debezium: DebeziumReader,
        Raw: WholeReader,
        String: WholeReader,
        Csv: DelimitedReader,
        Tsv: DelimitedReader,
        Avro: avro_reader,
        Protobuf: protobuf_reader,
        JsonSchema: JsonSchemaReader,
    }
)
"""Maps a format's settings class to a constructor of its reader, which takes the settings and the fields to fill."""


def deleting_reader(
    settings: FormatSettings, fields: Sequence[Field], keys: KeyColumns, deletes: Deletes
) -> FormatReader:
    """The reader of a format for these fields.  A record without a value deletes its key."""
    [mark] = [field for field in fields if field.name == deletes.column]
    read = [field for field in fields if field is not mark]
    of_key = [of_deletion(field) for field in read if field.name in keys.columns]
    key = READERS[type(keys.format)](keys.format, of_key)
    return DeletingReader(reader_of(settings, read, keys), key, frozenset(keys.columns), mark, fields)


def reader_of(settings: FormatSettings, fields: Sequence[Field], keys: KeyColumns | None = None) -> FormatReader:
    """The reader of a format for these fields.  ``keys`` names the fields that are read from the record's key."""
    if keys is None:
        return READERS[type(settings)](settings, fields)
    of_key = [field for field in fields if field.name in keys.columns]
    of_value = [field for field in fields if field.name not in keys.columns]
    key, value = READERS[type(keys.format)](keys.format, of_key), READERS[type(settings)](settings, of_value)
    return KeyedReader(value, key, of_key, [field.name for field in fields])
