"""Topics of a local broker: each change is awaited, so that the next line of a program finds it done.

A broker acknowledges a new topic before its partitions are served, and a deleted one before clients stop seeing it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from chsink.errors import local

LIMIT_S: Final = 30.0
_POLL_S: Final = 0.02
# librdkafka prints each refused connection otherwise, also while a broker is expected to be down.
_QUIET: Final = logging.getLogger("chsink.embedded.topics.librdkafka")
_QUIET.setLevel(logging.CRITICAL)


def create_topic(bootstrap: str, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until every partition is served; raises CHS-905 when the broker refuses."""
    assert partitions > 0, partitions
    admin = _admin(bootstrap)
    with _reported(f"create topic {name}"):
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([topic], operation_timeout=LIMIT_S)[name].result(LIMIT_S)
        _await(f"the partitions of topic {name}", lambda: _served(admin, name) == partitions)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic and wait until clients no longer see it."""
    admin = _admin(bootstrap)
    with _reported(f"delete topic {name}"):
        admin.delete_topics([name], operation_timeout=LIMIT_S)[name].result(LIMIT_S)
        _await(f"the removal of topic {name}", lambda: _served(admin, name) is None)


def delete_records(bootstrap: str, name: str, partition: int, before: int) -> None:
    """Drop the offsets below ``before`` of one partition, as retention would."""
    admin = _admin(bootstrap)
    with _reported(f"delete records of topic {name}"):
        for answer in admin.delete_records([TopicPartition(name, partition, before)]).values():
            answer.result(LIMIT_S)


def partition_count(bootstrap: str, name: str) -> int | None:
    """How many partitions the topic has; None when there is no such topic."""
    with _reported(f"read topic {name}"):
        return _served(_admin(bootstrap), name)


def answers(bootstrap: str, timeout_s: float = 1.0) -> bool:
    """Whether a broker serves requests there now."""
    try:
        return bool(_admin(bootstrap).list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return False


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}, logger=_QUIET)


def _served(admin: AdminClient, name: str) -> int | None:
    """How many partitions of the topic answer a request; None when there is no such topic.

    Metadata names a leader before that leader has the partition's log, so the leaders themselves are asked.
    """
    topic = admin.list_topics(name, timeout=LIMIT_S).topics[name]
    if topic.error is not None:
        if topic.error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return None
        raise KafkaException(topic.error)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    questions = {TopicPartition(name, partition): latest for partition in topic.partitions}
    answers = admin.list_offsets(questions, request_timeout=LIMIT_S).values() if questions else ()
    return sum(answer.exception(LIMIT_S) is None for answer in answers)


def _await(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise local.KAFKA_WAITED(limit_s=f"{LIMIT_S:g}", what=what)
        time.sleep(_POLL_S)


@contextlib.contextmanager
def _reported(what: str) -> Iterator[None]:
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        raise local.KAFKA_REFUSED(what=what, reason=error) from error
