"""The current definitions of a server's tables, by one query for many tables.

Each part of the answer comes from its own system table.  They are put together here, because a join in the server takes
twice as long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from chsink.notation.sql import TableName, quote_string
from chsink.ports import Queries, ResultRow

AT_ONCE: Final = 150
"""The most tables that one statement names: even the longest names stay below the default ``max_query_size``."""
_WITHOUT_REPLICA = "replaceRegexpOne(create_table_query, 'ENGINE = Replicated[A-Za-z]*[(]''[^'']*'', ''[^'']*''', '')"
_DEPENDENTS = "toString(arraySort(arrayZip(dependencies_database, dependencies_table)))"
VERSION: Final = "toUInt32OrZero(splitByChar('.', version())[1]) * 100 + toUInt32OrZero(splitByChar('.', version())[2])"
"""The server's, such as 2602 for 26.2."""
_IN_ZONE = "replaceOne(timezone(), 'Etc/', '')"
_ZONE = f"if(engine = 'MaterializedView', '', {_IN_ZONE})"
"""What texts without an offset mean in a table.  A view is described without it: its digest is kept with ranges."""
_KIND = f"if({VERSION} < 2606 OR NOT match(engine, '^(Replicated|Shared)'), '', 'unified')"
_TOKENS = f"{_KIND} || if(partition_key = '', '', {_IN_ZONE})"
"""A token is of one table partition, which may be that of a local day.  A plain table's server restarts if upgraded."""
_ARE = (
    "SELECT 'is' AS kind, database, name, toString(uuid) AS id, engine, "
    f"hex(sipHash128({_WITHOUT_REPLICA}, {_DEPENDENTS})) || {_ZONE} AS digest, "
    "toInt64(toUnixTimestamp(now())) AS number, "
    "toInt64(toUnixTimestamp(now())) - toInt64(uptime()) AS started_s, "
    f"toInt64(toUnixTimestamp(metadata_modification_time)) AS defined_s, {_TOKENS} AS tokens "
    "FROM system.tables WHERE {tables}"
)
_PATHS = (
    "SELECT 'path', database, table, zookeeper_path, '', '', toInt64(0), toInt64(0), toInt64(0), '' "
    "FROM system.replicas WHERE {parts}"
)
_COUNTED = "SELECT 'blocks', database, table, '', '', '', toInt64({number}), toInt64(0), toInt64(0), '' FROM {source}"
_PARTS = "system.parts WHERE {parts} GROUP BY database, table"
BLOCKS: Final = _COUNTED.format(number="max(max_block_number)", source=_PARTS)
LOG_ENTRIES: Final = _COUNTED.format(
    number="log_max_index",
    source="system.replicas WHERE {parts} AND NOT is_session_expired AND zookeeper_exception = ''",
)
BLOCKS_BY_PARTITION: Final = _COUNTED.format(
    number="sum(of_partition)",
    source=f"(SELECT database, table, max(max_block_number) + 1 AS of_partition FROM {_PARTS}, partition_id) "
    "GROUP BY database, table",
)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table is.

    ``identity`` differs for another table of the name: replicas of one table share its Keeper path, while their UUIDs
    differ when each was created by itself.  ``definition`` is a digest of that, of its CREATE statement, of
    its views' names and of the server's time zone, the same on every replica.  ``blocks`` are counted as was asked,
    None where nothing is counted of it.  ``at_s`` is the server's time when it answered.  ``uuid``, and when the table
    was made or altered (``defined_s``), are those of the server that answered; so is the kind of ``tokens`` that it
    keeps in Keeper: since 26.6, it does not find those that a server before 26.2 kept, nor, in a table with partitions,
    surely those of another time zone.
    """

    identity: str
    uuid: str
    engine: str
    definition: str
    blocks: int | None
    started_s: int
    defined_s: int
    at_s: int
    tokens: str = ""


def read_facts(
    client: Queries, names: Collection[TableName], counting: str = "", *, replicated: bool = True
) -> dict[TableName, TableFacts]:
    """Of each table that is there.  ``counting`` says how its blocks are counted, "" not at all.  Without
    ``replicated``, the identity of a Replicated table is not read: it is none.
    """
    found: dict[TableName, TableFacts] = {}
    arms = [_ARE, *([_PATHS] if replicated else []), *([counting] if counting else [])]
    for group in in_groups(names):
        where = {"tables": named(group, "name"), "parts": named(group, "table")}
        found |= _together(client.query(" UNION ALL ".join(arm.format(**where) for arm in arms)))
    return {name: found[name] for name in names if name in found}


def in_groups(names: Iterable[TableName]) -> Iterator[list[TableName]]:
    """The tables in groups that one statement may name."""
    ordered = list(dict.fromkeys(names))
    return (ordered[at : at + AT_ONCE] for at in range(0, len(ordered), AT_ONCE))


def _together(rows: Iterable[ResultRow]) -> dict[TableName, TableFacts]:
    kinds: dict[str, dict[TableName, ResultRow]] = {"is": {}, "path": {}, "blocks": {}}
    for kind, database, table, *said in rows:
        kinds[kind][TableName(database, table)] = tuple(said)
    found = {}
    for name, (uuid, engine, digest, *times) in kinds["is"].items():
        at_s, started_s, defined_s = map(int, times[:3])
        path, *_ = kinds["path"].get(name, ("",))
        identity = str(path if engine.startswith("Replicated") else uuid)
        blocks = int(kinds["blocks"][name][3]) if name in kinds["blocks"] else None
        definition = f"{identity} {engine} {digest}"
        facts = identity, str(uuid), engine, definition, blocks, started_s, defined_s, at_s
        found[name] = TableFacts(*facts, *map(str, times[3:]))
    return found


def named(names: Iterable[TableName], column: str) -> str:
    """The condition under which a row of a system table is of one of these tables, or of another of their databases."""
    databases, tables = zip(*((quote_string(n.database), quote_string(n.table)) for n in names), strict=True)
    return f"database IN ({', '.join(sorted({*databases}))}) AND {column} IN ({', '.join(sorted({*tables}))})"
