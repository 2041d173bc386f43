"""Every right that the job's ClickHouse user needs, in one list, and the statements that grant them.

The list feeds ``chsink sql grants``, the checks of a start and of ``chsink doctor``, the GRANT statements in messages,
and the table in ``docs/deployment.md``.  Tests give a user exactly these rights and run every command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chsink.config import Config, Route
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import TableName, quote_identifier

SELECT, INSERT = "SELECT", "INSERT"
CREATE, ADD_COLUMNS = "CREATE TABLE", "ALTER ADD COLUMN"
PART: Final = "_part"
"""The virtual column with the name of a row's part."""


class Use(StrEnum):
    """What needs a right, in the words of the documentation."""

    RUN = "every job"
    PLAIN = "tables that are not replicated"
    REPLICATED = "`Replicated` tables"
    STATE = "state in a KeeperMap table"
    STATE_TABLE = "creating the state table (`state.create_table`)"
    CREATE = "`schema.auto_create`"
    ADD = '`schema.evolution = "add_columns"`'
    LETTERS = "dead letters in a table"
    DLQ = "`chsink dlq` and `chsink verify`, with dead letters in a table"
    VERIFY = "`chsink verify`"
    SHARDS = "checking `Distributed` tables (several shards)"
    VIEWS = "checking materialized views"


class On(StrEnum):
    """What a privilege is on, in the words of the documentation.  System tables and engines are named as they are."""

    TABLE = "each target table"
    LETTERS = "the table of dead letters"
    STATE = "the state table"
    NEW_ENGINE = "the engine of the new tables"
    VIEW = "each view of a target table, and the table that it fills"
    DISTRIBUTED = "each `Distributed` table"


@dataclass(frozen=True, slots=True)
class Right:
    """One privilege.  ``columns`` are those that it is for, all if there are none named.  Without an ``optional`` one
    the job runs all the same.
    """

    use: Use
    privilege: str
    on: str
    why: str
    columns: tuple[str, ...] = ()
    optional: bool = False


RIGHTS: Final = (
    Right(Use.RUN, INSERT, On.TABLE, "inserts the rows"),
    Right(Use.RUN, SELECT, On.TABLE, "looks for rows that may be there already", PROBE_COLUMNS),
    Right(
        Use.RUN, SELECT, On.TABLE, "reads only recent parts after a crash, not the whole table", (PART,), optional=True
    ),
    Right(Use.RUN, SELECT, "system.mutations", "sees whether a `DELETE` runs"),
    Right(Use.RUN, SELECT, "system.parts", "counts the blocks of a table"),
    Right(Use.RUN, SELECT, "system.processes", "sees whether an insert of an earlier driver runs"),
    Right(Use.RUN, SELECT, "system.replicas", "identifies a replicated table, and sees how far its replicas are"),
    Right(Use.PLAIN, SELECT, "system.merge_tree_settings", "reads the deduplication window"),
    Right(Use.REPLICATED, SELECT, "system.replicated_merge_tree_settings", "reads the deduplication window"),
    Right(Use.STATE, SELECT, On.STATE, "reads the state"),
    Right(Use.STATE, INSERT, On.STATE, "creates state rows"),
    Right(Use.STATE, "ALTER UPDATE", On.STATE, "changes state rows"),
    Right(Use.STATE_TABLE, CREATE, On.STATE, "creates the state table"),
    Right(Use.STATE_TABLE, "TABLE ENGINE", "KeeperMap", "uses its engine"),
    Right(Use.CREATE, CREATE, On.TABLE, "creates missing tables"),
    Right(Use.CREATE, "TABLE ENGINE", On.NEW_ENGINE, "uses their engine"),
    Right(Use.CREATE, "CLUSTER", "*.*", "runs its statements `ON CLUSTER` (`schema.cluster`)"),
    Right(Use.ADD, ADD_COLUMNS, On.TABLE, "adds columns"),
    Right(Use.ADD, "CLUSTER", "*.*", "runs its statements `ON CLUSTER` (`schema.cluster`)"),
    Right(Use.LETTERS, INSERT, On.LETTERS, "inserts dead letters"),
    Right(
        Use.LETTERS,
        SELECT,
        On.LETTERS,
        "looks for dead letters that may be there already",
        (*PROBE_COLUMNS, "sink", "table", "error_id"),
    ),
    Right(Use.DLQ, SELECT, On.LETTERS, "reads dead letters"),
    Right(Use.VERIFY, SELECT, On.TABLE, "compares all columns with Kafka"),
    Right(Use.SHARDS, SELECT, "system.clusters", "reads the shards' weights"),
    Right(Use.SHARDS, "SHOW TABLES", On.DISTRIBUTED, "reads the sharding expression"),
    Right(Use.VIEWS, "SHOW COLUMNS", On.VIEW, "sees what a view fills, and whether that table deduplicates"),
)
SYSTEM_TABLES: Final = tuple(right.on for right in RIGHTS if right.on.startswith("system.") and right.use != Use.SHARDS)
"""What chsink reads besides the system tables that ClickHouse shows to everybody."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A right of one job: the server by its URLs, and what the privilege is on there, as a statement names it."""

    right: Right
    urls: tuple[str, ...]
    on: str

    @property
    def privilege(self) -> str:
        """As a statement names it."""
        return _privilege(self.right.privilege, self.right.columns)


@dataclass(frozen=True, slots=True)
class Grants:
    """The statements for one use on the servers with these URLs; on all of them if it has none."""

    urls: tuple[str, ...]
    use: Use
    sql: tuple[str, ...]


