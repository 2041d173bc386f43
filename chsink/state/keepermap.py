"""State in a ClickHouse table of the engine KeeperMap: one guarded statement per compare-and-set.

Rules (measured; docs/adr/0002-keepermap-statements.md has the experiments):
- In strict mode an INSERT creates or fails as a whole, and an ``ALTER … UPDATE`` is one Keeper transaction that checks
  the version of every row it read.
- An UPDATE is not all-or-nothing in what it *matches*.  So it selects by key alone, and the expression of each row is
  guarded: a row with another attempt throws, and so does every row when one of the keys is missing.
- The server's own retries towards the Keeper are off: retrying a transaction that was applied reports a conflict.
- The server's response proves nothing: an UPDATE of keys that are all missing reports success, and one that was sent
  twice reports a conflict.  A write is applied when every key was read back with our attempt.
- A late or repeated copy of a write can match nothing: its expected attempts are gone.
- A read may come from a Keeper follower that lags behind.  The Keeper's leader checks every write, so acting on an old
  row is refused, never silently wrong.  A follower passes on the leader's answer only when it knows what came before:
  once it has refused to create a row that is there, it has caught up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

from chsink.errors import preflight
from chsink.fields import GivenTable, NodePath, Url
from chsink.findings import grant_of, server_sentence
from chsink.notation import codes
from chsink.notation.sql import TableName, parse_table, quote_identifier, quote_string, quote_strings
from chsink.ports import ResultRow, ServerRefused, SqlClient, StoredRow, StoreUnavailable, Swap, Unanswered
from chsink.state import sql_files
from chsink.state.groups import utf8, write_in_groups
from chsink.state.settings import ClickHouseAccess, StoreSettings

_EXISTS: Final = "(Node exists)"
"""What the Keeper says of a row that is there already."""
_RETRIED: Final = MappingProxyType({"insert_keeper_max_retries": 3, "keeper_max_retries": 3})


class KeeperMap(StoreSettings):
    """State in a ClickHouse table of the engine KeeperMap. This is the default."""

    store: Literal["keepermap"] = "keepermap"
    """Which store."""
    table: GivenTable = "chsink_state"
    """Name of the table; its database is `clickhouse.database` by default."""
    path: NodePath = "/chsink/state"
    """Path of the table's data in the Keeper."""
    url: Url | None = None
    """URL of the ClickHouse server that serves the table. Default: the first shard."""
    create_table: bool = True
    """Whether to create the table if it does not exist."""

    def table_name(self, database: str) -> TableName:
        """The table, in ``database`` unless it names one."""
        return parse_table(self.table).within(database)

    def open(self, clickhouse: ClickHouseAccess, /) -> KeeperMapStore:
        """The store on a client of its own."""
        client, table = clickhouse.connect(self.url), self.table_name(clickhouse.database)
        return KeeperMapStore(client, table, path=self.path, create=self.create_table, timeout_s=self.timeout_s)


