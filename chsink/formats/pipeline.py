"""All that decides what a record becomes, with one fingerprint: a range in doubt is sent again only by the same one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from chsink.formats.registry import KAFKA_COLUMNS
from chsink.ports import Decoder, StreamShape
from chsink.statemachine.table import DEAD_LETTERS


@dataclass(frozen=True, slots=True)
class Untouched:
    """The shape of Kafka's source itself, without a transform."""

    isolation_level: str
    columns: tuple[str, ...] = KAFKA_COLUMNS
    transform: str = ""


def fingerprint(decoder: Decoder, stream: StreamShape, tables: Sequence[str], letters: str = "") -> str:
    """``name=digest`` parts, so that a change can be named.  ``tables`` are the identities of the table's shards,
    ``letters`` that of where dead letters go, "" where there are none.
    """
    parts = (
        *decoder.parts(),
        ("transform", stream.transform),
        ("isolation", stream.isolation_level),
        ("table", list(tables)),
        *([(DEAD_LETTERS, letters)] if letters else []),
    )
    return ",".join(f"{name}={_digest(part)}" for name, part in parts)


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=5).hexdigest()
