"""From a chunk of records to the pieces that are stored: decode, add metadata, choose shards.

Two kinds of input:
- ``json``: the column ``value`` holds one JSON object per record; the table's columns drive its parsing.
- ``columns``: the stream's own columns are the table's; they are cast, and every cast is checked.

A pipeline's parts name everything that decides what a record becomes.  A range in doubt is re-inserted only by the same
pipeline.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.batch.model import Assignment
from chsink.batch.task import Piece, Prepared, Rejected
from chsink.decode.columns import BadValue, Column, Decoded
from chsink.decode.conform import conform
from chsink.decode.json_decoder import JsonDecoder
from chsink.errors import HaltError
from chsink.sharding import NO_SHARD, Layout, Sharder, split

DECODER_VERSION = 1

METADATA_SOURCES = {
    "_kafka_topic": "topic",
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_kafka_timestamp": "timestamp",
    "_kafka_key": "key",
    "_kafka_headers": "headers",
}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How one topic's records become rows of its table.

    ``payload`` are the table's columns filled from the record, ``metadata`` those filled from Kafka's own fields.
    ``transform`` names what was done to the stream before, ``isolation_level`` which records it shows.
    """

    kind: Literal["json", "columns"]
    payload: tuple[Column, ...]
    metadata: tuple[Column, ...]
    timezone: str
    transform: str = ""
    isolation_level: str = "read_committed"

    def parts(self) -> tuple[tuple[str, Any], ...]:
        """What decides what a record becomes, by name, as JSON documents."""
        columns = [astuple(c) for c in (*self.payload, *self.metadata)]
        return (
            ("decoder", [DECODER_VERSION, self.kind]),
            ("columns", [columns, self.timezone]),
            ("transform", self.transform),
            ("isolation", self.isolation_level),
        )

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The stream's columns that a task needs, topic, partition and offset first."""
        metadata = [METADATA_SOURCES[c.name] for c in self.metadata]
        payload = ["value"] if self.kind == "json" else [c.name for c in self.payload]
        return tuple(dict.fromkeys(["topic", "partition", "offset", *payload, *metadata]))

    def prepare(self, table: pa.Table, assignment: Assignment) -> Prepared:
        """Decode the chunk and cut it by the *recorded* layout."""
        chunk = _one_batch(table)
        decoded = self._decode(chunk)
        rejected = [Rejected(b.row, b.column, b.reason) for b in decoded.bad]
        pieces, unrouted = self._route(decoded, assignment.layout)
        return Prepared(pieces, tuple(sorted([*rejected, *unrouted], key=lambda r: r.row)))

    def _decode(self, chunk: pa.RecordBatch) -> Decoded:
        if self.kind == "columns":
            names = [c.name for c in self.payload]
            wanted = {c.name: chunk.column(METADATA_SOURCES[c.name]) for c in self.metadata}
            fields = {n: chunk.column(n) for n in names} | wanted
            return conform(pa.RecordBatch.from_pydict(fields), (*self.payload, *self.metadata), timezone=self.timezone)
        payload = _decoder(self.payload, self.timezone).decode(_bytes(chunk.column("value")))
        if not self.metadata:
            return payload
        kept = chunk if payload.rows is None else chunk.take(payload.rows)
        fields = {c.name: kept.column(METADATA_SOURCES[c.name]) for c in self.metadata}
        metadata = conform(pa.RecordBatch.from_pydict(fields), self.metadata, timezone=self.timezone)
        return _beside(payload, metadata)

    def _route(self, decoded: Decoded, layout_json: str) -> tuple[tuple[Piece, ...], list[Rejected]]:
        batch = decoded.batch
        if batch.num_rows == 0:
            return (), []
        layout, sharder = _sharder(layout_json, (*self.payload, *self.metadata))
        assignment = sharder.assign([batch.column(k) for k in layout.key], batch.num_rows)
        pieces = tuple(Piece(shard, part) for shard, part in split(batch, assignment) if shard != NO_SHARD)
        if assignment.null_rows is None or layout.null_shard_key == "first_shard":
            return pieces, []
        rows = [int(i) for i in assignment.null_rows]
        at = rows if decoded.rows is None else [decoded.rows[i].as_py() for i in rows]
        column = layout.key[0] if len(layout.key) == 1 else None
        return pieces, [Rejected(i, column, "the shard key is null") for i in at]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """The chunk as one record batch.  Arrow leaves a column beyond 2 GiB in several: a piece is never a part of it."""
    batches = table.combine_chunks().to_batches()
    if len(batches) != 1:
        raise HaltError(
            "CHS-603",
            f"a chunk of {table.num_rows} records holds more than 2 GiB in one column",
            "lower clickhouse.chunk_offsets; a range already in doubt is decided with `chsink state resolve --help`",
        )
    return batches[0]


def _bytes(values: pa.Array) -> pa.Array:
    """Values as binary; a string column shares its buffers."""
    return values if pa.types.is_binary(values.type) else pc.cast(values, pa.binary())


def _beside(payload: Decoded, metadata: Decoded) -> Decoded:
    """Both halves of the same rows as one batch.  Rows that only the metadata rejects leave the payload too."""
    left, rows, bad = payload.batch, payload.rows, payload.bad
    if metadata.rows is not None:
        origin = pa.array(np.arange(left.num_rows)) if rows is None else rows
        refused = [BadValue(origin[b.row].as_py(), b.column, b.reason) for b in metadata.bad]
        left, rows = left.take(metadata.rows), origin.take(metadata.rows)
        bad = sorted([*bad, *refused], key=lambda b: b.row)
    schema = pa.schema([*left.schema, *metadata.batch.schema])
    return Decoded(pa.RecordBatch.from_arrays([*left.columns, *metadata.batch.columns], schema=schema), rows, bad)


@lru_cache(maxsize=64)
def _decoder(columns: tuple[Column, ...], timezone: str) -> JsonDecoder:
    return JsonDecoder(columns, timezone=timezone)


@lru_cache(maxsize=64)
def _sharder(layout_json: str, columns: tuple[Column, ...]) -> tuple[Layout, Sharder]:
    layout = Layout.from_json(layout_json)
    types = {c.name: c.type for c in columns}
    return layout, Sharder(layout, [types[k] for k in layout.key])
