"""Which reader reads which format: a new format is its settings, a file with its reader, and one line here.

A reader turns Kafka's records into wire columns for some fields.  Fields come from a ClickHouse table or an Iceberg
table; a reader does not know which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from chsink.decode.fields import Field
from chsink.formats.json import JsonReader
from chsink.formats.settings import FormatSettings, Json, Raw, String
from chsink.formats.whole import RawReader, StringReader
from chsink.ports import Decoded


class FormatReader(Protocol):
    """Reads records of one format.  The outcome of a record depends on that record alone."""

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The columns of Kafka's source that :meth:`decode` reads."""

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """The fields of the records that fit, in the fields' order and wire types, and why the others do not."""


READERS: Mapping[type[FormatSettings], Callable[[Any, Sequence[Field]], FormatReader]] = MappingProxyType(
    {Json: JsonReader, Raw: RawReader, String: StringReader}
)
"""By the class of the settings: the reader, made of the settings and the fields to fill."""


def reader_of(settings: FormatSettings, fields: Sequence[Field]) -> FormatReader:
    """The reader of a format for these fields."""
    return READERS[type(settings)](settings, fields)
