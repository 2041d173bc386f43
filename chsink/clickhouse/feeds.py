"""Which tables an insert fills besides its own: those of its materialized views, and of the views behind these."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from chsink.clickhouse.describe import in_groups, named
from chsink.notation.sql import IN_BACKTICKS, TableName, parse_table
from chsink.ports import Queries, ResultRow

_PART: Final = rf"(?:{IN_BACKTICKS}|[^\s.`(]+)"
_UUID: Final = r"(?: UUID '[^']*')?"
"""There with ``show_table_uuid_in_table_create_query_if_not_nil``."""
_TO: Final = re.compile(rf"CREATE MATERIALIZED VIEW {_PART}\.{_PART}{_UUID} TO ({_PART}\.{_PART})")
_NIL: Final = "00000000-0000-0000-0000-000000000000"


def filled_by_views(client: Queries, names: Collection[TableName]) -> dict[TableName, dict[TableName, TableName]]:
    """Of each of the tables, by view.  What this user cannot see is left out."""
    fills: dict[TableName, dict[TableName, TableName]] = {}
    while asked := {*names, *(t for of in fills.values() for t in of.values())} - fills.keys():
        fills |= _direct(client, asked)
    return {name: _reached(fills, name) for name in names}


def dependents(client: Queries, tables: Collection[TableName]) -> dict[TableName, list[TableName]]:
    """The views behind each of the tables, also those that this user cannot see."""
    rows = query_tables(client, tables, "arrayZip(dependencies_database, dependencies_table)")
    found = {TableName(*at): [TableName(*view) for view in sorted(set(views))] for *at, views in rows}
    return {table: found.get(table, []) for table in tables}


def _direct(client: Queries, tables: Collection[TableName]) -> dict[TableName, dict[TableName, TableName]]:
    views = dependents(client, tables)
    behind = {view for of in views.values() for view in of}
    filled = {
        TableName(*at): filled_by(TableName(*at), str(ddl), str(uuid))
        for *at, ddl, uuid, engine in query_tables(client, behind, "create_table_query, toString(uuid), engine")
        if engine == "MaterializedView"
    }
    return {table: {v: filled[v] for v in views[table] if v in filled} for table in tables}


def query_tables(client: Queries, tables: Collection[TableName], what: str) -> Iterator[ResultRow]:
    """Database, name, and ``what`` of each of the tables that is there."""
    for group in in_groups(tables):
        yield from client.query(f"SELECT database, name, {what} FROM system.tables WHERE {named(group, 'name')}")


def filled_by(view: TableName, ddl: str, uuid: str) -> TableName:
    """The table that a view fills: the one of its TO, else its own inner table, which has the view's UUID in its name
    or, in a database without UUIDs, the view's name.
    """
    named_one = _TO.match(ddl)
    if named_one is not None:
        return parse_table(named_one[1]).within(view.database)
    return TableName(view.database, f".inner.{view.table}" if uuid == _NIL else f".inner_id.{uuid}")


def _reached(fills: dict[TableName, dict[TableName, TableName]], name: TableName) -> dict[TableName, TableName]:
    found: dict[TableName, TableName] = {}
    waiting = [name]
    while waiting:
        more = {view: to for view, to in fills[waiting.pop()].items() if view not in found}
        found |= more
        waiting += more.values()
    return {view: to for view, to in found.items() if to != name}
