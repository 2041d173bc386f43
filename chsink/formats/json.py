"""``format = "json"``: the record's value is one JSON object; the table's columns drive its parsing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.columns import Column
from chsink.decode.json_decoder import JsonDecoder
from chsink.formats.metadata import Columns, beside_metadata
from chsink.ports import Decoded

VERSION = 1
"""Part of the fingerprint: raised when the same record becomes another row."""


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """:class:`chsink.ports.Decoder` of JSON values."""

    table: Columns

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The value, and what the metadata columns need."""
        return ("value", *self.table.metadata_fields)

    def parts(self) -> tuple[tuple[str, Any], ...]:
        """See :class:`chsink.ports.Decoder`."""
        return (("decoder", [VERSION, "json"]), self.table.part())

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.ports.Decoder`."""
        values = records.column("value")
        if not pa.types.is_binary(values.type):
            values = pc.cast(values, pa.binary())  # a string column shares its buffers
        payload = _decoder(self.table.payload, self.table.timezone).decode(values)
        return beside_metadata(records, payload, self.table)


@lru_cache(maxsize=64)
def _decoder(columns: tuple[Column, ...], timezone: str) -> JsonDecoder:
    return JsonDecoder(columns, timezone=timezone)
