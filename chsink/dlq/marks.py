"""Replay marks: they say that a dead letter's record has a row now.  In a topic, a replay mark is a message.

Rules:
- A mark is sent once all rows of its list are there, and names the list: so one mark says that all of the list has
  landed.  A mark that comes late, twice, or without others does no harm, and marks need no transaction.
- A mark goes to the partitions of its dead letters.  Kafka deletes a partition's records in their order, so a dead
  letter goes before its mark.  A topic that is compacted keeps no such order: replays refuse it.
- A mark has headers only: its key and its value are null, and its headers name the place of the dead letter and the
  digest of its record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from chsink.dlq.digest import DIGEST
from chsink.dlq.kept import KeptLetters
from chsink.dlq.letters import without_record
from chsink.dlq.place import LetterPlace, LettersTopic, replay_sink
from chsink.dlq.search import MARK
from chsink.driver.roles import Assignment

_AT_ONCE: Final = 10_000
"""No more wait in the producer."""
_log = logging.getLogger("chsink.librdkafka.dead_letters")


def marks_of(assignment: Assignment, replayed: Sequence[KeptLetters]) -> pa.RecordBatch:
    """The replay marks of these dead letters, as rows of a table of dead letters.  A mark has the place, timestamp and
    digest of the record, nothing else; digest and list are headers, as in a topic.
    """
    nonce = assignment.record.life.nonce.encode()
    headers = [[{"key": MARK, "value": nonce}, {"key": DIGEST, "value": one.digest.encode()}] for one in replayed]
    times = [(one.timestamp_ms, one.timestamp_type) for one in replayed]
    return without_record(assignment.key, [one.offset for one in replayed], "replayed", headers, times)


def send_marks(place: LettersTopic, nonce: str, marks: Iterable[tuple[LetterPlace, str, int]]) -> None:
    """Mark each dead letter of a list, given by place and digest, in the given partition of the topic.  Returns once
    all marks are there.  Raises KafkaException otherwise: then some may be there.
    """
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error)

    settings = {**place.options, "acks": "all", "message.timeout.ms": round(place.timeout_s * 1000)}
    producer = Producer(settings, logger=_log)
    for number, (letter, digest, partition) in enumerate(marks, 1):
        producer.produce(
            place.topic, partition=partition, headers=_headers(place.sink, nonce, letter, digest), on_delivery=delivered
        )
        if number % _AT_ONCE == 0:
            _flush(producer, place, refused)
    _flush(producer, place, refused)


def _flush(producer: Producer, place: LettersTopic, refused: list[KafkaError]) -> None:
    if producer.flush(place.timeout_s) or refused:
        raise KafkaException(refused[0] if refused else KafkaError(KafkaError._TIMED_OUT))


def _headers(sink: str, nonce: str, letter: LetterPlace, digest: str) -> list[tuple[str, Any]]:
    said = {
        MARK: nonce,
        "chsink.sink": replay_sink(sink),
        "chsink.table": letter.table,
        "chsink.topic": letter.topic,
        "chsink.partition": letter.partition,
        "chsink.offset": letter.offset,
        DIGEST: digest,
    }
    return [(name, str(value).encode()) for name, value in said.items()]
