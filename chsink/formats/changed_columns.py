"""What an altered table changed since a range was announced: which column, and what it was.

The recorded fingerprint holds a digest of the columns, not their list.  So changes of the present columns are undone,
one at a time, until the digest matches: then that change, and no other, was made.  This finds a column that is new (or
two), has another type or DEFAULT, or stands elsewhere, and another time zone of the server.  A column that was dropped
or renamed is not found: its old name is recorded nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from itertools import combinations
from typing import Final
from zoneinfo import available_timezones

from chsink.decode.columns import Column
from chsink.formats.announced_columns import as_announced
from chsink.formats.columns import ColumnRecords
from chsink.formats.metadata import COLUMNS, Columns
from chsink.formats.pipeline import digest_of, digest_of_text, part_of
from chsink.formats.records import Records
from chsink.formats.table_by_decoder import ChosenRecords
from chsink.ports import Decoder

_BITS: Final = (8, 16, 32, 64, 128, 256)
_PLAIN: Final = (
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in _BITS),
    *("String", "Bool", "Float32", "Float64", "Date", "Date32", "UUID", "IPv4", "IPv6", "JSON"),
    *("DateTime", "DateTime('UTC')"),
    *(f"DateTime64({digits}{zone})" for digits in (0, 3, 6, 9) for zone in ("", ", 'UTC'")),
    *(f"Decimal({digits}, {scale})" for digits in (9, 18, 38) for scale in range(min(digits, 10) + 1)),
)
_TYPES: Final = tuple(
    form.format(kind)
    for kind in _PLAIN
    for form in ("{}", "Nullable({})", "LowCardinality({})", "LowCardinality(Nullable({}))", "Array({})")
)
_MOST_MOVED: Final = 60
"""Columns of a table in which a column that was moved is looked for: the search grows with their square."""


def column_change(decoder: Decoder, recorded: str) -> str:
    """What differs from the columns of the fingerprint ``recorded``, in words; "" if nothing that matters, or unknown.

    Columns behind the announced ones do not matter (:mod:`chsink.formats.announced_columns`).
    """
    decoder = as_announced(decoder, recorded)
    inner = decoder.decoder if isinstance(decoder, ChosenRecords) else decoder
    if not isinstance(inner, Records | ColumnRecords):
        return ""
    wanted = part_of(recorded, COLUMNS)
    if digest_of(inner.table.part()[1]) == wanted:
        return ""
    return next((words for words, digest in _undone(inner.table) if digest == wanted), "")


def _undone(table: Columns) -> Iterator[tuple[str, str]]:
    """Each change that may have been made, and the digest without it."""
    columns = (*table.payload, *table.metadata)
    texts, zone = [_text(column) for column in columns], table.timezone
    for at, column in enumerate(columns):
        yield f"column {column.name} is new", _digest([*texts[:at], *texts[at + 1 :]], zone)
    for at, column in enumerate(columns):
        for was, old in _earlier(column):
            words = f"column {column.name} is {_declared(column)} now, and was {was}"
            yield words, _digest([*texts[:at], _text(old), *texts[at + 1 :]], zone)
    for one, other in combinations(range(len(columns)), 2):
        left = [text for at, text in enumerate(texts) if at not in {one, other}]
        yield f"columns {columns[one].name} and {columns[other].name} are new", _digest(left, zone)
    if len(columns) <= _MOST_MOVED:
        for at, column in enumerate(columns):
            rest = [*texts[:at], *texts[at + 1 :]]
            for to in range(len(columns)):
                yield f"column {column.name} was moved", _digest([*rest[:to], texts[at], *rest[to:]], zone)
    for other_zone in sorted(available_timezones()):
        yield f"the server's time zone is {zone} now, and was {other_zone}", _digest(texts, other_zone)


def _earlier(column: Column) -> Iterator[tuple[str, Column]]:
    """What a column may have been before one ALTER, with its declaration."""
    bare = replace(column, default_kind="", default_expression="")
    others = [replace(base, type=kind) for base in dict.fromkeys((column, bare)) for kind in (column.type, *_TYPES)]
    for old in others:
        if old != column:
            yield _declared(old), old


def _declared(column: Column) -> str:
    return f"{column.type} DEFAULT {column.default_expression}" if column.has_default else column.type


def _text(column: Column) -> str:
    return json.dumps(astuple(column))


def _digest(columns: Sequence[str], timezone: str) -> str:
    """As :func:`digest_of` the part for these columns, whose texts are ready."""
    return digest_of_text(f"[[{', '.join(columns)}], {json.dumps(timezone)}]")