def needed(config: Config, *uses: Use) -> Iterator[Needed]:
    """What the job needs for these uses, or for all that its job file asks for.  Views and ``Distributed`` tables are
    not named in a job file.
    """
    for right in RIGHTS:
        if not uses or right.use in uses:
            yield from (Needed(right, urls, on) for urls, on in dict.fromkeys(_places(config, right)))


def statement(config: Config, on: str, rights: Iterable[Right]) -> str:
    """The GRANT of these rights on one thing."""
    columns: dict[str, dict[str, None] | None] = {}
    for right in rights:
        known = columns.get(right.privilege, {})
        whole = known is None or not right.columns
        columns[right.privilege] = None if whole else {**(known or {}), **dict.fromkeys(right.columns)}
    listed = ", ".join(_privilege(name, tuple(of or ())) for name, of in columns.items())
    cluster = config.tables.cluster
    head = f"GRANT ON CLUSTER {quote_identifier(cluster)}" if cluster else "GRANT"
    return f"{head} {listed} ON {on} TO {quote_identifier(config.clickhouse.user)}"


def all_grants(config: Config) -> list[Grants]:
    """The statements for all that the job and the commands do, in the list's order.  A server has its own where shards
    differ; with ``schema.cluster``, one server runs them for all.
    """
    by_server: dict[tuple[str, ...], dict[Use, dict[str, list[Right]]]] = {}
    for one in needed(config):
        of_server = by_server.setdefault(() if config.tables.cluster else one.urls, {})
        of_server.setdefault(one.right.use, {}).setdefault(one.on, []).append(one.right)
    return [
        Grants(urls, use, tuple(statement(config, on, rights) for on, rights in of_use.items()))
        for urls, of_server in by_server.items()
        for use, of_use in of_server.items()
    ]


def to_change(config: Config, use: Use, table: TableName) -> list[Needed]:
    """What creating a table, or adding columns to it, needs on one server."""
    mine = (one for one in needed(config, use) if one.right.on != On.TABLE)
    of_table = (Needed(right, (), str(table)) for right in RIGHTS if right.use == use and right.on == On.TABLE)
    return [*of_table, *dict.fromkeys(Needed(one.right, (), one.on) for one in mine)]


def change_statements(config: Config, use: Use, table: TableName) -> str:
    """The same as statements, for a message."""
    return "; ".join(statement(config, one.on, [one.right]) for one in to_change(config, use, table))


def rights_on(on: On, *uses: Use) -> list[Right]:
    """Those of the list."""
    return [right for right in RIGHTS if right.on == on and right.use in uses]


def page_table() -> Iterator[str]:
    """The rows of the documentation."""
    yield "| for | privilege | on | because chsink |"
    yield "| --- | --- | --- | --- |"
    for right in RIGHTS:
        columns = ", ".join(f"`{name}`" for name in right.columns)
        privilege = f"`{right.privilege}`" + (f" of {columns}" if columns else "")
        on = right.on if isinstance(right.on, On) else f"`{right.on}`"
        why = right.why + (" (optional)" if right.optional else "")
        yield f"| {right.use} | {privilege} | {on} | {why} |"


def _privilege(name: str, columns: Sequence[str]) -> str:
    return f"{name}({', '.join(map(quote_identifier, columns))})" if columns else name


def _places(config: Config, right: Right) -> Iterator[tuple[tuple[str, ...], str]]:
    """(URLs of a server, what the privilege is on there)."""
    servers = [endpoint.urls for endpoint in config.clickhouse.endpoints]
    if right.use in (Use.STATE, Use.STATE_TABLE):
        yield from _of_state(config, right)
    elif right.on == On.TABLE:
        for route in config.routes:
            if _wants(config, right.use, route):
                yield from zip(servers, map(str, tables_of(config, route)), strict=True)
    elif right.on == On.LETTERS:
        if config.dead_letters_table is not None:
            yield servers[0], str(config.dead_letters_table)
    elif right.on == On.NEW_ENGINE:
        if any(map(config.creates, config.routes)):
            yield from ((urls, config.engine_of_new) for urls in servers)
    elif not isinstance(right.on, On) and _asks_for(config, right):
        yield from ((urls, right.on) for urls in servers)


def _of_state(config: Config, right: Right) -> Iterator[tuple[tuple[str, ...], str]]:
    state = config.state
    if state.store != "keepermap" or (right.use == Use.STATE_TABLE and not state.create_table):
        return
    urls = (state.url,) if state.url else config.clickhouse.endpoints[0].urls
    urls = next((e.urls for e in config.clickhouse.endpoints if set(urls) <= set(e.urls)), urls)
    yield urls, str(state.table_name(config.clickhouse.database)) if right.on == On.STATE else right.on


def _asks_for(config: Config, right: Right) -> bool:
    if right.use == Use.SHARDS:
        return len(config.clickhouse.endpoints) > 1
    if right.privilege == "CLUSTER":
        return bool(config.tables.cluster) and any(_wants(config, right.use, route) for route in config.routes)
    return True


def _wants(config: Config, use: Use, route: Route) -> bool:
    if use == Use.CREATE:
        return config.creates(route)
    return use != Use.ADD or config.adds_columns(route)


def tables_of(config: Config, route: Route) -> list[TableName]:
    """The route's table on each endpoint."""
    name = config.table_of(route)
    return [TableName(own or name.database, name.table) for own in config.databases_of(route)]
