"""``format = "raw"`` and ``"string"``: the whole value goes to one column, as bytes or as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.combine import gathered
from chsink.decode.conform import Conformer
from chsink.decode.fields import Field
from chsink.decode.json_decoder import tombstone
from chsink.formats.settings import Raw, String
from chsink.ports import BadValue, Decoded


class WholeReader:
    """:class:`chsink.formats.format_reader.FormatReader` of bytes, or of UTF-8 text."""

    record_fields = ("value",)

    def __init__(self, settings: Raw | String, fields: Sequence[Field]) -> None:
        self._column = settings.column or fields[0].name
        self._text = isinstance(settings, String)
        self._conformer = Conformer(fields)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        values = as_binary(records.column("value"))
        values, bad = checked_text(values) if self._text else (values, tombstones(values))
        live = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if bad:
            values = values.take(pa.array(live))
        decoded = self._conformer.conform(pa.RecordBatch.from_pydict({self._column: values}))
        return gathered(records.num_rows, [(live, decoded)], bad)


def as_binary(values: pa.Array) -> pa.Array:
    """The values as binary.  Strings are not copied."""
    return values if pa.types.is_binary(values.type) else pc.cast(values, pa.binary())


def tombstones(values: pa.Array) -> list[BadValue]:
    """A bad value for each null."""
    nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)) if values.null_count else ()
    return [tombstone(int(row)) for row in nulls]


def checked_text(values: pa.Array) -> tuple[pa.Array, list[BadValue]]:
    """The values as strings, and a bad value for each null and each that is not valid UTF-8 (which becomes null)."""
    bad = tombstones(values)
    try:
        return values.cast(pa.string()), bad
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode("utf-8"))
        except UnicodeDecodeError as error:
            bad.append(BadValue(row, None, f"not valid UTF-8 at byte {error.start}"))
            texts.append(None)
    return pa.array(texts, pa.string()), sorted(bad, key=lambda one: one.row)
