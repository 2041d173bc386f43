"""From a target table and the shape of a stream to the pipeline that fills the one from the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from chsink.batch.pipeline import Pipeline
from chsink.clickhouse.preflight import Target
from chsink.clickhouse.table import METADATA_COLUMNS, TableColumn, TargetTable
from chsink.decode.columns import Column
from chsink.errors import PreflightError

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PASSED_THROUGH = frozenset(KAFKA_COLUMNS) - {"value"}


class StreamShape(Protocol):
    """What decides a pipeline, besides the table (see ``chsink.spark.stream_plan.StreamPlan``)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the stream's columns."""

    @property
    def transform(self) -> str:
        """Names what was done to the Kafka source, "" for nothing."""

    @property
    def isolation_level(self) -> str:
        """The consumers' isolation level."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """The shape of Kafka's source itself, without a transform."""

    isolation_level: str
    columns: tuple[str, ...] = KAFKA_COLUMNS
    transform: str = ""


def reads_json(target: Target, stream: StreamShape) -> bool:
    """Whether the stream still has Kafka's ``value``, so that the table's columns drive its parsing.

    To a table that has a ``value`` too, a stream of all of Kafka's columns and no others is one of JSON.
    """
    names, columns = {c.name for c in target.tables[0].insertable}, set(stream.columns)
    all_of_kafkas = columns | {"headers"} == set(KAFKA_COLUMNS)
    return "value" in columns and (all_of_kafkas or "value" not in names)


def build_pipeline(target: Target, stream: StreamShape) -> Pipeline:
    """How records become rows.  PreflightError CHS-212 or CHS-213 when the stream's columns are not the table's."""
    table = target.tables[0]
    columns, as_json = stream.columns, reads_json(target, stream)
    metadata = tuple(_column(c) for c in table.insertable if c.name in METADATA_COLUMNS)
    payload = tuple(
        _column(c) for c in table.insertable if c.name not in METADATA_COLUMNS and (as_json or c.name in columns)
    )
    if not as_json:
        _check_columns(target, columns, {c.name for c in table.insertable})
    kind: Literal["json", "columns"] = "json" if as_json else "columns"
    return Pipeline(kind, payload, metadata, table.timezone, stream.transform, stream.isolation_level)


def fingerprint(pipeline: Pipeline, tables: Sequence[TargetTable]) -> str:
    """What decides what a record becomes, and where: ``name=digest`` parts, so that a change can be named."""
    parts = (*pipeline.parts(), ("table", [t.identity for t in tables]))
    return ",".join(f"{name}={_digest(part)}" for name, part in parts)


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=5).hexdigest()


def _check_columns(target: Target, columns: tuple[str, ...], names: set[str]) -> None:
    unknown = [c for c in columns if c not in names and c not in PASSED_THROUGH]
    if unknown:
        raise PreflightError(
            "CHS-212",
            f"table {target.name} has no column {', '.join(unknown)}, which the stream has",
            "rename or drop the column in the transform, or add it to the table",
        )
    required = [
        c.name
        for c in target.tables[0].insertable
        if c.name not in columns and c.name not in METADATA_COLUMNS and not c.default_kind and "Nullable(" not in c.type
    ]
    if required:
        raise PreflightError(
            "CHS-213",
            f"the stream has no column {', '.join(required)}, which table {target.name} requires",
            "add it in the transform, or give the table's column a DEFAULT",
        )


def _column(column: TableColumn) -> Column:
    return Column(column.name, column.type, column.default_kind, column.default_expression)
