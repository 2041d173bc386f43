"""What must hold of the target tables before the first record is read.

Every check is a function from what the server said to findings; the same findings stop a start and fill
``chsink doctor``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chsink.clickhouse.table import METADATA_COLUMNS, TargetTable
from chsink.clickhouse.window import check_window
from chsink.errors import PreflightError

NON_DETERMINISTIC = re.compile(
    r"\b(now(64)?|today|yesterday|rand\w*|generateUUIDv[47]|generateULID|hostName|uptime)\s*\(", re.IGNORECASE
)
UNSUPPORTED = re.compile(r"\b(AggregateFunction\(|Interval|Nothing\b)")
COLLAPSING = ("ReplacingMergeTree", "CollapsingMergeTree", "VersionedCollapsingMergeTree", "SummingMergeTree",
              "AggregatingMergeTree", "CoalescingMergeTree", "GraphiteMergeTree")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A routed table: what it is on each shard, in the shards' order, and the key that chooses the shard."""

    topic: str
    name: str
    urls: tuple[str, ...]
    tables: tuple[TargetTable, ...]
    shard_key: tuple[str, ...]


def check_targets(targets: Iterable[Target]) -> None:
    """Raise the first PreflightError that holds."""
    for target in targets:
        for error in target_errors(target):
            raise error


def target_errors(target: Target) -> Iterator[PreflightError]:
    """Everything that is wrong with a target."""
    yield from _engine_errors(target)
    yield from _layout_errors(target)
    for column in target.tables[0].insertable:
        if UNSUPPORTED.search(column.type) and not column.type.startswith("Simple"):
            yield PreflightError(
                "CHS-214",
                f"{target.name}.{column.name} is of type {column.type}, which cannot be filled from a record",
                "fill it by a materialized view from a plain column",
            )
    yield from _partition_errors(target)


def _engine_errors(target: Target) -> Iterator[PreflightError]:
    for url, table in zip(target.urls, target.tables, strict=True):
        if not table.engine.endswith("MergeTree"):
            yield PreflightError(
                "CHS-203",
                f"{target.name} at {url} is a {table.engine}, which does not deduplicate inserts",
                "write to the MergeTree tables themselves, one endpoint per shard (no Distributed table, no view)",
            )
            return
        try:
            check_window(table, url, 1)
        except PreflightError as error:
            yield error


def _layout_errors(target: Target) -> Iterator[PreflightError]:
    first = [(c.name, c.type, c.default_kind) for c in target.tables[0].insertable]
    for url, table in zip(target.urls[1:], target.tables[1:], strict=True):
        other = [(c.name, c.type, c.default_kind) for c in table.insertable]
        if other != first:
            differing = sorted({c[0] for c in set(first) ^ set(other)})
            yield PreflightError(
                "CHS-204",
                f"{target.name} differs between {target.urls[0]} and {url}: {', '.join(differing) or 'column order'}",
                "give the table the same columns on every shard",
            )
    names = {c[0] for c in first}
    for column in target.shard_key:
        if column not in names:
            yield PreflightError(
                "CHS-205",
                f"the shard key {column!r} is not an insertable column of {target.name}",
                "correct clickhouse.shard_key or the route's shard_key",
            )


def _partition_errors(target: Target) -> Iterator[PreflightError]:
    """Partition keys that come out differently when a piece is sent again: the same token would not deduplicate."""
    for url, table in zip(target.urls, target.tables, strict=True):
        volatile = [
            c.name
            for c in table.columns
            if c.default_expression and _volatile(c.default_expression, table) and _names(table.partition_key, c.name)
        ]
        if NON_DETERMINISTIC.search(table.partition_key):
            volatile.append(table.partition_key)
        if volatile:
            yield PreflightError(
                "CHS-206",
                f"{target.name} at {url} is partitioned by {', '.join(volatile)}, which differ from insert to insert",
                "partition by a column that comes from the record (its timestamp, or _kafka_timestamp)",
            )


def _volatile(expression: str, table: TargetTable, depth: int = 8) -> bool:
    """Whether a default depends on when or where it is computed, also through other columns' defaults."""
    if NON_DETERMINISTIC.search(expression):
        return True
    return depth > 0 and any(
        c.default_expression and _names(expression, c.name) and _volatile(c.default_expression, table, depth - 1)
        for c in table.columns
        if c.name not in METADATA_COLUMNS and c.default_expression != expression
    )


def _names(expression: str, column: str) -> bool:
    return re.search(rf"(?<![\w`]){re.escape(column)}(?![\w`])|`{re.escape(column)}`", expression) is not None
