"""Runs one call: opens its session, applies what came with it, gives the statement to the engine.

Blocking: called on a worker thread.  A SELECT in a format that consists of its blocks is fetched block by block, and
what goes beyond the buffer is streamed; any other result is complete before the first byte is sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chsink.embedded.clickhouse import codecs, native, system_tables
from chsink.embedded.clickhouse.blocks import decode_blocks
from chsink.embedded.clickhouse.call import Call, External
from chsink.embedded.clickhouse.engine import Block, Connection, Counts, Engine, Stream, identifier
from chsink.embedded.clickhouse.exceptions import ACCESS_DENIED, READONLY, UNKNOWN_TABLE, ClickHouseException, refused
from chsink.embedded.clickhouse.revision import RevisedStream, Schema
from chsink.embedded.clickhouse.sessions import Lease, Sessions, restore_later
from chsink.embedded.clickhouse.statement import Insert, Query, blockwise, first_words, refuse_second_statement, split

# A result is sent as it comes once it has filled the buffer or taken this long.
_BUFFER_S: Final = 0.1
# Enough for the head of any INSERT whose data follow in the same body.
_HEAD_BYTES: Final = 1 << 18
_EXTERNAL_BLOCK_ROWS: Final = 1 << 20


class Answer:
    """A statement's result: ``blocks``, then what ``rest`` still yields.  ``close`` must be called."""

    def __init__(self, lease: Lease, blocks: Sequence[bytes], counts: Counts, format_name: str | None) -> None:
        self.blocks = blocks
        self.counts = counts
        self.format = format_name
        self.rest: Stream | RevisedStream | None = None
        self._lease = lease

    def fetch(self) -> bytes:
        """The next block, empty at the end; raises ClickHouseException."""
        assert self.rest is not None, "only a streamed answer has more"
        block = self.rest.fetch()
        self.counts = self.counts.plus(block.counts)
        return block.data

    def close(self) -> None:
        """End the statement if it still runs and free the session."""
        rest, self.rest = self.rest, None
        try:
            if rest is not None:
                rest.cancel()
        finally:
            self._lease.release()


@dataclass(frozen=True, slots=True)
class _Task:
    """A statement ready for the engine: ``text`` without the data of an INSERT, which are ``data``."""

    kind: Insert | Query
    text: bytes
    data: Sequence[bytes]


class Runner:
    """Runs calls against one engine."""

    def __init__(self, engine: Engine) -> None:
        self.sessions = Sessions(engine)
        self._engine = engine

    def run(self, call: Call) -> Answer:
        """Run a call to its end, or until its buffer is full; raises ClickHouseException."""
        task = _task(call)
        if call.user.limited and (call.roles or _sets_role(task)):
            raise refused(ACCESS_DENIED, f"{call.user.name}: Not enough privileges to change the role")
        lease = self.sessions.lease(call.user, call.session)
        try:
            self._enter(lease, call, task)
            return self._run(lease, call, task)
        except BaseException:
            lease.release()
            raise

    def _enter(self, lease: Lease, call: Call, task: _Task) -> None:
        """Give the session the call's roles, database, settings and tables, in this order."""
        connection = lease.connection
        if lease.kept:
            self._note(lease, call, task)
        if call.roles:
            connection.run(f"SET ROLE {', '.join(identifier(role) for role in call.roles)}")
        if call.database:
            connection.run(f"USE {identifier(call.database)}")
        settings = dict(call.settings)
        if call.named and not lease.kept and not self._engine.readonly:
            settings.setdefault("log_comment", call.query_id)
        if call.read_only and not self._engine.readonly:
            settings.setdefault("readonly", "2")
        if lease.kept and settings.pop("readonly", "0") != "0" and not connection.changes_nothing(task.text):
            raise refused(READONLY, "Cannot execute query in readonly mode")
        readonly = settings.pop("readonly", None)
        connection.assign(settings)
        for table in call.external:
            _create(lease, table)
        if readonly is not None:
            # Last: it would refuse the tables, and any further setting.
            connection.assign({"readonly": readonly})

    def _note(self, lease: Lease, call: Call, task: _Task) -> None:
        """Have the session's settings and database restored later, but not those that the statement itself sets."""
        words = first_words(task.text[:_HEAD_BYTES].decode("latin-1"), 2)
        names = [name for name in call.settings if name != "readonly"]
        if words[:1] == ("SET",):
            names = [name for name in names if name.encode() not in task.text]
        restore_later(lease, names, database=bool(call.database) and words[:1] != ("USE",))
        if call.roles:
            lease.before_release(lease.connection.set_default_role)

    def _run(self, lease: Lease, call: Call, task: _Task) -> Answer:
        connection = lease.connection
        if isinstance(task.kind, Insert):
            changed = lease.kept or "max_insert_block_size" in call.settings
            block_rows = connection.insert_block_rows() if changed else self._engine.insert_block_rows
            counts = connection.insert(task.kind, task.data, call.params, block_rows)
            answer = Answer(lease, (), counts, None)
        else:
            format_name = task.kind.format or call.default_format
            revised = call.revision > 0 and format_name.lower() == "native"
            if task.kind.selects and blockwise(format_name) and b"array_of_rows" not in task.text:
                if revised:
                    return _streamed(lease, _revised(connection, call, task), call, format_name)
                if not call.whole:
                    return _streamed(lease, connection.stream(task.text, format_name, call.params), call, format_name)
            block = _complete(connection, call, task, format_name)
            data = native.revised(block.data, call.revision, ()) if revised else block.data
            answer = Answer(lease, (data,), block.counts, format_name if task.kind.answers else None)
        lease.release()
        return answer


