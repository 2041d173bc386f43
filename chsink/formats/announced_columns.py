"""A range in doubt is sent again with the columns it was announced with, even if columns were added to the table since.

The recorded fingerprint holds a digest of the columns, not their list.  To find the announced columns, drop the last
column again and again until the digest matches.  An insert of these columns equals the announced one: the added columns
take their defaults, as in rows that landed before ``ADD COLUMN``.  Columns for Kafka's own fields are never dropped:
rows that landed before lack these values, so a probe would not find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chsink.decode.columns import Column
from chsink.formats.columns import ColumnRecords
from chsink.formats.metadata import COLUMNS, Columns
from chsink.formats.pipeline import digest_of, part_of
from chsink.formats.records import Records
from chsink.formats.table_by_decoder import ChosenRecords
from chsink.ports import Decoder


def as_announced(decoder: Decoder, recorded: str) -> Decoder:
    """The decoder limited to the columns of the fingerprint ``recorded``; unchanged if no prefix of them matches."""
    if isinstance(decoder, ChosenRecords):
        return replace(decoder, decoder=as_announced(decoder.decoder, recorded))
    if not isinstance(decoder, Records | ColumnRecords):
        return decoder
    columns = _announced(decoder.table, part_of(recorded, COLUMNS))
    return decoder if columns is None else replace(decoder, table=columns)


def reads_format(decoder: Decoder) -> bool:
    """Whether the decoder reads Kafka's records in a format, not the columns of a transform."""
    return isinstance(decoder.decoder if isinstance(decoder, ChosenRecords) else decoder, Records)


def with_columns(decoder: Decoder, columns: Sequence[Column]) -> Decoder:
    """The decoder with more columns appended.  It must be one that :func:`reads_format`."""
    if not columns:
        return decoder
    if isinstance(decoder, ChosenRecords):
        return replace(decoder, decoder=with_columns(decoder.decoder, columns))
    assert isinstance(decoder, Records), decoder
    table = decoder.table
    return replace(decoder, table=replace(table, payload=(*table.payload, *columns)))


def _announced(present: Columns, wanted: str) -> Columns | None:
    """A shorter prefix of the payload columns with the digest ``wanted``; None if all columns have it, or none has."""
    if digest_of(present.part()[1]) == wanted:
        return None
    for size in range(len(present.payload) - 1, 0, -1):
        columns = replace(present, payload=present.payload[:size])
        if digest_of(columns.part()[1]) == wanted:
            return columns
    return None
