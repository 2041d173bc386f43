"""A dead letter as it is read again, from a topic or a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from chsink.dlq.place import LettersTopic
from chsink.dlq.search import letters_in


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the record is in Kafka, why it has no row in ``table``, and the record itself."""

    topic: str
    partition: int
    offset: int
    table: str
    column: str
    error_id: str
    reason: str
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def without_record(self) -> dict[str, Any]:
        """What may be listed: nothing of the record's content."""
        content = ("key", "value", "headers")
        return {name: value for name, value in asdict(self).items() if name not in content}

    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        headers = [[name, _text(value)] for name, value in self.headers]
        return {**self.without_record(), "key": _text(self.key), "value": _text(self.value), "headers": headers}


def _text(content: bytes | None) -> str | dict[str, str] | None:
    """As text where it is UTF-8, otherwise as hexadecimal digits."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"hex": content.hex()}


def kept_in_topic(place: LettersTopic) -> Iterator[Kept]:
    """The sink's dead letters in a topic, in the order in which it holds them.  Raises KafkaException."""
    for letter in letters_in(place):
        why = letter.why
        if why["chsink.sink"] == place.sink:
            yield Kept(
                why["chsink.topic"],
                int(why["chsink.partition"]),
                int(why["chsink.offset"]),
                why["chsink.table"],
                why["chsink.column"],
                why["chsink.error_id"],
                why["chsink.reason"],
                letter.timestamp_ms,
                letter.key,
                letter.value,
                letter.headers,
            )


TABLE_COLUMNS = (
    "_kafka_topic, toInt64(_kafka_partition), toInt64(_kafka_offset), `table`, column, error_id, reason, timestamp_ms, "
    "toJSONString(tuple(hex(key), isNull(key), hex(value), isNull(value), "
    "arrayMap(h -> (h.1, hex(h.2), isNull(h.2)), headers)))"
)
"""What is selected of a table of dead letters, for :func:`kept_row`."""


def kept_row(row: tuple[Any, ...]) -> Kept:
    """A row of a table of dead letters, selected as ``TABLE_COLUMNS``."""
    topic, partition, offset, table, column, error_id, reason, timestamp_ms, record = row
    key, no_key, value, no_value, headers = json.loads(record)
    return Kept(
        topic,
        partition,
        offset,
        table,
        column,
        error_id,
        reason,
        timestamp_ms,
        _bytes(key, no_key),
        _bytes(value, no_value),
        tuple((name, _bytes(content, absent)) for name, content, absent in headers),
    )


def _bytes(digits: str | None, is_null: int) -> bytes | None:
    return None if is_null or digits is None else bytes.fromhex(digits)