def _sets_role(task: _Task) -> bool:
    words = first_words(task.text[:_HEAD_BYTES].decode("latin-1"))
    return words[:2] == ("SET", "ROLE") or words == ("SET", "DEFAULT", "ROLE")


def _create(lease: Lease, table: External) -> None:
    name = identifier(table.name)
    lease.connection.run(f"CREATE TEMPORARY TABLE {name} ({table.structure}) ENGINE = Memory")
    lease.before_release(lambda: _drop(lease, name))
    insert = Insert(f"INSERT INTO {name}".encode("utf-8", "surrogateescape").decode("latin-1"), "", table.format, 0)
    lease.connection.insert(insert, [table.data], {}, _EXTERNAL_BLOCK_ROWS)


def _drop(lease: Lease, name: str) -> None:
    if lease.kept:
        lease.connection.run(f"DROP TEMPORARY TABLE {name}")


def _task(call: Call) -> _Task:
    """Put the URL's query, a line break and the body together, as the server does, and cut an INSERT's data off."""
    pieces = codecs.decode(call.content_encoding, call.body)
    if call.sends_blocks:
        pieces = decode_blocks(pieces)
    if call.query:
        text = call.query + b"\n"
        kind = split(text.decode("latin-1"))
        if isinstance(kind, Insert):
            inline = text[kind.data_start :]
            return _fed(kind, text, [inline, *pieces] if inline.strip() else pieces)
        if not pieces:
            return _Task(kind, text, ())
        pieces = [text, *pieces]
    head = _head(pieces)
    kind = split(head.decode("latin-1"))
    if pieces and (isinstance(kind, Query) or kind.data_start >= len(head)):
        head, pieces = b"".join([head, *pieces]), []
        kind = split(head.decode("latin-1"))
    if isinstance(kind, Query):
        return _Task(kind, head, ())
    return _fed(kind, head, [head[kind.data_start :], *pieces])


def _fed(kind: Insert, text: bytes, data: list[bytes]) -> _Task:
    """An INSERT with its data; rows behind a semicolon, which the engine would leave out, are refused."""
    if kind.format == "Values" and (values := b"".join(data).rstrip()).find(b";") not in (-1, len(values) - 1):
        refuse_second_statement(values.decode("latin-1"))
    return _Task(kind, text, data)


def _head(pieces: list[bytes]) -> bytes:
    """Take the first pieces, joined, off the list."""
    taken: list[bytes] = []
    size = 0
    while pieces and size < _HEAD_BYTES:
        taken.append(pieces.pop(0))
        size += len(taken[-1])
    return b"".join(taken)


def _complete(connection: Connection, call: Call, task: _Task, format_name: str) -> Block:
    """A statement's whole result."""
    try:
        return connection.run(task.text, format_name, call.params)
    except ClickHouseException as error:
        instead = system_tables.show_create(task.text) if error.code == UNKNOWN_TABLE else None
        if instead is None:
            raise
        block = connection.run(instead, format_name)
        if not block.counts.result_rows:
            raise
        return block


def _revised(connection: Connection, call: Call, task: _Task) -> RevisedStream:
    """A SELECT in Native for the call's protocol revision."""
    assert isinstance(task.kind, Query), "an INSERT has no result"
    text, params = task.text, call.params
    inner = text[: task.kind.end]

    def describe() -> Schema:
        try:
            lines = connection.run(b"DESCRIBE (" + inner + b"\n)", "JSONCompactEachRow", params).data.splitlines()
        except ClickHouseException:
            return ()  # what the statement itself says about this is what counts
        return [(name, type_name) for name, type_name, *_ in map(json.loads, lines)]

    return RevisedStream(lambda: connection.stream(text, "Native", params), describe, call.revision)


def _streamed(lease: Lease, stream: Stream | RevisedStream, call: Call, format_name: str) -> Answer:
    blocks: list[bytes] = []
    counts = Counts()
    size = 0
    deadline = time.monotonic() + _BUFFER_S
    try:
        while call.whole or (size < call.buffer_bytes and time.monotonic() < deadline):
            block = stream.fetch()
            counts = counts.plus(block.counts)
            if not block.data:
                lease.release()
                return Answer(lease, blocks, counts, format_name)
            blocks.append(block.data)
            size += len(block.data)
    except BaseException:
        stream.cancel()
        raise
    answer = Answer(lease, blocks, counts, format_name)
    answer.rest = stream
    return answer
