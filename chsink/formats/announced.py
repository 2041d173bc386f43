"""A range in doubt is sent again with the columns it was announced with, also where its table has gained some since.

The recorded fingerprint holds a digest of the columns, not their list.  Columns that ``ADD COLUMN`` put behind the
others can be left out again until the digest fits: then an insert of the earlier columns is the announced one, and the
new columns take their defaults, as they do in rows that landed before they were added.  Columns for Kafka's own fields
are never left out: rows that landed before have none of their values, so a probe would not find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chsink.decode.columns import Column
from chsink.formats.chosen import ChosenRecords
from chsink.formats.columns import ColumnRecords
from chsink.formats.metadata import COLUMNS, Columns
from chsink.formats.pipeline import digest_of, part_of
from chsink.formats.records import Records
from chsink.ports import Decoder


def as_announced(decoder: Decoder, recorded: str) -> Decoder:
    """The decoder for the columns that ``recorded``, a fingerprint, was made for; unchanged where these cannot be found
    among the present ones.
    """
    if isinstance(decoder, ChosenRecords):
        return replace(decoder, decoder=as_announced(decoder.decoder, recorded))
    if not isinstance(decoder, Records | ColumnRecords):
        return decoder
    columns = _announced(decoder.table, part_of(recorded, COLUMNS))
    return decoder if columns is None else replace(decoder, table=columns)


def reads_format(decoder: Decoder) -> bool:
    """Whether records are read by their format, not by the columns of a transform."""
    return isinstance(decoder.decoder if isinstance(decoder, ChosenRecords) else decoder, Records)


def with_columns(decoder: Decoder, columns: Sequence[Column]) -> Decoder:
    """The decoder of records in a format with further columns behind its own."""
    if not columns:
        return decoder
    if isinstance(decoder, ChosenRecords):
        return replace(decoder, decoder=with_columns(decoder.decoder, columns))
    assert isinstance(decoder, Records), decoder
    table = decoder.table
    return replace(decoder, table=replace(table, payload=(*table.payload, *columns)))


def _announced(present: Columns, wanted: str) -> Columns | None:
    """The present columns without the last ones, at least one; None where no number of them leads to the digest."""
    if digest_of(present.part()[1]) == wanted:
        return None
    for size in range(len(present.payload) - 1, 0, -1):
        columns = replace(present, payload=present.payload[:size])
        if digest_of(columns.part()[1]) == wanted:
            return columns
    return None
