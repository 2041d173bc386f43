"""Chooses a stream's decoder: by the route's format if the stream has Kafka's value, else by the stream's columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chsink.decode.columns import Column
from chsink.errors import preflight
from chsink.formats.column_checks import check_filled
from chsink.formats.columns import ColumnRecords
from chsink.formats.deletes import Deletes
from chsink.formats.metadata import Columns
from chsink.formats.records import Records
from chsink.formats.settings import FormatSettings, KeyColumns
from chsink.formats.table_by import Choice
from chsink.formats.table_by_decoder import ChosenRecords
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import Decoder, StreamShape

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PASSED_THROUGH = frozenset(KAFKA_COLUMNS) - {"value"}


def reads_value(columns: Sequence[Column], stream: StreamShape) -> bool:
    """Whether the route's format decodes Kafka's ``value``, because the stream still has it.

    If the table also has a column ``value``, this holds only for a stream with exactly the columns of Kafka's source:
    ``value`` may otherwise be a column that a transform made.
    """
    names, given = {c.name for c in columns}, set(stream.columns)
    all_of_kafkas = given | {"headers"} == set(KAFKA_COLUMNS)
    return "value" in given and (all_of_kafkas or "value" not in names)


def decoder_of(
    name: str,
    columns: Sequence[Column],
    timezone: str,
    stream: StreamShape,
    value_format: FormatSettings,
    *,
    keys: KeyColumns | None = None,
    choice: Choice | None = None,
    elsewhere: Collection[str] = (),
    deletes: Deletes | None = None,
) -> Decoder:
    """The decoder from the stream to the insertable ``columns`` of the table ``name``.

    ``choice`` selects the topic's records that go to this table; None for all.  ``elsewhere`` names the columns of the
    other routed tables: a stream's column that only these have is ignored.  ``deletes``: if set, a record without a
    value deletes its key.
    Raises PreflightError CHS-212 or CHS-213 if the columns of the stream, or those that the format fills, do not match
    the table's; ConfigError CHS-5xx for a table that cannot be written.
    """
    if choice is None:
        return _whole(name, columns, timezone, stream, value_format, keys, elsewhere, deletes)
    if choice.reads not in stream.columns and (stream.transform or choice.source != "column"):
        raise preflight.STREAM_WITHOUT_CHOICE(table=name, column=choice.reads, choice=choice.words)
    return ChosenRecords(choice, _whole(name, columns, timezone, stream, value_format, keys, elsewhere, deletes))


def _whole(  # noqa: PLR0917 - as above
    name: str,
    columns: Sequence[Column],
    timezone: str,
    stream: StreamShape,
    value_format: FormatSettings,
    keys: KeyColumns | None,
    elsewhere: Collection[str],
    deletes: Deletes | None,
) -> Decoder:
    """:func:`decoder_of` without a choice: the decoder of all records of the topic."""
    metadata = tuple(c for c in columns if c.name in METADATA_COLUMNS)
    payload = tuple(c for c in columns if c.name not in METADATA_COLUMNS)
    if reads_value(columns, stream):
        marks = () if deletes is None else (deletes.column,)
        check_filled(name, {c.name: _is_required(c) for c in payload if c.name not in marks}, value_format, keys)
        records = Records(value_format, Columns(payload, metadata, timezone), keys, deletes)
        if "key" in records.record_fields and "key" not in stream.columns:
            raise preflight.STREAM_WITHOUT_KEY(table=name)
        return records
    if deletes is not None:
        raise preflight.DELETES_UNKNOWN(
            table=name, problem="the stream no longer has the column value, which says whether a record is a tombstone"
        )
    _check_columns(name, columns, stream.columns, elsewhere)
    given = tuple(c for c in payload if c.name in stream.columns)
    return ColumnRecords(Columns(given, metadata, timezone))


def _is_required(column: Column) -> bool:
    return not column.default_kind and "Nullable(" not in column.type


def _check_columns(name: str, columns: Sequence[Column], given: tuple[str, ...], elsewhere: Collection[str]) -> None:
    known = PASSED_THROUGH.union((c.name for c in columns), elsewhere)
    unknown = [c for c in given if c not in known]
    if unknown:
        raise preflight.COLUMN_UNKNOWN(table=name, columns=", ".join(unknown))
    required = [c.name for c in columns if c.name not in given and c.name not in METADATA_COLUMNS and _is_required(c)]
    if required:
        raise preflight.COLUMN_REQUIRED(table=name, columns=", ".join(required))