class KeeperMapStore:
    """:class:`chsink.ports.StateStore` in the table ``database.name``, which lives at ``path`` in the Keeper.

    ``create`` lets :meth:`prepare` make the table.  ``timeout_s`` bounds a statement on the server; the client bounds
    the wait for its answer.  Threads may share it.
    """

    name = "keepermap"
    durable = True

    def __init__(
        self, client: SqlClient, table: TableName, *, path: str, create: bool = True, timeout_s: float = 30
    ) -> None:
        assert table.database, "a state table is named with its database"
        self.client = client
        self.table = table
        self._path = path
        self._create_missing = create
        execution_s = max(1, round(timeout_s))
        self._reading = f"SETTINGS keeper_max_retries = 3, max_execution_time = {execution_s}"
        self._pinned: Mapping[str, Any] = {
            "keeper_map_strict_mode": 1,
            "insert_keeper_max_retries": 0,
            "keeper_max_retries": 0,
            "max_execution_time": execution_s,
            "async_insert": 0,
            "max_insert_threads": 1,
            "mutations_sync": 1,
            "short_circuit_function_evaluation": "enable",
            "max_query_size": 4 * 1024 * 1024,
            "max_ast_elements": 1_000_000,
            "max_expanded_ast_elements": 1_000_000,
        }

    def prepare(self) -> None:
        """Create the table if it is missing."""
        try:
            self.client.query(f"SELECT key FROM {self.table} LIMIT 1 {self._reading}")
        except ServerRefused as error:
            if error.code not in codes.REFUSED:
                raise StoreUnavailable(str(error)) from error
            if error.code not in (codes.UNKNOWN_TABLE, codes.UNKNOWN_DATABASE):
                raise self._unusable("read", error) from error
            if not self._create_missing:
                raise self._unusable("find", error) from error
            self._create_table()
        except Unanswered as error:
            raise StoreUnavailable(str(error)) from error

    def load(self, sink: str) -> dict[str, StoredRow]:
        """All rows of the sink."""
        mine = f"key = {quote_string(sink)} OR startsWith(key, {quote_string(sink + '/')})"
        rows = self._read(f"SELECT key, attempt, body FROM {self.table} WHERE {mine}")
        return {key: StoredRow(key, attempt, body) for key, attempt, body in rows}

    def catch_up(self, row: StoredRow) -> None:
        """Try to create the row again.  Nothing is wrong with a retry: the answer is the same."""
        try:
            self.client.command(self._insert([row]), {**self._pinned, **_RETRIED})
        except ServerRefused as error:
            if _EXISTS not in error.message:
                raise self._not_answered("write to", error) from error
        except Unanswered as error:
            raise StoreUnavailable(str(error)) from error

    def create(self, rows: Sequence[StoredRow]) -> bool:
        """Create rows that must not exist."""
        assert len({r.key for r in rows}) == len(rows), "keys are unique"
        return write_in_groups(rows, _row_bytes, self._create)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Compare-and-set of all rows."""
        assert len({s.row.key for s in swaps}) == len(swaps), "keys are unique"
        return write_in_groups(swaps, _swap_bytes, self._swap)

    def close(self) -> None:
        """Nothing to release: the client belongs to the caller."""

    # --- one statement --------------------------------------------------------------------------------------------

    def _create(self, rows: Sequence[StoredRow]) -> bool:
        return self._write(self._insert(rows), rows)

    def _insert(self, rows: Sequence[StoredRow]) -> str:
        made = ",".join(f"({quote_strings([r.key, r.attempt, r.body])})" for r in rows)
        return (
            f"INSERT INTO {self.table} (key, attempt, body) "
            f"SELECT made.1, made.2, made.3 FROM (SELECT arrayJoin([{made}]) AS made)"
        )

    def _swap(self, swaps: Sequence[Swap]) -> bool:
        keys = quote_strings([s.row.key for s in swaps])
        all_there = f"(SELECT count() FROM {self.table} WHERE key IN ({keys})) = {len(swaps)}"
        unchanged = f"attempt = {_by_key(keys, [s.expected for s in swaps])}"
        attempt = _by_key(keys, [s.row.attempt for s in swaps])
        sql = (
            f"ALTER TABLE {self.table} UPDATE "
            f"attempt = if({all_there} AND {unchanged}, {attempt}, toString(throwIf(1, 'fenced'))), "
            f"body = {_by_key(keys, [s.row.body for s in swaps])} "
            f"WHERE key IN ({keys})"
        )
        return self._write(sql, [s.row for s in swaps])

    def _write(self, sql: str, rows: Sequence[StoredRow]) -> bool:
        """Send the statement once.  Returns whether all of its rows are now stored, whatever the server answered."""
        try:
            self.client.command(sql, self._pinned)
        except ServerRefused as error:
            if error.code == codes.ACCESS_DENIED:  # no copy of it can be applied
                raise self._unusable("write to", error) from error
        except Unanswered:
            pass
        try:
            stored = self._attempts([r.key for r in rows])
        except StoreUnavailable:
            return False
        return all(stored.get(r.key) == r.attempt for r in rows)

    def _attempts(self, keys: Sequence[str]) -> dict[str, str]:
        listed = quote_strings(list(keys))
        return dict(self._read(f"SELECT key, attempt FROM {self.table} WHERE key IN ({listed})"))

    def _read(self, sql: str) -> list[ResultRow]:
        try:
            return self.client.query(f"{sql} {self._reading}")
        except ServerRefused as error:
            raise self._not_answered("read", error) from error
        except Unanswered as error:
            raise StoreUnavailable(str(error)) from error

    def _not_answered(self, action: str, error: ServerRefused) -> Exception:
        if error.code == codes.ACCESS_DENIED:
            return self._unusable(action, error)
        return StoreUnavailable(f"code {error.code}, {server_sentence(error)}")

    # --- the table ------------------------------------------------------------------------------------------------

    def _create_table(self) -> None:
        names = {
            "database": quote_identifier(self.table.database),
            "table": quote_identifier(self.table.table),
            "path": quote_string(self._path)[1:-1],
        }
        try:
            for statement in sql_files.statements(sql_files.TABLE, names):
                self.client.command(statement)
        except ServerRefused as error:
            raise self._unusable("create", error) from error
        except Unanswered as error:
            raise StoreUnavailable(str(error)) from error

    def _unusable(self, action: str, error: ServerRefused) -> Exception:
        reason, url = server_sentence(error), self.client.url
        if error.code == codes.KEEPER_EXCEPTION:
            return StoreUnavailable(error.message)
        if error.code in codes.AUTH:
            return preflight.STATE_LOGIN_REFUSED(url=url, reason=reason)
        if error.code == codes.UNKNOWN_DATABASE:
            database = quote_identifier(self.table.database)
            return preflight.STATE_DATABASE_MISSING(
                action=action, table=self.table, url=url, reason=reason, database=database
            )
        if error.code == codes.ACCESS_DENIED:
            return preflight.STATE_TABLE_FORBIDDEN(
                action=action, table=self.table, url=url, reason=reason, grant=grant_of(error)
            )
        missing = error.code == codes.UNKNOWN_TABLE
        unusable = preflight.STATE_TABLE_MISSING if missing else preflight.STATE_TABLE_UNUSABLE
        return unusable(action=action, table=self.table, url=url, reason=reason)


def _by_key(keys: str, values: list[str]) -> str:
    """An SQL expression for the value of the row's key; the plain value if all are equal."""
    if len(set(values)) == 1:
        return quote_string(values[0])
    return f"transform(key, [{keys}], [{quote_strings(values)}], '')"


def _row_bytes(row: StoredRow) -> int:
    """Bytes of a row in the Keeper's transaction, its path in base64."""
    return 2 * utf8(row.key) + utf8(row.attempt) + utf8(row.body) + 100


def _swap_bytes(swap: Swap) -> int:
    """Bytes of a swap in the statement, which contains its key four times.  More than in the transaction."""
    return 4 * len(quote_string(swap.row.key)) + utf8(quote_string(swap.row.body)) + utf8(swap.expected) + 100
