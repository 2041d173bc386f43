"""The reader of Avro and Protobuf: binary messages of one type, or with a schema id that determines each one's type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

import pyarrow as pa

from chsink.decode.binary import Positions
from chsink.decode.blocks import Collected, Rows
from chsink.decode.fields import Field
from chsink.decode.messages import Message, MessageDecoder
from chsink.errors import preflight
from chsink.fields import NamedFile
from chsink.formats.raw_and_string import as_binary
from chsink.formats.with_schema import Parsed, Schemas, live_rows
from chsink.ports import BadValue, Decoded

Typed = tuple[Message, pa.Array, Rows, int | Positions]
"""A message type, values of this type, their rows, and the offset of the message in each value (bytes)."""


class MessageReader(Generic[Parsed]):
    """:class:`chsink.formats.format_reader.FormatReader` of messages of the type ``only``.

    If ``only`` is None, each value names a schema in ``schemas``; ``typed`` groups a schema's values by message type.
    """

    record_fields = ("value",)

    def __init__(
        self,
        fields: Sequence[Field],
        only: Message | None,
        schemas: Schemas[Parsed],
        typed: Callable[[Parsed, pa.Array, Rows, list[BadValue]], Iterator[Typed]],
    ) -> None:
        self._decoder = MessageDecoder(fields)
        self._only = only
        self._schemas = schemas
        self._typed = typed

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        run = Collected(records.num_rows)
        for message, some, theirs, skip in self.messages(as_binary(records.column("value")), run.bad):
            self._decoder.decode(run, message, some, theirs, skip)
        return self._decoder.finish(run)

    def messages(self, values: pa.Array, bad: list[BadValue]) -> Iterator[Typed]:
        """The values grouped by message type.  Values without a usable type are added to ``bad``."""
        values, rows = live_rows(values, bad)
        if self._only is not None:
            yield self._only, values, rows, 0
            return
        for schema, some, theirs in self._schemas.split(values, rows, bad):
            yield from self._typed(schema, some, theirs, bad)


def type_in(file: NamedFile | None, parse: Callable[[bytes], Message]) -> Message | None:
    """The message type that ``parse`` returns for the schema file; None without a file.

    Raises PreflightError CHS-277 if ``parse`` raises ValueError.
    """
    if file is None:
        return None
    try:
        return parse(file.content)
    except ValueError as error:
        raise preflight.SCHEMA_FILE_WRONG(path=file.path, reason=error) from None
