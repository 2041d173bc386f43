"""A running SELECT whose Native blocks are revised for a client with a protocol revision (see ``native``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from chsink.embedded.clickhouse import native
from chsink.embedded.clickhouse.engine import Block, Stream
from chsink.embedded.clickhouse.exceptions import NOT_IMPLEMENTED, refused

Schema = Sequence[tuple[str, str]]


class RevisedStream:
    """Like the :class:`Stream` that ``start`` returns.

    The result's schema is asked for only where its first block needs it.  A connection cannot answer that while it
    streams, so the stream is then started once more.
    """

    def __init__(self, start: Callable[[], Stream], describe: Callable[[], Schema], revision: int) -> None:
        self._revision = revision
        self._schema: Schema | None = None
        self._stream = start()
        self._first: Block | None = None
        try:
            self._first = self._stream.fetch()
            self._revised(self._first)
        except native.SchemaNeededError:
            self._stream.cancel()
            self._schema = describe()
            self._stream, self._first = start(), None
        except BaseException:
            self._stream.cancel()
            raise

    def fetch(self) -> Block:
        """The next block; raises ClickHouseException when the statement fails on the way."""
        block, self._first = self._first or self._stream.fetch(), None
        try:
            return self._revised(block)
        except native.SchemaNeededError:
            raise refused(NOT_IMPLEMENTED, "client_protocol_version is not supported for these types") from None

    def cancel(self) -> None:
        """End the statement; nothing to do when it ended."""
        self._stream.cancel()

    def _revised(self, block: Block) -> Block:
        return replace(block, data=native.revised(block.data, self._revision, self._schema))
