"""Guesses the format of a topic's records from a sample of their values.

A format is accepted if nine in ten values have it: a few bad records must not hide what a topic holds.  Formats are
tried from the most specific one to the most general one; ``raw`` fits anything.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

ENOUGH: Final = 0.9
"""The share of the values that must have the format."""
DELIMITERS: Final = ",;|"
_HEADER: Final = 5
"""Confluent's wire format: a zero byte, four bytes of schema id."""
_KINDS: Final = {"AVRO": ("avro", "Avro"), "PROTOBUF": ("protobuf", "Protobuf"), "JSON": ("json_schema", "JSON")}
"""The format of each kind of registered schema, and its name for people."""


@dataclass(frozen=True, slots=True)
class Guess:
    """``format`` and its ``options``, as a route of the job file takes them.  ``what`` says what the ``count`` matching
    values are, ``notes`` what a person should look at.
    """

    format: str
    count: int
    what: str
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def registered(self) -> bool:
        """Whether a registry holds its schemas."""
        return self.format in {name for name, _ in _KINDS.values()}


def guess(values: Sequence[bytes], kind_of: Callable[[int], str]) -> Guess:
    """The format of these values (at least one).  ``kind_of`` gives the kind of a registered schema by its id."""
    enough = max(1, ENOUGH * len(values))
    found = (each for each in (*_registered(values, kind_of, enough), *_known(values)) if each.count >= enough)
    return next(found, Guess("raw", len(values), "bytes of no format that most of them share", notes=(_ONE_COLUMN,)))


_ONE_COLUMN = "the whole value goes into one column"


def _registered(values: Sequence[bytes], kind_of: Callable[[int], str], enough: float) -> Iterator[Guess]:
    ids = Counter(int.from_bytes(v[1:_HEADER]) for v in values if v[:1] == b"\0" and len(v) >= _HEADER)
    if ids.total() >= enough:
        format_, name = _KINDS[kind_of(ids.most_common(1)[0][0])]
        yield Guess(format_, ids.total(), f"{name} with a registered schema")


def _known(values: Sequence[bytes]) -> Iterator[Guess]:
    objects = [found for value in values if (found := _members(value)) is not None]
    beside = [each["payload"] for each in objects if each.keys() == {"schema", "payload"}]  # nothing else gets lost
    inner = [found for payload in beside if (found := _members(payload)) is not None]
    changes = sum(map(_is_change, objects)) + sum(map(_is_change, inner))
    yield Guess("debezium", changes, "Debezium change events", {"deleted_column": "__deleted"}, (_CHANGES,))
    yield Guess("json", len(inner), "JSON objects that carry their schema", {"envelope": "$.payload"})
    yield Guess("json", len(objects), "JSON objects")
    texts = [text for value in values if (text := _text(value)) is not None]
    yield from _delimited(texts)
    yield Guess("string", len(texts), "text", notes=(_ONE_COLUMN,))


_CHANGES = (
    "each change becomes a row, with __deleted = 1 for a delete; to keep the latest state of each row, see "
    "version_column and primary_key in docs/formats.md; without a schema, decimals are base64 text and times are "
    "numbers: name these columns in the format's decimals and epoch"
)


def _members(value: bytes | msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    """The members of a JSON object; None for anything else."""
    try:
        return msgspec.json.decode(value or b"", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_change(members: dict[str, msgspec.Raw]) -> bool:
    return "op" in members and "source" in members and ("before" in members or "after" in members)


def _text(value: bytes) -> str | None:
    """The value as text; None if it is not UTF-8, or has control characters other than tabs and line ends."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\t\r\n" for c in text) else None


def _delimited(texts: Sequence[str]) -> Iterator[Guess]:
    """Rows with the same number of fields, two or more."""
    for delimiter in ("\t", *DELIMITERS):
        widths = Counter(width for text in texts if (width := _fields(text, delimiter)) > 1)
        if not widths:
            continue
        fields, count = widths.most_common(1)[0]
        columns = [f"field_{number}" for number in range(1, fields + 1)]
        note = f"the records do not name their {fields} fields: choose the names and types of the columns"
        if delimiter == "\t":
            yield Guess("tsv", count, f"rows of {fields} fields, separated by tabs", {"columns": columns}, (note,))
        else:
            own = {} if delimiter == "," else {"delimiter": delimiter}
            what = f"rows of {fields} fields, separated by {delimiter!r}"
            yield Guess("csv", count, what, {**own, "columns": columns}, (note,))


def _fields(text: str, delimiter: str) -> int:
    """The number of fields if the text is one row; 0 otherwise, and for an array of JSON."""
    text = text.rstrip("\r\n")
    if "\n" in text or delimiter not in text or text.startswith("["):
        return 0
    if delimiter == "\t":
        return text.count("\t") + 1
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return 0
    return len(rows[0]) if rows else 0
