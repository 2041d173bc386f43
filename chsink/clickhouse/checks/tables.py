"""What must hold of the target tables before the first record is read, judged from their descriptions alone.

Every check is a function from what the server said to findings; the same findings stop a start and fill
``chsink doctor``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.table import TargetTable, computed_in
from chsink.clickhouse.window import check_window
from chsink.errors import PreflightError, preflight
from chsink.findings import Finding, Severity, found, of_error, passed
from chsink.notation.metadata_columns import METADATA_COLUMNS, SHARD_TYPES
from chsink.notation.sql import names_column
from chsink.notation.type_text import TypeNode, parse_type_text

NON_DETERMINISTIC = re.compile(
    r"\b(now\w*|today|yesterday|curdate|current_?(time|date|query|request)\w*|utc_?timestamp|localtime\w*|rand\w*"
    r"|fuzz\w*|generate(UUID|ULID|Snowflake|Serial|Random)\w*|datetime\w*ToUUIDv7|array(Partial)?Shuffle"
    r"|arrayRandomSample|(full)?hostName|FQDN|displayName|getMacro|get(Server|MergeTree)?Setting\w*|getServerPort"
    r"|tcpPort|file|filesystem\w+|(zookeeperSession)?uptime|serverUUID|(server)?timezone"
    r"|(initial_?)?query_?(id|start_?time)|connection_?id|transactionID|runningConcurrency|blockNumber|rowNumberIn\w*"
    r"|(current_?|initial_?|authenticated)?user|(current)?(database|schemas?)|(current|enabled|default)(roles|profiles)"
    r"|getClientHTTPHeader|shard(num|count)|version|revision|buildId|reverseDNSQuery"
    r"|(dict(Get|Has|IsIn)|joinGet)\w*|ai(Classify|Extract|Filter|Generate|Redact|Translate))\s*\(",
    re.IGNORECASE,
)
_WITHOUT_BRACKETS = re.compile(
    r"(?<![\w.`])(?:now|today|curdate|current_(?:date|timestamp)|localtime(?:stamp)?)\b", re.IGNORECASE
)
"""Functions that a DEFAULT may name without brackets, unless there is a column of the name."""
_TEXT = re.compile(r"(`(?:[^`\\]|\\.)*`)|'(?:[^'\\]|\\.)*'")
"""A text, or a quoted name, which may hold an apostrophe."""


DYNAMIC_TYPES = 32
"""How many types a JSON column keeps for a path by default."""


def target_findings(target: RoutedTable) -> Iterator[Finding]:
    """What is wrong with a target, or one ``ok``."""
    findings = [
        *_engine(target),
        *_combining(target),
        *_same_columns(target),
        *_shard_key(target),
        *_unsupported(target),
        *_partitions(target),
        *_defaults(target),
    ]
    windows = _windows(target)
    yield from findings or [passed(preflight.NOT_MERGE_TREE, table=target.name, topic=target.topic, windows=windows)]


def _windows(target: RoutedTable) -> str:
    """Each kind once: most often, all shards are alike."""
    kinds = Counter(_window(shard.table) for shard in target.shards)
    return ", ".join(f"{kind}, on {count} shards" if count > 1 else kind for kind, count in kinds.items())


def _window(table: TargetTable) -> str:
    seconds = f" for {table.window_s} s" if table.window_s is not None else ""
    return f"{table.engine} that remembers {table.window_blocks:,} blocks{seconds}"


def _engine(target: RoutedTable) -> Iterator[Finding]:
    for shard in target.shards:
        url, table = shard.url, shard.table
        if not table.engine.endswith("MergeTree"):
            yield found(Severity.ERROR, preflight.NOT_MERGE_TREE, table=target.name, url=url, engine=table.engine)
            return
        try:
            check_window(table, url)
        except PreflightError as raised:
            yield of_error(raised)


def _combining(target: RoutedTable) -> Iterator[Finding]:
    """Engines that are a MergeTree and more: their merges replace, sum or delete rows."""
    engine = target.table.engine
    if engine.endswith("MergeTree") and engine.removeprefix("Replicated").removeprefix("Shared") != "MergeTree":
        yield found(Severity.WARNING, preflight.ENGINE_COMBINES, table=target.name, engine=engine)


def _same_columns(target: RoutedTable) -> Iterator[Finding]:
    """Their order may differ: an insert names its columns."""
    first, at = {(c.name, c.type, c.default_kind) for c in target.table.insertable}, target.shards[0].url
    for shard in target.shards[1:]:
        other = {(c.name, c.type, c.default_kind) for c in shard.table.insertable}
        if other != first:
            differing = sorted({c[0] for c in first ^ other})
            yield found(
                Severity.ERROR,
                preflight.COLUMNS_DIFFER,
                table=target.name,
                first=at,
                url=shard.url,
                columns=", ".join(differing),
            )


def _shard_key(target: RoutedTable) -> Iterator[Finding]:
    names = {c.name for c in target.table.insertable}
    for column in target.shard_key:
        if column not in names and column not in SHARD_TYPES:
            yield found(Severity.ERROR, preflight.KEY_NOT_INSERTABLE, column=repr(column), table=target.name)


def _unsupported(target: RoutedTable) -> Iterator[Finding]:
    for column in target.table.insertable:
        name = f"{target.name}.{column.name}"
        if has_typed_paths(column.type):
            yield found(Severity.ERROR, preflight.TYPED_JSON, column=name, type=column.type)
        elif keeps_few_types(column.type):
            yield found(Severity.ERROR, preflight.FEW_JSON_TYPES, column=name, type=column.type)
        elif is_unsupported(column.type):
            yield found(Severity.ERROR, preflight.UNFILLABLE_TYPE, column=name, type=column.type)
        elif (whole := column.name.partition(".")[0]) in METADATA_COLUMNS and whole != column.name:
            declare = f"{whole} {METADATA_COLUMNS[whole].declare}"
            yield found(Severity.ERROR, preflight.NESTED_METADATA, column=name, declare=declare)


def has_typed_paths(type_text: str) -> bool:
    """Whether a JSON type in it gives a path a type of its own."""
    return any(node.name == "JSON" and any(map(_is_typed_path, node.args or ())) for node in _nodes(type_text))


def _is_typed_path(arg: TypeNode) -> bool:
    return bool(arg.words) and arg.words[0] != "SKIP"


def keeps_few_types(type_text: str) -> bool:
    """Whether a JSON type in it keeps fewer types for a path than by default: then large whole numbers are rounded."""
    args = (arg for node in _nodes(type_text) if node.name == "JSON" for arg in node.args or ())
    return any(arg.name == "max_dynamic_types" and (arg.number or 0) < DYNAMIC_TYPES for arg in args)


def is_unsupported(type_text: str) -> bool:
    """Whether no record can fill a column of the type."""
    names = [node.name for node in _nodes(type_text) if not node.words or node.words[0] != "SKIP"]
    opaque = any(name in ("AggregateFunction", "Nothing") or name.startswith("Interval") for name in names)
    return opaque or has_typed_paths(type_text)


def _nodes(type_text: str) -> Iterator[TypeNode]:
    """All types in a type.  None in a text that cannot be read: the decoder refuses that (CHS-506)."""
    try:
        yield from parse_type_text(type_text).walk()
    except ValueError:
        return


def _partitions(target: RoutedTable) -> Iterator[Finding]:
    """Partition keys that come out differently when a piece is sent again: the same token would not deduplicate."""
    for shard in target.shards:
        url, table = shard.url, shard.table
        volatile = volatile_partition(table, volatile_columns(table))
        if volatile:
            columns = ", ".join(volatile)
            yield found(Severity.ERROR, preflight.VOLATILE_PARTITION, table=target.name, url=url, columns=columns)


def _defaults(target: RoutedTable) -> Iterator[Finding]:
    table = target.table
    volatile = [c for c in volatile_columns(table) if not names_column(table.partition_key, c)]
    if volatile:
        columns = ", ".join(volatile)
        yield found(Severity.WARNING, preflight.VOLATILE_DEFAULT, columns=columns, table=target.name)


def volatile_partition(table: TargetTable, volatile: Iterable[str]) -> list[str]:
    """What of its partition key depends on when or where a row is inserted, if these columns do."""
    columns = [c for c in volatile if names_column(table.partition_key, c)]
    changes = NON_DETERMINISTIC.search(_TEXT.sub(r"\1", table.partition_key))
    return [*columns, table.partition_key] if changes else columns


def volatile_columns(table: TargetTable) -> list[str]:
    """Columns whose default depends on when or where it is computed."""
    return [c.name for c in table.columns if c.default_expression and _volatile(c.default_expression, table)]


def _volatile(expression: str, table: TargetTable) -> bool:
    """Whether a default depends on when or where it is computed, also through other columns' defaults."""
    texts = [expression, *(c.default_expression for c in computed_in(expression, table.columns))]
    every = [_TEXT.sub(r"\1", text) for text in texts]
    alone = {found for one in every for found in _WITHOUT_BRACKETS.findall(one)}
    return any(map(NON_DETERMINISTIC.search, every)) or bool(alone - {c.name for c in table.columns})
