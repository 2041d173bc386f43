"""What the job file says about the tables that dead letters are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import decoder, growing
from chsink.clickhouse.pieces import Prepared, by_shard
from chsink.clickhouse.pipelines import Pipelines
from chsink.clickhouse.unknown_fields import watch_of
from chsink.clickhouse.window import DedupWindow
from chsink.dlq.kept import KeptLetters
from chsink.formats.pipeline import TRANSFORM, Untouched, part_of
from chsink.kafka.records import SCHEMA
from chsink.statemachine.records import StateRecord, TopicTable


@dataclass(frozen=True, slots=True)
class LetterRoutes:
    """The routes by topic and table, and what makes rows of their records."""

    clickhouse: Cluster
    pipelines: Pipelines

    def is_transformed(self, leads: TopicTable, record: StateRecord) -> bool:
        """Whether the job transformed Kafka's records when it announced its last range."""
        layout, _ = self.layout(leads)
        return part_of(record.sent.pipeline, TRANSFORM) != part_of(self.pipelines.fingerprint(leads, layout), TRANSFORM)

    def layout(self, leads: TopicTable) -> tuple[str, str]:
        """The current shard layout of the table: its fingerprint, and its JSON."""
        layout = self.clickhouse.layout(self.clickhouse.routes[leads])
        return layout.fingerprint(), layout.to_json()

    def present(self, leads: TopicTable) -> tuple[str, str]:
        """The current shard layout and pipeline, by their fingerprints."""
        layout, _ = self.layout(leads)
        return layout, self.pipelines.fingerprint(leads, layout)

    def prepare(
        self, leads: TopicTable, records: pa.RecordBatch, layout: tuple[str, str], pipeline: str
    ) -> tuple[Prepared, frozenset[int]]:
        """The records as rows of the table, on the shards of a layout (fingerprint, JSON), under a pipeline; and which
        of the records these are.
        """
        fingerprint, document = layout
        decoded = self.pipelines.decoder(leads, pipeline).decode(records)
        prepared = by_shard(records, decoded, document, self.pipelines.tables(leads, fingerprint, pipeline)[0])
        with_row = range(records.num_rows) if decoded.rows is None else decoded.rows.to_pylist()
        return prepared, frozenset(with_row) - {bad.row for bad in prepared.rejected}

    def lacking(self, leads: TopicTable, records: pa.RecordBatch) -> dict[int, str]:
        """Of a table that gains columns: by row, the first field of a record for which it has none yet.  A replay adds
        no columns, so the field's value would be lost.
        """
        cluster = self.clickhouse
        if leads not in growing(cluster):
            return {}
        route = cluster.routes[leads]
        watch = watch_of(route.format, cluster.targets[leads], route.format.named | {*route.key_columns}, (), 0)
        if not watch.missing(records):
            return {}
        found = ((row, watch.missing(records.slice(row, 1))) for row in range(records.num_rows))
        return {row: fields[0] for row, fields in found if fields}


def routes_of(clickhouse: Cluster, window: DedupWindow) -> LetterRoutes:
    """Those of the job file.  PreflightError for one whose table its format does not fit."""
    shape = Untouched(clickhouse.config.kafka.isolation_level)
    decoders = {leads: decoder(clickhouse, leads, shape) for leads in clickhouse.targets}
    return LetterRoutes(clickhouse, Pipelines(decoders, shape, window.shards, None))


def records_of(letters: Sequence[KeptLetters]) -> pa.RecordBatch:
    """The records of dead letters, as Kafka gave them."""
    times = pa.array([one.timestamp_ms for one in letters], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    headers = [[{"key": name, "value": value} for name, value in one.headers] or None for one in letters]
    columns = [
        pa.array([one.key for one in letters], pa.binary()),
        pa.array([one.value for one in letters], pa.binary()),
        pa.array([one.topic for one in letters], pa.string()),
        pa.array([one.partition for one in letters], pa.int32()),
        pa.array([one.offset for one in letters], pa.int64()),
        times.cast(SCHEMA.field("timestamp").type),
        pa.array([one.timestamp_type for one in letters], pa.int32()),
        pa.array(headers, SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
