"""Decodes records as a job would, and says what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from chsink.decode.columns import Column
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import FormatSettings, KeyColumns

Bytes = bytes | None


def outcomes(
    settings: FormatSettings,
    columns: Sequence[Column],
    values: Sequence[Bytes],
    keys: Sequence[Bytes] | None = None,
    reading: KeyColumns | None = None,
) -> list[Any]:
    """Of each record, in order: its row by column, or ``column: reason`` why it has none."""
    decoder = decoder_of("d.t", columns, "UTC", Untouched("read_committed"), settings, keys=reading)
    given = {"key": [None] * len(values) if keys is None else keys, "value": values}
    assert set(decoder.record_fields) <= given.keys()
    records = pa.RecordBatch.from_pydict({name: pa.array(each, pa.binary()) for name, each in given.items()})
    decoded = decoder.decode(records)
    origin = range(len(values)) if decoded.rows is None else decoded.rows.to_pylist()
    assert set(decoded.batch.schema.names) == {column.name for column in columns}
    found: dict[int, Any] = dict(zip(origin, decoded.batch.to_pylist(), strict=True))
    found |= {bad.row: f"{bad.column}: {bad.reason}" for bad in decoded.bad}
    assert len(found) == len(values)
    return [found[at] for at in range(len(values))]


def alone(settings: FormatSettings, columns: Sequence[Column], values: Sequence[Bytes], **rest: Any) -> list[Any]:
    """The same, each record in a batch of its own."""
    keys = rest.pop("keys", None)
    return [
        outcomes(settings, columns, [value], keys=None if keys is None else [keys[at]], **rest)[0]
        for at, value in enumerate(values)
    ]
