"""The pipeline fingerprint: it covers everything that decides which row a record becomes.

A range in doubt is sent again only by a pipeline with the recorded fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from chsink.decode.columns import Column
from chsink.formats.decoders import KAFKA_COLUMNS
from chsink.ports import Decoder, StreamShape
from chsink.statemachine.table import ADDED, DEAD_LETTERS, TABLE_BY, parts_of

TRANSFORM = "transform"
"""The name of the fingerprint's part for the transform."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """The shape of Kafka's source itself, without a transform."""

    isolation_level: str
    columns: tuple[str, ...] = KAFKA_COLUMNS
    transform: str = ""


@dataclass(frozen=True, slots=True)
class LetterSettings:
    """The identity of the topic or table of dead letters (``place``), and the setting for each kind of record without a
    row (``fates``), by its configuration key.
    """

    place: str
    fates: Mapping[str, str]


GROWS = "evolution=add_columns"
"""A part without a digest: chunks may add columns to the table.  A chunk has the announced columns and one for each new
field of its records, added before the chunk is sent.  So the announcement and the records alone decide its columns.
"""


def grows(fingerprint: str) -> bool:
    """Whether a range announced under this fingerprint adds columns for new fields (see :data:`GROWS`)."""
    return GROWS in fingerprint.split(",")


def fingerprint(
    decoder: Decoder,
    stream: StreamShape,
    tables: Sequence[str],
    letters: LetterSettings | None = None,
    *,
    growing: bool = False,
    added: Sequence[Column] = (),
) -> str:
    """The fingerprint as ``name=digest`` parts, so that an error can name the part that changed.

    ``tables`` are the identities of the table's shards.  ``letters`` adds a digest of the place and the fates as plain
    text.  ``growing`` adds :data:`GROWS`.  ``added`` are columns that chunks may fill beyond those of the ``decoder``.
    """
    parts = (
        *((name, _whole_choice(part, stream) if name == TABLE_BY else part) for name, part in decoder.parts()),
        (TRANSFORM, stream.transform),
        ("isolation", stream.isolation_level),
        ("table", list(tables)),
        *([] if letters is None else [(DEAD_LETTERS, letters.place)]),
    )
    fates = {} if letters is None else letters.fates
    plain = [*(f"{k}={v}" for k, v in fates.items()), *([GROWS] if growing else [])]
    if added:
        plain.append(f"{ADDED}={':'.join(digest_of(astuple(column)) for column in added)}")
    return ",".join([*(f"{name}={digest_of(part)}" for name, part in parts), *plain])


def _whole_choice(choice: object, stream: StreamShape) -> object:
    """The choice, and the transform if there is one: a different transform may assign a record to a different table."""
    return [choice, stream.transform] if stream.transform else choice


def part_of(fingerprint: str, name: str) -> str:
    """The value of the fingerprint's part ``name``; "" if it has no such part."""
    return parts_of(fingerprint).get(name, "")


def digest_of(value: object) -> str:
    """The digest of a JSON document, as it stands in a fingerprint."""
    return digest_of_text(json.dumps(value))


def digest_of_text(document: str) -> str:
    """The same of its text."""
    return hashlib.blake2b(document.encode(), digest_size=5).hexdigest()
