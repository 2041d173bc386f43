"""May a record without a value delete its key's row?  Where the table's engine keeps the newest row of each key.

Rules:
- The version is the record's offset.  Records of one key are in one partition, in their order: so a deletion replaces
  what came before it, and what comes after replaces the deletion, however often and in whatever order pieces are sent.
  Timestamps are not ordered like that, and a value's own version is not in a record without a value.
- Rows replace each other only in one table partition of one shard, by the sorting key: all three must follow from the
  key.
- Offsets of several topics cannot be compared, so the table takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import THE_TABLE
from chsink.errors import preflight
from chsink.formats.deletes import Deletes
from chsink.notation.sql import IN_BACKTICKS, IN_QUOTES, unquote
from chsink.refusals import asking_target
from chsink.statemachine.records import TopicTable

OFFSET: Final = "_kafka_offset"
FOLLOW_FROM_KEY: Final = frozenset({"_kafka_key", "_kafka_topic", "_kafka_partition"})
"""Metadata columns that are the same for all records of one key."""
_ARGUMENT = re.compile(rf"{IN_QUOTES}|{IN_BACKTICKS}|[^\s,()]+")
_KEYS = (
    "SELECT name FROM system.columns WHERE database = {database:String} AND table = {name:String} "
    "AND (is_in_sorting_key OR is_in_partition_key)"
)


def deletes_of(cluster: Cluster, leads: TopicTable) -> Deletes:
    """How deletions of the topic look in the table.  PreflightError CHS-278 where the newest row cannot be known."""
    target, route = cluster.targets[leads], cluster.routes[leads]
    others = sorted({topic for topic, table in cluster.routes if table == target.name and topic != route.topic})
    if others:
        raise _unknown(target, f"topic {others[0]} lands in it, too")
    of_key = FOLLOW_FROM_KEY.union(route.key_columns)
    if len(target.shards) > 1:
        random = cluster.config.clickhouse.hash_function == "rand"
        astray = ["rand()"] if random else sorted(set(target.shard_key) - of_key)
        if astray:
            raise _unknown(target, f"the shard depends on {astray[0]}, not only on the key")
    marks = set()
    for shard in target.shards:
        with asking_target():
            version, mark = _engine(target, shard)
            keys = {str(name) for (name,) in shard.client.query(_KEYS, _named(shard))}
        if version != OFFSET:
            raise _unknown(target, f"the version column of its engine is {version}, not {OFFSET}")
        if keys - of_key:
            raise _unknown(
                target, f"its ORDER BY or PARTITION BY uses {min(keys - of_key)}, which is not a column of the key"
            )
        marks.add(mark)
    if len(marks) > 1:
        raise _unknown(target, "its engine differs between shards")
    return Deletes(marks.pop())


def _engine(target: RoutedTable, shard: ShardTable) -> tuple[str, str]:
    """The engine's columns of the version and of the mark."""
    [(engine,)] = shard.client.query(f"SELECT engine_full {THE_TABLE}", _named(shard))
    arguments = list(engine_arguments(str(engine)))
    if not shard.table.engine.endswith("ReplacingMergeTree") or len(arguments) != 2:
        raise _unknown(
            target, f"its engine {shard.table.engine} does not name both a version column and an is_deleted column"
        )
    return arguments[0], arguments[1]


def engine_arguments(engine: str) -> Iterator[str]:
    """The columns that an engine names; the path and the replica of a Replicated one are left out."""
    name, opened, rest = engine.partition("(")
    if not opened or " " in name:
        return
    for found in _ARGUMENT.finditer(rest):
        before = rest[: found.start()]
        if ")" in re.sub(f"{IN_QUOTES}|{IN_BACKTICKS}", "", before):
            return
        if not found[0].startswith("'"):
            yield unquote(found[0]) if found[0].startswith("`") else found[0]


def _named(shard: ShardTable) -> dict[str, str]:
    return {"database": shard.table.database, "name": shard.table.name}


def _unknown(target: RoutedTable, problem: str) -> Exception:
    return preflight.DELETES_UNKNOWN(table=target.name, problem=problem)
