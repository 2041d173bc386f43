"""Decodes Kafka's records into rows of a ClickHouse table: the format's columns, and columns for Kafka's own fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from chsink.decode.fields import fields_of
from chsink.formats.deletes import Deletes
from chsink.formats.format_reader import FormatReader
from chsink.formats.metadata import Columns, beside_metadata
from chsink.formats.readers import deleting_reader, reader_of
from chsink.formats.settings import FormatSettings, KeyColumns
from chsink.ports import Decoded


@dataclass(frozen=True)
class Records:
    """:class:`chsink.ports.Decoder` of records in a format."""

    format: FormatSettings
    table: Columns
    keys: KeyColumns | None = None
    deletes: Deletes | None = None
    """How a record without a value deletes its key; None if it does not."""

    def __reduce__(self) -> tuple[object, ...]:
        return Records, (self.format, self.table, self.keys, self.deletes)

    @cached_property
    def reader(self) -> FormatReader:
        """Reads the table's payload.  Raises ConfigError CHS-5xx for a table that cannot be written."""
        fields = fields_of(self.table.payload, self.table.timezone)
        if self.deletes is None:
            return reader_of(self.format, fields, self.keys)
        assert self.keys is not None, "keys are deleted"
        return deleting_reader(self.format, fields, self.keys, self.deletes)

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The columns that the format reads, and those from which the metadata columns are filled."""
        return tuple(dict.fromkeys((*self.reader.record_fields, *self.table.metadata_fields)))

    @property
    def filled(self) -> frozenset[str]:
        """See :class:`chsink.ports.Decoder`."""
        return self.table.names

    def parts(self) -> tuple[tuple[str, object], ...]:
        """See :class:`chsink.ports.Decoder`."""
        keys = (("keys", self.keys.part()),) if self.keys else ()
        deletes = (("deletes", self.deletes.part()),) if self.deletes else ()
        return (("decoder", self.format.part()), *keys, *deletes, self.table.part())

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.ports.Decoder`."""
        return beside_metadata(records, self.reader.decode(records), self.table)
