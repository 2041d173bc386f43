"""Do the table's columns take what the records bring?  From the table's description to findings, without a service.

A column for one of Kafka's own fields is judged by what the decoder itself says of sample values, so that doctor and
job cannot disagree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from chsink.clickhouse.preflight import UNSUPPORTED
from chsink.clickhouse.shards import Target
from chsink.clickhouse.table import METADATA_COLUMNS, TargetTable
from chsink.decode.columns import Column
from chsink.decode.conform import conform
from chsink.decode.fields import fields_of
from chsink.errors import ConfigError
from chsink.findings import Finding, error, of_error, ok, warning
from chsink.sharding import Layout, Sharder


@dataclass(frozen=True, slots=True)
class _Samples:
    """``usual``: what nearly every record brings.  ``rare``: what some bring, by what such a record is called."""

    type: pa.DataType
    wanted: str
    usual: Any
    rare: tuple[tuple[str, Any], ...] = ()


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SAMPLES = {
    "_kafka_topic": _Samples(pa.string(), "LowCardinality(String)", None),
    "_kafka_partition": _Samples(pa.int32(), "Int32", 0, (("in partition 40000", 40_000),)),
    "_kafka_offset": _Samples(pa.int64(), "Int64", 0, (("at an offset over 2^32", 2**32),)),
    "_kafka_timestamp": _Samples(
        pa.timestamp("us", "UTC"), "DateTime64(3)", datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    ),
    "_kafka_key": _Samples(pa.binary(), "Nullable(String)", b"key", (("without a key", None),)),
    "_kafka_headers": _Samples(
        _HEADERS,
        "Array(Tuple(key String, value Nullable(String))) DEFAULT []",
        [{"key": "k", "value": b"v"}],
        (("without headers", None), ("with a header without a value", [{"key": "k", "value": None}])),
    ),
}


def column_findings(target: Target, layout: Layout, written: Collection[str] | None) -> list[Finding]:
    """Findings about the columns that are written: ``written``, or all insertable ones where it is None."""
    table = target.table
    columns = [c for c in table.insertable if written is None or c.name in written or c.name in METADATA_COLUMNS]
    found = [f for c in columns if not UNSUPPORTED.search(c.type) for f in _column(target, c, table.timezone)]
    found += _key_types(layout, table)
    return found or [ok("CHS-223", f"the {len(columns)} columns of {target.name} can be filled from {target.topic}")]


def _column(target: Target, column: Column, timezone: str) -> Iterator[Finding]:
    decoded = column
    try:
        fields_of([decoded], timezone)
    except ConfigError as raised:
        yield of_error(ConfigError(raised.id, f"{target.name}.{column.name}: {raised.message}", raised.hint))
        return
    if column.name in METADATA_COLUMNS:
        yield from _metadata(target, decoded, timezone)


def _metadata(target: Target, column: Column, timezone: str) -> Iterator[Finding]:
    """Whether the column takes its field of a usual record, and then of a rare one."""
    samples = SAMPLES[column.name]
    name = f"{target.name}.{column.name} is a {column.type}"
    usual = target.topic if column.name == "_kafka_topic" else samples.usual
    reason = _misfit(column, samples.type, usual, timezone)
    if reason is not None:
        yield error("CHS-223", f"{name}, into which nearly no record fits: {reason}", f"use {samples.wanted}")
        return
    for record, value in samples.rare:
        reason = _misfit(column, samples.type, value, timezone)
        if reason is not None:
            yield warning("CHS-223", f"{name}: a record {record} will not fit: {reason}", f"use {samples.wanted}")


def _misfit(column: Column, kind: pa.DataType, value: Any, timezone: str) -> str | None:
    """Why the value does not fit, by the decoder."""
    batch = pa.RecordBatch.from_arrays([pa.array([value], kind)], names=[column.name])
    bad = conform(batch, [column], timezone=timezone).bad
    return bad[0].reason if bad else None


def _key_types(layout: Layout, table: TargetTable) -> Iterator[Finding]:
    """The shard key's types, as far as its columns exist (CHS-205 tells of the others)."""
    types = {c.name: c.type for c in table.insertable}
    if len(layout.shards) == 1 or not types.keys() >= set(layout.key):
        return
    try:
        Sharder(layout, [types[k] for k in layout.key])
    except ConfigError as raised:
        yield of_error(raised)
