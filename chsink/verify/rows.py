"""What the records of a route become: decoded and put on shards by what the job uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.clickhouse.pieces import by_shard
from chsink.clickhouse.shards import RoutedTable
from chsink.decode import Column
from chsink.kafka.records import record_batch
from chsink.ports import BadValue, Decoded, Decoder
from chsink.verify.compare import I64

_ROW = "row_of_chsink"


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedRows:
    """Decoded rows in the order of their offsets, and the shard of each; ``rejected`` records have none.  ``records``
    counts those of the table: others of its topic may be of other tables.
    """

    batch: pa.RecordBatch
    offsets: I64
    shards: npt.NDArray[np.int32]
    rejected: tuple[BadValue, ...]
    records: int


@dataclass(frozen=True, slots=True)
class RowMaker:
    """``layout`` is the current shard layout (JSON)."""

    decoder: Decoder
    target: RoutedTable
    layout: str

    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that a record's row fills, in the order of a decoded batch."""
        by_name = {c.name: c for c in self.target.table.insertable}
        return tuple(by_name[name] for name in self.decoder.decode(record_batch([])).batch.schema.names)

    def rows(self, records: pa.RecordBatch) -> ExpectedRows:
        """What the job would insert for the records, which ascend by offset."""
        decoded = self.decoder.decode(records)
        row = pa.array(np.arange(decoded.batch.num_rows)) if decoded.rows is None else decoded.rows
        numbered = Decoded(decoded.batch.append_column(_ROW, row), decoded.rows, decoded.bad, decoded.others)
        prepared = by_shard(records, numbered, self.layout, self.target.table)
        batch = pa.concat_batches([piece.batch for piece in prepared.pieces] or [numbered.batch.slice(0, 0)])
        shards = [np.full(piece.batch.num_rows, piece.shard, np.int32) for piece in prepared.pieces]
        shard = np.concatenate([np.empty(0, np.int32), *shards])
        order = np.argsort(batch.column(_ROW).to_numpy())
        if len(prepared.pieces) > 1:
            batch, shard = batch.take(pa.array(order)), shard[order]
        offsets = records.column("offset").to_numpy()[batch.column(_ROW).to_numpy()]
        return ExpectedRows(
            batch.drop_columns([_ROW]), offsets, shard, prepared.rejected, records.num_rows - prepared.others
        )
