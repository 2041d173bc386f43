"""All that decides what a record becomes, with one fingerprint: a range in doubt is sent again only by the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from chsink.decode.columns import Column
from chsink.formats.decoders import KAFKA_COLUMNS
from chsink.ports import Decoder, StreamShape
from chsink.statemachine.table import ADDED, DEAD_LETTERS, TABLE_BY

TRANSFORM = "transform"
"""The part that names what was done to the records before they are decoded."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """The shape of Kafka's source itself, without a transform."""

    isolation_level: str
    columns: tuple[str, ...] = KAFKA_COLUMNS
    transform: str = ""


@dataclass(frozen=True, slots=True)
class Letters:
    """The identity of where dead letters go, and the ``fates`` of records without a row, by the key that sets them."""

    place: str
    fates: Mapping[str, str]


GROWS = "evolution=add_columns"
"""A part as it is: a chunk has the announced columns, and those of its own further fields, which are added before it is
sent.  So its columns follow from the announcement and its records alone.
"""


def grows(fingerprint: str) -> bool:
    """Whether chunks of a range that was announced under it have columns for all of their fields."""
    return GROWS in fingerprint.split(",")


def fingerprint(
    decoder: Decoder,
    stream: StreamShape,
    tables: Sequence[str],
    letters: Letters | None = None,
    *,
    growing: bool = False,
    added: Sequence[Column] = (),
) -> str:
    """``name=digest`` parts, so that a change can be named.  ``tables`` are the identities of the table's shards.  With
    dead letters, where they go is a part, and the fates are parts as they are.  ``added`` are the columns that chunks
    of a range may fill beyond those of the ``decoder``.
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
    """What decides which table takes a record: another transform may give a record another table, too."""
    return [choice, stream.transform] if stream.transform else choice


def part_of(fingerprint: str, name: str) -> str:
    """A part of a fingerprint by its name, "" where it has none."""
    return dict(part.partition("=")[::2] for part in fingerprint.split(",")).get(name, "")


def digest_of(value: object) -> str:
    """What a fingerprint says of a part that is this JSON document."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=5).hexdigest()
