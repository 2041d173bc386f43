"""A simulated server's answers to the statements of production code, and to the DELETE that an operator types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chsink.dlq import digest as records
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.kafka import PARTITION
from tests.sim.oracle import lists_of

if TYPE_CHECKING:
    from tests.sim.clickhouse import Server, Table, TableKind

Rows = list[tuple[Any, ...]]
WORD = 64
_FROM = re.compile(r"\bFROM `([^`]+)`\.`([^`]+)`")
_NAMED = re.compile(r"database IN \((.*?)\) AND (?:name|table) IN \((.*?)\)")
_TOPIC = re.compile(r"_kafka_topic = '([^']+)'")
_PARTITION = re.compile(r"_kafka_partition = (\d+)")
_LOW, _HIGH = re.compile(r"_kafka_offset >= (\d+)"), re.compile(r"_kafka_offset < (\d+)")
_OF = re.compile(r"AND `table` = '([^']+)'")
_ONLY = re.compile(r"_kafka_offset IN \((.*?)\)")
_LATER = re.compile(r"_part\)\[3\]\) > (\d+)\)")
_ENDS = re.compile(r"transform\(toInt64\(_kafka_partition\), \[(.*?)\], \[(.*?)\]")
_LISTED = re.compile(r"_kafka_partition IN \((.*?)\)")
_NUMBER = re.compile(r"toInt64\((\d+)\)")
BEYOND = 1 << 62


def describes(sql: str) -> bool:
    """Whether the query describes a table.  One start sends dozens of such queries, so they take no time."""
    marks = ("engine_full, timezone()", "system.columns", "merge_tree_settings", "toString(uuid), engine FROM")
    return any(mark in sql for mark in marks) or _asks_for_views(sql)


def _asks_for_views(sql: str) -> bool:
    return "dependencies_table) FROM system.tables WHERE database IN" in sql


def description(server: Server, sql: str, said: Mapping[str, Any]) -> Rows:
    """The answer to such a question."""
    if "merge_tree_settings" in sql:
        kind = next(iter(server.tables.values())).kind
        return list(kind.settings.items())
    return [row for name in named(sql) for row in _described(server, name, sql)]


VIEW, COPY = "db.view of ", "db.copy of "
"""How the view of a table is named, and the table that it fills."""


def _described(server: Server, name: str, sql: str) -> Iterator[tuple[Any, ...]]:
    at, of, kind = tuple(name.split(".", 1)), *_kind(server, name)
    if of is None or kind is None:
        return
    if "toString(uuid), engine FROM" in sql:
        if name.startswith(VIEW):
            database, table = f"{COPY}{of}".split(".", 1)
            yield (*at, f"CREATE MATERIALIZED VIEW db.v TO `{database}`.`{table}` AS SELECT", "", "MaterializedView")
    elif _asks_for_views(sql):
        yield (*at, [tuple(f"{VIEW}{name}".split(".", 1))] if kind.views else [])
    elif "system.columns" in sql:
        columns = [("uid", "Int64", "", "")] if name.startswith(COPY) else kind.columns(server.tables[of].version)
        yield from ((*at, *column) for column in columns)
    elif "engine_full, timezone()" in sql:
        key = f"uid % {kind.parts}" if kind.parts > 1 else ""
        yield (*at, key, "CREATE TABLE", _engine_full(kind), "UTC")
    else:
        yield from _facts(server, name)


def _engine_full(kind: TableKind) -> str:
    return f"{kind.engine} ORDER BY uid SETTINGS {', '.join(f'{n} = {v}' for n, v in kind.settings.items())}"


def _kind(server: Server, name: str) -> tuple[str | None, TableKind | None]:
    """The table that is meant, or whose view or view's target is, and how it deduplicates; None if there is none."""
    of = name.removeprefix(VIEW).removeprefix(COPY)
    table = server.tables.get(of)
    if table is None or (of != name and not table.kind.views):
        return None, None
    return of, table.kind if of == name else table.kind.of_view


def named(sql: str) -> Iterator[str]:
    """The tables that a query about many tables names."""
    found = _NAMED.search(sql)
    assert found is not None, sql
    databases, tables = (re.findall(r"'([^']+)'", part) for part in found.groups())
    return (f"{database}.{table}" for database in databases for table in tables)


def identity(server: Server, name: str) -> str:
    """The table's identity, by which production code notices a table that was dropped and created again."""
    return f"{name}@{server.number}"


def digest(table: Table) -> str:
    """The table's digest, by which production code notices an ALTER."""
    return f"v{table.version}"


def answer(server: Server, sql: str, said: Mapping[str, Any], *, lags: bool = False) -> Rows:
    """The answer to any other question, of the replica that ``lags`` or of the other one."""
    if "system.processes" in sql:
        return [(sum(token.startswith(said["head"]) for token in server.under_way),)]
    if "system.settings" in sql:
        return []  # an older server: it knows none of those that are asked for
    if "queue_size" in sql:
        table = server.tables[f"{said['database']}.{said['name']}"]
        waiting = sum(at > server.hub.now for at in table.late.values()) if lags else 0
        server.hub.counts["outcome replica lagged"] += bool(waiting)
        return [(0, table.blocks, table.blocks + 1, waiting, 0, 2)]
    if "engine_full" in sql:
        kinds = ((name, _kind(server, name)[1]) for name in named(sql))
        return [(*name.split(".", 1), _engine_full(kind)) for name, kind in kinds if kind is not None]
    if "name" in said:
        table = server.tables[f"{said['database']}.{said['name']}"]
        if "dependencies_table" in sql:
            return [([tuple(f"{VIEW}{said['database']}.{said['name']}".split(".", 1))] if table.kind.views else [],)]
        return [] if "NOT is_done" in sql else [(table.mutations, 0)]
    if "system.tables" in sql:
        return [row for name in named(sql) for row in _facts(server, name, lags=lags)]
    return _of_rows(server, sql, said, lags=lags)


