"""``format = "json"``: the record's value is one JSON object; the table's columns drive its parsing."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.fields import Field
from chsink.decode.json_decoder import FieldDecoder
from chsink.formats.settings import Json
from chsink.ports import Decoded


class JsonReader:
    """:class:`chsink.formats.readers.FormatReader` of JSON values."""

    record_fields = ("value",)

    def __init__(self, settings: Json, fields: Sequence[Field]) -> None:
        del settings
        self._decoder = FieldDecoder(fields)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.readers.FormatReader`."""
        values = records.column("value")
        if not pa.types.is_binary(values.type):
            values = pc.cast(values, pa.binary())  # a string column shares its buffers
        return self._decoder.decode(values)
