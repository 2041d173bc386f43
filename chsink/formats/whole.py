"""``format = "raw"`` and ``"string"``: the whole value goes to one column, as bytes or as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.conform import Conformer
from chsink.decode.fields import Field
from chsink.decode.json_decoder import tombstone
from chsink.decode.selected import gathered
from chsink.formats.settings import Raw, String
from chsink.ports import BadValue, Decoded


class RawReader:
    """:class:`chsink.formats.format_reader.FormatReader` of bytes."""

    record_fields = ("value",)

    def __init__(self, settings: Raw | String, fields: Sequence[Field]) -> None:
        self._column = settings.column or fields[0].name
        self._conformer = Conformer(fields)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        values = records.column("value")
        values, bad = self._checked(values if pa.types.is_binary(values.type) else pc.cast(values, pa.binary()))
        live = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if bad:
            values = values.take(pa.array(live))
        decoded = self._conformer.conform(pa.RecordBatch.from_pydict({self._column: values}))
        return gathered(records.num_rows, [(live, decoded)], bad)

    def _checked(self, values: Any) -> tuple[Any, list[BadValue]]:
        """The values, null where they are bad, and why."""
        nulls = np.flatnonzero(pc.is_null(values).to_numpy(zero_copy_only=False)) if values.null_count else ()
        return values, [tombstone(int(row)) for row in nulls]


class StringReader(RawReader):
    """:class:`chsink.formats.format_reader.FormatReader` of UTF-8 text."""

    def _checked(self, values: Any) -> tuple[Any, list[BadValue]]:
        values, bad = super()._checked(values)
        try:
            return values.cast(pa.string()), bad
        except pa.ArrowInvalid:
            texts = [_text(value) for value in values.to_pylist()]
        invalid = [BadValue(row, None, text.reason) for row, text in enumerate(texts) if isinstance(text, _NotText)]
        kept = [None if isinstance(text, _NotText) else text for text in texts]
        return pa.array(kept, pa.string()), sorted([*bad, *invalid], key=lambda one: one.row)


class _NotText:
    def __init__(self, reason: str) -> None:
        self.reason = reason


def _text(value: bytes | None) -> str | _NotText | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError as error:
        return _NotText(f"not valid UTF-8 at byte {error.start}")
