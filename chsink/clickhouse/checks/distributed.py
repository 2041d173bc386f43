"""Does a `Distributed` table over a target table look for a row where chsink puts it?

A table without a sharding expression, or with `rand()`, asks every shard: it finds each row wherever it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from chsink.clickhouse.shards import ShardTable
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found
from chsink.notation.sql import TableName, unquote
from chsink.ports import Queries

_LITERAL = r"'(?:[^'\\]|\\.)*'"
_ENGINE = re.compile(
    rf"Distributed\(({_LITERAL}), ({_LITERAL}), ({_LITERAL})(?:, (.+?))??(?:, {_LITERAL})?\)(?: SETTINGS .*)?",
    re.DOTALL,
)
"""As `system.tables` writes it: cluster, database, table, and where given the expression and a storage policy."""
_NO_PLACE = re.compile(r"rand\w*\(\)")


def distributed_findings(shard: ShardTable, expression: str, weights: Sequence[int]) -> Iterator[Finding]:
    """A warning for each table of the server over this one that shards rows differently."""
    ours = _said(expression, weights)
    for table, cluster, theirs in _tables_over(shard):
        if theirs is None or _NO_PLACE.fullmatch(theirs):
            continue
        there = _said(theirs, _weights(shard.client, cluster))
        if there != ours:
            names = {"distributed": table.canonical, "url": shard.url, "theirs": there, "ours": ours}
            yield found(Severity.WARNING, preflight.DISTRIBUTED_DIFFERS, **names)


def _tables_over(shard: ShardTable) -> Iterator[tuple[TableName, str, str | None]]:
    """(table, its cluster, its sharding expression)."""
    rows = shard.client.query("SELECT database, name, engine_full FROM system.tables WHERE engine = 'Distributed'")
    for database, name, engine in rows:
        read = _ENGINE.fullmatch(engine)
        if read and unquote(read[2]) in ("", shard.table.database) and unquote(read[3]) == shard.table.name:
            yield TableName(database, name), unquote(read[1]), read[4]


def _weights(client: Queries, cluster: str) -> list[int]:
    rows = client.query(
        "SELECT any(shard_weight) FROM system.clusters WHERE cluster = {cluster:String} GROUP BY shard_num "
        "ORDER BY shard_num",
        {"cluster": cluster},
    )
    return [int(weight) for (weight,) in rows]


def _said(expression: str, weights: Sequence[int]) -> str:
    """In words; without the quotes that are optional."""
    return f"{expression.replace('`', '')} over shards of weights {', '.join(map(str, weights))}"