def _facts(server: Server, name: str, *, lags: bool = False) -> Iterator[tuple[Any, ...]]:
    """The table's description and contents, as rows.  Each replica made its table by itself, before all ranges."""
    of, kind = _kind(server, name)
    if of is None or kind is None:
        return
    table, at, mine = server.tables[of], tuple(name.split(".", 1)), identity(server, name)
    blocks, altered = (table.blocks, digest(table)) if of == name else (table.fed_blocks, "")
    altered_s = table.altered_s if of == name and not (lags and table.elsewhere) else -1
    uuid = f"{mine} of {'one' if lags else 'another'} replica" if kind.engine.startswith("Replicated") else mine
    yield ("is", *at, uuid, kind.engine, altered, server.hub.now // 1000, server.started // 1000, altered_s)
    yield ("path", *at, mine, "", "", 0, 0, 0)
    yield ("blocks", *at, "", "", "", blocks, 0, 0)


def _of_rows(server: Server, sql: str, said: Mapping[str, Any], *, lags: bool) -> Rows:
    of = _OF.search(sql)
    table = server.tables[lists_of(of[1]) if of and "error_id = " in sql else table_of(sql)]
    rows = _shown(server, table) if lags else table.rows
    if "transform(" in sql or "toInt64(_kafka_partition) AS p" in sql:
        return list(_beyond(rows, sql, said["topic"]))
    tp, asked = _asked(sql, said)
    held, only = rows.get((tp.topic, tp.partition), ()), _ONLY.search(sql)
    later = _LATER.search(sql)
    after = int(later[1]) if later else -1
    mine = (uid for uid in held if of is None or table.letters_of.get(uid, of[1]) == of[1])
    if records.SQL in sql:
        return [(uid % PARTITION, records.digest_of(0, None, str(uid).encode(), ()), 0) for uid in mine]
    offsets = (uid % PARTITION for uid in mine if table.block_of[uid] > after)
    meant = range(asked.start, asked.end) if only is None else {int(offset) for offset in only[1].split(",")}
    there = Counter(o for o in offsets if o in meant)
    server.hub.counts["outcome probed"] += 1
    if "AS word" in sql:
        bits: dict[int, list[int]] = {}
        for offset, count in there.items():
            word = bits.setdefault(offset // WORD, [0, 0])
            word[0], word[1] = word[0] | 1 << offset % WORD, word[1] + count
        return [(at, *found) for at, found in bits.items()]
    if "groupBitOr" in sql:
        words: dict[int, int] = {}
        for offset in there:
            at, bit = divmod(offset - asked.start, WORD)
            words[at] = words.get(at, 0) | 1 << bit
        return list(words.items())
    if "GROUP BY _kafka_offset" in sql:
        return list(there.items())
    if "min(" in sql:
        return [(there.total(), min(there, default=0), max(there, default=0))]
    return [(there.total(),)]


def _shown(server: Server, table: Table) -> Mapping[tuple[str, int], Sequence[int]]:
    """The rows that a replica shows which lags."""
    late = {uid for uid, at in table.late.items() if at > server.hub.now}
    if not late:
        return table.rows
    return {place: [uid for uid in uids if uid not in late] for place, uids in table.rows.items()}


def _beyond(held: Mapping[tuple[str, int], Sequence[int]], sql: str, topic: str) -> Iterator[tuple[int, int, int]]:
    named = _ENDS.search(sql)
    partitions, ends = ([int(n) for n in _NUMBER.findall(part)] for part in (named.groups() if named else ("", "")))
    end_of = dict(zip(partitions, ends, strict=True))
    listed = _LISTED.search(sql)
    only = None if listed is None else {int(n) for n in listed[1].split(",")}
    for (name, partition), uids in held.items():
        end = end_of.get(partition, 0)
        asked = name == topic and (only is None or partition in only)
        rows = [uid % PARTITION for uid in uids if uid % PARTITION >= end] if asked else []
        if rows:
            yield partition, len(rows), max(rows)


def _asked(sql: str, said: Mapping[str, Any]) -> tuple[TopicPartition, OffsetRange]:
    """Topic-partition and offsets of a query, from its parameters or its text."""

    def of(name: str, pattern: re.Pattern[str], convert: Callable[[str], Any], missing: Any) -> Any:
        found = pattern.search(sql)
        return said[name] if name in said else convert(found[1]) if found else missing

    topic, partition = of("topic", _TOPIC, str, ""), of("partition", _PARTITION, int, 0)
    return TopicPartition(topic, partition), OffsetRange(of("start", _LOW, int, 0), of("end", _HIGH, int, BEYOND))


def delete(server: Server, sql: str, *, views: bool = False) -> None:
    """``DELETE FROM … WHERE _kafka_topic = … AND _kafka_partition = … AND _kafka_offset >= … [AND _kafka_offset < …]``,
    or several partitions and offsets joined by OR.  ``views``: the same rows of the target of the table's view.
    """
    assert sql.startswith("DELETE FROM "), sql
    name, of = table_of(sql), _OF.search(sql)
    for part in sql.split(" OR "):
        tp, gone = _asked(part, {"topic": _asked(sql, {})[0].topic})
        if views:
            server.remove_from_views(name, tp, gone)
        else:
            server.remove(name, tp, gone, letters_of=of[1] if of else None)


def table_of(sql: str) -> str:
    """The table that a statement reads or changes."""
    found = _FROM.search(sql)
    assert found is not None, sql
    return f"{found[1]}.{found[2]}"
