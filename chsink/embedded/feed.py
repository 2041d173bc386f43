"""What ``chsink dev sql`` and ``chsink dev produce`` do: a first table and first records without other tools."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from chsink.embedded import topics
from chsink.errors import local

_ANSWER_LIMIT_S: Final = 120
_REPORT_EVERY: Final = 10_000


def run_sql(address: str, statement: str) -> str:
    """What the ClickHouse server at ``host:port`` answers to one statement, as text.

    Raises CHS-909 with the server's words when it refuses, CHS-905 when it does not answer.
    """
    options = urllib.parse.urlencode({"default_format": "PrettyCompactNoEscapes"})
    try:
        with urllib.request.urlopen(
            f"http://{address}/?{options}", data=statement.encode(), timeout=_ANSWER_LIMIT_S
        ) as answer:
            text: str = answer.read().decode(errors="replace")
    except urllib.error.HTTPError as refused:
        reason = refused.read().decode(errors="replace").strip()
        raise local.DEV_SQL_REFUSED(address=address, reason=reason) from refused
    except OSError as error:
        raise local.SERVICE_SILENT(service="clickhouse", address=address, reason=error) from error
    return text


def send_lines(
    bootstrap: str, topic: str, path: Path, partitions: int, key_separator: str | None = None
) -> Iterator[int]:
    """Send each line of the file as one record, in turn to each partition; yields how many were sent so far.

    With ``key_separator``, what is before it in a line is the record's key, which decides the partition; a line with
    nothing behind it is a tombstone.  A topic that is not there is created with ``partitions`` partitions.  Empty lines
    are left out.  Raises CHS-905 when Kafka does not take all of them.
    """
    there = topics.partition_count(bootstrap, topic)
    if there is None:
        topics.create_topic(bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", "log_level": 0})
    failed: list[str] = []
    sent = 0
    with path.open("rb") as lines:
        for line in filter(None, (line.rstrip(b"\r\n") for line in lines)):
            _send(producer, topic, _record(line, key_separator), sent % (there or partitions), failed)
            sent += 1
            if sent % _REPORT_EVERY == 0:
                yield sent
    if producer.flush(topics.LIMIT_S) or failed:
        reason = failed[0] if failed else "no answer"
        raise local.KAFKA_REFUSED(what=f"store all records of topic {topic}", reason=reason)
    yield sent


def _note(failed: list[str]) -> Callable[[KafkaError | None, object], None]:
    """Keeps why records were not stored."""

    def note(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failed.append(error.str())

    return note


def _record(line: bytes, key_separator: str | None) -> tuple[bytes | None, bytes | None]:
    """The key and the value in a line."""
    key, found, value = line.partition(key_separator.encode()) if key_separator else (b"", b"", line)
    return (key, value or None) if found else (None, line)


def _send(
    producer: Producer, topic: str, record: tuple[bytes | None, bytes | None], partition: int, failed: list[str]
) -> None:
    """Queue one record; waits while the queue is full."""
    while True:
        try:
            at = partition if record[0] is None else -1  # by the key
            producer.produce(topic, record[1], record[0], partition=at, on_delivery=_note(failed))
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            raise local.KAFKA_REFUSED(what=f"send to topic {topic}", reason=error) from error
        else:
            producer.poll(0)
            return
