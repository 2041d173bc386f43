"""Do the table's columns take what the records bring?  From the table's description to findings, without a service.

A column for one of Kafka's own fields is judged by what the decoder itself says of sample values, so that doctor and
job cannot disagree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from chsink.clickhouse.checks.tables import is_unsupported
from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.table import TargetTable
from chsink.decode.columns import Column
from chsink.decode.conform import conform
from chsink.decode.fields import fields_of
from chsink.errors import ChsinkError, ConfigError, preflight
from chsink.findings import Finding, Severity, found, of_error, passed
from chsink.notation.metadata_columns import METADATA_COLUMNS, SHARD_TYPES
from chsink.sharding import Layout, Sharder


@dataclass(frozen=True, slots=True)
class _Samples:
    """``usual``: what nearly every record brings.  ``rare``: what some bring, by what such a record is called."""

    type: pa.DataType
    usual: Any
    rare: tuple[tuple[str, Any], ...] = ()


_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SAMPLES = {
    "_kafka_topic": _Samples(pa.string(), None),
    "_kafka_partition": _Samples(pa.int32(), 0, (("in partition 40000", 40_000),)),
    "_kafka_offset": _Samples(pa.int64(), 0, (("at an offset over 2^32", 2**32),)),
    "_kafka_timestamp": _Samples(pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)),
    "_kafka_key": _Samples(pa.binary(), b"key", (("without a key", None),)),
    "_kafka_headers": _Samples(
        _HEADERS,
        [{"key": "k", "value": b"v"}],
        (("without headers", None), ("with a header without a value", [{"key": "k", "value": None}])),
    ),
}


def column_findings(target: RoutedTable, layout: Layout, written: Collection[str] | None) -> list[Finding]:
    """Findings about the columns that are written: ``written``, or all insertable ones where it is None."""
    table = target.table
    columns = [c for c in table.insertable if written is None or c.name in written or c.name in METADATA_COLUMNS]
    readable = [c for c in columns if not is_unsupported(c.type)]
    findings = [*_types(target, readable), *_key_types(layout, table), *_key_fields(target, layout, written)]
    refused = {c.type for c in readable if _refusal(c, table.timezone) is not None}
    for column in readable:
        if column.name in METADATA_COLUMNS and column.type not in refused:
            findings += _metadata(target, column, table.timezone)
    return findings or [
        passed(preflight.COLUMN_TAKES_NOTHING, count=len(columns), table=target.name, topic=target.topic)
    ]


def _types(target: RoutedTable, columns: Sequence[Column]) -> Iterator[Finding]:
    """What the decoder refuses, once per type: a table may have hundreds of columns of one type."""
    by_type: dict[str, list[Column]] = {}
    for column in columns:
        by_type.setdefault(column.type, []).append(column)
    for same in by_type.values():
        raised = _refusal(same[0], target.table.timezone)
        if raised is not None:
            more = f" and {len(same) - 1} more columns of this type" if len(same) > 1 else ""
            name = f"{target.name}.{same[0].name}{more}"
            yield of_error(ConfigError(raised.id, f"{name}: {raised.message}", raised.hint))


def _refusal(column: Column, timezone: str) -> ChsinkError | None:
    try:
        fields_of([column], timezone)
    except ConfigError as raised:
        return raised
    return None


def _metadata(target: RoutedTable, column: Column, timezone: str) -> Iterator[Finding]:
    """Whether the column takes its field of a usual record, and then of a rare one."""
    samples = SAMPLES[column.name]
    name, declare = f"{target.name}.{column.name}", METADATA_COLUMNS[column.name].declare
    usual = target.topic if column.name == "_kafka_topic" else samples.usual
    reason = _misfit(column, samples.type, usual, timezone)
    if reason is not None:
        yield found(
            Severity.ERROR,
            preflight.COLUMN_TAKES_NOTHING,
            column=name,
            type=column.type,
            reason=reason,
            declare=declare,
        )
        return
    for record, value in samples.rare:
        reason = _misfit(column, samples.type, value, timezone)
        if reason is not None:
            yield found(
                Severity.WARNING,
                preflight.COLUMN_TAKES_NOT_ALL,
                column=name,
                type=column.type,
                record=record,
                reason=reason,
                declare=declare,
            )


def _misfit(column: Column, kind: pa.DataType, value: Any, timezone: str) -> str | None:
    """Why the value does not fit, by the decoder."""
    batch = pa.RecordBatch.from_arrays([pa.array([value], kind)], names=[column.name])
    bad = conform(batch, [column], timezone=timezone).bad
    return bad[0].reason if bad else None


def _key_fields(target: RoutedTable, layout: Layout, written: Collection[str] | None) -> Iterator[Finding]:
    """A shard key that the table has no column for is a field that a transform must have left in the stream."""
    for column in sorted(layout.of_record({c.name for c in target.table.insertable})):
        field = METADATA_COLUMNS[column].source
        if written is not None and field not in written:
            yield found(
                Severity.ERROR, preflight.KEY_NOT_IN_STREAM, column=repr(column), table=target.name, field=field
            )


def _key_types(layout: Layout, table: TargetTable) -> Iterator[Finding]:
    """The shard key's types, as far as its columns exist (CHS-205 tells of the others)."""
    types = {c.name: c.type for c in table.insertable}
    types |= {k: SHARD_TYPES[k] for k in layout.of_record(types)}
    if len(layout.shards) == 1 or not types.keys() >= set(layout.hashed):
        return
    try:
        Sharder(layout, [types[k] for k in layout.hashed])
    except ConfigError as raised:
        yield of_error(raised)
