"""``format = "json_schema"``: Confluent's wire format for JSON: a header with the schema id, then a JSON object."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.blocks import Rows
from chsink.decode.combine import gathered
from chsink.decode.fields import Field
from chsink.formats.json import JsonReader
from chsink.formats.raw_and_string import as_binary
from chsink.formats.settings import JsonSchema
from chsink.formats.with_schema import HEADER, Schemas, live_rows
from chsink.ports import BadValue, Decoded
from chsink.registry.client import Registered


class JsonSchemaReader:
    """:class:`chsink.formats.format_reader.FormatReader` of JSON values with a schema's id."""

    record_fields = ("value",)

    def __init__(self, settings: JsonSchema, fields: Sequence[Field]) -> None:
        self._schemas = Schemas(settings.registry, "JSON", _known)
        self._json = JsonReader(settings, fields)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        bad: list[BadValue] = []
        values, rows = live_rows(as_binary(records.column("value")), bad)
        read = [theirs for _, _, theirs in self._schemas.split(values, rows, bad)]
        rows = np.sort(np.concatenate(read)) if read else rows[:0]
        return gathered(records.num_rows, [(rows, self._decode(records, rows))], sorted(bad, key=lambda one: one.row))

    def _decode(self, records: pa.RecordBatch, rows: Rows) -> Decoded:
        values = as_binary(records.column("value")).take(pa.array(rows))
        texts = pc.binary_replace_slice(values, 0, HEADER, b"")
        return self._json.decode(pa.RecordBatch.from_pydict({"value": texts}))


def _known(schema: Registered) -> Registered:
    return schema
