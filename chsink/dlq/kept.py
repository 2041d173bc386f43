"""A dead letter as it is read again, from a topic or a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from chsink.dlq.digest import digest_of
from chsink.dlq.letters import DELETED_ID
from chsink.dlq.place import LettersTopic, replay_sink
from chsink.dlq.search import Heard, Letter, ReplayMark, held_in, letters_in


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """Where the record is in Kafka, why it has no row in ``table``, and the record itself.

    ``timestamp_type``: 0 for the producer's time, 1 for the broker's, -1 for none.  ``replayed``: it has a row since.
    ``nonce``: of the range with which it was delivered; empty where that is not known.
    """

    topic: str
    partition: int
    offset: int
    table: str
    column: str
    error_id: str
    reason: str
    timestamp_ms: int
    timestamp_type: int
    replayed: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    nonce: str = ""

    @property
    def lists_deleted(self) -> bool:
        """Whether it lists offsets that Kafka deleted: there is no record."""
        return self.error_id == DELETED_ID

    @property
    def digest(self) -> str:
        """Equal for two dead letters of one record; see :mod:`chsink.dlq.digest`."""
        return digest_of(self.timestamp_ms, self.key, self.value, self.headers)

    def without_record(self) -> dict[str, Any]:
        """What may be listed: nothing of the record's content."""
        content = ("key", "value", "headers", "nonce")
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


def kept_of(letter: Letter, *, replayed: bool) -> KeptLetters:
    """A dead letter of a topic."""
    why, at = letter.why, letter.place
    return KeptLetters(
        at.topic,
        at.partition,
        at.offset,
        at.table,
        why["chsink.column"],
        why["chsink.error_id"],
        why["chsink.reason"],
        letter.timestamp_ms,
        int(why["chsink.timestamp_type"]),
        replayed,
        letter.key,
        letter.value,
        letter.headers,
        why["chsink.nonce"],
    )


def kept_in_topic(place: LettersTopic, heard: Heard = lambda _: None) -> Iterator[KeptLetters]:
    """The sink's dead letters in a topic, in the order in which it holds them.  Replay marks follow their dead letters,
    so the topic is read twice.  Raises KafkaException.
    """
    replays = replay_sink(place.sink)
    held = held_in(place, heard=heard)
    marked = {(one.place, one.digest) for one in held if isinstance(one, ReplayMark) and one.sink == replays}
    for letter in letters_in(place):
        if letter.sink == place.sink:
            yield kept_of(letter, replayed=(letter.place, letter.digest) in marked)


def bytes_of(digits: str | None, is_null: int) -> bytes | None:
    """Of hexadecimal digits."""
    return None if is_null or digits is None else bytes.fromhex(digits)
