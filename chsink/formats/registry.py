"""The formats of Kafka's value, by the name that ``[[route]] format`` uses, and the choice of a stream's decoder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from chsink.decode.columns import Column
from chsink.errors import preflight
from chsink.formats.columns import ColumnRecords
from chsink.formats.json import JsonRecords
from chsink.formats.metadata import Columns
from chsink.notation.metadata_columns import METADATA_COLUMNS
from chsink.ports import Decoder, StreamShape

DECODERS: Mapping[str, Callable[[Columns], Decoder]] = MappingProxyType({"json": JsonRecords})
"""Formats of the record's value.  A stream that a transform made of it needs none: its columns are the table's."""

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PASSED_THROUGH = frozenset(KAFKA_COLUMNS) - {"value"}


def reads_value(columns: Sequence[Column], stream: StreamShape) -> bool:
    """Whether the stream still has Kafka's ``value``, which the route's format then reads.

    To a table that has a ``value`` too, a stream of all of Kafka's columns and no others is one of records.
    """
    names, given = {c.name for c in columns}, set(stream.columns)
    all_of_kafkas = given | {"headers"} == set(KAFKA_COLUMNS)
    return "value" in given and (all_of_kafkas or "value" not in names)


def decoder_of(
    name: str,
    columns: Sequence[Column],
    timezone: str,
    stream: StreamShape,
    route_format: str,
    *,
    elsewhere: Collection[str] = (),
) -> Decoder:
    """The decoder from the stream to the insertable ``columns`` of the table ``name``.

    ``elsewhere`` names the columns of the other routed tables: those of the stream that only they have are ignored.
    Raises PreflightError CHS-212 or CHS-213 when the stream's own columns are not the tables'.
    """
    metadata = tuple(c for c in columns if c.name in METADATA_COLUMNS)
    payload = tuple(c for c in columns if c.name not in METADATA_COLUMNS)
    if reads_value(columns, stream):
        return DECODERS[route_format](Columns(payload, metadata, timezone))
    _check_columns(name, columns, stream.columns, elsewhere)
    given = tuple(c for c in payload if c.name in stream.columns)
    return ColumnRecords(Columns(given, metadata, timezone))


def _check_columns(name: str, columns: Sequence[Column], given: tuple[str, ...], elsewhere: Collection[str]) -> None:
    known = PASSED_THROUGH.union((c.name for c in columns), elsewhere)
    unknown = [c for c in given if c not in known]
    if unknown:
        raise preflight.COLUMN_UNKNOWN(table=name, columns=", ".join(unknown))
    required = [
        c.name
        for c in columns
        if c.name not in given and c.name not in METADATA_COLUMNS and not c.default_kind and "Nullable(" not in c.type
    ]
    if required:
        raise preflight.COLUMN_REQUIRED(table=name, columns=", ".join(required))
