"""The engine in this process: connections, each with its own session, as the server has one for each request.

Facts this rests on (measured with the pinned chdb):

- A connection is a session: settings, current database, temporary tables, parameters.  Opening one costs 0.15 ms, so a
  request without a session id gets a fresh one, and nothing leaks from one request into the next.
- Connections run at the same time, on threads that do not hold Python's lock.  One connection runs one statement at a
  time; while a result is being fetched block by block it must not be used for anything else.
- An INSERT fed by the client is given its data as ``FROM INFILE`` a pipe (see ``feed``).  Parsing, squashing,
  deduplication, views and limits are the engine's.  Two things differ from a server and are made the same: the parser's
  block size is ``max_block_size`` there, so it is given the statement's ``max_insert_block_size``; and an error's text
  names the pipe, which is cut out.  There is no asynchronous insert: ``async_insert = 1`` inserts at once.
- Every session is the user ``default``; see ``users`` for how other users are distinguished.
- The engine lives as long as any connection: ``Engine`` holds one open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from chsink.embedded.clickhouse.exceptions import from_engine
from chsink.embedded.clickhouse.feed import piped
from chsink.embedded.clickhouse.statement import Insert

_BLOCK_ROWS: Final = re.compile(r"\bmax_insert_block_size\s*=\s*'?(\d+)")


@dataclass(frozen=True, slots=True)
class Counts:
    """What the engine counted for a statement: rows, bytes, nanoseconds."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    elapsed_ns: int = 0

    def plus(self, block: Self) -> Self:
        """The sum over two parts of one result."""
        return replace(
            self,
            read_rows=self.read_rows + block.read_rows,
            read_bytes=self.read_bytes + block.read_bytes,
            written_rows=self.written_rows + block.written_rows,
            written_bytes=self.written_bytes + block.written_bytes,
            result_rows=self.result_rows + block.result_rows,
            result_bytes=self.result_bytes + block.result_bytes,
            elapsed_ns=self.elapsed_ns + block.elapsed_ns,
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A formatted result, or one block of it."""

    data: bytes
    counts: Counts


class Stream:
    """A running SELECT whose formatted blocks are fetched one by one; ends with an empty block."""

    def __init__(self, connection: Any, handle: Any) -> None:
        self._connection = connection
        self._handle = handle

    def fetch(self) -> Block:
        """The next block; raises ClickHouseException when the statement fails on the way."""
        try:
            return _block(self._connection.streaming_fetch_result(self._handle))
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def cancel(self) -> None:
        """End the statement; nothing to do when it ended."""
        self._connection.streaming_cancel_query(self._handle)


class Connection:
    """One engine session.  Not for two threads at once."""

    def __init__(self, raw: Any, pipes: Path) -> None:
        self._raw = raw
        self._pipes = pipes

    def run(
        self, statement: bytes | str, format_name: str = "TabSeparated", params: Mapping[str, str] | None = None
    ) -> Block:
        """Run a statement to its end; raises ClickHouseException."""
        try:
            return _block(self._raw.query(statement, format_name, params=dict(params or {})))
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def stream(self, statement: bytes, format_name: str, params: Mapping[str, str]) -> Stream:
        """Start a SELECT; raises ClickHouseException when it cannot start."""
        try:
            return Stream(self._raw, self._raw.send_query(statement, format_name, params=dict(params)))
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def insert(self, insert: Insert, pieces: Sequence[bytes], params: Mapping[str, str], block_rows: int) -> Counts:
        """Run an INSERT with its data; raises ClickHouseException, after which earlier blocks may be in the table.

        ``block_rows`` is the parser's block size where the statement names none.
        """
        named = _BLOCK_ROWS.search(insert.settings)
        # A line break ends what may be a comment.
        settings = f"{insert.settings}\n, " if insert.settings else ""
        with piped(self._pipes, pieces) as pipe:
            statement = (
                f"{insert.head}\nFROM INFILE {literal(str(pipe))} COMPRESSION 'none' "
                f"SETTINGS {settings}max_block_size = {named[1] if named else block_rows} FORMAT {insert.format}"
            )
            counts = self.run(statement.encode("latin-1"), "Null", params).counts
        # The rows were read by the client's side of the engine.
        return replace(counts, read_rows=counts.result_rows, read_bytes=counts.result_bytes)

    def assign(self, settings: Mapping[str, str]) -> None:
        """``SET`` for the rest of the session, all or none; raises ClickHouseException."""
        if settings:
            self.run("SET " + ", ".join(f"{name} = {literal(value)}" for name, value in settings.items()))

    def reset(self, names: Iterable[str]) -> None:
        """Give settings their profile's values back."""
        for name in names:
            self.run(f"SET {name} = DEFAULT")

    def insert_block_rows(self) -> int:
        """The session's ``max_insert_block_size``."""
        return int(self.run("SELECT getSetting('max_insert_block_size')").data)

    def set_default_role(self) -> None:
        """Undo ``SET ROLE``."""
        self.run("SET ROLE DEFAULT")

    def changes_nothing(self, statement: bytes) -> bool:
        """Whether the engine's parser takes the statement for one that only reads."""
        return str(self._raw.classify_query(statement)["query_class"].name) == "READ_ONLY"

    def close(self) -> None:
        self._raw.close()


class Engine:
    """The engine of this process: its folder, its configuration file, and an empty folder for pipes."""

    def __init__(self, data: Path, config: Path, pipes: Path) -> None:
        from chdb import _chdb  # it starts threads, which must be confined already

        # Signals are the front's business: it stops the engine in order.
        driver: Any = _chdb
        driver.set_signal_handlers_enabled(0)
        self._connect = driver.connect
        self._pipes = pipes
        self._source = f"{data}?config-file={config}"
        self._alive = self.open()
        answer = self._alive.run("SELECT version(), timezone(), getSetting('readonly')").data.decode()
        self.version, self.timezone, readonly = answer.rstrip("\n").split("\t")
        self.readonly = int(readonly)
        self.insert_block_rows = self._alive.insert_block_rows()

    def open(self) -> Connection:
        """A new session."""
        try:
            return Connection(self._connect(self._source), self._pipes)
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def kill_all(self) -> None:
        """Ask every running statement to end."""
        self._alive.run("KILL QUERY WHERE 1 ASYNC")

    def close(self) -> None:
        """Shut the engine down; every other connection must be closed."""
        self._alive.close()


def literal(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def identifier(name: str) -> str:
    """A quoted SQL identifier."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _block(result: Any) -> Block:
    data: bytes = result.bytes()
    counts = Counts(
        read_rows=result.storage_rows_read(),
        read_bytes=result.storage_bytes_read(),
        written_rows=result.rows_written(),
        written_bytes=result.bytes_written(),
        result_rows=result.rows_read(),
        result_bytes=result.bytes_read(),
        elapsed_ns=int(result.elapsed() * 1e9),
    )
    return Block(data, counts)
