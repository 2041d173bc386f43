"""Replay marks in a topic of dead letters: records that say that a dead letter's record has a row since.

Rules:
- A mark is sent once all rows of its list are there, and names the list: so one mark says that all of the list has
  landed.  A mark that comes late, twice, or without others does no harm, and marks need no transaction.
- A mark goes to the partitions of its dead letters.  Kafka deletes a partition's records in their order, so a dead
  letter goes before its mark.  A topic that is compacted keeps no such order: replays refuse it.
- A mark has headers only: its key and its value are null, and its headers name the place of the dead letter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from chsink.dlq.place import LetterPlace, LettersTopic, replay_sink
from chsink.dlq.search import MARK

_AT_ONCE: Final = 10_000
"""No more wait in the producer."""
_log = logging.getLogger("chsink.librdkafka.dead_letters")


def send_marks(place: LettersTopic, nonce: str, marks: Iterable[tuple[LetterPlace, int]]) -> None:
    """Mark each dead letter of a list in the given partition of the topic.  Returns once all marks are there.  Raises
    KafkaException otherwise: then some may be there.
    """
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error)

    settings = {**place.options, "acks": "all", "message.timeout.ms": round(place.timeout_s * 1000)}
    producer = Producer(settings, logger=_log)
    for number, (letter, partition) in enumerate(marks, 1):
        producer.produce(
            place.topic, partition=partition, headers=_headers(place.sink, nonce, letter), on_delivery=delivered
        )
        if number % _AT_ONCE == 0:
            _flush(producer, place, refused)
    _flush(producer, place, refused)


def _flush(producer: Producer, place: LettersTopic, refused: list[KafkaError]) -> None:
    if producer.flush(place.timeout_s) or refused:
        raise KafkaException(refused[0] if refused else KafkaError(KafkaError._TIMED_OUT))


def _headers(sink: str, nonce: str, letter: LetterPlace) -> list[tuple[str, Any]]:
    said = {
        MARK: nonce,
        "chsink.sink": replay_sink(sink),
        "chsink.table": letter.table,
        "chsink.topic": letter.topic,
        "chsink.partition": letter.partition,
        "chsink.offset": letter.offset,
    }
    return [(name, str(value).encode()) for name, value in said.items()]
