"""What must hold of the target tables before the first record is read, judged from their descriptions alone.

Every check is a function from what the server said to findings; the same findings stop a start and fill
``chsink doctor``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from chsink.clickhouse.shards import Target
from chsink.clickhouse.table import METADATA_COLUMNS, TargetTable
from chsink.clickhouse.window import check_window
from chsink.errors import PreflightError
from chsink.findings import Finding, error, of_error, ok, warning

NON_DETERMINISTIC = re.compile(
    r"\b(now\w*|today|yesterday|current_?(time|date)\w*|utc_?timestamp|rand\w*|generate(UUID|ULID|Snowflake)\w*"
    r"|hostName|uptime|serverUUID|query_?id|rowNumberIn\w*)\s*\(",
    re.IGNORECASE,
)
_JSON_ARGUMENT = r"(?:max_dynamic_\w+ ?= ?\d+|SKIP (?:REGEXP )?(?:'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|[\w.]+))"
_TYPED_PATHS = re.compile(rf"(?<![`\w])JSON\((?!(?:{_JSON_ARGUMENT}(?:, ?{_JSON_ARGUMENT})*)?\))")
UNSUPPORTED = re.compile(rf"\b(AggregateFunction\(|Interval|Nothing\b)|{_TYPED_PATHS.pattern}")


def target_findings(target: Target) -> Iterator[Finding]:
    """What is wrong with a target, or one ``ok``."""
    found = [
        *_engine(target),
        *_same_columns(target),
        *_shard_key(target),
        *_unsupported(target),
        *_partitions(target),
        *_defaults(target),
    ]
    yield from found or [ok("CHS-203", f"{target.name} takes what {target.topic} brings, and deduplicates: "
                                       + ", ".join(_window(s.table) for s in target.shards))]  # fmt: skip


def _window(table: TargetTable) -> str:
    seconds = f" for {table.window_s} s" if table.window_s is not None else ""
    return f"{table.engine} that remembers {table.window_blocks} blocks{seconds}"


def _engine(target: Target) -> Iterator[Finding]:
    for shard in target.shards:
        url, table = shard.url, shard.table
        if not table.engine.endswith("MergeTree"):
            yield error(
                "CHS-203",
                f"{target.name} at {url} is a {table.engine}, which does not deduplicate inserts",
                "write to the MergeTree tables themselves, one endpoint per shard (no Distributed table, no view)",
            )
            return
        try:
            check_window(table, url, 1)
        except PreflightError as raised:
            yield of_error(raised)


def _same_columns(target: Target) -> Iterator[Finding]:
    first, at = [(c.name, c.type, c.default_kind) for c in target.table.insertable], target.shards[0].url
    for shard in target.shards[1:]:
        other = [(c.name, c.type, c.default_kind) for c in shard.table.insertable]
        if other != first:
            differing = sorted({c[0] for c in set(first) ^ set(other)})
            yield error(
                "CHS-204",
                f"{target.name} differs between {at} and {shard.url}: {', '.join(differing) or 'column order'}",
                "give the table the same columns on every shard",
            )


def _shard_key(target: Target) -> Iterator[Finding]:
    names = {c.name for c in target.table.insertable}
    for column in target.shard_key:
        if column not in names:
            yield error(
                "CHS-205",
                f"the shard key {column!r} is not an insertable column of {target.name}",
                "correct clickhouse.shard_key or the route's shard_key",
            )


def _unsupported(target: Target) -> Iterator[Finding]:
    for column in target.table.insertable:
        name = f"{target.name}.{column.name}"
        if _TYPED_PATHS.search(column.type):
            yield error(
                "CHS-214",
                f"{name} is of type {column.type}: the server makes values fit the types of its paths, or refuses all "
                "records of a piece for one of them",
                "declare it JSON without typed paths (max_dynamic_paths, max_dynamic_types and SKIP may stay): ALTER "
                "TABLE ... MODIFY COLUMN keeps what is stored; give a path that needs a type a column of its own",
            )
        elif UNSUPPORTED.search(column.type):
            yield error(
                "CHS-214",
                f"{name} is of type {column.type}, which cannot be filled from a record",
                "fill it by a materialized view from a plain column",
            )
        elif column.name.partition(".")[0] in METADATA_COLUMNS and "." in column.name:
            yield error(
                "CHS-214",
                f"{name} is part of a Nested column, which Kafka's own fields are not written to",
                "declare it as _kafka_headers Array(Tuple(key String, value Nullable(String))) DEFAULT []",
            )


def _partitions(target: Target) -> Iterator[Finding]:
    """Partition keys that come out differently when a piece is sent again: the same token would not deduplicate."""
    for shard in target.shards:
        url, table = shard.url, shard.table
        volatile = [c for c in volatile_columns(table) if _names(table.partition_key, c)]
        if NON_DETERMINISTIC.search(table.partition_key):
            volatile.append(table.partition_key)
        if volatile:
            yield error(
                "CHS-206",
                f"{target.name} at {url} is partitioned by {', '.join(volatile)}, which differ from insert to insert",
                "partition by a column that comes from the record (its timestamp, or _kafka_timestamp)",
            )


def _defaults(target: Target) -> Iterator[Finding]:
    table = target.table
    volatile = [c for c in volatile_columns(table) if not _names(table.partition_key, c)]
    if volatile:
        yield warning(
            "CHS-209",
            f"{target.name}: {', '.join(volatile)} tell when or where a row was inserted, not what the record says; a "
            "range that is sent again keeps the values of whichever copy came first",
            "nothing, if that is what they are for; _kafka_timestamp tells when the record was written",
        )


def volatile_columns(table: TargetTable) -> list[str]:
    """Columns whose default depends on when or where it is computed."""
    return [c.name for c in table.columns if c.default_expression and _volatile(c.default_expression, table)]


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
